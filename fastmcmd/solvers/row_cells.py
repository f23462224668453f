"""Clusters of rows, which a sample of few rows would miss.

Distances over which the kernel falls by a hundredth, a fifth and nine tenths give three sizes of cells.
Rows share a cell if their projections on a few random directions do. A cluster within such a distance falls
into one or a few cells, wherever it is; rows far from all others have cells of their own.

In a cluster that landmarks do not explain, the terms of a residual ``R_i = -sum_j E_ij B_j`` add up. Within
a cell ``E_ij`` is about ``(e_i e_j)^(1/2)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import row_squares, times
from fastmcmd.kernels import Kernel
from fastmcmd.solvers.row_sample import RowGuess

__all__ = ["CellRows", "Cells", "largest_cells", "row_cells"]

Index = NDArray[np.intp]
Cells = NDArray[np.signedinteger]

_LEVELS = 0.99, 0.8, 0.1  # kernel values, relative to k(x, x), at distances that count as close
_WIDTH = 2.0  # side of a cell, in such distances
_DIRECTIONS = 8
_BINS = 4  # least number of bins for each row: cells that share a bin count as one
_BLOCK = 16384  # rows projected at once
_OCTAVES = 30  # distances from 2^-30 to 2^30
_LARGEST = 2.0**52  # farther places count as one
_MOST = 8192  # rows of the largest guesses, whose cells are compared


@dataclass(frozen=True, eq=False)
class CellRows:
    """Rows of the cells where the terms of a residual are largest.

    Attributes
    ----------
    rows : ndarray (s,)
        The rows.
    cells : ndarray (s,)
        Their cells.
    bound : ndarray (s,)
        A bound on the sum of the terms of their residuals within the cell.
    residual_diagonal, norms : ndarray (s,)
        ``e``, and norms of coefficients up to a common factor.
    """

    rows: Index
    cells: Cells
    bound: Array
    residual_diagonal: Array
    norms: Array

    def by_sizes(self) -> RowGuess:
        """Return guesses of squares at one row of each cell, from the sizes of terms, which may cancel."""
        return self._best(self.bound**2)

    def by_sums(self, rhs: Array) -> RowGuess:
        """Return guesses of squares at one row of each cell, from sums with right-hand sides (s, c)."""
        size = np.sqrt(row_squares(rhs))
        factor = np.sqrt(self.residual_diagonal) * self.norms / np.where(size > 0.0, size, 1.0)
        order = np.argsort(self.cells, kind="stable")
        in_order = self.cells[order]
        begins = np.flatnonzero(np.diff(in_order, prepend=in_order[0] - 1))
        sums = np.add.reduceat(factor[order, None] * rhs[order], begins, axis=0)
        squares = np.empty(len(order))
        squares[order] = np.repeat(row_squares(sums), np.diff(begins, append=len(order)))
        return self._best(self.residual_diagonal * squares)

    def guesses(self, rhs: Array) -> list[RowGuess]:
        """Return both kinds of guesses."""
        return [self.by_sizes(), self.by_sums(rhs)]

    def _best(self, squares: Array) -> RowGuess:
        """Return the largest of the guesses in each cell."""
        order = np.argsort(-squares, kind="stable")
        best = order[np.unique(self.cells[order], return_index=True)[1]]
        return RowGuess(self.rows[best], squares[best])


def largest_cells(cells: Cells, residual_diagonal: Array, norms: Array) -> CellRows:
    """Return rows of the ``cells`` (n,) where terms of residuals are largest.

    ``norms`` (n,) are those of the coefficients, up to a common factor.
    """
    root = np.sqrt(residual_diagonal)
    # Terms may cancel. Their sizes bound the sum; at the largest bounds the sum itself can be taken.
    bound: Array = root * np.bincount(cells, weights=root * norms)[cells]
    count = min(len(bound), _MOST)
    rows = np.sort(np.argpartition(bound, len(bound) - count)[-count:])
    return CellRows(rows, cells[rows], bound[rows], residual_diagonal[rows], norms[rows])


def row_cells(kernel: Kernel, x: HostArray) -> list[Cells]:
    """Return a cell (n,) of each row, for each size of cells; the kernel must be translation invariant."""
    n, dim = x.shape
    rng = generator(n, Purpose.PROBE)
    directions = rng.standard_normal((dim, min(dim, _DIRECTIONS)))
    count = directions.shape[1]
    mask = (1 << int(np.ceil(np.log2(_BINS * n)))) - 1
    sizes = [
        (_WIDTH * distance, rng.random(count), rng.integers(1, 2**62, count) | 1)
        for distance in _distances(kernel, dim)
    ]
    kind = np.int32 if mask < 2**31 else np.int64
    cells: list[Cells] = [np.empty(n, dtype=kind) for _ in sizes]
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        at = times(np.asarray(x[rows], dtype=np.float64), directions)
        for out, (side, offset, factors) in zip(cells, sizes, strict=True):
            places = np.clip(np.floor(at / side + offset), -_LARGEST, _LARGEST)
            key = (places.astype(np.int64) * factors).sum(axis=1)
            out[rows] = (key >> 20) & mask
    return cells


def _distances(kernel: Kernel, dim: int) -> list[float]:
    """Return the distances over which the kernel falls to each of `_LEVELS`, in the diagonal direction."""
    distances = 2.0 ** np.arange(-_OCTAVES, _OCTAVES, 0.125)
    unit = np.full((1, dim), dim**-0.5)
    values = np.asarray(kernel(np.zeros((1, dim)), distances[:, None] * unit))[0]
    largest = float(np.asarray(kernel.diagonal(unit))[0])
    counts = [int(np.count_nonzero(values > level * largest)) for level in _LEVELS]
    return [float(distances[min(count, len(distances) - 1)]) for count in counts]
