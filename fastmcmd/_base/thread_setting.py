"""The number of threads, set by the user."""

from __future__ import annotations

from fastmcmd._base.checks import check_count
from fastmcmd._base.threads import set_thread_count

__all__ = ["set_num_threads"]


def set_num_threads(count: int | None) -> None:
    """Set the number of threads of later calls; None returns to the default.

    Results depend on it only through rounding.
    """
    set_thread_count(None if count is None else check_count(count, "count", most=1 << 16))
