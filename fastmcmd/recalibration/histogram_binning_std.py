"""Standard deviations by bins of the predicted ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.checks import check_count
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.bins import equal_mass, positive_std
from fastmcmd.recalibration.rescaled import rescale
from fastmcmd.recalibration.state import check_vector

__all__ = ["HistogramBinningStd"]


class HistogramBinningStd(Recalibrator):
    """Replaces standard deviations by the root mean square error of the bin that they fall into.

    Parameters
    ----------
    bins : int, default 10
        Bins of equal mass by predicted standard deviation; fewer where predictions repeat.

    Attributes
    ----------
    edges_ : ndarray (b - 1,)
        Standard deviations between bins, halfway between the predictions on either side.
    stds_ : ndarray (b,)
        Root mean square errors of the bins.

    Notes
    -----
    Zadrozny & Elkan, *Obtaining calibrated probability estimates from decision trees and naive Bayesian
    classifiers* (ICML 2001), for variances instead of probabilities. With the same bins it makes the
    ENCE of Levi et al. (2019) 0 on the rows it was fitted on, not on others. Within a bin all predictions
    get the same std. Counts are refused.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import HistogramBinningStd
    >>> prediction = fm.Gaussian(np.zeros(4), [1.0, 1.1, 5.0, 5.1])
    >>> found = HistogramBinningStd(bins=2).fit(prediction, [-2.0, 2.0, 3.0, -3.0])
    >>> found.transform(prediction).std.round(12).tolist()
    [2.0, 2.0, 3.0, 3.0]
    """

    edges_: Array
    stds_: Array

    def __init__(self, bins: int = 10) -> None:
        self.bins: Any = check_count(bins, "bins")

    def check_state(self) -> None:
        """Raise ValueError where bins or their standard deviations are none."""
        super().check_state()
        check_vector(self.edges_, "edges_")
        check_vector(self.stds_, "stds_", len(self.edges_) + 1, positive=True, ascending=False)

    def learn(self, rows: Outcomes) -> None:
        """Set edges and root mean square errors."""
        rescale(rows.prediction.take(np.arange(1)), 1.0)
        std = positive_std(rows.prediction)
        weights = np.ones(len(std)) if rows.weights is None else rows.weights
        square = (rows.y - rows.prediction.mean) ** 2
        if not weights.all():  # rows without weight must not shape the bins
            kept = np.flatnonzero(weights)
            std, weights, square = std[kept], weights[kept], square[kept]
        label, count = equal_mass(std, weights, self.bins)
        mass = np.bincount(label, weights, count)
        square *= weights
        stds = np.sqrt(np.bincount(label, square, count) / mass)
        if not (stds > 0).all():
            raise ValueError(
                f"bin {int(np.argmin(stds))} of {count} has only errors of 0, and no std > 0 fits them; "
                "use fewer bins"
            )
        last, first = np.zeros(count), np.full(count, np.inf)
        np.maximum.at(last, label, std)
        np.minimum.at(first, label, std)
        middle = (last[:-1] + first[1:]) / 2
        self.edges_ = np.where(middle > last[:-1], middle, first[1:])
        self.stds_ = stds

    def apply(self, prediction: Predictive) -> Predictive:
        """Return predictions with the standard deviations of their bins."""
        std = positive_std(prediction)
        label = np.searchsorted(self.edges_, std, side="right")
        return rescale(prediction, self.stds_[label] / std)
