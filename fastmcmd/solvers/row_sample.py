"""Importance sampling of rows: which rows to look at, and sums over all rows estimated from them.

The rows that matter most by any of several guesses of their size are always taken. The others are drawn
with a probability proportional to a mixture of those guesses (which includes a uniform one), and their sum
is estimated by the Hansen-Hurwitz estimator ``sum_i v_i ~ mean(v_s / q_s)``. The mixture bounds the loss of
a wrong guess: with J guesses the variance is at most J times that of the best of them, and a row never has
less than 1/J of its share under any of them.

What no sample can promise: rows that carry much of the sum, that every guess calls ordinary, and that are
fewer than about ``J sum(size) / (draws size_i)``. Such a group of m rows in n is missed with probability
``(1 - m / n)^draws`` where the guesses are equal for all rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fastmcmd._base.annotations import Array

__all__ = ["RowSample"]

_STANDARD_ERRORS = 4.0


class RowSample:
    """Rows that are always taken, and rows drawn by importance.

    Parameters
    ----------
    n : int
        Number of rows.
    sizes : iterable of ndarray (n,)
        Guesses, up to a factor each, of the terms of the sum; not negative.
    certain : int
        How many of the largest rows by each guess are always taken.
    drawn : int
        Draws among the others, with replacement.
    rng : numpy.random.Generator
        Source of the draws.

    Attributes
    ----------
    rows : ndarray (s,)
        Distinct rows in the sample, in order.
    certain : ndarray (s,)
        Which of them are always taken.
    """

    def __init__(
        self, n: int, sizes: Iterable[Array], certain: int, drawn: int, rng: np.random.Generator
    ) -> None:
        chance, always, guesses = np.zeros(n), np.zeros(n, dtype=bool), 0
        for size in sizes:
            largest = float(size.max(initial=0.0))
            if not (largest > 0.0 and np.isfinite(largest)):
                continue
            # Relative to the largest: sums of sizes near the ends of the exponent range do not overflow.
            size = size / largest
            top = np.argpartition(size, max(0, n - certain))[-certain:]
            always[top[size[top] > 0.0]] = True
            chance += size / size.sum()
            guesses += 1
        if guesses == 0:
            chance[:] = 1.0
        chance[always] = 0.0
        others = int(n - always.sum())
        self._total = float(chance.sum())
        if others <= drawn or not self._total > 0.0:
            if others <= drawn:  # all rows: the sum is exact
                always[:] = True
            picked = np.empty(0, dtype=np.intp)
        else:
            # Systematic: evenly spaced levels from a random start, each drawn exactly with its chance.
            levels = (np.arange(drawn) + rng.random(drawn)) / drawn * self._total
            picked = np.minimum(np.searchsorted(np.cumsum(chance), levels), n - 1)
            # A level that rounding puts on a row without any chance belongs to the row before it.
            picked = picked[chance[picked] > 0.0]
        taken, where = np.unique(picked, return_inverse=True)
        self.rows = np.union1d(np.flatnonzero(always), taken)
        self.certain = always[self.rows]
        self._place = np.searchsorted(self.rows, taken)
        self._count = np.bincount(where, minlength=len(taken)).astype(np.float64)
        self._draws = max(1, len(picked))
        self._chance = chance[taken] / self._total if len(taken) else np.empty(0)

    def __len__(self) -> int:
        return len(self.rows)

    def estimate(self, values: Array) -> tuple[float, float]:
        """Return the estimate of the sum over all rows of ``values`` (s,), and its standard error."""
        total = float(values[self.certain].sum())
        if not len(self._place):
            return total, 0.0
        terms = values[self._place] / self._chance
        mean = float(self._count @ terms) / self._draws
        spread = float(self._count @ (terms - mean) ** 2) / max(1, self._draws - 1)
        return total + mean, float(np.sqrt(spread / self._draws))

    def upper(self, values: Array) -> float:
        """Return the estimate of a sum of ``values`` (s,) over all rows, with four standard errors."""
        total, error = self.estimate(values)
        return total + _STANDARD_ERRORS * error
