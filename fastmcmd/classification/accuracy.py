"""Accuracy: how often the label is the most probable class, or among the most probable classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_array, check_choice, check_count
from fastmcmd._base.tables import ColumnTable
from fastmcmd.classification.inputs import LabelledRows, read
from fastmcmd.classification.metric import Totals, metric, total
from fastmcmd.classification.summary import RowSummary, summarize, top_classes
from fastmcmd.errors import RowError
from fastmcmd.predictive.base import Array

__all__ = [
    "TIES",
    "AboveSums",
    "AccuracyAboveConfidence",
    "ConfusionCounts",
    "above_confidence_of",
    "accuracy",
    "accuracy_above_confidence",
    "check_thresholds",
    "conclude_above",
    "confusion_matrix",
    "gather_above",
    "gather_confusion",
    "gather_top_k",
    "top_k_accuracy",
]

TIES = ("first", "last", "share", "raise")


@metric
def accuracy(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    ties: str = "first",
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> float:
    """Return the share of rows whose most probable class is the label.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError, TypeError
        Labels or probabilities out of range, numbers of rows that differ, or ties with ``ties="raise"``.

    Notes
    -----
    By default the result equals ``sklearn.metrics.accuracy_score(y, p.argmax(axis=1))``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.accuracy([0, 1, 1], [[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])
    0.6666666666666666
    """
    check_choice(ties, "ties", TIES)
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    if ties == "first":
        return total(rows, top_classes(rows).predicted == rows.known_labels).mean
    return gather_top_k(rows, summarize(rows)[0], 1, ties).mean


@metric
def top_k_accuracy(
    y: ArrayLike,
    p: ArrayLike,
    *,
    k: int = 5,
    sample_weight: ArrayLike | None = None,
    ties: str = "first",
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> float:
    """Return the share of rows whose label is among the ``k`` most probable classes.

    Parameters
    ----------
    k : int
        Number of classes that count, from 1 to C.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError, TypeError
        As in `accuracy`, or if ``k`` is out of range.

    Notes
    -----
    With ``k=1`` this is `accuracy`. ``sklearn.metrics.top_k_accuracy_score`` breaks ties like "last" (for
    two classes, like "first"). The difference of "first" and "last" bounds the effect of ties.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> p = [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]]
    >>> fm.classification.top_k_accuracy([1, 2], p, k=2)
    0.5
    >>> fm.classification.top_k_accuracy([1, 2], p, k=2, ties="share")
    0.75
    """
    check_choice(ties, "ties", TIES)
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    return gather_top_k(rows, summarize(rows)[0], k, ties).mean


@metric
def confusion_matrix(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> Array:
    """Return the confusion matrix: the weight of rows by label and most probable class.

    Parameters
    ----------
    p : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1. Among equally probable classes, the first is predicted.
    sample_weight : array_like (n,), optional
        Nonnegative weights. Without them, rows are counted.

    Returns
    -------
    ndarray (C, C)
        Rows are labels, columns are predictions, as in scikit-learn.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.confusion_matrix([0, 1, 1], [0.3, 0.8, 0.4]).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    return gather_confusion(rows, top_classes(rows)).table


def gather_top_k(rows: LabelledRows, summary: RowSummary, k: int, ties: str) -> Totals:
    """Return the sums for `top_k_accuracy`."""
    k = check_count(k, "k")
    if k > rows.classes:
        raise ValueError(f"k is {k}; at most the {rows.classes} classes of p is needed")
    if ties == "first":
        hits = summary.above + summary.tied_before < k
    elif ties == "last":
        hits = summary.above + summary.tied_after < k
    else:
        tied = summary.tied_before + summary.tied_after + 1
        hits = np.clip((k - summary.above) / tied, 0.0, 1.0)
        doubtful = np.flatnonzero((hits > 0) & (hits < 1))
        if ties == "raise" and len(doubtful):
            row = int(doubtful[0] if rows.valid is None else rows.valid[doubtful[0]])
            raise RowError(
                f"{len(doubtful)} rows have equally probable classes, the first is row {row}, on whose "
                "order the result depends; use ties='first', 'last' or 'share'",
                row,
            )
    return total(rows, hits)


@dataclass(frozen=True, eq=False)
class ConfusionCounts:
    """Weight of rows by label and prediction (C, C)."""

    table: Array

    def __add__(self, other: ConfusionCounts) -> ConfusionCounts:
        if other.table.shape != self.table.shape:
            raise ValueError(
                f"a batch of {len(other.table)} classes cannot be added to {len(self.table)}; all batches "
                "must have the same classes"
            )
        return ConfusionCounts(self.table + other.table)


def gather_confusion(rows: LabelledRows, summary: RowSummary) -> ConfusionCounts:
    """Return the table of `confusion_matrix`."""
    cells = rows.known_labels * rows.classes + summary.predicted
    counts = np.bincount(cells, weights=rows.weights, minlength=rows.classes**2)
    table = counts.reshape(rows.classes, rows.classes).astype(np.float64)
    return ConfusionCounts(np.full_like(table, np.nan) if rows.nan_result else table)


