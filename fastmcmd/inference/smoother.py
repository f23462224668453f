"""Kernel ridge regression on landmarks: the smoother ``H = F (F'WF + N lam I)^-1 F'W`` with ``K_X ~ F F'``.

With m landmarks Z and the Cholesky factor L of K(Z, Z), ``F = k(x, Z) L^-T`` is (n, m), and everything that
inference needs is a sum over rows: memory stays bounded for any n. The residual of the landmarks changes
the smoother a little, but never the validity of a test that uses the same smoother for all its data sets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.cached import cached_property
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.backends.tall_skinny import eigh, inner, times
from fastmcmd.gram import KernelFeatures, offset_of
from fastmcmd.kernels import Kernel, scale_columns, split_scales
from fastmcmd.kernels.custom import examine_kernel
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.solvers.rounding import factor_error

__all__ = ["CANDIDATES", "SUPPORTED", "Basis", "Smoother"]

CANDIDATES = 10_000  # rows from which landmarks are chosen
SUPPORTED = 0.5  # share of the constant 1 that a smoother must reproduce at a supported input
_BLOCK = 8_192  # rows whose features are computed together
_NEGLIGIBLE = 1e-12  # share of the largest eigenvalue: directions below it are rounding

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Smoother:
    """The feature map ``x -> f(x)`` (m,) of an input kernel at landmarks: ``k(x, x') ~ f(x).f(x')``.

    Attributes
    ----------
    features : KernelFeatures
        Landmarks with their Cholesky factor.
    scales : tuple of float (d,) or None
        Factors of the columns of inputs, if the kernel is `Scaled`.
    """

    features: KernelFeatures
    scales: tuple[float, ...] | None = None

    @staticmethod
    def of(
        kernel: Kernel,
        x: Array,
        landmarks: int,
        random_state: object = 0,
        name: str = "x_kernel",
    ) -> Smoother:
        """Return a smoother at landmarks chosen from the rows of ``x`` (n, d) by randomly pivoted Cholesky.

        Parameters
        ----------
        kernel : Kernel
            Input kernel; parameters that depend on the data are resolved on ``x``.
        x : ndarray (n, d)
            Inputs; at most 10,000 of them, drawn at random, are candidates.
        landmarks : int
            Largest number of landmarks; fewer if these reproduce the kernel to rounding.
        random_state : int or numpy.random.Generator
            Source of the draws.
        name : str
            Name of the argument that holds the kernel, for messages.

        Raises
        ------
        ValueError
            The kernel is a function that is not symmetric or not positive semi-definite.
        """
        rng = generator(random_state, Purpose.LANDMARKS)
        scales, _ = split_scales(kernel)
        kernel, x = scale_columns(kernel, x)
        kernel = kernel.resolve(x)
        examine_kernel(kernel, name, x)
        rows = x
        if len(x) > CANDIDATES:
            rows = x[np.sort(rng.choice(len(x), CANDIDATES, replace=False))]
        backend = get_backend("auto", kernel)
        offset = offset_of(kernel, backend, rows)  # distances far from 0 would lose digits
        search = LandmarkSearch(backend, kernel, rows, np.ones(len(rows)), landmarks, rng, offset)
        search.grow(landmarks)
        return Smoother(search.kernel_features(), scales)

    @property
    def rank(self) -> int:
        """Number of landmarks m."""
        return self.features.rank

    def transform(self, x: Array) -> Array:
        """Return f(x) (n, m) for inputs (n, d)."""
        if self.scales is not None:
            x = np.asarray(x * np.array(self.scales))
        return self.features.transform(x)

    def diagonal(self, x: Array) -> Array:
        """Return ``k(x, x)`` (n,) for inputs (n, d)."""
        scaled = x if self.scales is None else x * np.array(self.scales)
        return np.asarray(self.features.kernel.diagonal(scaled), dtype=np.float64)

    @cached_property
    def factor_error(self) -> float:
        """Bound on ``||K(Z, Z) - L L'||`` beside rounding of kernel values."""
        return factor_error(self.features, 0.0)

    def basis(self, x: Array, weights: Array | None = None) -> Basis:
        """Return the eigenvectors of ``F'WF`` over the rows of ``x``, with weights (n,) or equal ones."""
        return self._basis(x, weights, None)

    def basis_and_coordinates(self, x: Array, weights: Array | None = None) -> tuple[Basis, Array]:
        """Return `basis` and the coordinates (n, p) of its rows, with one computation of kernel values."""
        features = np.empty((len(x), self.rank))
        basis = self._basis(x, weights, features)
        return basis, times(features, basis.vectors[:, basis.significant])

    def _basis(self, x: Array, weights: Array | None, features: Array | None) -> Basis:
        """Return `basis`, and fill ``features`` (n, m) with f(x)."""
        gram = np.zeros((self.rank, self.rank))
        squared = None if weights is None else np.zeros_like(gram)
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            block = self.transform(x[rows])
            if features is not None:
                features[rows] = block
            if weights is not None and squared is not None:
                weighted = block * weights[rows, None]
                squared += inner(weighted, weighted)
                block = block * np.sqrt(weights[rows, None])
            gram += inner(block, block)
        total = float(len(x) if weights is None else weights.sum())
        return Basis(self, *eigh(gram), total, squared)


