"""How a product is cut into tiles so that a device's budget holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmcmd._base.memory import format_bytes
from fastmcmd.device.base import ROUNDED
from fastmcmd.device.rows import DeviceRows
from fastmcmd.errors import MemoryLimitError

__all__ = ["LARGEST_TILE", "SMALLEST_TILE", "Layout", "choose"]

# Rows of a tile. Products of 8,192 columns fill a device of 132 multiprocessors; below 256, starting a
# kernel takes longer than running it.
LARGEST_TILE = 8192
SMALLEST_TILE = 256
_SMALL_ARRAYS = 8  # arrays beside rows: the tile, right-hand sides, sums, offset, parameters
_WORTH = 1024  # rows are kept on the device only where tiles of this size still fit beside them


@dataclass(frozen=True)
class Layout:
    """One way to do a product.

    Attributes
    ----------
    tile : int
        Rows of a tile.
    group : int
        Blocks of the held side that are on the device at once.
    held_resident, streamed_resident : bool
        Whether all rows of a side stay on the device.
    need : int
        Bytes of all this.
    """

    tile: int
    group: int
    held_resident: bool
    streamed_resident: bool
    need: int


def choose(
    budget: int, fixed_rows: DeviceRows, streamed: DeviceRows, fixed: int, columns: int,
    largest: int, resident: tuple[bool, bool], tiles: int = 1,
) -> Layout:  # fmt: skip
    """Return the layout of fewest copies that fits.

    Parameters
    ----------
    budget : int
        Bytes of the device, with those that rows kept there already take.
    fixed_rows, streamed : DeviceRows
        The two sides; one object for a symmetric product.
    fixed : int
        Bytes of results and right-hand sides on the device.
    columns : int
        Of the right-hand sides.
    largest : int
        Most rows of a tile.
    resident : (bool, bool)
        Which sides are on the device already.
    tiles : int
        Tiles at once.

    Raises
    ------
    MemoryLimitError
        Where not even the smallest tiles fit; says what is needed.
    """
    same = fixed_rows is streamed
    size = np.dtype(fixed_rows.dtype).itemsize
    least = 0

    def tile_bytes(tile: int) -> int:
        rows = min(tile, max(len(fixed_rows), len(streamed)))
        return fixed + tiles * rows * rows * size + rows * columns * size + _SMALL_ARRAYS * ROUNDED

    def staging(rows: DeviceRows, tile: int) -> int:
        return 2 * rows.staging(min(tile, len(rows)))

    def resident_bytes(rows: DeviceRows, tile: int, is_resident: bool) -> int:
        copied = 0 if is_resident else staging(rows, tile)
        return rows.laid_bytes(len(rows)) + copied

    for tile in _sizes(largest):
        need = tile_bytes(tile) + resident_bytes(fixed_rows, tile, resident[0])
        need += 0 if same else resident_bytes(streamed, tile, resident[1])
        if need <= budget and tile >= min(_WORTH, largest, len(fixed_rows)):
            return Layout(tile, -(-len(fixed_rows) // tile), True, True, need)
    for tile in _sizes(largest):
        if not same and tile >= min(_WORTH, largest, len(fixed_rows)):
            # All rows of the held side beside two blocks of the other.
            need = tile_bytes(tile) + resident_bytes(fixed_rows, tile, resident[0])
            need += 2 * streamed.laid_bytes(min(tile, len(streamed))) + staging(streamed, tile)
            if need <= budget:
                return Layout(tile, -(-len(fixed_rows) // tile), True, False, need)
    for tile in _sizes(largest):
        need = tile_bytes(tile) + 2 * streamed.laid_bytes(min(tile, len(streamed)))
        need += max(staging(streamed, tile), staging(fixed_rows, tile))
        one = fixed_rows.laid_bytes(min(tile, len(fixed_rows)))
        group = (budget - need) // one
        least = need + one
        if group >= 1:
            group = min(int(group), -(-len(fixed_rows) // tile))
            return Layout(tile, group, False, False, need + group * one)
    raise MemoryLimitError(
        f"device_memory_limit is {format_bytes(budget)}; this product needs at least "
        f"{format_bytes(least)} on the device ({format_bytes(fixed)} of it for {columns} right-hand sides "
        "and results)"
    )


def _sizes(largest: int) -> list[int]:
    sizes: list[Any] = []
    tile = largest
    while tile >= SMALLEST_TILE:
        sizes.append(tile)
        tile //= 2
    return sizes or [largest]
