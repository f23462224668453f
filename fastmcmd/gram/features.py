"""Features of a kernel at chosen points: ``k(y, z) ~ p(y).p(z)``, exact where y is one of the points.

With the pivots Z and the Cholesky factor L of K(Z, Z), ``p(y) = L^-1 k(Z, y)``. What they miss, the
residual ``e(y) = k(y, y) - |p(y)|^2 >= 0``, bounds every error by Cauchy-Schwarz. The output kernel
is factored so (feature form), and the input kernel (low-rank solver).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd.backends.base import Backend, Points, RowFeatures
from fastmcmd.kernels import Kernel

__all__ = ["EXACT", "KernelFeatures"]

_UNIT = float(np.finfo(np.float64).eps) / 2
_BLOCK = 1 << 21  # elements of a block of kernel values
EXACT = np.dtype(np.float64)


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """The map p: rows -> R^r.

    Attributes
    ----------
    kernel : Kernel
        The resolved kernel.
    pivots : ndarray (r, k)
        Rows at which the map is exact.
    factor : ndarray (r, r)
        Lower Cholesky factor of the kernel matrix of the pivots.
    backend : Backend
        What computes kernel values against the pivots.
    offset : ndarray (k,) or None
        Subtracted from rows and pivots before they are rounded to the precision of the tiles.
    """

    kernel: Kernel
    pivots: NDArray[Any]
    factor: NDArray[np.float64]
    backend: Backend
    offset: NDArray[np.float64] | None = None

    @property
    def rank(self) -> int:
        """Number of features r."""
        return len(self.pivots)

    def transform(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return p(y) (n, r) for rows (n, k)."""
        out = np.empty((len(y), self.rank))
        step = max(1, _BLOCK // max(1, self.rank))
        for start in range(0, len(y), step):
            rows = slice(start, start + step)
            found = self._features(y[rows], EXACT, keep=True, sizes=False)
            out[rows] = self.backend.to_host(found.values).T
        return out

    def of_rows(
        self, y: NDArray[Any], dtype: np.dtype[Any], *, keep: bool, sizes: bool
    ) -> tuple[RowFeatures, NDArray[np.float64]]:
        """Return features of rows (n, k) in ``dtype``, by columns, and what they miss (n,)."""
        found = self._features(y, dtype, keep=keep, sizes=sizes)
        diagonal = np.asarray(self.kernel.diagonal(y), dtype=np.float64)
        return found, np.maximum(diagonal - found.squares, 0.0)

    def combine(
        self, y: NDArray[Any], coefficients: NDArray[np.float64], dtype: np.dtype[Any]
    ) -> NDArray[np.float64]:
        """Return ``k(y, pivots) coefficients`` (n, c), tiles in ``dtype``."""
        points = self.backend.points(y, dtype, self.offset)
        return self.backend.matmul(self.kernel, points, self._points[dtype], coefficients)

    def adjoint(
        self, y: NDArray[Any], values: NDArray[np.float64], dtype: np.dtype[Any]
    ) -> NDArray[np.float64]:
        """Return ``k(pivots, y) values`` (r, c) of values (n, c) at rows (n, k), tiles in ``dtype``."""
        points = self.backend.points(y, dtype, self.offset)
        return self.backend.matmul(self.kernel, self._points[dtype], points, values)

    def _features(
        self, y: NDArray[Any], dtype: np.dtype[Any], *, keep: bool, sizes: bool
    ) -> RowFeatures:
        points = self.backend.points(y, dtype, self.offset)
        return self.backend.features(
            self.kernel, self._points[dtype], points, self.factor, keep=keep, sizes=sizes
        )

    @cached_property
    def _points(self) -> dict[np.dtype[Any], Points]:
        kinds = (np.dtype(np.float32), EXACT)
        return {kind: self.backend.points(self.pivots, kind, self.offset) for kind in kinds}

    def solve(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``L^-1 values`` (r, n): features from kernel values against the pivots."""
        return np.asarray(
            scipy.linalg.solve_triangular(self.factor, values, lower=True, check_finite=False)
        )

    def coefficients(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``L^-T weights`` (r, c): ``p(y).weights`` is ``k(y, pivots)`` times these."""
        return np.asarray(
            scipy.linalg.solve_triangular(
                self.factor, weights, lower=True, trans="T", check_finite=False
            )
        )

    def interpolation(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``L^-T p'`` (r, n): coefficients at the pivots that reproduce features (n, r)."""
        return self.coefficients(p.T)

    def residuals(self, y: NDArray[Any], p: NDArray[Any]) -> NDArray[np.float64]:
        """Return ``k(y, y) - |p(y)|^2`` (n,), not below zero, with a bound on rounding added.

        Rounding of a computed Cholesky factor: ``|A - L L'| <= gamma_{r+1} |l_i||l_j|`` (Higham,
        *Accuracy and Stability of Numerical Algorithms*, theorem 10.3), and a few units in k itself.
        """
        diagonal = np.asarray(self.kernel.diagonal(y), dtype=np.float64)
        gap = np.maximum(diagonal - np.einsum("ij,ij->i", p, p, dtype=np.float64), 0.0)
        return np.asarray(gap + self.noise * diagonal)

    @property
    def noise(self) -> float:
        """Rounding of a product of features, relative to k(y, y)."""
        return (self.rank + 6) * _UNIT

    @cached_property
    def inverse_norm(self) -> float:
        """Spectral norm of ``L^-1``: how much errors of kernel values grow in the features."""
        return float(1.0 / np.linalg.svd(self.factor, compute_uv=False)[-1])
