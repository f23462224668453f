"""Scores and tails of normal, logistic and Laplace distributions, and of parts of them, in closed form.

The formulas are loops of the core (csrc/loops/closed_scores.h).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows

__all__ = ["LineFamily", "line_scores", "line_tails", "piece_scores", "piece_sums"]

_STEP = 1 << 13  # rows per block


class LineFamily(IntEnum):
    """Families of symmetric distributions on the line, as the core numbers them."""

    NORMAL = 0
    LOGISTIC = 1
    LAPLACE = 2


def line_scores(family: LineFamily, y: Array, loc: Array, scale: Array) -> Array:
    """Return continuous ranked probability scores in the shape of ``loc``."""
    (scores,) = _by_core(lambda *one: _core.line_scores(family, *one), 1, y, loc, scale)
    return scores


def line_tails(family: LineFamily, y: Array, loc: Array, scale: Array) -> tuple[Array, Array]:
    """Return P(Y <= y) and P(Y > y) in the shape of ``loc``; small ones keep all their digits."""
    below, above = _by_core(lambda *one: _core.line_tails(family, *one), 2, y, loc, scale)
    return below, above


def piece_scores(family: LineFamily, *values: Array) -> Array:
    """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over intervals; NaN where digits are lost.

    Parameters
    ----------
    family : LineFamily
        Family of the distribution B to which F is proportional.
    *values : ndarray (n,)
        y, location and scale of B, lower and upper ends, F before the lower end and 1 - F at the upper
        end. Between the ends, F is ``below + (1 - below - above) P(low < B <= t) / P(low < B <= high)``.
    """
    (scores,) = _by_core(lambda *one: _core.piece_scores(family, *one), 1, *values)
    return scores


def piece_sums(
    z: Array,
    gaps: Array,
    tails: Array,
    means: Array,
    squares: Array,
    total: Array,
    below: Array,
    above: Array,
) -> Array:
    """Return `piece_scores` (n,) of any distribution that is symmetric around 0, from its tails.

    Parameters
    ----------
    z : ndarray (n, 3)
        Lower end, outcome clipped to the interval, and upper end.
    gaps : ndarray (n, 2)
        Their differences, from unrounded numbers.
    tails, means : ndarray (n, 3)
        Masses beyond ``|z|``, and integrals of ``t f(t)`` there.
    squares : ndarray (n, 2)
        Integrals of ``2 f(t) mean(t)`` beyond the sizes of both ends.
    total : ndarray (n,)
        These integrals over the line.
    below, above : ndarray (n,)
        F before the lower end, and 1 - F at the upper end.
    """
    sums = np.empty(len(z))
    _core.piece_sums(z, gaps, tails, means, squares, total, below, above, sums)
    return sums


def _by_core(loop: Callable[..., None], count: int, *arrays: Array) -> list[Array]:
    """Return what a loop of the core writes to ``count`` arrays, in blocks of rows."""
    shape = np.broadcast_shapes(*(np.shape(one) for one in arrays))
    flat = [np.broadcast_to(np.asarray(one, dtype=np.float64), shape).ravel() for one in arrays]
    results = [np.empty(flat[0].size) for _ in range(count)]

    def work(rows: slice) -> None:
        loop(*(one[rows] for one in flat), *(one[rows] for one in results))

    over_rows(work, flat[0].size, _STEP)
    return [one.reshape(shape) for one in results]
