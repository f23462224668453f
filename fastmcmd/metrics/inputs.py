"""What metrics of a regression read: outcomes, predictions, weights, and what to do with NaN."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.arrays import HOST, Namespace, card_among
from fastmcmd.checks import (
    as_array,
    as_rows,
    as_weights,
    check_choice,
    check_same_length,
    weights_of_rows,
)
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.adapters.recognise import check_order
from fastmcmd.predictive.base import Array

__all__ = ["NAN_POLICIES", "Outcomes", "read", "weighted_mean"]

NAN_POLICIES = ("raise", "omit", "propagate")
_COARSE = 2.0**512  # unit of values whose weighted sum overflows


@dataclass(frozen=True)
class Outcomes:
    """Checked rows: those without NaN, and where they belong.

    Attributes
    ----------
    y : ndarray (m,), or (m, k) for vector outputs
        Observed outputs of the rows kept; it may be the caller's own array.
    prediction : Predictive of m rows
        Their predicted distributions.
    weights : ndarray (m,) or None
        Their weights.
    kept : ndarray (m,) or None
        Which of the n rows these are; None for all.
    n : int
        Rows given.
    propagate : bool
        Whether a row left out makes a mean NaN.
    blank : bool
        Whether all rows held NaN, which propagates: these rows only stand in, so that every metric runs as
        usual, and all that follows from them is NaN.
    """

    y: Array
    prediction: Predictive
    weights: Array | None
    kept: NDArray[np.intp] | None
    n: int
    propagate: bool
    blank: bool = field(default=False, kw_only=True)

    @property
    def spoiled(self) -> bool:
        """Whether every aggregate is NaN: rows hold NaN, and it propagates."""
        return self.kept is not None and self.propagate

    @property
    def namespace(self) -> Namespace:
        """Whose arrays these are: NumPy's, or those of a card."""
        return HOST

    def on_host(self) -> Outcomes:
        """Return these rows as arrays of the host."""
        return self

    def scatter(self, values: Array) -> Array:
        """Return values (m, ...) of the rows kept as (n, ...), NaN in the rows left out."""
        if self.kept is None:
            return values
        out = np.full((self.n, *values.shape[1:]), np.nan)
        if not self.blank:
            out[self.kept] = values
        return out

    def mean(self, values: Array) -> Any:
        """Return the weighted mean of values (m, ...) over rows: a float for (m,), else an array."""
        if self.spoiled:
            found = np.full(values.shape[1:], np.nan)
        else:
            found = np.asarray(weighted_mean(values, self.weights))
        return float(found) if found.ndim == 0 else found


