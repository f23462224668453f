"""Tails and quantiles of binomial distributions, without scipy.stats, which takes long to load."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array

__all__ = ["binomial_cdf", "binomial_sf", "lower_quantile", "poisson_mass", "upper_quantile"]


def binomial_cdf(k: ArrayLike, n: int, p: ArrayLike) -> Array:
    """Return P(K <= k)."""
    k = np.asarray(k, dtype=np.float64)
    inside = np.clip(k, 0, n - 1)
    tail = scipy.special.betaincc(inside + 1, n - inside, p)
    return np.where(k < 0, 0.0, np.where(k >= n, 1.0, tail))


def binomial_sf(k: ArrayLike, n: int, p: ArrayLike) -> Array:
    """Return P(K > k); small probabilities keep all their digits."""
    k = np.asarray(k, dtype=np.float64)
    inside = np.clip(k, 0, n - 1)
    tail = scipy.special.betainc(inside + 1, n - inside, p)
    return np.where(k < 0, 1.0, np.where(k >= n, 0.0, tail))


def lower_quantile(tail: float, n: int, p: Array) -> Array:
    """Return the least counts with ``P(K <= k) >= tail``.

    Examples
    --------
    >>> lower_quantile(0.5, 10, np.array([0.3])).tolist()
    [3.0]
    """
    k = _near(scipy.special.ndtri(tail), n, p)
    while (low := binomial_cdf(k, n, p) < tail).any():
        k = k + low
    while (high := (k > 0) & (binomial_cdf(k - 1, n, p) >= tail)).any():
        k = k - high
    return k


def upper_quantile(tail: float, n: int, p: Array) -> Array:
    """Return the least counts with ``P(K > k) <= tail``."""
    k = _near(-scipy.special.ndtri(tail), n, p)
    while (low := binomial_sf(k, n, p) > tail).any():
        k = k + low
    while (high := (k > 0) & (binomial_sf(k - 1, n, p) <= tail)).any():
        k = k - high
    return k


def _near(z: float, n: int, p: Array) -> Array:
    """Return whole numbers near the quantiles, by the first terms of Cornish and Fisher."""
    skew = (1 - 2 * p) * (z * z - 1) / 6
    return np.clip(np.floor(n * p + np.sqrt(n * p * (1 - p)) * z + skew), 0, n)


def poisson_mass(k: ArrayLike, mean: float) -> Array:
    """Return P(K = k) of a Poisson distribution."""
    k = np.asarray(k, dtype=np.float64)
    log_mass = scipy.special.xlogy(k, mean) - scipy.special.gammaln(k + 1) - mean
    return np.asarray(np.exp(log_mass))
