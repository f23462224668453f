"""Quantiles of mixtures, searched for between those of the components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.numerics import gaussian_mixture

if TYPE_CHECKING:
    from fastmcmd.predictive.mixture import Mixture

__all__ = ["between_components", "gaussian_quantiles", "quantiles", "reached"]

_UPPER = 0.999  # levels from which the rounding of the cdf is seen: its complement is compared


def quantiles(mixture: Mixture, levels: Array) -> Array:
    """Return the smallest y (n, j) or (n, k, j) with ``P(Y <= y) >= level``."""
    if not mixture.all_gaussian:
        return between_components(mixture, levels)
    out = gaussian_quantiles(mixture, levels[None, :])
    missing = np.isnan(out)
    columns = np.flatnonzero(missing.any(axis=tuple(range(out.ndim - 1))))
    if len(columns):
        rows = np.flatnonzero(missing.any(axis=tuple(range(1, out.ndim))))
        where = np.ix_(rows, *map(np.arange, out.shape[1:-1]), columns)
        inverted = between_components(mixture.take(rows), levels[columns])
        out[where] = np.where(missing[where], inverted, out[where])
    return out


def gaussian_quantiles(mixture: Mixture, levels: Array) -> Array:
    """Return quantiles (n, j) or (n, k, j) at levels (n, j) or (1, j); NaN where a cdf is flat."""
    mean, std = mixture.moments()
    each = (
        gaussian_mixture.quantiles(levels, *own, mixture.weights)
        for own in zip(mean, std, strict=True)
    )
    return np.stack(list(each), axis=1).reshape(*mixture.shape, levels.shape[1])


def reached(mixture: Mixture, y: Array, level: Array) -> NDArray[np.bool_]:
    """Tell where the cdf has reached levels, from the smaller of it and its complement."""
    below = mixture.cdf(y) >= level
    upper = level > _UPPER
    return np.where(upper, mixture.sf(y) <= 1 - level, below) if upper.any() else np.asarray(below)


def between_components(mixture: Mixture, levels: Array) -> Array:
    """Return quantiles (n, j) or (n, k, j), searched for between those of the components."""
    shape = (*mixture.shape, len(levels))
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    for weight, component in mixture.parts():
        used = np.broadcast_to((weight > 0).reshape(-1, *[1] * (low.ndim - 1)), shape)
        bottom, top = _ends(component, levels)
        low = np.where(used, np.minimum(low, bottom), low)
        high = np.where(used, np.maximum(high, top), high)
    out = np.where(levels == 0, low, high)
    upper = levels > _UPPER
    for inner in ((levels > 0) & ~upper, upper & (levels < 1)):
        if inner.any():
            ends = low[..., inner], high[..., inner]
            out[..., inner] = _inverted(mixture, levels[inner], *ends, bool(upper[inner][0]))
    return out


def _inverted(mixture: Mixture, levels: Array, low: Array, high: Array, upper: bool) -> Array:
    """Return quantiles at levels (j,) in (0, 1) between ends of their shape."""
    from fastmcmd.predictive.numerics.mixture_quantile import invert_continuous, invert_steps

    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError("a component has quantiles that are not finite at levels inside (0, 1)")
    # Each level of a row is a row of its own.
    n, count = len(mixture), len(levels)
    low, high = (np.moveaxis(v, -1, 1).reshape(n * count, *mixture.shape[1:]) for v in (low, high))
    invert = invert_continuous if mixture.has_density and not mixture.discrete else invert_steps
    rows = mixture if count == 1 else mixture.take(np.repeat(np.arange(n), count))
    result = invert(rows, np.tile(levels, n), low, high, upper)
    return np.moveaxis(result.reshape(n, count, *mixture.shape[1:]), 1, -1)


def _ends(component: Predictive, levels: Array) -> tuple[Array, Array]:
    """Return between what lie the smallest y of a component with ``P(Y <= y) >= level``.

    Quantiles may be interpolated between atoms, as those of draws: then their extremes.
    """
    exact = component.quantile(levels)
    if component.has_density:
        return exact, exact
    ends = component.quantile(np.array([0.0, 1.0]))
    low, high = ends[..., :1], ends[..., 1:]
    return np.where(np.isfinite(low), low, exact), np.where(np.isfinite(high), high, exact)
