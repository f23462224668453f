"""Which event of a row is predicted: its most probable class, or class 1; and its sums in bins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.arrays import card_of, on_its_card
from fastmcmd.checks import check_choice
from fastmcmd.classification.bins import (
    Binning,
    BinSums,
    gather_values,
    mass_edges,
    width_edges,
)
from fastmcmd.classification.inputs import Rows, read
from fastmcmd.classification.summary import RowSummary, summarize
from fastmcmd.predictive.base import Array

if TYPE_CHECKING:
    from fastmcmd.classification.card_events import CardRows

__all__ = ["EVENTS", "check_event", "event_of", "event_sums", "gather_event"]

EVENTS = ("top", "positive")


def check_event(of: Any, rows: Rows | CardRows) -> str:
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
    if of == "positive":
        if not rows.binary and summary is None:
            rows.check()
        return rows.positive(), rows.known_labels
    rows.check_labels()
    summary = summary or summarize(rows)[0]
    return summary.confidence, (summary.predicted == rows.known_labels).astype(np.int64)


@on_its_card
def event_sums(
    y: Any,
    p: Any,
    of: str | None,
    binning: Binning,
    sample_weight: Any,
    nan_policy: str,
    sum_tolerance: float | None,
) -> BinSums:
    """Return the sums in bins of one event's probabilities, computed on the card where p lies on one."""
    card = card_of(p)
    if card is None:
        rows = read(y, p, sample_weight, nan_policy, sum_tolerance, labels_later=True)
        return gather_event(rows, check_event(of, rows), binning)
    from fastmcmd.classification.card_events import gather_on_card, read_on_card

    there = read_on_card(card, y, p, sample_weight, nan_policy, sum_tolerance)
    return gather_on_card(there, check_event(of, there), binning)


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
