"""Units in which sums of squares stay within the range of doubles."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.arrays import Namespace
from fastmcmd.predictive.base import Array

__all__ = ["OUT_OF_RANGE", "out_of_range", "unit_of"]

OUT_OF_RANGE = (
    "squares of predicted standard deviations leave the range of doubles; give y and the predictions in "
    "another unit"
)
_LEAST, _MOST = 1e-280, 1e290  # sums of squares that have all their digits


def out_of_range(squares: Array) -> bool:
    """Tell whether sums of squares have overflowed, or lost digits near the smallest doubles."""
    size = np.abs(squares)
    return bool((~(size < _MOST) | (size < _LEAST)).any())


def unit_of(namespace: Namespace, values: AnyArray) -> float:
    """Return the power of 2 next to the largest size of values; 1 where that is 0 or infinite."""
    largest = float(namespace.xp.max(namespace.xp.abs(values)))
    if not 0 < largest < np.inf:
        return 1.0
    return float(2.0 ** np.clip(np.floor(np.log2(largest)), -1021, 1021))
