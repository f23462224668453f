"""Columns of a file, read by name: .npz, .npy, .csv, .tsv, Parquet, Zarr. A new format is a class here."""

from __future__ import annotations

import csv
import fnmatch
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.cli.app import UsageError

__all__ = ["Columns", "open_columns"]


class Columns(ABC):
    """Named columns of one file.

    Attributes
    ----------
    path : Path
    names : list of str
        What there is.
    """

    path: Path
    names: list[str]

    @abstractmethod
    def read(self, names: Sequence[str]) -> list[NDArray[Any]]:
        """Return the arrays of some names, (n,) or (n, k)."""

    def select(self, wanted: str, what: str) -> NDArray[Any]:
        """Return columns side by side: names or patterns (``draw_*``) with commas between.

        One name gives its array as it is, (n,) or (n, k); several give (n, k).
        """
        names = self.find(wanted, what)
        parts = self.read(names)
        if len(parts) == 1 and names == [wanted]:
            return parts[0]
        rows = {len(part) for part in parts}
        if len(rows) > 1:
            raise UsageError(f"{what}: columns of {self.path} have {sorted(rows)} rows")
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def find(self, wanted: str, what: str) -> list[str]:
        """Return the names that names or patterns stand for, in the order told."""
        found: list[str] = []
        for part in wanted.split(","):
            part = part.strip()
            hits = [part] if part in self.names else fnmatch.filter(self.names, part)
            if not hits:
                raise UsageError(
                    f"{what}: {self.path} has no column {part!r}; it has {self.told()}"
                )
            found += [name for name in hits if name not in found]
        return found

    def told(self) -> str:
        """Return the names in words, the first of many."""
        if not self.names:
            return "none"
        shown = ", ".join(self.names[:20])
        return shown if len(self.names) <= 20 else f"{shown}, ... ({len(self.names)} in all)"


def open_columns(path: str) -> Columns:
    """Return the columns of a file; its ending says how it is read."""
    where = Path(path)
    if not where.exists():
        raise UsageError(f"{path} cannot be read: No such file or directory")
    kind = _KINDS.get(where.suffix.lower())
    if kind is None:
        raise UsageError(f"{path} ends in {where.suffix!r}; one of {', '.join(_KINDS)} is needed")
    if where.is_dir() and kind is not _Zarr:
        raise UsageError(f"{path} cannot be read: it is a folder")
    try:
        return kind(where)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


class _Npz(Columns):
    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as stored:
            self.names = list(stored.files)

    def _open(self) -> Any:
        try:
            stored = np.load(self.path, allow_pickle=False)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
            raise UsageError(f"{self.path} cannot be read as an .npz file: {error}") from None
        if isinstance(stored, np.ndarray):
            raise UsageError(f"{self.path} holds a single array; it should end in .npy")
        return stored

    def read(self, names: Sequence[str]) -> list[NDArray[Any]]:
        try:
            with self._open() as stored:
                return [stored[name] for name in names]
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, MemoryError) as error:
            raise UsageError(f"{self.path} cannot be read as an .npz file: {error}") from None


class _Npy(Columns):
    """Fields of a structured array, or columns "0", "1", ... of a plain one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (EOFError, ValueError) as error:
            raise UsageError(f"{path} cannot be read as an .npy file: {error}") from None
        fields = self._array.dtype.names
        if fields is None and self._array.ndim not in (1, 2):
            raise UsageError(f"{path} has shape {self._array.shape}; columns need (n,) or (n, k)")
        width = 1 if self._array.ndim == 1 else self._array.shape[1]
        self.names = list(fields) if fields is not None else [str(j) for j in range(width)]

    def read(self, names: Sequence[str]) -> list[NDArray[Any]]:
        if self._array.dtype.names is not None:
            return [np.array(self._array[name]) for name in names]
        table = self._array.reshape(len(self._array), -1)
        return [np.array(table[:, int(name)]) for name in names]


class _Text(Columns):
    """Columns of a text with a line of names; only those that are asked for need be numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        try:
            with path.open(newline="", encoding="utf-8-sig") as stream:
                head = next(csv.reader(stream, delimiter=self._delimiter), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise UsageError(f"{path} cannot be read as text: {error}") from None
        self.names = [name.strip() for name in head]
        doubled = {name for name in self.names if self.names.count(name) > 1}
        if not self.names or doubled:
            why = f"has two columns named {min(doubled)!r}" if doubled else "is empty"
            raise UsageError(f"{path} {why}; a first line of names is needed")

    def read(self, names: Sequence[str]) -> list[NDArray[Any]]:
        where = [self.names.index(name) for name in names]
        try:
            with self.path.open(newline="", encoding="utf-8-sig") as stream:
                table = np.loadtxt(
                    stream, delimiter=self._delimiter, skiprows=1, usecols=where, ndmin=2,
                    quotechar='"', comments=None,
                )  # fmt: skip
        except (ValueError, IndexError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.path}: {error} (rows counted after the names)") from None
        return [np.ascontiguousarray(column) for column in table.T]


class _Parquet(Columns):
    def __init__(self, path: Path) -> None:
        from fastmcmd.rows.packages import package, told

        self.path = path
        self._parquet = package("pyarrow.parquet", str(path))
        with told(f"{path} cannot be read"):
            self.names = list(self._parquet.ParquetFile(path).schema_arrow.names)

    def read(self, names: Sequence[str]) -> list[NDArray[Any]]:
        from fastmcmd.rows.packages import told

        with told(f"{self.path} cannot be read"):
            table = self._parquet.read_table(self.path, columns=list(names))
            return [table.column(name).to_numpy() for name in names]


class _Zarr(Columns):
    def __init__(self, path: Path) -> None:
        from fastmcmd.rows.packages import package, told

        self.path = path
        zarr = package("zarr", str(path))
        with told(f"{path} cannot be read as Zarr"):
            self._group = zarr.open_group(str(path), mode="r")
            self.names = sorted(self._group.array_keys())

    def read(self, names: Sequence[str]) -> list[NDArray[Any]]:
        from fastmcmd.rows.packages import told

        with told(f"{self.path} cannot be read as Zarr"):
            return [np.asarray(self._group[name][...]) for name in names]


_KINDS: dict[str, Any] = {
    ".npz": _Npz,
    ".npy": _Npy,
    ".csv": _Text,
    ".tsv": _Text,
    ".parquet": _Parquet,
    ".zarr": _Zarr,
}
