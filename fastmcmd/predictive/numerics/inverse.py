"""The least numbers at which a condition on a distribution holds, to the last digit."""

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

_BLOCK = 1 << 16  # rows and columns that are halved together

_INFINITY = int(np.float64(np.inf).view(np.int64))  # as the rank of a double among all of them


def by_halving(
    prediction: One, levels: Array, reached: Callable[[One, Array, Array], NDArray[np.bool_]]
) -> Array:
    """Return the least numbers (n, j) that have reached levels (n, j), columns together as memory allows.

    ``reached`` tells, of predictions, numbers and levels of the same rows, where that is so.
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
    """Return the least numbers (n,) at which a condition holds, which then holds above them, too.

    Halving over the ranks of doubles instead of their values: 64 steps to the last digit, whatever the
    scale, and exact for distributions with atoms.
    """
    low, high = np.full(n, -_INFINITY), np.full(n, _INFINITY)
    with np.errstate(all="ignore"):  # far out, where sums overflow, cdfs are 0 or 1 all the same
        for _ in range(64):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            holds = reached(_double(middle))
            low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return _double(high)


def _double(rank: NDArray[np.int64]) -> Array:
    """Return doubles by rank: 0 is 0, -1 and 1 the smallest other ones, and so on."""
    bits = np.where(rank >= 0, rank, np.iinfo(np.int64).min - rank)
    return bits.view(np.float64)
