"""How fast a backend is here: measured on some rows, once in a process."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.base import Backend
from fastmcmd.gram import GramOperator
from fastmcmd.kernels import Kernel
from fastmcmd.planning.subsample import Subsample

__all__ = ["DEVICE_ROWS", "rate", "seconds_of"]

_ROWS = 2000  # of the product that is measured
DEVICE_ROWS = (
    16_384  # the same on a device, where smaller tiles tell how long it takes to start them
)
_RUNS = 3

_KNOWN: dict[tuple[Backend, Kernel, int, int, str], float] = {}


def rate(
    backend: Backend, kernel: Kernel, rows: Subsample, columns: int, dtype: np.dtype[np.floating]
) -> float:
    """Return float32 operations a second of a streamed product, as `gram.cost` counts them."""
    place = (backend, kernel, rows.dim, columns, np.dtype(dtype).name)
    if place not in _KNOWN:
        _KNOWN[place] = _measured(backend, kernel, rows, columns, dtype)
    return _KNOWN[place]


def _measured(
    backend: Backend, kernel: Kernel, rows: Subsample, columns: int, dtype: np.dtype[np.floating]
) -> float:
    count = DEVICE_ROWS if backend.on_device else _ROWS
    x = np.resize(rows.x, (min(count, rows.n), rows.dim))  # repeated where there are fewer
    operator = GramOperator(backend, kernel, x, dtype, 1 << 62)
    points = operator.points()
    v = generator(0, Purpose.PLAN).standard_normal((len(x), columns))
    taken = seconds_of(lambda: backend.symmetric_matmul(kernel, points, v))
    return operator.streamed_cost(columns) / taken


def seconds_of(work: Callable[[], object]) -> float:
    """Return the least wall time of several runs."""
    taken = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)
