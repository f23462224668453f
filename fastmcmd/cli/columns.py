"""Columns of a file, read by name."""

from __future__ import annotations

import fnmatch
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.cached import cached_property
from fastmcmd._base.progress import Progress
from fastmcmd._base.tables import did_you_mean
from fastmcmd.cli.app import UsageError
from fastmcmd.errors import RowError

__all__ = ["Columns", "located"]

_ROWS = 1 << 16  # rows of a block


class Columns(ABC):
    """Named columns of one file.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        Names of its columns.
    """

    path: Path
    names: list[str]
    _stand_in: NDArray[np.intp] | None = None

    @cached_property
    def title(self) -> str:
        """Name of the file in messages."""
        return str(self.path)

    @cached_property
    def _loaded(self) -> dict[str, HostArray]:
        return {}

    @cached_property
    def places(self) -> dict[str, int]:
        """Position of each name; there may be hundreds of thousands."""
        return {name: place for place, name in reversed(list(enumerate(self.names)))}

    def prepare(  # noqa: B027 - formats that read columns one by one have nothing to prepare
        self, names: Sequence[str], words: Sequence[str], progress: Progress | None = None
    ) -> None:
        """Read columns of numbers and of words together, if that is faster than separately."""

    def labels(self, name: str) -> HostArray:
        """Return a column that may hold words."""
        return self.read([name])[0]

    @abstractmethod
    def read(self, names: Sequence[str]) -> list[HostArray]:
        """Return the arrays of some names, (n,) or (n, k)."""

    def values(self, names: Sequence[str]) -> list[HostArray]:
        """Return the result of `read`, reading each column only once."""
        new = [name for name in dict.fromkeys(names) if name not in self._loaded]
        if new:
            self._loaded |= dict(zip(new, self.read(new), strict=True))
        return [self._loaded[name] for name in names]

    def missing(self, names: Sequence[str]) -> NDArray[np.bool_] | None:
        """Return a mask of the rows (n,) that lack a number in at least one of some columns.

        Returns None if columns differ in length, for which `select` raises an error.
        """
        missing: NDArray[np.bool_] | None = None
        for part in self.values(names):
            if part.dtype.kind == "f" and part.ndim:
                lacking = _lacking(part)
                if missing is not None and len(missing) != len(lacking):
                    return None
                missing = lacking if missing is None else missing | lacking
        return missing

    def stand_in(self, lacking: NDArray[np.bool_]) -> None:
        """Replace each row in which a number is missing by a complete row, in all later reads."""
        self._stand_in = np.where(lacking, np.argmin(lacking), np.arange(len(lacking)))

    def place(self, row: int) -> str:
        """Return the position of a row, for messages."""
        return f"row {row}"

    def select(self, pattern: str, option: str) -> HostArray:
        """Return the columns of comma-separated names or patterns (``draw_*``).

        A single name returns its array unchanged, (n,) or (n, k); several return (n, k).
        """
        names = self.find(pattern, option)
        parts = self.values(names)
        if self._stand_in is not None:
            parts = [part[self._stand_in] for part in parts]
        rows = {part.shape[0] if part.ndim else None for part in parts}
        if rows <= {0, None}:
            lacking = "rows" if rows == {0} else f"rows in {pattern!r}, which is one number"
            raise UsageError(f"{option}: {self.title} has no {lacking}")
        if len(parts) == 1 and names == [pattern]:
            return parts[0]
        if len(rows) > 1:
            raise UsageError(
                f"{option}: columns of {self.title} have different numbers of rows: "
                f"{sorted(map(str, rows))}"
            )
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def find(self, pattern: str, option: str) -> list[str]:
        """Return the names that match comma-separated names or patterns, in that order."""
        if pattern in self.places:  # a name may hold a comma
            return [pattern]
        names: dict[str, None] = {}
        for part in pattern.split(","):
            part = part.strip()
            hits = [part] if part in self.places else self._matching(part)
            if not hits:
                raise UsageError(
                    f"{option}: {self.title} has no column {part!r}; "
                    f"{did_you_mean(part, self.names)}it has {self.listing()}"
                )
            names |= dict.fromkeys(hits)
        return list(names)

    def _matching(self, pattern: str) -> list[str]:
        if not any(sign in pattern for sign in "*?["):  # names differ in case on all systems
            return []
        return [name for name in self.names if fnmatch.fnmatchcase(name, pattern)]

    def check_names(self) -> None:
        """Raise an error if two names are equal."""
        doubled = [name for name, count in Counter(self.names).items() if count > 1]
        if doubled:
            raise UsageError(
                f"{self.title} has two columns named {min(doubled)!r}; names must differ: rename one"
            )

    def listing(self) -> str:
        """Return the names as text, or the first of them if there are many."""
        if not self.names:
            return "none"
        first_names = ", ".join(self.names[:20])
        return (
            first_names
            if len(self.names) <= 20
            else f"{first_names}, ... ({len(self.names)} in all)"
        )


def _lacking(part: HostArray) -> NDArray[np.bool_]:
    """Return a mask of the rows of (n,) or (n, k) that hold NaN."""
    table = part.reshape(len(part), -1)
    return np.concatenate(
        [np.isnan(table[at : at + _ROWS]).any(1) for at in range(0, max(len(table), 1), _ROWS)]
    )


@contextmanager
def located(columns: Columns, complete: bool = True) -> Iterator[None]:
    """Add the file and the line to errors of a row.

    Parameters
    ----------
    columns : Columns
        The file.
    complete : bool
        Whether rows are counted as in the file. If some were left out, errors stay as they are.
    """
    try:
        yield
    except RowError as error:
        if error.row is None or not complete:
            raise
        raise UsageError(f"{error}: {columns.title}, {columns.place(error.row)}") from None
