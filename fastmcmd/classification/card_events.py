"""Sums in bins of an event whose probabilities lie on a card: rows are checked, sorted and summed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmcmd.arrays import Namespace, card_of, kind_of
from fastmcmd.checks import as_weights, check_choice, check_positive, check_same_length
from fastmcmd.classification.bins import (
    Binning,
    BinSums,
    exact_edges,
    mass_edges,
    spoil,
    width_edges,
)
from fastmcmd.classification.inputs import (
    SUM_TOLERANCES,
    Rows,
    as_labels,
    as_numbers,
    count_classes,
)
from fastmcmd.metrics.card_bins import piece_sums
from fastmcmd.metrics.card_inputs import bring_weights, without_nan
from fastmcmd.metrics.inputs import NAN_POLICIES

__all__ = ["CardRows", "gather_on_card", "read_on_card"]


@dataclass(frozen=True, eq=False)
class CardRows:
    """Checked labels, probabilities and weights of the rows kept, on a card.

    Attributes
    ----------
    card : Namespace
        Whose arrays they are.
    p : array (m, C) or (m,)
        Probabilities; (m,) are those of class 1.
    labels : array (m,) of int64
        Labels from 0 to C - 1.
    weights : array (m,) or None
        Their weights.
    classes : int
        C.
    spoiled : bool
        Whether every aggregate is NaN: rows held NaN, and it propagates.
    """

    card: Namespace
    p: Any
    labels: Any
    weights: Any
    classes: int
    spoiled: bool

    @property
    def binary(self) -> bool:
        """Whether p is that of class 1 alone."""
        return bool(self.p.ndim == 1)


def read_on_card(
    card: Namespace,
    y: Any,
    p: Any,
    sample_weight: Any,
    nan_policy: str,
    sum_tolerance: float | None,
) -> CardRows:
    """Return checked rows of probabilities on a card; see `fastmcmd.classification.inputs.read`."""
    check_choice(nan_policy, "nan_policy", NAN_POLICIES)
    rounded = "float16" in kind_of(p)  # float16 and bfloat16
    p = card.as_real(p, "p")
    n, classes = int(p.shape[0]) if p.ndim else 0, count_classes(tuple(p.shape), "p")
    tolerance = SUM_TOLERANCES[2 if rounded else np.dtype(kind_of(p)).itemsize]
    if sum_tolerance is not None:
        tolerance = check_positive(sum_tolerance, "sum_tolerance")
    labels = _bring_labels(card, y)
    check_same_length(y=range(labels.shape[0]), p=range(n))
    weights = None
    if sample_weight is not None:
        weights = card.bring(sample_weight, "sample_weight")
        if tuple(weights.shape) != (n,):
            as_weights(np.broadcast_to(0.0, tuple(weights.shape)), "sample_weight", n)
    kept = None
    if nan_policy != "raise":
        with_nan = [p, weights, labels if kind_of(labels).startswith("float") else None]
        kept = without_nan(card, n, [part for part in with_nan if part is not None])
    places = None if kept is None else np.flatnonzero(card.to_host(kept))
    if kept is not None:
        p, labels = p[kept], labels[kept]
        weights = None if weights is None else weights[kept]
    if weights is not None:
        weights = bring_weights(card, weights, int(p.shape[0]))
    found = _as_labels(card, labels, classes, places)
    _check_probabilities(card, p, classes, tolerance, places)
    spoiled = kept is not None and nan_policy == "propagate"
    return CardRows(card, p, found, weights, classes, spoiled)


def _bring_labels(card: Namespace, y: Any) -> Any:
    """Return y (n,) on the card as booleans, integers or floats."""
    if card_of(y) is None:
        numbers = as_numbers(y)
        # Of integers, torch computes with int64 alone on all devices.
        return card.from_host(numbers.astype(np.int64) if numbers.dtype.kind in "iu" else numbers)
    card.check_same(y, "y")
    if y.ndim != 1:
        as_numbers(np.broadcast_to(0.0, tuple(y.shape)))
    return y if kind_of(y).startswith(("bool", "int", "uint")) else card.as_real(y, "y")


def _as_labels(card: Namespace, y: Any, classes: int, places: Any) -> Any:
    """Return labels as int64, or raise what `fastmcmd.classification.inputs.as_labels` says of them."""
    xp, kind = card.xp, kind_of(y)
    if kind == "bool" and classes == 2:
        return card.cast(y, "int64")
    if kind.startswith("float"):
        whole = xp.isfinite(y) & (xp.abs(y) < classes)  # what is not has no meaning as an integer
        labels = card.cast(xp.where(whole, y, -1.0), "int64")
        fits = (labels >= 0) & (card.cast(labels, kind) == y)
    elif kind != "bool":
        labels = card.cast(y, "int64")
        fits = (labels >= 0) & (labels < classes)
    if kind == "bool" or not bool(xp.all(fits)):
        as_labels(card.to_host(y), classes, places)
    return labels


def _check_probabilities(
    card: Namespace, p: Any, classes: int, tolerance: float, places: Any
) -> None:
    """Raise unless all rows are probabilities; the host says what is wrong with the first that is not."""
    xp = card.xp
    if p.ndim == 1:
        fits = (p >= 0) & (p <= 1)
    else:
        total = xp.sum(p, axis=1, dtype=xp.float64)
        fits = (xp.abs(total - 1.0) <= tolerance) & (card.least(p) >= 0) & (card.greatest(p) <= 1)
    if bool(xp.all(fits)):
        return
    row = int(card.argmax(card.cast(~fits, "int8")))
    place = row if places is None else int(places[row])
    values = card.to_host(p[row : row + 1, ...])
    alike = np.broadcast_to(values[0], (place + 1, *values.shape[1:]))
    Rows(alike, None, None, None, classes, tolerance, False, "p").refuse(place)


def gather_on_card(rows: CardRows, of: str, binning: Binning) -> BinSums:
    """Return the sums of one event's probabilities in bins; see `gather_event`."""
    card, weights = rows.card, rows.weights
    values, predicted = _event(rows, of)
    hits = card.cast(predicted == rows.labels, "float64")
    order = card.argsort(values)
    ordered, hits = card.xp.take(values, order), card.xp.take(hits, order)
    weights = None if weights is None else card.xp.take(weights, order)
    if binning.kind == "width":
        edges = width_edges(binning.bins, np.dtype(kind_of(rows.p)))
    else:
        edges = mass_edges(ordered, weights, binning)
    cuts = edges.astype(kind_of(values))
    inner = card.positions(ordered, cuts[1:-1], "right" if binning.right else "left")
    ends = np.concatenate([[0], inner, [values.shape[0]]])
    columns = [card.full(values.shape[0], 1.0), card.cast(ordered, "float64"), hits]
    if weights is not None:
        columns = [weights * column for column in columns]
    weight, value, hit = piece_sums(card, columns, ends).T[:, None, :]
    exact = exact_edges(cuts[:, None], binning)
    value = value - (exact[1:] + exact[:-1]).T / 2 * weight
    missing = np.full_like(hit, np.nan)
    count = np.diff(ends).astype(np.float64)[None]
    found = BinSums(exact, count, weight, value, hit, missing, missing)
    return spoil(found) if rows.spoiled else found


def _event(rows: CardRows, of: str) -> tuple[Any, Any]:
    """Return the probabilities (m,) of an event, and the label (m,) with which it happens."""
    card, p = rows.card, rows.p
    if of == "positive":
        return (p if rows.binary else p[:, 1]), 1
    if not rows.binary:
        return card.greatest(p), card.argmax(p)
    positive = card.cast(p, "float64")
    negative = 1.0 - positive
    second = positive > negative  # the first of equal ones is class 0
    return card.xp.where(second, positive, negative), card.cast(second, "int64")
