"""Ranking of rows by probabilities: the area under the receiver operating characteristic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.checks import check_choice
from fastmcmd.classification.bins import class_columns, sort_column
from fastmcmd.classification.columns import over_columns
from fastmcmd.classification.confidence import MEASURES, read_two_sets, uncertainty_of
from fastmcmd.classification.inputs import LabelledRows, read
from fastmcmd.classification.metric import metric
from fastmcmd.predictive.base import Array

__all__ = [
    "ABSENT",
    "AVERAGES",
    "AreaEstimate",
    "ClassAreas",
    "RankSketch",
    "area_of_sets",
    "auroc",
    "average_areas",
    "gather_sketch",
    "ood_auroc",
]

AVERAGES = ("macro", "weighted")
ABSENT = ("raise", "omit")

# Halvings of the distance to 0 and to 1 that a sketch resolves, down to 2e-10.
OCTAVES = 32
_SKETCH_BLOCK = 1 << 17  # probabilities per block, which stays in the cache


@metric
def auroc(
    y: ArrayLike,
    p: ArrayLike,
    *,
    average: str | None = "macro",
    absent: str = "raise",
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> float | Array:
    """Return the area under the receiver operating characteristic.

    It is the probability that a row of a class gets a higher predicted probability of this class than a row
    of another class; ties count half. The area is exact and needs no thresholds.

    Parameters
    ----------
    p : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1. For two classes, class 1 is ranked.
    average : {"macro", "weighted"} or None
        For more than two classes, each against the rest: the mean of their areas, the mean weighted by the
        rows of each class, or (None) one area per class.
    absent : {"raise", "omit"}
        What to do with classes that no row, or every row, has: raise an error, or average over the others.
        With ``average=None`` and "omit", their areas are NaN.

    Returns
    -------
    float, or ndarray (C,) for ``average=None`` and more than two classes
        In [0, 1]; NaN if every class is omitted.

    Raises
    ------
    ValueError, TypeError
        Labels or probabilities out of range, numbers of rows that differ, or classes without rows.

    Notes
    -----
    This is the Mann-Whitney statistic, as in ``sklearn.metrics.roc_auc_score`` with ``multi_class="ovr"``;
    torchmetrics leaves absent classes out with a warning. Without weights, all scores of a class are sorted
    and the scores of its members are ranked among them. With weights, all rows are ranked.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.auroc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    if average is not None:
        check_choice(average, "average", AVERAGES)
    check_choice(absent, "absent", ABSENT)
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    areas = ClassAreas.of(rows)
    areas.check_absent(absent)
    classes = class_columns(rows)
    areas_by_class = np.array(over_columns(rows, areas.area, classes))
    if rows.nan_result:
        areas_by_class = np.full_like(areas_by_class, np.nan)
    if average is None and len(classes) > 1:
        return areas_by_class
    return average_areas(areas_by_class, areas.weights[classes], average)


@metric
def ood_auroc(
    p_in: ArrayLike,
    p_out: ArrayLike,
    *,
    of: str = "entropy",
    weight_in: ArrayLike | None = None,
    weight_out: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
) -> float:
    """Return the area under the ROC curve for detecting rows unlike the training data by uncertainty.

    Parameters
    ----------
    p_in, p_out : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1, for rows like the training data and unlike it.
    of : {"entropy", "confidence"}
        Measure of uncertainty: entropy, or minus the largest probability.
    weight_in, weight_out : array_like (n,), optional
        Nonnegative weights of the rows.

    Returns
    -------
    float
        The probability that a row of ``p_out`` is more uncertain than a row of ``p_in``; ties count half.

    Notes
    -----
    For "confidence", see Hendrycks & Gimpel, *A Baseline for Detecting Misclassified and
    Out-of-Distribution Examples in Neural Networks* (ICLR 2017).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.ood_auroc([[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.15, 0.85]])
    0.75
    """
    check_choice(of, "of", MEASURES)
    inside, outside = read_two_sets(p_in, p_out, weight_in, weight_out, nan_policy, sum_tolerance)
    return area_of_sets(
        inside, outside, uncertainty_of(inside, of), uncertainty_of(outside, of), of
    )


