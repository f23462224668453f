"""The number of threads that computations use."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from time import monotonic

from fastmcmd._base import cgroups

__all__ = ["as_one_of_many", "get_num_threads", "one_of_many", "set_thread_count"]

_SECONDS = 0.1  # for which the default number is valid
_last = -math.inf, 1  # the time at which it was read, and the number
_thread_count: int | None = None


class _Thread(threading.local):
    """What is true of the calling thread alone."""

    is_one_of_many = False


_THREAD = _Thread()


def one_of_many() -> None:
    """Mark the calling thread as one of several that share work, so that its calls use a single thread."""
    _THREAD.is_one_of_many = True


@contextmanager
def as_one_of_many() -> Iterator[None]:
    """Mark the calling thread as one of several in a ``with`` block."""
    before, _THREAD.is_one_of_many = _THREAD.is_one_of_many, True
    try:
        yield
    finally:
        _THREAD.is_one_of_many = before


def get_num_threads() -> int:
    """Return the number of threads of later calls.

    It is the value of `set_num_threads`, else ``OMP_NUM_THREADS``, else the number of processors that this
    process may use: its affinity, limited by the processor quota of its control groups (containers),
    rounded up. A change of ``OMP_NUM_THREADS`` or of the processors counts within a tenth of a second.
    """
    if _THREAD.is_one_of_many:
        return 1
    if _thread_count is not None:
        return _thread_count
    at, count = _last
    return count if monotonic() - at < _SECONDS else _read_default()


def _whole_number(setting: str) -> int:
    """Return the first of several numbers separated by commas; 0 if it is not a whole number."""
    first = setting.split(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def _read_default() -> int:
    """Return the default number, valid for `_SECONDS`: a small call asks 20 times."""
    global _last
    setting = os.environ.get("OMP_NUM_THREADS")
    count = (_whole_number(setting) if setting else 0) or _read_processors()
    _last = monotonic(), count
    return count


def _read_processors() -> int:
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        count = os.cpu_count() or 1
    quota = _quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


@lru_cache(maxsize=1)
def _quota() -> float | None:
    """Return the quota of processor time, read only once because it is spread over several small files."""
    return cgroups.processors()


def set_thread_count(count: int | None) -> None:
    """Set the number, which has been checked; None returns to the default, which is read again."""
    global _last, _thread_count
    _thread_count, _last = count, (-math.inf, 1)
