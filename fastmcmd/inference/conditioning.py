"""The condition of a test: the inputs, the forecast, or columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import ColumnsLike
from fastmcmd._base.checks import as_rows, check_choice, check_same_length, quote
from fastmcmd._base.names import as_names
from fastmcmd.predictive import Categorical, Draws, Predictive

__all__ = ["inputs_of", "points_of", "with_columns_of_labels"]

Array = NDArray[np.float64]


def with_columns_of_labels(
    condition_on: str | ColumnsLike, at: ArrayLike | None
) -> tuple[str | ColumnsLike, ArrayLike | None]:
    """Return a condition on labels that are text, and points, as columns of 0 and 1; others as they are.

    One column for each label: no two groups are nearer to each other than to the others.
    """
    names = None if isinstance(condition_on, str) else as_names(condition_on)
    if names is None:
        return condition_on, at
    missing = [row for row, name in enumerate(names) if name is None]
    if missing:
        raise ValueError(f"condition_on has no label in row {missing[0]}")
    labels = np.unique(names.astype(str))
    if at is not None:
        points = np.atleast_1d(np.asarray(at)).astype(str)
        unknown = [one for one in points.ravel() if one not in labels]
        if unknown or points.ndim != 1:
            raise ValueError(
                f"at is {quote(at)}; labels of condition_on are needed, such as {str(labels[0])!r}"
            )
        at = (points[:, None] == labels).astype(np.float64)
    return (names.astype(str)[:, None] == labels).astype(np.float64), at


def inputs_of(
    condition_on: object, x: Array, y: Array, prediction: Predictive
) -> tuple[Array, str]:
    """Return the variables that the test conditions on, and their name.

    The forecast of l draws is that of all l + 1 values of the row, the outcome included: the mean of the
    draws alone resembles each of them more than the outcome, which a test would take for a misfit.
    """
    if isinstance(condition_on, str):
        check_choice(condition_on, "condition_on", ("x", "forecast"))
        if condition_on == "x":
            return x, "x"
        if isinstance(prediction, Draws):
            draws = prediction.array.reshape(len(y), -1, y.shape[1])
            prediction = Draws.of_finite(np.concatenate([y[:, None, :], draws], axis=1))
        return _forecast_of(prediction), "forecast"
    columns = as_rows(condition_on, "condition_on")
    check_same_length(x=x, condition_on=columns)
    return columns, "columns"


def _forecast_of(prediction: Predictive) -> Array:
    """Return numbers that identify predictions: probabilities, or location and log spread."""
    if isinstance(prediction, Categorical):
        return np.asarray(prediction.probs, dtype=np.float64)
    n = len(prediction)
    location = prediction.mean.reshape(n, -1)
    spread = prediction.std.reshape(n, -1)
    if not (np.isfinite(location).all() and np.isfinite(spread).all()):
        if prediction.columns > 1:
            raise ValueError(
                "condition_on='forecast' needs finite means and standard deviations of vector outputs"
            )
        quartiles = prediction.quantile([0.25, 0.5, 0.75])
        location, spread = quartiles[:, 1:2], quartiles[:, 2:] - quartiles[:, :1]
    positive = spread[spread > 0]
    least = float(positive.min()) if positive.size else 1.0
    return np.concatenate([location, np.log(np.maximum(spread, least))], axis=1)


def points_of(at: ArrayLike, inputs: Array, condition: str) -> Array:
    """Return checked points (q, d) at which to test, in the variables that the test conditions on."""
    if condition == "forecast":
        raise ValueError("at needs condition_on='x' or columns: a point has no forecast")
    points = as_rows(at, "at").astype(np.float64)
    if points.shape[1] != inputs.shape[1]:
        raise ValueError(
            f"at has {points.shape[1]} columns and the inputs have {inputs.shape[1]}; they must agree"
        )
    return points
