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
from fastmcmd.predictive.numerics.elementwise import LIGHT_STEP, by_core, by_rows

__all__ = [
    "CDFPiece",
    "SymmetricFamily",
    "cdf_piece",
    "clipped_scores",
    "constant_scores",
    "exponential_scores",
    "inflated_scores",
    "interval_masses",
    "linear_scores",
    "log_laplace_scores",
    "mass_between",
    "pareto_scores",
    "piece_scores",
    "piece_sums",
    "scores_with_distance",
    "supported_scores",
    "symmetric_scores",
    "symmetric_tails",
    "two_piece_scores",
    "uniform_scores",
]


_NORMAL_STEP = 1 << 13  # rows per block of normal distributions


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
    step = _NORMAL_STEP if family == SymmetricFamily.NORMAL else LIGHT_STEP
    (scores,) = by_core(_core.symmetric_scores, family, 1, y, loc, scale, step=step)
    return scores


def two_piece_scores(
    family: SymmetricFamily, y: Array, loc: Array, lower: Array, upper: Array
) -> Array:
    """Return scores (n,) of distributions with the scales ``lower`` and ``upper`` beside the mode."""
    step = _NORMAL_STEP if family == SymmetricFamily.NORMAL else LIGHT_STEP
    (scores,) = by_core(_core.two_piece_scores, family, 1, y, loc, lower, upper, step=step)
    return scores


def symmetric_tails(
    family: SymmetricFamily, y: Array, loc: Array, scale: Array
) -> tuple[Array, Array]:
    """Return P(Y <= y) and P(Y > y) in the shape of ``loc``; small ones keep all their digits."""
    below, above = by_core(_core.symmetric_tails, family, 2, y, loc, scale)
    return below, above


def interval_masses(
    family: SymmetricFamily, low: Array, high: Array, loc: Array, scale: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Return P(Y < low), P(Y >= low), P(Y <= high), P(Y > high) and P(low <= Y <= high).

    The last one is a difference of the smaller tails, as in `mass_between`.
    """
    step = _NORMAL_STEP if family == SymmetricFamily.NORMAL else LIGHT_STEP
    arrays = low, high, loc, scale
    a, b, c, d, e = by_core(
        _core.interval_masses, family, 5, *arrays, step=step, in_row_memory=True
    )
    return a, b, c, d, e


def piece_scores(
    family: SymmetricFamily, y: Array, loc: Array, scale: Array, piece: CDFPiece
) -> Array:
    """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece; NaN where digits are lost."""
    (scores,) = by_core(_core.piece_scores, family, 1, y, loc, scale, *piece)
    return scores


def clipped_scores(
    family: SymmetricFamily, y: Array, loc: Array, scale: Array, low: Array, high: Array
) -> Array:
    """Return `piece_scores` (n,) of the cdf itself from ``low`` to ``high``."""
    (scores,) = by_core(_core.piece_scores, family, 1, y, loc, scale, low, high, absent=3)
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


def cdf_piece(low: Array, high: Array, centred: Array, tails: Array) -> CDFPiece:
    """Return pieces on which F is the cdf itself, from the smaller tails (n, 3) at both ends.

    The tail is that below an end unless it is ``centred`` (n, 3) at more than 0.
    """
    is_above, smaller = centred[:, ::2] > 0, tails[:, ::2]
    below, upto = np.where(is_above, 1 - smaller, smaller).T
    at_least, above = np.where(is_above, smaller, 1 - smaller).T
    rise = mass_between(below, at_least, upto, above)
    return CDFPiece(low, high, *(np.ascontiguousarray(one) for one in (below, rise, above)))


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
    y: Array, low: Array, high: Array, scores: Callable[[Array], Array | None]
) -> Array | None:
    """Return scores (n,) of distributions on intervals, from integrals over these.

    The distance to the interval is added separately: divided by a scale it may overflow. NaN also where y
    is not finite; None if ``scores`` returns that.
    """
    finite = np.isfinite(y)
    is_all = bool(finite.all())
    outcomes = y if is_all else np.where(finite, y, 0.0)
    total = scores(outcomes)
    if total is None:
        return None
    distance = np.clip(outcomes, low, high)
    np.subtract(outcomes, distance, out=distance)
    total = total + np.abs(distance, out=distance)
    return total if is_all else np.where(finite, total, np.nan)


def constant_scores(y: Array, low: Array, high: Array, below: Array, above: Array) -> Array:
    """Return integrals (n,) of ``(F - 1{t >= y})^2`` from low to high, where F = below = 1 - above."""
    with np.errstate(invalid="ignore"):
        place = np.clip(y, low, high)
        before = np.where((below > 0) & (place > low), below**2 * (place - low), 0.0)
        return before + np.where((above > 0) & (place < high), above**2 * (high - place), 0.0)


def linear_scores(y: Array, piece: CDFPiece) -> Array:
    """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over pieces on which F is linear."""
    (scores,) = by_core(_core.linear_scores, None, 1, y, *piece, step=LIGHT_STEP)
    return scores


def uniform_scores(y: Array, low: Array, high: Array) -> Array:
    """Return continuous ranked probability scores (n,) of uniform distributions."""
    (scores,) = by_core(_core.linear_scores, None, 1, y, low, high, absent=3, step=LIGHT_STEP)
    return scores


def pareto_scores(y: Array, shape: Array, scale: Array, loc: Array) -> Array:
    """Return scores of generalised Pareto distributions in the shape of ``shape``."""
    (scores,) = by_core(_core.pareto_scores, None, 1, y, shape, scale, loc, step=LIGHT_STEP)
    return scores


def log_laplace_scores(y: Array, scale: Array, shape: Array) -> Array:
    """Return scores of log-Laplace distributions: infinite for shapes up to 1 and for infinite y."""
    (scores,) = by_core(_core.log_laplace_scores, None, 1, y, scale, shape, step=LIGHT_STEP)
    return scores


def exponential_scores(y: Array, rate: Array, mass: Array | None = None) -> Array:
    """Return scores (n,) of exponential distributions, with further masses at 0 if there are any.

    With ``a = 1 - mass``, they are ``|y| - a (2 (1 - exp(-rate max(y, 0))) - a / 2) / rate``.
    """
    arrays, absent = ((y, rate), 1) if mass is None else ((y, rate, mass), 0)
    loop = _core.exponential_scores
    (scores,) = by_core(loop, None, 1, *arrays, absent=absent, step=LIGHT_STEP)
    return scores


def inflated_scores(y: Array, base_score: Array, at_zero: Array, mass: Array) -> Array:
    """Return scores (n,) of distributions with further masses at 0, from those of the base at y and 0."""
    return by_rows(_inflated_scores, y, base_score, at_zero, mass)


def _inflated_scores(y: Array, base_score: Array, at_zero: Array, p: Array) -> Array:
    # Rearranged to avoid subtracting p D(0) from D(y) when p is nearly 1.
    base_part = np.where(y == 0, 0.0, base_score - at_zero) + (1 - p) * at_zero
    # Infinite where the base has no finite score.
    base_part = np.where(np.isinf(at_zero), at_zero, base_part)
    score = np.where(p < 1, p * np.abs(y) + (1 - p) * base_part, np.abs(y))
    return np.where(np.isfinite(y), score, np.abs(y))


def mass_between(below: Array, at_least: Array, upto: Array, above: Array) -> Array:
    """Return P(a <= B <= b) from P(B < a), P(B >= a), P(B <= b) and P(B > b), by the smaller tail."""
    return np.where(below > 0.5, at_least - above, upto - below)
