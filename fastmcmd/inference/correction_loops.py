"""Compiled loops over nodes of predictions. Import this module lazily, because Numba loads slowly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.compiled import compiled

__all__ = ["add_bumps", "add_weighted_bumps", "correction_weights", "solve_moments"]

Array = NDArray[np.float64]


# Least value of a bump, relative to its height; the lattice has an error of 1e-6.
_LEAST_BUMP = 1e-12


@compiled
def add_bumps(
    z: Array,
    weight: Array,
    stretch: Array,
    step: float,
    rate: float,
    height: float,
    slopes: bool,
    mean: Array,
    slope: Array,
    stretched: Array,
) -> None:
    """Add the features ``height exp(-rate (z - j step)^2)`` at nodes z (n, L) to their means (n, 2 m + 1).

    With ``slopes``, ``slope`` receives ``sum_l w_l p'(z_l)`` and ``stretched`` ``sum_l w_l p'(z_l)
    stretch_l``. ``weight`` is (1, L) or (n, L). Each node takes two exponentials: factors between
    neighbouring features are a geometric sequence. The loop follows it outwards from the nearest feature,
    where all terms decay, until they are negligible.
    """
    most = (mean.shape[1] - 1) // 2
    square = np.exp(-2.0 * rate * step * step)
    least = _LEAST_BUMP * height
    for i in range(z.shape[0]):
        for node in range(z.shape[1]):
            w = weight[i if weight.shape[0] > 1 else 0, node]
            value, by = z[i, node], stretch[i, node]
            if w < _LEAST_BUMP or not np.isfinite(value):
                continue
            nearest = int(np.rint(min(max(value / step, -float(most)), float(most))))
            gap = value - nearest * step
            top = w * height * np.exp(-rate * gap * gap)
            if top == 0.0:
                continue
            growth = np.exp(2.0 * rate * gap * step - rate * step * step)
            for upwards in (True, False):
                if upwards:
                    term, ratio, distance = top, growth, gap
                    j, sign, end = nearest + most, 1, mean.shape[1]
                else:
                    ratio = square / growth
                    term, distance = top * ratio, gap + step
                    ratio *= square
                    j, sign, end = nearest + most - 1, -1, -1
                if slopes:
                    while j != end and term >= least:
                        change = -2.0 * rate * distance * term
                        mean[i, j] += term
                        slope[i, j] += change
                        stretched[i, j] += change * by
                        term *= ratio
                        ratio *= square
                        distance -= sign * step
                        j += sign
                else:
                    while j != end and term >= least:
                        mean[i, j] += term
                        term *= ratio
                        ratio *= square
                        j += sign


@compiled
def add_weighted_bumps(
    z: Array, weights: Array, step: float, rate: float, height: float, sums: Array
) -> None:
    """Add features at nodes z (n, L) to sums (3, n, 2 m + 1) with the weights (3, n, L) of the nodes.

    Nodes whose first weight, their probability, is below 1e-14 are skipped.
    """
    count = sums.shape[2]
    most = (count - 1) // 2
    square = np.exp(-2.0 * rate * step * step)
    for i in range(z.shape[0]):
        for node in range(z.shape[1]):
            w0, w1, w2 = weights[0, i, node], weights[1, i, node], weights[2, i, node]
            if w0 < 1e-14:
                continue
            value = z[i, node]
            nearest = int(np.rint(min(max(value / step, -float(most)), float(most))))
            gap = value - nearest * step
            top = height * np.exp(-rate * gap * gap)
            if top == 0.0:
                continue
            growth = np.exp(2.0 * rate * gap * step - rate * step * step)
            term, ratio = top, growth
            for j in range(nearest + most, count):
                if term < 1e-17:
                    break
                sums[0, i, j] += w0 * term
                sums[1, i, j] += w1 * term
                sums[2, i, j] += w2 * term
                term *= ratio
                ratio *= square
            ratio = square / growth
            term = top * ratio
            ratio *= square
            for j in range(nearest + most - 1, -1, -1):
                if term < 1e-17:
                    break
                sums[0, i, j] += w0 * term
                sums[1, i, j] += w1 * term
                sums[2, i, j] += w2 * term
                term *= ratio
                ratio *= square


@compiled
def solve_moments(
    values: Array,
    logs: Array,
    statistic: Array,
    mean: Array,
    std: Array,
    bounds: tuple[float, float],
    power: Array,
    tilt: Array,
) -> None:
    """Solve, for each row, for a and b that give ``f(k) exp(a r(k) + b k)``, normalised, wanted moments.

    Newton's method in two unknowns starts from ``power`` (a) and ``tilt`` (b), (n,), which receive the
    result. The Jacobian of an exponential family is a covariance matrix. a stays within ``bounds``. If no a
    in these bounds reaches the standard deviation, the nearest one is returned, with the right mean.

    Parameters
    ----------
    values, logs, statistic : ndarray (n, L)
        k, log f(k), -inf where there is no mass, and r(k).
    mean, std : ndarray (n,)
        The wanted moments.
    """
    count = values.shape[1]
    masses = np.empty(count)
    for i in range(values.shape[0]):
        k, base, r = values[i], logs[i], statistic[i]
        a, b = power[i], tilt[i]
        for _ in range(50):
            top = -np.inf
            for j in range(count):
                masses[j] = base[j] + a * r[j] + b * k[j]
                top = max(top, masses[j])
            total = first = mean_r = 0.0
            for j in range(count):
                p = np.exp(masses[j] - top) if masses[j] > top - 60.0 else 0.0
                masses[j] = p
                total += p
                first += p * k[j]
                mean_r += p * r[j]
            first /= total
            mean_r /= total
            second = cross = third = mixed = 0.0
            for j in range(count):
                p = masses[j] / total
                if p > 0.0:
                    d, e = k[j] - first, r[j] - mean_r
                    second += p * d * d
                    cross += p * d * e
                    third += p * d * d * d
                    mixed += p * d * d * e
            if second <= 0.0:
                break
            gap_mean, gap_variance = mean[i] - first, std[i] * std[i] - second
            right = abs(gap_mean) <= 1e-9 * (1 + abs(mean[i]))
            if right and abs(gap_variance) <= 1e-8 * std[i] * std[i]:
                break
            # d mean = second db + cross da; d variance = third db + mixed da.
            det = second * mixed - cross * third
            change = 0.0
            if det != 0.0:
                change = (second * gap_variance - third * gap_mean) / det
            following = a + min(max(change, -0.5 * (1 + a)), 1 + a)
            following = min(max(following, bounds[0]), bounds[1])
            if right and following == a:
                break
            step = (gap_mean - cross * (following - a)) / second
            limit = 3.0 / np.sqrt(second)
            a = following
            b += min(max(step, -limit), limit)
        power[i], tilt[i] = a, b


@compiled
def correction_weights(
    values: Array,
    logs: Array,
    statistic: Array,
    power: Array,
    tilt: Array,
    weights: Array,
) -> None:
    """Fill ``weights`` with the masses ``f(k) exp(a r(k) + b k)``, normalised, and two derivatives.

    Parameters
    ----------
    values, logs, statistic : ndarray (n, L)
        k, log f(k) and r(k).
    power, tilt : ndarray (n,)
        a and b.
    weights : ndarray (3, n, L)
        Receives the masses p, and their derivatives by the log mean and by the log standard deviation minus
        half the log mean. For rows corrected to a point the derivatives are 0.

    Notes
    -----
    With d = k - mean and e = r - mean of r, p has the derivative ``p d`` in b and ``p e`` in a. The
    derivatives of the moments follow, and the inverse of their Jacobian gives derivatives by the moments.
    """
    count = values.shape[1]
    for i in range(values.shape[0]):
        top = -np.inf
        for j in range(count):
            exponent = logs[i, j] + power[i] * statistic[i, j] + tilt[i] * values[i, j]
            weights[0, i, j] = exponent
            top = max(top, exponent)
        total = first = mean_r = 0.0
        for j in range(count):
            p = np.exp(weights[0, i, j] - top) if weights[0, i, j] > top - 60.0 else 0.0
            weights[0, i, j] = p
            total += p
            first += p * values[i, j]
            mean_r += p * statistic[i, j]
        first /= total
        mean_r /= total
        second = cross = third = mixed = 0.0
        for j in range(count):
            p = weights[0, i, j] / total
            weights[0, i, j] = p
            if p > 0.0:
                d, e = values[i, j] - first, statistic[i, j] - mean_r
                second += p * d * d
                cross += p * d * e
                third += p * d * d * d
                mixed += p * d * d * e
        det = mean_b = mean_a = std_b = std_a = 0.0
        if second > 0.0 and first > 0.0:
            mean_b, mean_a = second / first, cross / first
            std_b = third / (2 * second) - mean_b / 2
            std_a = mixed / (2 * second) - mean_a / 2
            det = mean_b * std_a - mean_a * std_b
        solvable = det != 0.0 and np.isfinite(det)
        for j in range(count):
            p = weights[0, i, j]
            by_shift = by_factor = 0.0
            if solvable and p > 0.0:
                d, e = values[i, j] - first, statistic[i, j] - mean_r
                by_shift = p * (std_a * d - std_b * e) / det
                by_factor = p * (mean_b * e - mean_a * d) / det
            weights[1, i, j] = by_shift
            weights[2, i, j] = by_factor