@dataclass(frozen=True, eq=False, repr=False)
class AccuracyAboveConfidence(ColumnTable):
    """Accuracy of the rows whose confidence is at least a threshold.

    Attributes
    ----------
    thresholds : ndarray (t,)
        Confidences tau.
    accuracy : ndarray (t,)
        Accuracy of the rows with confidence at least tau; NaN if there are none.
    count, weight : ndarray (t,)
        Number of these rows, and their weight.
    """

    thresholds: Array
    accuracy: Array
    count: Array
    weight: Array

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns as lists, by name."""
        return {
            "threshold": self.thresholds.tolist(),
            "accuracy": self.accuracy.tolist(),
            "count": self.count.tolist(),
            "weight": self.weight.tolist(),
        }

    def __repr__(self) -> str:
        return f"AccuracyAboveConfidence at {len(self.thresholds)} thresholds\n{self.table()}"


@metric
def accuracy_above_confidence(
    y: ArrayLike,
    p: ArrayLike,
    *,
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> AccuracyAboveConfidence:
    """Return the accuracy and the number of rows with confidence at least each threshold.

    Parameters
    ----------
    thresholds : array_like (t,), optional
        Confidences tau in [0, 1]. Default: 0, 0.1, ..., 0.9.

    Returns
    -------
    AccuracyAboveConfidence
        The curve.

    Notes
    -----
    As in Ovadia et al., *Can You Trust Your Model's Uncertainty?* (NeurIPS 2019), these are the rows with
    ``max_k p_k >= tau``. Thresholds are rounded to the type of p.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> curve = fm.classification.accuracy_above_confidence(
    ...     [0, 1, 1], [0.1, 0.7, 0.4], thresholds=[0.0, 0.65, 0.95]
    ... )
    >>> print(curve.table())
    threshold  accuracy  count  weight
    ----------------------------------
            0    0.6667      3       3
         0.65         1      2       2
         0.95       nan      0       0
    """
    taus = check_thresholds(thresholds)
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    return above_confidence_of(rows, top_classes(rows), taus)


def check_thresholds(thresholds: ArrayLike | None) -> Array:
    """Return checked confidences in [0, 1]; the default for None."""
    if thresholds is None:
        return np.arange(10) / 10
    taus = as_array(thresholds, "thresholds").astype(np.float64)
    if taus.ndim != 1 or not len(taus) or not ((taus >= 0) & (taus <= 1)).all():
        raise ValueError(f"thresholds must be numbers in [0, 1] of shape (t,), got {thresholds!r}")
    return taus


@dataclass(frozen=True)
class AboveSums:
    """Sums over the rows with confidence at least each threshold.

    Attributes
    ----------
    thresholds : ndarray (t,)
        Confidences tau.
    hits, weight : ndarray (t,)
        Weight of the correct rows, and of all rows; NaN if NaN propagates.
    count : ndarray (t,)
        Rows.
    """

    thresholds: Array
    hits: Array
    weight: Array
    count: Array

    def __add__(self, other: AboveSums) -> AboveSums:
        return AboveSums(
            self.thresholds,
            self.hits + other.hits,
            self.weight + other.weight,
            self.count + other.count,
        )


def gather_above(rows: LabelledRows, summary: RowSummary, taus: Array) -> AboveSums:
    """Return the sums behind `accuracy_above_confidence`."""
    order = np.argsort(taus)
    sorted_taus = taus.astype(rows.p.dtype)[order]
    threshold_counts = np.searchsorted(
        sorted_taus.astype(summary.confidence.dtype), summary.confidence, "right"
    )
    hits = summary.predicted == rows.known_labels
    weights = hits if rows.weights is None else rows.weights * hits

    def at_least(weights: Array | None) -> Array:
        by_reach = np.bincount(threshold_counts, weights=weights, minlength=len(taus) + 1).astype(
            float
        )
        sums = np.cumsum(by_reach[::-1])[::-1][1:]
        out = np.empty_like(sums)
        out[order] = sums
        return out

    count = at_least(None)
    weight = count if rows.weights is None else at_least(rows.weights)
    if rows.nan_result:
        weight = np.full_like(weight, np.nan)
    return AboveSums(taus, at_least(weights), weight, count)


def conclude_above(sums: AboveSums) -> AccuracyAboveConfidence:
    """Return the curve from its sums."""
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = np.where(sums.count > 0, sums.hits / sums.weight, np.nan)
    return AccuracyAboveConfidence(sums.thresholds, accuracy, sums.count, sums.weight)


def above_confidence_of(
    rows: LabelledRows, summary: RowSummary, taus: Array
) -> AccuracyAboveConfidence:
    """Return the curve of `accuracy_above_confidence`."""
    return conclude_above(gather_above(rows, summary, taus))
