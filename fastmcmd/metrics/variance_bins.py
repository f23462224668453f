"""Predicted variances and squared errors in bins of predicted spread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.arrays import Namespace
from fastmcmd.predictive.base import Array

__all__ = [
    "Binned",
    "Cells",
    "bins_on_device",
    "cells_of",
    "into_bins",
    "mass_bins",
    "mass_cuts",
    "mass_groups",
    "piece_sums",
    "width_bins",
    "width_places",
]

# Number of pieces from which rows are copied to the host and summed there. Each separate sum takes some
# microseconds to start, so this many cost as much as copying ten million rows.
_MANY = 2048


@dataclass(frozen=True)
class Cells:
    """Sums over rows of equal, or nearly equal, predicted spread, in ascending order of spread.

    Attributes
    ----------
    spread : ndarray (c,)
        Predicted spread of each cell.
    sums : ndarray (c, s)
        Sums over the rows of each cell: first the weights, then the binned quantities. If the edge of a bin
        splits a cell, each bin gets its share of the sums.
    noise : ndarray (c,)
        Variances of sums over rows. If an edge splits a cell, each bin gets the square of its share.
    """

    spread: Array
    sums: Array
    noise: Array


@dataclass(frozen=True)
class Binned:
    """Sums in bins.

    Attributes
    ----------
    sums : ndarray (bins, s)
        As in `Cells`.
    noise : ndarray (bins,)
        As in `Cells`.
    edges : ndarray (bins + 1,)
        Spreads at the edges.
    unit : float
        Divisor of the standard deviations and errors whose squares are summed; it does not apply to edges.
    """

    sums: Array
    noise: Array
    edges: Array
    unit: float = 1.0


def cells_of(spread: Array, columns: list[Array], noise: Array) -> Cells:
    """Return one cell per distinct spread (m,), with sums of columns (m,); weights come first."""
    order = np.argsort(spread)
    spread = spread[order]
    new = np.empty(len(spread), dtype=bool)
    new[0] = True
    np.not_equal(spread[1:], spread[:-1], out=new[1:])
    sums = np.empty((len(columns), len(spread))).T  # each column is contiguous
    for j, column in enumerate(columns):
        sums[:, j] = column[order]
    noise = noise[order]
    if not new.all():
        first = np.flatnonzero(new)
        spread, sums = spread[first], np.add.reduceat(sums, first, axis=0)
        noise = np.add.reduceat(noise, first)
    return Cells(spread, sums, noise)


def into_bins(
    cells: Cells, bins: int, binning: str, limits: tuple[float, float] | None = None
) -> Binned:
    """Return the sums in bins of equal weight ("mass") or of equal width ("width")."""
    return mass_bins(cells, bins) if binning == "mass" else width_bins(cells, bins, limits)


def mass_bins(cells: Cells, bins: int) -> Binned:
    """Return sums in bins of equal weight.

    A cell on an edge is split between both bins by weight. Rows of equal spread are treated alike: results
    depend neither on the order of rows nor on whether a row of weight 2 is one row or two.
    """
    mass = np.concatenate([[0.0], np.cumsum(cells.sums[:, 0])])
    last = len(cells.sums) - 1
    cuts, cell = mass_cuts(mass, bins)
    part = np.clip((cuts - mass[cell]) / cells.sums[cell, 0], 0.0, 1.0)
    cell, part = np.concatenate([[0], cell, [last]]), np.concatenate([[0.0], part, [1.0]])
    spans = _Spans(cell[:-1], part[:-1], cell[1:], part[1:])
    return Binned(spans.totals(cells.sums, 1), spans.totals(cells.noise, 2), cells.spread[cell])


def mass_cuts(mass: Array, bins: int) -> tuple[Array, NDArray[np.intp]]:
    """Return the weights up to each inner edge of bins of equal weight, and the cell of each edge.

    ``mass`` (c + 1,) is the cumulative weight of the cells, beginning with 0.
    """
    cuts = mass[-1] * np.arange(1, bins) / bins
    return cuts, np.minimum(np.searchsorted(mass, cuts, side="right") - 1, len(mass) - 2)


@dataclass(frozen=True)
class _Spans:
    """Ranges of cells, each of which begins and ends within a cell."""

    first: NDArray[np.intp]
    start: Array
    last: NDArray[np.intp]
    end: Array

    def totals(self, values: Array, power: int) -> Array:
        """Return the sums of values over cells of each range; end cells count by a power of their shares.

        Each range is summed separately. With differences of cumulative sums, a gross error in an early bin
        would cost the digits of all later bins.
        """
        column = (-1, *[1] * (values.ndim - 1))
        bounds = np.stack([np.minimum(self.first + 1, self.last), self.last], axis=1)
        inner = np.add.reduceat(values, bounds.ravel(), axis=0)[::2]
        inner[self.first + 1 >= self.last] = 0.0  # of an empty range, NumPy returns the first value
        start, end = ((1 - self.start) ** power).reshape(column), (self.end**power).reshape(column)
        both = ((self.end - self.start) ** power).reshape(column) * values[self.first]
        several = inner + (start * values[self.first] + end * values[self.last])
        return np.where((self.first == self.last).reshape(column), both, several)


def width_bins(cells: Cells, bins: int, limits: tuple[float, float] | None = None) -> Binned:
    """Return sums in bins of equal width; see `width_places`. Cells may be in any order."""
    limits = limits or (float(cells.spread.min()), float(cells.spread.max()))
    place = width_places(cells.spread, bins, limits)
    columns = [np.bincount(place, column, bins) for column in cells.sums.T]
    noise = np.bincount(place, cells.noise, bins)
    return Binned(
        np.stack(columns, axis=1),
        np.asarray(noise, dtype=np.float64),
        np.linspace(*limits, bins + 1),
    )


def width_places(spread: Array, bins: int, limits: tuple[float, float]) -> NDArray[np.intp]:
    """Return the bin (m,) of each spread, for bins of equal width between two limits.

    Bins include their left edge; the last also its right edge. Spreads beyond the limits are in the first
    or last bin. If the limits are equal, all spreads are in the first bin.
    """
    if limits[0] == limits[1]:
        return np.zeros(len(spread), dtype=np.intp)
    edges = np.linspace(*limits, bins + 1)
    return np.clip(np.searchsorted(edges, spread, side="right") - 1, 0, bins - 1)


def mass_groups(spread: Array, weights: Array | None, bins: int) -> tuple[NDArray[np.intp], Array]:
    """Return the group of each row (m,), and the spread of each group; groups may be empty.

    Rows whose spread equals an edge of the bins form one group; rows between two edges form another.
    Binning groups gives the same bins as binning rows, and groups are few enough to carry extra columns.
    """
    shares = np.arange(1, bins) / bins
    if weights is None:
        at = np.minimum((len(spread) * shares).astype(np.intp), len(spread) - 1)
        cuts = np.sort(spread)[at] if bins > 1 else spread[:0]
    else:
        order = np.argsort(spread)
        total = np.cumsum(weights[order])
        at = np.searchsorted(total, total[-1] * shares, side="right")
        cuts = spread[order[np.minimum(at, len(spread) - 1)]]
    cuts = np.unique(cuts)
    place = np.searchsorted(cuts, spread, side="left")
    group = 2 * place + (np.append(cuts, np.nan)[place] == spread)
    return group, np.append(np.repeat(cuts, 2), spread.max())


def piece_sums(arrays: Namespace, columns: Iterable[AnyArray], edges: NDArray[np.int64]) -> Array:
    """Return the sums (p, s) of columns (m,) over pieces of rows between successive edges (p + 1,).

    Each piece is summed separately, as in `mass_bins`, and in the same order in every run; histograms of
    GPU libraries do not guarantee that order.
    """
    sums = []
    for column in columns:
        if len(edges) - 1 > _MANY:
            sums.append(_sums_on_host(arrays.to_host(column), edges))
        else:
            parts = [arrays.xp.sum(column[start:end]) for start, end in pairwise(edges.tolist())]
            sums.append(arrays.numbers(parts))
    return np.stack(sums, axis=1)


def _sums_on_host(column: Array, edges: NDArray[np.int64]) -> Array:
    some = np.diff(edges) > 0  # `reduceat` gives an element, not 0, for an empty piece
    out = np.zeros(len(some))
    out[some] = np.add.reduceat(column, edges[:-1][some])
    return out


def bins_on_device(
    arrays: Namespace,
    spread: AnyArray,
    weights: AnyArray,
    columns: Iterable[AnyArray],
    bins: int,
    binning: str,
    limits: tuple[float, float] | None = None,
) -> Binned:
    """Return sums in bins of equal weight or width; see `into_bins`.

    Parameters
    ----------
    arrays : Namespace
        Library and device of the rows.
    spread : array (m,)
        Predicted spreads, finite.
    weights : array (m,) or None
        Positive weights.
    columns : iterable of arrays (m,)
        Weights, binned quantities and noise, as in `Cells`, created one at a time.
    bins, binning, limits
        As in `into_bins`.
    """
    xp, m = arrays.xp, int(spread.shape[0])
    order = arrays.argsort(spread)
    sorted_spread = xp.take(spread, order)
    if binning == "mass":
        sorted_weights = None if weights is None else xp.take(weights, order)
        cuts, edges = _mass_pieces(arrays, sorted_spread, sorted_weights, bins)
    else:
        cuts, edges = _width_pieces(arrays, sorted_spread, bins, limits)
    sums = piece_sums(arrays, (xp.take(column, order) for column in columns), edges)
    if binning == "width":
        return Binned(sums[:, :-1], sums[:, -1], cuts)
    cells = Cells(arrays.at(sorted_spread, edges[:-1]), sums[:, :-1], sums[:, -1])
    ends = arrays.at(sorted_spread, np.asarray([0, m - 1]))
    return replace(mass_bins(cells, bins), edges=np.concatenate([ends[:1], cuts, ends[1:]]))


def _mass_pieces(
    arrays: Namespace, sorted_spread: AnyArray, weights: AnyArray, bins: int
) -> tuple[Array, NDArray[np.int64]]:
    """Return the spreads (bins - 1,) at the inner edges of bins of equal weight, and the edges of pieces.

    Rows whose spread equals that at an edge form a piece, and so do the rows between two such pieces. With
    these pieces as cells, bins are the same as with one cell per spread.
    """
    m = int(sorted_spread.shape[0])
    steps = np.arange(1, bins)
    if weights is None:
        at = (float(m) * steps / bins).astype(np.int64)
    else:
        running = arrays.running(weights)
        total = float(arrays.at(running, np.asarray([m]))[0])
        at = arrays.positions(running, total * steps / bins, "right") - 1
    cuts = arrays.at(sorted_spread, np.minimum(at, m - 1))
    ends = [arrays.positions(sorted_spread, cuts, side) for side in ("left", "right")]
    return cuts, np.unique(np.concatenate([[0, m], *ends]))


def _width_pieces(
    arrays: Namespace, sorted_spread: AnyArray, bins: int, limits: tuple[float, float] | None
) -> tuple[Array, NDArray[np.int64]]:
    """Return the edges (bins + 1,) of bins of equal width, and the edges of their pieces.

    The bin of a row is that of `width_places`.
    """
    m = int(sorted_spread.shape[0])
    low, high = limits or arrays.at(sorted_spread, np.asarray([0, m - 1])).tolist()
    cuts = np.linspace(low, high, bins + 1)
    inner = (
        np.full(bins - 1, m) if low == high else arrays.positions(sorted_spread, cuts[1:-1], "left")
    )
    return cuts, np.concatenate([[0], inner, [m]])
