"""Rows of an evaluation in the orders that weighted measures need, sorted once for many sets of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fastmcmd import _core
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.metrics.point_sums import median_of_sorted
from fastmcmd.metrics.variance import LEAST_VARIANCE, MOST_VARIANCE
from fastmcmd.metrics.variance_bins import Cells, mass_bins, mass_cuts
from fastmcmd.metrics.variance_curve import VarianceCurve, conclude_variance
from fastmcmd.predictive.base import Array

if TYPE_CHECKING:
    from fastmcmd.evaluation.context import Settings

__all__ = ["Presorted", "running_weights"]


@dataclass(frozen=True, eq=False)
class Presorted:
    """Absolute errors in ascending order, and squared errors by ascending predicted variance.

    Attributes
    ----------
    errors : ndarray (n,)
        Ascending absolute errors.
    by_error, by_spread : ndarray (n,)
        Rows in ascending order of absolute errors and of predicted variances.
    variance, squares : ndarray (n,) or None
        Ascending predicted variances, and the squared errors of their rows; None if variances cannot be
        binned, or not in equal mass.
    first : ndarray (c + 1,) or None
        First rows of the c distinct variances, and n; None if all differ.
    bins : int
        Number of bins.
    """

    errors: Array
    by_error: NDArray[np.intp]
    by_spread: NDArray[np.intp]
    variance: Array | None
    squares: Array | None
    first: NDArray[np.intp] | None
    bins: int

    @classmethod
    def of(cls, rows: Outcomes, settings: Settings) -> Presorted:
        """Return the sorted rows, whatever their weights."""
        gaps, variance = rows.prediction.mean - rows.y, rows.prediction.variance
        sizes = np.abs(gaps)
        by_error, by_spread = np.argsort(sizes), np.argsort(variance)
        ascending, first = variance[by_spread], None
        with np.errstate(over="ignore"):
            squares = (gaps * gaps)[by_spread]
        fits = ascending[0] >= LEAST_VARIANCE and ascending[-1] <= MOST_VARIANCE
        binned = settings.binning == "mass" and fits and bool(np.isfinite(squares).all())
        if binned and (ascending[1:] == ascending[:-1]).any():
            first = np.flatnonzero(np.diff(ascending, prepend=-1.0, append=np.inf))
        bins = min(settings.bins, len(ascending))
        return cls(
            sizes[by_error], by_error, by_spread,
            ascending if binned else None, squares if binned else None, first, bins,
        )  # fmt: skip

    def median_error(self, weights: Array) -> float:
        """Return the weighted median of absolute errors."""
        return median_of_sorted(self.errors, running_weights(weights, self.by_error)[0][1:])

    def variance_curve(self, weights: Array) -> VarianceCurve:
        """Return the curve of `ence_curve`; its outer edges may be those of rows without weight.

        Rows between cells that are split make one piece each: the bins of the pieces are those of the rows.
        """
        mass, _ = running_weights(weights, self.by_spread)
        if self.first is not None:
            mass = mass[self.first]
        _, cell = mass_cuts(mass, self.bins)
        ends = np.unique(np.concatenate([[0], cell, cell + 1, [len(mass) - 1]]))
        if self.first is not None:
            ends = self.first[ends]
        variance = cast(Array, self.variance)
        sums = np.empty((len(ends) - 1, 4))
        _core.spread_pieces(
            weights, self.by_spread, variance, cast(Array, self.squares), ends, sums
        )
        pieces = Cells(np.sqrt(variance[ends[:-1]]), sums[:, :3], sums[:, 3])
        return conclude_variance(mass_bins(pieces, self.bins), len(weights), "mass")


def running_weights(weights: Array, order: NDArray[np.intp]) -> tuple[Array, float]:
    """Return cumulative weights (n + 1,) of rows in an order, from 0 on, and the sum of their squares."""
    cumulative = np.empty(len(weights) + 1)
    return cumulative, _core.running_weights(weights, order, cumulative)
