"""Mean features of many draws in each row, block by block: their features are never stored together.

Some of the draws are the first candidates for pivots: those of the tails as well as typical ones. Then
the residual is measured at every draw, and the draws with the largest become candidates, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd.embedding.sample import DrawnOutputs, Outputs
from fastmcmd.gram import KernelFeatures

__all__ = ["MOST_CANDIDATES", "DrawnMeans", "are_many", "representatives"]

_LEAST, _LEAST_IN_ROW = (
    1 << 16,
    8,
)  # draws from which on they are taken in blocks, altogether and in a row
_LOOKED_AT = 1 << 20  # draws from which the first candidates are taken
_SPREAD = 2500  # candidates at equal numbers of draws, and as many at equal distances
_WORST = 500  # draws that become candidates in a round
_AT_ONCE = 1 << 17  # draws in a block
_SPARSE = 1 << 14  # vectors that tell a first size of cells
_FINER, _COARSER = 1.5, 0.8  # factors of the number of cells along a column
_MOST_CELLS = 1 << 62
MOST_CANDIDATES = 2 * _SPREAD + 2


def are_many(outputs: Outputs) -> bool:
    """Tell whether outputs are draws of equal weight, and numerous enough to be taken in blocks."""
    if not isinstance(outputs, DrawnOutputs) or outputs.weights is not None:
        return False
    n, draws, _ = outputs.values.shape
    return draws >= _LEAST_IN_ROW and n * draws > _LEAST


def representatives(outputs: DrawnOutputs) -> Array:
    """Return distinct draws (u, k) that cover all of them: the first candidates for pivots."""
    flat = outputs.flat
    some = flat[:: -(-len(flat) // _LOOKED_AT)]
    if flat.shape[1] > 1:
        of_cells = _one_of_each_cell(some)
        even = np.arange(0, len(some), -(-len(some) // (2 * _SPREAD - len(of_cells))))
        return np.asarray(some[np.union1d(even, of_cells)], dtype=np.float64)
    ends = flat[[flat[:, 0].argmin(), flat[:, 0].argmax()], 0]
    values = np.sort(np.concatenate([some[:, 0], ends]).astype(np.float64))
    values = values[np.append(True, values[1:] > values[:-1])]
    if len(values) > 2 * _SPREAD:
        last = len(values) - 1
        even = np.searchsorted(values, np.linspace(values[0], values[-1], _SPREAD))
        index = np.concatenate(
            [np.linspace(0, last, _SPREAD).astype(np.intp), np.minimum(even, last)]
        )
        values = values[np.unique(index)]
    return values[:, None]


def _one_of_each_cell(vectors: HostArray) -> NDArray[np.intp]:
    """Return a vector of each occupied cell of a lattice of cubes, the finest of which at most 2,500 are.

    Draws of the tails are rare, but fill many cells.
    """
    low = vectors.min(axis=0)
    width, columns = float((vectors.max(axis=0) - low).max()), vectors.shape[1]
    single = np.zeros(1, dtype=np.intp)
    if not 0 < width < np.inf:
        return single

    def occupied(some: HostArray, count: int) -> NDArray[np.intp]:
        cells = np.minimum((some - low) / width * count, count - 1).astype(np.int64)
        _, places = np.unique(cells @ np.int64(count) ** np.arange(columns), return_index=True)
        return places

    most = int(_MOST_CELLS ** (1 / columns))
    count, next_count, some = 1, 2, vectors[:: -(-len(vectors) // _SPARSE)]
    while next_count <= most and len(occupied(some, next_count)) <= _SPREAD:
        count, next_count = next_count, int(_FINER * next_count) + 1
    while count > 1:
        places = occupied(vectors, count)
        if len(places) <= _SPREAD:
            return places
        count = int(_COARSER * count)
    return single


@dataclass(frozen=True, eq=False)
class DrawnMeans:
    """Mean features of rows of draws.

    Attributes
    ----------
    mean : ndarray (n, r)
        Mean feature of each row.
    miss : ndarray (n,)
        Mean of ``sqrt(e)`` over the draws of each row, with the residual e of each draw.
    worst : ndarray (w, k)
        The draws with the largest residuals above the limit, at most 500.
    """

    mean: Array
    miss: Array
    worst: Array

    @staticmethod
    def of(features: KernelFeatures, outputs: DrawnOutputs, limit: float) -> DrawnMeans:
        """Return the means under ``features``; residuals up to ``limit`` are small enough."""
        n, draws, columns = outputs.values.shape
        mean, miss = np.empty((n, features.rank)), np.empty(n)
        worst, height = np.empty((0, columns)), np.empty(0)
        step = max(1, _AT_ONCE // draws)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            y = np.asarray(outputs.values[rows], dtype=np.float64).reshape(-1, columns)
            mean[rows], residual = features.means(y, draws)
            miss[rows] = np.sqrt(residual).reshape(-1, draws).mean(axis=1)
            above = np.flatnonzero(residual > limit)
            if len(above):
                worst = np.concatenate([worst, y[above]])
                height = np.concatenate([height, residual[above]])
                best = np.argsort(-height, kind="stable")[:_WORST]
                worst, height = worst[best], height[best]
        return DrawnMeans(mean, miss, worst)
