"""Quantiles of mixtures: searched between the quantiles of their components, for all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.kernels.base import EPS
from fastmcmd.predictive.numerics import gaussian_mixture
from fastmcmd.predictive.numerics.inverse import middle_double, root_share
from fastmcmd.predictive.numerics.marching import FEW
from fastmcmd.predictive.numerics.separate_parts import Intervals, separate_quantiles
from fastmcmd.predictive.numerics.step_quantiles import step_quantiles
from fastmcmd.predictive.numerics.unit_halves import panel_quantiles

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

if TYPE_CHECKING:
    from fastmcmd.predictive.mixture import Mixture

__all__ = [
    "between_components",
    "completed",
    "gaussian_quantiles",
    "invert_continuous",
    "invert_steps",
    "is_reached",
    "quantiles",
    "quick_quantiles",
]

_MOST_STEPS = 2200  # halvings from the largest double to the rounding of the smallest
_HALVINGS = 64  # of an interval, before halving the number of doubles in it, of which 64 suffice
_ASIDE = 1e-9  # distance, in standard deviations, of the point that tests for a flat stretch


class _Active:
    """The rows of a search that are not settled yet; state arrays shrink with them."""

    def __init__(self, prediction: Predictive, out: Array) -> None:
        self.prediction, self.out = prediction, out
        self.rows = np.arange(len(out))

    def settle(self, is_settled: NDArray[np.bool_], values: Array, *state: Any) -> list[Any]:
        """Write the values and return the state of the rows that still have an open component.

        Settled rows are dropped only when they are half of all rows in the search, so that selecting rows
        costs little.
        """
        self.out[self.rows] = values
        open_rows = ~is_settled if is_settled.ndim == 1 else ~is_settled.all(axis=1)
        count = np.count_nonzero(open_rows)
        if 2 * count > len(self.rows):
            return list(state)
        self.rows = self.rows[open_rows]
        if count:
            self.prediction = self.prediction.take(np.flatnonzero(open_rows))
        return [array[open_rows] for array in state]


def _gap(prediction: Predictive, y: Array, level: Array, upper: bool) -> Array:
    """Return ``P(Y <= y) - level``; with ``upper``, from the complements, which are accurate near 1."""
    return (1 - level) - prediction.sf(y) if upper else prediction.cdf(y) - level


def invert_steps(
    prediction: Predictive, level: Array, low: Array, high: Array, upper: bool = False
) -> Array:
    """Return the smallest y with ``P(Y <= y) >= level`` by bisection, for cdfs that may jump.

    Parameters
    ----------
    prediction : Predictive
        Distributions.
    level : ndarray (n,)
        In (0, 1).
    low, high : ndarray, of the shape of the distributions
        Finite ends of an interval that holds the result.
    upper : bool
        Whether to compare the survival function with ``1 - level``, for levels near 1.

    Notes
    -----
    Whole numbers are tried first, so counts need few steps; an atom is found exactly.
    """
    level = _beside(level, low)
    is_reached = _gap(prediction, low, level, upper) >= 0
    out = np.where(is_reached, low, high)
    active = _Active(prediction, out)
    low, high, level = active.settle(is_reached, out, low, out, level)
    for step in range(_MOST_STEPS):
        if not len(active.rows):
            break
        middle = low + (high - low) / 2 if step < _HALVINGS else middle_double(low, high)
        integer = np.floor(np.where(high - low > 1, middle, high))
        middle = np.where((integer > low) & (integer < high), integer, middle)
        over = _gap(active.prediction, middle, level, upper) >= 0
        high, low = np.where(over, middle, high), np.where(over, low, middle)
        # At an atom the cdf just below is under the level. Near 1 rounding may exceed that gap.
        atom = active.prediction.cdf_below(high) < level - (4 * EPS if upper else 0.0)
        is_settled = ~(np.nextafter(low, np.inf) < high) | atom
        low, high, level = active.settle(is_settled, high, low, high, level)
    return out


def invert_continuous(
    prediction: Predictive, level: Array, low: Array, high: Array, upper: bool = False
) -> Array:
    """Return quantiles of continuous distributions to rounding; arguments as for `invert_steps`.

    Notes
    -----
    Inverse quadratic interpolation where it is safe (`root_share`), bisection elsewhere. If the cdf is flat
    at the level, between separate components, bisection finds the smallest y of the flat stretch.
    """
    u = _beside(level, low)
    f_low, f_high = (_gap(prediction, end, u, upper) for end in (low, high))
    is_reached = f_low >= 0
    out = np.where(is_reached, low, high)
    start = low.copy()
    active = _Active(prediction, out)
    is_settled = is_reached | (
        f_high < 0
    )  # by rounding, the upper end is below the level: return it
    state = high, low, f_high, f_low, np.full(low.shape, 0.5), out, is_settled, u
    a, b, fa, fb, t, best, is_settled, u = active.settle(is_settled, out, *state)
    for step in range(_MOST_STEPS):
        if not len(active.rows):
            break
        with np.errstate(over="ignore", invalid="ignore"):
            at = a + t * (b - a)
        at = np.where(np.isfinite(at), at, (1 - t) * a + t * b)  # b - a overflows
        if step >= _HALVINGS:
            at = np.where(t == 0.5, middle_double(a, b), at)
        ft = _gap(active.prediction, at, u, upper)
        same = (ft >= 0) == (fa >= 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = at, ft
        nearer = np.abs(fa) <= np.abs(fb)
        best = np.where(is_settled, best, np.where(nearer, a, b))
        width = np.abs(b - a)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            least = 2 * EPS * np.abs(best) / width
            is_settled = is_settled | ~(least < 0.5) | (np.where(nearer, fa, fb) == 0)
            t = root_share((a, b, c), (fa, fb, fc))
            t = np.where(np.isfinite(t), t, 0.5)
            t = np.where(is_settled, 0.5, np.clip(t, least, 1 - least))
        if step >= _HALVINGS:
            is_settled |= (
                np.nextafter(a, b) == b
            )  # by rounding of the smallest doubles, or for `least` of 0
        state = a, b, fa, fb, t, best, is_settled, u
        a, b, fa, fb, t, best, is_settled, u = active.settle(is_settled, best, *state)
    _leave_flat(prediction, level, start, out, upper)
    return out


def _beside(level: Array, values: Array) -> Array:
    """Return levels (n,) that broadcast against values (n,) or (n, k)."""
    return level.reshape(-1, *[1] * (values.ndim - 1))


def _leave_flat(prediction: Predictive, level: Array, low: Array, out: Array, upper: bool) -> None:
    """Where the cdf is flat at the level, move results to the lower end of the stretch, in place."""
    spread = prediction.std
    step = _ASIDE * np.where(np.isfinite(spread), spread, 1.0)
    before = np.maximum(out - step, low)
    flat = (out > low) & (_gap(prediction, before, _beside(level, low), upper) >= 0)
    rows = np.flatnonzero(flat if flat.ndim == 1 else flat.any(axis=1))
    if len(rows):
        lower = invert_steps(prediction.take(rows), level[rows], low[rows], out[rows], upper)
        out[rows] = np.where(flat[rows], lower, out[rows])


_MANY = 0.5  # share of the quantiles of a row from which all its levels are searched together
_UPPER = 0.999  # level from which complements are compared, because rounding of the cdf matters


def quantiles(mixture: Mixture, levels: Array) -> Array:
    """Return the smallest y (n, j) or (n, k, j) with ``P(Y <= y) >= level``."""
    out = quick_quantiles(mixture, levels[None, :])
    if out is None:
        return between_components(mixture, levels)
    return completed(mixture, levels, out)


def completed(mixture: Mixture, levels: Array, out: Array) -> Array:
    """Return quick quantiles (n, j) or (n, k, j), with a search where they are NaN."""
    missing = np.isnan(out)
    if not missing.any():
        return out
    rows = np.flatnonzero(missing.any(axis=1)) if out.ndim == 2 else np.empty(0)
    few = out.ndim == 2 and np.count_nonzero(missing) < _MANY * len(rows) * len(levels)
    if few and not mixture.all_gaussian:
        for column in np.flatnonzero(missing.any(axis=0)):
            rows = np.flatnonzero(missing[:, column])
            part = between_components(mixture.take(rows), levels[column : column + 1])
            out[rows, column] = part[:, 0]
        return out
    columns = np.flatnonzero(missing.any(axis=tuple(range(out.ndim - 1))))
    rows = np.flatnonzero(missing.any(axis=tuple(range(1, out.ndim))))
    where = np.ix_(rows, *map(np.arange, out.shape[1:-1]), columns)
    inverted = between_components(mixture.take(rows), levels[columns])
    out[where] = np.where(missing[where], inverted, out[where])
    return out


def quick_quantiles(mixture: Mixture, levels: Array) -> Array | None:
    """Return quantiles at levels (n, j) or (1, j), NaN where they are unsafe; None if all need a search."""
    if mixture.all_gaussian:
        return gaussian_quantiles(mixture, levels)
    intervals = mixture.intervals
    if intervals is not None:
        return _of_separate(mixture, intervals, levels)
    if levels.shape[1] < FEW or mixture.columns > 1:
        return None
    if mixture.has_steps:
        return step_quantiles(mixture, levels)
    if not mixture.has_panels:
        return None
    order = np.argsort(levels, axis=1)
    rising = np.take_along_axis(levels, order, axis=1)
    inner = ((rising > 0) & (rising < 1)).all(axis=0)
    out = np.full((len(mixture), levels.shape[1]), np.nan)
    if not inner.any():
        return out
    some = rising if inner.all() else rising[:, inner]
    result = panel_quantiles(mixture, mixture.components, some)
    if inner.all() and len(order) == 1 and (order[0] == np.arange(order.shape[1])).all():
        return result
    sorted_quantiles = np.full(out.shape, np.nan)
    sorted_quantiles[:, inner] = result
    np.put_along_axis(out, np.broadcast_to(order, out.shape), sorted_quantiles, axis=1)
    return out


def _of_separate(mixture: Mixture, intervals: Intervals, levels: Array) -> Array:
    """Return quantiles at levels (n, j) or (1, j), as in other mixtures in rows that are not separate."""
    out = separate_quantiles(mixture, intervals, levels)
    rows = np.flatnonzero(~intervals.is_separate)
    if len(rows):
        overlapping = quick_quantiles(
            mixture.take(rows), levels if len(levels) == 1 else levels[rows]
        )
        if overlapping is not None:
            out[rows] = overlapping
    return out


def gaussian_quantiles(mixture: Mixture, levels: Array) -> Array:
    """Return quantiles (n, j) or (n, k, j) at levels (n, j) or (1, j); NaN where a cdf is flat."""
    mean, std = mixture.moments()
    by_component = (
        gaussian_mixture.quantiles(levels, *moments, mixture.weights)
        for moments in zip(mean, std, strict=True)
    )
    return np.stack(list(by_component), axis=1).reshape(*mixture.shape, levels.shape[1])


def is_reached(mixture: Mixture, y: Array, level: Array) -> NDArray[np.bool_]:
    """Return where the cdf has reached levels, comparing the smaller of the cdf and its complement."""
    below = mixture.cdf(y) >= level
    upper = level > _UPPER
    return np.where(upper, mixture.sf(y) <= 1 - level, below) if upper.any() else np.asarray(below)


def between_components(mixture: Mixture, levels: Array) -> Array:
    """Return quantiles (n, j) or (n, k, j), found by a search between those of the components."""
    shape = (*mixture.shape, len(levels))
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    for weight, component in mixture.parts():
        has_weight = np.broadcast_to((weight > 0).reshape(-1, *[1] * (low.ndim - 1)), shape)
        bottom, top = _ends(component, levels)
        low = np.where(has_weight, np.minimum(low, bottom), low)
        high = np.where(has_weight, np.maximum(high, top), high)
    out = np.where(levels == 0, low, high)
    upper = levels > _UPPER
    for inner in ((levels > 0) & ~upper, upper & (levels < 1)):
        if inner.any():
            ends = low[..., inner], high[..., inner]
            out[..., inner] = _inverted(mixture, levels[inner], *ends, bool(upper[inner][0]))
    return out


def _inverted(mixture: Mixture, levels: Array, low: Array, high: Array, upper: bool) -> Array:
    """Return quantiles at levels (j,) in (0, 1) between ends of their shape, which may be infinite."""
    # Each pair of a row and a level becomes a row of the search.
    n, count = len(mixture), len(levels)
    low, high = (np.moveaxis(v, -1, 1).reshape(n * count, *mixture.shape[1:]) for v in (low, high))
    invert = invert_continuous if mixture.has_density and not mixture.discrete else invert_steps
    rows = mixture if count == 1 else mixture.take(np.repeat(np.arange(n), count))
    level = np.tile(levels, n)
    beyond = np.zeros(low.shape)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        low, high, beyond = _finite_ends(rows, level, low, high, upper)
    result = np.where(beyond == 0, invert(rows, level, low, high, upper), beyond)
    return np.moveaxis(result.reshape(n, count, *mixture.shape[1:]), 1, -1)


def _finite_ends(
    rows: Mixture, level: Array, low: Array, high: Array, upper: bool
) -> tuple[Array, Array, Array]:
    """Return ends at a finite distance, and results of -inf or inf for quantiles beyond all doubles."""
    most = np.finfo(np.float64).max
    level = _beside(level, low)

    def is_reached(end: float) -> NDArray[np.bool_]:
        return _gap(rows, np.full(low.shape, end), level, upper) >= 0

    beyond = np.where(np.isinf(high) & ~is_reached(most), np.inf, 0.0)
    beyond = np.where(np.isinf(low) & is_reached(-most), -np.inf, beyond)
    left, right = is_reached(-most / 2), ~is_reached(most / 2)
    low = np.maximum(low, np.where(left, -most, np.where(right, most / 2, -most / 2)))
    high = np.minimum(high, np.where(right, most, np.where(left, -most / 2, most / 2)))
    return np.minimum(low, high), high, beyond


def _ends(component: Predictive, levels: Array) -> tuple[Array, Array]:
    """Return bounds of the smallest y of a component with ``P(Y <= y) >= level``.

    If quantiles of the component are interpolated between atoms, as for draws, these are its extremes.
    """
    exact = component.quantile(levels)
    if component.has_density:
        return exact, exact
    ends = component.quantile(np.array([0.0, 1.0]))
    low, high = ends[..., :1], ends[..., 1:]
    return np.where(np.isfinite(low), low, exact), np.where(np.isfinite(high), high, exact)
