"""Scores and quantiles of mixtures whose components do not overlap, from those of the components.

Examples are two-piece distributions, whose halves meet at the mode, and censored ones: a point mass and a
part of the line. Two components are separate if their intervals share at most an end, or if one of them is
a point mass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.closed_scores import CDFPiece, constant_scores
from fastmcmd.predictive.numerics.density_panels import has_panels

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive
    from fastmcmd.predictive.mixture import Mixture

__all__ = ["Intervals", "intervals_of", "separate_quantiles", "separate_scores"]

_MOST_LOST = 300.0  # ratio of the terms of a difference to the score beyond which digits are terms
_SUM_ROUNDING = 1e-12  # of the weights below, in and above a component
_UPPER = 0.999  # level from which complements are compared, because rounding of the cdf matters
_SMALL = 1e-3  # mass above a quantile from which it is part_quantiles from above
_LEAST, _MOST = np.nextafter([0.0, 1.0], 0.5)  # levels inside (0, 1)


class Intervals(NamedTuple):
    """Ends of the components of mixtures.

    Attributes
    ----------
    low, high : ndarray (K, n)
        Numbers between which all outputs of a component lie.
    is_point : ndarray (K, n)
        Whether the component is a point mass.
    is_separate : ndarray (n,)
        Whether all components of positive weight are separate.
    """

    low: Array
    high: Array
    is_point: NDArray[np.bool_]
    is_separate: NDArray[np.bool_]

    def take(self, rows: NDArray[np.intp]) -> Intervals | None:
        """Return the intervals of some rows, or None if none of these is separate."""
        is_separate = self.is_separate[rows]
        if not is_separate.any():
            return None
        return Intervals(self.low[:, rows], self.high[:, rows], self.is_point[:, rows], is_separate)


def intervals_of(mixture: Mixture) -> Intervals | None:
    """Return the intervals of the components; None if some are unknown, or no row is separate."""
    count = len(mixture.components)
    ends = []
    for component in mixture.components:
        pair = component.ends()
        if pair is None:
            return None
        ends.append(pair)
    low, high = (np.stack(some) for some in zip(*ends, strict=True))
    is_point = low == high
    is_separate = np.ones(len(mixture), dtype=bool)
    for j in range(count):
        for k in range(j + 1, count):
            apart = (high[j] <= low[k]) | (high[k] <= low[j]) | is_point[j] | is_point[k]
            is_separate &= apart | ~((mixture.weights[:, j] > 0) & (mixture.weights[:, k] > 0))
        if not is_separate.any():
            return None
    return Intervals(low, high, is_point, is_separate)


def separate_scores(mixture: Mixture, intervals: Intervals, y: Array) -> Array:
    """Return continuous ranked probability scores (n,) at finite y; NaN where they are unsafe."""
    with np.errstate(all="ignore"):
        scores = _by_pieces(mixture, intervals, y)
    if scores is None:
        return _by_scores(mixture, intervals, y)
    rows = np.flatnonzero(np.isnan(scores))
    if len(rows):
        remaining = intervals.take(rows)
        if remaining is not None:
            scores[rows] = _by_scores(mixture.take(rows), remaining, y[rows])
    return scores


def _by_scores(mixture: Mixture, intervals: Intervals, y: Array) -> Array:
    """Return scores (n,) from those of the components; NaN where they are unsafe.

    Notes
    -----
    With weights w, cdfs F and scores D of the components, and G = 1 - F, the score is a sum of nonnegative
    terms:

        sum_k w_k^2 D_k(y) + 2 sum_{j<k} w_j w_k (int_-inf^y F_j F_k + int_y^inf G_j G_k)

    If all outputs of j are at most s, the lower end of k, the first is ``int_s^y F_k`` for y above s, else
    0. If they are at least s, the upper end of k, the second is ``int_y^s G_k`` for y below s. If j is a
    point mass at s, both hold. All are ``(D_k(y) - D_k(s) + |y - s|) / 2``. A row is unsafe if this
    difference cancels, or if components are not separate. A component whose score is infinite makes that
    of the mixture infinite.
    """
    total, terms = np.zeros(len(y)), np.zeros(len(y))
    infinite = np.zeros(len(y), dtype=bool)
    weights = mixture.weights.T
    with np.errstate(invalid="ignore", over="ignore"):
        for k, component in enumerate(mixture.components):
            score, weighted = np.zeros(len(y)), np.flatnonzero(weights[k] > 0)
            if not len(weighted):
                continue
            score[weighted] = _rows_of(component, weighted).crps(y[weighted])
            infinite |= np.isposinf(score)
            total += weights[k] ** 2 * score
            for at, share, is_active in _stops(weights, intervals, k, y):
                rows = np.flatnonzero(is_active & (share > 0) & (weights[k] > 0) & ~infinite)
                if not len(rows):
                    continue
                part = _rows_of(component, rows)
                distance = np.abs(y[rows] - at[rows])
                at_outcome, at_stop = score[rows], part.crps(at[rows])
                product = weights[k, rows] * share[rows]
                total[rows] += product * np.maximum(at_outcome - at_stop + distance, 0.0)
                terms[rows] += product * (at_outcome + at_stop + distance)
        is_safe = intervals.is_separate & (terms <= _MOST_LOST * total) & np.isfinite(total)
    return np.where(infinite, np.inf, np.where(is_safe, total, np.nan))


def _rows_of(component: Predictive, rows: NDArray[np.intp]) -> Predictive:
    return component if len(rows) == len(component) else component.take(rows)


def _by_pieces(mixture: Mixture, intervals: Intervals, y: Array) -> Array | None:
    """Return scores (n,) as sums over intervals and the gaps beside them; NaN where they are unsafe.

    On the interval of a component, the cdf of the mixture rises in proportion to that of the component. In
    a gap it is constant. None if a component has no such integrals. Rows with a point mass inside another
    interval are unsafe.
    """
    low, high, is_point, is_separate = intervals
    weights = np.ascontiguousarray(mixture.weights.T)
    total, is_safe, least = np.zeros(len(y)), is_separate.copy(), np.full(len(y), np.inf)
    for k, component in enumerate(mixture.components):
        below, above = _weights_beside(weights, intervals, k)
        active = weights[k] > 0
        is_safe &= ~active | (np.abs(below + weights[k] + above - 1) <= _SUM_ROUNDING)
        if not is_point[k].all():
            scores = component.piece_scores(y, CDFPiece(low[k], high[k], below, weights[k], above))
            if scores is None:
                return None
            total += np.where(active & ~is_point[k], scores, 0.0)
        following = _next_above(weights, intervals, k)
        is_gap = active & (following > high[k])
        if is_gap.any():
            gaps = constant_scores(y, high[k], following, below + weights[k], above)
            total += np.where(is_gap, gaps, 0.0)
        least = np.where(active, np.minimum(least, low[k]), least)
    total += np.maximum(least - y, 0.0)
    return np.where(is_safe & np.isfinite(total), total, np.nan)


def _next_above(weights: Array, intervals: Intervals, k: int) -> Array:
    """Return where the next component above component k begins (n,), infinity if there is none."""
    following = np.full(weights.shape[1], np.inf)
    for j in range(len(weights)):
        if j != k:
            is_above = _sides(intervals, j, k)[1] & (weights[j] > 0)
            following = np.where(is_above, np.minimum(following, intervals.low[j]), following)
    return following


def _stops(
    weights: Array, intervals: Intervals, k: int, y: Array
) -> Iterator[tuple[Array, Array, NDArray[np.bool_]]]:
    """Yield numbers s (n,) at which integrals of component k end, with their weights (n,) and rows (n,).

    The weights are those of the components that meet k at_stop.
    """
    low, high = intervals.low[k], intervals.high[k]
    below, above = _weights_beside(weights, intervals, k)
    yield low, below, y > low
    yield high, above, y < high
    for j in map(int, np.flatnonzero(intervals.is_point.any(axis=1))):
        at = intervals.low[j]
        is_inside = intervals.is_point[j] & (low < at) & (at < high)
        if is_inside.any():
            yield at, weights[j], is_inside & (y != at)


def _weights_beside(weights: Array, intervals: Intervals, k: int) -> tuple[Array, Array]:
    """Return the weights (n,) of all components below component k, and of those above."""
    below, above = np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
    for j, weight in enumerate(weights):
        if j != k:
            is_below, is_above = _sides(intervals, j, k)
            below += np.where(is_below, weight, 0.0)
            above += np.where(is_above, weight, 0.0)
    return below, above


def _sides(intervals: Intervals, j: int, k: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where component j lies below k, and where above; equal point masses are in order of index."""
    below = intervals.high[j] <= intervals.low[k]
    above = intervals.low[j] >= intervals.high[k]
    return (below, above & ~below) if j < k else (below & ~above, above)


