"""Expectations of kernels under continuous predictions of numbers, as integrals over levels.

``E k(Y, z)`` is the integral of ``k(Q(u), z)`` over u in (0, 1), where Q is the quantile function. Unlike
the density, Q has no poles for shape parameters below 1, and a kink of the kernel at z lies at the known
level F(z).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import row_blocks
from fastmcmd.kernels import Kernel
from fastmcmd.predictive.numerics.kronrod import (
    NODES,
    KronrodSums,
    add_panels,
    panel_sums,
    places,
)

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["over_levels"]

# Panels end at these levels and their mirror images. They are denser in the tails, where quantiles change
# fastest. 1e-16 of the mass is left out at either end.
_LEVELS = np.array(
    [1e-16, 1e-13, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5]
)
_ENOUGH = 1e-13  # error allowed in a panel, relative to E|k|
_NEGLIGIBLE = 1e-14  # E|k| that needs no accuracy, relative to sqrt(k(m, m) k(z, z)), m the median
_RESOLVED_CHANGE = (
    0.3  # relative change of the kernel from z to the nearest node; nodes may miss more
)
_BLOCK = 1 << 18  # quantiles and integrals over panels held in memory at once: 2 MB
_CACHED = 1 << 13  # kernel values in a temporary array: 64 kB, which need no new pages of memory
_COLUMNS = 256  # points per block
_FEW_POINTS = 4  # up to so many, finer panels for all save nothing
_SAMPLE = 20  # rows and points that decide on panels
_OFTEN = 0.1  # share of their pairs that make a panel be halved for all
_MOST_CUTS = 3


def over_levels(prediction: Predictive, kernel: Kernel, points: Array) -> Array:
    """Return ``E k(Y_i, z_j)`` (n, r) under continuous predictions of n numbers, for points z (r, 1).

    All points share the quantiles of a row at Gauss-Kronrod nodes. If the error estimate of a panel is too
    large for a pair of row and point, or the kernel is narrower than the distance between nodes, the panel
    is cut at z and halved adaptively, with new quantiles.
    """
    n, r = len(prediction), len(points)
    out = np.zeros((n, r))
    edges = _resolving_edges(prediction, kernel, points)
    step = max(1, _BLOCK // (len(edges[0]) * (NODES + min(r, _COLUMNS))))
    for rows in row_blocks(n, step):
        part = prediction.take(np.arange(rows.start, rows.stop)) if step < n else prediction
        halves = _halves(part, edges)
        for columns in row_blocks(r, _COLUMNS):
            out[rows, columns] = _of_block(part, halves, kernel, points[columns])
    return out


def _resolving_edges(prediction: Predictive, kernel: Kernel, points: Array) -> tuple[Array, Array]:
    """Return the ends of the panels of both halves: finer where most pairs of some would need it.

    Quantiles at nodes that all points share cost less than new ones for each pair of row and point.
    """
    rough = prediction.rough_levels
    edges = (
        np.unique([*_LEVELS, *rough[rough < 0.5]]),
        np.unique([*_LEVELS, *(1 - rough[rough > 0.5])]),
    )
    if len(points) < _FEW_POINTS:
        return edges
    rows = np.unique(np.linspace(0, len(prediction) - 1, _SAMPLE).astype(np.intp))
    some = points[np.unique(np.linspace(0, len(points) - 1, _SAMPLE).astype(np.intp))]
    part = prediction.take(rows)
    for _ in range(_MOST_CUTS):
        size, sums = _shared_sums(_halves(part, edges), kernel, some, _floor(part, kernel, some))
        middles = []
        for one, (_, totals, _, unseen) in zip(edges, sums, strict=True):
            open_ = unseen | (totals.error(size[:, None, :]) > _ENOUGH * size[:, None, :])
            often = np.flatnonzero(open_.mean(axis=(0, 2)) > _OFTEN)
            middles.append((one[often] + one[often + 1]) / 2)
        if not any(len(one) for one in middles):
            break
        edges = (np.union1d(edges[0], middles[0]), np.union1d(edges[1], middles[1]))
    return edges


def _halves(prediction: Predictive, edges: tuple[Array, Array]) -> list[_Half]:
    return [_Half(prediction, one, upper) for one, upper in zip(edges, (False, True), strict=True)]


def _floor(prediction: Predictive, kernel: Kernel, points: Array) -> Array:
    """Return the size (n, r) of expectations that need no accuracy."""
    median = np.asarray(prediction.quantile(0.5))[:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        scale = kernel.diagonal(median)[:, None] * kernel.diagonal(points)[None, :]
        return np.asarray(_NEGLIGIBLE * np.sqrt(scale))


class _Half:
    """The quantiles of some rows at the nodes of panels in the lower or the upper half of the levels.

    Attributes
    ----------
    edges : ndarray (p + 1,)
        Levels at which panels end: masses below (lower half) or above (upper half).
    ends : ndarray (n, p + 1)
        Quantiles at the edges.
    values : ndarray (n, p, NODES)
        Quantiles at the nodes.
    """

    def __init__(self, prediction: Predictive, edges: Array, upper: bool) -> None:
        self.edges, self.upper = edges, upper
        nodes = places(edges[:-1], edges[1:])
        levels = np.concatenate([edges, nodes.ravel()])
        order = np.argsort(levels)  # families are faster at rising levels
        quantiles = np.empty((len(prediction), len(levels)))
        quantiles[:, order] = self._quantiles(prediction, levels[order])
        if not np.isfinite(quantiles).all():
            raise ValueError("prediction has quantiles that are not finite: give draws instead")
        self.ends = quantiles[:, : len(edges)]
        self.values = quantiles[:, len(edges) :].reshape(len(quantiles), *nodes.shape)

    def _quantiles(self, prediction: Predictive, levels: Array) -> Array:
        if not self.upper:
            return np.asarray(prediction.quantile(levels))
        shape = len(prediction), len(levels)
        return prediction.upper_quantiles_at(np.broadcast_to(levels, shape))

    def at(self, prediction: Predictive, levels: Array) -> Array:
        """Return quantiles (p,) at levels (p,), one per row."""
        find = prediction.upper_quantiles_at if self.upper else prediction.quantiles_at
        return find(levels[:, None])[:, 0]

    def level_of(self, prediction: Predictive, y: Array) -> Array:
        """Return the levels of numbers (p,), one per row."""
        return prediction.sf(y) if self.upper else prediction.cdf(y)

    def holds(self, points: Array, rows: slice = slice(None)) -> NDArray[np.bool_]:
        """Return which panels of some rows hold which points: (n, p, r)."""
        low, high = self.ends[rows, :-1, None], self.ends[rows, 1:, None]
        if self.upper:
            low, high = high, low
        return (low <= points) & (points <= high)


_Sums = list[tuple[_Half, KronrodSums, NDArray[np.bool_], NDArray[np.bool_]]]


def _shared_sums(
    halves: list[_Half], kernel: Kernel, points: Array, floor: Array
) -> tuple[Array, _Sums]:
    """Return E|k| (n, r), and of each half its sums, panels that hold points, and those too coarse."""
    size = np.array(floor)
    by_half = []
    for half in halves:
        panels = max(1, half.values[0, :, 0].size * len(points))
        parts = [
            _sums_of_rows(half, rows, kernel, points)
            for rows in row_blocks(len(floor), _CACHED // panels)
        ]
        sums = KronrodSums.concatenated([part for part, _ in parts])
        unseen = np.concatenate([part for _, part in parts])
        size += sums.size.sum(axis=1)
        by_half.append((half, sums, half.holds(points[:, 0]), unseen))
    return size, by_half


def _sums_of_rows(
    half: _Half, rows: slice, kernel: Kernel, points: Array
) -> tuple[KronrodSums, NDArray[np.bool_]]:
    """Return the sums of some rows, and which panels are too coarse for a point that they hold."""
    edges, nodes = half.ends[rows], half.values[rows]
    n, p, r = len(nodes), len(half.edges) - 1, len(points)
    ends = kernel(edges.reshape(-1, 1), points).reshape(n, p + 1, r)
    values = [kernel(nodes[:, :, k].reshape(-1, 1), points).reshape(n, p, r) for k in range(NODES)]
    width = np.diff(half.edges)[None, :, None]
    sums = panel_sums(values, ends[:, :-1], ends[:, 1:], width / 2)
    unseen = half.holds(points[:, 0], rows)
    place = np.nonzero(unseen)
    at_point = kernel.diagonal(points)[place[2]]
    nearest = np.abs(np.stack([v[place] for v in values]) - at_point).min(axis=0)
    unseen[place] = nearest > _RESOLVED_CHANGE * np.abs(at_point)
    return sums, unseen


def _of_block(prediction: Predictive, halves: list[_Half], kernel: Kernel, points: Array) -> Array:
    """Return ``E k`` (n, r) of some rows and points."""
    floor = _floor(prediction, kernel, points)
    n, r = floor.shape
    total = np.zeros((n, r))
    size, sums_of_halves = _shared_sums(halves, kernel, points, floor)
    magnitude = np.array(floor)
    is_open = []
    for _, sums, _, unseen in sums_of_halves:
        scale = size[:, None, :]
        open_ = unseen | (sums.error(scale) > _ENOUGH * scale)
        is_open.append(open_)
        total += np.where(open_, 0.0, sums.fine).sum(axis=1)
        magnitude += np.where(open_, 0.0, sums.size).sum(axis=1)
    for (half, _, holds, _), open_ in zip(sums_of_halves, is_open, strict=True):
        row, panel, column = np.nonzero(open_)
        if len(row):
            pairs = row * r + column
            refined = _Panels(half, pairs, row, panel, column)
            refined.add(
                prediction, kernel, points, holds[open_], total.reshape(-1), magnitude.reshape(-1)
            )
    return total


@dataclass(frozen=True)
class _Panels:
    """Panels (p,) of pairs of rows and points that need new quantiles."""

    half: _Half
    pair: NDArray[np.intp]
    row: NDArray[np.intp]
    panel: NDArray[np.intp]
    column: NDArray[np.intp]

    def add(
        self,
        prediction: Predictive,
        kernel: Kernel,
        points: Array,
        holds: NDArray[np.bool_],
        total: Array,
        size: Array,
    ) -> None:
        """Add adaptive integrals to the totals of the pairs; cut panels at a point that they hold."""
        half, pair = self.half, self.pair
        left, right = half.edges[self.panel], half.edges[self.panel + 1]
        split = np.array(right)
        inner = self.row[holds]
        if len(inner):
            places = points[self.column[holds], 0]
            split[holds] = half.level_of(prediction.take(inner), places)
        split = np.clip(split, left, right)
        two = split < right
        pair = np.concatenate([pair, pair[two]])
        left, right = np.concatenate([left, split[two]]), np.concatenate([split, right[two]])
        some = left < right

        def integrand(pairs: NDArray[np.intp], _: Array) -> Callable[[Array], Array]:
            rows, columns = np.divmod(pairs, len(points))
            part = prediction.take(rows)
            return lambda levels: _pairwise(kernel, half.at(part, levels), points, columns)

        add_panels(total, integrand, pair[some], left[some], right[some], _ENOUGH, size)


def _pairwise(kernel: Kernel, y: Array, points: Array, columns: NDArray[np.intp]) -> Array:
    """Return the kernel values (p,) of numbers y with one point each."""
    z = points[columns, 0]
    if kernel.translation_invariant:
        return kernel((y - z)[:, None], np.zeros((1, 1)))[:, 0]
    out = np.empty(len(y))
    order = np.argsort(columns, kind="stable")
    starts = np.flatnonzero(np.diff(columns[order], prepend=-1))
    for some in np.split(order, starts[1:]):
        out[some] = kernel(y[some, None], points[columns[some[:1]]])[:, 0]
    return out
