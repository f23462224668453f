"""Wall time of work that a plan tries."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["seconds_a_row", "seconds_of"]

_RUNS = 2


def seconds_of(work: Callable[[], object], runs: int = _RUNS) -> float:
    """Return the shortest wall time of several runs, in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def seconds_a_row(seconds: Callable[[int], float], most: int) -> float:
    """Return the wall time of a row, from the ``seconds`` of ``most`` rows and of a quarter of them.

    Their difference counts, because some work is the same for any number of rows.
    """
    few = most // 4
    if not few:
        return seconds(most) / most
    fewer, longest = seconds(few), seconds(most)
    return max(longest - fewer, longest / 4) / (most - few)
