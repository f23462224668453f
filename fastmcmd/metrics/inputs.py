"""Checked inputs of regression metrics: outcomes, predictions, weights, and the treatment of NaN."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.arrays import (
    HOST,
    Namespace,
    device_namespace_among,
    namespace_of,
    shape_only,
)
from fastmcmd._base.checks import (
    as_array,
    as_rows,
    as_weights,
    check_choice,
    check_same_length,
)
from fastmcmd.frames import check_row_order
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.adapters.missing import is_array, rows_of_prediction, rows_without_nan
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.categorical import numbered
from fastmcmd.predictive.numerics.spread import EXACT_SQUARES
from fastmcmd.predictive.on_device import (
    DevicePrediction,
    bring_parameters,
    on_device_predictive,
)

__all__ = [
    "ERRORS_OUT_OF_RANGE",
    "GIVE_UNIT",
    "LEAST_NORMAL",
    "NAN_POLICIES",
    "OUT_OF_RANGE",
    "Outcomes",
    "SelectedRows",
    "check_weights_shape",
    "checked_weights",
    "joined_means",
    "out_of_range",
    "read",
    "weighted_mean",
]

NAN_POLICIES = ("raise", "omit", "propagate")
_COARSE = 2.0**512  # divisor of values whose weighted sum overflows


class SelectedRows:
    """The rows of a test set that hold no NaN, for regression and classification.

    Attributes
    ----------
    weights : ndarray (m,) or None
        Weights of the remaining rows.
    valid : ndarray (m,), mask (n,) on a device, or None
        The remaining rows among all n rows; None if all remain.
    n : int
        Number of rows before rows were left out.
    propagate : bool
        Whether a row that was left out makes a mean NaN.
    blank : bool
        Whether all rows held NaN and NaN propagates. Placeholder rows then replace them, so that every
        metric runs as usual, and every result is NaN.
    """

    weights: Array | None
    valid: NDArray[np.intp] | None
    propagate: bool
    blank: bool

    if TYPE_CHECKING:  # a field of one subclass and a property of the other

        @property
        def n(self) -> int: ...  # noqa: D102

    @property
    def nan_result(self) -> bool:
        """Whether every aggregate is NaN, because some rows hold NaN and NaN propagates."""
        return self.valid is not None and self.propagate

    def row_number(self, row: int) -> int:
        """Return the number among all n rows of a valid row."""
        return row if self.valid is None else int(self.valid[row])

    def scatter(self, values: Array) -> Array:
        """Return values (m, ...) of the valid rows as (n, ...), with NaN in the rows left out."""
        if self.valid is None:
            return values
        rows = values * np.nan if self.blank else values
        return namespace_of(rows).scatter(rows, self.valid, self.n)


@dataclass(frozen=True)
class Outcomes(SelectedRows):
    """Checked outcomes and predictions of the rows without NaN.

    Attributes
    ----------
    y : ndarray (m,), or (m, k) for vector outputs
        Observed outputs of the valid rows. It may be the caller's array: do not change it.
    prediction : Predictive of m rows
        Predicted distributions of the valid rows.
    weights, valid, n, propagate, blank
        See `SelectedRows`.
    ignored : ndarray (n,) of bool or None
        Rows left out because of their label; the others that were left out hold NaN.
    """

    y: Array
    prediction: Predictive
    weights: Array | None
    valid: NDArray[np.intp] | None
    n: int
    propagate: bool
    blank: bool = field(default=False, kw_only=True)
    ignored: NDArray[np.bool_] | None = field(default=None, kw_only=True)

    @property
    def namespace(self) -> Namespace:
        """The array library and device of these rows: NumPy, or a GPU library."""
        return namespace_of(self.y)

    def on_host(self) -> Outcomes:
        """Return these rows as host arrays."""
        arrays = self.namespace
        if arrays.on_host:
            return self
        return replace(
            self,
            y=arrays.to_host(self.y),
            prediction=cast(DevicePrediction, self.prediction).on_host(),
            weights=None if self.weights is None else arrays.to_host(self.weights),
            valid=None if self.valid is None else np.flatnonzero(arrays.to_host(self.valid)),
        )

    def mean(self, values: AnyArray) -> float | Array:
        """Return the weighted mean of values (m, ...) over rows: a float for (m,), else an array."""
        arrays, weights = namespace_of(values), self.weights
        if self.nan_result:
            mean = np.full(values.shape[1:], np.nan)
        elif arrays.on_host:
            weights = None if weights is None else self.namespace.to_host(weights)
            mean = np.asarray(weighted_mean(values, weights))
        elif weights is None:
            mean = arrays.to_host(arrays.xp.sum(values)) / values.shape[0]
        else:  # rows of weight 0 do not count, even if infinite
            total = arrays.xp.sum(weights * arrays.xp.where(weights > 0, values, 0.0))
            total, weight = arrays.numbers([total, arrays.xp.sum(weights)])
            mean = total / weight
        return float(mean) if mean.ndim == 0 else mean


def read(
    y: AnyArray | Outcomes,
    prediction: PredictionLike,
    sample_weight: ArrayLike | None = None,
    nan_policy: str = "raise",
    columns: int | None = 1,
    on_device: bool = False,
    name: str = "prediction",
    x: AnyArray = None,
) -> Outcomes:
    """Return checked outcomes, predictions and weights; ``name`` is that of the prediction.

    Parameters
    ----------
    y : array_like (n,) or (n, k)
        Observed outputs; or `Outcomes`, which are returned as they are, so that several metrics can check a
        test set once.
    prediction : Predictive or anything that converts to one
        Predicted distributions.
    sample_weight : array_like (n,), optional
        Nonnegative weights.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows in which y, the weight, or an array of the prediction is NaN: raise an error;
        leave them out of means; or make means NaN. In the last two cases, their per-row values are NaN.
    columns : int or None
        Required number of components of y; None for any number.
    on_device : bool
        Whether rows stay on the device of the prediction (an array, or one of mean and std), for metrics
        that compute there; host arrays are copied to that device. If False, or if the prediction is on the
        host, all arrays are copied to the host.
    x : ndarray (n, ...), optional
        Inputs of the rows: NaN in them counts as NaN in y, unless ``nan_policy`` is "raise".

    Raises
    ------
    ValueError
        NaN (with "raise"), infinity, numbers of rows that differ, negative weights, or no remaining row.
    """
    if isinstance(y, Outcomes):
        return y
    check_order(y)
    check_row_order(y=y, **{name: prediction}, sample_weight=sample_weight)
    _check_swapped_arrays(y, prediction, name)
    y = numbered(y, prediction)
    check_choice(nan_policy, "nan_policy", NAN_POLICIES)
    arrays = (device_namespace_among(prediction) if on_device else None) or HOST
    if not arrays.on_host:
        y, prediction = arrays.bring(y, "y"), bring_parameters(arrays, prediction)
    weights = None
    if sample_weight is not None:
        weights = arrays.bring(sample_weight, "sample_weight")
    valid, blank = None, False
    if nan_policy != "raise":
        y = arrays.bring(y, "y")
        n = y.shape[0] if y.ndim else 0
        if weights is not None:
            check_weights_shape(weights, n)
        inputs = x if x is not None and x.ndim in (1, 2) else None  # other shapes raise later
        if inputs is not None:
            check_same_length(x=inputs, y=range(n))
        parts = prediction if isinstance(prediction, tuple) else (prediction,)
        valid = rows_without_nan(arrays, n, (y, weights, inputs, *parts))
        blank = valid is not None and not bool(arrays.xp.any(valid))
        if blank and nan_policy == "omit":
            raise ValueError(f"all {n} rows hold NaN; at least one without is needed")
        if blank:
            valid = ~cast(AnyArray, valid)
            y, prediction, weights = _stand_in(arrays, y, 0.0), _stand_ins(arrays, prediction), None
        elif valid is not None:
            y, weights = y[valid], None if weights is None else weights[valid]
            prediction = rows_of_prediction(arrays, prediction, valid, n, columns)
        if valid is not None and arrays.on_host:
            valid = np.flatnonzero(valid)
    rows = _as_rows(arrays, y, columns, cast("Array | None", valid))
    n = rows.shape[0] if valid is None else n
    if weights is not None:
        if nan_policy == "raise" and weights.ndim == 1:
            check_same_length(y=range(rows.shape[0]), sample_weight=range(weights.shape[0]))
        weights = checked_weights(arrays, weights, rows.shape[0])
    if arrays.on_host:
        predictive = as_predictive(prediction, len(rows), rows.shape[1], name, y=rows)
    else:
        predictive = on_device_predictive(arrays, prediction, rows)
    values = arrays.cast(rows[:, 0] if rows.shape[1] == 1 else rows, "float64")
    return Outcomes(values, predictive, weights, valid, n, nan_policy == "propagate", blank=blank)


def _check_swapped_arrays(y: AnyArray, prediction: PredictionLike, name: str) -> None:
    """Raise an error if y has several columns, and the prediction is one number for each of its rows."""
    shape, other = _outline(y), _outline(prediction)
    if len(shape) == 2 and shape[1] > 1 and other in ((shape[0],), (shape[0], 1)):
        raise ValueError(
            f"y has shape {shape}, and {name} has shape {other}: the order of arguments is (y, {name})"
        )


def _outline(value: object) -> tuple[int, ...]:
    """Return the shape of an array, or that of a list by its first element."""
    if isinstance(value, list):
        inner = value[0] if value else None
        return (
            (len(value), len(inner))
            if isinstance(inner, (list, tuple, np.ndarray))
            else (len(value),)
        )
    shape = getattr(value, "shape", ()) if is_array(value) else ()
    has_lengths = isinstance(shape, tuple) and all(isinstance(length, int) for length in shape)
    return shape if has_lengths else ()


def check_weights_shape(weights: AnyArray, n: int, name: str = "sample_weight") -> None:
    """Raise an error unless weights have shape (n,)."""
    if tuple(weights.shape) != (n,):
        as_weights(shape_only(weights), name, n)


def checked_weights(
    arrays: Namespace, weights: AnyArray, n: int, name: str = "sample_weight"
) -> AnyArray:
    """Return nonnegative weights (n,) in float64, with the checks of `fastmcmd._base.checks.as_weights`."""
    if weights is None or arrays.on_host:
        return as_weights(weights, name, n)
    xp = arrays.xp
    check_weights_shape(weights, n, name)
    if not bool(xp.all(xp.isfinite(weights) & (weights >= 0)) & xp.any(weights > 0)):
        as_weights(arrays.to_host(weights), name, n)
    return arrays.cast(weights, "float64")


def weighted_mean(values: Array, weights: Array | None) -> AnyArray:
    """Return the mean over rows, infinite if a value is infinite; rows of weight 0 do not count."""
    if weights is not None and np.isinf(values).any():
        values = np.where((weights > 0).reshape(-1, *[1] * (values.ndim - 1)), values, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs have no mean
        mean = np.average(values, axis=0, weights=weights)
        if np.isfinite(mean).all() or not np.isfinite(values).all():
            return mean
        return np.average(values / _COARSE, axis=0, weights=weights) * _COARSE  # the sum overflowed


def joined_means(
    one: tuple[Array | float, Array | float],
    other: tuple[Array | float, Array | float],
    share: float,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return how far the second of two means lies from the first, and the mean of both sets as two doubles.

    Parameters
    ----------
    one, other : pair of ndarray (k,) or float
        Each mean, rounded, and what rounding took from it.
    share : float
        Share of the second set in the weight.
    """
    gap = (other[0] - one[0]) + (other[1] - one[1])
    step = share * gap
    mean = one[0] + step
    rounded_step = mean - one[0]
    rounding = (one[0] - (mean - rounded_step)) + (
        step - rounded_step
    )  # of the sum, exactly (Knuth's two-sum)
    return gap, mean, one[1] + rounding


