"""Quadrature over levels: expectations under a recalibrated distribution from quantiles of the original."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.kernels.base import UNIT
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.monotone import MonotoneMap

__all__ = ["Rule", "far_below", "row_stops", "rule", "rule_between", "rule_count"]

_LEFT_OUT = 1e-16  # mass left out at either end
_LEAST = 1e-300  # level, near the smallest number
# Panels end at the knots, at these levels and every decade below, and at their mirror images. On each panel
# a quantile function is smooth in log p, with its singularities at least three half-widths from the middle,
# and so is a kernel as wide as the distribution.
_ENDS = (5e-3, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
_DECADES = 10.0
_DIGITS = 14.0
_MOST_NODES = 14
# Panels shrink towards jumps by this factor, to 1e-9 of the mass beyond them: with 12 nodes each, powers of
# the distance are integrated to 1e-11. With many atoms, which are steps of smooth quantiles, they do not.
_SHRINKING, _STEPS, _MOST_GRADED = 4.0, 15, 3
_ORDER, _COARSE_ORDER = 12, 8
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
    halves : tuple of _LevelHalf
        Panels below and above the median, of which the rule consists.
    """

    levels: Array
    shares: Array
    weights: Array
    slopes: tuple[float, float]
    outside: tuple[float, float]
    halves: tuple[_LevelHalf, _LevelHalf]

    def mean(self, values: Array) -> Array:
        """Return integrals (n,) over R(p) of values (n, L) at the levels."""
        return _summed(values, self.weights)

    def integral(self, values: Array) -> Array:
        """Return integrals (n,) over p of values (n, L) at the levels."""
        return _summed(values, self.shares)


def _summed(values: Array, weights: Array) -> Array:
    return np.asarray(
        values @ weights if weights.ndim == 1 else np.einsum("nl,nl->n", values, weights)
    )


@dataclass(frozen=True, eq=False)
class _LevelHalf:
    """Panels in one half of the levels, of masses e of the tail from almost 0 to 1/2.

    Attributes
    ----------
    ends : ndarray (P + 1,)
        Ends of the panels.
    order : ndarray (P,)
        Number of nodes of each panel.
    slopes : ndarray (P,)
        Slope of R on each panel.
    """

    ends: Array
    order: NDArray[np.intp]
    slopes: Array


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
    halves = (
        _half(np.append(p[low], 0.5), np.append(r[low], middle), _LEAST, splits, coarse),
        # 1 - p is exact above 1/2.
        _half(
            np.append(1 - p[high][::-1], 0.5), np.append(1 - r[high][::-1], 1 - middle), 2 * UNIT, splits,
            coarse,
        ),
    )  # fmt: skip
    below, above = (
        (*_nodes(half.ends, half.order), np.repeat(half.slopes, half.order)) for half in halves
    )
    levels = np.concatenate([below[0], 1 - above[0][::-1]])
    shares = np.concatenate([below[1], above[1][::-1]])
    weights = np.concatenate([below[1] * below[2], (above[1] * above[2])[::-1]])
    ends = float(mapping.slopes[0]), float(mapping.slopes[-1])
    outside = float(halves[0].ends[0]), float(halves[1].ends[0])
    return Rule(levels, shares, weights / weights.sum(), ends, outside, halves)


