"""Compiled loops over the rows of double Poisson distributions, imported only when needed.

Masses are ``exp(h(k) - phi d(k, mu))``, with ``h(k) = log(k^k e^-k / k!)`` and the unit deviance ``d(k, mu)
= k log(k / mu) + mu - k``. Factors that all counts share are left out. Masses are relative to the mass at
the whole number nearest to mu, which keeps them in range for any phi.
"""

from __future__ import annotations

import math

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.count_loops import (
    HALF_LOG_2PI,
    NOTHING,
    compiled,
    deviance,
    stirling_error,
)

__all__ = [
    "log_masses",
    "lower_tails",
    "masses",
    "moments",
    "quantiles",
    "scores",
    "tables",
    "upper_tails",
    "windows",
]

_DEPTH = 42.0  # windows end where the mass is e^-42 = 6e-19 of that at mu, below rounding
_DEEP = 1e-3  # share of the mass at the mode; below it, the mass under the window may matter
_LOG_NOTHING = math.log(NOTHING)
_TABLE = 1 << 14  # counts whose logarithms are tabulated: both tables stay in the cache


@compiled
def tables() -> tuple[Array, Array]:
    """Return tables of ``log k`` and ``h(k)`` for the first counts."""
    logs, heads = np.zeros(_TABLE), np.zeros(_TABLE)
    for k in range(1, _TABLE):
        logs[k] = math.log(k)
        heads[k] = -HALF_LOG_2PI - 0.5 * logs[k] - stirling_error(float(k))
    return logs, heads


@compiled
def _log_mass(k: float, mu: float, log_mu: float, phi: float, logs: Array, heads: Array) -> float:
    """Return the log mass of a count k >= 0, mu > 0."""
    if k == 0.0:
        return -phi * mu
    if k >= len(logs):
        head = -HALF_LOG_2PI - 0.5 * math.log(k) - stirling_error(k)
        return head - phi * deviance(k, mu)
    index = int(k)
    gap = k - mu
    if abs(gap) < 0.1 * (k + mu):
        return heads[index] - phi * deviance(k, mu)
    return heads[index] - phi * (k * (logs[index] - log_mu) - gap)


@compiled
def _window(
    mu: float, log_mu: float, phi: float, logs: Array, heads: Array
) -> tuple[float, float, float, float]:
    """Return the count next to mu with the larger mass, its log mass, and the ends of the window."""
    if mu == 0.0:
        return 0.0, 0.0, 0.0, 0.0
    mode = np.floor(mu)
    top = _log_mass(mode, mu, log_mu, phi, logs, heads)
    other = _log_mass(mode + 1.0, mu, log_mu, phi, logs, heads)
    if other > top:
        mode, top = mode + 1.0, other
    depth = _DEPTH / phi + (deviance(mode, mu) if mode > 0.0 else mu)
    # Below mean 1, scores depend on the mass above 0, so the depth is relative to the mass at 1.
    above = _DEPTH / phi + deviance(1.0, mu) if mu < 1.0 else depth
    # d(k, mu) >= (k - mu)^2 / (2 mu + 2 (k - mu) / 3) gives an end too far out. Newton steps from there
    # stay outside, because d is convex.
    high = mu + above / 3 + math.sqrt(above * above / 9 + 2 * above * mu)
    for _ in range(50):
        slope = math.log(high) - log_mu
        if slope <= 0.0:  # all mass is next to mu
            break
        step = (deviance(high, mu) - above) / slope
        high -= step
        if step < 0.5:
            break
    low = 0.0
    if mu > 1.0 and deviance(1.0, mu) > depth:
        low = max(1.0, mu - math.sqrt(2 * depth * mu))
        for _ in range(50):
            slope = log_mu - math.log(low)
            if slope <= 0.0:
                break
            step = (deviance(low, mu) - depth) / slope
            low += step
            if step < 0.5:
                break
    return mode, top, np.floor(low), max(np.ceil(high), mode + 1.0)


@compiled
def windows(mu: Array, phi: Array, logs: Array, heads: Array, low: Array, high: Array) -> None:
    """Write the first and last counts (n,) whose mass is not below rounding."""
    for i in range(len(mu)):
        log_mu = math.log(mu[i]) if mu[i] > 0.0 else 0.0
        _, _, low[i], high[i] = _window(mu[i], log_mu, phi[i], logs, heads)


@compiled
def moments(
    mu: Array,
    phi: Array,
    logs: Array,
    heads: Array,
    total: Array,
    mean: Array,
    variance: Array,
) -> None:
    """Write the sums of the masses (n,), means and variances, with sums centred at the count next to mu."""
    for i in range(len(mu)):
        if mu[i] == 0.0:
            total[i], mean[i], variance[i] = 1.0, 0.0, 0.0
            continue
        log_mu = math.log(mu[i])
        mode, top, low, high = _window(mu[i], log_mu, phi[i], logs, heads)
        mass = first = second = 0.0
        for j in range(int(high - low) + 1):
            k = low + j
            p = math.exp(_log_mass(k, mu[i], log_mu, phi[i], logs, heads) - top)
            gap = k - mode
            mass += p
            first += p * gap
            second += p * gap * gap
        shift = first / mass
        total[i], mean[i] = mass, mode + shift
        variance[i] = second / mass - shift * shift


