"""Compiling loops with Numba: on first use, without the interpreter's lock, cached where a cache can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, **options: Any) -> F:
    """Return a function compiled on first use; the disk keeps the result where it can.

    Numba caches beside the source file or in the user's cache folder. Where neither can be written to (a
    read-only installation, no home folder), it refuses to decorate at all; the loop is then compiled
    anew in each process. A folder for temporary files is no place for the cache: others can write
    there, and Numba runs what it reads from its cache.

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
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return jit(nogil=True, **options)(function)