@dataclass(frozen=True, eq=False)
class Basis:
    """Coordinates in which the smoother is diagonal: ``g(x) = f(x) U``, ``sum_i w_i g_i g_i' = diag(s)``.

    Attributes
    ----------
    smoother : Smoother
        The feature map.
    eigenvalues : ndarray (m,)
        Eigenvalues s of ``F'WF``, ascending.
    vectors : ndarray (m, m)
        Eigenvectors U, as columns.
    total : float
        Sum N of the weights.
    squared : ndarray (m, m) or None
        ``F'W^2F``; None without weights, as then it is ``F'WF``.
    """

    smoother: Smoother
    eigenvalues: Array
    vectors: Array
    total: float
    squared: Array | None = None

    @cached_property
    def significant(self) -> NDArray[np.bool_]:
        """Mask (m,) of the eigenvalues that are not rounding."""
        return np.asarray(self.eigenvalues > _NEGLIGIBLE * max(float(self.eigenvalues[-1]), 0.0))

    @property
    def spectrum(self) -> Array:
        """The eigenvalues (p,) that are not rounding."""
        return np.asarray(self.eigenvalues[self.significant])

    def coordinates(self, x: Array) -> Array:
        """Return g(x) (n, p) for inputs (n, d)."""
        return times(self.smoother.transform(x), self.vectors[:, self.significant])

    def shrinkage(self, lam: float) -> Array:
        """Return ``1 / (s + N lam)`` (p,): ``a(x)'E = g(x) diag(shrinkage) (G'WE)``."""
        return np.asarray(1 / (self.spectrum + self.total * lam))

    def energy(self, lam: float) -> Array:
        """Return ``s / (s + N lam)^2 / N`` (p,).

        Its product with the squared norms of the rows of ``G'WE`` is the mean over rows of ``|a(x)'E|^2``.
        """
        return np.asarray(self.spectrum * self.shrinkage(lam) ** 2 / self.total)

    def effective_rows(self, x: Array, lam: float) -> Array:
        """Return ``(a(x)'k(x) / k(x, x))^2 / sum_i a_i(x)^2`` (n,): the support of inputs (n, d).

        As `Result.effective_rows`, with the coefficients of this smoother.
        """
        shrunk = self.coordinates(x) * self.shrinkage(lam)
        explained = np.einsum("np,np->n", self.coordinates(x), shrunk * self.spectrum)
        if self.squared is None:
            squares = np.square(shrunk) @ self.spectrum
        else:
            z = times(shrunk, self.vectors[:, self.significant].T)
            squares = np.einsum("nm,nm->n", times(z, self.squared), z)
        diagonal = self.smoother.diagonal(x)
        share = np.divide(explained, diagonal, out=np.zeros(len(x)), where=diagonal > 0)
        return np.divide(share**2, squares, out=np.zeros(len(x)), where=squares > 0)

    def effective_dimension(self, lam: float) -> float:
        """Return ``tr H = sum s / (s + N lam)``."""
        return float((self.spectrum * self.shrinkage(lam)).sum())