def _as_rows(arrays: Namespace, y: AnyArray, columns: int | None, valid: Array | None) -> AnyArray:
    """Return y (n,) or (n, k), the valid rows, as checked finite values (n, k)."""
    if arrays.on_host:
        return as_rows(y, "y", columns=columns, rows=valid)
    rows = y[:, None] if y.ndim == 1 else y
    if rows.ndim != 2 or 0 in rows.shape or columns not in (None, rows.shape[1]):
        as_rows(shape_only(y), "y", columns=columns)
    if not bool(arrays.xp.all(arrays.xp.isfinite(rows))):
        as_rows(arrays.to_host(rows), "y", columns=columns)
    return rows


def _stand_in(arrays: Namespace, array: AnyArray, least: float) -> AnyArray:
    """Return finite placeholders in the shape of an array, from ``least`` on and rising along each row."""
    if bool(arrays.xp.all(arrays.xp.isfinite(array))):
        return array
    row, *within = np.indices(tuple(array.shape))
    numbers = np.asarray(least + row % 2 + (within[0] if within else 0), dtype=np.float64)
    return numbers if arrays.on_host else arrays.from_host(numbers)


def _stand_ins(arrays: Namespace, prediction: object) -> Any:
    """Return a placeholder prediction without NaN in its arrays."""

    def one(part: object, least: float) -> Any:
        if not is_array(part):
            return part
        array = as_array(part, "prediction") if arrays.on_host else part
        return _stand_in(arrays, array, least)

    if isinstance(prediction, tuple):  # a mean from 0, a standard deviation from 1
        return tuple(one(part, float(place)) for place, part in enumerate(prediction))
    return one(prediction, 0.0)


GIVE_UNIT = "give y and the predictions in another unit"
OUT_OF_RANGE = f"squares of predicted standard deviations leave the range of doubles; {GIVE_UNIT}"
ERRORS_OUT_OF_RANGE = (
    "squared errors, relative to the largest predicted variance, leave the range of doubles"
)
LEAST_NORMAL = float(np.finfo(np.float64).tiny)


def out_of_range(squares: Array) -> bool:
    """Return whether sums of squares have overflowed, or lost digits near the smallest doubles."""
    size, (least, most) = np.abs(squares), EXACT_SQUARES
    return bool((~(size < most) | (size < least)).any())
