"""Log probabilities of binomial and hypergeometric counts, without differences of log-gamma functions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.elementwise import by_rows

__all__ = ["binomial_log_masses", "hypergeometric_log_masses"]

_FACTORIALS = np.array(
    [float(math.factorial(k)) for k in range(171)]
)  # the last one below overflow
_FEW_TRIALS = 64  # number up to which terms of size ``n log 2`` round to less than 1e-14
_STIRLING = 16  # argument from which five terms of Stirling's series are exact to rounding
# log k! - k log k + k, from an exact ratio
_EXCESSES = np.array([math.log(math.factorial(k) / k**k * math.exp(k)) for k in range(_STIRLING)])
_NEAR = 0.1  # relative distance up to which the deviance cancels, so a series is used
_TERMS = 8  # terms of that series; the next one is below 1e-17
_SPLITTER = 2.0**27 + 1
_LEAST = float(np.finfo(np.float64).tiny)


def binomial_log_masses(y: Array, trials: Array, probability: Array) -> Array:
    """Return log probabilities (n,) of numbers of successes y; -inf where y is not a possible count."""
    return by_rows(_binomial, y, trials, probability)


def hypergeometric_log_masses(y: Array, total: Array, good: Array, sampled: Array) -> Array:
    """Return log probabilities (n,) of y good ones among ``sampled`` of ``total``, of which some are good.

    They are -inf where y is not a possible count.
    """
    return by_rows(_hypergeometric, y, total, good, sampled)


def _binomial(y: Array, trials: Array, probability: Array) -> Array:
    k, is_count = _counts(y, np.zeros(1), trials)
    few = trials.max() <= _FEW_TRIALS
    logs = (_binomial_of_few if few else _binomial_of_many)(k, trials, probability)
    return _at_counts(logs, y, is_count)


def _binomial_of_few(k: Array, n: Array, p: Array) -> Array:
    q = 1 - p
    log_q = np.log(q) + ((1 - q) - p) / np.maximum(q, _LEAST)  # of 1 - p, of which q is a rounding
    failures = n - k
    logs = np.log(_choices(n, k))
    logs += np.where(k > 0, k * np.log(p), 0.0)
    logs += np.where(failures > 0, failures * log_q, 0.0)
    return logs


def _binomial_of_many(k: Array, n: Array, p: Array) -> Array:
    """Return log probabilities in the saddle-point form of Loader.

    See Loader, *Fast and accurate computation of binomial probabilities*, 2000.
    """
    failures, q = n - k, 1 - p
    head = p.astype(np.float32).astype(np.float64)  # its product with n is exact up to n = 2^29
    gap = (k - n * head) - n * (p - head)
    logs = _factorial_excess(n) - _factorial_excess(k) - _factorial_excess(failures)
    return logs - _deviance(k, n * p, gap) - _deviance(failures, n * q, -gap)


def _hypergeometric(y: Array, total: Array, good: Array, sampled: Array) -> Array:
    bad = total - good
    k, is_count = _counts(y, np.maximum(sampled - bad, 0.0), np.minimum(good, sampled))
    few = total.max() < len(_FACTORIALS)
    logs = (_hypergeometric_of_few if few else _hypergeometric_of_many)(k, good, bad, sampled)
    return _at_counts(logs, y, is_count)


def _hypergeometric_of_few(k: Array, good: Array, bad: Array, sampled: Array) -> Array:
    masses = _choices(good, k) * _choices(bad, sampled - k) / _choices(good + bad, sampled)
    return np.asarray(np.log(masses))


def _hypergeometric_of_many(k: Array, good: Array, bad: Array, sampled: Array) -> Array:
    """Return log probabilities from the deviances of the four cells of the table.

    All cells are equally far from what is expected of them, ``gap``: those expected have the same margins.
    """
    total, unsampled = good + bad, good + bad - sampled
    product, rounding = _two_product(k, total)
    other, other_rounding = _two_product(good, sampled)
    gap = ((product - other) + (rounding - other_rounding)) / total
    logs = -_factorial_excess(total)
    for margin in (good, bad, sampled, unsampled):
        logs += _factorial_excess(margin)
    cells = (
        (k, good, sampled, gap),
        (good - k, good, unsampled, -gap),
        (sampled - k, bad, sampled, -gap),
        (unsampled - (good - k), bad, unsampled, gap),
    )
    for cell, row, column, distance in cells:
        logs -= _factorial_excess(cell) + _deviance(cell, row / total * column, distance)
    return logs


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return rounded products and what rounding took from them (Dekker 1971), of numbers below 1e150."""
    product = a * b
    (a_head, a_tail), (b_head, b_tail) = _halves(a), _halves(b)
    rounding = ((a_head * b_head - product) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail
    return product, rounding


def _halves(x: Array) -> tuple[Array, Array]:
    """Return two numbers of 26 bits whose sum is x."""
    spread = _SPLITTER * x
    head = spread - (spread - x)
    return head, x - head


def _counts(y: Array, least: Array, most: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return y, or ``least`` where it is not a count from ``least`` to ``most``, and whether it is one."""
    is_count = (y >= least) & (y <= most) & (y == np.floor(y))
    return (y if is_count.all() else np.where(is_count, y, least)), is_count


def _at_counts(logs: Array, y: Array, is_count: NDArray[np.bool_]) -> Array:
    if is_count.all():
        return logs
    return np.where(is_count, logs, np.where(np.isnan(y), np.nan, -np.inf))


def _choices(n: Array, k: Array) -> Array:
    """Return binomial coefficients of whole n up to 170."""
    n_place, k_place = n.astype(np.intp), k.astype(np.intp)
    factorial = _FACTORIALS
    return factorial[n_place] / factorial[k_place] / factorial[n_place - k_place]


def _factorial_excess(x: Array) -> Array:
    """Return ``log x! - x log x + x`` of whole numbers x >= 0."""
    large = np.maximum(x, _STIRLING)
    s = 1 / (large * large)
    series = (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / large
    series += np.log(2 * np.pi * large) / 2
    small = np.minimum(x, _STIRLING - 1).astype(np.intp)
    return np.where(x < _STIRLING, _EXCESSES[small], series)


def _deviance(x: Array, mean: Array, gap: Array) -> Array:
    """Return ``x log(x / mean) - gap`` for x, mean >= 0 and the gap ``x - mean``, which may be more exact.

    Near the mean it uses ``log(x / mean) = 2 atanh(v)`` with ``v = gap / (x + mean)``.
    """
    v = gap / (x + mean)
    s = v * v
    series = np.zeros_like(s)
    for k in range(_TERMS, 0, -1):
        series = series * s + 1 / (2 * k + 1)
    near = gap * v + 2 * x * v * (s * series)
    is_near = np.abs(v) < _NEAR
    if is_near.all():
        return near
    ratio = x / mean
    logs = np.log(ratio)
    if np.isinf(ratio).any():
        logs = np.where(np.isinf(ratio), np.log(x) - np.log(mean), logs)
    return np.where(is_near, near, np.where(x > 0, x * logs, 0.0) - gap)
