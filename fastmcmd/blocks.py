"""Rows in blocks, on threads: for loops that are compiled or release the lock of the interpreter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastmcmd.backends.threads import get_num_threads

__all__ = ["over_rows", "row_blocks"]

_NAME = "fastmcmd-block"


def row_blocks(n: int, step: int) -> Iterator[slice]:
    """Return the slices of n rows, ``step`` rows each but for the last."""
    step = max(1, step)
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def over_rows(work: Callable[[slice], Any], n: int, step: int) -> list[Any]:
    """Return what ``work`` gives for each block of rows, in order of the rows.

    Blocks run on threads, so ``work`` may only write to its own rows. How rows are cut does not depend
    on the number of threads, so neither does a result that is summed in order. Within ``work`` there
    are no more threads.
    """
    blocks = list(row_blocks(n, step))
    threads = min(get_num_threads(), len(blocks))
    if threads <= 1 or threading.current_thread().name.startswith(_NAME):
        return [work(rows) for rows in blocks]
    with ThreadPoolExecutor(threads, thread_name_prefix=_NAME) as pool:
        return list(pool.map(work, blocks))
