"""Normal equations at many landmarks, solved by iteration: no sum over the rows for each pair of landmarks.

With features f at p landmarks, ``F = f(X)`` and ``D = n lam``, the weights W solve ``H W = F' P / D`` with
``H = I + F' F / D``. Summing F'F takes n p^2 operations. A product with H takes two products with the n x p
kernel values instead. The same equations over some rows, drawn uniformly, are so close to H that each step
of preconditioned CG gains one or two digits, and a loose tolerance needs one to three steps.

H is at least I. So weights whose equations leave a residual r miss W by at most |r|, and their image at x
misses ``f(x)' W`` by at most ``sqrt(k(x, x)) |r|``: this decides when to stop, and residuals of the whole
system (`fastmcmd.estimate.loose_form`) certify the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd.backends.base import Backend, Points
from fastmcmd.backends.tall_skinny import cholesky_factor, substituted
from fastmcmd.gram import KernelFeatures
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.kernels import Kernel

__all__ = ["LandmarkEquations", "Weights", "features_at"]

_SHIFT = 1e-6  # relative shift of the diagonal of K(Z, Z), which is rounded to float32 elsewhere
_STEPS, _LEAST_GAIN = 4, 0.3  # steps of CG at most, and share of the residual that a step may leave
_LEAD = 320  # features that the preconditioner inverts; the rest of the kernel is small beside D


def features_at(
    kernel: Kernel, backend: Backend, landmarks: HostArray, offset: NDArray[np.float64] | None
) -> KernelFeatures | None:
    """Return features at landmarks (p, d), with a slightly larger diagonal; None if K(Z, Z) is singular."""
    points = backend.points(landmarks, np.float64, offset)
    matrix = np.array(backend.gram(kernel, points), dtype=np.float64)
    matrix[np.diag_indices(len(matrix))] *= 1 + _SHIFT
    try:
        factor = cholesky_factor(matrix)
    except np.linalg.LinAlgError:
        return None
    return KernelFeatures(kernel, landmarks, factor, backend, offset)


@dataclass(frozen=True, eq=False)
class Weights:
    """Approximate weights of the features, and what is known about them.

    Attributes
    ----------
    values : ndarray (p, c)
        W.
    image : ndarray (n, c)
        ``F W`` at all rows.
    products : int
        Number of products with the n x p kernel values.
    """

    values: Array
    image: Array
    products: int


class LandmarkEquations:
    """The normal equations at landmarks over unweighted rows.

    Parameters
    ----------
    features : KernelFeatures
        Features at the landmarks.
    points : Points
        All rows, in float32.
    some : ndarray (m, d)
        Rows drawn uniformly, for the preconditioner.
    lam : float
        Regulariser.

    Raises
    ------
    numpy.linalg.LinAlgError
        The equations over some rows are singular to rounding.
    """

    def __init__(
        self, features: KernelFeatures, points: Points, some: HostArray, lam: float
    ) -> None:
        self._features, self._points = features, points
        self._backend, self._kernel = features.backend, features.kernel
        self._landmarks = self._backend.points(features.pivots, FLOAT32, features.offset)
        self._shift = points.n * lam
        self._lead = min(features.rank, _LEAD)
        leading = features.leading(self._lead)
        values = leading.of_rows(some, FLOAT32, keep=True, sizes=False)[0].values
        matrix, cross = np.zeros((self._lead, self._lead)), np.zeros((self._lead, 1))
        self._backend.add_products(values, np.zeros((len(some), 1)), None, matrix, cross)
        matrix /= len(some) * lam
        matrix[np.diag_indices(self._lead)] += 1.0
        self._factor = cholesky_factor(matrix)

    def solve(self, sums: Array, enough: float) -> Weights | None:
        """Return weights for sums ``F' P / D`` (p, c), with a residual of about ``enough`` or less.

        Returns None if steps gain so little that other solvers cost less.
        """
        residual, products = sums, 0
        before = float(np.linalg.norm(residual))
        step = self._preconditioned(residual)
        size = np.einsum("ij,ij->j", residual, step)
        direction, weights = step, np.zeros_like(step)
        for _ in range(_STEPS):
            image = self._image(self._features.coefficients(direction))
            curved = self._adjoint(image) + direction
            products += 2
            curvature = np.einsum("ij,ij->j", direction, curved)
            length = size / np.where(curvature > 0.0, curvature, np.inf)
            weights = weights + length * direction
            residual = residual - length * curved
            norm = float(np.linalg.norm(residual))
            step = self._preconditioned(residual)
            size_before, size = size, np.einsum("ij,ij->j", residual, step)
            ratio = size / np.where(size_before > 0.0, size_before, np.inf)
            direction = step + ratio * direction
            if not norm * (norm / max(before, 1e-300)) > enough:
                # One step more, whose length is so close to 1 that it need not be measured.
                weights += direction
                image = self._image(self._features.coefficients(weights))
                return Weights(weights, image, products + 1)
            if norm > _LEAST_GAIN * before:
                return None
            before = norm
        return None

    def _image(self, coefficients: Array) -> Array:
        return self._backend.matmul(self._kernel, self._points, self._landmarks, coefficients)

    def _adjoint(self, values: Array) -> Array:
        """Return ``F' values / D`` (p, c)."""
        sums = self._backend.matmul(self._kernel, self._landmarks, self._points, values)
        return self._features.solve(sums) / self._shift

    def _preconditioned(self, residual: Array) -> Array:
        step = residual.copy()
        half = substituted(self._factor, residual[: self._lead])
        step[: self._lead] = substituted(self._factor, half, transposed=True)
        return step
