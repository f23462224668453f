"""Rows in blocks, on threads: for loops that are compiled or release the lock of the interpreter."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from fastmcmd._base.threads import get_num_threads, one_of_many

__all__ = ["ahead", "over_rows", "row_blocks"]

Value = TypeVar("Value")


def row_blocks(n: int, step: int, start: int = 0) -> list[slice]:
    """Return the slices of n rows from ``start``, ``step`` rows each but for the last."""
    step = max(1, step)
    return [slice(first, min(n, first + step)) for first in range(start, n, step)]


def over_rows(work: Callable[[slice], Any], n: int, step: int) -> list[Any]:
    """Return what ``work`` gives for each block of rows, in order of the rows.

    Blocks run on threads, so ``work`` may only write to its own rows. How rows are cut does not depend
    on the number of threads, so neither does a result that is summed in order. Within ``work`` there
    are no more threads.
    """
    blocks = row_blocks(n, step)
    threads = 1 if len(blocks) <= 1 else min(get_num_threads(), len(blocks))
    if threads == 1:
        return [work(rows) for rows in blocks]
    with ThreadPoolExecutor(threads, "fastmcmd-block", initializer=one_of_many) as pool:
        return list(pool.map(work, blocks))


def ahead(work: Callable[[slice], Value], blocks: list[slice], threads: int) -> Iterator[Value]:
    """Yield what ``work`` gives for each block, in their order, while threads make those that follow.

    As many are made ahead as there are threads. Where the caller ends early those that are not begun are
    left. Within ``work`` there are no more threads, but where one makes all.
    """
    made: deque[Future[Value]] = deque()
    alone = one_of_many if threads > 1 else None
    with ThreadPoolExecutor(threads, "fastmcmd-rows", initializer=alone) as pool:
        try:
            for block in blocks:
                made.append(pool.submit(work, block))
                if len(made) > threads:
                    yield made.popleft().result()
            while made:
                yield made.popleft().result()
        finally:
            for waiting in made:
                waiting.cancel()
