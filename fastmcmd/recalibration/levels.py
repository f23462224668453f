"""Quadrature over levels: expectations under a recalibrated distribution from quantiles of the original."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.kernels.base import UNIT
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.monotone import MonotoneMap

__all__ = ["Rule", "far_below", "rule"]

_LEFT_OUT = 1e-16  # mass left out at either end
_LEAST = 1e-300  # level, near the smallest number
# Panels end at the knots, at these levels and every decade below, and at their mirror images. On each panel
# a quantile function is smooth in log p, with its singularities at least three half-widths from the middle,
# and so is a kernel as wide as the distribution.
_ENDS = (5e-3, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
_DECADES = 10.0
_DIGITS = 14.0
_MOST_NODES = 14
_MOST_CACHED = 1 << 16  # most nodes of a rule that is cached


@dataclass(frozen=True, eq=False)
class Rule:
    """Nodes over the levels p of a distribution.

    Attributes
    ----------
    levels : ndarray (L,)
        Levels, increasing.
    shares : ndarray (L,)
        Weights of an integral over p.
    weights : ndarray (L,)
        Weights of an integral over R(p), which sum to 1: shares times slopes.
    slopes : (float, float)
        Slopes of R at the two ends.
    outside : (float, float)
        Probability of the original distribution left out at the two ends.
    """

    levels: Array
    shares: Array
    weights: Array
    slopes: tuple[float, float]
    outside: tuple[float, float]


def rule(mapping: MonotoneMap, splits: int = 1, coarse: bool = False) -> Rule:
    """Return nodes and weights with ``E g(Y') = sum_j weights_j g(Q(levels_j))`` for smooth g(Q).

    Parameters
    ----------
    mapping : MonotoneMap
        R, of the recalibrated distribution function R(F(y)).
    splits : int
        Number of parts into which each panel is cut.
    coarse : bool
        Whether to use fewer nodes, to estimate the error.

    Notes
    -----
    ``E g(Y') = int g(Q(p)) R'(p) dp``, and R' is constant between knots. Gauss-Legendre nodes between knots
    are placed in log p (in log(1 - p) above the median), because the singularities of quantile functions at
    0 and 1 are mild in the logarithm. The number of nodes follows from the width of a panel.
    """
    cached: Rule | None = mapping.rules.get((splits, coarse))
    if cached is None:
        cached = _rule(mapping, splits, coarse)
        if len(cached.levels) <= _MOST_CACHED:
            mapping.rules[splits, coarse] = cached
    return cached


def _rule(mapping: MonotoneMap, splits: int, coarse: bool) -> Rule:
    p, r = mapping.p, mapping.r
    middle = float(mapping(np.array(0.5)))
    low, high = p < 0.5, p > 0.5
    below = _half(np.append(p[low], 0.5), np.append(r[low], middle), _LEAST, splits, coarse)
    # 1 - p is exact above 1/2.
    above = _half(
        np.append(1 - p[high][::-1], 0.5),
        np.append(1 - r[high][::-1], 1 - middle),
        2 * UNIT,
        splits,
        coarse,
    )
    levels = np.concatenate([below[0], 1 - above[0][::-1]])
    shares = np.concatenate([below[1], above[1][::-1]])
    weights = np.concatenate([below[2], above[2][::-1]])
    ends = float(mapping.slopes[0]), float(mapping.slopes[-1])
    return Rule(levels, shares, weights / weights.sum(), ends, (below[3], above[3]))


def far_below(first: float) -> tuple[Array, Array]:
    """Return levels and shares of the integral over p from almost 0 to ``first``.

    Each panel spans twenty decades: an integrand that is not small there falls slowly.
    """
    count = max(1, int(np.ceil(np.log10(first / _LEAST) / 20))) if first > _LEAST else 0
    if not count:
        return np.empty(0), np.empty(0)
    ends = np.linspace(np.log(_LEAST), np.log(first), count + 1)
    z, w = gauss_legendre(12)
    width = np.diff(ends)[:, None]
    levels = np.exp(ends[:-1, None] + width * (z + 1) / 2)
    return levels.ravel(), (levels * w * width / 2).ravel()


def _half(
    p: Array, r: Array, least: float, splits: int, coarse: bool
) -> tuple[Array, Array, Array, float]:
    """Return levels from 0 to 1/2, their shares and weights, and their start, for knots p (k,) there."""
    slopes = np.diff(r) / np.diff(p)
    start = max(least, _LEFT_OUT * min(1.0, 1 / float(slopes[0])))
    steps = int(np.ceil(np.log(_ENDS[0] / start) / np.log(_DECADES)))
    tail = _ENDS[0] * (start / _ENDS[0]) ** (np.arange(steps, 0, -1) / steps)
    ends = np.unique(np.concatenate([tail, _ENDS, p[p > start]]))
    cell = np.searchsorted(p, ends[:-1], side="right") - 1
    if splits > 1:
        factors = (ends[1:] / ends[:-1])[:, None] ** (np.arange(splits) / splits)
        ends = np.append((ends[:-1, None] * factors).ravel(), ends[-1])
        cell = np.repeat(cell, splits)
    # Bernstein ellipse through the nearest singularity, at level 1, and growth of exp within a panel.
    logs = np.log(ends)
    half = np.maximum(np.diff(logs) / 2, np.finfo(np.float64).eps)
    ratio = -(logs[1:] + logs[:-1]) / 2 / half
    order = np.ceil(_DIGITS / 2 / np.log10(ratio + np.sqrt(ratio * ratio - 1)))
    order = np.maximum(order, np.ceil(3 + 3 * half))
    order = np.clip(np.ceil(order * 0.7) if coarse else order, 2, _MOST_NODES).astype(np.intp)
    levels, shares = _nodes(ends, order)
    return levels, shares, shares * np.repeat(slopes[cell], order), float(ends[0])


def _nodes(ends: Array, order: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return increasing levels and shares of Gauss-Legendre panels in the logarithm of levels.

    The shares of a panel add up to its width, however narrow the panel is.
    """
    low, width = np.log(ends[:-1]), np.diff(np.log(ends))
    mass = np.diff(ends)
    at = np.concatenate([[0], np.cumsum(order)])
    levels, shares = np.empty(at[-1]), np.empty(at[-1])
    for count in np.unique(order):
        panels = np.flatnonzero(order == count)
        z, w = gauss_legendre(int(count))
        place = np.exp(low[panels, None] + width[panels, None] * (z + 1) / 2)
        part = place * w
        part *= (mass[panels] / part.sum(axis=1))[:, None]
        where = at[panels, None] + np.arange(count)
        levels[where], shares[where] = place, part
    return levels, shares
