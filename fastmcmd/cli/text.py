"""Columns of a text file with a header (.csv, .tsv); columns requested together are parsed in one pass.

Every row must have as many cells as the header has names, because an unquoted thousands separator would
shift all following numbers by one column. Empty cells, NA, NaN, null and similar words are missing numbers.
"""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import math
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.checks import EXACT_INTEGERS
from fastmcmd._base.progress import Progress, Sweep
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.columns import Columns
from fastmcmd.rows.arrow import to_array

__all__ = ["Text"]

# Cells of numbers that are missing, as spreadsheets, R, pandas and databases write them.
MISSING = (
    "", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "-nan", "-NaN", "NULL", "Null", "null",
    "None", "none",
)  # fmt: skip
_MISSING = frozenset(MISSING)
_WIDE = 1 << 20  # bytes that pyarrow reads together, at least; a row must fit
_MANY = 10_000  # columns: pyarrow makes objects for each, and is slower from here on
_DIGITS = 25  # of identifiers; whole numbers of more digits are amounts
_QUOTED = 30  # characters of a cell that a message shows


class Text(Columns):
    """Columns of a text file; only the requested columns must be numbers.

    pyarrow parses the file if it is installed; NumPy is 4 times slower. The numbers are the same, because
    both round correctly. If pyarrow refuses a file, NumPy tries as well, so that the same rules apply.
    """

    def __init__(self, path: Path, title: str = "") -> None:
        self.path, self.title = path, title or str(path)
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self._parsed: dict[str, HostArray] = {}
        try:
            with self._open() as stream:
                head = next(csv.reader(stream, delimiter=self._delimiter), [])
        except csv.Error as error:
            raise UsageError(f"{self.title} cannot be read as text: {error}") from None
        self.names = [name.strip() for name in head]
        if not self.names:
            problem = "line 1 is empty" if path.stat().st_size else "it is empty"
            raise UsageError(f"{self.title}: {problem}; a first line of names is needed")
        for name in self.names:
            _check_name(name, self.title)
        if len(self.names) == 1 and any(sign in self.names[0] for sign in ";\t,"):
            raise UsageError(
                f"{self.title}: line 1 is one column, {self.names[0][:_QUOTED]!r}; columns need "
                f"{'tabs' if self._delimiter != ',' else 'commas'} between"
            )
        self.check_names()

    def prepare(
        self, names: Sequence[str], words: Sequence[str], progress: Progress | None = None
    ) -> None:
        """Parse columns of numbers, and of words if they are not all numbers, in one pass."""
        names = [name for name in dict.fromkeys(names) if name not in self._parsed]
        numbers = set(names)  # no set of all parsed columns: each of many columns is read by a call
        words = [
            name
            for name in dict.fromkeys(words)
            if name not in numbers and name not in self._parsed
        ]
        if not names and not words:
            return
        progress = Progress(False, 0.0) if progress is None else progress
        values = self._by_arrow(names, words, progress)
        if values is None:
            values = self._by_numpy(names, progress) if names else {}
            values |= self._words_of(words) if words else {}
        self._check_integers(names, values)
        self._parsed |= values

    def read(self, names: Sequence[str]) -> list[HostArray]:
        """Return columns of numbers."""
        self.prepare(names, ())
        for name in names:
            if self._parsed[name].dtype.kind == "U":  # parsed as words before
                raise self._fault([name])
        return [self._parsed[name] for name in names]

    def labels(self, name: str) -> HostArray:
        """Return a column of words, or of numbers if all are."""
        self.prepare((), [name])
        return self._parsed[name]

    def place(self, row: int) -> str:
        """Return the line of a row."""
        return f"line {next(itertools.islice(self._rows(), row, None))[0]}"

    def _check_integers(self, names: Sequence[str], columns: dict[str, HostArray]) -> None:
        """Raise an error for whole numbers that float64 cannot represent, instead of rounding them."""
        large = [name for name in names if (np.abs(columns[name]) > EXACT_INTEGERS).any()]
        if not large:
            return
        for line, row in self._rows():
            for name in large:
                cell = row[self.places[name]].strip()
                if not _is_exact(cell):
                    raise UsageError(
                        f"{self.title}, line {line}, column {name!r}: {cell[:_QUOTED]} is beyond 2**53 and "
                        "would be rounded; subtract an offset, or renumber such rows"
                    )

    def _open(self) -> io.TextIOWrapper:
        # Bytes that are not UTF-8 are allowed in columns that are not requested.
        return self.path.open(newline="", encoding="utf-8-sig", errors="surrogateescape")

    def _by_arrow(
        self, names: Sequence[str], words: Sequence[str], progress: Progress
    ) -> dict[str, HostArray] | None:
        """Parse with pyarrow; None if it is missing, refuses something, or columns are many."""
        if len(names) + len(words) > _MANY:
            return None
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
            with _CountingFile(self.path, progress) as stream:
                table = arrow.read_csv(
                    stream,
                    read_options=arrow.ReadOptions(
                        column_names=self.names,
                        skip_rows_after_names=1,
                        block_size=max(_WIDE, 64 * len(self.names)),
                    ),
                    parse_options=arrow.ParseOptions(delimiter=self._delimiter),
                    convert_options=arrow.ConvertOptions(
                        include_columns=list(kinds), column_types=kinds, null_values=list(MISSING)
                    ),
                )
        except pyarrow.ArrowInvalid:
            return None
        values = {name: to_array(table.column(place)) for place, name in enumerate(names)}
        for place, name in enumerate(words, start=len(names)):
            column = table.column(place).combine_chunks().dictionary_encode()
            index = to_array(column.indices)
            values[name] = _numbers_or_words(np.array(column.dictionary.to_pylist(), str))[index]
        return values

    def _by_numpy(self, names: Sequence[str], progress: Progress) -> dict[str, HostArray]:
        where = [self.places[name] for name in names]
        for line, row in self._rows():  # NumPy reads no other columns
            if len(row) != len(self.names):
                raise self._uneven(line, row)
        try:
            with _CountingFile(self.path, progress) as raw:
                stream = io.TextIOWrapper(
                    io.BufferedReader(raw, 1 << 20),
                    encoding="utf-8-sig", errors="surrogateescape", newline="",
                )  # fmt: skip
                next(csv.reader(stream, delimiter=self._delimiter))  # names may hold line ends
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of no rows: `select` says so
                    table = np.loadtxt(
                        stream, delimiter=self._delimiter, usecols=where, ndmin=2, quotechar='"',
                        comments=None, converters=_number,
                    )  # fmt: skip
        except (ValueError, IndexError) as error:
            raise self._fault(names, error) from None
        columns = table.T if table.size else np.empty((len(names), 0))
        return {
            name: np.ascontiguousarray(column) for name, column in zip(names, columns, strict=True)
        }

    def _words_of(self, names: Sequence[str]) -> dict[str, HostArray]:
        places = [self.places[name] for name in names]
        columns: list[list[str]] = [[] for _ in names]
        for line, row in self._rows():
            if len(row) != len(self.names):
                raise self._uneven(line, row)
            for name, place, words in zip(names, places, columns, strict=True):
                if "\udc80" <= max(row[place], default="") <= "\udcff":
                    raise UsageError(
                        f"{self.title}, line {line}, column {name!r}: this is not UTF-8; "
                        "save the file as UTF-8"
                    )
                words.append(row[place])
        return {
            name: _numbers_or_words(np.array(words, str))
            for name, words in zip(names, columns, strict=True)
        }

    def _rows(self) -> Any:
        """Yield the rows that are not empty, each with its line number."""
        with self._open() as stream:
            reader = csv.reader(stream, delimiter=self._delimiter)
            next(reader)
            try:
                for row in reader:
                    if row:
                        yield reader.line_num, row
            except csv.Error as error:
                raise UsageError(
                    f"{self.title}, line {reader.line_num}: {error}; is a quote left open?"
                ) from None

    def _fault(self, names: Sequence[str], error: Exception | None = None) -> UsageError:
        """Return the error for the first row whose cells are not numbers."""
        where = [(name, self.places[name]) for name in names]
        for line, row in self._rows():
            if len(row) != len(self.names):
                return self._uneven(line, row)
            for name, at in where:
                try:
                    _number(row[at])
                except ValueError:
                    cell = row[at].strip().encode("utf-8", "replace").decode()
                    quoted = repr(cell[:_QUOTED]) + ("..." if len(cell) > _QUOTED else "")
                    return UsageError(
                        f"{self.title}, line {line}, column {name!r}: {quoted} is not a number; a number "
                        f"is needed (or an empty cell, NA or nan if the value is missing){_of_words(cell)}"
                    )
        return UsageError(f"{self.title}: {error} (rows counted after the names)")

    def _uneven(self, line: int, row: list[str]) -> UsageError:
        more = "; a cell with the delimiter in it needs quotes" * (len(row) > len(self.names))
        return UsageError(
            f"{self.title}, line {line}: {len(row)} cells, but line 1 names {len(self.names)} columns{more}"
        )


