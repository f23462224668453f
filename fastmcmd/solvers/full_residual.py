"""The rigorous certificate of the low-rank solver from the residuals of all rows, by one product with K.

With the coefficients B of all rows, ``R = P - (K + D) B = F W - K B``. The error at x is at most
``sqrt(k(x, x)) / 2 ||D^(-1/2) R||_2`` plus what the features miss at x itself, ``|e(x)'B| <=
sqrt(e(x, x) T)`` with ``T = ||B'E B||_2``, and ``B'E B = -B'R`` up to rounding. At row i of the sample
``|e(x)'B| = |R_i|``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.backends.tall_skinny import inner
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.solvers.base import scaled_norm
from fastmcmd.solvers.certify import rounding
from fastmcmd.solvers.lowrank import LowRankSolution, RowErrors

__all__ = ["certified_by_all", "full_residual_bytes"]

_UNIT = float(np.finfo(np.float64).eps) / 2
_ARRAYS = 5  # (n, c) in float64: coefficients, their image, their product with K, and temporaries


def full_residual_bytes(n: int, columns: int) -> int:
    """Return the memory of the coefficients and residuals of all rows."""
    return 8 * n * (_ARRAYS * columns + 4)


def certified_by_all(
    operator: GramOperator,
    solutions: Sequence[LowRankSolution],
    terms: Sequence[tuple[slice, float]],
    value: Array,
    image: Array,
    weight: Array | None,
    total: float,
) -> list[LowRankSolution]:
    """Return solutions with rigorous certificates.

    Parameters
    ----------
    operator : GramOperator
        K in float64.
    solutions : sequence of LowRankSolution
        By the trace certificate, with rounding.
    terms : sequence of (slice, float)
        Columns and regulariser of each.
    value, image : ndarray (n, c)
        Coefficients ``B = D^-1 (P - F W)``, and ``F W``.
    weight : ndarray (n,) or None
        Weights of the rows.
    total : float
        Their sum.
    """
    if operator.holds_rows:
        points = operator.points()
        product = operator.backend.symmetric_matmul(operator.kernel, points, value)
    else:
        product = operator.cross_matmul(operator.x, value, EXACT)
    operator.release()
    certified = []
    for solution, (columns, lam) in zip(solutions, terms, strict=True):
        own = np.ascontiguousarray(value[:, columns])
        seen = image[:, columns]
        residual = seen - product[:, columns]
        inverse = np.full(len(own), 1.0 / (total * lam))  # of D
        if weight is not None:
            inverse *= weight
        entry = rounding(operator, own)
        # What float64 hides of the residual: in K B, and in P - D B = F W.
        size = np.sqrt(np.einsum("ij,ij->i", seen, seen))
        energy = np.einsum("ij,ij->i", own, own)
        operands = float(np.sqrt(inverse @ size**2))
        positive = inverse > 0
        operands += float(np.sqrt((energy[positive] / inverse[positive]).sum()))
        noise = entry * float(np.sqrt(inverse.sum())) + 6 * _UNIT * operands
        shift = np.where(positive, 1.0 / np.where(positive, inverse, 1.0), np.inf)
        norm = scaled_norm(residual, shift) + noise
        moment = inner(own, residual)
        moment = (moment + moment.T) / 2
        inside = float(np.abs(np.linalg.eigvalsh(moment)).max(initial=0.0))
        inside = inside * (1 + 1e-12) + solution.energy * (noise + solution.hidden)
        certified.append(
            replace(
                solution,
                slope=norm / 2 + solution.left,
                miss=min(solution.miss, float(np.sqrt(inside))),
                kind="rigorous",
                rows=RowErrors(
                    norm / 2,
                    solution.constant + entry + 6 * _UNIT * float(size.max(initial=0.0)),
                    np.sqrt(np.einsum("ij,ij->i", residual, residual)),
                ),
            )
        )
    return certified
