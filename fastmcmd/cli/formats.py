"""Files of named columns: .npz, .npy, .csv, .tsv, Parquet, Zarr. To add one, write a class and list it."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd._base.annotations import AnyArray, HostArray
from fastmcmd._base.tables import did_you_mean
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.columns import Columns
from fastmcmd.cli.text import Text
from fastmcmd.io import Archive, source
from fastmcmd.io.npy import check_memory, damaged, read_header
from fastmcmd.rows.arrow import to_array

__all__ = ["open_columns"]


def open_columns(path: str) -> Columns:
    """Return the columns of a file, read according to its extension; "-" is CSV on standard input."""
    if path == "-":
        return _standard_input()
    where = Path(path)
    if not where.exists():
        pattern = set(path) & set("*?[")
        hint = "; a pattern of files needs --dask" if pattern else _nearest(where)
        raise UsageError(f"{path} cannot be read: No such file or directory{hint}")
    kind = _KINDS.get(where.suffix.lower())
    if kind is None:
        raise UsageError(f"{path} ends in {where.suffix!r}; one of {', '.join(_KINDS)} is needed")
    if where.is_dir() and kind is not _Zarr:
        raise UsageError(f"{path} cannot be read: it is a folder")
    try:
        source(where, "FILE", folders=kind is _Zarr)  # reading a FIFO might never end
        return kind(where)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def _nearest(where: Path) -> str:
    """Return a question that suggests the file of the most similar name in the same folder, or ""."""
    try:
        names = [one.name for one in where.parent.iterdir() if one.suffix.lower() in _KINDS]
    except OSError:
        return ""
    question = did_you_mean(where.name, names).strip()
    return f"; {question}" if question else ""


def _standard_input() -> Columns:
    """Return the columns of CSV text on standard input, copied to a file that is removed at exit."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder) / "stdin.csv"
    with copy.open("wb") as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream)
    return Text(copy, "standard input")


class _Npz(Columns):
    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as archive:
            self.names = archive.names

    def _open(self) -> Archive:
        return Archive(self.path, "FILE")

    def read(self, names: Sequence[str]) -> list[HostArray]:
        with self._open() as archive:
            return [archive.array(name) for name in names]


class _Npy(Columns):
    """Fields of a structured array, or columns "0", "1", ... of a plain one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open(path, "rb") as stream, damaged(f"{path} cannot be read as an .npy file"):
            header = read_header(stream)
            has = path.stat().st_size - header.offset
            if header.nbytes > has:
                raise ValueError(f"it has {max(has, 0):,} of {header.nbytes:,} bytes of data")
        fields = header.dtype.names
        if fields is None and len(header.shape) not in (1, 2):
            raise UsageError(f"{path} has shape {header.shape}; columns need (n,) or (n, k)")
        if not header.nbytes:
            raise UsageError(f"{path} has shape {header.shape}; there are no rows or columns")
        width = 1 if len(header.shape) == 1 else header.shape[1]
        self.names = list(fields) if fields is not None else [str(j) for j in range(width)]
        self._array = np.memmap(
            path, header.dtype, "r", header.offset, header.shape, "F" if header.fortran else "C"
        )

    def read(self, names: Sequence[str]) -> list[HostArray]:
        with damaged(f"{self.title} cannot be read as an .npy file"):
            check_memory(self._array.nbytes * len(names) // len(self.names))
            if self._array.dtype.names is not None:
                return [np.array(self._array[name]) for name in names]
            table = self._array.reshape(len(self._array), -1)
            return [np.array(table[:, int(name)]) for name in names]


class _Parquet(Columns):
    def __init__(self, path: Path) -> None:
        from fastmcmd.rows.source import package, prefix_errors

        self.path = path
        self._parquet = package("pyarrow.parquet", str(path))
        with prefix_errors(f"{path} cannot be read"):
            self.names = list(self._parquet.ParquetFile(path).schema_arrow.names)
        self.check_names()

    def read(self, names: Sequence[str]) -> list[HostArray]:
        from fastmcmd.rows.source import prefix_errors

        with prefix_errors(f"{self.title} cannot be read"):
            table = self._parquet.read_table(self.path, columns=list(names))
        return [self._array(table.column(name), name) for name in names]

    def _array(self, column: AnyArray, name: str) -> HostArray:
        """Return numbers or words (n,), or numbers (n, k) from lists of equal length."""
        from fastmcmd.rows.source import package

        kinds = package("pyarrow", str(self.path)).types
        kind = column.type
        if not (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)):
            return to_array(column)
        lists = column.combine_chunks()
        sizes = set(lists.value_lengths().to_pylist())
        if len(sizes) > 1 or None in sizes:
            raise UsageError(
                f"{self.title}, column {name!r} holds lists of different lengths or nulls; lists of one "
                "length are needed"
            )
        values = to_array(lists.flatten())
        return values.reshape(len(lists), -1)


class _Zarr(Columns):
    def __init__(self, path: Path) -> None:
        from fastmcmd.rows.source import package, prefix_errors

        self.path = path
        zarr = package("zarr", str(path))
        with prefix_errors(f"{path} cannot be read as Zarr"):
            self._group = zarr.open(str(path), mode="r")
            if not hasattr(self._group, "array_keys"):
                raise ValueError("it is a single array; a group of named arrays is needed")
            self.names = sorted(self._group.array_keys())

    def read(self, names: Sequence[str]) -> list[HostArray]:
        from fastmcmd.rows.source import prefix_errors

        with prefix_errors(f"{self.title} cannot be read as Zarr"):
            return [np.asarray(self._group[name][...]) for name in names]


_KINDS: dict[str, Any] = {
    ".npz": _Npz,
    ".npy": _Npy,
    ".csv": Text,
    ".tsv": Text,
    ".parquet": _Parquet,
    ".zarr": _Zarr,
}
