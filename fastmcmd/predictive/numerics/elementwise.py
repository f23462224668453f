"""Elementwise functions and loops of the core, computed in row blocks on threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows, row_blocks

__all__ = ["LIGHT_STEP", "SLOW_STEP", "by_core", "by_rows"]

_STEP = 1 << 14  # values per block: temporaries of 128 kB stay in the cache, and a thread has work
SLOW_STEP = 1 << 11  # the same for special functions that take more than 100 ns
LIGHT_STEP = 1 << 17  # the same for loops of a few ns, which end before threads have started
_CORE_STEP = 1 << 13  # the same for other loops of the core
_NONE = np.empty(0)
_LIGHT_TASK = 8  # blocks of a light formula that cost more than starting a thread


def by_core(
    loop: Callable[..., None],
    family: int | None,
    count: int,
    *arrays: Array,
    absent: int = 0,
    in_row_memory: bool = False,
    step: int = _CORE_STEP,
) -> list[Array]:
    """Return what a loop of the core writes to ``count`` arrays, in blocks of rows.

    It takes a family, if there is one, the arrays, and as many empty ones as are ``absent``. Results that
    stay may be ``in_row_memory``, which later arrays use again. Others own their data, which NumPy uses for
    the result of an expression like ``-logs``.
    """
    values: Sequence[Array] = [np.asarray(one, dtype=np.float64) for one in arrays]
    shape = values[0].shape
    if any(one.shape != shape for one in values):
        values = np.broadcast_arrays(*values)
        shape = values[0].shape
    flat = [one.ravel() for one in values]
    results = [
        _core.row_array(math.prod(shape)).reshape(shape) if in_row_memory else np.empty(shape)
        for _ in range(count)
    ]
    outputs = [one.reshape(-1) for one in results]
    first = () if family is None else (int(family),)
    none = [_NONE] * absent

    def work(rows: slice) -> None:
        loop(*first, *(one[rows] for one in flat), *none, *(one[rows] for one in outputs))

    over_rows(work, flat[0].size, step)
    return results


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
