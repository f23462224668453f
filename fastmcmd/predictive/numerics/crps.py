"""The continuous ranked probability score of any distribution, by sums or adaptive quadrature."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows
from fastmcmd.predictive.numerics.kronrod import NODES, Integrand, add_panels
from fastmcmd.predictive.numerics.step_quantiles import step_scores

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["crps"]

_BLOCK = 1 << 18  # nodes per block of rows
# The first panels end at these quantiles and their mirror images.
_LEVELS = [0.0, 1e-10, 1e-6, 1e-3, 0.02, 0.1, 0.3]
_ENOUGH = 1e-15  # error allowed in a panel, relative to the score of its row
_FACTOR = 4.0  # ratio of the distances from the median at which successive panels of a tail end
# Largest distance, relative to the spread if that is below 1: beyond it, standardised outcomes overflow.
_FARTHEST = np.finfo(np.float64).max / (1 << 20)
_SHRINKS = 0.999  # ratio of successive panels above which the integral is infinite


def crps(prediction: Predictive, y: ArrayLike, step: int | None = None) -> Array:
    """Return CRPS(F_i, y_i) (n,).

    Parameters
    ----------
    prediction : Predictive of numbers
        Uses the `nodes` of discrete distributions, which are their support, and the `cdf`, `sf` and
        `quantile` of others.
    y : array_like (n,) or scalar
        Observed outputs. NaN gives NaN; infinity gives an infinite score.
    step : int, optional
        Rows per block. Default: as many as keep temporaries at a few megabytes.

    Raises
    ------
    ValueError
        Vector outputs. Classes that score each component separately do so themselves.
    """
    if prediction.columns > 1:
        raise ValueError(
            f"the CRPS scores single numbers and prediction has {prediction.columns} components; "
            "use the energy score"
        )
    y = np.array(np.broadcast_to(prediction.outcomes(y), prediction.shape))
    out = np.where(np.isnan(y), np.nan, np.inf)
    rows = np.flatnonzero(np.isfinite(y))
    if not rows.size:
        return out
    per_row = prediction.node_count if prediction.discrete else 2 * len(_LEVELS) * NODES
    step = step or _BLOCK // per_row
    one_block = step_scores if prediction.discrete else _integral
    if len(rows) == len(out) <= step:  # no part, which would compute probabilities anew
        return one_block(prediction, y)
    if prediction.discrete:  # counts of similar ranges together
        rows = rows[np.argsort(prediction.mean[rows])]

    def work(block: slice) -> None:
        part = rows[block]
        out[part] = one_block(prediction.take(part), y[part])

    over_rows(work, len(rows), step)
    return out


def _integral(prediction: Predictive, y: Array) -> Array:
    """Return the integral of ``F^2`` below y and ``(1 - F)^2`` above.

    The first panels lie between quantiles and y. Further panels extend outwards, each a multiple of the one
    before, until they no longer contribute.
    """
    levels = np.array(_LEVELS)
    ends = prediction.quantile(np.concatenate([levels, [0.5], 1 - levels[::-1]]))
    middle, low, high = ends[:, len(levels)], ends[:, 0], ends[:, -1]
    inner = np.abs(ends[:, len(levels) + 1] - ends[:, len(levels) - 1])
    farthest = _FARTHEST * np.where(inner > 0, np.minimum(inner, 1.0), 1.0)
    ends = np.where(np.isfinite(ends), ends, middle[:, None])
    ends = np.sort(np.concatenate([ends, y[:, None]], axis=1), axis=1)

    def integrand(rows: NDArray[np.intp], places: Array) -> Callable[[Array], Array]:
        below = places < y[rows]
        part, other = (
            prediction.take(rows[some]) if some.any() else None for some in (below, ~below)
        )

        def squares(t: Array) -> Array:
            out = np.empty(len(t))
            if part is not None:
                out[below] = part.cdf(t[below])
            if other is not None:
                out[~below] = other.sf(t[~below])
            return out * out

        return squares

    total = np.zeros(len(y))
    rows = np.repeat(np.arange(len(y)), ends.shape[1] - 1)
    add_panels(total, integrand, rows, ends[:, :-1].ravel(), ends[:, 1:].ravel(), _ENOUGH)
    for sign, last, limit in ((-1.0, ends[:, 0], low), (1.0, ends[:, -1], high)):
        outside = ~np.isfinite(limit)
        distance = np.where(outside, sign * (last - middle), 0.0)
        _add_tail(total, integrand, middle, distance, sign, farthest)
    return total


def _add_tail(
    total: Array,
    integrand: Integrand,
    middle: Array,
    distance: Array,
    sign: float,
    farthest: Array,
) -> None:
    """Add the integral beyond ``middle + sign * distance``, where the distance is positive.

    If panels reach the farthest distance and their integrals do not shrink, the result is infinite: the
    tail has index 1/2 or less.
    """
    rows = np.flatnonzero(distance > 0)
    near, last_gain, shrinks = distance[rows], np.full(len(rows), np.inf), np.ones(len(rows), bool)
    while rows.size:
        with np.errstate(over="ignore"):
            far = near * _FACTOR
            ends = np.sort(middle[rows] + sign * np.stack([near, far]), axis=0)
        inside = np.isfinite(ends).all(axis=0) & (far <= farthest[rows])
        total[rows[~inside & ~shrinks]] = np.inf
        rows, far, last_gain, left, right = (v[inside] for v in (rows, far, last_gain, *ends))
        before = total[rows]
        add_panels(total, integrand, rows, left, right, _ENOUGH)
        with np.errstate(invalid="ignore"):  # infinite scores
            gain = total[rows] - before
        goes_on = gain > _ENOUGH * before
        shrinks = (gain < _SHRINKS * last_gain)[goes_on]
        rows, near, last_gain = rows[goes_on], far[goes_on], gain[goes_on]
