"""Features of numbers near pivots: those of all others are zero to rounding.

Most nodes of heavy tails are out of reach of every pivot, and features take ``r^2`` operations for each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels.distance import local_reach

__all__ = ["NearPivots"]


class NearPivots:
    """Features of numbers, computed where a pivot is within reach of the kernel.

    Parameters
    ----------
    features : KernelFeatures
        Features of a kernel on numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd import RBF
    >>> from fastmcmd.backends import get_backend
    >>> pivots, factor = np.zeros((1, 1)), np.ones((1, 1))
    >>> features = KernelFeatures(RBF(1.0), pivots, factor, get_backend("numpy", RBF(1.0)))
    >>> near = NearPivots(features)
    >>> near.transform(np.array([[0.0], [1e6]])).tolist()
    [[1.0], [0.0]]
    """

    def __init__(self, features: KernelFeatures) -> None:
        self._features = features
        self._reach = local_reach(features.kernel)
        ends = np.array([-np.inf, np.inf])
        self._pivots = np.sort(np.concatenate([features.pivots[:, 0], ends]))

    def transform(self, y: HostArray) -> Array:
        """Return the features (m, r) of numbers y (m, 1)."""
        after = np.clip(np.searchsorted(self._pivots, y[:, 0]), 1, len(self._pivots) - 1)
        with np.errstate(invalid="ignore"):
            gap = np.minimum(
                np.abs(y[:, 0] - self._pivots[after - 1]),
                np.abs(self._pivots[after] - y[:, 0]),
            )
            near = gap <= self._reach
        if near.all():
            return self._features.transform(y)
        p = np.zeros((len(y), self._features.rank))
        if near.any():
            p[near] = self._features.transform(y[near])
        return p

    def touch(self, low: Array, length: float) -> NDArray[np.bool_]:
        """Tell which panels of a length, from ``low`` (m,) on, may have features; infinite ones may."""
        with np.errstate(invalid="ignore"):
            first = np.searchsorted(self._pivots, low - self._reach)
            pivot = self._pivots[np.minimum(first, len(self._pivots) - 1)]
            return (pivot <= low + length + self._reach) | ~np.isfinite(low)
