"""Few columns in the place of many: the leading directions of weighted rows.

The features of outputs have one coordinate for each direction in which *some* output lies. Outputs far out
in a tail hardly occur in the mean features of a row: 494 features of Student-t predictions vary along 45
directions, but for 1e-7 of their norm. A solve needs as many right-hand sides as there are directions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import row_blocks
from fastmcmd.backends.tall_skinny import eigh, inner, pivoted_basis, row_squares, times
from fastmcmd.kernels.base import UNIT

__all__ = ["LeadingColumns", "in_basis", "leading_columns", "omissible", "omitted_squares"]

# What columns may omit, which adds to squares: a share of the tolerance, or of the residual of the features
# up to so many tolerances.
_SHARE, _OF_RESIDUAL, _MOST_TOLERANCES = 0.2, 0.5, 50.0
_WORTH = 0.9  # share of the columns: more than these are not worth a rotation
_LEAST = 16  # columns that a product computes together
_PIVOTED = 0.25  # share of what may be omitted that the pivots omit
_ROUNDING = 64 * UNIT  # of a residual, relative to its column, below which it may be rounding alone
_ROWS = 1 << 14  # rows at a time whose rest is measured
_MOST = 256  # pivots, whose eigenvectors the core computes


@dataclass(frozen=True, eq=False)
class LeadingColumns:
    """Rows in the basis of their leading directions.

    Attributes
    ----------
    basis : ndarray (r, c)
        Orthonormal columns.
    rows : tuple of ndarray (n, c)
        The rows in this basis.
    omitted : float
        Norm of what the basis omits of the weighted rows, summed over the arrays of rows.
    """

    basis: Array
    rows: tuple[Array, ...]
    omitted: float


def omissible(tol: float, scale: float, residual: float = 0.0) -> float:
    """Return what columns may omit of the norm of rows, weighted with ``1 / D``.

    It adds to the square of a value. ``scale`` is the largest ``sqrt(k(x, x))`` at points, and ``residual``
    the weighted norm of what features leave out already.
    """
    one = 2.0 * tol / max(scale, 1e-300)
    return max(_SHARE * one, min(_OF_RESIDUAL * residual, _MOST_TOLERANCES * one))


def in_basis(p: Array, basis: Array | None) -> Array:
    """Return features (n, r) in the directions of a basis (r, c), or themselves without one."""
    return p if basis is None else times(p, basis)


def leading_columns(
    rows: Sequence[Array], weights: Sequence[Array], limit: float
) -> LeadingColumns | None:
    """Return rows in few columns, or None if that would omit more than ``limit`` or save little.

    Parameters
    ----------
    rows : sequence of ndarray (n, r)
        Arrays of rows.
    weights : sequence of ndarray (n,)
        Weights of their squares.
    limit : float
        Norm of the weighted rows that may be omitted.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(200, 40)) * 0.1 ** np.arange(40)
    >>> leading = leading_columns([rows], [np.ones(200)], 1e-6)
    >>> leading.basis.shape, leading.omitted < 1e-6
    ((40, 8), True)
    >>> np.allclose(leading.rows[0] @ leading.basis.T, rows, atol=1e-6)
    True
    """
    rank = rows[0].shape[1]
    if rank <= _LEAST:
        return None
    gram = np.zeros((rank, rank))
    for block, weight in zip(rows, weights, strict=True):
        gram += inner(block, block, scale=weight)
    part = limit / len(rows)
    basis = _basis(gram, part * part, min(int(_WORTH * rank), _MOST))
    if basis is None:
        return None
    images, omitted = tuple(times(block, basis) for block in rows), 0.0
    for block, image, weight in zip(rows, images, weights, strict=True):
        omitted += math.sqrt(_omitted_square(block, image, basis, weight))
    return LeadingColumns(basis, images, omitted) if omitted <= limit else None


def _omitted_square(rows: Array, image: Array, basis: Array, weight: Array) -> float:
    """Return the weighted sum of squares of ``rows - image basis'``."""
    total, transposed = 0.0, np.ascontiguousarray(basis.T)
    for some in row_blocks(len(rows), _ROWS):
        squares = omitted_squares(rows[some], image[some], transposed)
        total += float(np.einsum("i,i->", squares, weight[some]))
    return total


def omitted_squares(rows: Array, image: Array, transposed: Array) -> Array:
    """Return ``|row - basis image|^2`` (n,) of rows (n, r) with images (n, c) in a ``transposed`` basis."""
    return row_squares(times(image, transposed, base=rows, sign=-1.0))


def _basis(gram: Array, omissible_trace: float, most: int) -> Array | None:
    """Return an orthonormal basis that omits about ``omissible_trace`` of the trace of ``gram``.

    Returns None if it would have more than ``most`` columns.
    """
    # Entries of the matrix are accurate relative to their columns. So columns that are small, those of
    # tails, are distinguished from rounding far below the rounding of the largest.
    pivots = pivoted_basis(gram, _PIVOTED * omissible_trace, min(len(gram), _MOST), _ROUNDING)
    if pivots is None:
        return None
    values, vectors = eigh(inner(pivots, times(gram, pivots)))
    tails = np.cumsum(np.maximum(values, 0.0)) + len(values) * UNIT * float(values[-1])
    first = int(np.searchsorted(tails[:-1], (1.0 - _PIVOTED) * omissible_trace, side="right"))
    if len(values) - first > most:
        return None
    return times(pivots, np.ascontiguousarray(vectors[:, first:][:, ::-1]))
