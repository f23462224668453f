"""Compiled loops over nodes on panels. Imported where they are used: compiling takes seconds once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive.numerics.count_loops import compiled

__all__ = ["chebyshev_moments"]


@compiled
def chebyshev_moments(
    place: NDArray[Any],
    u: NDArray[np.float64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add ``w_ij T_k(u_ij)`` to ``out[i, place_ij, k]``; nodes with a negative place take no part."""
    n, count = place.shape
    terms = out.shape[2]
    for i in range(n):
        for j in range(count):
            panel = place[i, j]
            if panel < 0:
                continue
            at = u[i, j]
            before, now = weights[i, j], weights[i, j] * at
            for k in range(terms):
                out[i, panel, k] += before
                before, now = now, 2 * at * now - before
