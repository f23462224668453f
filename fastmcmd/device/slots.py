"""Staging buffers for rows on their way to a CUDA device, in pinned host memory and in device memory."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray

__all__ = ["Slot", "Slots", "copy_rows"]

Array = NDArray[Any]
_PIECE = 1 << 22  # bytes that a thread copies at a time


@dataclass(eq=False)
class Slot:
    """Rows on their way.

    Attributes
    ----------
    rows : device array
        Bytes on the device.
    copied, released : event
        After what was copied here last, and after the work on what was copied before.
    copies : stream
        Of the copies.
    pinned : buffer, optional
        Memory of the host of the same size.
    view : device array, optional
        The rows.
    """

    rows: AnyArray
    copied: Any
    released: Any
    copies: Any
    pinned: Any = None
    view: Any = None

    def __del__(self) -> None:
        # Pools hand both out again at once, and a copy may still read the one and write to the other: the
        # host runs ahead, and after an error nobody waits for the copy.
        if not sys.is_finalizing():
            self.copies.synchronize()


class Slots(threading.local):
    """The slots of each thread: calls that share a device must not fill those of each other."""

    def __init__(self) -> None:
        self.by_number: dict[int, Slot] = {}


def copy_rows(pool: ThreadPoolExecutor, target: Array, source: Array) -> None:
    """Copy rows on several threads: one alone is slower than the bus to the device."""
    step = max(1, _PIECE // max(1, source[:1].nbytes))
    if step >= len(source):
        np.copyto(target, source)
        return
    parts = [slice(start, start + step) for start in range(0, len(source), step)]
    pieces = [pool.submit(lambda rows: np.copyto(target[rows], source[rows]), p) for p in parts]
    try:
        for piece in pieces:
            piece.result()
    finally:  # after an error, too, no thread may write to what is filled again
        for piece in pieces:
            piece.cancel()
        wait(pieces)
