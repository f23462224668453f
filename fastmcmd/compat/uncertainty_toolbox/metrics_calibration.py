"""Calibration of Gaussian predictions, as in ``uncertainty_toolbox.metrics_calibration``.

``fastmcmd.compat.uncertainty_toolbox`` lists what differs from the original.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fastmcmd import metrics
from fastmcmd._base.checks import as_array, check_choice, check_count, check_same_length
from fastmcmd.compat.uncertainty_toolbox.groups import PROPORTIONS, adversarial_group_calibration
from fastmcmd.compat.uncertainty_toolbox.inputs import (
    Vector,
    documented,
    gaussian,
    number,
    vector,
    vectors,
)
from fastmcmd.metrics import ReliabilityCurve
from fastmcmd.metrics.inputs import out_of_range

__all__ = [
    "adversarial_group_calibration",
    "get_prediction_interval",
    "get_proportion_in_interval",
    "get_proportion_lists",
    "get_proportion_lists_vectorized",
    "get_proportion_under_quantile",
    "get_quantile",
    "mean_absolute_calibration_error",
    "miscalibration_area",
    "miscalibration_area_from_proportions",
    "root_mean_squared_calibration_error",
    "sharpness",
]


class RecalibrationModel(Protocol):
    """An object that maps levels to observed shares, such as ``sklearn.isotonic.IsotonicRegression``."""

    def predict(self, levels: Vector, /) -> ArrayLike: ...


@documented
def sharpness(y_std: ArrayLike) -> float:
    """Return the root of the mean predicted variance.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        Standard deviations that are not positive and finite.

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import sharpness
    >>> sharpness([1.0, 7.0])
    5.0
    """
    (std,) = vectors(y_std=y_std)
    with np.errstate(over="ignore"):
        total = np.sum(std * std)
    if out_of_range(np.asarray(total)):  # squares leave the range of doubles
        return metrics.sharpness(np.zeros(len(std)), (np.zeros(len(std)), std))
    return float(np.sqrt(total / len(std)))


@documented
def root_mean_squared_calibration_error(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    num_bins: int = 100,
    vectorized: bool = False,
    recal_model: RecalibrationModel | None = None,
    prop_type: str = "interval",
) -> float:
    """Return the root mean square of observed minus expected proportions.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.compat.uncertainty_toolbox import root_mean_squared_calibration_error
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> root_mean_squared_calibration_error(np.zeros(4000), np.ones(4000), y) < 0.02
    True
    """
    curve = _curve(y_pred, y_std, y_true, num_bins, recal_model, prop_type)
    return curve.rms_calibration_error


@documented
def mean_absolute_calibration_error(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    num_bins: int = 100,
    vectorized: bool = False,
    recal_model: RecalibrationModel | None = None,
    prop_type: str = "interval",
) -> float:
    """Return the mean absolute difference of observed and expected proportions.

    Returns
    -------
    float

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import mean_absolute_calibration_error
    >>> round(mean_absolute_calibration_error([0.0, 0.0], [1.0, 1.0], [0.0, 9.0], 3), 6)
    0.166667
    """
    curve = _curve(y_pred, y_std, y_true, num_bins, recal_model, prop_type)
    return curve.mean_absolute_calibration_error


@documented
def miscalibration_area(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    num_bins: int = 100,
    vectorized: bool = False,
    recal_model: RecalibrationModel | None = None,
    prop_type: str = "interval",
) -> float:
    """Return the area between the curve of observed over expected proportions and the diagonal.

    Returns
    -------
    float

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import miscalibration_area
    >>> round(miscalibration_area([0.0, 0.0], [1.0, 1.0], [0.0, 0.0]), 6)
    0.5
    """
    curve = _curve(y_pred, y_std, y_true, num_bins, recal_model, prop_type)
    return curve.miscalibration_area


@documented
def miscalibration_area_from_proportions(
    exp_proportions: ArrayLike, obs_proportions: ArrayLike
) -> float:
    """Return the area between a curve of observed over expected proportions and the diagonal.

    Parameters
    ----------
    exp_proportions, obs_proportions : array_like (j,)
        Points of the curve, which is linear between them.

    Returns
    -------
    float

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox.metrics_calibration import (
    ...     miscalibration_area_from_proportions,
    ... )
    >>> miscalibration_area_from_proportions([0.0, 0.5, 1.0], [0.0, 1.0, 1.0])
    0.25
    """
    expected = vector(exp_proportions, "exp_proportions")
    observed = vector(obs_proportions, "obs_proportions")
    check_same_length(exp_proportions=expected, obs_proportions=observed)
    return ReliabilityCurve(
        expected, observed, observed, "interval", len(expected), float(len(expected))
    ).miscalibration_area


@documented
def get_proportion_lists_vectorized(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    num_bins: int = 100,
    recal_model: RecalibrationModel | None = None,
    prop_type: str = "interval",
) -> tuple[Vector, Vector]:
    """Return expected and observed proportions (j,) over even levels.

    Returns
    -------
    expected, observed : ndarray (num_bins,)
        Levels, and the share of outcomes in the central interval, or below the quantile, of each.

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import get_proportion_lists_vectorized
    >>> get_proportion_lists_vectorized([0.0, 0.0], [1.0, 1.0], [0.0, 9.0], 3)[1].tolist()
    [0.5, 0.5, 1.0]
    """
    curve = _curve(y_pred, y_std, y_true, num_bins, recal_model, prop_type)
    return curve.expected, curve.observed


@documented
def get_proportion_lists(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    num_bins: int = 100,
    recal_model: RecalibrationModel | None = None,
    prop_type: str = "interval",
) -> tuple[Vector, Vector]:
    """Return expected and observed proportions (j,) over even levels.

    Returns
    -------
    expected, observed : ndarray (num_bins,)
        As in `get_proportion_lists_vectorized`.
    """
    return get_proportion_lists_vectorized(y_pred, y_std, y_true, num_bins, recal_model, prop_type)


@documented
def get_proportion_in_interval(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike, quantile: float
) -> float:
    """Return the share of outcomes in the central interval of a probability.

    Parameters
    ----------
    quantile : float
        Probability of the interval, in [0, 1].

    Returns
    -------
    float

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import get_proportion_in_interval
    >>> get_proportion_in_interval([0.0, 0.0], [1.0, 1.0], [1.0, 2.0], 0.9)
    0.5
    """
    return _share(y_pred, y_std, y_true, quantile, "interval")


@documented
def get_proportion_under_quantile(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike, quantile: float
) -> float:
    """Return the share of outcomes below the predicted quantile.

    Parameters
    ----------
    quantile : float
        Level of the quantile, in [0, 1].

    Returns
    -------
    float

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox.metrics_calibration import (
    ...     get_proportion_under_quantile,
    ... )
    >>> get_proportion_under_quantile([0.0, 0.0], [1.0, 1.0], [1.0, 2.0], 0.9)
    0.5
    """
    return _share(y_pred, y_std, y_true, quantile, "quantile")


@documented
def get_prediction_interval(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    quantile: float,
    recal_model: RecalibrationModel | None = None,
) -> Namespace:
    """Return central prediction intervals of a probability.

    Parameters
    ----------
    quantile : float or array of one element
        Probability of the intervals, in (0, 1).
    recal_model : object with ``predict``, optional
        Maps the probability to the nominal probability that the model must use.

    Returns
    -------
    argparse.Namespace
        ``lower`` and ``upper``, ndarray (n,).

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import get_prediction_interval
    >>> get_prediction_interval([0.0], [1.0], 0.95).upper.round(3).tolist()
    [1.96]
    """
    mean, std = vectors(y_pred=y_pred, y_std=y_std)
    half = std * float(scipy.special.ndtri(0.5 + _one_level(quantile, recal_model) / 2))
    return Namespace(upper=mean + half, lower=mean - half)


@documented
def get_quantile(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    quantile: float,
    recal_model: RecalibrationModel | None = None,
) -> Vector:
    """Return predicted quantiles (n,) at a level.

    Parameters
    ----------
    quantile : float or array of one element
        Level, in (0, 1).
    recal_model : object with ``predict``, optional
        Maps the level to that at which the quantile of the model is evaluated.

    Returns
    -------
    ndarray (n,)

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox.metrics_calibration import get_quantile
    >>> get_quantile([0.0, 1.0], [1.0, 1.0], 0.975).round(3).tolist()
    [1.96, 2.96]
    """
    mean, std = vectors(y_pred=y_pred, y_std=y_std)
    return np.asarray(mean + std * float(scipy.special.ndtri(_one_level(quantile, recal_model))))


def _curve(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    num_bins: int,
    recal_model: RecalibrationModel | None,
    prop_type: str,
) -> ReliabilityCurve:
    """Return the curve of observed proportions over evenly spaced levels, after recalibration if any."""
    check_choice(prop_type, "prop_type", PROPORTIONS)
    outcomes, predicted = gaussian(y_pred, y_std, y_true)
    expected = np.linspace(0, 1, check_count(num_bins, "num_bins"))
    levels = expected if recal_model is None else _recalibrated(recal_model, expected)
    curve = metrics.reliability_curve(outcomes, predicted, levels, kind=prop_type, pit="plain")
    return replace(curve, expected=expected)


def _recalibrated(recal_model: RecalibrationModel, levels: Vector) -> Vector:
    """Return the checked levels of a recalibration model."""
    if not callable(getattr(recal_model, "predict", None)):
        raise TypeError(
            f"recal_model is {recal_model!r}; an object with a method predict is needed"
        )
    predicted = as_array(recal_model.predict(levels), "what recal_model predicts").astype(
        np.float64
    )
    if predicted.shape != levels.shape or not ((predicted >= 0) & (predicted <= 1)).all():
        raise ValueError(
            f"recal_model predicts {predicted!r} for {len(levels)} levels; as many numbers in [0, 1] "
            "are needed"
        )
    return predicted


def _share(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike, quantile: float, kind: str
) -> float:
    outcomes, predicted = gaussian(y_pred, y_std, y_true)
    level = number(quantile, "quantile")
    if not 0 <= level <= 1:
        raise ValueError(f"quantile is {level:g}; a number in [0, 1] is needed")
    curve = metrics.reliability_curve(outcomes, predicted, [level], kind=kind, pit="plain")
    return float(curve.observed[0])


def _one_level(quantile: float, recal_model: RecalibrationModel | None) -> float:
    level = number(quantile, "quantile")
    if not 0 < level < 1:
        raise ValueError(f"quantile is {level:g}; a number between 0 and 1 is needed")
    if recal_model is None:
        return level
    return float(_recalibrated(recal_model, np.array([level]))[0])
