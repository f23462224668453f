"""Importance sampling of rows, and estimates of sums over all rows.

A sample always contains the rows that are largest by any of several guesses of their terms. The others are
drawn with a probability proportional to a mixture of the guesses (some callers include a uniform one), and
the Hansen-Hurwitz estimator ``sum_i v_i ~ mean(v_s / q_s)`` estimates their sum. The mixture limits the
effect of a wrong guess: with J guesses the variance is at most J times that of the best guess, and each row
has at least 1/J of its probability under any of them.

A sample may miss a group of rows that carries much of the sum: if every guess calls its rows ordinary, and
if it has fewer than about ``J sum(size) / (draws size_i)`` rows. If the guesses are equal for all rows, the
sample misses such a group of m rows in n with probability ``(1 - m / n)^draws``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array

__all__ = ["RowGuess", "RowSample"]

Index = NDArray[np.intp]

_STANDARD_ERRORS = 4.0


@dataclass(frozen=True, eq=False)
class RowGuess:
    """Guesses of the terms of some distinct ``rows`` (s,); they are 0 at all others."""

    rows: Index
    sizes: Array


class RowSample:
    """Rows that are always in the sample, and rows drawn by importance.

    Parameters
    ----------
    n : int
        Number of rows.
    sizes : iterable of ndarray (n,) or RowGuess
        Non-negative guesses of the terms of the sum, each up to a common factor.
    certain : int
        Number of the largest rows by each guess that are always in the sample.
    draws : int
        Number of draws among the others, with replacement.
    rng : numpy.random.Generator
        Source of the draws.

    Attributes
    ----------
    rows : ndarray (s,)
        Distinct rows in the sample, in ascending order.
    certain : ndarray (s,)
        Boolean mask of the rows that are always in the sample.
    """

    def __init__(
        self,
        n: int,
        sizes: Iterable[Array | RowGuess],
        certain: int,
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        chance, always, guesses = np.zeros(n), np.zeros(n, dtype=bool), 0
        for guess in sizes:
            rows: Index | slice = guess.rows if isinstance(guess, RowGuess) else slice(None)
            size: Array = guess.sizes if isinstance(guess, RowGuess) else guess
            largest = float(size.max(initial=0.0))
            if not (largest > 0.0 and np.isfinite(largest)):
                continue
            # Relative to the largest: sums of values near the ends of the exponent range do not overflow.
            size = size / largest
            top = np.argpartition(size, max(0, len(size) - certain))[-certain:]
            is_top = np.zeros(len(size), dtype=bool)
            is_top[top] = size[top] > 0.0
            always[rows] |= is_top
            chance[rows] += size / size.sum()
            guesses += 1
        if guesses == 0:
            chance[:] = 1.0
        chance[always] = 0.0
        uncertain_count = int(n - always.sum())
        self._total = float(chance.sum())
        if uncertain_count <= draws or not self._total > 0.0:
            if uncertain_count <= draws:  # all rows: the sum is exact
                always[:] = True
            picked = np.empty(0, dtype=np.intp)
        else:
            # Stratified: one uniform level in each of `draws` equal strata of the cumulative probability.
            # The variance is at most that of independent draws, whose standard error `estimate` returns.
            levels = (np.arange(draws) + rng.random(draws)) / draws * self._total
            picked = np.minimum(np.searchsorted(np.cumsum(chance), levels), n - 1)
            # A level that rounding assigns to a row of probability zero is dropped.
            picked = picked[chance[picked] > 0.0]
        sampled_rows, where = np.unique(picked, return_inverse=True)
        self.rows = np.union1d(np.flatnonzero(always), sampled_rows)
        self.certain = always[self.rows]
        self._place = np.searchsorted(self.rows, sampled_rows)
        self._count = np.bincount(where, minlength=len(sampled_rows)).astype(np.float64)
        self._draws = max(1, len(picked))
        self._chance = chance[sampled_rows] / self._total if len(sampled_rows) else np.empty(0)

    def __len__(self) -> int:
        return len(self.rows)

    def estimate(self, values: Array) -> tuple[float, float]:
        """Return an estimate of the sum of ``values`` (s,) over all rows, and its standard error."""
        total = float(values[self.certain].sum())
        if not len(self._place):
            return total, 0.0
        terms = values[self._place] / self._chance
        mean = float(self._count @ terms) / self._draws
        spread = float(self._count @ (terms - mean) ** 2) / max(1, self._draws - 1)
        return total + mean, float(np.sqrt(spread / self._draws))

    def upper(self, values: Array) -> float:
        """Return an estimate of the sum of ``values`` (s,) over all rows, plus four standard errors."""
        total, error = self.estimate(values)
        return total + _STANDARD_ERRORS * error
