"""All tiles of a kernel matrix, one after the other, on one device or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastmcmd._base.blocks import row_blocks
from fastmcmd.device.base import Device, DeviceMemoryError
from fastmcmd.device.layout import SMALLEST_TILE, Layout
from fastmcmd.device.program import TileProgram
from fastmcmd.device.rows import DeviceRows

__all__ = ["Visit", "on_each", "share", "shrinking", "sweep"]

Result = TypeVar("Result")
Visit = Callable[[Any, slice, slice], None]


def share(blocks: list[slice], place: int, of: int) -> list[slice]:
    """Return the blocks of one of several devices, dealt back and forth: lower rows have more tiles."""
    turns = [index % (2 * of) for index in range(len(blocks))]
    return [
        block
        for block, turn in zip(blocks, turns, strict=True)
        if min(turn, 2 * of - 1 - turn) == place
    ]


def sweep(
    device: Device, program: TileProgram, fixed_rows: DeviceRows, streamed: DeviceRows, mine: list[slice],
    layout: Layout, visit: Visit, make: Callable[[slice, slice], Any] | None = None,
) -> None:  # fmt: skip
    """Compute the tiles of some blocks of held rows with all blocks of streamed rows.

    Of one sample with itself (``held is streamed``), tiles on and below the diagonal only.

    Parameters
    ----------
    device, program, layout
    fixed_rows, streamed : DeviceRows
        Rows and columns of tiles.
    mine : list of slice
        Blocks of held rows.
    visit : callable (tile, rows, columns)
        Queues what is done with a tile before it is used again.
    make : callable (rows, columns), optional
        Returns a tile to be filled; default one tile for all.
    """
    if not mine:
        return
    same = fixed_rows is streamed
    dtype = fixed_rows.dtype
    columns = row_blocks(len(streamed), layout.tile)
    if layout.held_resident:
        fixed_rows.keep(device, layout.tile)
    if layout.streamed_resident:
        streamed.keep(device, layout.tile)
    widest = max(block.stop - block.start for block in mine)
    tile: Any = None
    if make is None:
        tile = device.empty((widest, columns[0].stop), dtype)
    moving = None
    if streamed.resident(device) is None:
        moving = [streamed.empty(device, columns[0].stop) for _ in range(2)]
    buffers = None
    if fixed_rows.resident(device) is None:
        buffers = [fixed_rows.empty(device, widest) for _ in range(layout.group)]
    try:
        for group in _groups(mine, layout.group):
            blocks = list(fixed_rows.blocks(device, group, buffers))
            column_blocks = [c for c in columns if not same or c.start <= group[-1].start]
            for cols, right in streamed.blocks(device, column_blocks, moving):
                for rows, row_block in blocks:
                    if same and cols.start > rows.start:
                        continue
                    shape = (rows.stop - rows.start, cols.stop - cols.start)
                    into = make(rows, cols) if make else tile[: shape[0], : shape[1]]
                    shift = rows.start - cols.start if same else None
                    program.fill(device, into, row_block, right, shift)
                    visit(into, rows, cols)
    finally:
        device.drop_slots()  # after an error, too: it may be tried again with smaller ones


def _groups(blocks: list[slice], size: int) -> Iterator[list[slice]]:
    return (blocks[start : start + size] for start in range(0, len(blocks), size))


def on_each(devices: Sequence[Device], work: Callable[[int, Device], Result]) -> list[Result]:
    """Return what ``work(place, device)`` gives for each device, in order; they run beside each other."""

    def alone(place: int, device: Device) -> Result:
        with device.lock, device.active():  # it fills the device: of two calls at once one waits
            try:
                return work(place, device)
            finally:
                device.drop_slots()

    if len(devices) == 1:
        return [alone(0, devices[0])]
    with ThreadPoolExecutor(len(devices), thread_name_prefix="fastmcmd-device") as pool:
        return list(pool.map(alone, range(len(devices)), devices))


def shrinking(largest: int, work: Callable[[int], Result]) -> Result:
    """Return ``work(tile)``, with tiles of half the size each time that a device has no room.

    The budget is kept by construction, but others may use the device, or its memory may be in pieces.
    """
    tile = largest
    while True:
        try:
            return work(tile)
        except DeviceMemoryError:
            if tile // 2 < SMALLEST_TILE:
                raise
            tile //= 2
