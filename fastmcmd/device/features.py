"""Features of rows at landmarks: substitution and products on a card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.device.base import Device, leading
from fastmcmd.device.program import TileProgram
from fastmcmd.device.rows import DeviceRows, cut
from fastmcmd.device.source import row_source
from fastmcmd.errors import MemoryLimitError
from fastmcmd.memory import format_bytes

__all__ = ["DeviceFeatures", "DeviceProducts", "features_of"]

Array = NDArray[Any]
_ORDER = 32  # rows of a factor that one thread solves for: FASTMCMD_ORDER in rows.cu
_LEAST = 256  # rows at once


@dataclass(eq=False)
class DeviceFeatures:
    """Features (p, b) in blocks of columns, on a card or, where they do not fit there, on the host.

    Attributes
    ----------
    device : Device
    blocks : list of (slice, array (p, s), bool)
        Columns, features, and whether these lie on the card.
    """

    device: Device
    blocks: list[tuple[slice, Any, bool]]

    @staticmethod
    def of_host(device: Device, f: Array) -> DeviceFeatures:
        """Return features that lie on the host."""
        step = _step(device, f.shape[0], f.itemsize)
        return DeviceFeatures(device, [(some, f[:, some], False) for some in cut(f.shape[1], step)])

    def on_card(self) -> Iterator[tuple[slice, Any]]:
        """Yield the blocks on the card."""
        for columns, block, there in self.blocks:
            yield columns, block if there else self.device.upload(np.ascontiguousarray(block))

    def to_host(self) -> Array:
        """Return all features (p, b)."""
        parts = [self.device.download(block) if there else block for _, block, there in self.blocks]
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
    device: Device, program: TileProgram, landmarks: DeviceRows, x: DeviceRows, factor: Array, *,
    keep: bool, sizes: bool,
) -> tuple[DeviceFeatures | None, NDArray[np.float64], NDArray[np.float64] | None]:  # fmt: skip
    """Return features ``L^-1 K(landmarks, x)``, their squared norms, and norms of ``L^-T`` of them."""
    p, n = len(landmarks), len(x)
    source, dtype = row_source(x.dtype), x.dtype
    pivots = landmarks.keep(device, p)
    lower = device.upload_as(factor, dtype)
    a_row = x.room(1) + x.dim * x.host.itemsize
    step = min(n, _step(device, p, dtype.itemsize + -(-2 * a_row // max(1, p))))
    room = [x.empty(device, step) for _ in range(2)]
    values: list[tuple[slice, Any, bool]] = []
    squares, norms = np.empty(n), np.empty(n) if sizes else None
    found = device.empty((step,), np.float64)
    wanted = cut(n, step)
    f = None
    for rows, block in x.blocks(device, wanted, room):
        count = len(block)
        if f is None or keep:
            f = device.empty((p, count if keep else step), dtype)
        here = f[:, :count]
        program.fill(device, here, pivots, block)
        _substitute(device, source, lower, here)
        squares[rows] = _squares(device, source, here, found)
        if sizes:
            assert norms is not None
            at = device.copy(here) if keep else here
            _substitute(device, source, lower, at, transposed=True)
            norms[rows] = np.sqrt(_squares(device, source, at, found))
        if keep:
            there = len(wanted) == 1 or device.has_room(3 * p * step * dtype.itemsize)
            values.append((rows, here if there else device.download(here), there))
    device.drop_slots()
    return DeviceFeatures(device, values) if keep else None, squares, norms


def _substitute(
    device: Device, source: Any, lower: Any, f: Any, *, transposed: bool = False
) -> None:
    """Set ``f = L^-1 f`` or ``L^-T f``: products for what lies before a block, substitution inside."""
    p, columns = (int(size) for size in f.shape)
    name = "substitute_transposed" if transposed else "substitute"
    blocks = cut(p, _ORDER)
    for rows in reversed(blocks) if transposed else blocks:
        if transposed and rows.stop < p:
            left, done = lower[rows.stop :, rows], f[rows.stop :]
            device.multiply(f[rows], left, done, transposed=(True, False), scale=-1.0, keep=1.0)
        elif not transposed and rows.start:
            left, done = lower[rows, : rows.start], f[: rows.start]
            device.multiply(f[rows], left, done, scale=-1.0, keep=1.0)
        device.launch(
            source, name, (columns, 1), lower[rows, rows], leading(lower), rows.stop - rows.start,
            f[rows], leading(f), columns,
        )  # fmt: skip


def _squares(device: Device, source: Any, f: Any, room: Any) -> NDArray[np.float64]:
    p, columns = (int(size) for size in f.shape)
    device.launch(source, "column_squares", (columns, 1), f, leading(f), p, columns, room)
    return device.download(room[:columns])


class DeviceProducts:
    """``f diag(w) f'`` (p, p) and ``f diag(w) rhs`` (p, c) summed over blocks, on a card, in float64."""

    def __init__(self, device: Device, rank: int, columns: int) -> None:
        self._device = device
        self._square = device.zeros((rank, rank), np.float64)
        self._product = device.zeros((rank, max(1, columns)), np.float64)
        self._columns = columns

    def add(self, f: Any, rhs: Array, weight: Array | None) -> None:
        """Add those of a block of features (p, b), which lie on the card or the host."""
        kept = f if isinstance(f, DeviceFeatures) else DeviceFeatures.of_host(self._device, f)
        _add(self._device, kept, rhs, weight, self._square, self._product, self._columns)

    def sums(self) -> tuple[Array, Array]:
        """Return both, on the host."""
        product = self._device.download(self._product)
        return self._device.download(self._square), product[:, : self._columns]

    def start(self, gram: Array, cross: Array) -> None:
        """Go on from sums that were written down."""
        self._square = self._device.upload_as(gram, np.float64)
        if self._columns:
            self._product = self._device.upload_as(cross, np.float64)


def _add(
    device: Device, f: DeviceFeatures, rhs: Array, weight: Array | None, square: Any, product: Any,
    wanted: int,
) -> None:  # fmt: skip
    """Add products; both factors take the root of the weights, so that one copy of f serves both."""
    p = int(square.shape[0])
    root = None if weight is None else np.sqrt(np.asarray(weight, dtype=np.float64))
    for columns, block in f.on_card():
        count = columns.stop - columns.start
        right = np.asarray(rhs[columns], dtype=np.float64)
        scale = None
        if root is not None:
            scale, right = device.upload(root[columns]), right * root[columns][:, None]
        exact = device.empty((p, count), np.float64)
        source = row_source(np.dtype(f"f{block.itemsize}"))
        device.launch(
            source, "weighted", (count, p), block, leading(block), p, count, scale, exact, count
        )
        device.multiply(square, exact, exact, transposed=(False, True), keep=1.0)
        if wanted:
            device.multiply(product, exact, device.upload(np.ascontiguousarray(right)), keep=1.0)
