"""Cells of rows that lie close together: clusters that a uniform sample would miss.

Distances over which the kernel falls by a hundredth, a fifth and nine tenths give three sizes of cells. Rows
share a cell if their projections on a few random directions do. A cluster of any size within such a distance
falls into one or a few cells, wherever it is; isolated rows have cells of their own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import row_squares, times
from fastmcmd.kernels import Kernel

__all__ = ["largest_of_cells", "row_cells", "signed_guess", "sums_over"]

Index = NDArray[np.intp]

_LEVELS = 0.99, 0.8, 0.1  # kernel values, relative to k(x, x), at distances that count as close
_WIDTH = 2.0  # side of a cell, in such distances
_DIRECTIONS = 8
_BINS = 4  # least number of bins for each row: cells that share a bin count as one
_OCTAVES = 30  # distances from 2^-30 to 2^30
_LARGEST = 2.0**52  # numbers of cells beyond it are rounded
_MOST = 8192  # rows of the largest guesses, whose cells are compared


def row_cells(kernel: Kernel, x: HostArray) -> list[Index]:
    """Return a cell (n,) of each row, for each size of cells.

    The kernel must be translation invariant.
    """
    n, dim = x.shape
    rng = generator(n, Purpose.PROBE)
    directions = rng.standard_normal((dim, min(dim, _DIRECTIONS)))
    at = times(np.asarray(x, dtype=np.float64), directions)
    mask = (1 << int(np.ceil(np.log2(_BINS * n)))) - 1
    cells = []
    for distance in _distances(kernel, dim):
        side = _WIDTH * distance
        factors = rng.integers(1, 2**62, at.shape[1], dtype=np.int64) | 1
        places = np.floor(at / side + rng.random(at.shape[1]))
        np.clip(places, -_LARGEST, _LARGEST, out=places)
        key = (places.astype(np.int64) * factors).sum(axis=1)
        cells.append((key >> 20) & mask)
    return cells


def _distances(kernel: Kernel, dim: int) -> list[float]:
    """Return the distances over which the kernel falls to each of `_LEVELS`, in the diagonal direction."""
    distances = 2.0 ** np.arange(-_OCTAVES, _OCTAVES, 0.125)
    unit = np.full((1, dim), dim**-0.5)
    values = np.asarray(kernel(np.zeros((1, dim)), distances[:, None] * unit))[0]
    largest = float(np.asarray(kernel.diagonal(unit))[0])
    counts = [int(np.count_nonzero(values > level * largest)) for level in _LEVELS]
    return [float(distances[min(count, len(distances) - 1)]) for count in counts]


def largest_of_cells(cells: Index, guess: Array) -> tuple[Index, Array]:
    """Return the rows of the largest guesses, and the guess (n,) of the best row of each cell, 0 elsewhere.

    Only cells of these rows, several thousands, have a best row.
    """
    count = min(len(guess), _MOST)
    rows = np.argpartition(guess, len(guess) - count)[-count:]
    out = np.zeros(len(guess))
    best = _best_of_cells(cells[rows], guess[rows])
    out[rows[best]] = guess[rows[best]]
    return rows, out


def _best_of_cells(cells: Index, guess: Array) -> Index:
    """Return the places of the largest guess of each cell."""
    order = np.argsort(-guess, kind="stable")
    return order[np.unique(cells[order], return_index=True)[1]]


def sums_over(cells: Index, terms: Array) -> Array:
    """Return for each row the sum of the terms (n,) or (n, c) of all rows in its cell."""
    if terms.ndim == 1:
        return np.bincount(cells, weights=terms)[cells]
    places = np.unique(cells, return_inverse=True)[1]
    out = np.zeros((int(places.max(initial=0)) + 1, terms.shape[1]))
    np.add.at(out, places, terms)
    return out[places]


def signed_guess(cells: Index, rows: Index, size: Array, terms: Array) -> Array:
    """Return the squares ``size |sum of terms|^2`` of the best row of each cell among ``rows``, as (n,)."""
    guess = size * row_squares(sums_over(cells[rows], terms))
    best = _best_of_cells(cells[rows], guess)
    out = np.zeros(len(cells))
    out[rows[best]] = guess[best]
    return out