def rule_between(
    mapping: MonotoneMap,
    jumps: tuple[Array, Array],
    splits: int = 1,
    coarse: bool = False,
) -> Rule:
    """Return a rule whose panels also end where quantile functions jump, at levels of each row.

    Parameters
    ----------
    mapping, splits, coarse
        As `rule`.
    jumps : (ndarray (n, k), ndarray (n, k))
        Levels F(a-) and F(a) of each row: between them the quantile is a.

    Returns
    -------
    Rule
        With levels, shares and weights (n, L), the same number for all rows.

    Notes
    -----
    The density may begin or end at an atom, such as that of zero-inflated gamma distributions: quantiles
    may rise like any power of the distance from F(a). So panels shrink towards it in geometric steps.
    """
    base, stops = rule(mapping, splits, coarse), row_stops(*jumps)
    count = _COARSE_ORDER if coarse else _ORDER
    is_upper = stops > 0.5
    tails, panels, extra = [], [], []
    for half, is_here in zip(base.halves, (~is_upper, is_upper), strict=True):
        masses = np.where(is_here, np.where(is_upper, 1 - stops, stops), 0.5)
        low, high, slopes, base_ends = _panels_at(
            half, np.clip(np.sort(masses, axis=1), half.ends[0], 0.5)
        )
        tails.append(
            _row_nodes(np.broadcast_to(half.ends[:-1], base_ends.shape), base_ends, half.order)
        )
        panels.append(np.repeat(half.slopes, half.order))
        extra.append((low, high, slopes))
    # Panels that begin at stops: those of the lower half, then those of the upper half from the median on.
    is_low = np.arange(stops.shape[1]) < (~is_upper).sum(axis=1)[:, None]
    low, high, slopes = (
        np.where(is_low, one, other[:, ::-1]) for one, other in zip(*extra, strict=True)
    )
    inserted, mass = _row_nodes(low, high, np.full(low.shape[1], count))
    inserted = np.where(np.repeat(is_low, count, axis=1), inserted, 1 - inserted)
    levels = np.concatenate([tails[0][0], inserted, 1 - tails[1][0]], axis=1)
    shares = np.concatenate([tails[0][1], mass, tails[1][1]], axis=1)
    factors = [np.broadcast_to(one, (len(stops), len(one))) for one in panels]
    weights = shares * np.concatenate(
        [factors[0], np.repeat(slopes, count, axis=1), factors[1]], axis=1
    )
    order = np.argsort(levels, axis=1)  # families are faster at rising levels
    levels, shares, weights = (
        np.take_along_axis(a, order, axis=1) for a in (levels, shares, weights)
    )
    weights /= weights.sum(axis=1, keepdims=True)
    return Rule(levels, shares, weights, base.slopes, base.outside, base.halves)


def row_stops(below: Array, upto: Array) -> Array:
    """Return the levels (n, s) at which panels of `rule_between` end, and towards which they shrink."""
    steps = np.zeros(1)
    if below.shape[1] <= _MOST_GRADED:
        steps = np.append(steps, _SHRINKING ** -np.arange(1.0, _STEPS + 1))
    left, right = below[:, :, None] * (1 - steps), upto[:, :, None] + (1 - upto[:, :, None]) * steps
    stops = np.concatenate([left.reshape(len(below), -1), right.reshape(len(below), -1)], axis=1)
    return np.asarray(stops[:, ((stops > 0) & (stops < 1)).any(axis=0)])


def rule_count(mapping: MonotoneMap, jumps: tuple[Array, Array]) -> int:
    """Return the number of nodes per row of `rule_between`."""
    return len(rule(mapping).levels) + _ORDER * row_stops(*jumps).shape[1]


def _panels_at(half: _LevelHalf, stops: Array) -> tuple[Array, Array, Array, Array]:
    """Return begins, ends and slopes (n, s) of panels from rising stops, and ends (n, P) of the rest."""
    ends, last = half.ends, len(half.ends) - 2
    panel = np.minimum(np.searchsorted(ends, stops, side="right") - 1, last)
    high = np.minimum(
        ends[panel + 1], np.append(stops[:, 1:], np.full((len(stops), 1), 0.5), axis=1)
    )
    base_ends = np.tile(ends[1:], (len(stops), 1))
    np.minimum.at(base_ends, (np.arange(len(stops))[:, None], panel), stops)
    return stops, high, half.slopes[panel], base_ends


def _row_nodes(low: Array, high: Array, order: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return nodes and shares (n, L) as `_nodes` does, for panels (n, P) of each row; some are empty."""
    start, width, mass = np.log(low), np.log(high) - np.log(low), high - low
    at = np.concatenate([[0], np.cumsum(order)])
    levels, shares = np.empty((2, len(low), int(at[-1])))
    for count in np.unique(order):
        panels = np.flatnonzero(order == count)
        z, w = gauss_legendre(int(count))
        place = np.exp(start[:, panels, None] + width[:, panels, None] * (z + 1) / 2)
        part = place * w
        part *= (mass[:, panels] / part.sum(axis=2))[:, :, None]
        where = (at[panels, None] + np.arange(count)).ravel()
        levels[:, where], shares[:, where] = place.reshape(len(low), -1), part.reshape(len(low), -1)
    return levels, shares


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


def _half(p: Array, r: Array, least: float, splits: int, coarse: bool) -> _LevelHalf:
    """Return the panels from almost 0 to 1/2, for knots p (k,) there."""
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
    return _LevelHalf(ends, order, slopes[cell])


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
