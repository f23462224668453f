"""Inputs of plots: a sample of the rows of arrays, files or an encoder."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray, Encoder, HostArray, InputsLike
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import as_rows
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.rows import Rows, open_rows

__all__ = ["FEW", "Inputs", "some"]

FEW = 3_000  # most rows for encoders, t-SNE, UMAP, callables: t-SNE of them takes half a minute
_MANY = 100_000  # most rows otherwise: hexagons of more rows look the same
_ELEMENTS = 1 << 25  # most elements: 256 MB
_SEED = 0  # so that the same rows are drawn every time


def some(n: int, most: int) -> NDArray[np.intp]:
    """Return all of n rows in order, or ``most`` of them, drawn at random with a fixed seed.

    The draw is random rather than evenly spaced because rows may be periodic.

    Examples
    --------
    >>> some(3, 5).tolist(), len(some(1000, 5))
    ([0, 1, 2], 5)
    """
    if n <= most:
        return np.arange(n)
    return np.sort(generator(_SEED, Purpose.PLOT).choice(n, most, replace=False))


class Inputs:
    """Inputs for plots, encoded if there is an encoder.

    Parameters
    ----------
    x : array_like (n, d) or (n,), rows on disk, or inputs of ``encoder``
        Inputs.
    n : int
        Number of rows.
    encoder : callable, optional
        Function from inputs to rows. If x can be indexed, it receives only the requested rows.

    Examples
    --------
    >>> Inputs(["a", "bb", "ccc"], 3, lambda words: [len(word) for word in words]).take([0, 2]).tolist()
    [[1.0], [3.0]]
    """

    def __init__(self, x: InputsLike, n: int, encoder: Encoder | None = None) -> None:
        self._x, self._n, self.encoder = x, n, encoder

    @classmethod
    def of(cls, x: InputsLike | Inputs) -> Inputs:
        """Return `Inputs` from an array or rows on disk; `Inputs` are returned unchanged."""
        if isinstance(x, cls):
            return x
        rows = open_rows(x, "x")
        return cls(rows, len(rows))

    def __len__(self) -> int:
        return self._n

    @cached_property
    def sample(self) -> tuple[NDArray[np.intp], HostArray]:
        """Indices of the rows used for plots, and these rows (m, d)."""
        rows = some(self._n, self.most)
        return rows, self.take(rows)

    def rows_of_sample(self, places: NDArray[np.intp]) -> HostArray:
        """Return rows (m, d) that are in the `sample`, without encoding them again."""
        if self.encoder is None:
            return self.take(places)
        rows, part = self.sample
        return part[np.searchsorted(rows, places)]

    @property
    def most(self) -> int:
        """Largest number of rows used for a plot."""
        if self.encoder is not None:
            return FEW
        return min(_MANY, max(FEW, _ELEMENTS // self._rows.shape[1]))

    @cached_property
    def _rows(self) -> HostArray | Rows:
        """All rows. Inputs of an encoder are encoded once, and only if x cannot be indexed."""
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
        """Return the encoded rows (m, d) at indices ``places`` (m,), which must ascend for a file."""
        rows = np.asarray(places, dtype=np.intp)
        part = None if self.encoder is None else self.raw(rows)
        if part is not None:
            return self._encode(part, len(rows))
        takes_all = isinstance(self._rows, np.ndarray) and len(rows) == self._n
        if takes_all and np.array_equal(rows, np.arange(self._n)):
            return self._rows[:]  # without a copy
        return self._rows[rows]

    def raw(self, rows: NDArray[np.intp]) -> AnyArray:
        """Return some rows of x before encoding, or None if its rows cannot be indexed."""
        x: AnyArray = self._x
        if hasattr(x, "iloc"):  # for a data frame, [] selects columns
            return x.iloc[rows]
        if isinstance(x, list | tuple):
            return [x[row] for row in rows.tolist()]
        if hasattr(x, "shape") and hasattr(x, "__getitem__"):
            return x[rows]
        return None
