"""Files in NumPy's .npy format, and memory maps."""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd.io.npy import read_header
from fastmcmd.rows.source import Array, RowSource

_ANYWHERE = hasattr(os, "preadv")  # not on Windows


class Npy(RowSource):
    """A .npy file, read without a map: mapped pages count as memory, and truncation kills the process."""

    def __init__(self, path: Path, inside: str, where: str) -> None:
        _no_inside(inside)
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed with the source)
        weakref.finalize(self, self._file.close)
        header = read_header(self._file)
        has = os.fstat(self._file.fileno()).st_size - header.offset
        if has < header.nbytes:
            raise ValueError(f"it has {max(has, 0):,} of {header.nbytes:,} bytes of data")
        self.where, self.path, self.shape, self.dtype = where, path, header.shape, header.dtype
        self._offset = header.offset
        self._columns_first = header.fortran and len(header.shape) > 1
        self._plain(self.dtype.itemsize if self._columns_first else None)
        self.splits = not self._columns_first and _ANYWHERE

    def into(self, start: int, out: Array) -> None:
        """Set ``out`` to the rows from ``start``; on any thread where `splits`."""
        self._fill(out, start * self._row_bytes())

    def read(self, start: int, stop: int) -> Array:
        """Return the rows; reads column by column if the file stores columns first."""
        shape = (stop - start, *self.shape[1:])
        if not self._columns_first:
            out = np.empty(shape, self.dtype)
            self.into(start, out)
            return out
        by_column = np.empty(shape[::-1], self.dtype)
        for j, column in enumerate(by_column):
            self._fill(column, (j * self.shape[0] + start) * self.dtype.itemsize)
        return by_column.T

    def _fill(self, out: Array, position: int) -> None:
        view, place = bytes_of(out), self._offset + position
        while len(view):
            if _ANYWHERE:  # reads at an offset: threads share the position of a file
                count = os.preadv(self._file.fileno(), [view], place)
            else:
                self._file.seek(place)
                count = self._file.readinto(view)
            if not count:
                raise ValueError("the file ends before its last row")
            view, place = view[count:], place + count


class MemoryMapped(RowSource):
    """An np.memmap, whose rows are copied and whose pages are released after each read."""

    def __init__(self, value: Any) -> None:
        self.path = None if value.filename is None else Path(value.filename).absolute()
        self.where = "np.memmap" if self.path is None else str(self.path)
        self.shape, self.dtype = value.shape, value.dtype
        self._value = value
        # Pages of a copy-on-write map hold the only copy of the data written to it.
        self._releases = sys.platform == "linux" and value.mode != "c"
        self._plain()

    def read(self, start: int, stop: int) -> Array:
        """Return a copy of the rows, and release the pages."""
        block = np.array(self._value[start:stop], subok=False)
        if self._releases:
            self._value._mmap.madvise(mmap.MADV_DONTNEED)
        return block


def is_mapped(value: object) -> bool:
    """Return whether ``value`` is backed by a map; results of arithmetic have its type without a map."""
    return isinstance(value, np.memmap) and getattr(value, "_mmap", None) is not None


def _no_inside(inside: str) -> None:
    if inside:
        raise ValueError(f"a .npy file has no parts, but {inside!r} is named after '::'")


def bytes_of(contiguous: Array) -> memoryview:
    """Return the bytes of a contiguous array, to be read or written in place."""
    return contiguous.reshape(-1).view(np.uint8).data
