"""Elementwise functions, computed in row blocks on threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows, row_blocks

__all__ = ["SLOW_STEP", "by_rows"]

_STEP = 1 << 14  # values per block: temporaries of 128 kB stay in the cache, and a thread has work
SLOW_STEP = 1 << 11  # the same for special functions that take more than 100 ns
_LIGHT_TASK = 8  # blocks of a light formula that cost more than starting a thread


def by_rows(
    function: Callable[..., Array], *arrays: Array, step: int = _STEP, light: bool = False
) -> Array:
    """Return an elementwise ``function`` of arrays, computed in blocks of rows.

    Parameters
    ----------
    function : callable
        Returns values in the shape of its arguments. Division by zero and overflow raise no warnings:
        formulas take their limits there.
    *arrays : ndarray
        Arrays that broadcast to the shape of the result. Either the first or the others have that shape.
    step : int
        Values per block.
    light : bool
        Whether a value takes only some nanoseconds: then a thread computes several blocks.
    """
    arrays = tuple(np.broadcast_arrays(*arrays))
    shape = arrays[0].shape
    out = np.empty(shape)
    if out.size == 0:
        return out

    step = max(1, step * shape[0] // out.size)

    def work(task: slice) -> None:
        with np.errstate(all="ignore"):
            for rows in row_blocks(task.stop, step, task.start):
                out[rows] = function(*(array[rows] for array in arrays))

    over_rows(work, shape[0], _LIGHT_TASK * step if light else step)
    return out
