"""Tables as text and HTML."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from html import escape
from typing import TYPE_CHECKING, Generic, TypeVar

from fastmcmd.errors import require

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ByName",
    "ColumnTable",
    "Notebook",
    "aligned",
    "as_html",
    "columns_as_text",
    "data_frame",
    "did_you_mean",
    "printable",
]

Value = TypeVar("Value")

_UNSEEN = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of pairs, line ends
_TURNING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return text with control characters and invisible characters escaped, so that it is safe to print.

    Parameters
    ----------
    text : str
        Any text.
    lines : bool
        Whether to keep line ends and tabs.

    Examples
    --------
    >>> printable("north\x1b[2J")
    'north\\x1b[2J'
    """
    preserved = "\n\t" if lines else ""
    if text.isprintable():
        return text
    return "".join(
        ascii(c)[1:-1]
        if c not in preserved and (c in _TURNING or unicodedata.category(c) in _UNSEEN)
        else c
        for c in text
    )


def did_you_mean(name: object, candidates: Iterable[str]) -> str:
    """Return a question that suggests the most similar known name, or "".

    Examples
    --------
    >>> did_you_mean("Poison", ["poisson", "gamma"])
    "did you mean 'poisson'? "
    """
    names = {one.lower(): one for one in candidates}
    near = get_close_matches(str(name).lower(), names, n=1)
    return f"did you mean {names[near[0]]!r}? " if near else ""


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Return rows of text as a table; columns in ``left`` are left-aligned, the others right-aligned."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for index, row in enumerate(rows):
        cells = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if index == 0:
            lines.append("-" * len(lines[0]))
    return "\n".join(lines)


def as_html(paragraphs: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return paragraphs and a table as HTML; the first column is text, the others are numbers.

    Examples
    --------
    >>> as_html(["a < b"], [["", "value"], ["CRPS", "0.5"]]).count("<tr>")
    2
    """

    def cells(row: Sequence[str], tag: str) -> str:
        first, *further_cells = (escape(printable(cell)) for cell in row)
        text = "".join(f"<{tag}>{cell}</{tag}>" for cell in further_cells)
        return f'<tr><{tag} style="text-align:left">{first}</{tag}>{text}</tr>'

    above = "".join(f"<p>{escape(printable(one))}</p>" for one in paragraphs if one)
    head, *body = rows
    lines = "".join(cells(row, "td") for row in body)
    return f"{above}<table><thead>{cells(head, 'th')}</thead><tbody>{lines}</tbody></table>"


class ByName(ABC, Generic[Value]):
    """A result that is read like a dictionary: by the names in ``keys()``."""

    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """Return the names."""

    @abstractmethod
    def __getitem__(self, name: str) -> Value: ...

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def get(self, name: str, default: Value | None = None) -> Value | None:
        """Return the entry of a name, or ``default`` if there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def values(self) -> tuple[Value, ...]:
        """Return the entries, in the order of ``keys()``."""
        return tuple(self[name] for name in self.keys())

    def items(self) -> tuple[tuple[str, Value], ...]:
        """Return pairs of a name and its entry."""
        return tuple(zip(self.keys(), self.values(), strict=True))


class Notebook:
    """A result whose text, its ``repr``, is also its view in notebooks: a sentence, then aligned lines."""

    def _repr_html_(self) -> str:
        sentence, _, lines = repr(self).partition("\n")
        if lines.startswith("---"):  # a table alone
            return f"<pre>{escape(sentence)}\n{escape(lines)}</pre>"
        below = f"<pre>{escape(lines)}</pre>" if lines else ""
        return f"<p>{escape(sentence)}</p>{below}"


def columns_as_text(columns: Mapping[str, Sequence[object]]) -> str:
    """Return named columns as text: words left-aligned, numbers with four digits right-aligned."""
    rows = [list(columns)]
    for row in zip(*columns.values(), strict=True):
        rows.append([f"{value:.4g}" if isinstance(value, float) else str(value) for value in row])
    words = [place for place, one in enumerate(columns.values()) if isinstance(one[0], str)]
    return aligned(rows, words)


def data_frame(data: object, **options: object) -> pd.DataFrame:
    """Return ``pandas.DataFrame(data, **options)``; raise MissingDependencyError without pandas."""
    advice = "pip install 'fastmcmd[frame]'; to_dict() and table() do without"
    return require("pandas", f"to_frame needs pandas: {advice}").DataFrame(data, **options)


class ColumnTable(Notebook, ABC):
    """A result whose numbers form columns of equal length."""

    @abstractmethod
    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns as lists, by name."""

    def to_frame(self) -> pd.DataFrame:
        """Return the columns as a pandas data frame."""
        return data_frame(self.to_dict())

    def table(self) -> str:
        """Return the columns as text, one line per row."""
        return columns_as_text(self.to_dict())
