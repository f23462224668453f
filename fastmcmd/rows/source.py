"""The base class of the readers of all formats."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import DType, HostArray
from fastmcmd.errors import MissingDependencyError, require

__all__ = []

Array = HostArray

_GAP_BYTES = 16_000  # reading through a gap this long costs about as much as another read


class DeviceBlock(np.ndarray):
    """Rows on the host with a reference to the same rows on a device, which saves copying them back.

    Results computed from them, and parts of them, are ordinary arrays.
    """

    device_rows: Any = None

    def __array_finalize__(self, of: object) -> None:
        """Drop the reference to the device, which is valid for a single block only."""
        self.device_rows = None


class RowSource(ABC):
    """A stored table: its shape and type, and access to consecutive rows.

    ``where`` names it in messages; ``path`` is the file or folder that must not change, if any;
    reads should begin and end at multiples of ``chunk_rows``; rows less than ``near`` apart are read
    together; ``overhead`` is about how many bytes a read takes in addition to the rows it returns;
    ``splits`` says that several threads may call `into` at the same time.
    """

    where: str
    path: Path | None
    shape: tuple[int, ...]
    dtype: DType
    chunk_rows: int = 1
    near: int = 1
    overhead: int = 0
    splits: bool = False
    array: Any = None

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Return rows ``start`` to ``stop - 1`` in a new array of any type, order and strides."""

    def into(self, start: int, out: Array) -> None:
        """Fill ``out``, C-contiguous and of the stored type, with rows from ``start``; needs `splits`."""
        raise NotImplementedError(f"{self.where} is read by one thread")

    def _row_bytes(self) -> int:
        return max(1, int(np.prod(self.shape[1:], dtype=np.int64))) * self.dtype.itemsize

    def _plain(self, bytes_apart: int | None = None) -> None:
        """Set ``near`` for rows that begin ``bytes_apart`` (by default, a row) after each other."""
        self.near = max(1, _GAP_BYTES // (bytes_apart or self._row_bytes()))

    def _chunked(self, chunks: Sequence[int], chunk_count: int) -> None:
        self.chunk_rows = self.near = max(1, int(chunks[0])) if len(chunks) else 1
        self.overhead = chunk_count * int(np.prod(chunks, dtype=np.int64)) * self.dtype.itemsize


class ScaledSource(RowSource):
    """A source whose columns are multiplied by ``scales`` (d,) when they are read, in float64."""

    def __init__(self, source: RowSource, scales: NDArray[np.float64]) -> None:
        self._of, self._scales = source, scales
        self.where, self.path, self.shape = source.where, source.path, source.shape
        self.dtype = np.dtype(np.float64)
        self.chunk_rows, self.near, self.overhead = source.chunk_rows, source.near, source.overhead

    def read(self, start: int, stop: int) -> Array:
        """Return the scaled rows."""
        rows = self._of.read(start, stop)
        return np.asarray(rows.reshape(stop - start, -1) * self._scales)


Stamp = dict[str, tuple[int, int, int]]


def stamp_of(path: Path) -> Stamp:
    """Return size, time of modification and inode of a file, or of all files of a folder."""
    stats = {str(file): file.stat() for file in ([path] if not path.is_dir() else files(path))}
    return {name: (s.st_size, s.st_mtime_ns, s.st_ino) for name, s in stats.items()}


def files(folder: Path) -> Iterator[Path]:
    """Return all files of a folder and of its folders."""
    return (Path(at, name) for at, _, names in os.walk(folder) for name in names)


def package(name: str, where: str) -> Any:
    """Return the package that reads ``where``, or raise an error if it is not installed."""
    advice = "which is not installed: pip install 'fastmcmd[disk]'"
    return require(name, f"{where} is read with {name}, {advice}")


def package_of(value: object) -> str:
    """Return the name of the package that defines the type of ``value``, without importing it."""
    return type(value).__module__.partition(".")[0]


@contextlib.contextmanager
def prefix_errors(prefix: str) -> Iterator[None]:
    """Begin messages of a package's errors with ``prefix``; unexpected kinds become a ValueError."""
    try:
        yield
    except (MissingDependencyError, MemoryError):
        raise
    except OSError as error:
        if error.errno is None:  # packages raise these for damaged files too
            raise ValueError(f"{prefix}: {error}") from error
        raise OSError(error.errno, f"{prefix}: {error.strerror}") from error
    except TypeError as error:
        raise TypeError(f"{prefix}: {error}") from error
    except Exception as error:
        raise ValueError(f"{prefix}: {error}") from error
