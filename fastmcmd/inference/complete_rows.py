"""Rows of a test whose arguments hold no NaN."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.arrays import HOST
from fastmcmd._base.checks import as_array, missing_labels, refuse_masked
from fastmcmd._base.names import as_names
from fastmcmd.predictive.adapters.missing import rows_of_prediction, rows_without_nan
from fastmcmd.predictive.base import PredictionLike

__all__ = ["complete_rows"]


def complete_rows(
    x: AnyArray,
    y: AnyArray,
    prediction: PredictionLike,
    weights: ArrayLike | None,
    groups: ArrayLike | None,
    condition_on: AnyArray,
) -> tuple[AnyArray, ...]:
    """Return all arguments without the rows in which any of them holds NaN.

    Arguments that do not have the rows of y stay as they are: the checks that follow name them.

    Raises
    ------
    ValueError
        All rows hold NaN.
    """
    y = as_array(y, "y")
    n = y.shape[0] if y.ndim else 0
    parts = prediction if isinstance(prediction, tuple) else (prediction,)
    optional: dict[str, AnyArray] = {"x": x, "weights": weights}
    if not isinstance(condition_on, str) and as_names(condition_on) is None:
        optional["condition_on"] = condition_on
    arrays: dict[str, AnyArray] = {
        name: as_array(value, name) for name, value in optional.items() if value is not None
    }
    missing = np.zeros(n)
    if groups is not None:
        refuse_masked(groups, "groups")
        labels = arrays["groups"] = np.asarray(groups)
        if labels.shape == (n,):
            missing = np.where(missing_labels(labels), np.nan, 0.0)
    without = [array for name, array in arrays.items() if name != "groups"]
    valid = rows_without_nan(HOST, n, [y, missing, *without, *parts])
    if valid is None:
        return x, y, prediction, weights, groups, condition_on
    if not valid.any():
        raise ValueError(f"all {n} rows hold NaN; at least one without is needed")

    def rows(name: str, value: AnyArray) -> AnyArray:
        array = arrays.get(name)
        if array is None or not array.ndim or array.shape[0] != n:
            return value
        return array[valid]

    columns = y.shape[1] if y.ndim == 2 else 1
    prediction = rows_of_prediction(HOST, prediction, valid, n, columns)
    return (
        rows("x", x),
        y[valid],
        prediction,
        rows("weights", weights),
        rows("groups", groups),
        rows("condition_on", condition_on),
    )
