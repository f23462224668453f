"""Memory of a CUDA device within a budget, in pieces that are never cut."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastmcmd._base.annotations import AnyArray
from fastmcmd.device.base import ROUNDED, DeviceMemoryError

__all__ = ["DeviceMemory", "free_pieces"]

_MOST = 256  # sizes of which free pieces are kept: all are looked through for each array


class DeviceMemory:
    """What arrays of one device are made of.

    CuPy's pool splits a free piece for a smaller array, and returns a split piece to the device only when
    all its parts are free. A few long-lived numbers in a former tile would fragment the memory, so that
    later rows do not fit. So each size has a pool of its own, which reuses whole pieces. Sizes recur:
    tiles, blocks of rows, slots.

    Parameters
    ----------
    cp : module
        CuPy.
    index : int
        The device, which is the current one wherever a method here is called.
    budget : int
        Most bytes that are taken from the device.
    """

    def __init__(self, cp: Any, index: int, budget: int) -> None:
        self._cp, self._index, self._budget = cp, index, budget
        self._pools: dict[int, Any] = {}
        self._lock = threading.RLock()  # what is collected meanwhile may allocate, too
        self.peak = 0  # most bytes that were taken from the device at once
        _ALL.add(self)

    @property
    def held(self) -> int:
        """Bytes of all arrays now."""
        return sum(int(pool.used_bytes()) for pool in tuple(self._pools.values()))

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> AnyArray:
        """Return a new array; raises `DeviceMemoryError` where the budget or the device has no room."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        size = -(-nbytes // ROUNDED) * ROUNDED
        for reclaim in (None, self._give_back, self._collect):
            if reclaim is not None:
                reclaim()
            with self._lock:
                if self._has(size):
                    try:
                        return self._allocated(size, shape, dtype)
                    except self._cp.cuda.memory.OutOfMemoryError:
                        pass  # of the device, which others use, too
        raise DeviceMemoryError(nbytes)

    def _give_back(self) -> None:
        with self._lock:
            self._free()

    def _collect(self) -> None:
        gc.collect()  # arrays in cycles
        free_pieces(self._index)

    def _has(self, size: int) -> bool:
        """Tell whether a piece is free, or may be taken from the device."""
        pool = self._pools.get(size)
        if pool is not None and pool.free_bytes():
            return True
        return self._total_bytes + size <= self._budget

    @property
    def _total_bytes(self) -> int:
        return sum(int(pool.total_bytes()) for pool in self._pools.values())

    def _allocated(self, size: int, shape: tuple[int, ...], dtype: DTypeLike) -> AnyArray:
        if size not in self._pools:
            if len(self._pools) >= _MOST:
                self._free()
            self._pools[size] = self._cp.cuda.MemoryPool()
        pool = self._pools[size]
        grows = not pool.free_bytes()
        with self._cp.cuda.using_allocator(pool.malloc):
            array = self._cp.empty(shape, dtype)
        if grows:
            self.peak = max(self.peak, self._total_bytes)
        return array

    def _free(self) -> None:
        """Give all free pieces back to the device."""
        for size, pool in tuple(self._pools.items()):
            pool.free_all_blocks()
            if not pool.total_bytes():
                del self._pools[size]


_ALL: weakref.WeakSet[DeviceMemory] = weakref.WeakSet()


def free_pieces(index: int) -> None:
    """Give back what is kept free on a device, the current one, by calls of any budget."""
    for memory in tuple(_ALL):
        if memory._index == index:
            memory._give_back()
