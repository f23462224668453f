"""Images and bounds from the kernel values with all rows, at points that are unlike the inputs.

A bound that holds at every point x takes ``||D^(1/2) a(x)|| <= sqrt(k(x, x)) / 2`` for the coefficients
``a(x) = (K + D)^-1 k(x)``. Far from all inputs they vanish. Since ``D^(1/2) (K + D)^-1 D^(1/2)`` has no
eigenvalue above 1,

    ||D^(1/2) a(x)|| <= ||D^(-1/2) k(x)||,

and a bound in proportion to ``sqrt(k(x, x))`` also holds in proportion to ``2 ||D^(-1/2) k(x)||``.

Landmarks that represent all rows may miss a point of another place. The image there is ``k(x)'B`` itself,
with the coefficients ``B = D^-1 (P - F W)`` of all rows. Its error is at most
``||D^(1/2) a(x)|| ||D^(-1/2) (P - (K + D) B)||``, whatever the landmarks miss of ``k(x, x)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd.gram import EXACT, GramOperator, shared_row_statistics
from fastmcmd.gram.cost import KernelMatrix
from fastmcmd.rows import Rows
from fastmcmd.solvers.certify import rounding

if TYPE_CHECKING:
    from fastmcmd.estimate.lowrank import LowRankPart

__all__ = [
    "RowImages", "coefficient_norms", "points_at_once", "row_images_cost", "row_images_of", "worthwhile",
]  # fmt: skip

_TRIAL = 256  # points of a trial, which shows whether the others are worth their kernel values
_LARGEST = 1e150  # largest kernel value whose square is a number
_LEAST_POINTS = 256


def row_images_cost(matrix: KernelMatrix, columns: int, points: float) -> float:
    """Return the cost of images from all rows, in float32 operations of a product."""
    return 2 * points / matrix.size * matrix.streamed_cost(columns, exact=True)


def worthwhile(
    above: NDArray[np.intp], reaches: Callable[[NDArray[np.intp]], NDArray[np.bool_]]
) -> bool:
    """Tell whether a trial at some of the points ``above`` it reaches the tolerance at half of them.

    A bound that is large for another reason then takes no time at the others.
    """
    if len(above) <= _TRIAL:
        return True
    some = above[np.linspace(0, len(above) - 1, _TRIAL).astype(np.intp)]
    return bool(reaches(some).mean() >= 0.5)


def coefficient_norms(
    operator: GramOperator, inverse: Array, points: HostArray | Rows
) -> tuple[Array, float]:
    """Return ``||D^(-1/2) k(x)||^2`` (q,) at points (q, d), and a bound on its rounding.

    ``inverse`` (n,) is the diagonal of ``D^-1`` over the operator's rows.
    """
    if not operator.largest(points) < _LARGEST:
        return np.full(len(points), np.inf), 0.0
    square = GramOperator(
        operator.backend, operator.kernel * operator.kernel, operator.x, EXACT, operator.budget
    )
    column = np.ascontiguousarray(inverse[:, None], dtype=np.float64)
    values = square.cross_matmul(points, column, EXACT)[:, 0]
    return np.maximum(values, 0.0), rounding(square, column, points)


@dataclass(frozen=True, eq=False)
class RowImages:
    """Images at points from all rows.

    Attributes
    ----------
    image : ndarray (q, c)
        ``K(points, X) B``.
    scale : ndarray (q,)
        Bound on ``2 ||D^(1/2) a(x)||``, to be taken in place of a larger ``sqrt(k(x, x))``.
    rounding : ndarray (q,)
        Bound on the rounding of the image.
    """

    image: Array
    scale: Array
    rounding: Array


def row_images_of(part: LowRankPart, points: HostArray, step: int) -> RowImages:
    """Return images at points (q, d) by a pass over the rows of a part in blocks of ``step``."""
    features, lam = part.features, min(term.lam for term in part.terms)
    image = np.zeros((len(points), part.solutions[0].weights.shape[1]))
    squares, rounded, square_rounded = np.zeros(len(points)), 0.0, 0.0
    with shared_row_statistics():
        for x, values, weight in part.coefficient_blocks(step):
            operator = GramOperator(features.backend, features.kernel, x, EXACT, 64 * x.nbytes)
            image += operator.cross_matmul(points, values, EXACT)
            rounded += rounding(operator, values, points)
            some, off = coefficient_norms(operator, weight / lam, points)
            squares += some
            square_rounded += off
    norms = np.sqrt(squares * (1 + 1e-9) + square_rounded)
    # The rounding of F W, divided by D: `k(x)' D^-1 r` with |r_i| <= off and sum 1 / D_i = 1 / lam.
    off = part.image_rounding / math.sqrt(lam)
    return RowImages(image, 2 * norms, rounded + norms * off)


def points_at_once(rank: int, rows: int, columns: int, dim: int) -> int:
    """Return the number of points whose images take no more memory than a pass of ``rows`` rows."""
    return max(_LEAST_POINTS, 2 * rank * rows // (3 * (columns + dim)))
