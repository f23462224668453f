"""Measured speed of a backend on this machine; each rate is measured once in a process."""

from __future__ import annotations

import math
import time

import numpy as np

from fastmcmd.backends.base import Backend
from fastmcmd.gram import GramOperator
from fastmcmd.gram.cost import entry_cost
from fastmcmd.kernels import Kernel
from fastmcmd.planning.subsample import Subsample
from fastmcmd.planning.timing import seconds_of

__all__ = ["DEVICE_ROWS", "rate"]

# Operations of the product that is measured. It runs at 0.85 of the speed of a large product. Of a fifth of
# them that would be half: starting a thread may take a millisecond.
_WORK = 5e8
_RUNS = 3
_LONG, _SPINNING = 2.0, 0.02  # seconds of work that justify a pause; seconds for which threads spin
_LEAST_ROWS, _MOST_ROWS = 1000, 8000
DEVICE_ROWS = (
    16_384  # the same on a device, where the startup of kernels would dominate smaller products
)

_RATES: dict[tuple[Backend, Kernel, int, int, str], float] = {}


def rate(
    backend: Backend,
    kernel: Kernel,
    rows: Subsample,
    columns: int,
    dtype: np.dtype[np.floating],
    work: float = 0.0,
) -> float:
    """Return float32 operations per second of a streamed product, counted as in `gram.cost`.

    If ``work`` operations take long, a second measurement follows once no thread of BLAS spins any more.
    """
    place = (backend, kernel, rows.dim, columns, np.dtype(dtype).name)
    if place not in _RATES:
        per_second = _measured_rate(backend, kernel, rows, columns, dtype)
        if work > _LONG * per_second:
            time.sleep(_SPINNING)
            per_second = max(per_second, _measured_rate(backend, kernel, rows, columns, dtype))
        _RATES[place] = per_second
    return _RATES[place]


def _measured_rate(
    backend: Backend, kernel: Kernel, rows: Subsample, columns: int, dtype: np.dtype[np.floating]
) -> float:
    count = DEVICE_ROWS
    if not backend.on_device:
        pair = entry_cost(kernel, rows.dim, backend.name) + 2 * columns
        count = int(np.clip(math.sqrt(_WORK / pair), _LEAST_ROWS, _MOST_ROWS))
    x = np.resize(rows.x, (min(count, rows.n), rows.dim))  # rows repeat if there are fewer
    operator = GramOperator(backend, kernel, x, dtype, 1 << 62)
    points = operator.points()
    v = np.ones((len(x), columns))  # any values take the same time
    seconds = seconds_of(lambda: backend.symmetric_matmul(kernel, points, v), _RUNS)
    return operator.streamed_cost(columns) / seconds
