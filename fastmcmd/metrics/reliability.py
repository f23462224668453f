"""Reliability: how often outcomes fall below predicted quantiles, or into predicted intervals."""

from __future__ import annotations

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_choice, check_positive
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.metric import metric
from fastmcmd.metrics.pit import PITS
from fastmcmd.metrics.reliability_sums import (
    ECE_LEVELS,
    KINDS,
    TOOLBOX_LEVELS,
    ReliabilityCurve,
    check_weights,
    conclude_reliability,
    gather_reliability,
    read_levels,
)
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = [
    "mean_absolute_calibration_error",
    "miscalibration_area",
    "regression_ece",
    "reliability_curve",
    "rms_calibration_error",
]


def _curve(
    y: ArrayLike,
    prediction: PredictionLike,
    levels: Array,
    kind: str,
    pit: str,
    random_state: RandomState,
    sample_weight: ArrayLike | None,
    nan_policy: NanPolicy,
) -> ReliabilityCurve:
    check_choice(kind, "kind", KINDS)
    check_choice(pit, "pit", PITS)
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True)
    return conclude_reliability(gather_reliability(rows, levels, kind, pit, random_state), kind)


@metric
def reliability_curve(
    y: ArrayLike,
    prediction: PredictionLike,
    levels: ArrayLike | None = None,
    *,
    kind: str = "quantile",
    pit: str = "randomized",
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> ReliabilityCurve:
    """Return the observed and expected shares of outcomes at each level.

    Returns
    -------
    ReliabilityCurve

    Notes
    -----
    See Kuleshov, Fenner & Ermon, *Accurate Uncertainties for Deep Learning Using Calibrated Regression*
    (ICML 2018). For ``prop_type="quantile"``, Uncertainty Toolbox 0.1.1 counts ``1 - P(PIT < 1 - p)``
    instead: it compares the quantile with prediction minus outcome, which reverses the sign.

    Examples
    --------
    A model that claims half of the right spread. Only a quarter of the outcomes lie inside its 50 %
    intervals:

    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> curve = fm.metrics.reliability_curve(y, (np.zeros(4000), 0.5), [0.5], kind="interval")
    >>> curve.observed.round(2).tolist()
    [0.26]
    """
    checked_levels = read_levels(levels, TOOLBOX_LEVELS)
    return _curve(y, prediction, checked_levels, kind, pit, random_state, sample_weight, nan_policy)


@metric
def regression_ece(
    y: ArrayLike,
    prediction: PredictionLike,
    levels: ArrayLike | None = None,
    weights: str | ArrayLike = "uniform",
    alpha: float = 1.0,
    pit: str = "randomized",
    random_state: RandomState = 0,
    *,
    kind: str = "quantile",
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the expected calibration error of a regression.

    Parameters
    ----------
    levels : array_like (j,), optional
        Confidence levels p_j in (0, 1). Default: 99 evenly spaced levels.
    weights : {"uniform", "frequency"} or array_like (j,)
        Weights w_j, scaled to sum to one. "frequency" uses the number of outcomes up to each level.
    alpha : float
        Exponent of the differences.

    Returns
    -------
    float
        ``sum_j w_j |p_j - mean(PIT <= p_j)|^alpha``; NaN if "frequency" weights are all zero.

    Notes
    -----
    This is equation 9 of Kuleshov, Fenner & Ermon, *Accurate Uncertainties for Deep Learning Using
    Calibrated Regression* (ICML 2018), with absolute instead of squared differences; use ``alpha=2`` for
    the published form.

    Examples
    --------
    A calibrated model, and one that claims half of the right spread:

    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> fm.ece(y, (np.zeros(4000), 1.0)) < 0.02, round(fm.ece(y, (np.zeros(4000), 0.5)), 1)
    (True, 0.1)
    """
    alpha = check_positive(alpha, "alpha")
    checked_levels = read_levels(levels, ECE_LEVELS, inner=True)
    check_weights(weights, checked_levels)
    curve = _curve(
        y, prediction, checked_levels, kind, pit, random_state, sample_weight, nan_policy
    )
    return curve.ece(weights, alpha)


@metric
def rms_calibration_error(
    y: ArrayLike,
    prediction: PredictionLike,
    levels: ArrayLike | None = None,
    *,
    kind: str = "interval",
    pit: str = "randomized",
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the root mean square difference of observed and expected shares.

    Parameters
    ----------
    kind : {"quantile", "interval"}
        Central intervals by default, as in Uncertainty Toolbox.

    Returns
    -------
    float

    Notes
    -----
    The defaults are those of ``root_mean_squared_calibration_error`` in Chung et al., *Uncertainty Toolbox*
    (2021).

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> fm.metrics.rms_calibration_error(y, (np.zeros(4000), 1.0)) < 0.02
    True
    """
    checked_levels = read_levels(levels, TOOLBOX_LEVELS)
    curve = _curve(
        y, prediction, checked_levels, kind, pit, random_state, sample_weight, nan_policy
    )
    return curve.rms_calibration_error


@metric
def mean_absolute_calibration_error(
    y: ArrayLike,
    prediction: PredictionLike,
    levels: ArrayLike | None = None,
    *,
    kind: str = "interval",
    pit: str = "randomized",
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the mean absolute difference of observed and expected shares.

    Returns
    -------
    float

    Notes
    -----
    The defaults are those of ``mean_absolute_calibration_error`` in Chung et al., *Uncertainty Toolbox*
    (2021). `regression_ece` returns the same number with ``kind="interval"`` and these levels.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> fm.metrics.mean_absolute_calibration_error(y, (np.zeros(4000), 3.0)) > 0.2
    True
    """
    checked_levels = read_levels(levels, TOOLBOX_LEVELS)
    curve = _curve(
        y, prediction, checked_levels, kind, pit, random_state, sample_weight, nan_policy
    )
    return curve.mean_absolute_calibration_error


@metric
def miscalibration_area(
    y: ArrayLike,
    prediction: PredictionLike,
    levels: ArrayLike | None = None,
    *,
    kind: str = "interval",
    pit: str = "randomized",
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the area between the reliability curve and the diagonal.

    Returns
    -------
    float
        The integral of ``|observed - expected|``, exact for the piecewise linear curve.

    Notes
    -----
    The defaults are those of ``miscalibration_area`` in Chung et al., *Uncertainty Toolbox* (2021).

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> area = fm.metrics.miscalibration_area(np.zeros(10), (np.zeros(10), 1.0))
    >>> round(area, 12)
    0.5
    """
    checked_levels = read_levels(levels, TOOLBOX_LEVELS)
    curve = _curve(
        y, prediction, checked_levels, kind, pit, random_state, sample_weight, nan_policy
    )
    return curve.miscalibration_area
