"""Regularised incomplete gamma functions and their inverses, at huge shapes too."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.gamma_ratios import scaled_deviance, stirling_error

__all__ = ["log_x_density", "lower", "lower_inverse", "upper", "upper_inverse"]

# Shape from which the expansion of `poisson_tails` is exact to rounding. SciPy 1.17 loses the lower tail
# from 4.5 standard deviations on there: a third of its digits at 1e6, all of them at 1e9.
_LARGE = 3e5
_STEPS = 4  # of Newton's method in log p; the start is near enough for three


def log_x_density(x: Array, a: Array) -> Any:
    """Return ``log(x g(x))``, g the density of shape a and rate 1, for x > 0."""
    return np.log(a / (2 * np.pi)) / 2 - stirling_error(a) - scaled_deviance(x, a)


def lower(a: Array, x: Array) -> Array:
    """Return P(X <= x) of gamma distributions of shape a and rate 1; arguments broadcast."""
    return _tail(scipy.special.gammainc(a, x), a, x, True)


def upper(a: Array, x: Array) -> Array:
    """Return P(X > x)."""
    return _tail(scipy.special.gammaincc(a, x), a, x, False)


def lower_inverse(a: Array, p: Array) -> Array:
    """Return x with ``P(X <= x) = p``."""
    return _inverse(scipy.special.gammaincinv(a, p), a, p, 1.0)


def upper_inverse(a: Array, p: Array) -> Array:
    """Return x with ``P(X > x) = p``."""
    return _inverse(scipy.special.gammainccinv(a, p), a, p, -1.0)


def _tail(tail: Any, a: Array, x: Array, below: bool) -> Array:
    large = (a >= _LARGE) & (x > 0) & np.isfinite(x)
    if not large.any():
        return np.asarray(tail)
    from fastmcmd.predictive.numerics.poisson_tails import large_tails

    tail = np.array(tail)
    shape, at = (np.broadcast_to(value, tail.shape)[large] for value in (a, x))
    part = np.empty(len(at))
    large_tails(shape - 1, at, below, part)  # P(X > x) is that of at most a - 1 events of mean x
    tail[np.broadcast_to(large, tail.shape)] = part
    return tail


def _inverse(quantile: Any, a: Array, p: Array, sign: float) -> Array:
    """Return the quantiles, at large shapes by Newton's method in the logarithm of the smaller tail.

    From the cube of a normal quantile (Wilson & Hilferty, *The Distribution of Chi-Square*, 1931).
    """
    large = (a >= _LARGE) & (p > 0) & (p < 1)
    if not large.any():
        return np.asarray(quantile)
    quantile = np.array(quantile)
    shape, level = (np.broadcast_to(value, quantile.shape)[large] for value in (a, p))
    z = sign * scipy.special.ndtri(level)
    x = shape * (1 - 1 / (9 * shape) + z / (3 * np.sqrt(shape))) ** 3
    other = level > 0.5
    side = np.where(other, -sign, sign)  # the tail that is the smaller one
    wanted = np.where(other, 1 - level, level)
    for _ in range(_STEPS):
        mass = np.where(side > 0, lower(shape, x), upper(shape, x))
        density = np.exp(log_x_density(x, shape)) / x
        x = x - side * np.log(mass / wanted) * mass / density
    quantile[np.broadcast_to(large, quantile.shape)] = x
    return quantile