def read(
    y: Any,
    prediction: Any,
    sample_weight: Any = None,
    nan_policy: str = "raise",
    columns: int | None = 1,
    on_card: bool = False,
) -> Outcomes:
    """Return checked outcomes, predictions and weights.

    Parameters
    ----------
    y : array_like (n,) or (n, k)
        Observed outputs; or `Outcomes`, which are returned: several metrics of one test set check it once.
    prediction : Predictive or what converts to one
        Predicted distributions.
    sample_weight : array_like (n,), optional
        Nonnegative weights.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows in which y, the weight, or an array given as prediction is NaN: raise; leave
        them out of means; or let them make means NaN. Values by row are NaN there in both cases.
    columns : int or None
        Components that y must have; None for any.
    on_card : bool
        Whether rows stay on the card where an array given as prediction, or one of (mean, std), lies: for
        metrics that compute there. What else is of the host is copied to that card. Otherwise, and
        where the prediction is of the host, arrays of a card are copied to the host.

    Raises
    ------
    ValueError
        NaN (with "raise"), infinity, rows that do not match, negative weights, or no row left.
    """
    if isinstance(y, Outcomes):
        return y
    check_order(y)
    card = card_among(prediction) if on_card else None
    if card is not None:
        from fastmcmd.metrics.card_inputs import read_on_card

        return read_on_card(card, y, prediction, sample_weight, nan_policy, columns)
    check_choice(nan_policy, "nan_policy", NAN_POLICIES)
    blank = False
    if nan_policy == "raise":
        rows = as_rows(y, "y", columns=columns)
        n, kept = len(rows), None
        if sample_weight is not None:
            sample_weight = as_array(sample_weight, "sample_weight")
            if sample_weight.ndim == 1:
                check_same_length(y=rows, sample_weight=sample_weight)
    else:
        y = as_array(y, "y")
        n = len(y) if y.ndim else 0
        bad = _with_nan(y, n)
        if sample_weight is not None:
            sample_weight = weights_of_rows(sample_weight, "sample_weight", n)
        parts = prediction if isinstance(prediction, tuple) else (prediction,)
        for part in (sample_weight, *parts):
            bad |= _with_nan(part, n)
        kept = np.flatnonzero(~bad) if bad.any() else None
        blank = kept is not None and not len(kept)
        if blank and nan_policy == "omit":
            raise ValueError(f"all {n} rows hold NaN; at least one without is needed")
        if blank:
            kept = np.arange(n)
            y, prediction = _stand_in(y, 0.0), _stand_ins(prediction, n)
            sample_weight = None
        elif kept is not None:
            y = y[kept]
            sample_weight = _rows(sample_weight, kept, n)
            if isinstance(prediction, tuple):
                prediction = tuple(_rows(part, kept, n) for part in prediction)
            elif _is_array(prediction):
                prediction = _rows(prediction, kept, n)
            else:
                prediction = as_predictive(prediction, n, columns or 1).take(kept)
        rows = as_rows(y, "y", columns=columns)
    weights = as_weights(sample_weight, "sample_weight", len(rows))
    predictive = as_predictive(prediction, len(rows), rows.shape[1], y=rows)
    values = (rows[:, 0] if rows.shape[1] == 1 else rows).astype(np.float64, copy=False)
    return Outcomes(values, predictive, weights, kept, n, nan_policy == "propagate", blank=blank)


def weighted_mean(values: Array, weights: Array | None) -> Any:
    """Return the mean over rows, infinite where a value is; rows of weight 0 do not count."""
    if weights is not None and np.isinf(values).any():
        values = np.where((weights > 0).reshape(-1, *[1] * (values.ndim - 1)), values, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs have no mean
        found = np.average(values, axis=0, weights=weights)
        if np.isfinite(found).all() or not np.isfinite(values).all():
            return found
        return np.average(values / _COARSE, axis=0, weights=weights) * _COARSE  # the sum overflowed


def _stand_in(array: Any, least: float) -> Array:
    """Return finite numbers of the shape of an array, ``least`` and more, rising along its rows."""
    if np.isfinite(array).all():
        return array
    row, *within = np.indices(array.shape)
    return np.asarray(least + row % 2 + (within[0] if within else 0), dtype=np.float64)


def _stand_ins(prediction: Any, n: int) -> Any:
    """Return a prediction without NaN in its arrays of n rows."""
    if isinstance(prediction, tuple):
        return tuple(
            _stand_in(as_array(part, "prediction"), float(place)) if _is_array(part) else part
            for place, part in enumerate(prediction)  # a mean from 0, a standard deviation from 1
        )
    return (
        _stand_in(as_array(prediction, "prediction"), 0.0) if _is_array(prediction) else prediction
    )


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, list)


def _with_nan(value: Any, n: int) -> NDArray[np.bool_]:
    """Return which of n rows hold NaN; none where ``value`` is not an array of n rows."""
    if not _is_array(value):
        return np.zeros(n, dtype=bool)
    array = as_array(value, "prediction")
    if array.ndim == 0 or len(array) != n:
        return np.zeros(n, dtype=bool)
    return np.asarray(np.isnan(array.reshape(n, -1)).any(axis=1))


def _rows(value: Any, kept: NDArray[np.intp], n: int) -> Any:
    """Return the rows kept of an array of n rows; anything else as it is."""
    if not _is_array(value):
        return value
    array = as_array(value, "prediction")
    return array[kept] if array.ndim and len(array) == n else array
