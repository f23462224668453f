"""The input kernel matrix as a linear operator under a memory budget.

A `GramOperator` multiplies K_X by a few columns at a time. It holds the prepared rows and, if that pays and
the budget allows, the packed lower tiles of K_X; otherwise every product recomputes (streams) its tiles.
The operator does not depend on the meaning of the right-hand sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, DType, HostArray
from fastmcmd._base.cached import cached_property
from fastmcmd._base.memory import power_of_two_within
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.base import Backend, PackedGram, Points, QuantizedGram
from fastmcmd.backends.column_blocks import ColumnBlocks
from fastmcmd.backends.tall_skinny import HostBlocks
from fastmcmd.gram.cost import (
    FEWEST_PRODUCTS,
    QUANTIZED_READ_COST,
    READ_COST,
    cached_pays,
    entry_cost,
    prepared_bytes,
)  # fmt: skip
from fastmcmd.gram.precision import EXACT, FLOAT32, tile_dtype
from fastmcmd.gram.quantized import (
    LEAST_QUANTIZED,
    LEAST_QUANTIZED_VALUE,
    QUANTIZED_COLUMNS,
    QUANTIZED_STEPS,
    quantization_error,
    row_errors,
)  # fmt: skip
from fastmcmd.gram.row_statistics import (
    check_finite,
    diagonal_of,
    exact_offset_of,
    is_exact,
    largest_diagonal,
    largest_norm2,
    offset_of,
    shared_row_statistics,
)
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.distance import ROUNDED_ROWS
from fastmcmd.rows import Rows, as_blocks

__all__ = ["GramOperator"]

_LEAST_SHARE = 0.1  # of the tiles: less saves too little time for the memory
_BLOCK_BYTES = 32_000_000  # bytes of rows read or converted at once if all of them do not fit
_PIECE_BYTES = (
    4_000_000  # of those with which a block is multiplied: memory that is used again at once
)


class GramOperator:
    """K(x, x) for one set of distinct inputs.

    Parameters
    ----------
    backend : Backend
        Backend that computes tiles.
    kernel : Kernel
        Resolved input kernel.
    x : ndarray (n, d) or Rows, float32 or float64
        Inputs, in memory or on disk.
    dtype : numpy.dtype
        Precision of the tiles; float64 if float32 would make different rows equal (`tile_dtype`).
    budget : int
        Bytes that prepared rows and cached tiles may use.
    products : float
        Expected number of products, which decides whether storing tiles pays.
    search_bytes : int
        Bytes beyond the budget that a search for landmarks takes. Tiles use them in between: each search
        begins with `begin_search`.
    """

    def __init__(
        self,
        backend: Backend,
        kernel: Kernel,
        x: HostArray | Rows,
        dtype: DType,
        budget: int,
        products: float = FEWEST_PRODUCTS,
        search_bytes: int = 0,
    ) -> None:
        self.backend = backend
        self.kernel = kernel
        self.x = x
        self.dtype = tile_dtype(kernel, dtype, x)
        self.budget, self.search_bytes = budget, search_bytes
        self._products = products
        self.passes = 0
        self.has_cached = self.has_quantized = self.has_part = self.has_filed = False
        self.quantized = False
        self.feature_bytes = 0  # of a preconditioner, beside rows and tiles
        self._most_bytes = 0  # held before features took the place of tiles
        self._points: Points | None = None
        self._exact_points: Points | None = None
        self._packed: PackedGram | None = None
        with shared_row_statistics():
            self.offset = offset_of(kernel, backend, x)
            if self.offset is None:
                self.offset = exact_offset_of(kernel, backend, x)
            self.max_norm2 = largest_norm2(x, self.offset)
            self._largest = largest_diagonal(kernel, x)
        check_finite(kernel, self._largest, self.max_norm2)

    @property
    def quantizable(self) -> bool:
        """Whether tiles have a form in 16 bits, and are large enough for it to matter."""
        large = self.size >= LEAST_QUANTIZED and self._largest >= LEAST_QUANTIZED_VALUE
        return large and self.dtype == FLOAT32 and self.backend.quantizes

    def quantize_within(self, error: float) -> None:
        """Let products read quantized tiles if their entries then err by at most ``error``.

        That is the root of the mean square, estimated from some rows. Only products after the first are
        affected: the first computes the tiles.
        """
        if not self.quantizable:
            return
        rng = generator(self.size, Purpose.PROBE)
        rows, _ = self.random_rows(QUANTIZED_COLUMNS, rng)
        values = np.array(self.backend.gram(self.kernel, self.prepare(rows, self.dtype)))
        self.quantized = quantization_error(values) <= error

    @property
    def quantization_bound(self) -> float:
        """Bound on the error of an entry of quantized tiles, beside its rounding in float32."""
        # Half a step; values lie between -k(x, x) and k(x, x), of the largest. Six roundings between a
        # value and its code and back add up to 1 / 256 of a step each.
        return 1.05 * self._largest / QUANTIZED_STEPS if self.quantized else 0.0

    def quantization_errors(self, squares: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the expected squares (n,) of what quantized tiles add to rows of K B, after a product.

        None if it read none. ``squares`` (n,) are ``|B_i|^2``.
        """
        if not isinstance(self._packed, QuantizedGram):
            return None
        return row_errors(self._packed.tiles, self._packed.scales, squares)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy or a pickle, without prepared rows and tiles."""
        made_again = {"_points": None, "_exact_points": None, "_packed": None}
        return {**self.__dict__, **made_again}

    def __len__(self) -> int:
        return len(self.x)

    @property
    def size(self) -> int:
        """Number of rows that costs are counted for: its own, unless it represents more rows (a plan)."""
        return len(self)

    @property
    def rounding_share(self) -> float:
        """Factor of measured rounding: 1, unless the operator represents more rows (a plan)."""
        return 1.0

    @property
    def most_landmarks(self) -> int:
        """Most landmarks among `random_rows`; no limit unless the operator represents more rows."""
        return 1 << 62

    def random_rows(
        self, count: int, rng: np.random.Generator
    ) -> tuple[HostArray, NDArray[np.intp]]:
        """Return at most ``count`` rows drawn at random, and their indices in the diagonal.

        They may be further rows of the same kind, if the operator represents more rows (a plan).
        """
        return self.own_rows(count, rng)

    def own_rows(self, count: int, rng: np.random.Generator) -> tuple[HostArray, NDArray[np.intp]]:
        """Return at most ``count`` of its own rows drawn at random, and their indices."""
        n = len(self)
        index = np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))
        return self.x[index], index

    @cached_property
    def diagonal(self) -> NDArray[np.float64]:
        """k(x_i, x_i) (n,)."""
        return diagonal_of(self.kernel, self.x)

    @property
    def dim(self) -> int:
        """Number of input columns d."""
        return int(self.x.shape[1])

    @property
    def caches(self) -> bool:
        """Whether products come from packed tiles, all of them or a part."""
        return self.row_blocks > 0

    @property
    def _tile_rows(self) -> int:
        """Rows of a tile."""
        return self.backend.packed_shape(self.size)[1]

    @property
    def row_blocks(self) -> int:
        """Number of row blocks whose tiles are stored: all, the first, or none."""
        return self._blocks_beside(self.feature_bytes, self._tile_budget)

    @property
    def _tile_budget(self) -> int:
        """Bytes of prepared rows, tiles and features while there is no search for landmarks."""
        return self.budget + self.search_bytes

    def begin_search(self) -> None:
        """Free what uses the memory of a search for landmarks."""
        if self._uses_search_bytes(self._stored_bytes):
            self.drop_tiles()
            self._exact_points = None

    @property
    def needs_search_bytes(self) -> bool:
        """Whether tiles will use the memory of a search for landmarks, which is then not to stay."""
        return self._uses_search_bytes(self.tile_bytes)

    def _uses_search_bytes(self, tile_bytes: int) -> bool:
        if self.backend.on_device or not self.holds_rows:
            return False
        exact_bytes = 0 if self._exact_points is None else self.row_bytes(EXACT)
        row_bytes = self.row_bytes(self.dtype) + exact_bytes
        return row_bytes + self.feature_bytes + tile_bytes > self.budget

    def _blocks_beside(self, feature_bytes: int, budget: int) -> int:
        """Return the row blocks whose tiles fit beside prepared rows and features."""
        device, quantized = self.backend.on_device, self.quantized
        pays = cached_pays(self.entry_cost, self._products, device, quantized=quantized)
        if not (pays and self.holds_rows):
            return 0
        before, blocks = self.row_bytes(self.dtype) + feature_bytes, self._all_row_blocks
        if self.backend.keeps(self._bytes_of(blocks), before, budget):
            return blocks
        tiles = max(0, budget - before) // self._bytes_of(1)
        part = (math.isqrt(8 * tiles + 1) - 1) // 2
        return part if self.backend.packs_parts and self._share(part) >= _LEAST_SHARE else 0

    @property
    def _all_row_blocks(self) -> int:
        """Number of row blocks of the matrix."""
        return -(-self.size // self._tile_rows)

    def _share(self, row_blocks: int) -> float:
        """Return the share of the tiles that row blocks hold."""
        blocks = self._all_row_blocks
        return row_blocks * (row_blocks + 1) / (blocks * (blocks + 1))

    def reserve(self, feature_bytes: int) -> None:
        """Reserve memory for features of a preconditioner; a part of the tiles is freed if it is needed."""
        if self._packed is not None:
            self._most_bytes = max(self._most_bytes, self.peak_bytes)
        before = self.row_blocks
        self.feature_bytes = max(self.feature_bytes, feature_bytes)
        if self.row_blocks < before:
            self.drop_tiles()

    @cached_property
    def packed_bytes(self) -> int:
        """Bytes of all packed lower tiles."""
        return math.prod(self.backend.packed_shape(len(self))) * self.dtype.itemsize

    def _bytes_of(self, row_blocks: int) -> int:
        """Return the bytes of the tiles of some row blocks, which may be quantized."""
        rows, count = self._tile_rows, row_blocks * (row_blocks + 1) // 2
        if self.quantized:  # codes and scales
            return count * (2 * rows * rows + 8 * rows)
        return count * rows * rows * self.dtype.itemsize

    @property
    def tile_bytes(self) -> int:
        """Bytes of the tiles that are stored."""
        return self._bytes_of(self.row_blocks)

    def row_bytes(self, dtype: DType) -> int:
        """Return the bytes of all rows prepared in ``dtype``."""
        return prepared_bytes(self.x.size, np.dtype(dtype).itemsize)

    def points(self) -> Points:
        """Return the prepared rows in the precision of the tiles."""
        if self._points is None:
            self._points = self.prepare(self._in_memory(self.x), self.dtype)
        return self._points

    def prepare(self, x: Any, dtype: DType) -> Points:
        """Return some rows (m, d) prepared in ``dtype``, with the operator's offset."""
        return self.backend.points(x, dtype, self.offset)

    def _stay(self, x: HostArray | Rows) -> bool:
        """Tell whether a device prepares the rows in place, which takes no host memory."""
        if isinstance(x, Rows):
            return x.on_device is not None and self.backend.takes(x.on_device)
        return self.backend.on_device

    def _in_memory(self, x: HostArray | Rows) -> Any:
        """Return all rows: on the device if they stay there, else in host memory."""
        if not isinstance(x, Rows):
            return x
        return x.on_device if self._stay(x) else x[:]

    @cached_property
    def holds_rows(self) -> bool:
        """Whether the prepared rows fit; if not, every product reads and prepares them again."""
        if self._stay(self.x):
            return True
        need = self.row_bytes(self.dtype) + self.feature_bytes
        if isinstance(self.x, Rows):
            need += self.x.nbytes  # while they are prepared
        return need <= self.budget

    def block_rows(self, x: HostArray | Rows) -> int:
        """Return how many rows are read and converted at once where not all are."""
        most = min(_BLOCK_BYTES, power_of_two_within(self.budget // 4))
        return max(256, most // (8 * x.shape[1]))

    def blocks(self, columns: int) -> ColumnBlocks:
        """Return where CG keeps its blocks of at most so many columns."""
        blocks = self.backend.blocks(len(self), columns) if self.holds_rows else None
        return HostBlocks() if blocks is None else blocks

    def matmul(self, v: AnyArray, *, exact: bool = False) -> AnyArray:
        """Return K v (n, k) in float64, from tiles of the operator's precision.

        ``v`` is in host memory or, unless ``exact``, a block of `blocks`. ``exact`` computes the tiles in
        float64, for a certificate.
        """
        self.passes += 1
        if exact and self.dtype != EXACT:
            if self._exact_points is None:
                if not self._holds_exact(0):
                    return self.cross_matmul(self.x, v, EXACT)
                if not self._holds_exact(self._stored_bytes):
                    # It takes less time to fill them again than to compute each pair twice in float64.
                    self.drop_tiles()
                self._exact_points = self.prepare(self._in_memory(self.x), EXACT)
            return self.backend.symmetric_matmul(self.kernel, self._exact_points, v)
        if self._packed is not None:
            return self.backend.packed_matmul(self._packed, v)
        if self.caches:
            return self._filled(v)
        if not self.holds_rows:
            return self.cross_matmul(self.x, v, self.dtype)
        return self.backend.symmetric_matmul(self.kernel, self.points(), v)

    def _filled(self, v: AnyArray) -> AnyArray:
        """Fill the packed tiles, and return the product."""
        if not self._holds_exact(self.tile_bytes):
            self._exact_points = None
        # Fewer if it represents more rows.
        blocks = -(-self.row_blocks * len(self) // self.size)
        self.has_part = self.row_blocks < self._all_row_blocks
        parts = self.kernel, self.points(), v
        if not self.quantized:
            self.has_cached = True
            if not self.has_part:
                self._packed, product = self.backend.pack_matmul(*parts)
            else:
                self._packed, product = self.backend.pack_part_matmul(*parts, blocks)
            return product
        self.has_quantized = True
        self._packed, product = self.backend.quantize_matmul(*parts, blocks)
        # A run that continues from a checkpoint gets the bits of one that was not interrupted.
        return product if self.passes == 1 else self.backend.packed_matmul(self._packed, v)

    def drop_tiles(self) -> None:
        """Free the packed tiles."""
        self._packed = None

    def drop_cache(self) -> None:
        """Free the packed tiles and prepared rows."""
        self.drop_tiles()
        self._points = None

    def release(self) -> None:
        """Free everything that can be recomputed, once the systems are solved."""
        if self._packed is not None:
            self.backend.free(self._packed, self.budget)
        self.drop_cache()
        self._exact_points = None

    @property
    def cache(self) -> str:
        """Where tiles were: on "disk" (a factor), "packed" or "quantized" in memory, or "streamed".

        "partly packed" and "partly quantized" if memory held some of them.
        """
        if self.has_filed:
            return "disk"
        if not (self.has_cached or self.has_quantized):
            return "streamed"
        kind = "packed" if self.has_cached else "quantized"
        return f"partly {kind}" if self.has_part else kind

    @property
    def peak_bytes(self) -> int:
        """Most bytes of prepared rows, packed tiles and features that this operator held."""
        if self.has_filed:  # block columns of the factor use the whole budget
            return self.budget
        now = self.row_bytes(self.dtype) + self.feature_bytes
        if self.has_cached and not self.has_part:
            now += self.packed_bytes
        elif self.has_cached or self.has_quantized:
            now += self.tile_bytes
        return max(now, self._most_bytes)

    @property
    def spare_bytes(self) -> int:
        """Bytes of the budget for features of a preconditioner; 0 on a device.

        All tiles are stored before features, and a part of them after.
        """
        if self.backend.on_device or not self.holds_rows:
            return 0
        blocks = self._blocks_beside(self.feature_bytes, self.budget)
        has_all = blocks == self._all_row_blocks
        return self.budget - self.row_bytes(self.dtype) - (self.tile_bytes if has_all else 0)

    @property
    def _stored_bytes(self) -> int:
        """Bytes of the tiles that are in memory now."""
        return 0 if self._packed is None else self._packed.nbytes

    def _holds_exact(self, tile_bytes: int) -> bool:
        """Tell whether rows prepared in float64 fit beside those in the tiles' precision, and tiles."""
        if self._stay(self.x):
            return True
        held_bytes = tile_bytes + self.feature_bytes + self.row_bytes(self.dtype)
        return self.holds_rows and held_bytes + self.row_bytes(EXACT) <= self._tile_budget

    def cross_matmul(
        self, grid: HostArray | Rows, v: NDArray[np.float64], dtype: DType
    ) -> NDArray[np.float64]:
        """Return K(grid, x) v (q, k) in float64, from tiles of ``dtype``, streamed in blocks."""
        kind = tile_dtype(self.kernel, dtype, self.x, grid)
        blocks: list[tuple[slice, Points]] = []
        if kind == self.dtype and self.holds_rows:
            blocks = [(slice(None), self.points())]
        elif kind == EXACT and self._exact_points is not None:
            blocks = [(slice(None), self._exact_points)]
        elif self._stay(self.x):
            blocks = list(self._converted(self.x, kind))
        out = np.empty((len(grid), v.shape[1]))
        for rows, targets in self._converted(grid, kind):
            total: NDArray[np.float64] | None = None
            for columns, points in blocks or self._converted(self.x, kind, _PIECE_BYTES):
                part = self.backend.matmul(self.kernel, targets, points, v[columns])
                total = part if total is None else np.add(total, part, out=total)
                del points  # the next ones take its memory, whose pages are there
            if total is not None and len(total) == len(out):
                return total
            out[rows] = 0.0 if total is None else total
        return out

    def _converted(
        self, x: HostArray | Rows, dtype: DType, most_bytes: int = _BLOCK_BYTES
    ) -> Iterator[tuple[slice, Points]]:
        """Yield rows in prepared pieces of blocks; rows on a device as one, which the device divides."""
        if self._stay(x):
            yield slice(None), self.prepare(self._in_memory(x), dtype)
            return
        step = max(256, most_bytes // (8 * x.shape[1]))
        for block, rows in as_blocks(x, self.block_rows(x)):
            for piece, some in as_blocks(rows, step):
                start = block.start + piece.start
                yield slice(start, start + len(some)), self.prepare(some, dtype)

    def columns(self, grid: HostArray | Rows) -> NDArray[np.float64]:
        """Return K(x, grid) (n, q) in float64, the right-hand sides of the dense form."""
        exact = self.dtype == EXACT and self.holds_rows  # the rows that products use
        x = self.points() if exact else self.prepare(self._in_memory(self.x), EXACT)
        z = None if grid is self.x else self.prepare(self._in_memory(grid), EXACT)
        return np.ascontiguousarray(self.backend.gram(self.kernel, x, z), dtype=np.float64)

    def pack(self, dtype: DType) -> PackedGram:
        """Return a new packed copy of K in ``dtype``, to be factored in place."""
        self.has_cached, self.has_part = True, False
        kind = tile_dtype(self.kernel, dtype, self.x)
        if kind == self.dtype:
            return self.backend.pack(self.kernel, self.points())
        return self.backend.pack(self.kernel, self.prepare(self._in_memory(self.x), kind))

    def rounding(self, dtype: DType, grid: HostArray | Rows | None = None) -> float:
        """Return a bound on the error of an entry of K(grid, x) as computed in ``dtype``."""
        points = self.x if grid is None else grid
        kind = tile_dtype(self.kernel, dtype, self.x, points)
        norm2, largest, dim = self.max_norm2, self._largest, self.dim
        if points is not self.x:
            with shared_row_statistics():
                largest = self.largest(points)
                norm2 = max(norm2, largest_norm2(points, self.offset))
        direct, unit = self.backend.direct_distances(dim, self.kernel), self.backend.unit(kind, dim)
        # The operator's own rows are centred without rounding; points elsewhere may not be.
        if direct and self.offset is not None and points is not self.x:
            unit = unit if is_exact(points, self.offset) else max(unit, ROUNDED_ROWS)
        return self.kernel.rounding(unit, dim, norm2, direct, largest)

    def largest(self, grid: HostArray | Rows | None = None) -> float:
        """Return a bound on the entries of K(grid, x), from the diagonals by Cauchy-Schwarz."""
        if grid is None or grid is self.x:
            return self._largest
        return math.sqrt(self._largest * largest_diagonal(self.kernel, grid))

    @cached_property
    def entry_cost(self) -> float:
        """Float32 operations per ordered pair of a streamed product."""
        return entry_cost(self.kernel, self.dim, self.backend.name)

    def streamed_cost(self, columns: int, *, exact: bool = False) -> float:
        """Return the cost of a streamed product, in float32 operations; ``exact`` in float64."""
        scale = 2.0 if exact else self.dtype.itemsize / 4
        return float(self.size) ** 2 * scale * (self.entry_cost + 2 * columns)

    def cached_cost(self, columns: int) -> float:
        """Return the cost of a product from stored tiles, in float32 operations."""
        entry = QUANTIZED_READ_COST if self.quantized else READ_COST
        return float(self.size) ** 2 * self.dtype.itemsize / 4 * (entry + 2 * columns)

    def product_cost(self, columns: int, feature_bytes: int = 0) -> float:
        """Return the cost of each product after the first; features take so many bytes."""
        feature_bytes = max(feature_bytes, self.feature_bytes)
        share = self._share(self._blocks_beside(feature_bytes, self._tile_budget))
        return share * self.cached_cost(columns) + (1.0 - share) * self.streamed_cost(columns)
