"""Coverage and width of central prediction intervals; sharpness and the variation of predicted spread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_float, distinct_digits
from fastmcmd.metrics.inputs import (
    Outcomes,
    joined_means,
    out_of_range,
    read,
    weighted_mean,
)
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array, PredictionLike, check_levels
from fastmcmd.predictive.numerics.spread import unit_of

__all__ = [
    "IntervalSums",
    "SpreadSums",
    "conclude_intervals",
    "conclude_sharpness",
    "conclude_variation",
    "coverage",
    "gather_coverage",
    "gather_spread",
    "gather_variance",
    "gather_widths",
    "inside_interval",
    "mean_interval_width",
    "sharpness",
    "variance_variation",
]

# Standard deviations that differ less, relative to their mean, are equal up to rounding: those of a
# distribution that is only shifted from row to row.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class IntervalSums:
    """Weighted sums over rows, per level.

    Attributes
    ----------
    total : ndarray (j,)
        Weight of the outcomes inside the intervals, or sums of weighted widths or variances; NaN if NaN
        propagates.
    weight : float
        Sum of weights.
    unit : float
        A power of 2. Variances are divided by its square to stay in the range of doubles.
    """

    total: Array
    weight: float
    unit: float = 1.0

    def __add__(self, other: IntervalSums) -> IntervalSums:
        unit = max(self.unit, other.unit)
        total = sum(part.total * (part.unit / unit) ** 2 for part in (self, other))
        return IntervalSums(np.asarray(total), self.weight + other.weight, unit)


def _sums(rows: Outcomes, columns: Iterable[Array]) -> IntervalSums:
    weights = rows.weights
    # Process one level at a time: each needs n numbers.
    namespace = rows.namespace
    total = namespace.xp.sum
    totals = namespace.numbers([total(c) if weights is None else weights @ c for c in columns])
    weight = float(len(rows.prediction) if weights is None else total(weights))
    return IntervalSums(totals * (np.nan if rows.nan_result else 1.0), weight)


def gather_coverage(rows: Outcomes, levels: Array) -> IntervalSums:
    """Return the weights of the outcomes inside central intervals; see `coverage`."""
    inside = (inside_interval(rows.y, rows.prediction, level) for level in levels)
    return _sums(rows, (rows.namespace.cast(one, "float64") for one in inside))


def inside_interval(y: Array, prediction: Predictive, level: float) -> NDArray[np.bool_]:
    """Return a mask (m,) of the outcomes inside the central intervals of a level."""
    inside = _by_cdf if prediction.discrete else _by_quantiles
    return inside(y, prediction, level)


def _by_quantiles(y: Array, prediction: Predictive, level: float) -> NDArray[np.bool_]:
    low, high = _ends(prediction, level)
    return (low <= y) & (y <= high)


def _by_cdf(y: Array, prediction: Predictive, level: float) -> NDArray[np.bool_]:
    """Return the mask from two cdfs, for which counts need no search.

    ``Q(p) = min {v: P(Y <= v) >= p}`` is <= y if and only if ``P(Y <= y) >= p``, and >= y if and only if
    ``P(Y < y) < p``.
    """
    inside = prediction.cdf(y) >= (1 - level) / 2
    if level < 1:  # at level 1, rounding would exclude outcomes far out
        inside &= prediction.cdf_below(y) < (1 + level) / 2
    return inside


def _ends(prediction: Predictive, level: float) -> tuple[Array, Array]:
    """Return the ends of central intervals (n,)."""
    return prediction.quantile((1 - level) / 2), prediction.quantile((1 + level) / 2)


def gather_widths(rows: Outcomes, levels: Array) -> IntervalSums:
    """Return the sums of widths; see `mean_interval_width`."""
    ends = (_ends(rows.prediction, level) for level in levels)
    return _sums(rows, (high - low for low, high in ends))


def gather_variance(rows: Outcomes) -> IntervalSums:
    """Return the sum of variances; see `sharpness`."""
    with np.errstate(over="ignore"):
        sums = _sums(rows, [rows.prediction.variance])
    if rows.nan_result or not out_of_range(sums.total):
        return sums
    std = rows.prediction.std
    xp = rows.namespace.xp
    if not bool(xp.all(xp.isfinite(std))):
        raise ValueError(
            "prediction has variances that are not finite; mean_interval_width does without"
        )
    unit = unit_of(rows.namespace, std)
    std = std / unit
    return replace(_sums(rows, [std * std]), unit=unit)


def conclude_intervals(sums: IntervalSums, scalar: bool) -> float | Array:
    """Return means (j,), or a float if the caller passed a single level."""
    means = sums.total / sums.weight
    return float(means[0]) if scalar else means


def conclude_sharpness(sums: IntervalSums) -> float:
    """Return the root of the mean variance."""
    return float(sums.unit * np.sqrt(sums.total[0] / sums.weight))


@metric
def coverage(
    y: ArrayLike,
    prediction: PredictionLike,
    level: ArrayLike = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return the share of outcomes in central prediction intervals.

    Parameters
    ----------
    level : float or array_like (j,)
        Levels q in [0, 1].

    Returns
    -------
    float, or ndarray (j,) for levels (j,)
        Share of rows with ``Q((1-q)/2) <= y <= Q((1+q)/2)``. Its expectation is q for a calibrated
        continuous model and at least q for a calibrated model of counts, because intervals include both
        ends.

    Notes
    -----
    Also known as prediction interval coverage probability (PICP). On central intervals, see section 6.2 of
    Gneiting & Raftery, *Strictly Proper Scoring Rules, Prediction, and Estimation* (JASA 2007).

    Examples
    --------
    The 90 % interval of a standard normal ends at 1.64. It holds the first outcome and misses the
    second:

    >>> import fastmcmd as fm
    >>> fm.metrics.coverage([0.0, 3.0], ([0.0, 0.0], 1.0), 0.9)
    0.5
    """
    levels = check_levels(level)
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True)
    return conclude_intervals(gather_coverage(rows, np.atleast_1d(levels)), levels.ndim == 0)