def separate_quantiles(mixture: Mixture, intervals: Intervals, levels: Array) -> Array:
    """Return the smallest y (n, j) with ``P(Y <= y) >= level``, for levels (n, j) or (1, j).

    They are NaN where components are not separate, or have several atoms. Others are point masses, or
    quantiles of a component at a level of its own.
    """
    n, weights = len(mixture), mixture.weights.T
    has_weight = weights > 0
    is_point = intervals.is_point
    complement = 1 - levels
    # Masses of the continuous components up to each level, and above it.
    lower = np.array(np.broadcast_to(levels, (n, levels.shape[1])))
    upper = 1 - lower
    points = []
    for j in map(int, np.flatnonzero((is_point & has_weight).any(axis=1))):
        mass = np.where(is_point[j], weights[j], 0.0)[:, None]
        at = np.where(is_point[j], intervals.low[j], 0.0)
        is_reached, is_above = _places(mixture, intervals, at, levels, complement)
        lower -= np.where(is_above, mass, 0.0)
        upper -= np.where(is_above, 0.0, mass)
        points.append((is_point[j] & has_weight[j], at, is_reached, is_above))
    out = np.full(lower.shape, -np.inf)
    is_continuous = intervals.is_separate.copy()
    for k, component in enumerate(mixture.components):
        rows = ~is_point[k] & has_weight[k]
        if not rows.any():
            continue
        if not has_panels(component):
            is_continuous &= ~rows
            continue
        below, above = _weights_beside(np.where(is_point, 0.0, weights), intervals, k)
        weight = np.where(rows, weights[k], 1.0)[:, None]
        ends = [np.where(rows, end, 0.0)[:, None] for end in (intervals.low[k], intervals.high[k])]
        inner = (lower - below[:, None]) / weight
        outer = (upper - above[:, None]) / weight
        begins = (inner > 0) & rows[:, None]
        is_last = (above == 0)[:, None]
        within = begins & ((inner < 1) | is_last)
        from_above = within & ((outer < _SMALL) | (levels > _UPPER))
        quantiles = _of_component(component, inner, outer, within & ~from_above, from_above)
        quantiles = np.where(within, np.clip(quantiles, *ends), ends[1])
        out = np.where(begins, np.maximum(out, quantiles), out)
    for is_atom, at, is_reached, is_above in points:
        place = at[:, None]
        beside = np.where(is_reached, place, np.minimum(out, place))
        beside = np.where(is_above, np.maximum(out, place), beside)
        out = np.where(is_atom[:, None], beside, out)
    least = np.where(has_weight, intervals.low, np.inf).min(axis=0)[:, None]
    most = np.where(has_weight, intervals.high, -np.inf).max(axis=0)[:, None]
    out = np.where(levels <= 0, least, np.where(levels >= 1, most, out))
    return np.where(is_continuous[:, None], out, np.nan)


