"""Sums of rows on a card in bins: rows are sorted once, and each bin is a piece of the sorted rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.arrays import Namespace
from fastmcmd.metrics.variance_bins import Binned, Cells, mass_bins
from fastmcmd.predictive.base import Array

__all__ = ["bins_on_card", "piece_sums"]

# Pieces from which rows are copied and summed on the host: a sum of its own for each piece takes some
# microseconds to start, so these take as long as the copy of ten million rows.
_MANY = 2048


def piece_sums(card: Namespace, columns: Iterable[Any], edges: NDArray[np.int64]) -> Array:
    """Return the sums (p, s) of columns (m,) over pieces of rows, from an edge (p + 1,) to the next.

    Added up, not told from cumulative sums, as in `variance_bins`. In the same order at every run, which
    the histograms of libraries for cards are not.
    """
    found = []
    for column in columns:
        if len(edges) - 1 > _MANY:
            found.append(_sums_on_host(card.to_host(column), edges))
        else:
            parts = [card.xp.sum(column[start:end]) for start, end in pairwise(edges.tolist())]
            found.append(card.numbers(parts))
    return np.stack(found, axis=1)


def _sums_on_host(column: Array, edges: NDArray[np.int64]) -> Array:
    some = np.diff(edges) > 0  # `reduceat` gives an element, not 0, for an empty piece
    out = np.zeros(len(some))
    out[some] = np.add.reduceat(column, edges[:-1][some])
    return out


def bins_on_card(
    card: Namespace,
    spread: Any,
    weights: Any,
    columns: Iterable[Any],
    bins: int,
    binning: str,
    limits: tuple[float, float] | None = None,
) -> Binned:
    """Return sums in bins of equal weight or width; see `fastmcmd.metrics.variance_bins.into_bins`.

    Parameters
    ----------
    card : Namespace
        Whose arrays the rows are.
    spread : array (m,)
        Predicted spreads, finite.
    weights : array (m,) or None
        Positive weights.
    columns : iterable of arrays (m,)
        Weights, whatever is binned, and noise, as in `Cells`; made one after the other.
    bins, binning, limits
        As in `into_bins`.
    """
    xp, m = card.xp, int(spread.shape[0])
    order = card.argsort(spread)
    ordered = xp.take(spread, order)
    if binning == "mass":
        sorted_weights = None if weights is None else xp.take(weights, order)
        cuts, edges = _mass_pieces(card, ordered, sorted_weights, bins)
    else:
        cuts, edges = _width_pieces(card, ordered, bins, limits)
    sums = piece_sums(card, (xp.take(column, order) for column in columns), edges)
    if binning == "width":
        return Binned(sums[:, :-1], sums[:, -1], cuts)
    cells = Cells(card.at(ordered, edges[:-1]), sums[:, :-1], sums[:, -1])
    ends = card.at(ordered, np.asarray([0, m - 1]))
    return replace(mass_bins(cells, bins), edges=np.concatenate([ends[:1], cuts, ends[1:]]))


def _mass_pieces(
    card: Namespace, ordered: Any, weights: Any, bins: int
) -> tuple[Array, NDArray[np.int64]]:
    """Return the spreads (bins - 1,) at the inner edges of bins of equal weight, and edges of pieces.

    Rows whose spread is that at an edge are a piece, and so is what lies between two such pieces: as
    cells, they give the same bins as cells of each spread.
    """
    m = int(ordered.shape[0])
    steps = np.arange(1, bins)
    if weights is None:
        at = (float(m) * steps / bins).astype(np.int64)
    else:
        running = card.running(weights)
        total = float(card.at(running, np.asarray([m]))[0])
        at = card.positions(running, total * steps / bins, "right") - 1
    cuts = card.at(ordered, np.minimum(at, m - 1))
    ends = [card.positions(ordered, cuts, side) for side in ("left", "right")]
    return cuts, np.unique(np.concatenate([[0, m], *ends]))


def _width_pieces(
    card: Namespace, ordered: Any, bins: int, limits: tuple[float, float] | None
) -> tuple[Array, NDArray[np.int64]]:
    """Return the edges (bins + 1,) of bins of equal width, and those of their pieces.

    Bins hold what `fastmcmd.metrics.variance_bins.width_places` says.
    """
    m = int(ordered.shape[0])
    low, high = limits or card.at(ordered, np.asarray([0, m - 1])).tolist()
    cuts = np.linspace(low, high, bins + 1)
    inner = np.full(bins - 1, m) if low == high else card.positions(ordered, cuts[1:-1], "left")
    return cuts, np.concatenate([[0], inner, [m]])
