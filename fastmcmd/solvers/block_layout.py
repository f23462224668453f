"""Layout of the out-of-core Cholesky factor: block columns, groups of them, and their memory.

Block column s holds the columns ``[s0, s1)`` of the rows ``s0..n``, row by row. Block columns follow each
other in the file, n^2 / 2 numbers in all. A group is as many neighbouring block columns as memory holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastmcmd._base.annotations import DType
from fastmcmd._base.memory import format_bytes
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import GramOperator

__all__ = ["BlockColumn", "BlockLayout", "choose_layout", "least_memory", "whole_factor_fits"]

_WIDTHS = (
    512,
    256,
    128,
    64,
)  # of block columns; BLAS reaches its full rate from 256, narrower ones only save memory
_ROWS = 4096  # rows of a block: with 512 columns 2 GFLOP, some ten milliseconds
_GRAM_WORK = 4e9  # operations of one call for a block of K


@dataclass(frozen=True)
class BlockColumn:
    """Columns ``[start, stop)`` of rows ``start..n`` of the factor; ``offset`` is in numbers, not bytes."""

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
        """Number of matrix entries."""
        return self.rows * self.width


@dataclass(frozen=True)
class BlockLayout:
    """Width of block columns and rows of a block, for an (n, n) factor of ``itemsize`` bytes a number."""

    n: int
    dim: int
    itemsize: int
    width: int
    rows: int

    @property
    def gram_rows(self) -> int:
        """Rows of a block of K: no more bytes than a block of the factor, and little work at once."""
        fits = self.rows * self.width * self.itemsize // (16 * self.dim)
        return max(1, min(self.rows, fits, int(_GRAM_WORK / (2 * self.width * self.dim))))

    def columns(self) -> list[BlockColumn]:
        """Return the block columns of the factor."""
        columns, offset = [], 0
        for start in range(0, self.n, self.width):
            stop = min(self.n, start + self.width)
            columns.append(BlockColumn(start, stop, self.n - start, offset))
            offset += columns[-1].size
        return columns

    def bytes_of(self, group: list[BlockColumn]) -> int:
        """Return the bytes in use while a group is computed."""
        # The rows of an earlier block column that match the group's columns; the first group has none.
        columns = group[-1].stop - group[0].start if group[0].start else self.width
        numbers = sum(column.size for column in group)
        numbers += (columns + self.rows + self.gram_rows) * self.width
        # Rows prepared for the backend, with a float64 copy of them during the conversion.
        prepared_bytes = (self.gram_rows + self.width) * self.dim * (self.itemsize + 8)
        return numbers * self.itemsize + prepared_bytes

    def groups(self, budget: int) -> list[list[BlockColumn]]:
        """Return groups within ``budget``; later block columns are shorter, so later groups hold more."""
        groups: list[list[BlockColumn]] = []
        for column in self.columns():
            if groups and self.bytes_of([*groups[-1], column]) <= budget:
                groups[-1].append(column)
            else:
                groups.append([column])
        return groups

    def blocks(self, start: int, stop: int, step: int | None = None) -> Iterator[slice]:
        """Yield the rows ``[start, stop)`` in blocks."""
        step = step or self.rows
        for first in range(start, stop, step):
            yield slice(first, min(stop, first + step))


def _least(operator: GramOperator, dtype: DType | None = None) -> BlockLayout:
    width = min(_WIDTHS[-1], len(operator))
    dtype = dtype or operator.dtype
    return BlockLayout(len(operator), operator.dim, dtype.itemsize, width, width)


def least_memory(operator: GramOperator, dtype: DType | None = None) -> int:
    """Return the bytes that factoring K + D in the narrowest groups needs; in ``dtype`` if given."""
    layout = _least(operator, dtype)
    return layout.bytes_of(layout.columns()[:1])


def _block_rows(width: int) -> Iterator[int]:
    rows = _ROWS
    while rows > width:
        yield rows
        rows //= 2
    yield width  # the minimum: the square on the diagonal is read as one block


def choose_layout(operator: GramOperator, budget: int) -> BlockLayout:
    """Return the layout within ``budget`` that has the widest block columns, then the longest blocks.

    Raises
    ------
    MemoryLimitError
        ``budget`` is less than `least_memory`.
    """
    least = _least(operator)
    for width in (min(width, least.n) for width in _WIDTHS):
        for rows in _block_rows(width):
            layout = BlockLayout(least.n, least.dim, least.itemsize, width, rows)
            # Blocks are only staging buffers: the group gets seven eighths of the budget, if possible.
            small = rows == width or 8 * rows * width * layout.itemsize <= budget
            if small and layout.bytes_of(layout.columns()[:1]) <= budget:
                return layout
    raise MemoryLimitError(
        f"solver='cholesky' with cache_dir needs {format_bytes(least_memory(operator))} for block columns "
        f"of the factor of {least.n:,} distinct inputs, and memory_limit leaves {format_bytes(budget)}; "
        "raise memory_limit or use solver='cg'"
    )


def whole_factor_fits(operator: GramOperator, budget: int) -> bool:
    """Tell whether one group of block columns holds the whole factor."""
    return (
        budget >= least_memory(operator)
        and len(choose_layout(operator, budget).groups(budget)) == 1
    )
