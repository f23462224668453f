"""Memory of packed tiles, which the next call uses again.

Tiles of 12,000 rows take 140 MB. The operating system hands out fresh pages at 1 to 10 GB/s, and a virtual
machine that returns free memory to its host at 0.3 to 1 GB/s: that can take as long as all later products.
"""

from __future__ import annotations

import math
from threading import Lock

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastmcmd._base.annotations import Array

__all__ = ["TILE_MEMORY", "TileMemory"]

_LEAST = 1 << 22  # bytes: `malloc` itself reuses less
_SHARE = 32  # the memory that stays is at most this part of a memory limit
_LARGER = 2  # times the tiles: larger memory is freed instead of used


class TileMemory:
    """At most one block of memory, left by the tiles of one call for those of the next."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._block: NDArray[np.uint8] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that wait for the next tiles."""
        block = self._block
        return 0 if block is None else block.nbytes

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an array with arbitrary values, in the waiting memory if that has a suitable size.

        Memory of another size is freed before.
        """
        dtype = np.dtype(dtype)
        need = math.prod(shape) * dtype.itemsize
        if need < _LEAST:
            return np.empty(shape, dtype=dtype)
        with self._lock:
            block, self._block = self._block, None
        if block is None or not need <= block.nbytes <= _LARGER * need:
            del block
            block = np.empty(need, dtype=np.uint8)
        return block[:need].view(dtype).reshape(shape)

    def give(self, tiles: Array, memory_limit: int) -> None:
        """Take the memory of tiles that nothing else uses, if it is a small part of ``memory_limit``."""
        block = tiles.base
        if isinstance(block, np.ndarray) and _LEAST <= block.nbytes <= _most(memory_limit):
            with self._lock:
                self._block = block

    def trim(self, memory_limit: int) -> None:
        """Free the waiting memory, unless it is a small part of ``memory_limit``."""
        with self._lock:
            if self._block is not None and self._block.nbytes > _most(memory_limit):
                self._block = None


def _most(memory_limit: int) -> int:
    """Return how many bytes may wait: a small part of the limit."""
    return memory_limit // _SHARE


TILE_MEMORY = TileMemory()
