"""How often the rows are right that a model is sure of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_array
from fastmcmd._base.tables import ColumnTable
from fastmcmd.classification.inputs import LabelledRows, read
from fastmcmd.classification.metric import metric
from fastmcmd.classification.summary import RowSummary, summarize
from fastmcmd.predictive.base import Array

__all__ = [
    "AboveSums",
    "AccuracyAboveConfidence",
    "above_confidence_of",
    "accuracy_above_confidence",
    "check_thresholds",
    "conclude_above",
    "gather_above",
]


@dataclass(frozen=True, eq=False, repr=False)
class AccuracyAboveConfidence(ColumnTable):
    """Accuracy of the rows that a model is sure of.

    Attributes
    ----------
    thresholds : ndarray (t,)
        Confidences tau.
    accuracy : ndarray (t,)
        Accuracy of rows of confidence at least tau; NaN if there are none.
    count, weight : ndarray (t,)
        How many these are, and their weight.
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
) -> AccuracyAboveConfidence:
    """Return accuracy and number of the rows whose confidence is at least each threshold.

    Parameters
    ----------
    thresholds : array_like (t,), optional
        Confidences tau in [0, 1]; default 0, 0.1, ..., 0.9.

    Returns
    -------
    AccuracyAboveConfidence
        The curve.

    Notes
    -----
    Ovadia et al., *Can You Trust Your Model's Uncertainty?* (NeurIPS 2019): rows with
    ``max_k p_k >= tau``. A threshold is rounded to the type of p.

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
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance)
    return above_confidence_of(rows, summarize(rows)[0], taus)


def check_thresholds(thresholds: ArrayLike | None) -> Array:
    """Return confidences in [0, 1]."""
    if thresholds is None:
        return np.arange(10) / 10
    taus = as_array(thresholds, "thresholds").astype(np.float64)
    if taus.ndim != 1 or not len(taus) or not ((taus >= 0) & (taus <= 1)).all():
        raise ValueError(f"thresholds must be numbers in [0, 1] of shape (t,), got {thresholds!r}")
    return taus


@dataclass(frozen=True)
class AboveSums:
    """Sums of the rows of confidence at least each threshold.

    Attributes
    ----------
    thresholds : ndarray (t,)
        Confidences tau.
    hits, weight : ndarray (t,)
        Weight of the rows that are right, and of all; NaN where NaN propagates.
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
    reached = np.searchsorted(
        sorted_taus.astype(summary.confidence.dtype), summary.confidence, "right"
    )
    hits = summary.predicted == rows.known_labels
    weights = hits if rows.weights is None else rows.weights * hits

    def at_least(weights: Array | None) -> Array:
        by_reach = np.bincount(reached, weights=weights, minlength=len(taus) + 1).astype(float)
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
    """Return the curve of sums."""
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = np.where(sums.count > 0, sums.hits / sums.weight, np.nan)
    return AccuracyAboveConfidence(sums.thresholds, accuracy, sums.count, sums.weight)


def above_confidence_of(
    rows: LabelledRows, summary: RowSummary, taus: Array
) -> AccuracyAboveConfidence:
    """Return the curve of `accuracy_above_confidence`."""
    return conclude_above(gather_above(rows, summary, taus))
