"""The compiled backend: every operation is one call into `fastmcmd._core`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastmcmd._base.annotations import DType
from fastmcmd._base.checks import FLOATS
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.base import (
    Array,
    Backend,
    NotPositiveDefiniteError,
    PackedGram,
    Points,
    QuantizedGram,
    RowFeatures,
    packed_shape,
)
from fastmcmd.backends.tile_memory import TILE_MEMORY
from fastmcmd.kernels import Kernel

__all__ = ["CpuBackend", "accepted_pivots", "core", "pivoted_columns"]


@lru_cache(maxsize=1)
def core() -> Any:
    """Return the compiled extension; raise ImportError if it is missing."""
    from fastmcmd import _core

    return _core


@lru_cache(maxsize=64)
def _program(kernel: Kernel, direct: bool) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    names, parameters = kernel.program()
    codes = np.array([core().OPS[name] for name in names], dtype=np.int32)
    values = np.array(parameters, dtype=np.float64).reshape(len(names), 4)
    values[:, 3] = direct  # program.h
    return codes, values


def _like(v: Array, dtype: DTypeLike) -> Array:
    return np.ascontiguousarray(v, dtype=dtype)


def pivoted_columns(
    kernel: Kernel,
    y: Array,
    diagonal: Array,
    worth: Array,
    limit: float,
    noise: float,
    residual: Array,
    columns: Array,
    pivots: NDArray[np.int64],
    rank: int,
    stop: int,
) -> int:
    """Add columns to a pivoted Cholesky factor of k(y, y), and return the number of pivots (`_core`).

    Distances are computed from differences in any dimension: outputs are not centred.
    """
    points = core().PointsF64(np.ascontiguousarray(y), None, threads=1)
    count = core().pivoted_columns(
        *_program(kernel, True), points, diagonal, worth, limit, noise, residual, columns, pivots,
        rank, stop,
    )  # fmt: skip
    return int(count)


def accepted_pivots(
    residual: Array,
    proposals: NDArray[np.intp],
    least: Array,
    most: int,
    rng: np.random.Generator | None,
) -> tuple[NDArray[np.int64], Array]:
    """Return the proposals that become pivots, at most ``most``, and their Cholesky factor (k, k).

    Each proposal, a row of ``residual`` (m, m), is eliminated in turn if its remaining residual exceeds
    ``least`` (m,). With ``rng``, it must also exceed a uniform number times its residual before the call.
    ``residual`` is overwritten. The generator advances by the uniform numbers that are needed.
    """
    count, size = len(proposals), len(residual)
    state, uniform = None, np.empty(0)
    if rng is not None:
        state, uniform = dict(rng.bit_generator.state), rng.random(count)
    pivots, draws = np.empty(count, dtype=np.int64), np.empty(1, dtype=np.int64)
    factor = np.empty(count * count)
    rank = core().accept_pivots(
        residual, proposals.astype(np.int64, copy=False), least, uniform, most, np.empty(size),
        np.empty((count, size)), pivots, factor, draws,
    )  # fmt: skip
    if rng is not None and state is not None and draws[0] < count:
        rng.bit_generator.state = state
        rng.random(draws[0])
    return pivots[:rank], factor[: rank * rank].reshape(rank, rank)


@dataclass(frozen=True)
class CpuBackend(Backend):
    """Tiles by the compiled core, in its own threads.

    Products with no columns return at once, because the core needs at least one column.

    Attributes
    ----------
    direct : bool
        Whether squared distances are computed from differences in any dimension.
    """

    direct: bool = False

    @property
    def name(self) -> str:
        """Name in the registry."""
        return "cpu"

    def supports(self, kernel: Kernel) -> bool:
        """Tell whether the core can evaluate the kernel."""
        return kernel.compiled

    def directly(self) -> CpuBackend:
        """Return the backend that computes squared distances from differences."""
        return _with_differences(self.tile)

    def direct_distances(self, dim: int, kernel: Kernel | None = None) -> bool:
        """Tell whether squared distances are computed from differences.

        A kernel that compares rows needs that in any dimension, because its rows cannot be centred.
        """
        if self.direct or dim <= core().DIRECT_DISTANCE_LIMIT:
            return True
        return kernel is not None and kernel.compares_rows

    def points(
        self, x: Array, dtype: DType | type, offset: NDArray[np.float64] | None = None
    ) -> Points:
        """Return rows packed in panels."""
        kind = np.dtype(dtype)
        if x.dtype not in FLOATS:
            x = x.astype(np.float64)
        make = core().PointsF32 if kind == FLOATS[0] else core().PointsF64
        rows = make(np.ascontiguousarray(x), offset, threads=get_num_threads())
        return Points(rows, x.shape[0], x.shape[1], kind)

    def gram(self, kernel: Kernel, x: Points, z: Points | None = None) -> Array:
        """Return K(x, z) in full."""
        other = x if z is None else z
        out = np.empty((x.n, other.n), dtype=x.dtype)
        core().gram(
            *_program(kernel, self.direct), x.rows, other.rows, out,
            threads=get_num_threads(), tile=self.tile, symmetric=z is None,
        )  # fmt: skip
        return out

    def write_gram(self, kernel: Kernel, x: Points, z: Points, out: Array) -> None:
        """Write K(x, z) into ``out``."""
        core().gram(
            *_program(kernel, self.direct), x.rows, z.rows, out,
            threads=get_num_threads(), tile=self.tile, symmetric=False,
        )  # fmt: skip

    def matmul(self, kernel: Kernel, x: Points, z: Points, v: Array) -> NDArray[np.float64]:
        """Return K(x, z) v, streamed."""
        out = np.empty((x.n, v.shape[1]))
        if not out.size:
            return out
        core().matmul(
            *_program(kernel, self.direct), x.rows, z.rows, _like(v, x.dtype), out,
            threads=get_num_threads(), tile=self.tile,
        )  # fmt: skip
        return out

    def symmetric_matmul(self, kernel: Kernel, x: Points, v: Array) -> NDArray[np.float64]:
        """Return K(x, x) v, streamed."""
        out = np.empty((x.n, v.shape[1]))
        if not out.size:
            return out
        core().symmetric_matmul(
            *_program(kernel, self.direct), x.rows, _like(v, x.dtype), out,
            threads=get_num_threads(), tile=self.tile,
        )  # fmt: skip
        return out

    def quadratic_forms(self, kernel: Kernel, x: Points, c: Array) -> NDArray[np.float64]:
        """Return the diagonal of c' K c, streamed."""
        out = np.empty(c.shape[1])
        if not out.size:
            return out
        core().quadratic_forms(
            *_program(kernel, self.direct), x.rows, _like(c, x.dtype), out,
            threads=get_num_threads(), tile=self.tile,
        )  # fmt: skip
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
        """Return features of rows, by substitution on tiles while they are in the cache."""
        values = np.empty((landmarks.n, x.n), dtype=x.dtype) if keep else None
        squares, norms = np.empty(x.n), np.empty(x.n) if sizes else None
        core().features(
            *_program(kernel, self.direct), landmarks.rows, x.rows, _like(factor, x.dtype), values, squares,
            norms, threads=get_num_threads(),
        )  # fmt: skip
        return RowFeatures(values, squares, norms)

    def write_feature_sums(
        self,
        kernel: Kernel,
        landmarks: Points,
        x: Points,
        factor: Array,
        group: int,
        sums: Array,
        squares: Array,
        *,
        differences: bool = False,
    ) -> None:
        """Write sums of features over groups of rows, and squares."""
        core().feature_sums(
            *_program(kernel, self.direct), landmarks.rows, x.rows, _like(factor, np.float64), group,
            squares, sums, threads=get_num_threads(), differences=differences,
        )  # fmt: skip

    def add_products(
        self, f: Array, rhs: Array, weight: Array | None, gram: Array, cross: Array
    ) -> None:
        """Add products of features, summed over 256 rows in their own precision, then in float64."""
        w = None if weight is None else _like(weight, np.float64)
        core().self_product(f, w, gram, threads=get_num_threads())
        right = rhs if weight is None else rhs * weight[:, None]
        part = np.empty(cross.shape)
        core().dense_matmul(f, _like(right, f.dtype), part, threads=get_num_threads())
        cross += part

    def packed_shape(self, n: int) -> tuple[int, int, int]:
        """Return the shape of the packed tiles; a single tile is no larger than the matrix needs."""
        unit = core().TILE_UNIT
        return packed_shape(n, min(self.tile, -(-n // unit) * unit))

    def pack(self, kernel: Kernel, x: Points) -> PackedGram:
        """Return the packed tiles."""
        packed = PackedGram(np.empty(self.packed_shape(x.n), dtype=x.dtype), x.n)
        core().pack(*_program(kernel, self.direct), x.rows, packed.tiles, threads=get_num_threads())
        return packed

    def pack_matmul(
        self, kernel: Kernel, x: Points, v: Array
    ) -> tuple[PackedGram, NDArray[np.float64]]:
        """Return the packed tiles and their first product."""
        if not v.shape[1]:
            return self.pack(kernel, x), np.empty((x.n, 0))
        return self.pack_part_matmul(kernel, x, v, None)

    def free(self, packed: PackedGram, memory_limit: int) -> None:
        """Leave the memory of the tiles to the next call if it is a small part of the limit."""
        TILE_MEMORY.give(packed.tiles, memory_limit)

    @property
    def packs_parts(self) -> bool:
        """Whether the backend can store the tiles of the first row blocks only."""
        return True

    def pack_part_matmul(
        self, kernel: Kernel, x: Points, v: Array, row_blocks: int | None
    ) -> tuple[PackedGram, NDArray[np.float64]]:
        """Return packed tiles, all or of the first row blocks, and the first product."""
        shape, is_whole = self._part_shape(x.n, row_blocks)
        tiles, out = TILE_MEMORY.take(shape, x.dtype), np.empty((x.n, v.shape[1]))
        core().pack_matmul(
            *_program(kernel, self.direct), x.rows, tiles, _like(v, x.dtype), out,
            threads=get_num_threads(),
        )  # fmt: skip
        return PackedGram(tiles, x.n, source=None if is_whole else (kernel, x)), out

    @property
    def sums_groups(self) -> bool:
        """Whether the backend sums kernel values over groups of points."""
        return True

    def group_sums(
        self, kernel: Kernel, x: Points, starts: NDArray[np.int64], share: Array, groups: slice
    ) -> Array:
        """Return sums over pairs of groups, tile by tile while kernel values are in the cache."""
        out = np.empty((groups.stop - groups.start, len(starts) - 1 - groups.start))
        core().group_sums(
            *_program(kernel, self.direct), x.rows, starts, share, groups.start, groups.stop, out,
            threads=get_num_threads(),
        )  # fmt: skip
        return out

    @property
    def quantizes(self) -> bool:
        """Whether the backend has quantized tiles."""
        return True

    def quantize_matmul(
        self, kernel: Kernel, x: Points, v: Array, row_blocks: int | None = None
    ) -> tuple[QuantizedGram, NDArray[np.float64]]:
        """Return quantized tiles, all or of the first row blocks, and the product from values before."""
        shape, is_whole = self._part_shape(x.n, row_blocks)
        tiles, scales = (
            TILE_MEMORY.take(shape, np.uint16),
            np.empty((*shape[:2], 2), dtype=np.float32),
        )
        out = np.empty((x.n, v.shape[1]))
        core().quantize_matmul(
            *_program(kernel, self.direct), x.rows, tiles, scales, _like(v, np.float32), out,
            threads=get_num_threads(),
        )  # fmt: skip
        return QuantizedGram(tiles, x.n, scales, source=None if is_whole else (kernel, x)), out

    def _part_shape(self, n: int, row_blocks: int | None) -> tuple[tuple[int, int, int], bool]:
        """Return the shape of the tiles of the first row blocks, and whether these are all."""
        count, tile, _ = self.packed_shape(n)
        some = count if row_blocks is None else min(count, row_blocks * (row_blocks + 1) // 2)
        return (some, tile, tile), some == count

    def packed_matmul(self, packed: PackedGram, v: Array) -> NDArray[np.float64]:
        """Return the product of packed tiles with v."""
        out = np.empty((packed.n, v.shape[1]))
        if not out.size:
            return out
        tiles: tuple[Any, ...]
        if isinstance(packed, QuantizedGram):
            tiles, dtype = (packed.tiles, packed.scales), np.dtype(np.float32)
            from_all, from_part = core().quantized_matmul, core().partly_quantized_matmul
        else:
            tiles, dtype = (packed.tiles,), packed.tiles.dtype
            from_all, from_part = core().packed_matmul, core().partly_packed_matmul
        v, threads = _like(v, dtype), get_num_threads()
        if packed.source is None:
            from_all(*tiles, packed.n, v, out, threads=threads)
        else:
            kernel, x = packed.source
            from_part(*_program(kernel, self.direct), x.rows, *tiles, v, out, threads=threads)
        return out

    def packed_add_diagonal(self, packed: PackedGram, diagonal: NDArray[np.float64]) -> None:
        """Add ``diagonal`` to the diagonal, in place."""
        core().packed_add_diagonal(packed.tiles, packed.n, _like(diagonal, np.float64))

    def packed_cholesky(self, packed: PackedGram) -> None:
        """Replace the matrix by its Cholesky factor, in place."""
        bad = core().packed_cholesky(packed.tiles, packed.n, threads=get_num_threads())
        if bad >= 0:
            raise NotPositiveDefiniteError(bad)

    def packed_solve(self, packed: PackedGram, b: Array) -> NDArray[np.float64]:
        """Return the solution for a Cholesky factor."""
        work = np.array(b, dtype=packed.tiles.dtype, order="C")
        if work.size:
            core().packed_solve(packed.tiles, packed.n, work, threads=get_num_threads())
        return work.astype(np.float64, copy=False)


@lru_cache(maxsize=16)
def _with_differences(tile: int) -> CpuBackend:
    """Return the one backend, a frozen object, with these tiles."""
    return CpuBackend(tile, direct=True)
