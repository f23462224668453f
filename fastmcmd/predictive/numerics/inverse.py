"""Bisection for the smallest numbers at which a condition holds, to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import row_blocks

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["by_halving", "least", "least_count"]

One = TypeVar("One", bound="Predictive")

_BLOCK = 1 << 16  # numbers bisected at once

_LARGEST = float(np.finfo(np.float64).max)
_INFINITY = int(np.float64(np.inf).view(np.int64))  # rank of infinity among the doubles


def by_halving(
    prediction: One, levels: Array, is_reached: Callable[[One, Array, Array], NDArray[np.bool_]]
) -> Array:
    """Return the smallest numbers (n, j) that have reached levels (n, j).

    ``is_reached(prediction, x, level)`` returns, for predictions, numbers and levels of the same rows,
    whether x has reached the level. Columns are processed in blocks to bound memory.
    """
    n, count = levels.shape
    out = np.empty((n, count))
    for columns in row_blocks(count, _BLOCK // max(1, n)):
        block = levels[:, columns]
        wide: object = prediction
        if block.shape[1] > 1:
            wide = prediction.take(np.repeat(np.arange(n), block.shape[1]))
        flat = np.ascontiguousarray(block).ravel()
        result = least(lambda x, wide=wide, flat=flat: is_reached(wide, x, flat), len(flat))  # type: ignore[misc]
        out[:, columns] = result.reshape(block.shape)
    return out


def least(is_reached: Callable[[Array], NDArray[np.bool_]], n: int) -> Array:
    """Return the smallest numbers (n,) at which a monotone condition holds: it also holds above them.

    Bisects the ranks of doubles instead of their values. 64 steps find the last digit at any scale, and the
    result is exact for distributions with atoms.
    """
    low, high = np.full(n, -_INFINITY), np.full(n, _INFINITY)
    with np.errstate(all="ignore"):  # sums may overflow far out, but cdfs are still 0 or 1 there
        for _ in range(64):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            holds = is_reached(_double(middle))
            low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return _double(high)


def least_count(
    is_reached: Callable[[Array, NDArray[np.intp]], NDArray[np.bool_]], start: Array
) -> Array:
    """Return the smallest counts (n,) at which a monotone condition holds; infinity if at none.

    ``is_reached(counts, rows)`` tells whether it holds at counts of some rows. Ever longer steps from
    ``start`` (n,) enclose the count, and halving finds it: few steps from a good start, about a hundred
    from any.
    """
    low, high = np.full(len(start), -1.0), np.full(len(start), np.inf)
    rows, length = np.arange(len(start)), 0.5
    counts = np.clip(np.floor(np.nan_to_num(start)), 0.0, _LARGEST)
    while len(rows):
        holds = is_reached(counts, rows)
        low[rows[~holds]], high[rows[holds]] = counts[~holds], counts[holds]
        rows = rows[np.maximum(low[rows] + 1, np.nextafter(low[rows], np.inf)) < high[rows]]
        below, above = low[rows], high[rows]
        length = min(2 * length * max(1.0, np.log2(length)), _LARGEST / 4)
        with np.errstate(over="ignore", invalid="ignore"):
            middle = below / 2 + above / 2
            apart = above > 4 * (below + 1)  # halve the logarithm
            middle = np.where(apart, np.sqrt(below + 1) * np.sqrt(above), middle)
        counts = np.where(below < 0, above - length, middle)
        counts = np.floor(np.where(np.isinf(above), below + length, counts))
        least = np.maximum(below + 1, np.nextafter(below, np.inf))
        most = np.where(np.isinf(above), _LARGEST, np.minimum(above - 1, np.nextafter(above, 0.0)))
        counts = np.clip(counts, least, most)
    return high


def _double(rank: NDArray[np.int64]) -> Array:
    """Return doubles by rank: rank 0 is 0.0, ranks -1 and 1 are the next doubles, and so on."""
    bits = np.where(rank >= 0, rank, np.iinfo(np.int64).min - rank)
    return bits.view(np.float64)
