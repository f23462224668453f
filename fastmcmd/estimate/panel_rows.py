"""Mean features on panels of the line, block by block, in few columns.

There are hundreds of features, of which some forty directions matter (`leading_columns`). For many rows,
arrays of all features take longer to fill than to compute. So some rows choose the directions. Then each
block of rows is computed and projected; what the directions omit is measured in every row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows
from fastmcmd.backends.tall_skinny import row_squares, times
from fastmcmd.embedding.line import LineFeatures, RowMeans
from fastmcmd.embedding.line_table import LineTable
from fastmcmd.estimate.leading_columns import leading_columns, omissible, omitted_squares
from fastmcmd.estimate.task import Task

__all__ = ["LEAST_ROWS", "PanelRows", "panel_rows"]

Index = NDArray[np.intp]

LEAST_ROWS = 4000  # fewer rows take as long at once
_SOME, _AT_ENDS = 3000, 500  # rows that choose directions; of these, beside them, at each end
_MARGIN = 0.3  # of what may be omitted, for the rows that choose
_ROUNDS, _MORE = 3, 500  # rounds, after each of which the worst rows help to choose
_VALUES = 1 << 18  # features of a block


@dataclass(frozen=True, eq=False)
class PanelRows:
    """Differences of mean features in few columns, and what is known of each row.

    Attributes
    ----------
    rows : ndarray (n, c)
        Features of outputs less expected features, in the basis.
    basis : ndarray (r, c)
        Directions of the features.
    omitted : float
        Weighted norm of what the basis omits.
    residuals : ndarray (n,)
        Norm of what features omit of each output.
    errors : ndarray (n,)
        Errors of the expected features.
    squares, expected_squares : ndarray (n,)
        Squared norms of the differences, and of the expected features.
    """

    rows: Array
    basis: Array
    omitted: float
    residuals: Array
    errors: Array
    squares: Array
    expected_squares: Array


def panel_rows(
    features: LineFeatures, y: Array, means: RowMeans, weight: Array, task: Task
) -> PanelRows | None:
    """Return the rows of outputs (n,) less means, or None if many columns are needed.

    ``weight`` (n,) is ``1 / D`` of each row.
    """
    n, at = len(y), _some_rows(y)
    order, table = np.argsort(y, kind="stable"), LineTable.of(features, y)
    share = np.full(len(at), n / len(at))
    for _ in range(_ROUNDS):
        p = features.transform(y[at, None])
        residual = math.sqrt(
            float(np.einsum("i,i->", features.residuals(y[at, None], p), weight[at] * share))
        )
        limit = omissible(task.options.tol, task.scale, residual)
        leading = leading_columns([p - means(at)[0]], [weight[at] * share], _MARGIN * limit)
        if leading is None:
            return None
        projection = _projected(table, y, order, means, weight, leading.basis)
        if projection.omitted <= limit:
            return projection
        square = weight * np.maximum(projection.squares - row_squares(projection.rows), 0.0)
        worst = np.setdiff1d(np.argpartition(square, -_MORE)[-_MORE:], at)
        at, share = np.append(at, worst), np.append(share, np.ones(len(worst)))
    return None


def _some_rows(y: Array) -> Index:
    """Return rows that are evenly spaced, and those with the smallest and the largest outputs."""
    n = len(y)
    rows = np.linspace(0, n - 1, min(n, _SOME)).astype(np.intp)
    order = np.argpartition(y, (_AT_ENDS, n - 1 - _AT_ENDS))
    return np.unique(np.concatenate([rows, order[:_AT_ENDS], order[-_AT_ENDS:]]))


def _projected(
    table: LineTable, y: Array, order: Index, means: RowMeans, weight: Array, basis: Array
) -> PanelRows:
    """Return all rows, projected on a basis; ``order`` sorts the outputs."""
    n, transposed = len(y), np.ascontiguousarray(basis.T)
    rows, of_row = np.empty((n, basis.shape[1])), np.empty((5, n))
    residuals, errors, squares, expected_squares, omitted = of_row

    def work(block: slice) -> None:
        at = order[block]  # of neighbouring outputs, for the table
        p, residual = table.at(y[at])
        mean, errors[at] = means(at)
        residuals[at] = np.sqrt(residual)
        expected_squares[at] = row_squares(mean)
        p -= mean
        squares[at] = row_squares(p)
        image = times(p, basis)
        rows[at], omitted[at] = image, omitted_squares(p, image, transposed)

    over_rows(work, n, max(1, _VALUES // table.features.rank))
    norm = math.sqrt(float(np.einsum("i,i->", omitted, weight)))
    return PanelRows(rows, basis, norm, residuals, errors, squares, expected_squares)
