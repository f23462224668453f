"""Rows for a device: kept there where they fit, else copied in blocks beside the work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, DType
from fastmcmd._base.blocks import row_blocks
from fastmcmd.device.base import ROUNDED, Device, leading
from fastmcmd.device.source import row_source

__all__ = ["Block", "DeviceRows"]

Array = NDArray[Any]

_THREAD_COORDINATES = 8  # coordinates that a thread of "lay" takes
_PARTS = 4  # of rows that are split
_ALIGNED = 8  # rows of parts begin at multiples of 16 bytes, as tensor cores read fastest
# Of few rows, some are copied while the host prepares the next; for that, no other threads are woken up.
_FEW_BYTES, _COPIED_BYTES, _LEAST_COPIED = 1 << 28, 1 << 22, 256
_ARRAYS = 5  # of a block at most


@dataclass(frozen=True, eq=False)
class Block:
    """Rows on a device.

    Attributes
    ----------
    x : device array (d, b)
        Row i is column i, so that threads of neighbouring rows read neighbouring numbers.
    squared, inverse : device array (b,)
        Squared norms, and one over norms or 0.
    parts : device array (4 d, b), float16, or None
        For tensor cores: high, low, high and high parts of ``x 2**-exponents``, one below the other, so
        that ``parts[d:]' parts[:3 d]`` is low.high + high.low + high.high in one product; see `split` in
        ``rows.cu``.
    exponents : device array (b,), int32, or None
        Of the rows' parts; they bring each row into the range of float16.
    """

    x: AnyArray
    squared: Any
    inverse: Any
    parts: Any = None
    exponents: Any = None

    def __len__(self) -> int:
        return int(self.x.shape[1])

    def part(self, rows: slice) -> Block:
        """Return some of the rows, where they are."""
        block = Block(self.x[:, rows], self.squared[rows], self.inverse[rows])
        if self.parts is None:
            return block
        return replace(block, parts=self.parts[:, rows], exponents=self.exponents[rows])


def _aligned(count: int) -> int:
    """Return how far apart rows of parts lie, in elements."""
    return -(-count // _ALIGNED) * _ALIGNED


@dataclass(eq=False)
class DeviceRows:
    """Rows of a host or a device (n, d), float32 or float64, and what devices hold of them.

    Attributes
    ----------
    array : ndarray (n, d), or an array of the caller's on a device
        C-contiguous, as given: shared, not copied. Rows on a device are laid from where they are; other
        devices copy them from there.
    dtype : numpy.dtype
        Precision on the devices.
    offset : ndarray (d,) or None
        Subtracted in float64 before rows are rounded.
    split : bool
        Whether rows are kept in parts as well, for tensor cores.
    """

    array: Any
    dtype: DType
    offset: NDArray[np.float64] | None = None
    split: bool = False
    _resident: dict[int, Block] = field(default_factory=dict)
    _offsets: dict[int, Any] = field(default_factory=dict)
    _beside: dict[int, tuple[Array, Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.array.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the host's memory that these rows take: they are shared."""
        return 0

    @property
    def given_row(self) -> int:
        """Bytes of a row as it was given."""
        return self.dim * int(self.array.itemsize)

    @property
    def laid_row(self) -> int:
        """Bytes of a row that is laid on a device."""
        direct = (self.dim + 2) * self.dtype.itemsize
        in_parts = _PARTS * self.dim * np.dtype(np.float16).itemsize + np.dtype(np.int32).itemsize
        return direct + in_parts if self.split else direct

    def staging(self, count: int) -> int:
        """Return the bytes that ``count`` rows take on a device as they were given, until they are laid."""
        return count * self.given_row + ROUNDED

    def laid_bytes(self, count: int) -> int:
        """Return the bytes of ``count`` rows on a device."""
        count = _aligned(count) if self.split else count
        return count * self.laid_row + _ARRAYS * ROUNDED

    def empty(self, device: Device, count: int) -> Block:
        """Return room for ``count`` rows on a device."""
        x = device.empty((self.dim, count), self.dtype)
        squared, inverse = (device.empty((count,), self.dtype) for _ in range(2))
        block = Block(x, squared, inverse)
        if not self.split:
            return block
        parts = device.empty((_PARTS * self.dim, _aligned(count)), np.float16)
        return replace(block, parts=parts[:, :count], exponents=device.empty((count,), np.int32))

    def resident(self, device: Device) -> Block | None:
        """Return all rows on a device if they are there."""
        return self._resident.get(id(device))

    def keep(self, device: Device, step: int) -> Block:
        """Bring all rows to a device, ``step`` rows at a time, and keep them there."""
        block = self.resident(device)
        if block is None:
            block = self.empty(device, len(self))
            if len(self) * self.given_row <= _FEW_BYTES:
                step = min(step, max(_LEAST_COPIED, _COPIED_BYTES // self.given_row))
            for rows, raw in self._arriving(device, row_blocks(len(self), step)):
                self._lay(device, raw, block.part(rows))
            device.drop_slots()
            self._resident[id(device)] = block
        return block

    def beside(self, device: Device, host: Array) -> AnyArray:
        """Return an array of the host on a device, in the precision of the rows; kept while it is the same.

        A factor over landmarks is used with block after block: it is brought there once.
        """
        entry = self._beside.get(id(device))
        if entry is None or entry[0] is not host:
            del entry
            self._beside.pop(id(device), None)  # before there is room for another
            entry = self._beside[id(device)] = host, device.upload_as(host, self.dtype)
        return entry[1]

    def blocks(
        self, device: Device, row_slices: list[slice], laid_bytes: list[Block] | None = None
    ) -> Iterator[tuple[slice, Block]]:
        """Yield blocks of rows: those kept, or copied into one of the two in ``laid_bytes`` in turn.

        A block that was copied is good until the next but one is asked for.
        """
        resident = self.resident(device)
        if resident is not None:
            for rows in row_slices:
                yield rows, resident.part(rows)
            return
        assert laid_bytes is not None
        for turn, (rows, raw) in enumerate(self._arriving(device, row_slices)):
            block = laid_bytes[turn % len(laid_bytes)].part(slice(0, rows.stop - rows.start))
            self._lay(device, raw, block)
            yield rows, block

    def _arriving(self, device: Device, row_slices: list[slice]) -> Iterator[tuple[slice, Any]]:
        """Yield rows as they come; the next are on their way while these are worked on."""
        adopted = None if isinstance(self.array, np.ndarray) else device.adopted(self.array)
        if adopted is not None:
            yield from ((rows, adopted[rows]) for rows in row_slices)
            return
        if row_slices:
            device.copy_in(0, self.array[row_slices[0]])
        for turn, rows in enumerate(row_slices):
            raw = device.arrived(turn % 2)
            if turn + 1 < len(row_slices):
                device.copy_in((turn + 1) % 2, self.array[row_slices[turn + 1]])
            yield rows, raw
            device.done_with(turn % 2)

    def _lay(self, device: Device, raw: Any, block: Block) -> None:
        source, count = row_source(self.dtype), len(block)
        name = "lay_float32" if raw.itemsize == 4 else "lay_float64"
        size = (count, -(-self.dim // _THREAD_COORDINATES))
        device.launch(
            source, name, size, raw, leading(raw), self._offset(device), block.x,
            leading(block.x), count, self.dim,
        )  # fmt: skip
        device.launch(
            source, "norms", (count, 1), block.x, leading(block.x), count, self.dim, block.squared,
            block.inverse,
        )  # fmt: skip
        if block.parts is not None:
            device.launch(
                source, "exponents", (count, 1), block.x, leading(block.x), count, self.dim,
                block.exponents,
            )  # fmt: skip
            device.launch(
                source, "split", (count, self.dim), block.x, leading(block.x), count, self.dim,
                block.exponents, block.parts, leading(block.parts),
            )  # fmt: skip

    def _offset(self, device: Device) -> AnyArray:
        if self.offset is None:
            return None
        if id(device) not in self._offsets:
            self._offsets[id(device)] = device.upload(np.ascontiguousarray(self.offset))
        return self._offsets[id(device)]
