"""Rows of an evaluation in the orders that weighted measures need, sorted once for many sets of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.metrics.point_sums import median_of_sorted
from fastmcmd.metrics.variance import LEAST_VARIANCE, MOST_VARIANCE
from fastmcmd.metrics.variance_bins import Cells, mass_bins
from fastmcmd.metrics.variance_curve import VarianceCurve, conclude_variance
from fastmcmd.predictive.base import Array

if TYPE_CHECKING:
    from fastmcmd.evaluation.context import Settings

__all__ = ["Presorted"]


@dataclass(frozen=True, eq=False)
class Presorted:
    """Absolute errors in ascending order, and squared errors by ascending predicted variance.

    Attributes
    ----------
    errors : ndarray (n,)
        Ascending absolute errors.
    by_error, by_spread : ndarray (n,)
        Rows in ascending order of absolute errors and of predicted variances.
    cells : Cells or None
        One cell per row, each of weight 1; None if variances cannot be binned, or not in equal mass.
    first : ndarray or None
        First rows of equal variances; None if all differ.
    bins : int
        Number of bins.
    """

    errors: Array
    by_error: NDArray[np.intp]
    by_spread: NDArray[np.intp]
    cells: Cells | None
    first: NDArray[np.intp] | None
    bins: int

    @classmethod
    def of(cls, rows: Outcomes, settings: Settings) -> Presorted:
        """Return the sorted rows, whatever their weights."""
        gaps, variance = rows.prediction.mean - rows.y, rows.prediction.variance
        sizes = np.abs(gaps)
        by_error, by_spread = np.argsort(sizes), np.argsort(variance)
        spread = variance[by_spread]
        cells, first = None, None
        with np.errstate(over="ignore"):
            squares = (gaps * gaps)[by_spread]
        fits = spread[0] >= LEAST_VARIANCE and spread[-1] <= MOST_VARIANCE
        if settings.binning == "mass" and fits and np.isfinite(squares).all():
            sums = np.stack([np.ones_like(spread), spread, squares]).T  # each column is contiguous
            cells = Cells(np.sqrt(spread), sums, spread * spread)
            new = np.concatenate([[True], spread[1:] != spread[:-1]])
            first = None if new.all() else np.flatnonzero(new)
        bins = min(settings.bins, len(spread))
        return cls(sizes[by_error], by_error, by_spread, cells, first, bins)

    def median_error(self, weights: Array) -> float:
        """Return the weighted median of absolute errors."""
        return median_of_sorted(self.errors, weights[self.by_error])

    def variance_curve(self, weights: Array) -> VarianceCurve:
        """Return the curve of `ence_curve`; its outer edges may be those of rows without weight."""
        sorted_weights = weights[self.by_spread]
        cells = cast(Cells, self.cells)
        spread, sums, noise = (
            cells.spread,
            (cells.sums.T * sorted_weights).T,
            cells.noise * (sorted_weights * sorted_weights),
        )
        if self.first is not None:
            spread, sums = spread[self.first], np.add.reduceat(sums, self.first, axis=0)
            noise = np.add.reduceat(noise, self.first)
        return conclude_variance(
            mass_bins(Cells(spread, sums, noise), self.bins), len(sorted_weights), "mass"
        )