def _number(cell: str) -> float:
    """Return the number of a cell, NaN if it is missing; ValueError for everything else."""
    cell = cell.strip()
    if cell in _MISSING:
        return math.nan
    if "_" in cell or not cell.isascii():  # numbers of Python, of no table
        raise ValueError(f"{cell!r} is not a number")
    return float(cell)


def _is_exact(cell: str) -> bool:
    """Return whether a cell is not a whole number, or one that float64 can represent."""
    if not cell.lstrip("+-").isdecimal() or len(cell) > _DIGITS:
        return True
    return int(float(cell)) == int(cell)


def _numbers_or_words(column: HostArray) -> HostArray:
    """Return words as numbers if all are numbers and different words stay different in float64."""
    if not all(map(_is_exact, column.tolist())):
        return column
    try:
        return np.array([_number(cell) for cell in column.tolist()], np.float64)
    except ValueError:
        return column


def _of_words(cell: str) -> str:
    """Return advice for a column of words."""
    if not cell[:1].isalpha():
        return ""
    return "; only --by takes text; encode text inputs as columns of 0 and 1, as pandas.get_dummies does"


def _check_name(name: str, path: str) -> None:
    # Bytes that are not UTF-8 are surrogates (Cs) here.
    if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\r\n" for c in name):
        raise UsageError(
            f"{path} cannot be read as text: line 1 holds {name[:_QUOTED]!a}; a line of "
            "names in UTF-8 is needed"
        )


class _CountingFile(io.RawIOBase):
    """A file that reports how much of it has been read."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self._file = path.open("rb", buffering=0)
        size = path.stat().st_size / 1e6
        self._progress, self._name = progress, path.name
        self._sweep: Sweep = progress.sweep(f"reading {path.name}", max(round(size), 1), unit="MB")
        self._byte_count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer) or 0
        if not count:  # all bytes are read, but not yet converted
            self._progress.stage(f"parsing {self._name}")
            return 0
        self._byte_count += count
        self._sweep.advance(round(self._byte_count / 1e6))
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
