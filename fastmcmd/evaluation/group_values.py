"""Measures of all groups of rows from one pass over the rows, where they are sums over rows or medians."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.cached import cached_property
from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.row_means import terms_of
from fastmcmd.metrics.reliability_sums import ECE_LEVELS, TOOLBOX_LEVELS, area_to_diagonal
from fastmcmd.predictive.base import Array

__all__ = ["RowGroups"]

_FAR = 1e200  # squares beyond, or below its inverse, may have lost digits
_NUMBERS = 1 << 20  # of curves at a time
_INTERVAL_ERRORS = (
    "rms_calibration_error",
    "mean_absolute_calibration_error",
    "miscalibration_area",
)
_LEAST_SPREAD = 1e-8  # relative to the mean, below which deviations from it lose digits


@dataclass(frozen=True)
class RowGroups:
    """Groups of the rows of an evaluation.

    Attributes
    ----------
    context : Context
        All rows.
    order : ndarray (m,)
        Rows, group by group.
    starts, counts : ndarray (g,)
        Place of the first row of each group in ``order``, and its number of rows.
    """

    context: Context
    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    counts: NDArray[np.intp]

    @staticmethod
    def of(context: Context, group: NDArray[np.intp]) -> RowGroups:
        """Return the groups 0, 1, ... of rows (m,); each has a row."""
        counts = np.bincount(group)
        return RowGroups(
            context, np.argsort(group, kind="stable"), np.cumsum(counts) - counts, counts
        )

    def values(self, name: str) -> Array | None:
        """Return a measure of each group (g,), or None if it is computed group by group.

        A value is NaN where the rows of the group alone must decide: a sum is not finite, or rounding
        may cost digits.
        """
        with np.errstate(all="ignore"):
            terms = terms_of(name, self.context)
            if terms is not None:
                values, unit = terms
                means = self._means(values[self.order])
                values = means if unit is None else unit * np.sqrt(_in_range(means))
            elif name in _BEYOND_MEANS and self.context.numbers:
                values = _BEYOND_MEANS[name](self)
            else:
                return None
        return np.where(np.isfinite(values), values, np.nan)

    def _sums(self, values: Array) -> Array:
        """Return weighted sums (g,) of values in the order of groups."""
        weights = self.context.weights
        return np.asarray(
            np.add.reduceat(
                values if weights is None else weights[self.order] * values, self.starts
            )
        )

    def _mass(self) -> HostArray:
        """Return the weight of each group."""
        return self.counts if self.context.weights is None else self._sums(np.ones(len(self.order)))

    def _means(self, values: Array) -> Array:
        return np.asarray(self._sums(values) / self._mass())

    def _centred(self, values: Array) -> tuple[Array, Array]:
        """Return means (g,), and deviations (m,) in the order of groups from the mean of each."""
        values = values[self.order]
        means = self._means(values)
        values = values - np.repeat(means, self.counts)
        return means, values - np.repeat(self._means(values), self.counts)

    def _squares(self, means: Array, deviations: Array) -> Array:
        """Return sums of squares, NaN where they are out of range or vanish next to the mean."""
        squares = _in_range(self._sums(deviations**2))
        return np.where(squares > self._mass() * (_LEAST_SPREAD * means) ** 2, squares, np.nan)

    def _r2(self) -> Array:
        errors = (self.context.y - self.context.prediction.mean)[self.order]
        return 1 - _in_range(self._sums(errors**2)) / self._squares(*self._centred(self.context.y))

    def _pearson(self) -> Array:
        y, point = self._centred(self.context.y), self._centred(self.context.prediction.mean)
        size = np.sqrt(self._squares(*y)) * np.sqrt(self._squares(*point))
        return np.clip(self._sums(y[1] * point[1]) / size, -1.0, 1.0)

    def _variation(self) -> Array:
        means, deviations = self._centred(self.context.prediction.std)
        return np.sqrt(self._squares(means, deviations) / (self._mass() - 1)) / means

    def _regression_ece(self) -> Array:
        shares = self._curves(lambda some: self._weights_to(ECE_LEVELS, "left", some))
        return np.concatenate([np.mean(np.abs(part - ECE_LEVELS), axis=1) for part in shares])

    @cached_property
    def _interval_errors(self) -> dict[str, Array]:
        """Summaries (g,) of the distance of each group's curve of central intervals from the diagonal."""
        levels = TOOLBOX_LEVELS
        low, high = (0.5 - levels / 2)[::-1], 0.5 + levels / 2

        def within(some: slice) -> Array:
            below = self._weights_to(low, "right", some)[:, ::-1]
            return self._weights_to(high, "left", some) - below

        parts = [
            (
                np.sqrt(np.mean(gaps**2, axis=1)),
                np.mean(np.abs(gaps), axis=1),
                area_to_diagonal(levels, gaps),
            )
            for gaps in (shares - levels for shares in self._curves(within))
        ]
        return dict(
            zip(_INTERVAL_ERRORS, map(np.concatenate, zip(*parts, strict=True)), strict=True)
        )

    def _interval_error(self, name: str) -> Array:
        return self._interval_errors[name]

    def _curves(self, weights_within: Callable[[slice], Array]) -> Iterator[Array]:
        """Yield the shares (b, j) of the rows of some groups after the other whose PIT is within levels."""
        step = max(1, _NUMBERS // len(TOOLBOX_LEVELS))  # groups
        mass = self._mass()
        for some in row_blocks(len(self.starts), step):
            yield weights_within(some) / mass[some, None]

    def _weights_to(self, levels: Array, side: Literal["left", "right"], some: slice) -> Array:
        """Return the weight of PIT values up to ascending levels ("left"), or below them, by group."""
        starts, counts = self.starts[some], self.counts[some]
        rows = self.order[starts[0] : starts[-1] + counts[-1]]
        place = np.searchsorted(levels, self.context.pit[rows], side)
        place += np.repeat(np.arange(len(starts)) * (len(levels) + 1), counts)
        weights = None if self.context.weights is None else self.context.weights[rows]
        sums = np.bincount(place, weights, len(starts) * (len(levels) + 1))
        return np.cumsum(sums.reshape(len(starts), -1)[:, :-1], axis=1)

    def _median_error(self) -> Array:
        if self.context.weights is not None:
            return np.full(len(self.starts), np.nan)
        errors = np.abs(self.context.y - self.context.prediction.mean)[self.order]
        group = np.repeat(np.arange(len(self.starts)), self.counts)
        errors = errors[np.lexsort((errors, group))]
        low, high = self.starts + (self.counts - 1) // 2, self.starts + self.counts // 2
        return np.asarray((errors[low] + errors[high]) / 2)


def _in_range(squares: Array) -> Array:
    """Return squares, with NaN where they may have lost digits."""
    return np.where((squares > 1 / _FAR) & (squares < _FAR), squares, np.nan)


_BEYOND_MEANS: dict[str, Callable[[RowGroups], Array]] = {
    "median_absolute_error": RowGroups._median_error,
    "r2": RowGroups._r2,
    "pearson": RowGroups._pearson,
    "variance_variation": RowGroups._variation,
    "regression_ece": RowGroups._regression_ece,
    **{name: partial(RowGroups._interval_error, name=name) for name in _INTERVAL_ERRORS},
}
