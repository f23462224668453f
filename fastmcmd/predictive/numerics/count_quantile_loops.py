"""Compiled loops to the quantiles of Poisson and negative binomial rows; imported where they are used."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled
from fastmcmd.predictive.numerics.count_loops import log_mass

__all__ = ["quantiles"]

# Levels from here to the same distance from 1 are walked to: the others are rare, and far out.
_LEAST_LEVEL = 1e-8
# A level as near to a step of the cdf, relatively or absolutely, is left to the cdf that users see.
# That rounds to 1e-13, or as a difference from 1 to 1e-16, and only one level in 1e7 is left.
_NEAR, _CLOSE = 1e-9, 1e-15
# Below this many standard deviations lie e^-55: nothing against the least level. (A lower tail is no
# heavier than a normal one, the third cumulant of tilted rows being positive.)
_DEPTH = 10.5
_FRESH = 512  # counts after which the mass is computed anew, so that rounding stays near 1e-13
_PER_LEVEL = 256  # counts walked in a tenth of the time of one quantile and two cdfs of SciPy
_MOST = 1 << 15  # counts walked at most: 0.1 ms
_LEAST_LOG = -690.0  # of a mass that a double holds with all digits


@compiled
def quantiles(
    levels: Array, order: NDArray[np.intp], mean: Array, alpha: Array, out: Array
) -> None:
    """Write the least counts (n, j) whose cdf is at least a level; NaN where a walk does not tell.

    Levels and what sorts them are (n, j), or (1, j) for all rows. One walk a row from its lower tail
    upwards, by the ratio of a mass to the one before. NaN where the row is long, the level far out, or
    so near to a step of the cdf that rounding decides.
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
