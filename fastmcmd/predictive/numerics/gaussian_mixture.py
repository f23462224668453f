"""Quantiles and scores of mixtures of K Gaussians, from arrays (n, K) of their parameters."""

from __future__ import annotations

import numpy as np
import scipy

from fastmcmd.predictive.base import Array

__all__ = ["crps", "quantiles"]


def quantiles(levels: Array, mean: Array, std: Array, weights: Array) -> Array:
    """Return quantiles (n, j) at levels (n, j), or (1, j) for all rows; NaN where the cdf is all but flat.

    To rounding: the last digit may depend on which other levels are asked for.
    """
    from fastmcmd.predictive.numerics import gaussian_mixture_loops as loops

    order = np.argsort(levels, axis=1)
    ascending = np.take_along_axis(levels, order, axis=1)
    mean, std, weights = (np.ascontiguousarray(value) for value in (mean, std, weights))
    found = np.empty((len(mean), levels.shape[1]))
    loops.quantiles(ascending, scipy.special.ndtri(ascending), mean, std, weights, found)
    out = np.empty_like(found)
    np.put_along_axis(out, np.broadcast_to(order, out.shape), found, axis=1)
    return out


def crps(y: Array, mean: Array, std: Array, weights: Array) -> Array:
    """Return continuous ranked probability scores (n,) of finite y, see `Mixture.crps`."""
    total = (weights * _absolute(y[:, None] - mean, std)).sum(axis=1)
    for i in range(mean.shape[1]):
        gaps = _absolute(mean[:, i, None] - mean, np.hypot(std[:, i, None], std))
        total -= weights[:, i] * (weights * gaps).sum(axis=1) / 2
    return np.asarray(total)


def _absolute(mean: Array, std: Array) -> Array:
    """Return ``E|X|`` of normal X."""
    z = mean / std
    density = np.exp(-z * z / 2) * np.sqrt(2 / np.pi)
    return np.asarray(mean * scipy.special.erf(z / np.sqrt(2)) + std * density)
