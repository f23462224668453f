"""Products with NumPy's BLAS, in pieces that it does on one thread.

OpenBLAS's worker threads keep spinning for some milliseconds after each threaded product and slow down
what follows (to about 70 %, measured); and sums in fixed pieces are the same whatever the number of BLAS
threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["inner", "times"]

Array = NDArray[Any]
_ONE_THREAD = 1 << 18  # multiply-adds up to which OpenBLAS stays on the calling thread
_LEAST_ROWS = 32  # below that the calls themselves cost more than threads


def _pieces(rows: int, columns: int, others: int) -> list[slice]:
    step = _ONE_THREAD // max(1, columns * others)
    if step < _LEAST_ROWS or step >= rows:
        return [slice(0, rows)]
    return [slice(start, min(rows, start + step)) for start in range(0, rows, step)]


def inner(a: Array, b: Array) -> Array:
    """Return ``a' b`` (k, j) in float64 of blocks (n, k) and (n, j)."""
    out = np.zeros((a.shape[1], b.shape[1]))
    for rows in _pieces(len(a), a.shape[1], b.shape[1]):
        out += a[rows].T @ b[rows]
    return out


def times(a: Array, small: Array) -> Array:
    """Return ``a small`` (n, j) of a block (n, k) and a matrix (k, j)."""
    out = np.empty((len(a), small.shape[1]), np.result_type(a, small))
    for rows in _pieces(len(a), *small.shape):
        np.matmul(a[rows], small, out=out[rows])
    return out
