"""The predicted event of a row ("the most probable class is right", or "class 1 occurs"), in bins."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray, NanPolicy
from fastmcmd._base.arrays import kind_of, on_array_device
from fastmcmd._base.checks import check_choice
from fastmcmd._base.ignored import IgnoreIndex
from fastmcmd.classification.bins import (
    Binning,
    BinSums,
    exact_edges,
    gather_values,
    mass_edges,
    width_edges,
    with_nan,
)
from fastmcmd.classification.inputs import LabelledRows, read
from fastmcmd.classification.summary import RowSummary, top_classes
from fastmcmd.metrics.variance_bins import piece_sums
from fastmcmd.predictive.base import Array

__all__ = ["EVENTS", "check_event", "event_of", "event_sums", "gather_event"]

EVENTS = ("top", "positive")


def check_event(of: str | None, rows: LabelledRows) -> str:
    """Return the checked event that is predicted, "top" or "positive"."""
    if of is None:
        return "positive" if rows.binary else "top"
    check_choice(of, "of", EVENTS)
    if of == "positive" and rows.classes != 2:
        raise ValueError(
            f"of is 'positive', and {rows.name} has {rows.classes} classes; it is meant for two "
            "(of class c: y == c and p[:, c])"
        )
    return str(of)


def event_of(
    rows: LabelledRows, of: str, summary: RowSummary | None = None
) -> tuple[Array, NDArray[np.int64]]:
    """Return the probabilities (m,) of an event and whether it happened (m,).

    Reads p only without a summary. Probabilities of class 1 alone, and labels whose check `read` postponed,
    are not checked here but in `gather_values`.
    """
    if of == "positive":
        if not rows.binary and summary is None:
            rows.check()
        return rows.positive(), rows.known_labels
    rows.check_labels()
    summary = summary or top_classes(rows)
    return summary.confidence, (summary.predicted == rows.known_labels).astype(np.int64)


@on_array_device
def event_sums(
    y: ArrayLike,
    p: ArrayLike,
    of: str | None,
    binning: Binning,
    sample_weight: ArrayLike | None,
    nan_policy: NanPolicy,
    sum_tolerance: float | None,
    ignore_index: IgnoreIndex = None,
) -> BinSums:
    """Return the sums in bins of the probabilities of an event, computed on the device of p."""
    options = (sample_weight, nan_policy, sum_tolerance)
    rows = read(y, p, *options, labels_later=True, on_device=True, ignore_index=ignore_index)
    return gather_event(rows, check_event(of, rows), binning)


def gather_event(
    rows: LabelledRows, of: str, binning: Binning, summary: RowSummary | None = None
) -> BinSums:
    """Return the sums in bins of the probabilities of an event; reads p only without a summary."""
    if not rows.namespace.on_host:
        return _gather_on_device(rows, of, binning)
    values, hits = event_of(rows, of, summary)
    if binning.kind == "width":
        edges = width_edges(binning.bins, rows.p.dtype)
    else:
        weights = rows.weights
        order = slice(None) if weights is None else np.argsort(values)
        sorted_values = np.sort(values) if weights is None else values[order]
        edges = mass_edges(sorted_values, None if weights is None else weights[order], binning)
    return gather_values(rows, values, hits, edges, binning)


def _gather_on_device(rows: LabelledRows, of: str, binning: Binning) -> BinSums:
    """Return the sums in bins of the probabilities of an event; see `gather_event`.

    Rows are sorted once; each bin is a contiguous piece of the sorted rows.
    """
    arrays, weights = rows.namespace, rows.weights
    values, predicted = _event_on_device(rows, of)
    hits = arrays.cast(predicted == rows.labels, "float64")
    order = arrays.argsort(values)
    sorted_values, hits = arrays.xp.take(values, order), arrays.xp.take(hits, order)
    weights = None if weights is None else arrays.xp.take(weights, order)
    if binning.kind == "width":
        edges = width_edges(binning.bins, np.dtype(kind_of(rows.p)))
    else:
        edges = mass_edges(sorted_values, weights, binning)
    cuts = edges.astype(kind_of(values))
    inner = arrays.positions(sorted_values, cuts[1:-1], "right" if binning.right else "left")
    ends = np.concatenate([[0], inner, [values.shape[0]]])
    columns = [arrays.full(values.shape[0], 1.0), arrays.cast(sorted_values, "float64"), hits]
    if weights is not None:
        columns = [weights * column for column in columns]
    weight, value, hit = piece_sums(arrays, columns, ends).T[:, None, :]
    exact = exact_edges(cuts[:, None], binning)
    value = value - (exact[1:] + exact[:-1]).T / 2 * weight
    missing = np.full_like(hit, np.nan)
    count = np.diff(ends).astype(np.float64)[None]
    sums = BinSums(exact, count, weight, value, hit, missing, missing)
    return with_nan(sums) if rows.nan_result else sums


def _event_on_device(rows: LabelledRows, of: str) -> tuple[AnyArray, AnyArray]:
    """Return the probabilities (m,) of an event, and the label (m,) with which it happens."""
    arrays, p = rows.namespace, rows.original(slice(None))
    if of == "positive":
        return (p if rows.binary else p[:, 1]), 1
    if not rows.binary:
        return arrays.greatest(p), arrays.argmax(p)
    positive = arrays.cast(p, "float64")
    negative = 1.0 - positive
    second = positive > negative  # if both are equal, class 0 comes first
    return arrays.xp.where(second, positive, negative), arrays.cast(second, "int64")
