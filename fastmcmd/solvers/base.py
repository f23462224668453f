"""Inputs and outputs of solvers: systems, solutions, certificates.

A system is ``(K + D) B = P`` with a positive diagonal ``D``. If an approximation ``B~`` has the residual
``R = P - (K + D) B~``, the error of the answer at x is at most::

    ||k(x)' (B - B~)|| = ||k(x)' (K + D)^-1 R|| <= sqrt(k(x, x)) / 2 * ||D^(-1/2) R||_2

With ``K~ = D^(-1/2) K D^(-1/2)`` and ``D^(-1/2) k(x) = K~^(1/2) u``, ``||u||^2 <= k(x, x)``, this is
``||(K~ + I)^-1 K~^(1/2)|| <= max_s s / (s^2 + 1) = 1/2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.tall_skinny import eigh, inner

__all__ = [
    "Certificate", "CertificateKind", "Goal", "Solution", "System", "by_diagonal", "scaled_norm",
]  # fmt: skip

CertificateKind = Literal["rigorous", "sampled"]


@dataclass(frozen=True, eq=False)
class System:
    """Right-hand sides P (n, r) and the diagonal D (n,) of one regularised system."""

    rhs: NDArray[np.float64]
    shift: NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """Bound on the distance of a solution from the exact one.

    Attributes
    ----------
    residual : float
        Bound on ``||D^(-1/2) R||_2`` that includes the rounding of the residual.
    value : float
        Bound on the rounding error of a row of ``K B~`` as the solver returns it.
    kind : str
        "rigorous", or "sampled" if the residual was estimated from some rows.
        ``tests/adversary/sampled.py`` checked 106 sampled bounds at 2,000 rows, and the error exceeded none
        of them: at 95 % confidence a bound fails on fewer than 2.8 % of such problems; see docs/theory.md.
    rounding : float
        The part of ``residual`` that bounds the certificate's own rounding: no better solution reduces it.
    """

    residual: float
    value: float
    kind: CertificateKind
    rounding: float = 0.0

    def error(self, scale: float) -> float:
        """Bound the error at points with ``sqrt(k(x, x)) <= scale``."""
        return scale / 2 * self.residual + self.value


@dataclass(frozen=True)
class Goal:
    """The accuracy that a solver must reach.

    Attributes
    ----------
    error : float
        Largest error that the certificate of a system may leave in the answer.
    scale : float
        Twice the factor that turns scaled residuals into errors of the answer, such as ``sqrt(k(x, x))``.
    """

    error: float
    scale: float

    @property
    def residual(self) -> float:
        """Scaled residual at which iterations end: half of the error; the other half is for rounding."""
        return self.error / max(self.scale, 1e-300)

    def out_of_reach(self, certificate: Certificate) -> bool:
        """Tell whether rounding alone exceeds the goal and makes up most of the certified error."""
        rounding = self.scale / 2 * certificate.rounding + certificate.value
        return rounding > self.error and certificate.error(self.scale) <= 2 * rounding

    def miss(self, certificate: Certificate) -> float:
        """Return the certified error relative to the goal; at most 1 if the goal is met."""
        return float(certificate.error(self.scale)) / max(self.error, 1e-300)


@dataclass(frozen=True, eq=False)
class Solution:
    """Approximate solution ``B~`` (n, r), its image ``K B~`` (n, r) and its certificate."""

    value: NDArray[np.float64]
    image: NDArray[np.float64]
    certificate: Certificate


def by_diagonal(systems: list[System]) -> list[list[int]]:
    """Return the indices of the systems, grouped by equal diagonals: systems of a group share a matrix."""
    groups: list[list[int]] = []
    for number, system in enumerate(systems):
        for group in groups:
            if np.array_equal(systems[group[0]].shift, system.shift):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def scaled_norm(residual: NDArray[np.float64], shift: NDArray[np.float64]) -> float:
    """Return ``||D^(-1/2) R||_2``, or infinity if it overflows."""
    gram = inner(residual, residual, scale=1.0 / shift)
    if not np.isfinite(gram).all():
        return float("inf")
    return float(np.sqrt(max(0.0, eigh(gram, vectors=False)[0][-1])))
