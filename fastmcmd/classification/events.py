"""Which event of a row is predicted: its most probable class, or class 1; and its sums in bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.checks import check_choice
from fastmcmd.classification.bins import (
    Binning,
    BinSums,
    gather_values,
    mass_edges,
    width_edges,
)
from fastmcmd.classification.inputs import Rows
from fastmcmd.classification.summary import RowSummary, summarize
from fastmcmd.predictive.base import Array

__all__ = ["EVENTS", "check_event", "event_of", "gather_event"]

EVENTS = ("top", "positive")


def check_event(of: Any, rows: Rows) -> str:
    """Return which event is predicted, "top" or "positive"."""
    if of is None:
        return "positive" if rows.binary else "top"
    check_choice(of, "of", EVENTS)
    if of == "positive" and rows.classes != 2:
        raise ValueError(
            f"of is 'positive', and p has {rows.classes} classes; it is meant for two "
            "(of class c: y == c and p[:, c])"
        )
    return str(of)


def event_of(
    rows: Rows, of: str, summary: RowSummary | None = None
) -> tuple[Array, NDArray[np.int64]]:
    """Return the probabilities (m,) of an event and whether it happened (m,).

    Reads p unless a summary is given. Those of class 1 given alone are not checked yet, nor are their
    labels where they were left for later: `gather_values` looks at both.
    """
    assert rows.labels is not None
    if of == "positive":
        if not rows.binary and summary is None:
            rows.check()
        return rows.positive(), rows.labels
    rows.check_labels()
    summary = summary or summarize(rows)[0]
    return summary.confidence, (summary.predicted == rows.labels).astype(np.int64)


def gather_event(
    rows: Rows, of: str, binning: Binning, summary: RowSummary | None = None
) -> BinSums:
    """Return the sums of one event's probabilities in bins; reads p unless a summary is given."""
    values, hits = event_of(rows, of, summary)
    if binning.kind == "width":
        edges = width_edges(binning.bins, rows.p.dtype)
    else:
        weights = rows.weights
        order = slice(None) if weights is None else np.argsort(values)
        ordered = np.sort(values) if weights is None else values[order]
        edges = mass_edges(ordered, None if weights is None else weights[order], binning)
    return gather_values(rows, values, hits, edges, binning)
