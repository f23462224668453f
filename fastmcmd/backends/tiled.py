"""Operations from tiles alone: a backend that can compute a tile inherits all others.

Rows of tiles are distributed over threads. Each thread sums its own rows from left to right, so results are
bit for bit the same for any number of threads.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd._base.annotations import DType
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.base import (
    Array,
    Backend,
    NotPositiveDefiniteError,
    PackedGram,
    Points,
    RowFeatures,
)
from fastmcmd.kernels import Kernel

__all__ = ["TiledBackend", "inner", "times"]


@dataclass(frozen=True)
class TiledBackend(Backend):
    """A backend whose products are NumPy products with its tiles."""

    @abstractmethod
    def tile_of(self, kernel: Kernel) -> Callable[[Array, Array], Array]:
        """Return the function that computes a tile of the matrix from two blocks of rows."""

    @property
    def parallel(self) -> bool:
        """Whether tiles release the interpreter lock, so that threads help."""
        return False

    def direct_distances(self, dim: int, kernel: Kernel | None = None) -> bool:
        """Return True: distances are always computed from differences."""
        del dim, kernel
        return True

    def points(
        self, x: Array, dtype: DType | type, offset: NDArray[np.float64] | None = None
    ) -> Points:
        """Return rows as a C-contiguous array in the precision ``dtype``."""
        kind = np.dtype(dtype)
        centred = x if offset is None else x - offset
        return Points(np.ascontiguousarray(centred, dtype=kind), len(x), x.shape[1], kind)

    def _blocks(self, n: int) -> list[slice]:
        return [slice(start, min(n, start + self.tile)) for start in range(0, n, self.tile)]

    def _run_parallel(self, work: Callable[[int], None], count: int) -> None:
        threads = min(get_num_threads(), count)
        if threads < 2 or not self.parallel:
            for index in range(count):
                work(index)
            return
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(work, range(count)):
                pass

    def gram(self, kernel: Kernel, x: Points, z: Points | None = None) -> Array:
        """Return K(x, z) in full."""
        other = x if z is None else z
        make = self.tile_of(kernel)
        out = np.empty((x.n, other.n), dtype=x.dtype)
        rows, columns = self._blocks(x.n), self._blocks(other.n)

        def work(index: int) -> None:
            for block in columns:
                out[rows[index], block] = make(x.rows[rows[index]], other.rows[block])

        self._run_parallel(work, len(rows))
        return out

    def matmul(self, kernel: Kernel, x: Points, z: Points, v: Array) -> NDArray[np.float64]:
        """Return K(x, z) v, streamed."""
        make = self.tile_of(kernel)
        out = np.zeros((x.n, v.shape[1]))
        v = np.ascontiguousarray(v, dtype=x.dtype)
        rows, columns = self._blocks(x.n), self._blocks(z.n)

        def work(index: int) -> None:
            for block in columns:
                out[rows[index]] += times(make(x.rows[rows[index]], z.rows[block]), v[block])

        self._run_parallel(work, len(rows))
        return out

    def features(
        self,
        kernel: Kernel,
        landmarks: Points,
        x: Points,
        factor: Array,
        *,
        keep: bool,
        sizes: bool,
    ) -> RowFeatures:
        """Return features of rows."""
        lower = np.asarray(factor, dtype=x.dtype)
        f = scipy.linalg.solve_triangular(lower, self.gram(kernel, landmarks, x), lower=True)
        squares = np.einsum("ij,ij->j", f, f, dtype=np.float64)
        norms = None
        if sizes:
            at = scipy.linalg.solve_triangular(lower, f, lower=True, trans="T")
            norms = np.sqrt(np.einsum("ij,ij->j", at, at, dtype=np.float64))
        return RowFeatures(np.ascontiguousarray(f) if keep else None, squares, norms)

    def add_products(
        self, f: Array, rhs: Array, weight: Array | None, gram: Array, cross: Array
    ) -> None:
        """Add products of features, summed in their own precision."""
        weighted_features = f if weight is None else f * weight.astype(f.dtype)
        gram += weighted_features @ f.T
        cross += weighted_features @ rhs.astype(f.dtype)

    def symmetric_matmul(self, kernel: Kernel, x: Points, v: Array) -> NDArray[np.float64]:
        """Return K(x, x) v, streamed."""
        if self.parallel:
            return self.matmul(kernel, x, x, v)  # no shared sums: twice the tiles, on all threads
        return self.packed_sum(self._streamed(kernel, x), x.n, np.asarray(v, dtype=x.dtype))

    def _streamed(self, kernel: Kernel, x: Points) -> Callable[[int, int], Array]:
        make, blocks = self.tile_of(kernel), self._blocks(x.n)
        return lambda i, j: make(x.rows[blocks[i]], x.rows[blocks[j]])

    def packed_sum(
        self, tile: Callable[[int, int], Array], n: int, v: Array
    ) -> NDArray[np.float64]:
        """Return the product of a symmetric matrix, given by its lower tiles, with v."""
        out = np.zeros((n, v.shape[1]))
        blocks = self._blocks(n)
        for i, rows in enumerate(blocks):
            for j in range(i + 1):
                part = tile(i, j)
                out[rows] += times(part, v[blocks[j]])
                if i != j:
                    out[blocks[j]] += inner(part, v[rows])
        return out

    def quadratic_forms(self, kernel: Kernel, x: Points, c: Array) -> NDArray[np.float64]:
        """Return the diagonal of c' K c, streamed."""
        c = np.asarray(c, dtype=x.dtype)
        tile, blocks = self._streamed(kernel, x), self._blocks(x.n)
        out = np.zeros(c.shape[1])
        for i, rows in enumerate(blocks):
            for j in range(i + 1):
                part = np.einsum(
                    "ik,ik->k", c[rows], times(tile(i, j), c[blocks[j]]), dtype=np.float64
                )
                out += part if i == j else 2 * part
        return out

    def pack(self, kernel: Kernel, x: Points) -> PackedGram:
        """Return the packed tiles."""
        tiles = np.zeros(self.packed_shape(x.n), dtype=x.dtype)
        make, blocks = self.tile_of(kernel), self._blocks(x.n)

        def work(i: int) -> None:
            for j in range(i + 1):
                part = make(x.rows[blocks[i]], x.rows[blocks[j]])
                tiles[i * (i + 1) // 2 + j, : part.shape[0], : part.shape[1]] = part

        self._run_parallel(work, len(blocks))
        return PackedGram(tiles, x.n)

    def pack_matmul(
        self, kernel: Kernel, x: Points, v: Array
    ) -> tuple[PackedGram, NDArray[np.float64]]:
        """Return the packed tiles and their first product."""
        packed = self.pack(kernel, x)
        return packed, self.packed_matmul(packed, v)

    def _tiles(self, packed: PackedGram) -> Callable[[int, int], Array]:
        blocks = self._blocks(packed.n)
        sizes = [block.stop - block.start for block in blocks]
        return lambda i, j: packed.tiles[i * (i + 1) // 2 + j, : sizes[i], : sizes[j]]

    def packed_matmul(self, packed: PackedGram, v: Array) -> NDArray[np.float64]:
        """Return the product of packed tiles with v."""
        v = np.asarray(v, dtype=packed.tiles.dtype)
        return self.packed_sum(self._tiles(packed), packed.n, v)

    def packed_add_diagonal(self, packed: PackedGram, diagonal: NDArray[np.float64]) -> None:
        """Add ``diagonal`` to the diagonal, in place."""
        for i, rows in enumerate(self._blocks(packed.n)):
            tile = packed.tiles[i * (i + 1) // 2 + i]
            size = rows.stop - rows.start
            tile[np.arange(size), np.arange(size)] += diagonal[rows].astype(tile.dtype)

    def packed_cholesky(self, packed: PackedGram) -> None:
        """Replace the matrix by its Cholesky factor: LAPACK on diagonal tiles, BLAS on the others."""
        tile, blocks = self._tiles(packed), self._blocks(packed.n)
        for k, block in enumerate(blocks):
            (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), (tile(k, k),))
            tile(k, k)[...], order = potrf(tile(k, k), lower=True, clean=True)
            if order:  # of the leading minor that is not positive
                raise NotPositiveDefiniteError(block.start + order - 1)
            for i in range(k + 1, len(blocks)):
                tile(i, k)[...] = scipy.linalg.solve_triangular(
                    tile(k, k), tile(i, k).T, lower=True, check_finite=False
                ).T
                for j in range(k + 1, i + 1):
                    tile(i, j)[...] -= tile(i, k) @ tile(j, k).T

    def packed_solve(self, packed: PackedGram, b: Array) -> NDArray[np.float64]:
        """Return the solution for a Cholesky factor."""
        tile, blocks = self._tiles(packed), self._blocks(packed.n)
        out = np.array(b, dtype=packed.tiles.dtype)
        for k, rows in enumerate(blocks):
            for j in range(k):
                out[rows] -= tile(k, j) @ out[blocks[j]]
            out[rows] = scipy.linalg.solve_triangular(
                tile(k, k), out[rows], lower=True, check_finite=False
            )
        for k, rows in reversed(list(enumerate(blocks))):
            for i in range(k + 1, len(blocks)):
                out[rows] -= tile(i, k).T @ out[blocks[i]]
            out[rows] = scipy.linalg.solve_triangular(
                tile(k, k), out[rows], lower=True, trans="T", check_finite=False
            )
        return out.astype(np.float64, copy=False)


_ONE_THREAD = 1 << 18  # multiply-adds up to which OpenBLAS stays on the calling thread
_LEAST_ROWS = 32  # with fewer rows, the calls themselves cost more than the threads save


def _pieces(rows: int, columns: int, inner_size: int) -> list[slice]:
    step = _ONE_THREAD // max(1, columns * inner_size)
    if step < _LEAST_ROWS or step >= rows:
        return [slice(0, rows)]
    return [slice(start, min(rows, start + step)) for start in range(0, rows, step)]


def inner(a: Array, b: Array) -> Array:
    """Return ``a' b`` (k, j) in float64 for blocks (n, k) and (n, j)."""
    out = np.zeros((a.shape[1], b.shape[1]))
    for rows in _pieces(len(a), a.shape[1], b.shape[1]):
        out += a[rows].T @ b[rows]
    return out


def times(a: Array, small: Array) -> Array:
    """Return ``a small`` (n, j) for a block (n, k) and a matrix (k, j)."""
    out = np.empty((len(a), small.shape[1]), np.result_type(a, small))
    for rows in _pieces(len(a), *small.shape):
        np.matmul(a[rows], small, out=out[rows])
    return out