def area_of_sets(
    inside: LabelledRows, outside: LabelledRows, values_in: Array, values_out: Array, of: str
) -> float:
    """Return `ood_auroc` from the uncertainties of the valid rows."""
    if inside.nan_result or outside.nan_result:
        return float("nan")
    values = np.concatenate([values_in, values_out])
    if of == "confidence":
        values = 0 - values
    if inside.weights is None and outside.weights is None:
        sorted_out = np.sort(values[len(values_in) :])
        values.sort()
        return _area(_core.rank_sum(values, sorted_out), len(values_out), len(values_in))
    positive = np.repeat([False, True], [len(values_in), len(values_out)])
    weights = np.concatenate(
        [np.ones(len(rows)) if rows.weights is None else rows.weights for rows in (inside, outside)]
    )
    order = np.argsort(values)
    pairs, positives, negatives = _concordance(values[order], positive[order], weights[order])
    return pairs / (positives * negatives)


def _concordance(scores: Array, positive: NDArray[np.bool_], weights: Array) -> list[float]:
    """Return the weight of correctly ordered pairs (ties count half), of positives and of negatives."""
    totals = np.empty(3)
    _core.concordance(scores, positive, weights, totals)
    return totals.tolist()


@dataclass(frozen=True, eq=False)
class ClassAreas:
    """Rows sorted by class, and weights of classes, from which all areas are computed.

    Attributes
    ----------
    rows : LabelledRows
        Labels, probabilities and weights.
    order : ndarray (m,)
        Rows in order of their labels.
    starts : ndarray (C + 1,)
        Where each class begins in ``order``.
    weights : ndarray (C,)
        Weight of the rows of each class.
    """

    rows: LabelledRows
    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    weights: Array

    @staticmethod
    def of(rows: LabelledRows) -> ClassAreas:
        """Return the sorted rows and weights for the areas of all classes."""
        labels = rows.known_labels
        counts = np.bincount(labels, minlength=rows.classes)
        weights = np.bincount(labels, weights=rows.weights, minlength=rows.classes)
        order = np.argsort(labels, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)])
        return ClassAreas(rows, order, starts, weights.astype(np.float64))

    def check_absent(self, absent: str) -> None:
        """Raise an error if a class has no or all rows of positive weight, unless ``absent`` is "omit"."""
        weights = self.weights[1:2] if self.rows.classes == 2 else self.weights
        bad = np.flatnonzero((weights == 0) | (weights == self.weights.sum()))
        if len(bad) and absent == "raise":
            label = int(bad[0]) + (self.rows.classes == 2)
            count = "no" if self.weights[label] == 0 else "all"
            raise ValueError(
                f"y has {count} rows of class {label}, so the area of {len(bad)} of {len(weights)} classes "
                "is not defined; use absent='omit' to leave such classes out"
            )

    def area(self, label: int, scores: Array) -> float:
        """Return the area of a class, NaN if undefined; may sort the scores in place."""
        label_scores = self.member_scores(label, scores)
        sorted_scores, weights, order = sort_column(self.rows, scores)
        return self.sorted_area(label, label_scores, sorted_scores, weights, order)

    def member_scores(self, label: int, scores: Array) -> Array:
        """Return the sorted scores of the rows of a class."""
        return np.sort(scores[self.order[self.starts[label] : self.starts[label + 1]]])

    def sorted_area(
        self,
        label: int,
        label_scores: Array,
        sorted_scores: Array,
        weights: Array | None,
        order: NDArray[np.intp] | None,
    ) -> float:
        """Return the area of a class from the result of `sort_column`."""
        if weights is None or order is None or self.rows.labels is None:
            return _area(
                _core.rank_sum(sorted_scores, label_scores),
                len(label_scores),
                len(sorted_scores) - len(label_scores),
            )
        positive = self.rows.labels[order] == label
        pairs, positives, negatives = _concordance(sorted_scores, positive, weights)
        if not (positives > 0 and negatives > 0):
            return float("nan")
        return pairs / (positives * negatives)


