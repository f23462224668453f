"""Standard deviations by isotonic regression of squared errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.checks import check_count
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.bins import cube_root_rule, equal_mass, positive_std
from fastmcmd.recalibration.rescaled import rescale
from fastmcmd.recalibration.state import check_vector

__all__ = ["IsotonicStd"]


class IsotonicStd(Recalibrator):
    """Replaces variances by a nondecreasing function of them, fitted to squared errors.

    Parameters
    ----------
    bins : "auto", int or None, default "auto"
        Rows are first averaged in bins of equal mass by predicted variance: that many; "auto" for
        ``2 n^(1/3)``; None for none, as in the definition.

    Attributes
    ----------
    variances_ : ndarray (b,)
        Mean predicted variances of the bins.
    errors_ : ndarray (b,)
        Fitted mean squared errors there, nondecreasing.

    Notes
    -----
    Isotonic regression: the nondecreasing function nearest to the squared errors in weighted least
    squares; linear between bins and constant beyond, as in scikit-learn. Without bins it is not consistent
    at its ends, where single rows with small or large errors stand alone and give far too small or large
    variances; averages of ``n^(2/3) / 2`` rows do not. Counts are refused.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import IsotonicStd
    >>> prediction = fm.Gaussian(np.zeros(4), [1.0, 2.0, 3.0, 4.0])
    >>> found = IsotonicStd(bins=None).fit(prediction, [-2.0, 2.0, 3.0, -1.0])
    >>> found.transform(prediction).variance.round(12).tolist()
    [4.0, 4.0, 5.0, 5.0]
    """

    variances_: Array
    errors_: Array

    def __init__(self, bins: Any = "auto") -> None:
        self.bins: Any = check_count(bins, "bins", also=("auto",), optional=True)

    def check_state(self) -> None:
        """Raise ValueError where the fitted function is none."""
        super().check_state()
        check_vector(self.variances_, "variances_", positive=True)
        check_vector(self.errors_, "errors_", len(self.variances_), positive=True)

    def learn(self, rows: Outcomes) -> None:
        """Set the fitted function."""
        from scipy.optimize import isotonic_regression

        rescale(rows.prediction.take(np.arange(1)), 1.0)
        variance = positive_std(rows.prediction) ** 2
        weights = np.ones(len(variance)) if rows.weights is None else rows.weights
        square = (rows.y - rows.prediction.mean) ** 2
        if not weights.all():  # rows without weight must not shape the bins
            kept = np.flatnonzero(weights)
            variance, weights, square = variance[kept], weights[kept], square[kept]
        bins = self.bins
        if bins == "auto":
            bins = cube_root_rule(_effective(variance, square, weights))
        label, count = equal_mass(variance, weights, bins)
        mass = np.bincount(label, weights, count).astype(np.float64)
        errors = isotonic_regression(
            np.bincount(label, weights * square, count) / mass, weights=mass
        ).x
        if not errors[0] > 0:
            raise ValueError(
                "the smallest predicted variances have only errors of 0, and no std > 0 fits them; use "
                "fewer bins"
            )
        self.variances_ = np.bincount(label, weights * variance, count) / mass
        self.errors_ = errors

    def apply(self, prediction: Predictive) -> Predictive:
        """Return predictions with fitted variances."""
        variance = positive_std(prediction) ** 2
        return rescale(
            prediction, np.sqrt(np.interp(variance, self.variances_, self.errors_) / variance)
        )


def _effective(variance: Array, square: Array, weights: Array) -> float:
    """Return Kish's effective number of distinct rows: a repeated row tells nothing new."""
    order = np.lexsort((square, variance))
    new = (np.diff(variance[order]) > 0) | (np.diff(square[order]) > 0)
    first = np.flatnonzero(np.concatenate([[True], new]))
    mass = np.add.reduceat(weights[order], first)
    return float(mass.sum() ** 2 / np.sum(mass**2))
