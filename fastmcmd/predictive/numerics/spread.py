"""Standard deviations without overflow of squares, and shared supports on consecutive numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fastmcmd import _core
from fastmcmd._base.annotations import AnyArray, Array, HostArray, Nodes
from fastmcmd._base.arrays import Namespace
from fastmcmd._base.blocks import over_rows

__all__ = [
    "EXACT_SQUARES", "MOST_VALUES", "central_sums", "root", "root_of_squares", "row_scale",
    "shared_support", "unit_of",
]  # fmt: skip

_SUMMED = 1 << 18  # draws of a task: a thread starts for no fewer
EXACT_SQUARES = (1e-280, 1e290)  # range in which sums of squares have all their digits


def root_of_squares(weights: Array, gaps: Array, axis: int = -1) -> Array:
    """Return ``sqrt(sum w g^2)`` over an axis, scaling gaps by the largest to avoid overflow."""
    largest = np.abs(gaps).max(axis=axis, keepdims=True, initial=0.0)
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    total = (weights * (gaps / unit) ** 2).sum(axis=axis)
    return np.asarray(np.squeeze(unit, axis) * np.sqrt(total))


def row_scale(*values: Array) -> Array:
    """Return powers of two (n,) next to the largest value of each row of arrays (n, ...); 1 for rows of 0.

    Values divided by them keep all their digits, and their squares neither overflow nor vanish.
    """
    largest = np.max([np.abs(one).reshape(len(one), -1).max(axis=1) for one in values], axis=0)
    return np.where(largest > 0, np.ldexp(1.0, np.frexp(largest)[1] - 1), 1.0)


def central_sums(draws: HostArray) -> tuple[Array, Array, Array, Array]:
    """Return units (n,) of draws (n, m), and in units their means and central sums of squares and cubes.

    The units are 1, or for very large or small draws powers of two next to the largest. Draws that are all
    equal have sums of 0.
    """
    sums = np.empty((len(draws), 4))

    def work(rows: slice) -> None:
        _core.central_sums(draws[rows].astype(np.float64, copy=False), sums[rows])

    over_rows(work, len(draws), max(1, _SUMMED // draws.shape[1]))
    unit, mean, square, cube = sums.T
    return unit, mean, square, cube


def unit_of(namespace: Namespace, values: AnyArray) -> float:
    """Return the power of two next to the largest size of values; 1 if that is 0 or infinite."""
    largest = float(namespace.xp.max(namespace.xp.abs(values)))
    if not 0 < largest < math.inf:
        return 1.0
    return math.ldexp(1.0, min(max(math.frexp(largest)[1] - 1, -1021), 1021))


def root(variance: Array, exact: Callable[[np.ndarray], Array]) -> Array:
    """Return square roots of variances (n, ...), from ``exact(rows)`` where a square lost its digits."""
    std = np.sqrt(variance)
    least, most = EXACT_SQUARES
    is_inexact = ~((variance > least) & (variance < most))
    rows = np.flatnonzero(is_inexact.reshape(len(is_inexact), -1).any(axis=1))
    if len(rows):
        std[rows] = exact(rows)
    return std


MOST_VALUES = 1 << 20  # most values of one row
_MOST_STRETCH = 4  # largest ratio of the length of a shared support to that of one row


def shared_support(first: Array, count: int, masses: Callable[[Array, int], Array]) -> Nodes | None:
    """Return values (L,) that all rows share and their probabilities (n, L), or None.

    Parameters
    ----------
    first : ndarray (n,)
        The first value of each row.
    count : int
        Number of consecutive values that hold the mass of a row.
    masses : callable (first, count) to (n, count)
        Returns probabilities of ``count`` values from ``first`` on, which sum to 1.

    Notes
    -----
    The result is None if rows lie too far apart, or if the values of two rows do not differ by whole
    numbers.
    """
    start = first.min()
    offset = first - start
    total = float(offset.max()) + count
    if total > _MOST_STRETCH * count or (offset % 1).any():
        return None
    values = start + np.arange(int(total), dtype=np.float64)
    row_masses = masses(first, count)
    if not offset.any():
        return values, row_masses
    common_masses = np.zeros((len(first), len(values)))
    where = offset.astype(np.intp)[:, None] + np.arange(count)
    np.put_along_axis(common_masses, where, row_masses, axis=1)
    return values, common_masses
