"""The number of products that CG still needs, from the decay of its residual norms so far."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["products_left"]


def products_left(norms: Sequence[float], target: float, limit: float) -> float:
    """Return how many products follow until the norm is ``target``, at most ``limit``.

    The norms after each product are extrapolated at the rate of the last half of them: CG speeds up once it
    has found the largest eigenvalues.
    """
    count, half = len(norms), len(norms) // 2
    if not half:
        return limit
    first, last = norms[half - 1], norms[-1]
    if not 0.0 < last < first < math.inf or not target > 0.0:
        return limit
    fall = math.log(first / last) / (count - half)
    return min(limit, math.log(max(last / target, 1.0)) / fall)
