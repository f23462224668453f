"""Wall time of work that a plan tries."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["seconds_of"]

_RUNS = 2


def seconds_of(work: Callable[[], object], runs: int = _RUNS) -> float:
    """Return the shortest wall time of several runs, in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
