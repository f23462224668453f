"""Accuracy of point predictions, such as the means or medians of predicted distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.arrays import on_array_device
from fastmcmd._base.checks import check_choice
from fastmcmd._base.docstrings import entries, with_shared_parameters
from fastmcmd.metrics.inputs import NAN_POLICIES, Outcomes
from fastmcmd.metrics.metric import SHARED_PARAMETERS
from fastmcmd.metrics.point_sums import (
    MULTIOUTPUTS,
    PointPredictions,
    conclude_average,
    conclude_pearson,
    conclude_r2,
    conclude_rmse,
    gather_absolute,
    gather_comoments,
    gather_errors,
    gather_relative,
    gather_squares,
    over_outputs,
    plain_sums,
    read_points,
    weighted_median,
)
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["bias", "mae", "marpd", "median_absolute_error", "pearson", "r2", "rmse"]

P = ParamSpec("P")
R = TypeVar("R")
Sums = TypeVar("Sums")

_PARAMETERS = SHARED_PARAMETERS | entries("""
y : array_like (n,) or (n, k)
    Observed outputs.
prediction : Predictive, anything that converts to one, or point predictions (n,) or (n, k)
    Predicted distributions.
""")


def _point_metric(function: Callable[P, R]) -> Callable[P, R]:
    """Apply `fastmcmd.metrics.metric.metric` with the descriptions for outputs that may be vectors."""
    return with_shared_parameters(_PARAMETERS)(on_array_device(function))


def _gathered(
    gather: Callable[[PointPredictions], Sums],
    y: ArrayLike,
    prediction: PredictionLike,
    point: str,
    sample_weight: ArrayLike | None,
    multioutput: str,
    nan_policy: NanPolicy,
) -> Sums:
    """Return sums over checked rows, computed on the device of the prediction."""
    check_choice(multioutput, "multioutput", MULTIOUTPUTS)
    check_choice(nan_policy, "nan_policy", NAN_POLICIES)
    if isinstance(point, str) and point == "mean" and sample_weight is None:
        values: tuple[object, object] = y, prediction
        outcomes = cast(object, y)
        if isinstance(outcomes, Outcomes) and outcomes.weights is None and not outcomes.nan_result:
            values = outcomes.y, outcomes.prediction.mean  # of an evaluation
        sums = plain_sums(gather, *values)
        if sums is not None:
            return sums
    return gather(read_points(y, prediction, point, sample_weight, nan_policy, on_device=True))


@_point_metric
def mae(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    point: str = "mean",
    sample_weight: ArrayLike | None = None,
    multioutput: str = "uniform_average",
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return the mean absolute error.

    Returns
    -------
    float, or ndarray (k,) with "raw_values"
        ``mean |y - m|``, m being the point prediction.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.mae([0.0, 2.0], ([1.0, 2.0], 0.5))
    0.5
    """
    arguments = (y, prediction, point, sample_weight, multioutput, nan_policy)
    return conclude_average(_gathered(gather_absolute, *arguments), multioutput)


@_point_metric
def rmse(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    point: str = "mean",
    sample_weight: ArrayLike | None = None,
    multioutput: str = "uniform_average",
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return the root mean squared error.

    Returns
    -------
    float, or ndarray (k,) with "raw_values"
        ``sqrt(mean (y - m)^2)``. For vector outputs, the mean of the roots, as in scikit-learn.

    Notes
    -----
    A widely copied formula omits the square root.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.rmse([0.0, 0.0], [3.0, 3.0])
    3.0
    """
    arguments = (y, prediction, point, sample_weight, multioutput, nan_policy)
    return conclude_rmse(_gathered(gather_squares, *arguments), multioutput)


@_point_metric
def bias(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    point: str = "mean",
    sample_weight: ArrayLike | None = None,
    multioutput: str = "uniform_average",
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return the mean error, positive if predictions are too high.

    Returns
    -------
    float, or ndarray (k,) with "raw_values"
        ``mean (m - y)``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.bias([0.0, 0.0], [1.0, 2.0])
    1.5
    """
    arguments = (y, prediction, point, sample_weight, multioutput, nan_policy)
    return conclude_average(_gathered(gather_errors, *arguments), multioutput)


@_point_metric
def marpd(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    point: str = "mean",
    sample_weight: ArrayLike | None = None,
    multioutput: str = "uniform_average",
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return the mean absolute relative percent difference.

    Returns
    -------
    float, or ndarray (k,) with "raw_values"
        Mean of ``200 |m - y| / (|m| + |y|)``, from 0 to 200. A row in which y and m are both 0 counts as 0.

    Notes
    -----
    The metric is that of Chung et al., *Uncertainty Toolbox* (2021), which returns NaN if y and m are both
    0 in some row.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.marpd([1.0, 0.0], [3.0, 0.0])
    50.0
    """
    arguments = (y, prediction, point, sample_weight, multioutput, nan_policy)
    return conclude_average(_gathered(gather_relative, *arguments), multioutput)


@_point_metric
def r2(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    point: str = "mean",
    sample_weight: ArrayLike | None = None,
    multioutput: str = "uniform_average",
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return the coefficient of determination.

    Returns
    -------
    float, or ndarray (k,) with "raw_values"
        ``1 - sum w (y - m)^2 / sum w (y - mean y)^2``; NaN if y is constant.

    Notes
    -----
    scikit-learn's ``r2_score`` returns 1 or 0 if y is constant, unless ``force_finite=False``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.r2([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])
    0.5
    """
    arguments = (y, prediction, point, sample_weight, multioutput, nan_policy)
    return conclude_r2(_gathered(gather_comoments, *arguments), multioutput)


@_point_metric
def pearson(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    point: str = "mean",
    sample_weight: ArrayLike | None = None,
    multioutput: str = "uniform_average",
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return Pearson's correlation between outcomes and point predictions.

    Returns
    -------
    float, or ndarray (k,) with "raw_values"
        From -1 to 1; NaN if y or the prediction is constant.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> round(fm.metrics.pearson([0.0, 1.0, 2.0], [5.0, 7.0, 9.0]), 12)
    1.0
    """
    arguments = (y, prediction, point, sample_weight, multioutput, nan_policy)
    return conclude_pearson(_gathered(gather_comoments, *arguments), multioutput)


@_point_metric
def median_absolute_error(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    point: str = "mean",
    sample_weight: ArrayLike | None = None,
    multioutput: str = "uniform_average",
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return the median absolute error.

    Returns
    -------
    float, or ndarray (k,) with "raw_values"
        Median of ``|y - m|``. The weighted median is the smallest error such that at least half of the
        weight lies at or below it; if that is exactly half, the midpoint between it and the next error.
        With integer weights this equals the median of repeated rows.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.median_absolute_error([0.0, 0.0, 0.0], [1.0, 2.0, 9.0])
    2.0
    """
    check_choice(multioutput, "multioutput", MULTIOUTPUTS)
    points = read_points(y, prediction, point, sample_weight, nan_policy)
    errors = np.abs(points.errors())
    medians = [weighted_median(column, points.weights) for column in errors.T]
    return over_outputs(np.asarray(medians) * (np.nan if points.nan_result else 1.0), multioutput)
