"""Statistics of all rows, each computed once a call: k(x, x), the mean, the largest norm.

Several parts of a call need the same statistics of the same rows: the scale of the tolerance, operators in
float32 and float64, certificates. Within `shared_row_statistics` the statistics are cached with their rows,
as long as these exist.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import all_finite
from fastmcmd.backends.base import Backend
from fastmcmd.backends.tall_skinny import squares_and_largest
from fastmcmd.errors import NumericalError
from fastmcmd.kernels import Kernel
from fastmcmd.rows import Rows, as_blocks

__all__ = [
    "check_finite", "check_sizes", "diagonal_of", "exact_offset_of", "is_exact", "largest_diagonal",
    "largest_norm2", "offset_of", "rows_are_finite", "shared_row_statistics", "squared_norms",
]  # fmt: skip

Floats = NDArray[np.float64]
Statistic = TypeVar("Statistic")

_MANY_COLUMNS = 16  # from which on squared norms take no longer than a search for NaN
_FAR = 16.0  # spreads from 0, beyond which float32 would lose four more bits than of centred rows
_GLANCE = 64  # rows that show whether a pass over all rows may find them far from 0
_PIECE = 1 << 17  # elements of a thread's piece: 1 MB in float64, which stays in its cache


@dataclass(eq=False)
class _RowStatistics:
    """The known statistics of some rows."""

    diagonals: list[tuple[Kernel, Floats]] = field(default_factory=list)
    mean: Floats | None = None
    exact_offset: tuple[Floats | None] | None = None  # in a tuple once it is known
    # By offset: the squared norms, unless they are too many to stay, and the largest.
    norms: list[tuple[Floats | None, Floats | None, float]] = field(default_factory=list)


_Statistics = dict[int, tuple[Any, _RowStatistics]]
_STATISTICS: ContextVar[_Statistics | None] = ContextVar("_STATISTICS", default=None)


def shared_row_statistics() -> AbstractContextManager[None]:
    """Cache statistics until the end of the outermost block; rows must not change within it."""
    return _Sharing() if _STATISTICS.get() is None else nullcontext()


class _Sharing:
    """The outermost block. As a generator, it would take six calls instead of two."""

    def __enter__(self) -> None:
        self._before = _STATISTICS.set({})

    def __exit__(self, *_: object) -> None:
        _STATISTICS.reset(self._before)


def diagonal_of(kernel: Kernel, x: HostArray | Rows) -> Floats:
    """Return k(x_i, x_i) (n,) in float64 for rows in memory, on disk or on a device."""
    if kernel.translation_invariant:  # k(0, 0) everywhere
        return np.full(len(x), kernel.at_zero)
    statistics = _of(x)
    for stored_kernel, diagonal in statistics.diagonals:
        if stored_kernel is kernel:
            return diagonal
    if kernel.compiled:
        out = kernel.of_squares(squared_norms(x, None))
    else:  # a user's function, which may not be thread-safe
        out = np.empty(len(x))
        for rows, block in as_blocks(x):
            out[rows] = kernel.diagonal(block)
    out.flags.writeable = False  # it is shared
    statistics.diagonals.append((kernel, out))
    return out


def largest_diagonal(kernel: Kernel, x: HostArray | Rows) -> float:
    """Return the largest k(x_i, x_i)."""
    if kernel.translation_invariant:
        return kernel.at_zero
    with np.errstate(over="ignore", invalid="ignore"):
        return float(diagonal_of(kernel, x).max())


def check_finite(kernel: Kernel, largest: float, norm2: float = 0.0, name: str = "x") -> None:
    """Raise NumericalError if the largest ``k(x, x)``, or squared norm that the kernel needs, overflows.

    ``name`` is the caller's name for the rows.
    """
    if not math.isfinite(largest) or (kernel.compiled and not math.isfinite(norm2)):
        raise NumericalError(
            f"{name} is too large for x_kernel {kernel!r}: its values, or squares of {name}, overflow "
            f"(k(x, x) is up to {largest:.1e}); scale the columns of {name}, say to zero mean and unit "
            "variance"
        )


def check_sizes(kernel: Kernel, **arrays: HostArray | Rows) -> None:
    """Raise NumericalError if ``k(x, x)`` overflows in one of the arrays; the message names the array."""
    if kernel.translation_invariant:  # the same for all rows
        check_finite(kernel, kernel.at_zero, name=next(iter(arrays)))
        return
    checked_arrays: list[object] = []
    for name, rows in arrays.items():
        if isinstance(rows, np.ndarray) and not any(rows is one for one in checked_arrays):
            checked_arrays.append(rows)
            check_finite(kernel, largest_diagonal(kernel, rows), name=name)


def offset_of(kernel: Kernel, backend: Backend, x: HostArray | Rows) -> Floats | None:
    """Return the mean (d,) of the rows if tiles are computed from centred rows, else None.

    Centred rows lose fewer digits in ``|x|^2 + |z|^2 - 2 x.z``. But a kernel of ``x.z`` would change, and a
    kernel that compares rows would treat rows as equal that rounding makes equal.
    """
    if not kernel.translation_invariant or kernel.compares_rows:
        return None
    if backend.direct_distances(x.shape[1], kernel):
        return None
    statistics = _of(x)
    if statistics.mean is None:
        parts = _over(x, lambda some: some.sum(axis=0, dtype=np.float64))
        # In the order of the rows: the same bits for any number of threads.
        statistics.mean = np.asarray(sum(parts) / len(x))
        statistics.mean.flags.writeable = False
    return statistics.mean


def exact_offset_of(kernel: Kernel, backend: Backend, x: HostArray | Rows) -> Floats | None:
    """Return an offset (d,) for rows in memory whose distances are computed from differences, else None.

    There is one if the rows lie farther from 0 than 16 times their spread, where float32 would lose the
    differences, and if ``x_i - offset`` is exact in float64 for each row. The offset is their mean, rounded
    to a multiple of a power of two near the spread.
    """
    if not kernel.translation_invariant or kernel.compares_rows or isinstance(x, Rows):
        return None
    if not isinstance(x, np.ndarray) or not backend.direct_distances(x.shape[1], kernel):
        return None
    some = x[:: max(1, len(x) // _GLANCE)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = some.mean(axis=0, dtype=np.float64)
        variance = float(np.square(some - mean).sum()) / len(some)
    if not _lie_far(mean, variance):
        return None
    statistics = _of(x)
    if statistics.exact_offset is None:
        offset = _rounded_mean(x)
        statistics.exact_offset = (offset if offset is not None and is_exact(x, offset) else None,)
    return statistics.exact_offset[0]


def _lie_far(mean: Floats, variance: float) -> bool:
    """Tell whether rows of a mean (d,) and a variance, summed over columns, lie far from 0."""
    return 0 < _FAR * math.sqrt(variance) < math.hypot(*mean.tolist()) < math.inf


def _rounded_mean(x: HostArray) -> Floats | None:
    """Return the mean (d,) of rows far from 0, rounded to a few bits; None if they are not far."""
    with np.errstate(over="ignore", invalid="ignore"):
        # In the order of the rows: the same bits for any number of threads.
        mean = np.asarray(sum(_over(x, lambda some: some.sum(axis=0, dtype=np.float64))) / len(x))
        squares = sum(_over(x, lambda some: float(np.square(some - mean).sum())))
    variance = squares / len(x)
    if not _lie_far(mean, variance):
        return None
    step = 2.0 ** math.floor(math.log2(variance) / 2)
    offset = np.asarray(np.rint(mean / step) * step)
    offset.flags.writeable = False  # it is shared
    return offset if np.isfinite(offset).all() else None


def is_exact(x: HostArray | Rows, offset: Floats) -> bool:
    """Tell whether ``x_i - offset`` is exact in float64 for each row."""

    def work(some: HostArray) -> bool:
        rows = some.astype(np.float64, copy=False)
        difference = rows - offset
        # The rounding error of a difference, which is itself exact (Knuth's TwoSum).
        back = difference + offset
        return bool((rows - back == offset + (difference - back)).all())

    return all(_over(x, work))


def largest_norm2(x: HostArray | Rows, offset: Floats | None) -> float:
    """Return the largest ``|x_i - offset|^2``, summed in float64."""
    statistics = _of(x)
    for stored_offset, _, largest in statistics.norms:
        if stored_offset is offset:
            return largest
    if not isinstance(x, Rows):
        return _norms(x, offset, statistics)[1]
    # Rows on disk may be too many for an array of their norms.
    largest = float(np.max([squares_and_largest(block, offset)[1] for _, block in _blocks(x)]))
    statistics.norms.append((offset, None, largest))
    return largest


def squared_norms(x: HostArray | Rows, offset: Floats | None) -> Floats:
    """Return ``|x_i - offset|^2`` (n,), summed in float64."""
    statistics = _of(x)
    for stored_offset, squares, _ in statistics.norms:
        if stored_offset is offset and squares is not None:
            return squares
    return _norms(x, offset, statistics)[0]


def _norms(
    x: HostArray | Rows, offset: Floats | None, statistics: _RowStatistics
) -> tuple[Floats, float]:
    """Return ``|x_i - offset|^2`` (n,) and the largest of them, and add both to the statistics."""
    if isinstance(x, Rows):
        squares = np.concatenate([squares_and_largest(block, offset)[0] for _, block in _blocks(x)])
        largest = float(squares.max())
    else:
        squares, largest = squares_and_largest(x, offset)
    squares.flags.writeable = False  # it is shared
    statistics.norms.append((offset, squares, largest))
    return squares, largest


def rows_are_finite(x: HostArray) -> bool:
    """Tell whether an array (n, d) holds neither NaN nor infinity, by a pass that `squared_norms` shares.

    A sum of squares of float32 is finite in float64 if and only if they are. It may overflow in float64,
    and for rows of few columns it takes longer than the comparison.
    """
    if _STATISTICS.get() is None or x.dtype != np.float32 or x.shape[1] < _MANY_COLUMNS:
        return all_finite(x)
    return math.isfinite(largest_norm2(x, None)) if x.flags.c_contiguous else all_finite(x)


def _blocks(x: HostArray | Rows) -> Iterator[tuple[slice, HostArray]]:
    """Return the blocks of a pass over the rows; rows in memory are one block, so threads start once."""
    return as_blocks(x, None if isinstance(x, Rows) else len(x))


def _of(x: HostArray | Rows) -> _RowStatistics:
    """Return the statistics of these very rows, not of earlier rows at the same address."""
    by_id = _STATISTICS.get()
    if by_id is None:
        return _RowStatistics()
    if id(x) not in by_id or by_id[id(x)][0]() is not x:
        by_id[id(x)] = weakref.ref(x), _RowStatistics()
    return by_id[id(x)][1]


def _over(x: HostArray | Rows, work: Callable[[HostArray], Statistic]) -> list[Statistic]:
    """Return the results of ``work`` for pieces of all rows, in the order of the rows, on all threads."""
    statistics: list[Statistic] = []
    for _, block in _blocks(x):

        def piece(rows: slice, block: HostArray = block) -> Statistic:
            return work(block[rows])

        statistics += over_rows(piece, len(block), _PIECE // int(x.shape[1]))
    return statistics
