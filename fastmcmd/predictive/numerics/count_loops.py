"""Compiled loops over counts: probabilities and scores of Poisson and negative binomial rows.

Modules import this one only when they need it: the first compilation takes seconds. Numba caches the
result on disk.
A dispersion of 0 is the Poisson distribution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled

__all__ = [
    "HALF_LOG_2PI",
    "NOTHING",
    "compiled",
    "consecutive_log_masses",
    "crps_by_sums",
    "deviance",
    "half_gini",
    "log_mass",
    "log_masses",
    "quantiles",
    "stirling_error",
]

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
NOTHING = 1e-17  # share of a total that is below its rounding
_LEAST_LOG = -690.0  # least logarithm of a mass that a double holds with all digits
_FAR = 1e300  # dispersion times a count up to which formulas stay in range
_FRESH = 512  # counts after which the mass is recomputed, so that rounding stays near 1e-13


@compiled
def stirling_error(x: float) -> float:
    """Return ``log Gamma(x + 1) - log(sqrt(2 pi x) (x / e)^x)`` for x > 0.

    Uses Stirling's series from x = 16 on, where the first term left out is below 1e-16.
    """
    if x < 16.0:
        return math.lgamma(x + 1.0) - (x + 0.5) * math.log(x) + x - HALF_LOG_2PI
    s = 1.0 / (x * x)
    series = 1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))
    return series / x


@compiled
def deviance(x: float, m: float) -> float:
    """Return ``x log(x / m) + m - x`` for x, m > 0, accurate even if x and m are close.

    With ``v = (x - m) / (x + m)``, ``log(x / m) = 2 atanh(v)``. The series stops when a term is below 1e-16
    of the sum.
    """
    return _deviance(x, m, x - m)


@compiled
def _deviance(x: float, m: float, gap: float) -> float:
    """Return the deviance from x, m and their difference ``gap``, which may be more accurate than x - m."""
    v = gap / (x + m)
    if abs(v) < 0.1:
        s = v * v
        odd = s * (1 / 11 + s * (1 / 13 + s * (1 / 15 + s / 17)))
        odd = s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + odd))))
        return gap * v + 2.0 * x * v * odd
    if x < 1e300 * m:
        return x * math.log(x / m) - gap
    return x * (math.log(x) - math.log(m)) - gap  # x / m overflows


@compiled
def log_mass(k: float, mean: float, alpha: float) -> float:
    """Return the log probability of a count k >= 0.

    Uses the saddle-point form of Loader, *Fast and Accurate Computation of Binomial Probabilities*, 2000.
    It adds small terms; differences of log-gamma functions lose five digits at 1e5.
    """
    if mean == 0.0:
        return 0.0 if k == 0.0 else -math.inf
    if alpha == 0.0:
        if k == 0.0:
            return -mean
        head = -HALF_LOG_2PI - 0.5 * math.log(k)
        return head - stirling_error(k) - deviance(k, mean)
    odds, size = alpha * mean, 1.0 / alpha
    if k == 0.0:
        return -size * math.log1p(odds)
    total = size + k
    head = -HALF_LOG_2PI - 0.5 * (math.log1p(alpha * k) + math.log(k))
    head += stirling_error(total) - stirling_error(size) - stirling_error(k)
    gap = (k - mean) / (1.0 + odds)  # distance of k, and of the size, to its mean given k + size
    shrunk = (1.0 + alpha * k) * (mean / (1.0 + odds))
    return head - _deviance(size, total / (1.0 + odds), -gap) - _deviance(k, shrunk, gap)


@compiled
def log_masses(y: Array, mean: Array, alpha: Array, out: Array) -> None:
    """Write log probabilities of y (n,): -inf where y is not a count, NaN where y is NaN."""
    for i in range(len(y)):
        k = y[i]
        if math.isnan(k):
            out[i] = math.nan
        elif k < 0.0 or math.isinf(k) or k != np.floor(k):
            out[i] = -math.inf
        else:
            far = _FAR / max(alpha[i], 1.0) if alpha[i] > 0.0 else math.inf
            out[i] = log_mass(min(k, far), mean[i], alpha[i])
            if (
                k > far and mean[i] > 0.0
            ):  # alpha k may overflow; masses are a power and an exponential
                odds = max(alpha[i] * mean[i], 1e-300)
                out[i] += (1.0 / alpha[i] - 1.0) * math.log(k / far)
                out[i] -= (k - far) * math.log1p(1.0 / odds)


@compiled
def consecutive_log_masses(first: Array, mean: Array, alpha: Array, out: Array) -> None:
    """Write log probabilities (n, L) of the counts ``first``, ``first + 1``, ...

    Each adds the logarithm of a ratio to the one before. Every `_FRESH` counts the value is recomputed, so
    that rounding stays near 1e-13.
    """
    for i in range(len(first)):
        step = mean[i] / (1.0 + alpha[i] * mean[i])
        k = first[i]
        value = log_mass(k, mean[i], alpha[i])
        for j in range(out.shape[1]):
            out[i, j] = value
            k += 1.0
            if mean[i] > 0.0 and (j + 1) % _FRESH:
                value += math.log(step * (1.0 + alpha[i] * (k - 1.0)) / k)
            else:
                value = log_mass(k, mean[i], alpha[i])


@compiled
def crps_by_sums(y: Array, mean: Array, alpha: Array, out: Array) -> None:
    """Write the scores of real y (n,), summed over the masses on either side of y.

    ``E|Y - y| - E|Y - Y'| / 2`` is the sum of ``p_i p_j min(|i - y|, |j - y|)`` over pairs on one side
    of y. All terms are positive and are added from y outwards, so scores near 0 keep their digits. If y is
    far out, the sum starts where the mass ends, at no extra cost.
    """
    for i in range(len(y)):
        if mean[i] == 0.0 or not math.isfinite(y[i]):
            out[i] = abs(y[i])
        else:
            out[i] = _crps(y[i], mean[i], alpha[i])


@compiled
def _last_mass(low: float, high: float, mean: float, alpha: float) -> float:
    """Return the largest count in [low, high] whose mass a double holds with all its digits.

    The sums below an outcome start at a mass and derive each mass from the one above it. Started at a mass
    that underflows to 0, all would be 0. Masses above the count returned are too small to affect a score.
    """
    if log_mass(high, mean, alpha) > _LEAST_LOG:
        return high
    while high - low > 1.0:
        middle = np.floor(0.5 * (low + high))
        if log_mass(middle, mean, alpha) > _LEAST_LOG:
            low = middle
        else:
            high = middle
    return low


@compiled
def _crps(y: float, mean: float, alpha: float) -> float:
    spread = 1.0 + alpha * mean
    step = mean / spread  # p(k + 1) / p(k) = step (1 + alpha k) / (k + 1), towards `limit`
    limit = alpha * step
    sd = math.sqrt(mean * spread)
    # Less than e^-40 of the mass lies outside.
    low = max(np.floor(mean - 9.0 * sd), 0.0)
    high = _last_mass(low, np.ceil(mean + 12.0 * sd + 60.0 * spread), mean, alpha)
    # Beyond the mass the score grows by the distance, which is added at the end: products would overflow.
    outcome = y
    y = min(max(outcome, low - 1.0), high + 1.0)
    start = max(min(np.floor(y), high), low - 1.0)

    score = moment = 0.0  # moment: sum of the masses so far times their distance from y
    k = start
    p = math.exp(log_mass(k, mean, alpha)) if k >= low else 0.0
    while k >= low:
        part = p * (y - k)
        score += p * (2.0 * moment + part)
        moment += part
        if k == 0.0:
            break
        ratio = k / (step * (1.0 + alpha * (k - 1.0)))
        p *= ratio
        k -= 1.0
        # The remaining masses fall at least geometrically.
        if ratio < 1.0 and p * (2.0 * moment + p * (y - k)) <= NOTHING * (1.0 - ratio) * score:
            break

    moment = 0.0
    k = start + 1.0
    p = math.exp(log_mass(k, mean, alpha))
    while True:
        part = p * (k - y)
        score += p * (2.0 * moment + part)
        moment += part
        ratio = step * (1.0 + alpha * k) / (k + 1.0)
        p *= ratio
        k += 1.0
        bound = max(ratio, limit)
        if bound < 1.0 and p * (2.0 * moment + p * (k - y)) <= NOTHING * (1.0 - bound) * score:
            return score + abs(outcome - y)


@compiled
def half_gini(mean: Array, alpha: Array, out: Array) -> None:
    """Write ``E|Y - Y'| / 2`` (n,) of negative binomial rows with positive mean and dispersion.

    For whole d, ``|d| = (1 / 2 pi) int (1 - cos(d t)) / (1 - cos t) dt`` over a period. This turns the mean
    difference into an integral of the squared modulus of the characteristic function, ``(1 + 2 b (1 + b)
    (1 - cos t))^(-1/a)``, with a the dispersion and ``b = a mean``. Substituting ``z = tan(t/2)``,
    integrating by parts, and substituting ``z = sinh(x) / (1 + 2 b)`` gives

        4 mean (1 + b) / (pi (1 + 2 b)) int_0^inf g(z)^(-1/a) / ((1 + z^2) cosh x) dx,
        g(z) = 1 + 4 b (1 + b) z^2 / (1 + z^2)

    The integrand is positive, even, and analytic within pi/2 of the real line, so the trapezoidal rule
    converges exponentially (Trefethen & Weideman, SIAM Review 2014). Near 0 it resembles a normal density
    with standard deviation ``(1 + 2 b) / sqrt(8 mean (1 + b))``. With a step of half of that, or 0.2, the
    error is 1e-13.
    """
    for i in range(len(mean)):
        out[i] = _half_gini(mean[i], alpha[i])


@compiled
def _half_gini(mean: float, alpha: float) -> float:
    b = alpha * mean
    wide = 1.0 + 2.0 * b
    odd = 4.0 * b * (1.0 + b)
    step = min(0.2, 0.5 * wide / math.sqrt(8.0 * mean * (1.0 + b)))
    growth = math.exp(step)
    total, up = 0.5, 1.0
    while True:
        up *= growth
        z = (up - 1.0 / up) / (2.0 * wide)
        square = z * z
        share = square / (1.0 + square)
        cosh = 0.5 * (up + 1.0 / up)
        term = math.exp(-math.log1p(odd * share) / alpha) / ((1.0 + square) * cosh)
        total += term
        # Beyond the first standard deviations, each term is at most exp(-step) times the one before.
        if term <= NOTHING * step * total:
            return 4.0 * mean * (1.0 + b) / (math.pi * wide) * step * total


# Walks handle levels at least this far from 0 and 1. The others are rare, and far out.
_LEAST_LEVEL = 1e-8
# A level this close to a step of the cdf, relatively or absolutely, is decided by the public cdf instead.
# That rounds to 1e-13, or as a difference from 1 to 1e-16. Only one level in 1e7 is affected.
_NEAR, _CLOSE = 1e-9, 1e-15
# The mass below this many standard deviations is e^-55, negligible relative to the least level. (The lower
# tail is no heavier than a normal one, because the third cumulant of tilted rows is positive.)
_DEPTH = 10.5
_PER_LEVEL = 256  # a walk over so many counts takes a tenth of one quantile and two cdfs of SciPy
_MOST = 1 << 15  # longest walk in counts: 0.1 ms


@compiled
def quantiles(
    levels: Array, order: NDArray[np.intp], mean: Array, alpha: Array, out: Array
) -> None:
    """Write the smallest counts (n, j) whose cdf is at least a level; NaN where a walk cannot decide.

    ``levels`` and ``order``, the indices that sort them, are (n, j), or (1, j) for all rows. Each row is
    one walk upwards from its lower tail; each mass is the one before times a ratio. The result is NaN if
    the walk would be long, the level is far out, or it is so close to a step of the cdf that rounding
    decides.
    """
    count = levels.shape[1]
    limit = min(_PER_LEVEL * count, _MOST)
    for i in range(len(mean)):
        row = min(i, len(levels) - 1)
        spread = 1.0 + alpha[i] * mean[i]
        step = mean[i] / spread
        k = np.floor(max(mean[i] - _DEPTH * math.sqrt(mean[i] * spread), 0.0))
        walks = mean[i] > 0.0 and mean[i] - k <= limit
        log_p = log_mass(k, mean[i], alpha[i]) if walks else 0.0
        walks = walks and log_p > _LEAST_LOG
        p = math.exp(log_p)
        cdf, below = p, 0.0
        last = k + limit
        fresh = k + _FRESH
        for column in range(count):
            place = order[row, column]
            level = levels[row, place]
            if level <= 0.0 or mean[i] == 0.0:
                out[i, place] = 0.0
                continue
            if level >= 1.0:
                out[i, place] = math.inf
                continue
            if not walks or level < _LEAST_LEVEL or level > 1.0 - _LEAST_LEVEL:
                out[i, place] = math.nan
                continue
            while cdf < level and k < last:
                p *= step * (1.0 + alpha[i] * k) / (k + 1.0)
                k += 1.0
                if k == fresh:
                    p = math.exp(log_mass(k, mean[i], alpha[i]))
                    fresh += _FRESH
                below = cdf
                cdf += p
            near = _NEAR * level + _CLOSE
            sure = cdf - level > near and level - below > near
            out[i, place] = k if sure else math.nan
