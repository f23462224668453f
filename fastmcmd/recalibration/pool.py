"""Pooling of adjacent violators, compiled on first use."""

from __future__ import annotations

import numpy as np

from fastmcmd.compiled import compiled
from fastmcmd.predictive.base import Array

__all__ = ["pooled"]


@compiled
def pooled(values: Array, weights: Array) -> Array:
    """Return the nondecreasing sequence (n,) nearest to values in weighted least squares.

    Best & Chakravarti, *Active set algorithms for isotonic regression* (1990). In O(n).
    """
    n = len(values)
    mean, mass, start = np.empty(n), np.empty(n), np.empty(n + 1, np.int64)
    blocks = 0
    for i in range(n):
        mean[blocks], mass[blocks], start[blocks] = values[i], weights[i], i
        blocks += 1
        while blocks > 1 and mean[blocks - 2] >= mean[blocks - 1]:
            both = mass[blocks - 2] + mass[blocks - 1]
            # A step towards the new block, not a sum of products: equal values stay what they are.
            mean[blocks - 2] += (mean[blocks - 1] - mean[blocks - 2]) * (mass[blocks - 1] / both)
            mass[blocks - 2] = both
            blocks -= 1
    start[blocks] = n
    out = np.empty(n)
    for block in range(blocks):
        out[start[block] : start[block + 1]] = mean[block]
    return out
