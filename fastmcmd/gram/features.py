"""Features of a kernel at chosen points: ``k(y, z) ~ p(y).p(z)``, exact if y is one of the points.

With the pivots Z and the Cholesky factor L of K(Z, Z), ``p(y) = L^-1 k(Z, y)``. Their residual
``e(y) = k(y, y) - |p(y)|^2 >= 0`` bounds every error by Cauchy-Schwarz. The feature form factors the output
kernel in this way, and the low-rank solver the input kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import DType, HostArray
from fastmcmd._base.cached import cached_property
from fastmcmd._base.sums import size_of
from fastmcmd.backends.base import Backend, Points, RowFeatures
from fastmcmd.backends.tall_skinny import row_squares, substituted
from fastmcmd.gram.precision import EXACT, tile_dtype
from fastmcmd.kernels import Delta, Kernel
from fastmcmd.kernels.base import UNIT, relative_error

__all__ = ["KernelFeatures"]

_BLOCK = 1 << 21  # elements of a block of kernel values


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
        Backend that computes kernel values against the pivots.
    offset : ndarray (k,) or None
        Subtracted from rows and pivots before they are rounded to the precision of the tiles.
    entry : float
        Rounding of kernel values against the pivots, relative to the largest, as a part of `noise`; 0 if
        the caller accounts for it.
    """

    kernel: Kernel
    pivots: HostArray
    factor: NDArray[np.float64]
    backend: Backend
    offset: NDArray[np.float64] | None = None
    entry: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy or a pickle, without the backend's prepared rows."""
        return {name: value for name, value in self.__dict__.items() if name != "_points"}

    @property
    def rank(self) -> int:
        """Number of features r."""
        return len(self.pivots)

    def transform(self, y: HostArray) -> NDArray[np.float64]:
        """Return p(y) (n, r) for rows (n, k)."""
        return self.with_squares(y)[0]

    def with_residuals(
        self, y: HostArray, *, differences: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return p(y) (n, r) for rows (n, k), and their `residuals` (n,), in one pass.

        With ``differences`` return ``p(y[2 i]) - p(y[2 i + 1])`` (n / 2, r) instead of p(y).
        """
        p, squares = self.with_squares(y, differences=differences)
        return p, self.residuals_of(y, squares)

    def with_squares(
        self, y: HostArray, *, differences: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return p(y) (n, r), or `with_residuals`'s differences, and ``|p(y)|^2`` (n,)."""
        group = 2 if differences else 1
        out, squares = np.empty((len(y) // group, self.rank)), np.empty(len(y))
        step = max(1, _BLOCK // max(1, self.rank)) * group
        for start in range(0, len(y), step):
            rows = slice(start, start + step)
            self.backend.write_feature_sums(
                self.kernel, self._points[EXACT], self.backend.points(y[rows], EXACT, self.offset),
                self.factor, group, out[start // group : (start + step) // group], squares[rows],
                differences=differences,
            )  # fmt: skip
        return out, squares

    def means(self, y: HostArray, group: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean features (n / group, r) of ``group`` rows in turn, and residuals (n,) of all rows."""
        sums, squares = np.empty((len(y) // group, self.rank)), np.empty(len(y))
        points = self.backend.points(y, EXACT, self.offset)
        self.backend.write_feature_sums(
            self.kernel, self._points[EXACT], points, self.factor, group, sums, squares
        )
        sums /= group
        return sums, self.residuals_of(y, squares)

    def diagonal(self, y: HostArray) -> NDArray[np.float64]:
        """Return ``k(y, y)`` (n,) of rows (n, k)."""
        if not self.kernel.compiled or self.kernel.translation_invariant:
            return np.asarray(self.kernel.diagonal(y), dtype=np.float64)
        return self.kernel.of_squares(row_squares(y))

    def of_rows(
        self, y: HostArray, dtype: DType, *, keep: bool, sizes: bool
    ) -> tuple[RowFeatures, NDArray[np.float64], NDArray[np.float64]]:
        """Return features of rows (n, k) in ``dtype``, by columns, ``k(y, y)`` (n,), and residuals (n,)."""
        kind = tile_dtype(self.kernel, dtype, y, self.pivots)
        points = self.backend.points(y, kind, self.offset)
        row_features = self.backend.features(
            self.kernel, self._points[kind], points, self.factor, keep=keep, sizes=sizes
        )
        diagonal = self.diagonal(y)
        return row_features, diagonal, np.maximum(diagonal - row_features.squares, 0.0)

    def combine(
        self, y: HostArray, coefficients: NDArray[np.float64], dtype: DType
    ) -> NDArray[np.float64]:
        """Return ``k(y, pivots) coefficients`` (n, c), by ``dtype`` tiles."""
        kind = tile_dtype(self.kernel, dtype, y, self.pivots)
        points = self.backend.points(y, kind, self.offset)
        return self.backend.matmul(self.kernel, points, self._points[kind], coefficients)

    def adjoint(
        self, y: HostArray, values: NDArray[np.float64], dtype: DType
    ) -> NDArray[np.float64]:
        """Return ``k(pivots, y) values`` (r, c) for values (n, c) at rows (n, k), by ``dtype`` tiles."""
        kind = tile_dtype(self.kernel, dtype, y, self.pivots)
        points = self.backend.points(y, kind, self.offset)
        return self.backend.matmul(self.kernel, self._points[kind], points, values)

    @cached_property
    def _points(self) -> dict[DType, Points]:
        kinds = (np.dtype(np.float32), EXACT)
        return {kind: self.backend.points(self.pivots, kind, self.offset) for kind in kinds}

    def solve(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``L^-1 values`` (r, n): features from kernel values against the pivots."""
        return substituted(self.factor, values)

    def coefficients(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``L^-T weights`` (r, c): ``p(y).weights`` is ``k(y, pivots)`` times these.

        For the features (r, n) of n rows these are the interpolation coefficients, which reproduce them.
        """
        return substituted(self.factor, weights, transposed=True)

    def residuals(self, y: HostArray, p: HostArray) -> NDArray[np.float64]:
        """Return ``k(y, y) - |p(y)|^2`` (n,), not below zero, plus a bound on rounding.

        Rounding of a computed Cholesky factor: ``|A - L L'| <= gamma_{r+1} |l_i||l_j|`` (Higham,
        *Accuracy and Stability of Numerical Algorithms*, theorem 10.3), and a few units in k itself.
        """
        return self.residuals_of(y, row_squares(p))

    def residuals_of(self, y: HostArray, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the `residuals` (n,) of rows with the squares ``|p(y)|^2`` (n,)."""
        diagonal = np.asarray(self.kernel.diagonal(y), dtype=np.float64)
        residuals = np.subtract(diagonal, squares)
        np.maximum(residuals, 0.0, out=residuals)
        residuals += self.noise * diagonal
        return residuals

    @property
    def noise(self) -> float:
        """Rounding of a product of features, relative to k(y, y).

        If kernel values k(Z, y) have the error g, with |g| at most ``sqrt(r)`` times ``entry``, the product
        changes by c'g on either side; the norm of the interpolation coefficients c is of the order of 1.
        """
        return (self.rank + 6) * UNIT + 2 * float(np.sqrt(self.rank)) * self.entry

    @cached_property
    def inverse_norm(self) -> float:
        """Bound on ``||L^-1||_2``, the factor by which errors of kernel values grow in the features.

        With the singular values s of ``X = L^-1`` the bound is ``(sum s^16)^(1/16)``, from three products.
        It is at most ``rank^(1/16)`` times the norm, 1.7 for 4,000 landmarks, and seldom above 1.3.
        Substitution is backward stable, ``(L + E) x = e_j`` with ``|E| <= gamma |L|`` (Higham, *Accuracy
        and Stability of Numerical Algorithms*, theorem 8.5), so that
        ``||X|| <= ||X~|| / (1 - gamma ||L||_F ||X~||)`` for the computed X~. The bound is infinite if L is
        singular to rounding.

        An SVD of L would be slower: half of its operations are products with vectors, for which BLAS wakes
        its threads thousands of times (18 s against 0.7 s at rank 1,500 on a busy machine).
        """
        from fastmcmd.backends import get_backend

        rank, identity = self.rank, Delta()  # over the indices
        backend = get_backend("auto", identity)  # on the host, as the factor is
        index = backend.points(np.arange(rank, dtype=np.float64)[:, None], EXACT)
        inverse = backend.features(identity, index, index, self.factor, keep=True, sizes=False)
        frobenius = float(inverse.squares.sum())
        if not np.isfinite(frobenius):
            return np.inf
        assert inverse.values is not None
        power, norm, exponent = inverse.values / np.sqrt(frobenius), frobenius, 1.0
        for _ in range(3):  # the singular values are squared three times
            square, nothing = np.zeros((rank, rank)), np.zeros((rank, 1))
            backend.add_products(power, nothing, None, square, nothing)
            size = size_of(square)
            norm *= size**exponent
            exponent /= 2
            power = square / size
        gamma = relative_error(rank + 2, UNIT)
        # Products of matrices of norm 1 have an error of gamma, and their norm is at least rank^(-1/2).
        bound = np.sqrt(norm) * (1 + 4 * gamma * np.sqrt(rank))
        error_factor = gamma * size_of(self.factor) * bound
        return float(bound / (1 - error_factor)) if error_factor < 1 else np.inf
