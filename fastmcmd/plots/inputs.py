"""Inputs of pictures: rows of arrays, of files or of an encoder, some at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray, Encoder, HostArray, InputsLike
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import as_rows
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.rows import Rows, open_rows

__all__ = ["FEW", "Inputs", "some"]

FEW = 3_000  # rows of encoders, t-SNE, UMAP, callables: t-SNE of them takes half a minute
_MANY = 100_000  # other rows: hexagons of more look the same, and take a tenth of a second
_ELEMENTS = 1 << 25  # taken together: 256 MB
_SEED = 0  # the same rows are drawn every time


def some(n: int, most: int) -> NDArray[np.intp]:
    """Return all of n rows in order, or ``most`` of them, drawn at random with a fixed seed.

    At random and not evenly: rows may repeat with a period.

    Examples
    --------
    >>> some(3, 5).tolist(), len(some(1000, 5))
    ([0, 1, 2], 5)
    """
    if n <= most:
        return np.arange(n)
    return np.sort(generator(_SEED, Purpose.PLOT).choice(n, most, replace=False))


class Inputs:
    """Inputs that pictures show, encoded if there is an encoder.

    Parameters
    ----------
    x : array_like (n, d) or (n,), rows on disk, or what ``encoder`` takes
        Inputs.
    n : int
        Rows there are.
    encoder : callable, optional
        Turns inputs into rows; it receives only the requested rows if x can be indexed.

    Examples
    --------
    >>> Inputs(["a", "bb", "ccc"], 3, lambda words: [len(word) for word in words]).take([0, 2]).tolist()
    [[1.0], [3.0]]
    """

    def __init__(self, x: InputsLike, n: int, encoder: Encoder | None = None) -> None:
        self._x, self._n, self.encoder = x, n, encoder

    @classmethod
    def of(cls, x: InputsLike | Inputs) -> Inputs:
        """Return inputs of an array or of rows on disk; inputs stay as they are."""
        if isinstance(x, cls):
            return x
        rows = open_rows(x, "x")
        return cls(rows, len(rows))

    def __len__(self) -> int:
        return self._n

    @cached_property
    def sample(self) -> tuple[NDArray[np.intp], HostArray]:
        """The rows that pictures are drawn from, and what is in them (m, d)."""
        rows = some(self._n, self.most)
        return rows, self.take(rows)

    @property
    def most(self) -> int:
        """Rows that a picture is drawn from at most."""
        if self.encoder is not None:
            return FEW
        return min(_MANY, max(FEW, _ELEMENTS // self._rows.shape[1]))

    @cached_property
    def _rows(self) -> HostArray | Rows:
        """All rows; inputs of an encoder are encoded once, and only if x cannot be indexed."""
        return open_rows(self._x, "x") if self.encoder is None else self._encode(self._x, self._n)

    def _encode(self, part: AnyArray, count: int) -> HostArray:
        assert self.encoder is not None
        encoded = as_rows(self.encoder(part), "encoder(x)")
        if len(encoded) != count:
            raise ValueError(
                f"the encoder made {len(encoded)} rows of {count} inputs; one row per input is needed"
            )
        return encoded

    def take(self, places: ArrayLike) -> HostArray:
        """Return the rows (m, d) of the inputs at ``places`` (m,), encoded; ascending for a file."""
        rows = np.asarray(places, dtype=np.intp)
        part = None if self.encoder is None else self.raw(rows)
        if part is not None:
            return self._encode(part, len(rows))
        everything = isinstance(self._rows, np.ndarray) and len(rows) == self._n
        if everything and np.array_equal(rows, np.arange(self._n)):
            return self._rows[:]  # no copy
        return self._rows[rows]

    def raw(self, rows: NDArray[np.intp]) -> AnyArray:
        """Return some rows of x before encoding, or None if its rows cannot be indexed."""
        x: AnyArray = self._x
        if hasattr(x, "iloc"):  # of a data frame [] takes columns
            return x.iloc[rows]
        if isinstance(x, list | tuple):
            return [x[row] for row in rows.tolist()]
        if hasattr(x, "shape") and hasattr(x, "__getitem__"):
            return x[rows]
        return None
