"""Features of rows at landmarks: substitution and products on a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.memory import format_bytes
from fastmcmd.device.base import Device, leading, limits_explained
from fastmcmd.device.program import TileProgram
from fastmcmd.device.rows import DeviceRows
from fastmcmd.device.source import row_source
from fastmcmd.device.sweep import on_each
from fastmcmd.errors import MemoryLimitError

__all__ = ["DeviceFeatures", "DeviceProducts", "features_of"]

Array = NDArray[Any]
_ORDER = 32  # rows of a factor that one thread solves for: FASTMCMD_ORDER in rows.cu
_LEAST = 256  # rows at once


class Piece(NamedTuple):
    """Features (p, s) of some rows, on their device if ``is_resident``, else on the host."""

    device: Device
    columns: slice
    values: AnyArray
    is_resident: bool


@dataclass(eq=False)
class DeviceFeatures:
    """Features (p, b) in blocks of columns, on the devices that made them.

    Attributes
    ----------
    pieces : list of Piece
        In the order of their columns.
    """

    pieces: list[Piece]

    @staticmethod
    def of_host(devices: Sequence[Device], f: Array) -> DeviceFeatures:
        """Return features that lie on the host, to be brought to devices in turn."""
        step = min(_step(device, f.shape[0], f.itemsize) for device in devices)
        return DeviceFeatures(
            [
                Piece(devices[place % len(devices)], some, f[:, some], False)
                for place, some in enumerate(row_blocks(f.shape[1], step))
            ]
        )

    def on(self, device: Device) -> Iterator[tuple[slice, Any]]:
        """Yield the blocks of a device, brought there."""
        for piece in self.pieces:
            if piece.device is device:
                values = piece.values
                if not piece.is_resident:
                    values = device.upload(np.ascontiguousarray(values))
                yield piece.columns, values

    def to_host(self) -> Array:
        """Return all features (p, b)."""
        parts = [p.device.download(p.values) if p.is_resident else p.values for p in self.pieces]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _step(device: Device, rank: int, size: int) -> int:
    """Return how many rows are worked on at once: their features twice, and once in float64."""
    free = device.budget - device.held
    step = free // 2 // max(1, rank * (2 * size + 8))
    if step < _LEAST:
        need = 2 * _LEAST * rank * (2 * size + 8)
        raise MemoryLimitError(
            f"device_memory_limit is {format_bytes(device.budget)}, of which "
            f"{format_bytes(device.held)} are taken; {rank:,} landmarks need {format_bytes(need)} more"
        )
    return int(step)


def features_of(
    devices: Sequence[Device], program: TileProgram, landmarks: DeviceRows, x: DeviceRows,
    factor: Array, *, keep: bool, sizes: bool,
) -> tuple[DeviceFeatures | None, NDArray[np.float64], NDArray[np.float64] | None]:  # fmt: skip
    """Return features ``L^-1 K(landmarks, x)``, their squared norms, and norms of ``L^-T`` of them.

    Each device makes those of its share of the rows.
    """
    n = len(x)
    squares, norms = np.empty(n), np.empty(n) if sizes else None
    # Fewer rows than `_LEAST` do not keep a device at work.
    shares = row_blocks(n, -(-n // max(1, min(len(devices), n // _LEAST))))

    def work(place: int, device: Device) -> list[Piece]:
        return _features_on(
            device, program, landmarks, x, shares[place], factor, keep, squares, norms
        )

    by_device = on_each(devices[: len(shares)], work)
    pieces = [piece for some in by_device for piece in some]
    return DeviceFeatures(pieces) if keep else None, squares, norms


def _features_on(
    device: Device, program: TileProgram, landmarks: DeviceRows, x: DeviceRows, mine: slice,
    factor: Array, keep: bool, squares: NDArray[np.float64], norms: NDArray[np.float64] | None,
) -> list[Piece]:  # fmt: skip
    """Make features of the rows ``mine`` on a device, and fill in their norms."""
    p = len(landmarks)
    source, dtype = row_source(x.dtype), x.dtype
    pivots = landmarks.keep(device, p)
    lower = landmarks.beside(device, factor)
    a_row = x.laid_row + x.given_row
    step = _step(device, p, dtype.itemsize + -(-2 * a_row // max(1, p)))
    blocks = [
        slice(mine.start + some.start, mine.start + some.stop)
        for some in row_blocks(mine.stop - mine.start, step)
    ]
    step = blocks[0].stop - blocks[0].start
    buffers = [x.empty(device, step) for _ in range(2)]
    buffer = device.empty((step,), np.float64)
    pieces: list[Piece] = []
    f = None
    for rows, block in x.blocks(device, blocks, buffers):
        count = len(block)
        if f is None or keep:
            f = device.empty((p, count if keep else step), dtype)
        block_features = f[:, :count]
        program.fill(device, block_features, pivots, block)
        _substitute(device, source, lower, block_features)
        squares[rows] = _squares(device, source, block_features, buffer)
        if norms is not None:
            at = device.copy(block_features) if keep else block_features
            _substitute(device, source, lower, at, transposed=True)
            norms[rows] = np.sqrt(_squares(device, source, at, buffer))
        if keep:
            is_resident = len(blocks) == 1 or device.has_memory(3 * p * step * dtype.itemsize)
            pieces.append(
                Piece(
                    device,
                    rows,
                    block_features if is_resident else device.download(block_features),
                    is_resident,
                )
            )
    device.drop_slots()
    return pieces


def _substitute(
    device: Device, source: Any, lower: Any, f: AnyArray, *, transposed: bool = False
) -> None:
    """Set ``f = L^-1 f`` or ``L^-T f``: products for what lies before a block, substitution inside."""
    p, columns = (int(size) for size in f.shape)
    name = "substitute_transposed" if transposed else "substitute"
    blocks = row_blocks(p, _ORDER)
    for rows in reversed(blocks) if transposed else blocks:
        if transposed and rows.stop < p:
            factor_block, solved_rows = lower[rows.stop :, rows], f[rows.stop :]
            device.multiply(
                f[rows], factor_block, solved_rows, transposed=(True, False), scale=-1.0, keep=1.0
            )
        elif not transposed and rows.start:
            factor_block, solved_rows = lower[rows, : rows.start], f[: rows.start]
            device.multiply(f[rows], factor_block, solved_rows, scale=-1.0, keep=1.0)
        device.launch(
            source, name, (columns, 1), lower[rows, rows], leading(lower), rows.stop - rows.start,
            f[rows], leading(f), columns,
        )  # fmt: skip


def _squares(device: Device, source: Any, f: AnyArray, buffers: Any) -> NDArray[np.float64]:
    p, columns = (int(size) for size in f.shape)
    device.launch(source, "column_squares", (columns, 1), f, leading(f), p, columns, buffers)
    return device.download(buffers[:columns])


class DeviceProducts:
    """``f diag(w) f'`` (p, p) and ``f diag(w) rhs`` (p, c) summed over blocks in float64.

    Each device sums its own blocks; the host adds the sums of all devices once per pass.
    """

    def __init__(self, devices: Sequence[Device], rank: int, columns: int) -> None:
        self._devices = tuple(devices)
        self._columns = columns
        self._sums = [
            (d.zeros((rank, rank), np.float64), d.zeros((rank, max(1, columns)), np.float64))
            for d in devices
        ]

    def add(self, f: AnyArray, rhs: Array, weight: Array | None) -> None:
        """Add those of a block of features (p, b), which lie on devices or the host."""
        resident = f if isinstance(f, DeviceFeatures) else DeviceFeatures.of_host(self._devices, f)

        def work(place: int, device: Device) -> None:
            _add(device, resident.on(device), rhs, weight, *self._sums[place], self._columns)

        with limits_explained(self._devices):
            on_each(self._devices, work)

    def sums(self) -> tuple[Array, Array]:
        """Return both, on the host."""
        square, product = (
            sum(
                device.download(parts[place])
                for device, parts in zip(self._devices, self._sums, strict=True)
            )
            for place in (0, 1)
        )
        return np.asarray(square), np.asarray(product)[:, : self._columns]

    def start(self, gram: Array, cross: Array) -> None:
        """Go on from sums that were written down."""
        for device, parts in zip(self._devices, self._sums, strict=True):
            for part in parts:
                device.clear(part)
        first, (_, product) = self._devices[0], self._sums[0]
        product = first.upload_as(cross, np.float64) if self._columns else product
        self._sums[0] = first.upload_as(gram, np.float64), product


def _add(
    device: Device, blocks: Iterator[tuple[slice, Any]], rhs: Array, weight: Array | None,
    square: AnyArray, product: AnyArray, column_count: int,
) -> None:  # fmt: skip
    """Add products; both factors take the root of the weights, so that one copy of f serves both."""
    p = int(square.shape[0])
    for place, features in blocks:
        # Features may have taken most of the memory: their copy in float64 is made in parts.
        a_column = 8 * (p + column_count + 1)
        step = max(_LEAST, (device.budget - device.held) // 2 // a_column)
        for part in row_blocks(place.stop - place.start, step):
            columns = slice(place.start + part.start, place.start + part.stop)
            _add_part(
                device, features[:, part], rhs[columns], None if weight is None else weight[columns],
                square, product, column_count,
            )  # fmt: skip


def _add_part(
    device: Device, block: AnyArray, rhs: Array, weight: Array | None, square: AnyArray,
    product: AnyArray, column_count: int,
) -> None:  # fmt: skip
    """Add the products of some columns."""
    p, count = (int(size) for size in block.shape)
    right = np.asarray(rhs, dtype=np.float64)
    scale = None
    if weight is not None:
        root = np.sqrt(np.asarray(weight, dtype=np.float64))
        scale, right = device.upload(root), right * root[:, None]
    exact = device.empty((p, count), np.float64)
    source = row_source(np.dtype(f"f{block.itemsize}"))
    device.launch(
        source, "weighted", (count, p), block, leading(block), p, count, scale, exact, count
    )
    device.multiply(square, exact, exact, transposed=(False, True), keep=1.0)
    if column_count:
        device.multiply(product, exact, device.upload(np.ascontiguousarray(right)), keep=1.0)
