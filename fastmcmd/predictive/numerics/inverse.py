"""Bisection for the smallest numbers at which a condition holds, to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import row_blocks

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["by_halving", "least"]

One = TypeVar("One", bound="Predictive")

_BLOCK = 1 << 16  # numbers bisected at once

_INFINITY = int(np.float64(np.inf).view(np.int64))  # rank of infinity among the doubles


def by_halving(
    prediction: One, levels: Array, reached: Callable[[One, Array, Array], NDArray[np.bool_]]
) -> Array:
    """Return the smallest numbers (n, j) that have reached levels (n, j).

    ``reached(prediction, x, level)`` returns, for predictions, numbers and levels of the same rows, whether
    x has reached the level. Columns are processed in blocks to bound memory.
    """
    n, count = levels.shape
    out = np.empty((n, count))
    for columns in row_blocks(count, _BLOCK // max(1, n)):
        own = levels[:, columns]
        wide: Any = prediction
        if own.shape[1] > 1:
            wide = prediction.take(np.repeat(np.arange(n), own.shape[1]))
        flat = np.ascontiguousarray(own).ravel()
        result = least(lambda x, wide=wide, flat=flat: reached(wide, x, flat), len(flat))  # type: ignore[misc]
        out[:, columns] = result.reshape(own.shape)
    return out


def least(reached: Callable[[Array], NDArray[np.bool_]], n: int) -> Array:
    """Return the smallest numbers (n,) at which a monotone condition holds: it also holds above them.

    Bisects the ranks of doubles instead of their values. 64 steps find the last digit at any scale, and the
    result is exact for distributions with atoms.
    """
    low, high = np.full(n, -_INFINITY), np.full(n, _INFINITY)
    with np.errstate(all="ignore"):  # sums may overflow far out, but cdfs are still 0 or 1 there
        for _ in range(64):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            holds = reached(_double(middle))
            low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return _double(high)


def _double(rank: NDArray[np.int64]) -> Array:
    """Return doubles by rank: rank 0 is 0.0, ranks -1 and 1 are the next doubles, and so on."""
    bits = np.where(rank >= 0, rank, np.iinfo(np.int64).min - rank)
    return bits.view(np.float64)
