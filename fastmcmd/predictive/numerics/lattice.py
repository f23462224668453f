"""Distributions over consecutive whole numbers: when rows share their support."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastmcmd._base.annotations import Array, Nodes

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

    Notes
    -----
    None also where values of two rows are not whole numbers apart.
    """
    start = first.min()
    offset = first - start
    total = float(offset.max()) + count
    if total > _SHARED * count or (offset % 1).any():
        return None
    values = start + np.arange(int(total), dtype=np.float64)
    own = masses(first, count)
    if not offset.any():
        return values, own
    shared = np.zeros((len(first), len(values)))
    where = offset.astype(np.intp)[:, None] + np.arange(count)
    np.put_along_axis(shared, where, own, axis=1)
    return values, shared