@compiled
def log_masses(
    y: Array, mu: Array, phi: Array, logs: Array, heads: Array, total: Array, out: Array
) -> None:
    """Write log probabilities of y (n,): -inf where y is not a count, NaN where y is NaN."""
    for i in range(len(y)):
        k = y[i]
        if math.isnan(k):
            out[i] = math.nan
        elif k < 0.0 or math.isinf(k) or k != np.floor(k):
            out[i] = -math.inf
        elif mu[i] == 0.0:
            out[i] = 0.0 if k == 0.0 else -math.inf
        else:
            log_mu = math.log(mu[i])
            _, top, _, _ = _window(mu[i], log_mu, phi[i], logs, heads)
            log_mass = _log_mass(k, mu[i], log_mu, phi[i], logs, heads)
            out[i] = log_mass - top - math.log(total[i])


@compiled
def _lower_tail(
    k: float, mu: float, log_mu: float, phi: float, top: float, logs: Array, heads: Array
) -> float:
    """Return the mass from 0 to k, below the window."""
    mass = 0.0
    while k >= 0.0:
        p = math.exp(_log_mass(k, mu, log_mu, phi, logs, heads) - top)
        mass += p
        # Towards 0, masses grow at most like the square root of k.
        if p * (k + 1.0) ** 1.5 <= NOTHING * mass:
            break
        k -= 1.0
    return mass


@compiled
def _upper_tail(
    k: float, mu: float, log_mu: float, phi: float, top: float, logs: Array, heads: Array
) -> float:
    """Return the mass from k on, above the window."""
    mass = 0.0
    while True:
        p = math.exp(_log_mass(k, mu, log_mu, phi, logs, heads) - top)
        mass += p
        k += 1.0
        # The remaining masses fall at least geometrically, by the slope of the deviance.
        if p <= NOTHING * mass * -math.expm1(-phi * (math.log(k) - log_mu)):
            return mass


@compiled
def _below_window(
    k: float,
    low: float,
    mu: float,
    log_mu: float,
    phi: float,
    top: float,
    logs: Array,
    heads: Array,
) -> float:
    """Return the mass below the window, or 0 if it is negligible relative to the mass from there to k."""
    if low == 0.0:
        return 0.0
    end = _log_mass(low, mu, log_mu, phi, logs, heads)
    # As in `_lower_tail`: towards 0, the masses below grow at most like the square root of k.
    if end + 1.5 * math.log(low + 1.0) < _log_mass(k, mu, log_mu, phi, logs, heads) + _LOG_NOTHING:
        return 0.0
    return _lower_tail(low - 1.0, mu, log_mu, phi, top, logs, heads)


@compiled
def _above_window(
    k: float,
    high: float,
    mu: float,
    log_mu: float,
    phi: float,
    top: float,
    logs: Array,
    heads: Array,
) -> float:
    """Return the mass above the window, or 0 if it is negligible relative to the mass from k to there."""
    end = _log_mass(high, mu, log_mu, phi, logs, heads)
    end -= math.log(-math.expm1(-phi * (math.log(high) - log_mu)))  # bound by a geometric series
    if end < _log_mass(k + 1.0, mu, log_mu, phi, logs, heads) + _LOG_NOTHING:
        return 0.0
    return _upper_tail(high + 1.0, mu, log_mu, phi, top, logs, heads)


@compiled
def lower_tails(
    y: Array, mu: Array, phi: Array, logs: Array, heads: Array, total: Array, out: Array
) -> None:
    """Write P(Y <= y) for whole y (n,)."""
    for i in range(len(y)):
        share, upper = _tail(y[i], mu[i], phi[i], logs, heads, total[i])
        out[i] = 1.0 - share if upper else share


@compiled
def upper_tails(
    y: Array, mu: Array, phi: Array, logs: Array, heads: Array, total: Array, out: Array
) -> None:
    """Write P(Y > y) for whole y (n,)."""
    for i in range(len(y)):
        share, upper = _tail(y[i], mu[i], phi[i], logs, heads, total[i])
        out[i] = share if upper else 1.0 - share


