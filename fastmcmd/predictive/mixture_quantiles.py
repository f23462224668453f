"""Quantiles of mixtures, searched for between those of the components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive.base import Array, Predictive
from fastmcmd.predictive.numerics import gaussian_mixture

if TYPE_CHECKING:
    from fastmcmd.predictive.mixture import Mixture

__all__ = ["between_components", "gaussian_quantiles", "quantiles", "reached"]


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
        found = between_components(mixture.take(rows), levels[columns])
        out[where] = np.where(missing[where], found, out[where])
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
    """Tell where the cdf has reached levels."""
    return np.asarray(mixture.cdf(y) >= level)


def between_components(mixture: Mixture, levels: Array) -> Array:
    """Return quantiles (n, j) or (n, k, j), searched for between those of the components."""
    from fastmcmd.predictive.numerics.mixture_quantile import invert_continuous, invert_steps

    shape = (*mixture.shape, len(levels))
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    for weight, component in mixture.parts():
        used = np.broadcast_to((weight > 0).reshape(-1, *[1] * (low.ndim - 1)), shape)
        bottom, top = _ends(component, levels)
        low = np.where(used, np.minimum(low, bottom), low)
        high = np.where(used, np.maximum(high, top), high)
    out = np.where(levels == 0, low, high)
    inner = (levels > 0) & (levels < 1)
    if not inner.any():
        return out
    levels, low, high = levels[inner], low[..., inner], high[..., inner]
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError("a component has quantiles that are not finite at levels inside (0, 1)")
    # Each level of a row is a row of its own.
    n, count = len(mixture), len(levels)
    low, high = (np.moveaxis(v, -1, 1).reshape(n * count, *mixture.shape[1:]) for v in (low, high))
    invert = invert_continuous if mixture.has_density and not mixture.discrete else invert_steps
    rows = mixture if count == 1 else mixture.take(np.repeat(np.arange(n), count))
    found = invert(rows, np.tile(levels, n), low, high)
    out[..., inner] = np.moveaxis(found.reshape(n, count, *mixture.shape[1:]), 1, -1)
    return out


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
