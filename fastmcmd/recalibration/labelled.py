"""Checked scores, labels and weights of classifiers, from which calibrators of classes learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import HostArray, NanPolicy
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.checks import as_array, as_weights, check_choice
from fastmcmd._base.names import as_names
from fastmcmd.classification.labels import numbers_of_columns, numbers_of_names
from fastmcmd.predictive import Categorical
from fastmcmd.predictive.base import Array

__all__ = ["check_finite", "read_labelled", "scores_of"]

_BLOCK = 1 << 17  # scores per block


def _verb(name: str, plural: str) -> str:
    """Return a verb that agrees with the name of an argument."""
    return plural if name == "logits" else {"have": "has", "hold": "holds"}[plural]


def scores_of(value: object, name: str = "logits") -> HostArray:
    """Return checked scores (n,) or (n, C), which may hold NaN."""
    if isinstance(value, Categorical):
        raise TypeError(
            f"{name} {'are' if name == 'logits' else 'is'} a Categorical; numbers (n, C) are needed: its "
            "probabilities p or, as logits, np.log(p.clip(1e-12))"
        )
    scores = as_array(value, name)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim not in (1, 2) or scores.size == 0:
        raise ValueError(
            f"{name} {_verb(name, 'have')} shape {scores.shape}; (n,) or (n, C) is needed, none of them 0"
        )
    return scores


def check_finite(logits: HostArray, name: str = "logits") -> None:
    """Raise an error if scores hold NaN or infinity."""

    def bad(rows: slice) -> bool:
        return not np.isfinite(logits[rows]).all()

    if any(over_rows(bad, len(logits), _BLOCK // max(1, logits[:1].size))):
        bad_value = "NaN" if np.isnan(logits).any() else "infinity"
        raise ValueError(f"{name} {_verb(name, 'hold')} {bad_value}; finite numbers are needed")


def read_labelled(
    logits: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    nan_policy: NanPolicy,
    name: str = "logits",
) -> tuple[HostArray, NDArray[np.intp], Array | None]:
    """Return checked scores (n,) or (n, C), labels and weights."""
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    scores, names = scores_of(logits, name), as_names(y)
    count = 2 if scores.ndim == 1 else scores.shape[1]
    if names is not None:
        y = numbers_of_names(names, logits, count, name)
    labels = numbers_of_columns(as_array(y, "y"), logits, count, name)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != scores.shape[:1]:
        raise ValueError(
            f"y has shape {labels.shape} and {name} {scores.shape}; one label per row is needed"
        )
    weights = None if sample_weight is None else as_array(sample_weight, "sample_weight")
    if weights is not None and weights.shape != labels.shape:
        raise ValueError(
            f"sample_weight has shape {weights.shape}; {labels.shape} is needed: one weight per row"
        )
    if nan_policy == "omit":
        bad = np.isnan(labels) if weights is None else np.isnan(labels) | np.isnan(weights)
        for rows in row_blocks(len(bad), _BLOCK // scores[:1].size):
            bad[rows] |= np.isnan(scores[rows].reshape(len(bad[rows]), -1)).any(axis=1)
        if bad.all():
            raise ValueError(f"all {len(labels)} rows hold NaN; at least one without is needed")
        if bad.any():
            scores, labels = scores[~bad], labels[~bad]
            weights = None if weights is None else weights[~bad]
    check_finite(scores, name)
    classes = 2 if scores.ndim == 1 else scores.shape[1]
    if classes < 2:
        raise ValueError(f"{name} {_verb(name, 'have')} one class; at least two are needed")
    valid = (labels >= 0) & (labels < classes) & (labels == np.floor(labels))
    if not valid.all():
        worst = labels[int(np.argmin(valid))]
        raise ValueError(f"y holds {worst:g}; labels must be whole numbers from 0 to {classes - 1}")
    return scores, labels.astype(np.intp), as_weights(weights, "sample_weight", len(labels))
