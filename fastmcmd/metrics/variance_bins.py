"""Predicted variances and squared errors in bins of predicted spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive.base import Array

__all__ = [
    "Binned",
    "Cells",
    "cells_of",
    "into_bins",
    "mass_bins",
    "mass_groups",
    "width_bins",
    "width_places",
]


@dataclass(frozen=True)
class Cells:
    """Sums over rows of equal, or nearly equal, predicted spread, in ascending order of it.

    Attributes
    ----------
    spread : ndarray (c,)
        Predicted spread of each cell.
    sums : ndarray (c, s)
        Sums over its rows: first of weights, then of whatever is binned. All are shared evenly where a
        cell is astride the edge of a bin.
    noise : ndarray (c,)
        Sums whose share goes by its square: variances of the sums of rows.
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
    """

    sums: Array
    noise: Array
    edges: Array


def cells_of(spread: Array, columns: list[Array], noise: Array) -> Cells:
    """Return a cell for each distinct spread (m,), of columns (m,) the first of which are weights."""
    order = np.argsort(spread)
    spread = spread[order]
    new = np.empty(len(spread), dtype=bool)
    new[0] = True
    np.not_equal(spread[1:], spread[:-1], out=new[1:])
    sums = np.empty((len(columns), len(spread))).T  # columns in one piece each
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

    A cell astride an edge is shared by weight. Rows that cannot be told apart by their spread are
    so treated alike: results depend neither on the order of rows nor on whether a row of weight 2 is
    one or two.
    """
    mass = np.concatenate([[0.0], np.cumsum(cells.sums[:, 0])])
    last = len(cells.sums) - 1
    cuts = mass[-1] * np.arange(1, bins) / bins
    cell = np.minimum(np.searchsorted(mass, cuts, side="right") - 1, last)
    part = np.clip((cuts - mass[cell]) / cells.sums[cell, 0], 0.0, 1.0)
    cell, part = np.concatenate([[0], cell, [last]]), np.concatenate([[0.0], part, [1.0]])
    sums, noise = np.empty((bins, cells.sums.shape[1])), np.empty(bins)
    for b in range(bins):
        between = _Span(int(cell[b]), float(part[b]), int(cell[b + 1]), float(part[b + 1]))
        sums[b] = between.total(cells.sums, 1)
        noise[b] = between.total(cells.noise, 2)
    return Binned(sums, noise, cells.spread[cell])


@dataclass(frozen=True)
class _Span:
    """From part of one cell to part of another."""

    first: int
    start: float
    last: int
    end: float

    def total(self, values: Array, power: int) -> Array:
        """Return the sum of values over cells, those at the ends by a power of their shares.

        Added up, not told from cumulative sums: one gross error in an early bin, in which they would be
        rounded, would spoil all later ones.
        """
        if self.first == self.last:
            return np.asarray((self.end - self.start) ** power * values[self.first])
        inner = values[self.first + 1 : self.last].sum(axis=0)
        ends = (1 - self.start) ** power * values[self.first] + self.end**power * values[self.last]
        return np.asarray(inner + ends)


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
    """Return the bin (m,) of equal width between two limits of each spread.

    Bins hold their left edge, the last also its right one. Spreads beyond the limits are in the first or
    last bin. Where the limits are equal, all are in the first.
    """
    if limits[0] == limits[1]:
        return np.zeros(len(spread), dtype=np.intp)
    edges = np.linspace(*limits, bins + 1)
    return np.clip(np.searchsorted(edges, spread, side="right") - 1, 0, bins - 1)


def mass_groups(spread: Array, weights: Array | None, bins: int) -> tuple[NDArray[np.intp], Array]:
    """Return a group (m,) of each row, and the spread of each group, some of them empty.

    Rows whose spread an edge of bins of equal weight cuts are a group of their own; what lies between two
    edges is one. As cells they give the same bins, and few groups can have columns where rows cannot.
    """
    shares = np.arange(1, bins) / bins
    if weights is None:
        at = np.minimum((len(spread) * shares).astype(np.intp), len(spread) - 1)
        cuts = np.partition(spread, at)[at] if bins > 1 else spread[:0]
    else:
        order = np.argsort(spread)
        total = np.cumsum(weights[order])
        at = np.searchsorted(total, total[-1] * shares, side="right")
        cuts = spread[order[np.minimum(at, len(spread) - 1)]]
    cuts = np.unique(cuts)
    place = np.searchsorted(cuts, spread, side="left")
    group = 2 * place + (np.append(cuts, np.nan)[place] == spread)
    return group, np.append(np.repeat(cuts, 2), spread.max())
