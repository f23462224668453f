"""One kernel matrix for many systems over parts of its rows, exact enough in single precision.

``K = F F' + E`` with a few landmarks: F is kept in float64, E in float32. K has a large coherent part (its
mean and what varies slowly); in single precision its products round by more than a tolerance of 1e-5
allows. What is left in E is small, and so is its rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import HostBlocks
from fastmcmd.gram import EXACT, GramOperator

__all__ = ["SplitGram", "Subset"]

_TILE = 256  # rows of kernel values computed together
_GATHERED = 64  # rows copied together
_LANDMARKS = 64
_LEAST_EIGENVALUE = 1e-9  # of the landmarks' kernel, relative to the largest; others are dropped


@dataclass(frozen=True, eq=False)
class SplitGram:
    """``K = F F' + E``: ``factor`` (n, p) in float64, ``remainder`` (n, n) in float32."""

    factor: Array
    remainder: HostArray

    @classmethod
    def of(cls, operator: GramOperator) -> SplitGram:
        """Return the kernel matrix of an operator; tiles above the diagonal are copied."""
        factor = _factor(operator)
        n, dtype = len(operator), np.dtype(np.float32)
        small = factor.astype(dtype)
        remainder = np.empty((n, n), dtype=dtype)
        blocks = [slice(start, min(start + _TILE, n)) for start in range(0, n, _TILE)]
        row_blocks = [operator.prepare(operator.x[rows], dtype) for rows in blocks]
        for place, rows in enumerate(blocks):
            for other, columns in enumerate(blocks[: place + 1]):
                tile = operator.backend.gram(operator.kernel, row_blocks[place], row_blocks[other])
                np.subtract(tile, small[rows] @ small[columns].T, out=remainder[rows, columns])
                if other < place:
                    remainder[columns, rows] = remainder[rows, columns].T
        return cls(factor, remainder)

    def times(self, rows: NDArray[np.intp], columns: NDArray[np.intp], v: Array) -> Array:
        """Return ``K[rows, held] v`` (len(rows), k)."""
        out = self.factor[rows] @ (self.factor[columns].T @ v)
        single = v.astype(self.remainder.dtype)
        for start in range(0, len(rows), _TILE):
            some = slice(start, start + _TILE)
            out[some] += np.take(self.remainder[rows[some]], columns, axis=1) @ single
        return out


def _factor(operator: GramOperator) -> Array:
    n = len(operator)
    rng = generator(n, Purpose.LANDMARKS)
    rows = np.sort(rng.choice(n, min(n, _LANDMARKS), replace=False))
    across = operator.columns(operator.x[rows])
    values, vectors = np.linalg.eigh((across[rows] + across[rows].T) / 2)
    good = values > _LEAST_EIGENVALUE * max(float(values[-1]), 0.0)
    return np.asarray(across @ (vectors[:, good] / np.sqrt(values[good])), dtype=EXACT)


class Subset:
    """The kernel matrix of some rows, as block CG takes it.

    Parameters
    ----------
    gram : SplitGram
    rows : ndarray (m,) of int
    storage : ndarray (at least m^2,) of float32
        Where E of these rows is copied to.
    """

    def __init__(self, gram: SplitGram, rows: NDArray[np.intp], storage: HostArray) -> None:
        self.passes = 0
        self._factor = gram.factor[rows]
        self._remainder = storage[: len(rows) ** 2].reshape(len(rows), len(rows))
        for start in range(0, len(rows), _GATHERED):
            some = slice(start, start + _GATHERED)
            np.take(
                gram.remainder[rows[some]], rows, axis=1, out=self._remainder[some], mode="clip"
            )

    def blocks(self, columns: int) -> HostBlocks:
        """Return where CG keeps its blocks: in host memory."""
        del columns
        return HostBlocks()

    def matmul(self, v: Array) -> Array:
        """Return K v (m, k)."""
        self.passes += 1
        out = self._factor @ (self._factor.T @ v)
        out += self._remainder @ v.astype(self._remainder.dtype)
        return out
