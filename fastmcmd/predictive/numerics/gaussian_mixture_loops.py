"""Compiled loop for quantiles of mixtures of Gaussians, imported only when needed."""

from __future__ import annotations

import math

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled

__all__ = ["quantiles"]

_ROOT_HALF = math.sqrt(0.5)
_ROOT_2PI = math.sqrt(2 * math.pi)
_EPS = 2.0**-52
# Halley's steps converge cubically: after a step this small relative to the narrowest component, the error
# is below rounding.
_LAST_STEP = 1e-6
_FLAT = 1e-9  # of the narrowest component: largest shift of a quantile by rounding of the cdf
_MOST_STEPS = 100  # about 3 steps are needed; bisection alone gains a digit in 3 steps


@compiled
def quantiles(levels: Array, z: Array, mean: Array, std: Array, weights: Array, out: Array) -> None:
    """Write the quantiles (n, j) of mixtures of K Gaussians; NaN where the cdf is nearly flat.

    Parameters
    ----------
    levels, z : ndarray (m, j)
        Levels, ascending along each row, and the standard normal quantiles at them. m is n, or 1 for levels
        that all rows share.
    mean, std, weights : ndarray (n, K)
        Parameters of the components.
    out : ndarray (n, j)
        The quantiles.

    Notes
    -----
    Halley's iteration starts from the Taylor series of the quantile function at the previous level. The
    iterates stay between the quantiles of the components. Bisection takes over if a step is not at most
    half as long as the one before, as in tails.
    """
    inverse, height = np.empty(mean.shape[1]), np.empty(mean.shape[1])
    for i in range(len(mean)):
        row = min(i, len(levels) - 1)
        centre = second = 0.0
        narrowest = math.inf
        for c in range(mean.shape[1]):
            w = weights[i, c]
            if w > 0.0:
                centre += w * mean[i, c]
                narrowest = min(narrowest, std[i, c])
        for c in range(mean.shape[1]):
            inverse[c] = 1.0 / std[i, c]
            height[c] = weights[i, c] * inverse[c] / _ROOT_2PI
            gap = mean[i, c] - centre
            second += weights[i, c] * (std[i, c] * std[i, c] + gap * gap)
        spread = math.sqrt(second)
        before, x = 0.0, -math.inf  # the previous level and its quantile
        density = slope = step = 0.0
        for column in range(levels.shape[1]):
            level = levels[row, column]
            if level <= 0.0 or level >= 1.0:
                out[i, column] = -math.inf if level <= 0.0 else math.inf
                continue
            low, high = math.inf, -math.inf
            for c in range(mean.shape[1]):
                if weights[i, c] > 0.0:
                    end = mean[i, c] + std[i, c] * z[row, column]
                    low, high = min(low, end), max(high, end)
            if low == high:
                x, density = low, 0.0  # density 0: the next level does not use the Taylor series
                out[i, column] = x
                continue
            low = max(low, min(x, high))  # quantiles ascend, to the last digit
            if density > 0.0:
                move = (level - before) / density
                x += move * (1.0 - 0.5 * slope * move / density)
            else:
                x = centre + spread * z[row, column]
            if not low <= x <= high:
                x = low + 0.5 * (high - low)
            converged, moved = False, math.inf
            # Above level 0.5, compare complements, which are accurate near 1.
            sign = 1.0 if level <= 0.5 else -1.0
            for _ in range(_MOST_STEPS):
                gap = -level if sign > 0.0 else 1.0 - level
                density, slope = 0.0, 0.0
                for c in range(mean.shape[1]):
                    w = weights[i, c]
                    if w > 0.0:
                        t = (x - mean[i, c]) * inverse[c]
                        part = height[c] * math.exp(-0.5 * t * t)
                        gap += 0.5 * sign * w * math.erfc(-sign * t * _ROOT_HALF)
                        density += part
                        slope -= part * t * inverse[c]
                if gap >= 0.0:
                    high = x
                else:
                    low = x
                step = math.inf
                if density > 0.0:
                    step = gap / density
                    step /= max(1.0 - 0.5 * slope * step / density, 0.5)
                if abs(step) <= max(_LAST_STEP * narrowest, 4.0 * _EPS * abs(x)):
                    converged = True
                    break
                cubic = abs(step) <= 0.5 * moved and low < x - step < high
                to = x - step if cubic else low + 0.5 * (high - low)
                moved = abs(to - x)
                x = to
            flat = _EPS * min(level, 1.0 - level) > _FLAT * narrowest * density
            if converged and not flat:
                x = min(max(x - step, low), high)
                out[i, column] = x
                before = level
            else:
                out[i, column] = math.nan
                x, density = -math.inf, 0.0
