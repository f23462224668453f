"""Sizes of the terms that rows of ``K B`` have from other rows, without cancellation.

Where coefficients alternate in a cluster the terms cancel, and their rounding does not. The expected square
of a row of K times a column of ``|B_i|`` with random signs is ``sum_j K_ij^2 |B_j|^2``. A few such columns
beside those of a product of the iteration estimate it at little cost.
"""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import beside, row_squares, scaled
from fastmcmd.gram import GramOperator

__all__ = ["SIGNED_COLUMNS", "measured_squares", "signed_columns", "squares_of_terms"]

SIGNED_COLUMNS = 4


def signed_columns(value: Array) -> Array:
    """Return columns (n, 4) of the sizes of the rows of ``value`` (n, r), with random signs."""
    n = len(value)
    signs = generator(n, Purpose.PROBE).choice([-1.0, 1.0], (n, SIGNED_COLUMNS))
    return np.asarray(np.sqrt(row_squares(value))[:, None] * signs)


def squares_of_terms(diagonal: Array, signed: Array, product: Array) -> Array:
    """Return estimates (n,) of ``4 sum_j K_ij^2 |B_j|^2`` over other rows j.

    ``product`` (n, 4) is K times the columns ``signed``.
    """
    return row_squares(scaled(-diagonal, signed, base=product))


def measured_squares(operator: GramOperator, values: list[Array]) -> list[Array]:
    """Return `squares_of_terms` of each of the ``values``, by a product of its own."""
    diagonal = np.maximum(operator.diagonal, 0.0)
    signed = [signed_columns(value) for value in values]
    products = np.split(operator.matmul(beside(signed)), len(signed), axis=1)
    return [squares_of_terms(diagonal, *pair) for pair in zip(signed, products, strict=True)]
