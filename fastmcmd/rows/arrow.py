"""Columns of Arrow tables and of Parquet files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd.errors import RowError
from fastmcmd.rows.source import Array, RowSource, package

__all__ = ["ArrowTable", "Parquet", "to_array"]

_BATCH_BYTES = 4_000_000  # bytes of a Parquet row group that are decoded at once


def to_array(column: Any) -> HostArray:
    """Return a column of a pyarrow table as an array; nulls of numbers are NaN.

    pyarrow's own `to_numpy` loads pandas where that is installed, which takes half a second.
    """
    chunks = getattr(column, "chunks", [column])
    types = importlib.import_module("pyarrow").types
    plain = types.is_integer(column.type) or types.is_floating(column.type)
    if plain and chunks and column.null_count and types.is_floating(column.type):
        chunks = [chunk.fill_null(np.nan) for chunk in chunks]
    elif not plain or not chunks or column.null_count or not hasattr(chunks[0], "__dlpack__"):
        return np.asarray(column)
    return np.concatenate([np.from_dlpack(chunk) for chunk in chunks])


class _Columns(RowSource):
    """Numeric columns of a pyarrow schema."""

    def _use(self, schema: Any, selection: str, rows: int) -> None:
        types = importlib.import_module("pyarrow").types
        # The index of a pandas frame is stored as a column but does not belong to the data.
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        names = [part.strip() for part in selection.split(",")] if selection else []
        names = names or [name for name in schema.names if name not in index]
        for name in names:
            if schema.names.count(name) != 1:
                has = ", ".join(schema.names)
                raise ValueError(
                    f"{schema.names.count(name)} columns are named {name!r}; has: {has}"
                )
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise TypeError(f"column {name!r} has type {kind}; numbers are needed")
        kinds = [schema.field(name).type for name in names]
        small = all(types.is_float32(kind) or types.is_float16(kind) for kind in kinds)
        self.names, self.shape = names, (rows, len(names))
        self.dtype = np.dtype(np.float32 if small else np.float64)

    def _to_array(self, table: Any, first_row: int) -> Array:
        out = np.empty((table.num_rows, len(self.names)), self.dtype)
        for j, name in enumerate(self.names):
            column = table.column(name)
            if column.null_count:
                row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise RowError(
                    f"column {name!r} has a null in row {row}; remove or fill such rows", row
                )
            out[:, j] = to_array(column)
        return out


class ArrowTable(_Columns):
    """A pyarrow.Table."""

    def __init__(self, table: Any) -> None:
        self.where, self.path, self._table = "pyarrow.Table", None, table
        self._use(table.schema, "", table.num_rows)
        self._plain()

    def read(self, start: int, stop: int) -> Array:
        """Return the rows as an array of the table's columns."""
        return self._to_array(self._table.slice(start, stop - start), start)


class Parquet(_Columns):
    """A Parquet file, decoded forward in batches within one row group at a time.

    The batch last decoded is kept: rows asked for in ascending order decode each group once, and
    no group has to fit into memory.
    """

    def __init__(self, path: Path, inside: str, where: str) -> None:
        package("pyarrow", where)
        parquet = importlib.import_module("pyarrow.parquet")
        self.where, self.path = where, path
        # Unbuffered reading would take a whole column of a row group at a time.
        self._file = parquet.ParquetFile(path, buffer_size=1 << 16)
        metadata = self._file.metadata
        self._use(self._file.schema_arrow, inside, metadata.num_rows)
        groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._first = np.cumsum([0, *groups])
        self._batch_rows = self.near = max(1, _BATCH_BYTES // self._row_bytes())
        self.overhead = 3 * self._batch_rows * self._row_bytes()  # decoded, converted, next one
        self._batches: Iterator[Any] = iter(())
        self._start = self._stop = self._last = 0  # rows of the batch, and the end of its group
        self._batch: Any = None
        self._rows: Array | None = None  # the batch as an array, once requested

    def read(self, start: int, stop: int) -> Array:
        """Return the rows, from all batches that hold them."""
        out = np.empty((stop - start, self.shape[1]), self.dtype)
        at = start
        while at < stop:
            rows = self._rows_with(at)
            end = min(stop, self._stop)
            out[at - start : end - start] = rows[at - self._start : end - self._start]
            at = end
        return out

    def _rows_with(self, row: int) -> Array:
        if not self._start <= row < self._last:  # before the batch, or in another group
            group = int(np.searchsorted(self._first, row, side="right")) - 1
            self._batches = self._file.iter_batches(
                self._batch_rows, row_groups=[group], columns=self.names, use_threads=False
            )
            self._start = self._stop = int(self._first[group])
            self._last = int(self._first[group + 1])
        try:
            while self._stop <= row:
                self._batch = next(self._batches, None)
                self._rows = None
                if self._batch is None:
                    raise ValueError(f"the row group ends before row {row}")
                self._start, self._stop = self._stop, self._stop + self._batch.num_rows
            if self._rows is None:
                self._rows = self._to_array(self._batch, self._start)
        except BaseException:
            self._start = self._stop = self._last = 0  # the next call starts again
            raise
        return self._rows
