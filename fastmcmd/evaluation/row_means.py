"""Measures that are functions of weighted means over rows: each bootstrap sample costs one product."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fastmcmd._base.arrays import HOST
from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.measures import MEAN_SCORES, SCORES
from fastmcmd.metrics.intervals import inside_interval
from fastmcmd.predictive.base import Array
from fastmcmd.predictive.numerics.spread import unit_of

__all__ = ["OfMeans", "is_root", "losses", "mean_of", "of_means", "terms_of"]

Columns = Callable[[Context], list[Array]]


@dataclass(frozen=True)
class OfMeans:
    """A measure as a function of means.

    Attributes
    ----------
    columns : list of ndarray (m,)
        Finite per-row values.
    finish : callable (means, weight) -> float
        Returns the measure in its unit from the weighted means of the columns and the sum of weights.
    unit : float
        Power of two next to the largest value, so that squares stay in float64.
    """

    columns: list[Array]
    finish: Callable[[list[float], float], float]
    unit: float = 1.0

    @property
    def is_mean(self) -> bool:
        """Whether the measure is the mean of one column."""
        return self.finish is _mean


def of_means(name: str, context: Context) -> OfMeans | None:
    """Return a measure as a function of means over rows, or None if it is none or values are not finite."""
    if name not in _MEASURES or (name in _NUMBERS and not context.numbers):
        return None
    columns, finish = _MEASURES[name]
    values = columns(context)
    if not all(np.isfinite(one).all() for one in values):
        return None
    if name in _ROOTS:
        return OfMeans(values, finish, _ROOTS[name](context))
    if finish is not _mean:
        return OfMeans(values, finish)
    unit = unit_of(HOST, values[0])
    return OfMeans([values[0] / unit], finish, unit)


def mean_of(name: str, context: Context) -> Array | None:
    """Return finite values by row (m,) whose mean, or the root of whose mean, is a measure; else None.

    They have the unit of the data, so those of other rows can be added. `is_root` tells which.
    """
    one = of_means(name, context)
    if one is None or len(one.columns) != 1:
        return None
    return np.asarray(one.columns[0] * one.unit ** (2 if is_root(name) else 1))


def terms_of(name: str, context: Context) -> tuple[Array, float | None] | None:
    """Return values by row (m,) whose mean is a measure, and None; or, of the root of a mean, its unit.

    Values may be infinite. None if the measure is no mean over rows.
    """
    columns, finish = _MEASURES.get(name, (None, None))
    if (
        columns is None
        or finish not in (_mean, _root)
        or (name in _NUMBERS and not context.numbers)
    ):
        return None
    return columns(context)[0], _ROOTS[name](context) if name in _ROOTS else None


def is_root(name: str) -> bool:
    """Tell whether a measure is the root of a mean."""
    return name in _ROOTS


def losses(name: str, context: Context) -> Array | None:
    """Return per-row losses (m,) whose weighted means rank models of the same rows like the measure.

    Those of "rmse" and "r2" are squared errors in units of `unit_of` the outcomes.
    """
    if name not in _LOSSES or (name in _NUMBERS and not context.numbers):
        return None
    values = _MEASURES["rmse" if name == "r2" else name][0](context)[0]
    return 1.0 - values if name == "accuracy" else values


def _squared_errors(context: Context) -> Array:
    return np.asarray((_errors(context) / _unit_of_y(context)) ** 2)


def _unit_of_y(context: Context) -> float:
    return unit_of(HOST, context.y)


def _unit_of_std(context: Context) -> float:
    return unit_of(HOST, context.prediction.std)


def _over_outputs(values: Array) -> Array:
    return values if values.ndim == 1 else np.asarray(values.mean(axis=1))


def _errors(context: Context) -> Array:
    return np.asarray(context.prediction.mean - context.y)


def _relative(context: Context) -> Array:
    gaps = np.abs(_errors(context))
    size = np.abs(context.y) + np.abs(context.prediction.mean)
    return _over_outputs(200 * np.divide(gaps, size, out=np.zeros_like(gaps), where=size > 0))


def _centred(values: Array) -> Array:
    scaled = values / unit_of(HOST, values)
    return np.asarray(scaled - scaled.mean())  # a large mean would cost digits of squares


def _for_r2(context: Context) -> list[Array]:
    y = _centred(context.y)
    return [_squared_errors(context), y, y**2]


def _for_pearson(context: Context) -> list[Array]:
    y, point = _centred(context.y), _centred(context.prediction.mean)
    return [y, point, y * point, y**2, point**2]


def _pearson(means: list[float], _: float) -> float:
    y, point, product, squares, point_squares = means
    size = (squares - y**2) * (point_squares - point**2)
    return (product - y * point) / math.sqrt(size) if size > 0 else math.nan


def _r2(means: list[float], _: float) -> float:
    variance = means[2] - means[1] ** 2
    return 1 - means[0] / variance if variance > 0 else math.nan


def _for_variation(context: Context) -> list[Array]:
    std = context.prediction.std / _unit_of_std(context)
    middle = np.median(std)  # subtracting it leaves exactly 0 if all are equal
    return [std, std - middle, (std - middle) ** 2]


def _variation(means: list[float], weight: float) -> float:
    if weight <= 1:
        return math.nan
    variance = max(means[2] - means[1] ** 2, 0.0) * weight / (weight - 1)
    return math.sqrt(variance) / means[0]


def _for_sharpness(context: Context) -> list[Array]:
    return [(context.prediction.std / _unit_of_std(context)) ** 2]


def _inside(context: Context) -> list[Array]:
    inside = inside_interval(context.y, context.prediction, context.settings.level)
    return [inside.astype(np.float64)]


def _width(context: Context) -> list[Array]:
    level = context.settings.level
    low, high = (context.prediction.quantile((1 + side * level) / 2) for side in (-1, 1))
    return [high - low]


def _score(name: str) -> Columns:
    return lambda context: [np.asarray(SCORES[name](context))]


def _mean(means: list[float], _: float) -> float:
    return means[0]


def _root(means: list[float], _: float) -> float:
    return math.sqrt(max(means[0], 0.0))  # below 0 for the slope at predictions without error


_MEASURES: dict[str, tuple[Columns, Callable[[list[float], float], float]]] = {
    "mae": (lambda context: [_over_outputs(np.abs(_errors(context)))], _mean),
    "rmse": (lambda context: [_squared_errors(context)], _root),
    "marpd": (lambda context: [_relative(context)], _mean),
    "bias": (lambda context: [_over_outputs(_errors(context))], _mean),
    "r2": (_for_r2, _r2),
    "pearson": (_for_pearson, _pearson),
    "coverage": (_inside, _mean),
    "sharpness": (_for_sharpness, _root),
    "mean_interval_width": (_width, _mean),
    "variance_variation": (_for_variation, _variation),
    "accuracy": (lambda context: [context.of_classes("hit")], _mean),
    "confidence": (lambda context: [context.of_classes("confidence")], _mean),
    "entropy": (lambda context: [context.of_classes("entropy")], _mean),
    **{measure: (_score(score), _mean) for measure, score in MEAN_SCORES.items()},
}
# Units of roots of means.
_ROOTS: dict[str, Callable[[Context], float]] = {"rmse": _unit_of_y, "sharpness": _unit_of_std}
_NUMBERS = (
    "rmse",
    "r2",
    "pearson",
    "sharpness",
)  # for vectors, means over components of roots or ratios
_LOSSES = ("mae", "rmse", "r2", "marpd", "accuracy", *MEAN_SCORES)
