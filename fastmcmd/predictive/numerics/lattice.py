"""Distributions over consecutive whole numbers: when rows share their support."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastmcmd.predictive.base import Array, Nodes

__all__ = ["MOST_VALUES", "shared_support"]

MOST_VALUES = 1 << 20  # of one row
_SHARED = 4  # support of all rows, in supports of one, up to which rows share it


def shared_support(first: Array, count: int, masses: Callable[[Array, int], Array]) -> Nodes | None:
    """Return values (L,) and their probabilities (n, L), or None where rows lie too far apart.

    Parameters
    ----------
    first : ndarray (n,)
        The first value of each row.
    count : int
        How many consecutive values hold the mass of a row.
    masses : callable (first, count) to (n, count)
        Probabilities of ``count`` values from ``first`` on, which sum to 1.
    """
    start = first.min()
    total = int((first - start).max()) + count
    if total > _SHARED * count:
        return None
    return start + np.arange(total, dtype=np.float64), masses(np.full(len(first), start), total)
