"""Checked rows of an evaluation: rows without NaN whose label is not ignored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray, InputsLike
from fastmcmd._base.checks import as_array, check_same_length
from fastmcmd._base.ignored import AllIgnoredError, IgnoreIndex, ignored_labels
from fastmcmd._base.names import as_names
from fastmcmd.evaluation.config import EvaluationConfig, is_on_disk
from fastmcmd.metrics.inputs import Outcomes, check_weights_shape, read
from fastmcmd.predictive import Categorical
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import PredictionLike

__all__ = ["read_outcomes", "read_rows"]


def read_outcomes(
    y: ArrayLike, prediction: PredictionLike, x: InputsLike | None, config: EvaluationConfig
) -> Outcomes:
    """Return the checked rows of one prediction.

    NaN in inputs x that are in memory counts as NaN in y, unless an encoder reads them.

    Raises
    ------
    AllIgnoredError
        All labels equal ``ignore_index``.
    ValueError, TypeError
        As in `fastmcmd.metrics.inputs.read`, or ``ignore_index`` with a prediction that names no classes.
    """
    policy = config.nan_policy
    if policy == "raise" or config.congruence.encoder is not None or is_on_disk(x):
        x = None
    return read_rows(y, prediction, config.sample_weight, policy, config.ignore_index, x)


def read_rows(
    y: ArrayLike, prediction: PredictionLike, weights: ArrayLike | None, policy: str,
    ignore_index: IgnoreIndex, x: AnyArray = None,
) -> Outcomes:  # fmt: skip
    """Return the checked rows of one prediction; see `read_outcomes`."""
    inputs = None if x is None else as_array(x, "x")
    if ignore_index is None:
        return read(y, prediction, weights, policy, columns=None, x=inputs)
    if not isinstance(prediction, Categorical) or prediction.classes is None:
        raise ValueError(
            "ignore_index leaves out labels of classes, and the prediction names no classes: "
            "Categorical(p, classes=...)"
        )
    check_order(y)
    labels, ignored = _labels(y, ignore_index)
    labels = prediction.numbers_of(labels)
    prediction = prediction.checked_for(
        as_array(labels, "y")
    )  # before rows are left out, to name the row
    check_same_length(y=labels, prediction=prediction.probs)
    labelled = np.flatnonzero(~ignored)
    n = len(ignored)
    if not len(labelled):
        raise AllIgnoredError(ignore_index, n)
    if weights is not None:
        weights = as_array(weights, "sample_weight")
        check_weights_shape(weights, n)
        weights = weights[labelled]
    if inputs is not None:
        check_same_length(x=inputs, y=labels)
        inputs = inputs[labelled]
    rows = read(
        labels[labelled], prediction.take(labelled), weights, policy, columns=None, x=inputs
    )
    if rows.valid is None:
        return replace(rows, valid=labelled, n=n, propagate=False, ignored=ignored)
    return replace(rows, valid=labelled[rows.valid], n=n, ignored=ignored)


def _labels(y: AnyArray, ignore_index: IgnoreIndex) -> tuple[AnyArray, NDArray[np.bool_]]:
    """Return labels (n,), with ignored ones missing, and a mask of these."""
    names = as_names(y)
    labels = as_array(y, "y") if names is None else names
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; (n,) is needed: one label per row")
    ignored = np.asarray(ignored_labels(labels, ignore_index, names is not None))
    if names is None:
        return np.where(ignored, np.nan, labels), ignored
    names[ignored] = None
    return names, ignored
