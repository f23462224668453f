"""Distributions conditional on an interval whose mass, as a difference of two cdfs, cancels.

The mass is computed without a difference: probabilities of counts are summed, densities are integrated over
``u = (y - low) / width`` in [0, 1]. This stays accurate if the interval is narrow relative to its distance
from 0, or lies between the modes of a mixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.kronrod import add_panels

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["MOST_COUNTS", "Narrow", "NarrowCounts"]

_ENOUGH = 1e-15  # error allowed in a panel, relative to the integral
MOST_COUNTS = 1024  # counts in an interval up to which probabilities are summed
_STEPS = 12  # Newton steps; three suffice, since the density is nearly constant
_CLOSE = 1e-14  # relative error of a level, or of its complement, at which a quantile is accepted

# Returns quantiles (m,) of distributions (m,) between low and high ends (m,), at levels (m,).
Inverse: TypeAlias = "Callable[[Predictive, Array, Array, Array], Array]"


class Narrow:
    """Continuous distributions with a density, restricted to intervals of finite width.

    Parameters
    ----------
    base : Predictive
        Distributions (n,) of numbers.
    low, high : ndarray (n,)
        Finite ends.

    Attributes
    ----------
    log_mass : ndarray (n,)
        Logarithms of the masses between the ends; -inf where the density between them is 0.
    """

    def __init__(self, base: Predictive, low: Array, high: Array) -> None:
        self.base, self.low, self.high = base, low, high
        self.width = high - low
        with np.errstate(all="ignore"):
            heights = np.stack([base.log_prob(self.at(u)) for u in (0.1, 0.3, 0.5, 0.7, 0.9)])
            height = np.where(np.isfinite(heights), heights, -np.inf).max(axis=0)
            self._height = np.where(np.isfinite(height), height, 0.0)
            every = np.arange(len(low))
            self._total = self._integral(every, np.zeros(len(low)), np.ones(len(low)))
            self.log_mass = self._height + np.log(self.width) + np.log(self._total)

    def at(self, u: Array | float) -> Array:
        """Return the numbers at shares u of the width."""
        return np.asarray(np.minimum(self.low + self.width * u, self.high))

    def place(self, y: Array) -> Array:
        """Return the shares of the width at numbers, clipped to [0, 1]."""
        return np.clip((np.clip(y, self.low, self.high) - self.low) / self.width, 0.0, 1.0)

    def below(self, u: Array) -> Array:
        """Return the conditional masses below shares of the width."""
        every = np.arange(len(u))
        return np.asarray(np.minimum(self._integral(every, np.zeros(len(u)), u) / self._total, 1.0))

    def above(self, u: Array) -> Array:
        """Return the conditional masses above shares of the width."""
        every = np.arange(len(u))
        return np.asarray(np.minimum(self._integral(every, u, np.ones(len(u))) / self._total, 1.0))

    def moments(self) -> tuple[Array, Array]:
        """Return means and standard deviations (n,)."""
        every, zero, one = np.arange(len(self.low)), np.zeros(len(self.low)), np.ones(len(self.low))
        mean = self._integral(every, zero, one, lambda rows, u: u) / self._total
        square = self._integral(every, zero, one, lambda rows, u: (u - mean[rows]) ** 2)
        return self.at(mean), self.width * np.sqrt(square / self._total)

    def crps(self, y: Array) -> Array:
        """Return the continuous ranked probability scores of finite y."""
        place = self.place(y)
        zero, one = np.zeros(len(y)), np.ones(len(y))

        def squares(rows: NDArray[np.intp], middle: Array) -> Callable[[Array], Array]:
            left = middle < place[rows]

            def values(u: Array) -> Array:
                start, end = np.where(left, 0.0, u), np.where(left, u, 1.0)
                return np.asarray((self._integral(rows, start, end) / self._total[rows]) ** 2)

            return values

        score = zero.copy()
        rows = np.tile(np.arange(len(y)), 2)
        ends = np.concatenate([zero, place]), np.concatenate([place, one])
        add_panels(score, squares, rows, *ends, _ENOUGH)
        return np.asarray(np.abs(y - np.clip(y, self.low, self.high)) + self.width * score)

    def quantiles(self, levels: Array, inverse: Inverse) -> Array:
        """Return quantiles (n, j).

        Uses Newton's method; ``inverse`` computes the quantiles where it fails.
        """
        n, count = levels.shape
        rows, level = np.repeat(np.arange(n), count), np.ascontiguousarray(levels).ravel()
        part = Narrow(self.base.take(rows), self.low[rows], self.high[rows])
        u = level.copy()
        with np.errstate(all="ignore"):
            for _ in range(_STEPS):
                gap = np.where(u < 0.5, part.below(u) - level, 1 - level - part.above(u))
                slope = np.exp(part.base.log_prob(part.at(u)) - part._height) / part._total
                u = np.clip(u - gap / slope, 0.0, 1.0)
                unsolved = np.abs(gap) > _CLOSE * np.minimum(level, 1 - level)
                if not (unsolved & (level > 0) & (level < 1)).any():
                    break
        result = part.at(u)
        result = np.where(level <= 0, part.low, np.where(level >= 1, part.high, result))
        # Quantiles that Newton's method has not solved to the nearest double.
        resolved = np.spacing(np.abs(result)) * slope / part.width
        failed = np.flatnonzero(
            ~(np.abs(gap) <= 1e-9 * np.minimum(level, 1 - level) + 4 * resolved)
        )
        failed = failed[(level[failed] > 0) & (level[failed] < 1)]
        if len(failed):
            ends = part.low[failed], part.high[failed]
            result[failed] = inverse(part.base.take(failed), *ends, level[failed])
        return result.reshape(n, count)

    def _integral(
        self,
        rows: NDArray[np.intp],
        left: Array,
        right: Array,
        factor: Callable[[NDArray[np.intp], Array], Array] | None = None,
    ) -> Array:
        """Return integrals (p,) of the scaled density of rows (p,), times a factor, from left to right."""
        total = np.zeros(len(rows))

        def integrand(panels: NDArray[np.intp], places: Array) -> Callable[[Array], Array]:
            del places
            panel_rows = rows[panels]
            part, height = self.base.take(panel_rows), self._height[panel_rows]
            low, width, high = self.low[panel_rows], self.width[panel_rows], self.high[panel_rows]

            def values(u: Array) -> Array:
                density = np.exp(part.log_prob(np.minimum(low + width * u, high)) - height)
                return density if factor is None else density * factor(panel_rows, u)

            return values

        with np.errstate(all="ignore"):
            add_panels(total, integrand, np.arange(len(rows)), left, right, _ENOUGH)
        return total


class NarrowCounts:
    """Distributions of counts, restricted to intervals that hold few counts.

    Parameters
    ----------
    base : Predictive
        Distributions (n,) of counts.
    low, high : ndarray (n,)
        Finite ends, at most `MOST_COUNTS` counts apart.

    Attributes
    ----------
    counts, weights : ndarray (n, m)
        The counts from the lower end on, and their conditional probabilities (0 beyond the upper end).
    log_mass : ndarray (n,)
        Logarithms of the masses between the ends; -inf where there is no mass.
    """

    counts: Array
    weights: Array
    log_mass: Array

    def __init__(self, base: Predictive, low: Array, high: Array) -> None:
        first = np.ceil(low)
        length = int((np.floor(high) - first).max(initial=0.0)) + 1
        self.counts = first[:, None] + np.arange(length)
        logs = np.stack([base.log_prob(column) for column in self.counts.T], axis=1)
        logs = np.where(self.counts <= high[:, None], logs, -np.inf)
        largest = logs.max(axis=1, initial=-np.inf)
        height = np.where(np.isfinite(largest), largest, 0.0)
        masses = np.exp(logs - height[:, None])
        total = masses.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.log_mass = height + np.log(total)
            self.weights = masses / total[:, None]

    def place(self, y: Array) -> Array:
        """Return the numbers unchanged."""
        return y

    def below(self, y: Array) -> Array:
        """Return the conditional masses up to and including numbers."""
        return np.asarray(np.where(self.counts <= y[:, None], self.weights, 0.0).sum(axis=1))

    def above(self, y: Array) -> Array:
        """Return the conditional masses above numbers."""
        return np.asarray(np.where(self.counts > y[:, None], self.weights, 0.0).sum(axis=1))

    def moments(self) -> tuple[Array, Array]:
        """Return means and standard deviations (n,)."""
        first = self.counts[:, :1]
        steps = self.counts - first
        mean = np.einsum("nm,nm->n", self.weights, steps)
        square = np.einsum("nm,nm->n", self.weights, (steps - mean[:, None]) ** 2)
        return first[:, 0] + mean, np.sqrt(square)

    def crps(self, y: Array) -> Array:
        """Return the continuous ranked probability scores of finite y."""
        below = np.cumsum(self.weights, axis=1)[
            :, :-1
        ]  # on the unit interval that follows each count
        above = np.cumsum(self.weights[:, ::-1], axis=1)[:, -2::-1]
        left = np.clip(y[:, None] - self.counts[:, :-1], 0.0, 1.0)
        inside = np.clip(y, self.counts[:, 0], self.counts[:, -1])
        score = (below**2 * left + above**2 * (1 - left)).sum(axis=1)
        return np.asarray(np.abs(y - inside) + score)
