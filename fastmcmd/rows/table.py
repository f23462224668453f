"""Tables that are read in blocks, and iteration over blocks of any table."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import DType
from fastmcmd._base.blocks import ahead, over_rows, row_blocks
from fastmcmd._base.checks import check_finite_rows
from fastmcmd.rows.npy import MemoryMapped
from fastmcmd.rows.source import (
    Array,
    DeviceBlock,
    RowSource,
    ScaledSource,
    Stamp,
    prefix_errors,
    stamp_of,
)

_BLOCK_BYTES = 16_000_000  # bytes of a block: efficient for disks, small next to any memory limit
_PIECE_BYTES = 2_000_000  # bytes that a thread reads at once, small enough for its cache
_CHUNK_BYTES = 4 * _BLOCK_BYTES  # larger chunks are read in pieces, and decoded once per piece


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """An (n, d) table that is read in blocks, created by `open_rows`.

    Attributes
    ----------
    name : str
        Name of the argument.
    shape : tuple of int
        (n, d).
    dtype : numpy.dtype
        Type of the blocks, float32 or float64.

    Notes
    -----
    All rows are checked when they are read: NaN and infinity raise a ValueError that names the row. A Zarr
    chunk that was never written holds the fill value of the array, as everywhere in Zarr.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from fastmcmd.rows import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.arange(10.0).reshape(5, 2))
    ...     x = open_rows(f"{folder}/x.npy", "x")
    ...     lengths = [len(block) for _, block in x.blocks(step=2)]
    ...     last_first = x[[4, 0]]
    >>> x.shape, lengths, last_first.tolist()
    ((5, 2), [2, 2, 1], [[8.0, 9.0], [0.0, 1.0]])
    """

    name: str
    shape: tuple[int, int]
    dtype: DType
    _source: RowSource
    _stamp: Stamp
    _lock: threading.Lock = field(default_factory=threading.Lock)

    ndim = 2

    @property
    def size(self) -> int:
        """Number of elements n d."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Number of bytes of all rows in memory."""
        return self.size * self.dtype.itemsize

    @property
    def on_device(self) -> Any:
        """The C-contiguous device array (n, d) of the rows, or None if they are not on a device."""
        return self._source.array

    @property
    def in_memory(self) -> bool:
        """Whether the rows are not in a file (an Arrow table, a store in memory)."""
        return self._source.path is None and not isinstance(self._source, MemoryMapped)

    @property
    def overhead(self) -> int:
        """About how many bytes the reader needs in addition to the rows that it returns."""
        return self._source.overhead

    @property
    def block_rows(self) -> int:
        """Default number of rows per block: about 16 MB, in whole chunks if the format has chunks."""
        row_bytes = self.shape[1] * self.dtype.itemsize
        rows, chunk = max(1, _BLOCK_BYTES // row_bytes), self._source.chunk_rows
        if chunk <= rows:
            return rows - rows % chunk
        return chunk if chunk * row_bytes <= _CHUNK_BYTES else rows

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Rows({self._label}, {self.shape[0]} x {self.shape[1]}, {self.dtype})"

    def __array__(self, *_: object, **__: object) -> Array:
        raise TypeError(f"{self._label} is read in blocks; {self.name}[:] would load it whole")

    def __getitem__(self, rows: object) -> Array:
        """Return the selected rows (m, d) as a new C-contiguous array.

        Parameters
        ----------
        rows : slice, integer array (m,) or boolean mask (n,)
            Rows in any order, possibly repeated; negative numbers count from the end.

        Raises
        ------
        IndexError, TypeError
            A row that does not exist, or an index of another kind.
        ValueError
            The rows hold NaN or infinity, or the file is damaged.
        """
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._block(start, max(start, stop))
            rows = np.arange(start, stop, step)
        return self._take(self._row_numbers(rows))

    def blocks(self, step: int | None = None, start: int = 0) -> Iterator[tuple[slice, Array]]:
        """Yield consecutive blocks of ``step`` rows from ``start`` with their slices, reading one ahead.

        A thread reads while the caller works; its errors are raised here. At most three blocks are in
        memory: that of the caller, the next one, and the one being read.
        """
        self.check_unchanged()
        step = self.block_rows if step is None else _positive(step)
        places = row_blocks(len(self), step, start)
        if not places:
            return
        yield from ahead(lambda place: (place, self._block(place.start, place.stop)), places, 1)
        self.check_unchanged()

    def scaled(self, scales: NDArray[np.float64]) -> Rows:
        """Return a table whose columns are multiplied by ``scales`` (d,), in float64."""
        source = ScaledSource(self._source, scales)
        return Rows(self.name, self.shape, source.dtype, source, self._stamp)

    def check_unchanged(self) -> None:
        """Raise RuntimeError if a file has changed since it was opened (size, time, inode)."""
        path = self._source.path
        if path is None:
            return
        try:
            now = stamp_of(path)
        except OSError as error:
            message = f"{path} cannot be looked at any more: {error.strerror}"
        else:
            changed = sorted(set(self._stamp.items()) ^ set(now.items()))
            if not changed:
                return
            message = f"{changed[0][0]} is not what it was when it was opened"
        raise RuntimeError(f"{self.name} changed on disk while it was being read: {message}")

    def fingerprint(self) -> str:
        """Return a hash of shape, type and content, independent of location and format."""
        digest = blake2b(f"{self.shape} {self.dtype}".encode(), digest_size=16)
        for _, block in self.blocks():
            digest.update(block.data)
        return digest.hexdigest()

    @property
    def _label(self) -> str:
        return f"{self.name} ({self._source.where})"

    def _block(self, start: int, stop: int) -> Array:
        if start == stop:
            return np.empty((0, self.shape[1]), self.dtype)
        if self._source.splits and self._source.dtype == self.dtype:
            return self._in_pieces(start, stop)
        block = self._read_checked(start, stop)
        check_finite_rows(block, self._label, first_row=start)
        if self.on_device is None:
            return block
        device_block = block.view(DeviceBlock)
        device_block.device_rows = self.on_device[start:stop]
        return device_block

    def _in_pieces(self, start: int, stop: int) -> Array:
        """Return rows read by several threads, which check each piece while it is in the cache."""
        block = np.empty((stop - start, self.shape[1]), self.dtype)

        def work(rows: slice) -> None:
            first, some = start + rows.start, block[rows]
            with self._telling(first, start + rows.stop):
                self._source.into(first, some)
            check_finite_rows(some, self._label, first_row=first)

        over_rows(work, len(block), max(1, _PIECE_BYTES // block[0].nbytes))
        return block

    @contextlib.contextmanager
    def _telling(self, start: int, stop: int) -> Iterator[None]:
        """Add the rows to the messages of read errors."""
        try:
            with prefix_errors(f"{self._label} cannot be read in rows {start} to {stop - 1}"):
                yield
        except (OSError, ValueError):
            self.check_unchanged()  # a change of the file explains the error better
            raise

    def _read_checked(self, start: int, stop: int) -> Array:
        with self._telling(start, stop), self._lock:
            block = self._source.read(start, stop)
        return np.ascontiguousarray(block.reshape(stop - start, self.shape[1]), self.dtype)

    def _take(self, rows: NDArray[np.intp]) -> Array:
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        apart = np.diff(ascending) >= self._source.near
        apart |= np.diff(ascending // self.block_rows) > 0  # no read is longer than a block
        ends = [*(np.flatnonzero(apart) + 1).tolist(), len(rows)]
        begin = 0
        for end in ends if len(rows) else []:
            first, last = int(ascending[begin]), int(ascending[end - 1])
            block = self._read_checked(first, last + 1)
            block_rows = block[ascending[begin:end] - first]  # rows in between are not checked
            for bad in np.flatnonzero(~np.isfinite(block_rows).all(axis=1))[:1]:
                row = int(ascending[begin + bad])
                check_finite_rows(block_rows[bad : bad + 1], self._label, first_row=row)
            out[order[begin:end]] = block_rows
            begin = end
        return out

    def _row_numbers(self, rows: object) -> NDArray[np.intp]:
        n, index = len(self), np.asarray(rows)
        if index.size == 0 and index.dtype == np.float64:  # an empty list
            index = index.astype(np.intp)
        if index.ndim != 1 or index.dtype.kind not in "iub":
            raise TypeError(
                f"{self.name} is indexed with {type(rows).__name__} of shape {index.shape} and dtype "
                f"{index.dtype}; a slice, row numbers (m,) or a mask ({n},) are needed"
            )
        if index.dtype == bool:
            if len(index) != n:
                raise IndexError(f"the mask has {len(index)} entries; {self.name} has {n} rows")
            return np.flatnonzero(index)
        wrong = index[(index < -n) | (index >= n)]
        if wrong.size:
            raise IndexError(f"row {wrong[0]} is asked for; {self.name} has {n} rows")
        index = index.astype(np.intp)
        return np.where(index < 0, index + n, index)


def as_blocks(
    x: Array | Rows, step: int | None = None, start: int = 0
) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows from ``start`` on with their slices: views of an array, or blocks of `Rows`.

    Examples
    --------
    >>> [(place.start, len(block)) for place, block in as_blocks(np.ones((5, 2)), 2)]
    [(0, 2), (2, 2), (4, 1)]
    """
    if isinstance(x, Rows):
        yield from x.blocks(step, start)
        return
    step = max(1, _BLOCK_BYTES // max(1, x[:1].nbytes)) if step is None else _positive(step)
    for first in range(start, len(x), step):
        place = slice(first, min(first + step, len(x)))
        yield place, x[place]


def _positive(step: int) -> int:
    if step < 1:
        raise ValueError(f"step is {step}; at least 1 is needed")
    return int(step)
