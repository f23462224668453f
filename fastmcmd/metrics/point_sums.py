"""Sums over rows from which the accuracy of point predictions is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import AnyArray, NanPolicy
from fastmcmd._base.arrays import Namespace, namespace_of
from fastmcmd._base.checks import check_choice
from fastmcmd.metrics.inputs import joined_means, out_of_range, read
from fastmcmd.predictive import Gaussian, Predictive
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.numerics.spread import unit_of

__all__ = [
    "MULTIOUTPUTS",
    "POINTS",
    "AverageSums",
    "Comoments",
    "PointPredictions",
    "conclude_average",
    "conclude_pearson",
    "conclude_r2",
    "conclude_rmse",
    "gather_absolute",
    "gather_comoments",
    "gather_errors",
    "gather_relative",
    "gather_squares",
    "median_of_sorted",
    "over_outputs",
    "plain_sums",
    "point_prediction",
    "read_points",
    "weighted_median",
]

Sums = TypeVar("Sums")

POINTS = ("mean", "median")
MULTIOUTPUTS = ("uniform_average", "raw_values")
_COARSE = 2.0**256  # unit for sums of losses that overflow; its square is a double


@dataclass(frozen=True)
class PointPredictions:
    """Checked outcomes and point predictions.

    Attributes
    ----------
    y, point : ndarray (m, k)
        Outcomes and predictions of the valid rows.
    weights : ndarray (m,) or None
        Weights of these rows.
    nan_result : bool
        Whether NaN propagates.
    """

    y: Array
    point: Array
    weights: Array | None
    nan_result: bool

    @property
    def namespace(self) -> Namespace:
        """The array library and device of these rows: NumPy, or a GPU library."""
        return namespace_of(self.y)

    def errors(self) -> Array:
        """Return predictions minus outcomes (m, k)."""
        errors: Array = self.point - self.y
        return errors


@dataclass(frozen=True)
class AverageSums:
    """Weighted sums of a loss, per output.

    Attributes
    ----------
    total : ndarray (k,)
        Sum of weighted losses; NaN where NaN propagates.
    weight : float
        Sum of weights.
    unit : float
        A power of 2. Losses are divided by its square so that squares stay in the range of doubles.
    """

    total: Array
    weight: float
    unit: float = 1.0

    def __add__(self, other: AverageSums) -> AverageSums:
        unit = max(self.unit, other.unit)
        total = sum(part.total * (part.unit / unit) ** 2 for part in (self, other))
        return AverageSums(np.asarray(total), self.weight + other.weight, unit)


@dataclass(frozen=True)
class Comoments:
    """Central second moments of outcomes and point predictions, per output.

    Attributes
    ----------
    weight : float
        Sum of weights.
    mean_y, mean_point : ndarray (k,)
        Means, rounded.
    ssy, ssp, sp, sse : ndarray (k,)
        Weighted sums about the means: squares of y, squares of the prediction, products; and the weighted
        sum of squared errors.
    low_y, high_y, low_point, high_point : ndarray (k,)
        Ranges over rows of positive weight, so that constants are recognised exactly.
    unit_y, unit_point : float
        Powers of 2 by which y and the prediction are divided so that sums of squares stay in the range of
        doubles. ``sp`` is divided by both, ``sse`` by the square of the larger one.
    rounding_y, rounding_point : ndarray (k,) or float
        What rounding took from the means.

    Notes
    -----
    Two sets are added as in Chan, Golub & LeVeque, *Algorithms for Computing the Sample Variance* (The
    American Statistician, 1983). Means are sums of two doubles, so that a large mean costs no digits.
    """

    weight: float
    mean_y: Array
    mean_point: Array
    ssy: Array
    ssp: Array
    sp: Array
    sse: Array
    low_y: Array
    high_y: Array
    low_point: Array
    high_point: Array
    unit_y: float = 1.0
    unit_point: float = 1.0
    rounding_y: Array | float = 0.0
    rounding_point: Array | float = 0.0

    def in_units(self, unit_y: float, unit_point: float) -> Comoments:
        """Return the same moments in other units."""
        of_y, of_point = self.unit_y / unit_y, self.unit_point / unit_point
        if of_y == of_point == 1.0:
            return self
        of_error = max(self.unit_y, self.unit_point) / max(unit_y, unit_point)
        return Comoments(
            self.weight,
            self.mean_y * of_y,
            self.mean_point * of_point,
            self.ssy * of_y * of_y,
            self.ssp * of_point * of_point,
            self.sp * of_y * of_point,
            self.sse * of_error * of_error,
            self.low_y * of_y,
            self.high_y * of_y,
            self.low_point * of_point,
            self.high_point * of_point,
            unit_y,
            unit_point,
            self.rounding_y * of_y,
            self.rounding_point * of_point,
        )

    def __add__(self, other: Comoments) -> Comoments:
        units = max(self.unit_y, other.unit_y), max(self.unit_point, other.unit_point)
        if (self.unit_y, self.unit_point) != units or (other.unit_y, other.unit_point) != units:
            return self.in_units(*units) + other.in_units(*units)
        weight = self.weight + other.weight
        share = other.weight / weight
        between = self.weight * share
        gap_y, mean_y, rounding_y = joined_means(
            (self.mean_y, self.rounding_y), (other.mean_y, other.rounding_y), share
        )
        gap_point, mean_point, rounding_point = joined_means(
            (self.mean_point, self.rounding_point), (other.mean_point, other.rounding_point), share
        )
        return Comoments(
            weight,
            mean_y,
            mean_point,
            self.ssy + other.ssy + between * gap_y**2,
            self.ssp + other.ssp + between * gap_point**2,
            self.sp + other.sp + between * gap_y * gap_point,
            self.sse + other.sse,
            np.minimum(self.low_y, other.low_y),
            np.maximum(self.high_y, other.high_y),
            np.minimum(self.low_point, other.low_point),
            np.maximum(self.high_point, other.high_point),
            *units,
            rounding_y,
            rounding_point,
        )


def point_prediction(prediction: Predictive, point: str = "mean") -> Array:
    """Return the means or medians of distributions, in their shape.

    Raises
    ------
    ValueError
        An unknown ``point``, or means that are not finite.
    """
    check_choice(point, "point", POINTS)
    point_values = prediction.mean if point == "mean" else prediction.quantile(0.5)
    xp = namespace_of(point_values).xp
    if not bool(xp.all(xp.isfinite(point_values))):
        hint = "; use point='median'" if point == "mean" else ""
        raise ValueError(f"prediction has {point}s that are not finite{hint}")
    return point_values


def read_points(
    y: ArrayLike,
    prediction: PredictionLike,
    point: str = "mean",
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    on_device: bool = False,
) -> PointPredictions:
    """Return checked outcomes and point predictions; see `fastmcmd.metrics.mae` for the arguments.

    Rows may stay ``on_device``, as in `fastmcmd.metrics.inputs.read`, except for medians: medians of draws
    of vectors are computed on the host.
    """
    check_choice(point, "point", POINTS)
    on_device = on_device and point == "mean"
    rows = read(y, prediction, sample_weight, nan_policy, columns=None, on_device=on_device)
    shape = (len(rows.prediction), rows.prediction.columns)
    points = point_prediction(rows.prediction, point)
    reshape = rows.namespace.xp.reshape
    return PointPredictions(
        reshape(rows.y, shape), reshape(points, shape), rows.weights, rows.nan_result
    )


def _sums(points: PointPredictions, losses: Array) -> AverageSums:
    namespace, weights = points.namespace, points.weights
    with np.errstate(over="ignore", invalid="ignore"):
        total = namespace.to_host(_total(namespace, losses, weights))
    unit = 1.0
    if (
        not points.nan_result and not np.isfinite(total).all()
    ):  # the sum overflows, but the mean may not
        unit = _COARSE
        with np.errstate(over="ignore", invalid="ignore"):
            total = namespace.to_host(_total(namespace, losses / unit**2, weights))
    weight = float(losses.shape[0] if weights is None else namespace.xp.sum(weights))
    return AverageSums(total * np.nan if points.nan_result else total, weight, unit)


def _total(namespace: Namespace, values: AnyArray, weights: AnyArray) -> AnyArray:
    """Return weighted sums (k,) over rows."""
    if weights is None:
        return namespace.xp.sum(values, axis=0)
    if namespace.on_host and values.shape[1] == 1:  # a product with a thin matrix takes longer
        return np.einsum("i,i->", weights, values[:, 0])[None]
    return weights @ values


def plain_sums(gather: Callable[..., Sums], y: object, prediction: object) -> Sums | None:
    """Return sums of plain arrays (n,) from one pass, which is also the check that all values are finite.

    None if something is unusual: other arguments, values that are not finite, sums out of range, or a
    measure without such a pass. Rows must then be read, and checked, by `read_points`.
    """
    mean = prediction.mean if type(prediction) is Gaussian else prediction
    if gather not in _PLAIN or not all(
        type(part) is np.ndarray and part.dtype == np.float64 and part.ndim == 1
        for part in (y, mean)
    ):
        return None
    y, mean = cast(Array, y), cast(Array, mean)
    if len(y) != len(mean) or not len(y):
        return None
    return cast("Sums | None", _PLAIN[gather](y, mean))


def _plain_errors(power: int, y: Array, mean: Array) -> AverageSums | None:
    sums = np.empty(3)
    _core.error_sums(y, mean, sums)
    unusual = not np.isfinite(sums).all() or (power == _SQUARES and out_of_range(sums[power:]))
    return None if unusual else AverageSums(sums[power : power + 1], float(len(y)))


def _plain_relative(y: Array, mean: Array) -> AverageSums | None:
    sums = np.empty(2)
    _core.relative_sums(y, mean, sums)
    if not np.isfinite(sums).all():  # nor may a denominator overflow, whose row would add 0
        return None
    return AverageSums(200.0 * sums[:1], float(len(y)))


def _plain_comoments(y: Array, mean: Array) -> Comoments | None:
    values = np.empty(10)
    _core.comoments(y, mean, values)
    if not np.isfinite(values).all() or out_of_range(values[2:6]):
        return None
    return Comoments(float(len(y)), *values[:, None])


def gather_absolute(points: PointPredictions) -> AverageSums:
    """Return sums of absolute errors."""
    return _sums(points, points.namespace.absolute(points.errors()))


def gather_squares(points: PointPredictions) -> AverageSums:
    """Return sums of squared errors."""
    with np.errstate(over="ignore"):
        errors = points.errors()
        errors *= errors
        sums = _sums(points, errors)
    if points.nan_result or not out_of_range(sums.total):
        return sums
    errors = points.errors()
    unit = unit_of(points.namespace, errors)
    errors /= unit
    errors *= errors
    return replace(_sums(points, errors), unit=unit)


def gather_errors(points: PointPredictions) -> AverageSums:
    """Return sums of errors."""
    return _sums(points, points.errors())


def gather_relative(points: PointPredictions) -> AverageSums:
    """Return sums of absolute relative differences in percent; a row adds 0 if y and prediction are 0."""
    namespace = points.namespace
    xp = namespace.xp
    size = xp.abs(points.point)
    with np.errstate(over="ignore"):
        size += xp.abs(points.y)
    if not bool(xp.all(size != np.inf)):  # ratios are those of halves, whose sums do not overflow
        return gather_relative(replace(points, y=points.y / 2, point=points.point / 2))
    losses = namespace.absolute(points.errors())
    losses /= xp.where(size == 0, 1.0, size)  # if the size is 0, so is the difference
    losses *= 200.0
    return _sums(points, losses)


def gather_comoments(points: PointPredictions) -> Comoments:
    """Return central moments."""
    with np.errstate(over="ignore", invalid="ignore"):
        moments = _comoments(points, 1.0, 1.0)
    squares = np.stack([moments.ssy, moments.ssp, moments.sp, moments.sse])
    if points.nan_result or not out_of_range(squares):
        return moments
    units = (unit_of(points.namespace, values) for values in (points.y, points.point))
    return _comoments(points, *units)


def _comoments(points: PointPredictions, unit_y: float, unit_point: float) -> Comoments:
    """Return central moments of values divided by their units."""
    namespace = points.namespace
    y, point, weights = points.y, points.point, points.weights
    if unit_y != 1.0:
        y = y / unit_y
    if unit_point != 1.0:
        point = point / unit_point
    unit = max(unit_y, unit_point)
    if weights is not None and not bool(namespace.xp.all(weights > 0)):
        some = weights > 0  # rows of weight 0 must not extend the ranges
        y, point, weights = y[some], point[some], weights[some]
    weight = float(y.shape[0] if weights is None else namespace.xp.sum(weights))

    def total(values: AnyArray) -> AnyArray:
        return _total(namespace, values, weights)

    mean_y, mean_point = total(y) / weight, total(point) / weight
    if points.nan_result:
        mean_y = mean_y * np.nan
    from_y, from_point = y - mean_y, point - mean_point
    rounding_y, rounding_point = total(from_y) / weight, total(from_point) / weight
    from_y -= rounding_y
    from_point -= rounding_point
    moments = (
        mean_y,
        mean_point,
        total(from_y**2),
        total(from_point**2),
        total(from_y * from_point),
        total((y * (unit_y / unit) - point * (unit_point / unit)) ** 2),
        namespace.least(y.T),
        namespace.greatest(y.T),
        namespace.least(point.T),
        namespace.greatest(point.T),
        rounding_y,
        rounding_point,
    )
    *numbers, rounding_y, rounding_point = namespace.numbers(moments)
    sums = Comoments(weight, *numbers)
    return replace(
        sums,
        unit_y=unit_y,
        unit_point=unit_point,
        rounding_y=rounding_y,
        rounding_point=rounding_point,
    )


_SUM, _SIZES, _SQUARES = range(3)  # places of the sums of `fastmcmd._core.error_sums`
_PLAIN: dict[Callable[..., Any], Callable[[Array, Array], Any]] = {
    gather_errors: partial(_plain_errors, _SUM),
    gather_absolute: partial(_plain_errors, _SIZES),
    gather_squares: partial(_plain_errors, _SQUARES),
    gather_relative: _plain_relative,
    gather_comoments: _plain_comoments,
}


def over_outputs(values: Array, multioutput: str) -> float | Array:
    """Return the mean over outputs, or the values (k,)."""
    return float(values.mean()) if multioutput == "uniform_average" else values


def conclude_average(sums: AverageSums, multioutput: str = "uniform_average") -> float | Array:
    """Return the weighted mean of a loss."""
    with np.errstate(over="ignore"):
        return over_outputs(sums.total / sums.weight * sums.unit**2, multioutput)


def conclude_rmse(sums: AverageSums, multioutput: str = "uniform_average") -> float | Array:
    """Return the root of the weighted mean of squares."""
    return over_outputs(sums.unit * np.sqrt(sums.total / sums.weight), multioutput)


def conclude_r2(sums: Comoments, multioutput: str = "uniform_average") -> float | Array:
    """Return the coefficient of determination; NaN if y is constant."""
    varies = (sums.high_y > sums.low_y) & (sums.ssy > 0)
    share = max(sums.unit_y, sums.unit_point) / sums.unit_y
    with np.errstate(over="ignore"):  # errors may be vastly larger than the spread of y
        unexplained = sums.sse / np.where(varies, sums.ssy, np.nan) * share * share
    return over_outputs(1.0 - unexplained, multioutput)


def conclude_pearson(sums: Comoments, multioutput: str = "uniform_average") -> float | Array:
    """Return the correlation; NaN if y or the prediction is constant."""
    varies = (sums.high_y > sums.low_y) & (sums.high_point > sums.low_point)
    # Take roots first, because the product of the two sums may overflow or underflow.
    spread = np.sqrt(sums.ssy) * np.sqrt(sums.ssp)
    correlation = sums.sp / np.where(varies & (spread > 0), spread, np.nan)
    return over_outputs(np.clip(correlation, -1.0, 1.0), multioutput)


def weighted_median(values: Array, weights: Array | None = None) -> float:
    """Return the weighted median: with integer weights, the median of repeated values.

    It is the smallest value such that at least half of the weight lies at or below it; if that is exactly
    half, the midpoint between it and the next value.
    """
    if weights is None:
        with np.errstate(over="ignore"):
            median = float(np.median(values))
        return median if np.isfinite(median) else 2 * float(np.median(values / 2))
    order = np.argsort(values)  # of equal values any order has the same median
    return median_of_sorted(values[order], np.cumsum(weights[order]))


def median_of_sorted(values: Array, cumulative: Array) -> float:
    """Return the `weighted_median` of ascending values from the cumulative sums of their weights.

    It is NaN without weight, as of a bootstrap sample.
    """
    half = cumulative[-1] / 2
    if not half > 0:
        return float("nan")
    first = int(np.searchsorted(cumulative, half, side="left"))
    lower = values[first]
    if cumulative[first] == half:  # the next value that has weight
        above = int(np.searchsorted(cumulative, half, side="right"))
        return float(lower / 2 + values[above] / 2)
    return float(lower)
