"""Recalibrators of standard deviations: by a factor, by bins, or by isotonic regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd._base.checks import check_count
from fastmcmd.errors import RowError
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.bins import cube_root_rule, equal_mass, positive_std
from fastmcmd.recalibration.rescaled import rescale
from fastmcmd.recalibration.state import check_number, check_vector

__all__ = ["HistogramBinningStd", "IsotonicStd", "StdScaling"]


class StdScaling(Recalibrator):
    """Multiplies all standard deviations by ``s``, the root mean square of ``z = (y - mean) / std``.

    Attributes
    ----------
    scale_ : float
        The factor s.

    Notes
    -----
    ``s^2 = mean z^2`` minimises ``T log s + sum (y - mu)^2 / (2 s^2 sigma^2)``, the negative log likelihood
    of Gaussians. Levi, Gispan, Giladi & Fetaya, *Evaluating and Calibrating Uncertainty Prediction in
    Regression Tasks* (2019), print that objective in equation 12 with the wrong sign and factor of its
    first term, and minimise it numerically. Gaussians stay Gaussians and draws stay draws. Other continuous
    distributions are stretched around their means (`Rescaled`). Counts raise an error.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import StdScaling
    >>> y = np.array([-3.0, 3.0])
    >>> StdScaling().fit((np.zeros(2), 1.0), y)
    StdScaling(), fitted: scale_=3
    """

    scale_: float

    def __init__(self) -> None:
        pass

    def check_state(self) -> None:
        """Raise ValueError unless the factor is valid."""
        super().check_state()
        check_number(self.scale_, "scale_")

    def learn(self, rows: Outcomes) -> None:
        """Set the factor."""
        rescale(rows.prediction.take(np.arange(1)), 1.0)  # refuses counts before, not after
        z = rows.y - rows.prediction.mean
        z /= positive_std(rows.prediction)
        z *= z
        scale = float(np.sqrt(rows.mean(z)))
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(
                f"the root mean square of (y - mean) / std is {scale:g}; a positive finite one is needed"
            )
        self.scale_ = scale

    def apply(self, prediction: Predictive) -> Predictive:
        """Return predictions with scaled standard deviations."""
        return rescale(prediction, self.scale_)


class HistogramBinningStd(Recalibrator):
    """Replaces each standard deviation by the root mean square error of its bin.

    Parameters
    ----------
    bins : int, default 10
        Number of bins of equal mass by predicted standard deviation; fewer if predictions repeat.

    Attributes
    ----------
    edges_ : ndarray (b - 1,)
        Standard deviations between bins, halfway between the predictions on either side.
    stds_ : ndarray (b,)
        Root mean square errors of the bins.

    Notes
    -----
    This is the method of Zadrozny & Elkan, *Obtaining calibrated probability estimates from decision trees
    and naive Bayesian classifiers* (ICML 2001), for variances instead of probabilities. With the same bins,
    the ENCE of Levi et al. (2019) is 0 on the rows used for fitting, but not on others. All predictions in
    a bin get the same std. Counts raise an error.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import HistogramBinningStd
    >>> prediction = fm.Gaussian(np.zeros(4), [1.0, 1.1, 5.0, 5.1])
    >>> recalibrator = HistogramBinningStd(bins=2).fit(prediction, [-2.0, 2.0, 3.0, -3.0])
    >>> recalibrator.transform(prediction).std.round(12).tolist()
    [2.0, 2.0, 3.0, 3.0]
    """

    edges_: Array
    stds_: Array

    def __init__(self, bins: int = 10) -> None:
        self.bins: Any = check_count(bins, "bins")

    def check_state(self) -> None:
        """Raise ValueError unless bins and their standard deviations are valid."""
        super().check_state()
        check_vector(self.edges_, "edges_")
        check_vector(self.stds_, "stds_", len(self.edges_) + 1, positive=True, ascending=False)

    def learn(self, rows: Outcomes) -> None:
        """Set edges and root mean square errors."""
        std, square, weights = _weighted_rows(rows)
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


class IsotonicStd(Recalibrator):
    """Replaces variances by a nondecreasing function of them, fitted to squared errors.

    Parameters
    ----------
    bins : "auto", int or None, default "auto"
        Number of bins of equal mass by predicted variance in which rows are averaged first. "auto" is
        ``2 n^(1/3)``; None does not average, as in the definition.

    Attributes
    ----------
    variances_ : ndarray (b,)
        Mean predicted variances of the bins.
    errors_ : ndarray (b,)
        Fitted mean squared errors of the bins, nondecreasing.

    Notes
    -----
    Isotonic regression returns the nondecreasing function nearest to the squared errors in weighted least
    squares. It is linear between bins and constant beyond, as in scikit-learn. Without bins it is not
    consistent at its ends, where single rows with small or large errors lead to variances that are far too
    small or large; averages of ``n^(2/3) / 2`` rows avoid this. Counts raise an error.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import IsotonicStd
    >>> prediction = fm.Gaussian(np.zeros(4), [1.0, 2.0, 3.0, 4.0])
    >>> recalibrator = IsotonicStd(bins=None).fit(prediction, [-2.0, 2.0, 3.0, -1.0])
    >>> recalibrator.transform(prediction).variance.round(12).tolist()
    [4.0, 4.0, 5.0, 5.0]
    """

    variances_: Array
    errors_: Array

    def __init__(self, bins: int | str | None = "auto") -> None:
        self.bins: Any = check_count(bins, "bins", also=("auto",), optional=True)

    def check_state(self) -> None:
        """Raise ValueError unless the fitted function is valid."""
        super().check_state()
        check_vector(self.variances_, "variances_", positive=True)
        check_vector(self.errors_, "errors_", len(self.variances_), positive=True)

    def learn(self, rows: Outcomes) -> None:
        """Set the fitted function."""
        from scipy.optimize import isotonic_regression

        std, square, weights = _weighted_rows(rows)
        variance = std**2
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
    """Return Kish's effective number of distinct rows; a repeated row adds no information."""
    order = np.lexsort((square, variance))
    new = (np.diff(variance[order]) > 0) | (np.diff(square[order]) > 0)
    first = np.flatnonzero(np.concatenate([[True], new]))
    mass = np.add.reduceat(weights[order], first)
    return float(mass.sum() ** 2 / np.sum(mass**2))


def _weighted_rows(rows: Outcomes) -> tuple[Array, Array, Array]:
    """Return predicted stds, squared errors and weights of rows with positive weight, for bins."""
    rescale(rows.prediction.take(np.arange(1)), 1.0)  # refuses counts before, not after
    std = positive_std(rows.prediction)
    with np.errstate(over="ignore"):
        square = (rows.y - rows.prediction.mean) ** 2
    if not np.isfinite(square).all():
        row = int(np.argmin(np.isfinite(square)))
        raise RowError(
            f"y[{row}] is {rows.y[row]:g}: its squared distance from the predicted mean leaves float64; "
            "rescale y",
            row,
        )
    weights = np.ones(len(std)) if rows.weights is None else rows.weights
    if weights.all():
        return std, square, weights
    some = np.flatnonzero(weights)
    return std[some], square[some], weights[some]
