"""Functions of rows, in blocks on threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows

__all__ = ["by_rows"]

_STEP = 1 << 14  # values a block: temporaries of 128 kB stay in the cache, and a thread has work


def by_rows(function: Callable[..., Array], *arrays: Array) -> Array:
    """Return an elementwise ``function`` of arrays, in blocks of rows.

    Parameters
    ----------
    function : callable
        Returns values of the shape of its arguments. Division by zero and overflow do not warn: formulas
        have their limits there.
    *arrays : ndarray
        The first one, or those after it, have the shape of the result; all broadcast.
    """
    arrays = tuple(np.broadcast_arrays(*arrays))
    shape = arrays[0].shape
    out = np.empty(shape)
    if out.size == 0:
        return out

    def work(rows: slice) -> None:
        with np.errstate(all="ignore"):
            out[rows] = function(*(array[rows] for array in arrays))

    over_rows(work, shape[0], _STEP * shape[0] // out.size)
    return out
