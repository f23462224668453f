"""Row blocks on threads, for compiled loops and functions that release the interpreter lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from fastmcmd._base.threads import as_one_of_many, get_num_threads, one_of_many

__all__ = ["ahead", "over_rows", "row_blocks"]

Value = TypeVar("Value")


def row_blocks(n: int, step: int, start: int = 0) -> list[slice]:
    """Return slices of n rows from ``start`` on: blocks of ``step`` rows, the last possibly shorter."""
    step = max(1, step)
    return [slice(first, min(n, first + step)) for first in range(start, n, step)]


def over_rows(work: Callable[[slice], object], n: int, step: int) -> list[Any]:
    """Return the results of ``work`` for each block of rows, in order of the rows.

    Blocks run on threads, the calling one among them, so ``work`` may write only to the rows of its block.
    The division into blocks does not depend on the number of threads, and therefore neither do results that
    are summed in order. Calls within ``work`` use a single thread.
    """
    blocks = row_blocks(n, step)
    threads = 1 if len(blocks) <= 1 else min(get_num_threads(), len(blocks))
    if threads == 1:
        return [work(rows) for rows in blocks]
    results: list[object] = [None] * len(blocks)
    waiting = deque(enumerate(blocks))

    errors: dict[int, BaseException] = {}

    def take_turns() -> None:
        # One future for each thread: one for each block would cost as much as the block.
        while True:
            try:
                place, rows = waiting.popleft()
            except IndexError:
                return
            try:
                results[place] = work(rows)
            except BaseException as error:
                errors[place] = error
                waiting.clear()

    with ThreadPoolExecutor(threads - 1, "fastmcmd-block", initializer=one_of_many) as pool:
        turns = [pool.submit(take_turns) for _ in range(threads - 1)]
        try:
            with as_one_of_many():
                take_turns()
            for turn in turns:
                turn.result()
        except BaseException:  # Ctrl-C: blocks that have not begun are skipped
            waiting.clear()
            raise
    if errors:  # all earlier blocks have run: the same error with any number of threads
        raise errors[min(errors)]
    return results


def ahead(work: Callable[[slice], Value], blocks: list[slice], threads: int) -> Iterator[Value]:
    """Yield the results of ``work`` for each block in order, while threads compute the following ones.

    As many results as threads are computed ahead. If the caller stops early, blocks that have not begun are
    skipped. Calls within ``work`` use a single thread, unless ``threads`` is 1.
    """
    pending: deque[Future[Value]] = deque()
    alone = one_of_many if threads > 1 else None
    with ThreadPoolExecutor(threads, "fastmcmd-rows", initializer=alone) as pool:
        try:
            for block in blocks:
                pending.append(pool.submit(work, block))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for waiting in pending:
                waiting.cancel()
