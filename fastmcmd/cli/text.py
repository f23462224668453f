"""Columns of a text with a line of names (.csv, .tsv): what is asked for together is parsed in one pass."""

from __future__ import annotations

import csv
import importlib
import io
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.columns import Columns
from fastmcmd.progress import Progress, Sweep

__all__ = ["Text"]

_QUOTED = 30  # characters of a cell that a message shows


class Text(Columns):
    """Columns of a text; only those that are asked for need be numbers.

    pyarrow parses where it is installed, else NumPy, 4 times slower; the numbers are the same, since both
    round correctly. What pyarrow refuses NumPy tries, too, so that one set of rules holds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self._parsed: dict[str, NDArray[Any]] = {}
        try:
            with self._open() as stream:
                head = next(csv.reader(stream, delimiter=self._delimiter), [])
        except csv.Error as error:
            raise UsageError(f"{path} cannot be read as text: {error}") from None
        self.names = [name.strip() for name in head]
        if not self.names:
            what = "line 1 is empty" if path.stat().st_size else "it is empty"
            raise UsageError(f"{path}: {what}; a first line of names is needed")
        for name in self.names:
            _check_name(name, path)
        if len(self.names) == 1 and any(sign in self.names[0] for sign in ";\t,"):
            raise UsageError(
                f"{path}: line 1 is one column, {self.names[0][:_QUOTED]!r}; columns need "
                f"{'tabs' if self._delimiter != ',' else 'commas'} between"
            )
        self.check_names()

    def prepare(
        self, names: Sequence[str], words: Sequence[str], told: Progress | None = None
    ) -> None:
        """Parse columns of numbers, and of words where they are not all numbers, in one pass."""
        names = [name for name in dict.fromkeys(names) if name not in self._parsed]
        words = [name for name in words if name not in names and name not in self._parsed]
        if not names and not words:
            return
        told = Progress(False, 0.0) if told is None else told
        found = self._by_arrow(names, words, told)
        if found is None:
            found = self._by_numpy(names, told) if names else {}
            found |= {name: self._words_of(name) for name in words}
        self._parsed |= found

    def read(self, names: Sequence[str]) -> list[NDArray[Any]]:
        """Return columns of numbers."""
        self.prepare(names, ())
        for name in names:
            if self._parsed[name].dtype.kind == "U":  # parsed as words before
                raise self._fault([name])
        return [self._parsed[name] for name in names]

    def labels(self, name: str) -> NDArray[Any]:
        """Return a column of words, or of numbers where all are."""
        self.prepare((), [name])
        return self._parsed[name]

    def _open(self) -> io.TextIOWrapper:
        # Bytes that are not UTF-8 do no harm in columns that nobody asks for.
        return self.path.open(newline="", encoding="utf-8-sig", errors="surrogateescape")

    def _by_arrow(
        self, names: Sequence[str], words: Sequence[str], told: Progress
    ) -> dict[str, NDArray[Any]] | None:
        """Parse with pyarrow; None where it is missing or refuses something."""
        try:
            pyarrow = importlib.import_module("pyarrow")
            arrow = importlib.import_module("pyarrow.csv")
        except ImportError:
            return None
        kinds = {
            **dict.fromkeys(names, pyarrow.float64()),
            **dict.fromkeys(words, pyarrow.string()),
        }
        try:
            with _Counted(self.path, told) as stream:
                table = arrow.read_csv(
                    stream,
                    read_options=arrow.ReadOptions(
                        column_names=self.names, skip_rows_after_names=1
                    ),
                    parse_options=arrow.ParseOptions(delimiter=self._delimiter),
                    # Nothing stands for a missing number but nan, which NumPy knows, too.
                    convert_options=arrow.ConvertOptions(
                        include_columns=list(kinds), column_types=kinds, null_values=[]
                    ),
                )
        except pyarrow.ArrowInvalid:
            return None
        found = {name: table.column(name).to_numpy() for name in names}
        for name in words:
            column = table.column(name).combine_chunks().dictionary_encode()
            index = np.asarray(column.indices)
            found[name] = _numbers_or_words(np.array(column.dictionary.to_pylist(), str))[index]
        return found

    def _by_numpy(self, names: Sequence[str], told: Progress) -> dict[str, NDArray[Any]]:
        where = [self.names.index(name) for name in names]
        try:
            with _Counted(self.path, told) as raw:
                stream = io.TextIOWrapper(
                    io.BufferedReader(raw, 1 << 20),
                    encoding="utf-8-sig", errors="surrogateescape", newline="",
                )  # fmt: skip
                next(csv.reader(stream, delimiter=self._delimiter))  # names may hold line ends
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of no rows: `select` says so
                    table = np.loadtxt(
                        stream, delimiter=self._delimiter, usecols=where, ndmin=2, quotechar='"',
                        comments=None,
                    )  # fmt: skip
        except (ValueError, IndexError) as error:
            raise self._fault(names, error) from None
        columns = table.T if table.size else np.empty((len(names), 0))
        return {
            name: np.ascontiguousarray(column) for name, column in zip(names, columns, strict=True)
        }

    def _words_of(self, name: str) -> NDArray[Any]:
        at, found = self.names.index(name), []
        for line, row in self._rows():
            if len(row) <= at:
                raise self._short(line, row)
            if "\udc80" <= max(row[at], default="") <= "\udcff":
                raise UsageError(
                    f"{self.path}, line {line}, column {name!r}: this is not UTF-8; save the file as UTF-8"
                )
            found.append(row[at])
        return _numbers_or_words(np.array(found, str))

    def _rows(self) -> Any:
        """Yield rows that hold something, each with its line."""
        with self._open() as stream:
            reader = csv.reader(stream, delimiter=self._delimiter)
            next(reader)
            try:
                for row in reader:
                    if row:
                        yield reader.line_num, row
            except csv.Error as error:
                raise UsageError(
                    f"{self.path}, line {reader.line_num}: {error}; is a quote left open?"
                ) from None

    def _fault(self, names: Sequence[str], error: Exception | None = None) -> UsageError:
        """Return what is wrong with the first row whose cells are not numbers."""
        where = [(name, self.names.index(name)) for name in names]
        for line, row in self._rows():
            for name, at in where:
                if len(row) <= at:
                    return self._short(line, row)
                try:
                    float(row[at])
                except ValueError:
                    cell = row[at].strip().encode("utf-8", "replace").decode()
                    told = repr(cell[:_QUOTED]) + ("..." if len(cell) > _QUOTED else "")
                    what = f"{told} is not a number" if cell else "nothing there"
                    return UsageError(
                        f"{self.path}, line {line}, column {name!r}: {what}; a number is needed (nan where "
                        "it is missing)"
                    )
        return UsageError(f"{self.path}: {error} (rows counted after the names)")

    def _short(self, line: int, row: list[str]) -> UsageError:
        return UsageError(
            f"{self.path}, line {line}: {len(row)} cells, but line 1 names {len(self.names)} columns"
        )


def _numbers_or_words(found: NDArray[Any]) -> NDArray[Any]:
    try:
        return found.astype(np.float64)
    except ValueError:
        return found


def _check_name(name: str, path: Path) -> None:
    # Bytes that are not UTF-8 are surrogates (Cs) here.
    if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\r\n" for c in name):
        raise UsageError(
            f"{path} cannot be read as text: line 1 holds {name[:_QUOTED]!a}; a line of "
            "names in UTF-8 is needed"
        )


class _Counted(io.RawIOBase):
    """A file that tells how much of it has been read."""

    def __init__(self, path: Path, told: Progress) -> None:
        self._file = path.open("rb", buffering=0)
        size = path.stat().st_size / 1e6
        self._told, self._name = told, path.name
        self._sweep: Sweep = told.sweep(f"reading {path.name}", max(round(size), 1), unit="MB")
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        if not count:  # all is read, but not yet made numbers
            self._told.stage(f"parsing {self._name}")
            return 0
        self._read += count
        self._sweep.done(round(self._read / 1e6))
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
