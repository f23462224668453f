"""Compilation of loops with Numba: on first use, without the interpreter lock, cached if possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, **options: Any) -> F:
    """Return a function that is compiled on first use and cached on disk if possible.

    Numba caches beside the source file or in the user's cache folder. If it can write to neither (a
    read-only installation, no home folder), it refuses to decorate with a cache, and the loop is compiled
    in each process. A folder for temporary files is not safe for the cache: others can write there, and
    Numba executes what it reads from its cache.

    Parameters
    ----------
    function : function
        A loop over arrays and numbers.
    **options
        Further options of `numba.njit`.
    """
    jit: Any = numba.njit  # typed by some versions of Numba only
    try:
        return jit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # no place for the cache; any other cause raises again
        return jit(nogil=True, **options)(function)
