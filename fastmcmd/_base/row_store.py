"""Numbers computed once for each row of a collection and of its parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array

__all__ = ["RowStore"]

_MOST_BYTES = 1 << 24  # of stored numbers; further rows are computed whenever they are needed

Rows = NDArray[np.intp]


class RowStore:
    """Numbers (j,) of each of n rows, computed when a part of the rows needs them first.

    A part of a collection shares its store: it takes the numbers that other parts of the same rows have
    computed. A row's numbers must not depend on the part. Threads may compute the same row twice, with the
    same result. Copies and pickles start empty.

    Parameters
    ----------
    n : int
        Number of rows.
    count : int
        Numbers of a row.
    """

    def __init__(self, n: int, count: int) -> None:
        self._n, self._count = n, count
        self._clear()

    def _clear(self) -> None:
        self._is_stored: NDArray[np.bool_] | None = None

    def __getstate__(self) -> dict[str, int]:
        return {"_n": self._n, "_count": self._count}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__dict__.update(state)
        self._clear()

    def rows(self, rows: Rows, compute: Callable[[Rows], Array]) -> Array:
        """Return the numbers (m, j) of rows (m,).

        ``compute(places)`` returns the numbers of ``rows[places]``.
        """
        capacity = min(self._n, _MOST_BYTES // (8 * self._count))
        if self._is_stored is None:
            self._numbers = np.empty((capacity, self._count))
            self._is_stored = np.zeros(capacity, dtype=np.bool_)
        is_missing = np.ones(len(rows), dtype=np.bool_)
        inside = rows < capacity
        is_missing[inside] = ~self._is_stored[rows[inside]]
        out = np.empty((len(rows), self._count))
        places = np.flatnonzero(~is_missing)
        out[places] = self._numbers[rows[places]]
        places = np.flatnonzero(is_missing)
        if len(places):
            out[places] = compute(places)
            places = places[inside[places]]
            self._numbers[rows[places]] = out[places]
            self._is_stored[rows[places]] = True
        return out