def _places(
    mixture: Mixture, intervals: Intervals, at: Array, levels: Array, complement: Array
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where levels (n, j) are above P(Y < at), and where above P(Y <= at)."""
    below, upto = mixture.cdf_below(at)[:, None], mixture.cdf(at)[:, None]
    is_reached, is_above = levels > below, levels > upto
    is_upper = levels > _UPPER
    if is_upper.any():
        above = mixture.sf(at)[:, None]
        is_same = intervals.is_point & (intervals.low == at)
        at_least = above + np.where(is_same, mixture.weights.T, 0.0).sum(axis=0)[:, None]
        is_reached = np.where(is_upper, complement < at_least, is_reached)
        is_above = np.where(is_upper, complement < above, is_above)
    return is_reached, is_above


def _of_component(
    component: Predictive,
    inner: Array,
    outer: Array,
    from_below: NDArray[np.bool_],
    from_above: NDArray[np.bool_],
) -> Array:
    """Return quantiles (n, j) with masses ``inner`` below or ``outer`` above them, 0 in other cells."""
    quantiles = np.zeros(inner.shape)
    finders = (
        (component.quantiles_at, inner, from_below),
        (component.upper_quantiles_at, outer, from_above),
    )
    for find, values, cells in finders:
        columns = np.flatnonzero(cells.any(axis=0))
        if not len(columns):
            continue
        is_all = len(columns) == inner.shape[1]
        some, mask = (values, cells) if is_all else (values[:, columns], cells[:, columns])
        some = np.where(mask, np.clip(some, _LEAST, _MOST), 0.5)
        part_quantiles = find(some)
        if is_all and mask.all():
            return part_quantiles
        quantiles[:, columns] = np.where(mask, part_quantiles, quantiles[:, columns])
    return quantiles