def average_areas(areas: Array, weights: Array, average: str | None) -> float:
    """Return the mean of the defined areas."""
    defined = ~np.isnan(areas)
    if not defined.any():
        return float("nan")
    if len(areas) == 1 or average != "weighted":
        return float(areas[defined].mean())
    return float(np.average(areas[defined], weights=weights[defined]))


def _area(rank_sum: int, positives: int, negatives: int) -> float:
    """Return the area from the ranks of positives among all scores; NaN without positives or negatives."""
    if positives == 0 or negatives == 0:
        return float("nan")
    # The sum also counts pairs of positives; by symmetry, half of these are in order.
    return (rank_sum - positives * positives) / (2 * positives * negatives)


@dataclass(frozen=True)
class AreaEstimate:
    """An area under the curve estimated from a histogram, with an error bound.

    Attributes
    ----------
    value : float
        Midpoint of the range of possible areas.
    error_bound : float
        Bound on the distance of the exact area from the value, up to rounding of the sums.
    """

    value: float
    error_bound: float

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, eq=False)
class RankSketch:
    """Fine histograms of the probabilities of each class, for its members and for all other rows.

    Attributes
    ----------
    hits, misses : ndarray (k, bins)
        Weight by class and bin of the rows with this label, and of all other rows. For two classes, only
        class 1 is stored.
    """

    hits: Array
    misses: Array

    def __add__(self, other: RankSketch) -> RankSketch:
        if other.hits.shape != self.hits.shape:
            raise ValueError(
                f"a batch of {len(other.hits)} ranked classes cannot be added to {len(self.hits)}; "
                "all batches must have the same classes"
            )
        return RankSketch(self.hits + other.hits, self.misses + other.misses)

    def estimate(self, average: str | None, absent: str) -> AreaEstimate:
        """Return the average area and its error bound.

        The order of pairs in different bins is known; in the same bin, all pairs or none may be in order.
        """
        positives, negatives = self.hits.sum(axis=1), self.misses.sum(axis=1)
        bad = np.flatnonzero((positives == 0) | (negatives == 0))
        if len(bad) and absent == "raise":
            raise ValueError(
                f"y has no rows, or only rows, of {len(bad)} of {len(positives)} classes, the first is "
                f"class {bad[0] if len(positives) > 1 else 1}: their area is not defined; use "
                "absent='omit' to leave such classes out"
            )
        pairs = positives * negatives
        with np.errstate(invalid="ignore", divide="ignore"):
            below = np.cumsum(self.misses, axis=1) - self.misses
            certain = (self.hits * below).sum(axis=1) / pairs
            doubt = (self.hits * self.misses).sum(axis=1) / (2 * pairs)
        return AreaEstimate(
            average_areas(certain + doubt, positives, average),
            average_areas(doubt, positives, average),
        )


def gather_sketch(rows: LabelledRows, resolution: int) -> RankSketch:
    """Return the histograms, with ``resolution`` bins per halving of the distance to 0 and to 1."""
    shape = (len(class_columns(rows)), 2 * OCTAVES * resolution)
    sketch = RankSketch(np.zeros(shape), np.zeros(shape))
    # One thread only: separate histograms for each thread would cost more than they save.
    for part in row_blocks(len(rows), _SKETCH_BLOCK // rows.classes):
        block, labels = rows.block(part), rows.known_labels[part]
        rows.check_block(part, block)
        if rows.classes == 2:
            block, labels = np.ascontiguousarray(block[:, 1:]), labels - 1
        _core.sketch_rows(
            block, labels, rows.weights_of(part), OCTAVES, resolution, sketch.hits, sketch.misses
        )
    if rows.nan_result:
        return RankSketch(np.full(shape, np.nan), np.full(shape, np.nan))
    return sketch
