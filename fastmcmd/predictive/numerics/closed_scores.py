"""Closed forms of the CRPS on intervals, and of scores and tails of symmetric distributions.

The CRPS is the integral of ``(F(t) - 1{t >= y})^2``. For censored, truncated and two-piece distributions, F
is proportional to the cdf of another distribution on each of several intervals. The formulas of normal,
logistic and Laplace distributions are loops of the core (csrc/loops/closed_scores.h).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows

__all__ = [
    "CDFPiece",
    "SymmetricFamily",
    "constant_scores",
    "exponential_scores",
    "linear_scores",
    "mass_between",
    "piece_scores",
    "piece_sums",
    "scores_with_distance",
    "supported_scores",
    "symmetric_scores",
    "symmetric_tails",
]

_STEP = 1 << 13  # rows per block


class SymmetricFamily(IntEnum):
    """Families of distributions that are symmetric around their location, as the core numbers them."""

    NORMAL = 0
    LOGISTIC = 1
    LAPLACE = 2


class CDFPiece(NamedTuple):
    """Intervals on which a cdf F rises in proportion to the cdf of a distribution B.

    On it, F(t) is ``below + rise P(low < B <= t) / P(low < B <= high)``.

    Attributes
    ----------
    low, high : ndarray (n,)
        Ends, infinite where there is none.
    below, rise, above : ndarray (n,)
        F at the lower end, its rise, and 1 - F at the upper end. Their sum is 1. All three are given, so
        that small ones keep their digits.
    """

    low: Array
    high: Array
    below: Array
    rise: Array
    above: Array


def symmetric_scores(family: SymmetricFamily, y: Array, loc: Array, scale: Array) -> Array:
    """Return continuous ranked probability scores in the shape of ``loc``."""
    (scores,) = _by_core(_core.symmetric_scores, family, 1, y, loc, scale)
    return scores


def symmetric_tails(
    family: SymmetricFamily, y: Array, loc: Array, scale: Array
) -> tuple[Array, Array]:
    """Return P(Y <= y) and P(Y > y) in the shape of ``loc``; small ones keep all their digits."""
    below, above = _by_core(_core.symmetric_tails, family, 2, y, loc, scale)
    return below, above


def piece_scores(
    family: SymmetricFamily, y: Array, loc: Array, scale: Array, piece: CDFPiece
) -> Array:
    """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece; NaN where digits are lost."""
    (scores,) = _by_core(_core.piece_scores, family, 1, y, loc, scale, *piece)
    return scores


def piece_sums(
    z: Array, gaps: Array, tails: Array, means: Array, squares: Array, total: Array, piece: CDFPiece
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
        These integrals over the whole line.
    piece : CDFPiece
        The interval, and the masses below, in and above it.
    """
    sums = np.empty(len(z))
    _core.piece_sums(z, gaps, tails, means, squares, total, *piece[2:], sums)
    return sums


def supported_scores(
    y: Array, piece: CDFPiece, low: Array, high: Array, scores: Callable[[CDFPiece], Array | None]
) -> Array | None:
    """Return `piece_scores` (n,) of distributions whose support ends at ``low`` and ``high``.

    ``scores`` returns those of a piece inside the support, or None. Outside the support, F is constant.
    """
    inner = piece._replace(
        low=np.clip(low, piece.low, piece.high), high=np.clip(high, piece.low, piece.high)
    )
    total = scores(inner)
    if total is None:
        return None
    if (inner.low > piece.low).any():
        total = total + constant_scores(
            y, piece.low, inner.low, piece.below, piece.rise + piece.above
        )
    if (inner.high < piece.high).any():
        total = total + constant_scores(
            y, inner.high, piece.high, piece.below + piece.rise, piece.above
        )
    return total


def scores_with_distance(
    y: Array, piece: CDFPiece, scores: Callable[[Array, CDFPiece], Array | None]
) -> Array | None:
    """Return scores (n,) of distributions whose cdf rises on one piece only, from its `piece_scores`.

    The distance to the interval is added separately: divided by a scale it may overflow. NaN also where y
    is not finite; None if ``scores`` returns that.
    """
    finite = np.isfinite(y)
    outcomes = np.where(finite, y, 0.0)
    total = scores(outcomes, piece)
    if total is None:
        return None
    total = total + np.abs(outcomes - np.clip(outcomes, piece.low, piece.high))
    return np.where(finite, total, np.nan)


def constant_scores(y: Array, low: Array, high: Array, below: Array, above: Array) -> Array:
    """Return integrals (n,) of ``(F - 1{t >= y})^2`` from low to high, where F = below = 1 - above."""
    with np.errstate(invalid="ignore"):
        place = np.clip(y, low, high)
        left = np.where((below > 0) & (place > low), below**2 * (place - low), 0.0)
        return left + np.where((above > 0) & (place < high), above**2 * (high - place), 0.0)


def linear_scores(y: Array, piece: CDFPiece) -> Array:
    """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over pieces on which F is linear."""
    length = piece.high - piece.low
    with np.errstate(invalid="ignore", divide="ignore"):
        left = (np.clip(y, piece.low, piece.high) - piece.low) / length
    right, rise = 1 - left, piece.rise
    inner = piece.below**2 + rise * left * (piece.below + rise * left / 3)
    outer = piece.above**2 + rise * right * (piece.above + rise * right / 3)
    return np.asarray(length * (left * inner + right * outer))


def exponential_scores(y: Array, rate: Array | float) -> Array:
    """Return continuous ranked probability scores ``|y| + (1/2 - 2 P(Y <= y)) / rate``."""
    return np.asarray(np.abs(y) + (0.5 + 2 * np.expm1(-rate * np.maximum(y, 0.0))) / rate)


def mass_between(below: Array, at_least: Array, upto: Array, above: Array) -> Array:
    """Return P(a <= B <= b) from P(B < a), P(B >= a), P(B <= b) and P(B > b), by the smaller tail."""
    return np.where(below > 0.5, at_least - above, upto - below)


def _by_core(
    loop: Callable[..., None], family: SymmetricFamily, count: int, *arrays: Array
) -> list[Array]:
    """Return what a loop of the core writes to ``count`` arrays, in blocks of rows."""
    shape = np.broadcast_shapes(*(np.shape(one) for one in arrays))
    flat = [np.broadcast_to(np.asarray(one, dtype=np.float64), shape).ravel() for one in arrays]
    results = [np.empty(flat[0].size) for _ in range(count)]

    def work(rows: slice) -> None:
        loop(family, *(one[rows] for one in flat), *(one[rows] for one in results))

    over_rows(work, flat[0].size, _STEP)
    return [one.reshape(shape) for one in results]
