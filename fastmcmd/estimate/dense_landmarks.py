"""The dense form at an input kernel of low rank: no solve at the evaluation points.

Landmarks of the inputs give features F (n, r) with ``K = F F' + E``, E positive semi-definite. Then the
coefficients at x are ``Z g`` with ``Z = D^-1 F``, ``g = (I + F' D^-1 F)^-1 f(x)``, and

    MCMD^2(x) = g' (Z' M Z) g

with the Gram matrix M of the differences of embeddings (`difference_gram`), whatever its rank.

What E adds: ``W (k - (K + D) a) = W Psi' (psi_x - Psi a)`` for the exact solution operator W, the
approximate coefficients a, and vectors psi whose inner products are E, at the inputs and at x. With
``tau^2 = sum_i E_ii / D_i`` and ``||D^(1/2) a|| <= sqrt(k(x, x)) / 2``, the error of MCMD(x) is at most

    sqrt(sum_i M_ii / D_i) tau (sqrt(E(x, x)) + tau sqrt(k(x, x)) / 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.blocks import row_blocks
from fastmcmd.backends import Backend
from fastmcmd.backends.tall_skinny import cholesky_factor, product, roots_of_forms, substituted
from fastmcmd.embedding.bump_lattice import BumpLattice
from fastmcmd.embedding.difference_gram import DifferenceGram
from fastmcmd.embedding.features import output_features
from fastmcmd.embedding.panel_gram import PanelGram
from fastmcmd.embedding.sample import Sample
from fastmcmd.gram import EXACT, KernelFeatures
from fastmcmd.gram.cost import KernelMatrix
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT
from fastmcmd.rows import Rows
from fastmcmd.solvers.costs import EXACT_COST, PAIR_COST, exact_cost

__all__ = [
    "DenseLandmarks",
    "Differences",
    "InputFeatures",
    "input_features",
    "most_input_landmarks",
]

_AIM = 0.7  # share of the tolerance that the landmarks are chosen for
_LEAST_EPS = 1e-14  # residual of landmarks, relative to the largest k(x, x), that rounding allows
_POINTS = 1024  # evaluation points at once
_COMPARED = 128  # points whose kernel values with all inputs are in memory at once
_RANKS = range(100, 2001, 50)  # numbers of landmarks that are weighed up


InputFeatures = tuple[KernelFeatures, Array, Array]
Differences = DifferenceGram | BumpLattice | PanelGram


def most_input_landmarks(
    matrix: KernelMatrix, points: int, budget: int | None = None, pairs: float = 0.0
) -> int:
    """Return the number of landmarks up to which they take less time than half of the exact solves.

    Parameters
    ----------
    matrix : KernelMatrix
        Costs of the matrix of the inputs.
    points : int
        Number of evaluation points.
    budget : int, optional
        Bytes for matrices; None if that does not matter yet.
    pairs : float
        Cost of the kernel values between the outputs of all inputs, in float32 operations, if exact solves
        do without; 0 if both need them.
    """
    n, most = matrix.size, 0
    limit = exact_cost(matrix, points) + EXACT_COST * points * n**2
    for rank in _RANKS:
        cost = EXACT_COST * (n**2 * rank + pairs / 2 + 4 * PAIR_COST * (n + points) * rank**2)
        fits = budget is None or 8 * rank * (5 * n + 6 * rank + 2 * _POINTS) <= budget
        if rank <= n // 3 and 2 * cost <= limit and fits:
            most = rank
    return most


def input_features(
    side: Sample, backend: Backend, kernel: Kernel, largest: float, tol: float, most: int
) -> InputFeatures | None:
    """Return features of a sample's inputs, their values F (n, r) and residuals (n,); None beyond ``most``.

    ``largest`` is the largest ``k_Y``.
    """
    if isinstance(side.design.x, Rows):
        return None
    x = np.asarray(side.design.x, dtype=np.float64)
    largest_x = float(kernel.diagonal(x).max())
    if not (0 < largest_x < math.inf and 0 < largest < math.inf):
        return None
    weight = float((1 / side.shift).sum())
    # With all residuals equal to e: 2 sqrt(k_Y weight) sqrt(weight e) (sqrt(e) + sqrt(weight e k) / 2).
    amplitude = 2 * math.sqrt(largest) * weight * (1 + math.sqrt(weight * largest_x) / 2)
    eps = max(_LEAST_EPS, _AIM * tol / amplitude / largest_x)
    # The bits of features do not depend on ``most``.
    return output_features(kernel, backend.directly(), x, eps, _RANKS[-1], stop=most)


@dataclass(frozen=True, eq=False)
class DenseLandmarks:
    """The dense form at landmarks of the inputs, ready for evaluation.

    Attributes
    ----------
    features : KernelFeatures
        Features f of the inputs.
    sample : Sample
        A sample with the inputs and D.
    gram : DifferenceGram, BumpLattice or PanelGram
        The matrix M.
    unit : float
        Rounding of a quadratic form of M relative to the squared 1-norm of what its coefficients spread
        over outputs.
    z : ndarray (n, r)
        ``D^-1 F``.
    factor : ndarray (r, r)
        Lower Cholesky factor of ``I + F' D^-1 F``.
    inner : ndarray (r, r)
        ``Z' M Z``.
    spread : float
        Bound on ``sqrt(sum_i M_ii / D_i)``.
    tau : float
        ``sqrt(sum_i E_ii / D_i)``.
    weight : float
        ``sum_i k(x_i, x_i) / D_i``.
    size : float
        ``sum_i s_i |z_i|`` with the 1-norm s of what each input spreads over outputs.
    """

    features: KernelFeatures
    sample: Sample
    gram: Differences
    unit: float
    z: Array
    factor: Array
    inner: Array
    spread: float
    tau: float
    weight: float
    size: float

    @staticmethod
    def of(
        features: KernelFeatures,
        f: Array,
        residuals: Array,
        sample: Sample,
        gram: Differences,
        unit: float,
    ) -> DenseLandmarks:
        """Return the form of features ``f`` (n, r) of the inputs, with their residuals (n,)."""
        shift = sample.shift
        z = f / shift[:, None]
        system = product(f, z, transposed=True)
        weight = float(system.trace() + (residuals / shift).sum())
        system = (system + system.T) / 2
        system.ravel()[:: len(system) + 1] += 1.0
        inner, diagonal = gram.inner_products(z)
        norms = np.sqrt(np.maximum(diagonal, 0.0) + unit * gram.sizes**2)
        norms += gram.feature_error * math.sqrt(gram.largest) * gram.sizes
        square = float((norms**2 / shift).sum())
        return DenseLandmarks(
            features, sample, gram, unit, z, cholesky_factor(system), inner,
            math.sqrt(square), math.sqrt(float((residuals / shift).sum())), weight,
            float(gram.sizes @ np.sqrt(np.einsum("ij,ij->i", z, z))),
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices, and of a block of points."""
        n, rank = self.z.shape
        return 8 * rank * (3 * n + 3 * rank + 2 * _POINTS)

    def evaluate(self, grid: HostArray | Rows, underflow: float, tol: float) -> tuple[Array, Array]:
        """Return values (q,) and their error bounds (q,).

        ``underflow`` is the rounding of a quadratic form from numbers next to zero. Points that the first
        bounds leave above ``tol`` take their quadratic form from M itself, and what the landmarks miss from
        the inputs.
        """
        values, errors = np.empty(len(grid)), np.empty(len(grid))
        n, rank = self.z.shape
        # The product with Z' on either side adds sums over rows and over landmarks.
        inner_unit = self.unit + self.gram.largest * UNIT * (1100 + n / 128 + 4 * rank)
        for rows in row_blocks(len(grid), _POINTS):
            points = np.asarray(grid[rows], dtype=np.float64)
            f, squares = self.features.with_squares(points)
            missing = self.features.residuals_of(points, squares)
            scale = np.sqrt(squares + missing)
            g = self._solve(f)
            sizes = np.sqrt(np.einsum("ij,ij->j", g, g))
            left_out = self._truncation(scale, self.tau * np.sqrt(missing))
            rounded = self._system_rounding(sizes)
            forms = np.einsum("ij,ij->j", g, product(self.inner, g))
            value, rounding = roots_of_forms(
                (self.size * sizes)[None, :], forms, inner_unit, underflow
            )
            rounding += self.gram.feature_error * math.sqrt(self.gram.largest) * self.size * sizes
            short = np.flatnonzero(~(left_out + rounded <= tol))
            if len(short):
                cross = np.minimum(
                    self.tau * np.sqrt(missing[short]),
                    self._cross_residual(points[short], f[short]),
                )
                left_out[short] = self._truncation(scale[short], cross)
            short = np.flatnonzero(~(left_out + rounded + rounding <= tol))
            if len(short):
                value[short], rounding[short] = self._by_rows(g[:, short], sizes[short], underflow)
            values[rows], errors[rows] = value, left_out + rounded + rounding
        return values, errors

    def _solve(self, f: Array) -> Array:
        """Return g (r, q) of features f (q, r)."""
        half = substituted(self.factor, f.T)
        return substituted(self.factor, half, transposed=True)

    def _by_rows(self, g: Array, sizes: Array, underflow: float) -> tuple[Array, Array]:
        """Return values and bounds on their rounding from coefficients ``Z g`` (n, q) of all inputs."""
        value, rounding = self.gram.norms(product(self.z, g), self.unit, underflow)
        rank = len(g)
        return value, rounding + math.sqrt(self.gram.largest) * (
            rank + 8
        ) * UNIT * self.size * sizes

    def _cross_residual(self, points: Array, f: Array) -> Array:
        """Return ``|D^(-1/2) E(X, x)|`` (q,) of points with features f (q, r), and its rounding.

        Far from all inputs it is zero, where the bound ``tau sqrt(E(x, x))`` is largest.
        """
        design, backend = self.sample.design, self.features.backend
        shift, x = self.sample.shift, np.asarray(design.x, dtype=np.float64)
        squares = np.empty(len(points))
        for rows in row_blocks(len(points), _COMPARED):
            cross = backend.gram(
                self.features.kernel, backend.points(x, EXACT), backend.points(points[rows], EXACT)
            )
            cross = cross - shift[:, None] * product(self.z, np.ascontiguousarray(f[rows].T))
            squares[rows] = np.einsum("ij,ij,i->j", cross, cross, 1 / shift)
        scale = np.sqrt(self.features.diagonal(points))
        rounding = (self.features.noise + 4 * UNIT) * math.sqrt(self.weight) * scale
        return np.asarray(np.sqrt(squares) + rounding)

    def _truncation(self, scale: Array, cross: Array) -> Array:
        """Return the error (q,) that E leaves, and rounding of features, for ``sqrt(k(x, x))`` (q,).

        ``cross`` is ``|D^(-1/2) E(X, x)|`` (q,).
        """
        left_out = cross + self.tau**2 * scale / 2
        rounded = self.features.noise * (math.sqrt(self.weight) + self.weight / 2) * scale
        return np.asarray(self.spread * (left_out + rounded))

    def _system_rounding(self, sizes: Array) -> Array:
        """Return the error (q,) from rounding of the system and its solution, of norm ``sizes`` (q,).

        The computed g solves a system off by at most ``gamma tr(C)`` (Higham, *Accuracy and Stability of
        Numerical Algorithms*, theorem 10.4), and ``||D^(-1/2) F C^-1|| <= 1 / 2``.
        """
        n, rank = self.z.shape
        gamma = UNIT * (4 * rank + 520 + n / 128)
        return np.asarray(self.spread / 2 * gamma * (rank + self.weight) * sizes)
