"""How a Cholesky factor is cut where it is made in panels: strips, panels, and what they take.

The factor is stored as strips: strip s holds the columns ``[s0, s1)`` of its rows ``s0..n``, row by row,
one strip after the other, n^2 / 2 numbers in all. A panel is as many neighbouring strips as memory
holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import GramOperator
from fastmcmd.memory import format_bytes

__all__ = ["Cut", "Strip", "choose", "file_bytes", "least_room", "strips_of"]

_WIDTHS = (512, 256, 128, 64)  # of strips; BLAS is at its rate from 256, less only for lack of room
_ROWS = 4096  # of a block: with 512 columns 2 GFLOP, some ten milliseconds
_GRAM_WORK = 4e9  # operations of one call for a block of K


@dataclass(frozen=True)
class Strip:
    """Columns ``[start, stop)`` of rows ``start..n`` of the factor; ``offset`` counts numbers."""

    start: int
    stop: int
    rows: int
    offset: int

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.stop - self.start

    @property
    def size(self) -> int:
        """Number of numbers."""
        return self.rows * self.width


def strips_of(n: int, width: int) -> list[Strip]:
    """Return the strips of an n x n factor."""
    strips, offset = [], 0
    for start in range(0, n, width):
        strips.append(Strip(start, min(n, start + width), n - start, offset))
        offset += strips[-1].size
    return strips


@dataclass(frozen=True)
class Cut:
    """Widths of strips and lengths of blocks; sizes in numbers of ``itemsize`` bytes."""

    n: int
    dim: int
    itemsize: int
    width: int
    rows: int

    @property
    def gram_rows(self) -> int:
        """Rows of a block of K: no more bytes than a block of the factor, and soon done."""
        fits = self.rows * self.width * self.itemsize // (16 * self.dim)
        return max(1, min(self.rows, fits, int(_GRAM_WORK / (2 * self.width * self.dim))))

    def bytes_of(self, panel: list[Strip]) -> int:
        """Return the bytes held while a panel is made."""
        # Rows of an earlier strip that stand beside the panel's columns; the first panel has none.
        columns = panel[-1].stop - panel[0].start if panel[0].start else self.width
        numbers = sum(strip.size for strip in panel)
        numbers += (columns + self.rows + self.gram_rows) * self.width
        # Rows prepared for the backend, and once more in float64 while they are moved.
        prepared = (self.gram_rows + self.width) * self.dim * (self.itemsize + 8)
        return numbers * self.itemsize + prepared

    def panels(self, room: int) -> list[list[Strip]]:
        """Return the strips in panels that fit; later ones hold more columns, their rows are fewer."""
        panels: list[list[Strip]] = []
        for strip in strips_of(self.n, self.width):
            if panels and self.bytes_of([*panels[-1], strip]) <= room:
                panels[-1].append(strip)
            else:
                panels.append([strip])
        return panels

    def blocks(self, start: int, stop: int, step: int | None = None) -> Iterator[slice]:
        """Yield the rows ``[start, stop)`` in blocks."""
        step = step or self.rows
        for first in range(start, stop, step):
            yield slice(first, min(stop, first + step))


def _least(operator: GramOperator) -> Cut:
    width = min(_WIDTHS[-1], len(operator))
    return Cut(len(operator), operator.dim, operator.dtype.itemsize, width, width)


def least_room(operator: GramOperator) -> int:
    """Return the bytes of the narrowest panels with which K + D can be factored."""
    cut = _least(operator)
    return cut.bytes_of(strips_of(cut.n, cut.width)[:1])


def _block_rows(width: int) -> Iterator[int]:
    rows = _ROWS
    while rows > width:
        yield rows
        rows //= 2
    yield width  # the least: the square on the diagonal is read as one block


def choose(operator: GramOperator, room: int) -> Cut:
    """Return the cut of widest strips, then of longest blocks, that fits.

    Raises
    ------
    MemoryLimitError
        ``room`` is less than `least_room`.
    """
    least = _least(operator)
    for width in (min(width, least.n) for width in _WIDTHS):
        for rows in _block_rows(width):
            cut = Cut(least.n, least.dim, least.itemsize, width, rows)
            # Blocks only stage: seven eighths are for the panel, or as much as can be had.
            small = rows == width or 8 * rows * width * cut.itemsize <= room
            if small and cut.bytes_of(strips_of(cut.n, width)[:1]) <= room:
                return cut
    raise MemoryLimitError(
        f"solver='cholesky' with cache_dir needs {format_bytes(least_room(operator))} for panels of "
        f"the factor of {least.n:,} distinct inputs, and memory_limit leaves {format_bytes(room)}; "
        "raise memory_limit or use solver='cg'"
    )


def file_bytes(operator: GramOperator) -> int:
    """Return the most bytes that the numbers of the factor can take in a file."""
    width = min(_WIDTHS[0], len(operator))
    return sum(strip.size for strip in strips_of(len(operator), width)) * operator.dtype.itemsize