@compiled
def _tail(
    k: float, mu: float, phi: float, logs: Array, heads: Array, total: float
) -> tuple[float, bool]:
    """Return the probability of the tail at k, and whether that is the upper tail.

    The sum runs from the end of the mass inwards, so that small probabilities keep their digits.
    """
    if math.isnan(k):
        return math.nan, False
    if k < 0.0:
        return 0.0, False
    if mu == 0.0 or math.isinf(k):
        return 0.0, True
    log_mu = math.log(mu)
    mode, top, low, high = _window(mu, log_mu, phi, logs, heads)
    mass = 0.0
    if k < low:
        mass = _lower_tail(k, mu, log_mu, phi, top, logs, heads)
    elif k < mode:
        mass = _below_window(k, low, mu, log_mu, phi, top, logs, heads)
        for j in range(int(k - low) + 1):
            mass += math.exp(_log_mass(low + j, mu, log_mu, phi, logs, heads) - top)
    elif k < high:
        mass = _above_window(k, high, mu, log_mu, phi, top, logs, heads)
        for j in range(int(high - k)):
            mass += math.exp(_log_mass(high - j, mu, log_mu, phi, logs, heads) - top)
    else:
        mass = _upper_tail(k + 1.0, mu, log_mu, phi, top, logs, heads)
    return mass / total, k >= mode


@compiled
def scores(y: Array, mu: Array, phi: Array, logs: Array, heads: Array, out: Array) -> None:
    """Write the continuous ranked probability scores of real y (n,).

    One pass over the window computes the sums of `count_loops.crps_by_sums` and the normalisation.
    """
    for i in range(len(y)):
        x = y[i]
        if mu[i] == 0.0 or not math.isfinite(x):
            out[i] = abs(x)
            continue
        log_mu = math.log(mu[i])
        _, top, low, high = _window(mu[i], log_mu, phi[i], logs, heads)
        x = min(max(x, low - 1.0), high + 1.0)  # beyond, the score grows by the distance
        start = max(min(np.floor(x), high), low - 1.0)
        score = mass = moment = 0.0
        for j in range(int(start - low) + 1):
            k = start - j
            p = math.exp(_log_mass(k, mu[i], log_mu, phi[i], logs, heads) - top)
            part = p * (x - k)
            score += p * (2.0 * moment + part)
            moment += part
            mass += p
        moment = 0.0
        for j in range(int(high - start)):
            k = start + 1.0 + j
            p = math.exp(_log_mass(k, mu[i], log_mu, phi[i], logs, heads) - top)
            part = p * (k - x)
            score += p * (2.0 * moment + part)
            moment += part
            mass += p
        out[i] = score / (mass * mass) + abs(y[i] - x)


@compiled
def masses(first: Array, mu: Array, phi: Array, logs: Array, heads: Array, out: Array) -> None:
    """Write the probabilities (n, L) of the counts from ``first`` (n,), which sum to 1."""
    for i in range(len(mu)):
        if mu[i] == 0.0:
            for j in range(out.shape[1]):
                out[i, j] = 1.0 if first[i] + j == 0.0 else 0.0
            continue
        log_mu = math.log(mu[i])
        _, top, _, _ = _window(mu[i], log_mu, phi[i], logs, heads)
        total = 0.0
        for j in range(out.shape[1]):
            k = first[i] + j
            out[i, j] = math.exp(_log_mass(k, mu[i], log_mu, phi[i], logs, heads) - top)
            total += out[i, j]
        for j in range(out.shape[1]):
            out[i, j] /= total


@compiled
def quantiles(
    levels: Array, mu: Array, phi: Array, logs: Array, heads: Array, total: Array, out: Array
) -> None:
    """Write the smallest counts (n, j) whose cdf is at least a level (n, j), or (1, j) for all rows.

    The cdf is summed in the order of `lower_tails`, so that both agree to the last digit.
    """
    for i in range(len(mu)):
        own = levels[min(i, len(levels) - 1)]
        if mu[i] == 0.0:
            out[i, :] = 0.0
            continue
        log_mu = math.log(mu[i])
        mode, top, low, high = _window(mu[i], log_mu, phi[i], logs, heads)
        cdf = np.empty(int(high - low) + 1)
        for j in range(len(cdf)):
            cdf[j] = math.exp(_log_mass(low + j, mu[i], log_mu, phi[i], logs, heads) - top)
        middle = int(mode - low)
        mass = 0.0
        if middle > 0 and own.min() * total[i] < _DEEP * cdf[middle]:
            mass = _below_window(low, low, mu[i], log_mu, phi[i], top, logs, heads)
        for j in range(middle):
            mass += cdf[j]
            cdf[j] = mass / total[i]
        mass = 0.0
        for j in range(len(cdf) - 1, middle - 1, -1):
            p = cdf[j]
            cdf[j] = 1.0 - mass / total[i]
            mass += p
        for column in range(len(own)):
            level = own[column]
            if level <= 0.0:
                out[i, column] = 0.0
            elif level >= 1.0:
                out[i, column] = math.inf
            else:
                first, last = 0, len(cdf)  # searchsorted would take half a second to compile
                while first < last:
                    between = (first + last) // 2
                    if cdf[between] < level:
                        first = between + 1
                    else:
                        last = between
                k = low + first
                if first == 0:
                    while k > 0.0 and level * total[i] <= _lower_tail(
                        k - 1.0, mu[i], log_mu, phi[i], top, logs, heads
                    ):
                        k -= 1.0
                out[i, column] = k
