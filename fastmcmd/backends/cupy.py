"""The CUDA backend: tiles, products and features on devices, for data larger than their memory.

`fastmcmd.device` determines the order of the work. A `Device` determines where it runs and by which
library. Right-hand sides and results are in host memory, or in blocks of one device (`CupyBackend.blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, DType
from fastmcmd._base.blocks import row_blocks
from fastmcmd.backends.base import (
    Array,
    Backend,
    NotPositiveDefiniteError,
    PackedGram,
    Points,
    Products,
    RowFeatures,
)
from fastmcmd.backends.column_blocks import ColumnBlocks
from fastmcmd.device.base import Device, limits_explained
from fastmcmd.device.column_blocks import DeviceBlocks
from fastmcmd.device.features import DeviceFeatures, DeviceProducts, features_of
from fastmcmd.device.layout import LARGEST_TILE, Layout, choose
from fastmcmd.device.packed import DeviceTiles
from fastmcmd.device.program import TileProgram
from fastmcmd.device.rows import DeviceRows
from fastmcmd.device.source import DIRECT_LIMIT, row_source
from fastmcmd.device.sweep import Visit, on_each, share, shrinking, sweep
from fastmcmd.kernels import Kernel

__all__ = ["CupyBackend"]

_SQUARE = 32  # a matrix in float64 that takes a quarter of a device's memory may be one tile
_OF_BUDGET = 4  # right-hand sides and results use at most 1 / 4 of a device's memory


@dataclass(frozen=True)
class CupyBackend(Backend):
    """Tiles on one or several devices.

    Attributes
    ----------
    tile : int
        Largest number of rows of a square tile; smaller if the device's memory requires it.
    devices : tuple of Device
        Devices that share the rows of tiles.
    precision : {"auto", "float32", "split"}
        How inner products of float32 rows are computed: directly, or as three products of float16 parts on
        tensor cores. "auto" takes the faster way, by rates that are measured once. Errors are measured in
        float64 in either case.
    """

    tile: int = LARGEST_TILE
    devices: tuple[Device, ...] = ()
    precision: str = "auto"

    @property
    def name(self) -> str:
        """Name in the registry."""
        return "cupy"

    @property
    def on_device(self) -> bool:
        """True: tiles are in device memory."""
        return True

    def label(self, dtype: DType, dim: int) -> str:
        """Return the names of the devices, and how products are computed, for users."""
        gpus = ", ".join(device.label for device in self.devices)
        return f"{gpus}; products split for tensor cores" if self.splits(dtype, dim) else gpus

    def splits(self, dtype: DType, dim: int) -> bool:
        """Tell whether rows are split for tensor cores."""
        if np.dtype(dtype) != np.float32 or dim <= DIRECT_LIMIT or self.precision == "float32":
            return False
        return self.precision == "split" or all(d.tensor_cores_pay for d in self.devices)

    def supports(self, kernel: Kernel) -> bool:
        """Tell whether the kernel has a CUDA formula."""
        return kernel.compiled

    def direct_distances(self, dim: int, kernel: Kernel | None = None) -> bool:
        """Tell whether squared distances are computed from differences, as in `CpuBackend`."""
        return dim <= DIRECT_LIMIT or (kernel is not None and kernel.compares_rows)

    def unit(self, dtype: DType, dim: int) -> float:
        """Return the unit roundoff of tiles.

        For split rows, low.low is left out (2^-22 of a product, as low is at most 2^-11 of high) and low
        parts are rounded (2^-23 each). Coordinates below 2^-16 of a row's largest err by up to 2^-39 of
        the largest, which adds less than 2^-39 sqrt(d) for each side.
        """
        return 2.0**-21 if self.splits(dtype, dim) else super().unit(dtype, dim)

    def keeps(self, packed: int, rows: int, budget: int) -> bool:
        """Tell whether packed tiles and rows fit on the devices."""
        del budget
        per_device = packed // len(self.devices) + rows
        return all(per_device <= device.budget - device.budget // 4 for device in self.devices)

    def blocks(self, n: int, columns: int) -> ColumnBlocks | None:
        """Return blocks on the device if there is only one, and they fit beside tiles."""
        if len(self.devices) == 1 and DeviceBlocks.fit(self.devices[0], n, columns):
            return DeviceBlocks(self.devices[0])
        return None

    def starts_in_float64(self, n: int) -> bool:
        """Return True where float64 is fast, and all tiles in float64 fit in half of the memory."""
        tiles = 8 * math.prod(self.packed_shape(n)) // len(self.devices)
        return all(tiles <= d.budget // 2 and d.float64_is_fast for d in self.devices)

    def takes(self, rows: AnyArray) -> bool:
        """Return True: devices copy rows from each other."""
        del rows
        return True

    def points(
        self, x: AnyArray, dtype: DType | type, offset: NDArray[np.float64] | None = None
    ) -> Points:
        """Return rows that share the caller's memory, and move to a device on first use."""
        kind, dim = np.dtype(dtype), int(x.shape[1])
        # Blocks of rows on a device store their place there: they are not copied back.
        x = x if getattr(x, "device_rows", None) is None else x.device_rows
        if isinstance(x, np.ndarray):
            if x.dtype not in (np.float32, np.float64):
                x = x.astype(np.float64)
            x = np.ascontiguousarray(x)
        rows = DeviceRows(x, kind, offset, self.splits(kind, dim))
        return Points(rows, len(x), dim, kind)

    def _program(self, kernel: Kernel, x: Points) -> TileProgram:
        return TileProgram.of(kernel, x.d, x.dtype)

    def _layout(
        self, device: Device, fixed_rows: DeviceRows, streamed: DeviceRows, fixed: int, columns: int,
        tile: int, tiles: int = 1,
    ) -> Layout:  # fmt: skip
        sides = (fixed_rows,) if fixed_rows is streamed else (fixed_rows, streamed)
        resident = [side.resident(device) is not None for side in (fixed_rows, streamed)]
        resident_bytes = sum(
            side.laid_bytes(len(side)) for side in sides if side.resident(device) is not None
        )
        free = device.budget - device.held + resident_bytes
        return choose(
            free, fixed_rows, streamed, fixed, columns, tile, (resident[0], resident[1]), tiles
        )

    def gram(self, kernel: Kernel, x: Points, z: Points | None = None) -> Array:
        """Return K(x, z) in full."""
        other = x if z is None else z
        out = np.empty((x.n, other.n), dtype=x.dtype)
        if not out.size:
            return out
        program = self._program(kernel, x)

        def work(place: int, device: Device, tile: int) -> None:
            def visit(tile: Any, rows: slice, cols: slice) -> None:
                out[rows, cols] = device.download(tile)
                if z is None and rows != cols:
                    out[cols, rows] = out[rows, cols].T

            layout = self._layout(device, x.rows, other.rows, 0, 0, tile)
            mine = share(row_blocks(x.n, layout.tile), place, len(self.devices))
            sweep(device, program, x.rows, other.rows, mine, layout, visit)

        self._on_each(work)
        return out

    def matmul(self, kernel: Kernel, x: Points, z: Points, v: Array) -> NDArray[np.float64]:
        """Return K(x, z) v, streamed."""
        fixed_rows, streamed = (z.rows, x.rows) if z.n <= x.n else (x.rows, z.rows)
        return self._product(kernel, x, fixed_rows, streamed, v)

    def symmetric_matmul(self, kernel: Kernel, x: Points, v: AnyArray) -> AnyArray:
        """Return K(x, x) v, streamed, each pair of tiles computed once."""
        return self._product(kernel, x, x.rows, x.rows, v)

    def quadratic_forms(self, kernel: Kernel, x: Points, c: Array) -> NDArray[np.float64]:
        """Return the diagonal of c' K c, from one product with K."""
        c = np.asarray(c, dtype=x.dtype)
        image = self.symmetric_matmul(kernel, x, c)
        sums = [np.einsum("ik,ik->k", c[rows], image[rows]) for rows in row_blocks(x.n, self.tile)]
        return np.asarray(np.sum(sums, axis=0))

    def _product(
        self, kernel: Kernel, x: Points, fixed_rows: DeviceRows, streamed: DeviceRows, v: AnyArray
    ) -> AnyArray:
        """Return the product (x.n, k), in groups of columns if the device cannot hold all of them."""
        program = self._program(kernel, x)
        if not isinstance(v, np.ndarray):
            return self._parts(program, x, fixed_rows, streamed, v)[0]
        if not (x.n and v.size):
            return np.zeros((x.n, v.shape[1]))
        least = min(device.budget for device in self.devices)
        step = max(1, least // _OF_BUDGET // _column_bytes(x, len(v)))
        groups = [
            _total(self._parts(program, x, fixed_rows, streamed, v[:, start : start + step]))
            for start in range(0, v.shape[1], step)
        ]
        return groups[0] if len(groups) == 1 else np.concatenate(groups, axis=1)

    def _parts(
        self, program: TileProgram, x: Points, fixed_rows: DeviceRows, streamed: DeviceRows, v: AnyArray
    ) -> list[AnyArray]:  # fmt: skip
        """Return what each device adds to the product."""

        def work(place: int, device: Device, tile: int) -> AnyArray:
            columns = int(v.shape[1])
            fixed = columns * _column_bytes(x, len(v))
            layout = self._layout(device, fixed_rows, streamed, fixed, columns, tile)
            mine = share(row_blocks(len(fixed_rows), layout.tile), place, len(self.devices))
            sums = _Sums(device, v, x.dtype, x.n, layout.tile)

            def transposed(block: Any, rows: slice, cols: slice) -> None:
                sums.add(block, cols, rows, transposed=True)

            visit: Visit = sums.add if fixed_rows is x.rows else transposed
            if fixed_rows is streamed:
                visit = sums.add_symmetric
            sweep(device, program, fixed_rows, streamed, mine, layout, visit)
            return sums.result()

        return self._on_each(work)

    def _on_each(self, work: Callable[[int, Device, int], Any]) -> list[Any]:
        """Return the result of each device, with smaller tiles if one runs out of memory."""

        def run(place: int, device: Device) -> Any:
            with self._limits_explained((device,), ", with tiles of the smallest size"):
                return shrinking(self.tile, lambda tile: work(place, device, tile))

        return on_each(self.devices, run)

    def _limits_explained(
        self, devices: tuple[Device, ...] = (), how: str = ""
    ) -> AbstractContextManager[None]:
        """Raise MemoryLimitError if one of ``devices`` (default: all) runs out of memory."""
        return limits_explained(devices or self.devices, how)

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
        """Return features of rows; each device computes its share."""
        program = self._program(kernel, x)
        with self._limits_explained():
            features = features_of(
                self.devices, program, landmarks.rows, x.rows, factor, keep=keep, sizes=sizes
            )
        return RowFeatures(*features)

    def to_host(self, values: AnyArray) -> Array:
        """Return features as a host array (p, b)."""
        return values.to_host() if isinstance(values, DeviceFeatures) else np.asarray(values)

    def add_products(
        self, f: AnyArray, rhs: Array, weight: Array | None, gram: Array, cross: Array
    ) -> None:
        """Add products of features, all in float64."""
        sums = self.products(*cross.shape)
        sums.add(f, rhs, weight)
        for total, part in zip((gram, cross), sums.sums(), strict=True):
            total += part

    def products(self, rank: int, columns: int) -> Products:
        """Return empty sums for `add_products`, with a part on each device."""
        with self._limits_explained():
            return DeviceProducts(self.devices, rank, columns)

    def pack(self, kernel: Kernel, x: Points) -> PackedGram:
        """Return the packed tiles, distributed over the devices."""
        program = self._program(kernel, x)

        def work(place: int, device: Device, tile: int) -> DeviceTiles:
            tiles = DeviceTiles(x.n, tile, x.dtype)
            blocks = row_blocks(x.n, tile)
            mine = share(blocks, place, len(self.devices))

            def make(rows: slice, cols: slice) -> AnyArray:
                shape = (rows.stop - rows.start, cols.stop - cols.start)
                return tiles.put(device, rows.start // tile, cols.start // tile, shape)

            layout = self._layout(device, x.rows, x.rows, 0, 0, tile, 0)
            layout = replace(layout, tile=tile)
            sweep(device, program, x.rows, x.rows, mine, layout, lambda *_: None, make)
            return tiles

        tile = self._packed_tile(x.n)
        with self._limits_explained():
            parts = on_each(self.devices, lambda place, device: work(place, device, tile))
        return PackedGram(DeviceTiles.joined(parts), x.n)

    def _packed_tile(self, n: int) -> int:
        """Return the rows of a packed tile.

        A small matrix is one tile: starting the work on many would take longer than the work. A larger one
        has at least four blocks of rows, so that few entries are computed twice.
        """
        tile = self.tile
        is_small = (
            n <= 2 * tile and len(self.devices) == 1 and _SQUARE * n * n <= self.devices[0].budget
        )
        if is_small:
            return n
        while tile > 256 and tile * 4 > n:
            tile //= 2
        return tile

    def pack_matmul(self, kernel: Kernel, x: Points, v: AnyArray) -> tuple[PackedGram, AnyArray]:
        """Return the packed tiles and their first product."""
        packed = self.pack(kernel, x)
        return packed, self.packed_matmul(packed, v)

    def packed_matmul(self, packed: PackedGram, v: AnyArray) -> AnyArray:
        """Return the product of packed tiles with v."""
        tiles = packed.tiles

        def work(place: int, device: Device) -> AnyArray:
            del place
            sums = _Sums(device, v, tiles.dtype, packed.n, tiles.tile)
            for (i, j), tile in tiles.on(device):
                sums.add_symmetric(tile, tiles.rows(i), tiles.rows(j))
            return sums.result()

        if not isinstance(v, np.ndarray):
            return on_each(self.devices, work)[0]
        if not v.size:
            return np.zeros((packed.n, v.shape[1]))
        return _total(on_each(self.devices, work))

    def packed_add_diagonal(self, packed: PackedGram, diagonal: NDArray[np.float64]) -> None:
        """Add ``diagonal`` to the diagonal, in place."""
        packed.tiles.add_diagonal(diagonal)

    def packed_cholesky(self, packed: PackedGram) -> None:
        """Replace the matrix by its Cholesky factor, on the devices that hold the tiles."""
        with self._limits_explained():
            bad = packed.tiles.cholesky()
        if bad >= 0:
            raise NotPositiveDefiniteError(bad)

    def packed_solve(self, packed: PackedGram, b: Array) -> NDArray[np.float64]:
        """Return the solution for a Cholesky factor."""
        with self._limits_explained():
            return np.asarray(packed.tiles.solve(b), dtype=np.float64)

    def packed_shape(self, n: int) -> tuple[int, int, int]:
        """Return the shape of the packed tiles of an n x n matrix."""
        tile = self._packed_tile(n)
        blocks = -(-n // tile)
        return blocks * (blocks + 1) // 2, tile, tile


def _total(parts: list[Array]) -> Array:
    """Return the sum of what devices add to a product, in the memory of the first."""
    out = parts[0]
    for part in parts[1:]:
        out += part
    return out


def _column_bytes(x: Points, terms: int) -> int:
    """Return the bytes on a device of a right-hand side with so many rows, and of its product."""
    return 8 * x.n + x.dtype.itemsize * terms


class _Sums:
    """Products of tiles with right-hand sides (m, k), summed in float64 (n, k) on a device.

    Right-hand sides in host memory give sums there; a block of the device gives a block.
    """

    def __init__(self, device: Device, v: AnyArray, dtype: DType, n: int, tile: int) -> None:
        self._device = device
        self._columns = int(v.shape[1])
        self._downloads = isinstance(v, np.ndarray)
        self._v = device.upload_as(v, dtype) if self._downloads else _rounded(device, v, dtype)
        self._out = device.zeros((n, self._columns), np.float64)
        self._source = row_source(np.dtype(dtype))
        # Products in float32 are summed in float64: this buffer receives the products of a tile first.
        self._part = None
        if dtype == np.float32:
            self._part = device.empty((min(tile, max(n, len(v))), self._columns), dtype)

    def add(self, tile: AnyArray, rows: slice, cols: slice, transposed: bool = False) -> None:
        """Add ``tile v[cols]``, or the product with the transposed tile, to some rows of the result."""
        out, v = self._out[rows], self._v[cols]
        if self._part is None:
            self._device.multiply(out, tile, v, transposed=(transposed, False), keep=1.0)
            return
        part = self._part[: rows.stop - rows.start]
        self._device.multiply(part, tile, v, transposed=(transposed, False))
        count = (rows.stop - rows.start) * self._columns
        self._device.launch(self._source, "add_to_double", (count, 1), part, out, count)

    def add_symmetric(self, tile: AnyArray, rows: slice, cols: slice) -> None:
        """Add the products of a tile of a symmetric matrix and of its mirror image."""
        self.add(tile, rows, cols)
        if rows != cols:
            self.add(tile, cols, rows, transposed=True)

    def result(self) -> AnyArray:
        """Return the sums."""
        return self._device.download(self._out) if self._downloads else self._out


def _rounded(device: Device, block: AnyArray, dtype: DType) -> AnyArray:
    """Return a block in the precision of tiles."""
    if dtype == np.float64:
        return block
    out, count = device.empty(block.shape, dtype), int(np.prod(block.shape))
    device.launch(row_source(np.dtype(dtype)), "to_real", (count, 1), block, out, count)
    return out
