"""Output kernels that jump at 0: `Cosine` of numbers is the product of their signs.

Quadrature does not detect a jump inside a panel, nor does the difference of two rules that share it. The
part of a kernel that depends on signs alone has an expectation in closed form, ``E sign(Y) = 1 - 2 F(0)``.
For the other parts, the error of a rule with positive weights is at most the weight of the nodes on either
side of the jump (the inequality of Chebyshev, Markov and Stieltjes; Szegő, *Orthogonal Polynomials*,
section 3.41).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel, Sum
from fastmcmd.predictive import Predictive

__all__ = ["SignPart", "jump_error"]

_NEAR = 1e-30  # distance from 0 of the numbers just above and just below it
_BOTH = np.array([[1.0], [-1.0]])


@dataclass(frozen=True, eq=False)
class SignPart:
    """The part of a kernel that depends on the signs of two numbers, at the pivots of features.

    Attributes
    ----------
    direction : ndarray (r,)
        Features of that part: ``E sign(Y)`` times these is its contribution to the expected features.
    other_jump : float
        Norm of the jump at 0 of the other parts.
    """

    direction: Array
    other_jump: float

    @staticmethod
    def of(features: KernelFeatures, prediction: Predictive) -> SignPart | None:
        """Return the part, or None if the kernel does not jump or outputs are not numbers."""
        kernel = features.kernel
        if prediction.columns != 1 or not kernel.divides_by_norms:
            return None
        column, jump = np.zeros(features.rank), 0.0
        for part in _summands(kernel):
            if prediction.atomless and part.scale_free:
                at = part(features.pivots, _BOTH)
                column += (at[:, 0] - at[:, 1]) / 2
            else:
                jump += _jump(part)
        return SignPart(features.solve(column[:, None])[:, 0], jump)

    def correct(self, prediction: Predictive, values: Array, weights: Array, means: Array) -> Array:
        """Correct means (n, r) in place by the closed form; return a bound (n,) for the other jumps."""
        if self.direction.any():
            exact = 1 - 2 * prediction.cdf(np.zeros(len(prediction)))
            signed = np.einsum("nl,nl->n", weights, np.sign(values))
            means += np.multiply.outer(exact - signed, self.direction)
        return self.other_jump * _weight_at_zero(values, weights)


def jump_error(kernel: Kernel, values: Array, weights: Array) -> Array:
    """Return a bound (n,) on the error of nodes (n, l) due to a jump of the kernel at 0."""
    if not kernel.divides_by_norms:
        return np.zeros(len(values))
    return _jump(kernel) * _weight_at_zero(values, weights)


def _summands(kernel: Kernel) -> Iterator[Kernel]:
    if isinstance(kernel, Sum):
        yield from _summands(kernel.left)
        yield from _summands(kernel.right)
    else:
        yield kernel


def _jump(kernel: Kernel) -> float:
    """Return the distance, in the norm of the kernel, between numbers just above and just below 0."""
    square = kernel(_NEAR * _BOTH, _NEAR * _BOTH)
    return float(np.sqrt(max(float(square[0, 0] + square[1, 1] - 2 * square[0, 1]), 0.0)))


def _weight_at_zero(values: Array, weights: Array) -> Array:
    """Return the weight (n,) of the nodes next to 0 on both sides; 0 if all are on one side."""
    rows = np.arange(len(values))
    some = weights > 0
    below = np.where(some & (values <= 0), values, -np.inf)
    above = np.where(some & (values > 0), values, np.inf)
    low, high = below.argmax(axis=1), above.argmin(axis=1)
    inside = np.isfinite(below[rows, low]) & np.isfinite(above[rows, high])
    return np.where(inside, weights[rows, low] + weights[rows, high], 0.0)
