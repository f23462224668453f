"""Ratios of gamma functions, deviances and incomplete gamma functions, accurate at large arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.elementwise import LIGHT_STEP, by_core

__all__ = [
    "half_excess",
    "half_ratio",
    "log_height",
    "log_x_density",
    "lower",
    "lower_inverse",
    "scaled_deviance",
    "smaller_tails",
    "stirling_error",
    "upper",
    "upper_inverse",
]

_SERIES = 10.0  # argument from which 8 terms of Stirling's series are exact to rounding
# B_2k / (2k (2k - 1)): Abramowitz & Stegun, 6.1.40.
_STIRLING = [
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
]
_NEAR = 0.3  # relative distance up to which the deviance cancels, so a series is used
_TAYLOR = 16  # terms of the Taylor series; at 0.05 the next one is below 1e-17
_TERMS = 10  # terms of the series of the deviance; the next one is below 1e-17


def stirling_error(x: Array) -> Array:
    """Return ``log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2)`` for x > 0."""
    large = np.maximum(x, _SERIES)
    square = 1 / (large * large)
    series = np.zeros_like(large)
    for term in reversed(_STIRLING):
        series = series * square + term
    series /= large
    small = np.minimum(x, _SERIES)
    direct = (
        scipy.special.gammaln(small) - (small - 0.5) * np.log(small) + small - np.log(2 * np.pi) / 2
    )
    return np.asarray(np.where(x >= _SERIES, series, direct))


def half_ratio(x: Array) -> Array:
    """Return ``Gamma(x + 1/2) / Gamma(x)`` for x >= 0."""
    (ratios,) = by_core(_core.half_ratios, None, 1, x, step=LIGHT_STEP)
    return ratios


def half_excess(x: Array) -> Array:
    """Return ``log(Gamma(x + 1/2) / (sqrt(pi) Gamma(x + 1)))`` for x in [0, 0.05], without cancellation.

    It equals ``-2 x log 2 + sum_k (-1)^k zeta(k) (2^k - 2) x^k / k``, from the Taylor series of log-gamma
    at 1 and at 1/2 (Abramowitz & Stegun, 6.4.2 and 6.4.4).
    """
    total = np.zeros_like(x)
    for k in range(_TAYLOR, 1, -1):
        total = total * x + (-1) ** k * scipy.special.zeta(k) * (2**k - 2) / k
    return np.asarray(x * (x * total - 2 * np.log(2)))


def scaled_deviance(x: Array, centre: Array) -> Array:
    """Return ``x - m - m log(x / m)`` for x >= 0 and centres m > 0: nonnegative, 0 at m, infinite at 0.

    Near the centre it uses ``u - log(1 + u) = u v - 2 v^3 (1/3 + v^2/5 + ...)`` with ``u = (x - m) / m``
    and ``v = u / (2 + u)`` (Loader, *Fast and accurate computation of binomial probabilities*, 2000).
    """
    with np.errstate(divide="ignore", over="ignore"):
        gap = x - centre
        direct = gap - centre * (np.log(x) - np.log(centre))
        u = gap / centre
    near = np.abs(u) < _NEAR
    u = np.where(near, u, 0.0)
    v = u / (2 + u)
    square = v * v
    series = np.zeros_like(v)
    for k in range(_TERMS, 0, -1):
        series = series * square + 1 / (2 * k + 1)
    return np.asarray(np.where(near, centre * v * (u - 2 * square * series), direct))


# Shape from which the expansion of `poisson_tails` is exact to rounding. For such shapes, SciPy 1.17 loses
# digits of the lower tail from 4.5 standard deviations on: a third of them at 1e6, all at 1e9.
LARGE_SHAPE = 3e5
_STEPS = 4  # Newton steps in log p; three suffice from this start


def log_x_density(x: Array, a: Array) -> Any:
    """Return ``log(x g(x))`` for x > 0, with g the gamma density of shape a and rate 1."""
    return log_height(a) - scaled_deviance(x, a)


def log_height(a: Array) -> Array:
    """Return `log_x_density` at a, its largest value."""
    return np.asarray(np.log(a / (2 * np.pi)) / 2 - stirling_error(a))


def lower(a: Array, x: Array) -> Array:
    """Return P(X <= x) of gamma distributions of shape a and rate 1; arguments broadcast."""
    return _tail(scipy.special.gammainc(a, x), a, x, True)


def upper(a: Array, x: Array) -> Array:
    """Return P(X > x) of gamma distributions of shape a and rate 1; arguments broadcast."""
    return _tail(scipy.special.gammaincc(a, x), a, x, False)


def smaller_tails(a: Array, x: Array, middle: Array) -> Array:
    """Return `lower` up to the middle and `upper` beyond it; 0 at x <= 0 and at infinity."""
    # The functions return 0 at once at 0 and at infinity; selecting cells would take as long as they do.
    is_low, is_high = (x > 0) & (x <= middle), x > middle
    return lower(a, np.where(is_low, x, 0.0)) + upper(a, np.where(is_high, x, np.inf))


def lower_inverse(a: Array, p: Array) -> Array:
    """Return x with ``P(X <= x) = p`` for gamma distributions of shape a and rate 1."""
    return _inverse(scipy.special.gammaincinv(a, p), a, p, 1.0)


def upper_inverse(a: Array, p: Array) -> Array:
    """Return x with ``P(X > x) = p`` for gamma distributions of shape a and rate 1."""
    return _inverse(scipy.special.gammainccinv(a, p), a, p, -1.0)


def _tail(tail: object, a: Array, x: Array, below: bool) -> Array:
    large = (a >= LARGE_SHAPE) & (x > 0) & np.isfinite(x)
    if not large.any():
        return np.asarray(tail)
    tail = np.array(tail)
    shape, at = (np.broadcast_to(value, tail.shape)[large] for value in (a, x))
    part = np.empty(len(at))
    _core.poisson_tails(shape - 1, at, below, part)  # P(X > x) = P(N <= a - 1), N Poisson of mean x
    tail[np.broadcast_to(large, tail.shape)] = part
    return tail


def _inverse(quantile: object, a: Array, p: Array, sign: float) -> Array:
    """Return quantiles; at large shapes, by Newton's method in the logarithm of the smaller tail.

    The start is the cube of a normal quantile (Wilson & Hilferty, *The Distribution of Chi-Square*, 1931).
    """
    large = (a >= LARGE_SHAPE) & (p > 0) & (p < 1)
    if not large.any():
        return np.asarray(quantile)
    quantile = np.array(quantile)
    shape, level = (np.broadcast_to(value, quantile.shape)[large] for value in (a, p))
    z = sign * scipy.special.ndtri(level)
    x = shape * (1 - 1 / (9 * shape) + z / (3 * np.sqrt(shape))) ** 3
    other = level > 0.5
    side = np.where(other, -sign, sign)  # the tail that is the smaller one
    target = np.where(other, 1 - level, level)
    for _ in range(_STEPS):
        mass = np.where(side > 0, lower(shape, x), upper(shape, x))
        density = np.exp(log_x_density(x, shape)) / x
        step = side * np.log(mass / target) * mass / density
        x = x - np.where(np.isfinite(step), step, 0.0)  # masses below 1e-308 have lost their digits
    quantile[np.broadcast_to(large, quantile.shape)] = x
    return quantile
