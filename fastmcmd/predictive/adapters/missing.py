"""Rows of arguments that hold NaN, and predictions of the others, before anything is checked."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.arrays import Namespace, device_namespace
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.checks import as_array
from fastmcmd.predictive.adapters.convert import as_predictive
from fastmcmd.predictive.base import PredictionLike

__all__ = ["is_array", "rows_of_prediction", "rows_without_nan"]

_BLOCK = 1 << 24  # numbers per block of a search for NaN: a mask of 16 MB
_HOST_BLOCK = 1 << 17  # the same on the host: 1 MB of float64, which fits into the cache


def rows_without_nan(arrays: Namespace, n: int, parts: Iterable[AnyArray]) -> AnyArray:
    """Return a mask (n,) of the rows without NaN in any array, or None if no row holds NaN."""
    xp, bad = arrays.xp, arrays.full(n, 0.0) > 0
    for part in parts:
        if not is_array(part):
            continue
        array = as_array(part, "prediction") if arrays.on_host else part
        if array.ndim and array.shape[0] == n:
            bad = bad | _with_nan(arrays, array)
    return ~bad if bool(xp.any(bad)) else None


def _with_nan(arrays: Namespace, array: AnyArray) -> AnyArray:
    """Return a mask of the rows of an array (n, ...) that hold NaN; searches in blocks."""
    xp, n = arrays.xp, array.shape[0]
    if array.ndim == 1:
        return xp.isnan(array)
    size = max(1, math.prod(array.shape[1:]))
    flat = xp.reshape(array, (n, -1))

    def block(rows: slice) -> AnyArray:
        return xp.any(xp.isnan(flat[rows, ...]), axis=1)

    if arrays.on_host:
        return np.concatenate(over_rows(block, n, max(1, _HOST_BLOCK // size)))
    return arrays.concat([block(rows) for rows in row_blocks(n, _BLOCK // size)])


def rows_of_prediction(
    arrays: Namespace, prediction: PredictionLike, valid: AnyArray, n: int, columns: int | None
) -> AnyArray:
    """Return the prediction of the valid rows; parameters that do not have n rows are unchanged."""

    def rows(part: AnyArray) -> AnyArray:
        if not is_array(part):
            return part
        array = as_array(part, "prediction") if arrays.on_host else part
        return array[valid] if array.ndim and array.shape[0] == n else array

    if isinstance(prediction, tuple):
        return tuple(map(rows, prediction))
    if is_array(prediction) or not arrays.on_host:
        return rows(prediction)
    return as_predictive(prediction, n, columns or 1).take(np.flatnonzero(valid))


def is_array(value: object) -> bool:
    """Tell whether a value is an array, a list or an array on a device."""
    return (
        hasattr(value, "__array__")
        or isinstance(value, list)
        or device_namespace(value) is not None
    )