@metric
def mean_interval_width(
    y: ArrayLike,
    prediction: PredictionLike,
    level: ArrayLike = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float | Array:
    """Return the mean width of central prediction intervals.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs. Only their number, and where they are NaN, matters.
    level : float or array_like (j,)
        Levels q in [0, 1].

    Returns
    -------
    float, or ndarray (j,) for levels (j,)
        Mean of ``Q((1+q)/2) - Q((1-q)/2)``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> round(fm.metrics.mean_interval_width([0.0], ([0.0], 2.0), level=0.6827), 2)
    4.0
    """
    levels = check_levels(level)
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True)
    return conclude_intervals(gather_widths(rows, np.atleast_1d(levels)), levels.ndim == 0)


@metric
def sharpness(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the root of the mean predicted variance.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs. Only their number, and where they are NaN, matters.

    Returns
    -------
    float
        ``sqrt(mean s^2)``. A small value means sharp predictions, whether or not they are correct.

    Raises
    ------
    ValueError
        A variance that is not finite.

    Notes
    -----
    Chung et al., *Uncertainty Toolbox* (2021), ``sharpness``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.sharpness([0.0, 0.0], ([0.0, 0.0], [1.0, 7.0]))
    5.0
    """
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True)
    return conclude_sharpness(gather_variance(rows))


@dataclass(frozen=True)
class SpreadSums:
    """Weight and mean of predicted standard deviations, and the sum of squares about that mean.

    Squares are divided by the squared mean, so that they neither overflow nor underflow. Sums of two sets
    are added as in Chan, Golub & LeVeque (1983). ``rounding`` is what rounding took from the mean.
    """

    weight: float
    mean: float
    squares: float
    rounding: float = 0.0

    def __add__(self, other: SpreadSums) -> SpreadSums:
        weight = self.weight + other.weight
        share = other.weight / weight
        gap, mean, rounding = joined_means(
            (self.mean, self.rounding), (other.mean, other.rounding), share
        )
        if mean == 0:
            return SpreadSums(weight, mean, 0.0)
        between = self.weight * share * (gap / mean) ** 2
        squares = sum(one.squares * (one.mean / mean) ** 2 for one in (self, other))
        return SpreadSums(weight, mean, squares + between, rounding)


def gather_spread(rows: Outcomes) -> SpreadSums:
    """Return sums of predicted standard deviations."""
    std, weights = rows.prediction.std, rows.weights
    if not np.isfinite(std).all():
        raise ValueError("prediction has standard deviations that are not finite")
    if weights is not None:
        std, weights = std[weights > 0], weights[weights > 0]
    weight = float(len(std) if weights is None else weights.sum())
    mean = float(weighted_mean(std, weights).clip(std.min(), std.max()))  # equal ones: exactly
    if rows.nan_result:
        mean = np.nan
    if mean == 0:
        return SpreadSums(weight, mean, 0.0)
    from_mean = std - mean
    rounding = float(weighted_mean(from_mean, weights))
    deviations = (from_mean - rounding) / mean
    squares = np.zeros(len(std)) if np.abs(deviations).max() <= _ROUNDING else deviations**2
    return SpreadSums(weight, mean, float(np.average(squares, weights=weights) * weight), rounding)


def conclude_variation(sums: SpreadSums, ddof: float = 1) -> float:
    """Return the coefficient of variation."""
    ddof = as_float(ddof, "ddof")
    if not 0 <= ddof < np.inf:
        raise ValueError(f"ddof is {ddof:g}; a finite number >= 0 is needed")
    if sums.weight <= ddof:
        ddof_text, total = distinct_digits(ddof, sums.weight)
        raise ValueError(f"ddof is {ddof_text}; it must be below the sum of weights, {total}")
    if sums.mean == 0:
        raise ValueError("prediction has standard deviations of 0 only; c_v is their ratio to it")
    return float(np.sqrt(sums.squares / (sums.weight - ddof)))


@metric
def variance_variation(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    ddof: float = 1,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the coefficient of variation c_v of predicted standard deviations.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs. Only their number, and where they are NaN, matters.
    ddof : float
        Subtracted from the sum of weights in the denominator of the variance.

    Returns
    -------
    float
        ``sqrt(sum (s - mean s)^2 / (n - ddof)) / mean s``. It is 0 if all predictions are equally
        uncertain; ENCE then tests only the average variance.

    Notes
    -----
    Levi et al. (2019), equation 9.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.variance_variation([0.0, 0.0, 0.0], ([0.0] * 3, [1.0, 2.0, 3.0]))
    0.5
    """
    return conclude_variation(gather_spread(read(y, prediction, sample_weight, nan_policy)), ddof)
