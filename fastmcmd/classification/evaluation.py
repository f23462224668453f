"""`evaluate`: all measures of a classification, in shared passes over the probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_choice, check_count, check_flag
from fastmcmd.classification.accuracy import (
    above_confidence_of,
    check_thresholds,
    gather_top_k,
)
from fastmcmd.classification.bins import (
    Binning,
    ClassBins,
    class_columns,
    column_edges,
    sort_column,
)
from fastmcmd.classification.calibration import NORMS, class_error, curve_of
from fastmcmd.classification.columns import over_columns
from fastmcmd.classification.confidence import (
    MEASURES,
    UncertaintyHistogram,
    check_same_classes,
    histogram_of,
)
from fastmcmd.classification.decomposition import decomposition_of
from fastmcmd.classification.events import check_event, gather_event
from fastmcmd.classification.inputs import LabelledRows, read, read_probabilities
from fastmcmd.classification.metric import metric, total
from fastmcmd.classification.ranking import ClassAreas, area_of_sets, average_areas
from fastmcmd.classification.result import ClassificationEvaluation
from fastmcmd.classification.scores import (
    brier_of,
    check_clip,
    halved,
    log_score_of,
    ranked_probability_score_of,
)
from fastmcmd.classification.summary import RowSummary, summarize
from fastmcmd.predictive.base import Array

__all__ = ["evaluate"]


@metric
def evaluate(
    y: ArrayLike,
    p: ArrayLike,
    *,
    p_out: ArrayLike | None = None,
    ordered: bool = False,
    k: int = 5,
    bins: int = 15,
    norm: str = "l1",
    closed: str = "right",
    of: str | None = None,
    clip: float | None = None,
    scale_by_half: bool | str = "auto",
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> ClassificationEvaluation:
    """Return all measures of predicted probabilities of classes.

    Parameters
    ----------
    p_out : array_like (l, C) or (l,), optional
        Probabilities for rows unlike the training data.
    ordered : bool
        Whether classes have an order, so that the ranked probability score is meaningful.
    k : int
        Number of classes for `top_k_accuracy`.
    thresholds : array_like (t,), optional
        Thresholds for `accuracy_above_confidence`.
    sample_weight : array_like (n,), optional
        Nonnegative weights of the rows of y and p.

    Returns
    -------
    ClassificationEvaluation
        All numbers, by name (``evaluation["nll"]``), as ``.table()``, ``.to_dict()`` or ``.to_frame()``.
        Each number equals the result of the function with the same name.

    Notes
    -----
    The function makes three passes over the probabilities. The first summarises rows, the second sorts the
    scores of each class, at most 16 classes at a time, and the third fills the bins defined by these. The
    ranked probability score needs a fourth pass.

    Examples
    --------
    Four rows with probabilities of class 1. The third row is wrong, but both rows of class 1 have
    higher probabilities than those of class 0:

    >>> import fastmcmd as fm
    >>> result = fm.classification.evaluate([0, 1, 1, 0], [0.1, 0.8, 0.4, 0.3])
    >>> result.accuracy, round(result.nll, 4), result.auroc
    (0.75, 0.4004, 1.0)
    """
    check_choice(norm, "norm", NORMS)
    clip, taus = check_clip(clip), check_thresholds(thresholds)
    width, mass = Binning(bins, "width", closed), Binning(bins, "mass", closed)
    k, ordered = check_count(k, "k"), check_flag(ordered, "ordered")
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    of, half = check_event(of, rows), halved(scale_by_half, rows.classes)

    by_class = ClassBins.of(rows, width)
    summary, states = summarize(rows, entropy=True, also=by_class)
    class_sums = by_class.gather(states)

    areas = ClassAreas.of(rows)

    def of_column(label: int, scores: Array) -> tuple[float, Array]:
        label_scores = areas.member_scores(label, scores)
        sorted_scores, weights, order = sort_column(rows, scores)
        area = areas.sorted_area(label, label_scores, sorted_scores, weights, order)
        return area, column_edges(sorted_scores, weights, mass)

    classes = class_columns(rows)
    columns = over_columns(rows, of_column, classes, check=False)
    class_areas = np.array([area for area, _ in columns])
    if rows.nan_result:
        class_areas = np.full_like(class_areas, np.nan)
    by_mass = ClassBins.of(rows, mass, None, np.stack([edges for _, edges in columns], axis=1))
    mass_sums = by_mass.gather_all()
    ranked = total(rows, ranked_probability_score_of(rows, False)).mean if ordered else None

    event = gather_event(rows, of, width, summary)
    scores = total(rows, log_score_of(summary, clip))
    assert summary.entropy is not None
    return ClassificationEvaluation(
        n=len(rows),
        classes=rows.classes,
        accuracy=gather_top_k(rows, summary, 1, "first").mean,
        top_k_accuracy=(gather_top_k(rows, summary, k, "first").mean if k < rows.classes else None),
        k=k,
        nll=scores.mean,
        impossible=total(rows, np.where(summary.label_probability > 0, 0.0, np.inf)).infinite,
        brier_score=total(rows, brier_of(summary, half)).mean,
        brier_decomposition=decomposition_of(class_sums, half),
        ranked_probability_score=ranked,
        ece=float(event.errors(norm)[0]),
        mce=float(event.errors("max")[0]),
        ece_mass=float(gather_event(rows, of, mass, summary).errors(norm)[0]),
        classwise_ece=class_error(class_sums, norm),
        adaptive_ece=class_error(mass_sums, norm),
        confidence=total(rows, summary.confidence).mean,
        entropy=total(rows, summary.entropy).mean,
        auroc=average_areas(class_areas, areas.weights[classes], "macro"),
        auroc_weighted=average_areas(class_areas, areas.weights[classes], "weighted"),
        auroc_classes=int(np.count_nonzero(~np.isnan(class_areas))),
        reliability=curve_of(event),
        above_confidence=above_confidence_of(rows, summary, taus),
        of=of,
        ood={} if p_out is None else _ood(rows, summary, p_out, nan_policy, sum_tolerance),
    )


def _ood(
    rows: LabelledRows,
    summary: RowSummary,
    p_out: ArrayLike,
    nan_policy: NanPolicy,
    sum_tolerance: float | None,
) -> dict[str, tuple[float, UncertaintyHistogram]]:
    """Return areas and histograms for both measures of uncertainty, reading each row once."""
    outside = read_probabilities(p_out, None, nan_policy, sum_tolerance, "p_out")
    check_same_classes(rows, outside)
    other = summarize(outside, entropy=True)[0]
    results = {}
    for measure in MEASURES:
        values_in, values_out = getattr(summary, measure), getattr(other, measure)
        results[measure] = (
            area_of_sets(rows, outside, values_in, values_out, measure),
            histogram_of(rows, outside, values_in, values_out, measure, Binning(20)),
        )
    return results
