"""What can be told before any pass: how many landmarks a goal needs, or that none will do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import Backend
from fastmcmd.gram import offset_of
from fastmcmd.kernels import Kernel
from fastmcmd.seeds import Purpose, generator
from fastmcmd.solvers.landmarks import LandmarkSearch

__all__ = ["LADDER", "LOOKED_AT", "SURE", "cannot_converge", "slope", "trace_may_suffice"]

LADDER = tuple(round(2 ** (k / 3)) for k in range(14, 42))  # ranks looked at: 25, 32, 40, ... 13004
LOOKED_AT = 60  # ranks from which the fall of the error is extrapolated
# A predicted error below that share of the goal is believed; residuals are seen at few rows only.
SURE = {"rigorous": 0.7, "sampled": 0.55}
_GLANCE, _GLANCED = 2000, (48, 96)  # rows and ranks of a first glance


def trace_may_suffice(
    x: Any, backend: Backend, kernel: Kernel, lam: float, goal: float, scale: float, most: int
) -> bool:
    """Tell from a glance at a few of the rows ``x`` whether the trace can fall to what the goal needs."""
    rng = generator(len(x), Purpose.PROBE)
    x = x[np.sort(rng.choice(len(x), min(len(x), _GLANCE), replace=False))]
    # Room for more than is asked for: a search that has no room left calls itself exhausted.
    search = _search(x, backend, kernel, 2 * _GLANCED[-1], rng)
    looks = []
    for rank in _GLANCED:
        search.grow(rank)
        error = _trace_error(search, lam, scale) / goal
        if error <= 1.0 or search.exhausted:
            return error <= 1.0
        looks.append((search.rank, error))
    return not cannot_converge(looks[0], looks[1], most, "rigorous")


def _search(
    x: NDArray[Any], backend: Backend, kernel: Kernel, most: int, rng: np.random.Generator
) -> LandmarkSearch:
    offset = offset_of(kernel, backend, x)
    return LandmarkSearch(backend, kernel, x, np.ones(len(x)), most, rng, offset)


def _trace_error(search: LandmarkSearch, lam: float, scale: float) -> float:
    """Return ``scale t b / 2`` of the trace certificate; b, not known yet, is taken as lam^(-1/2)."""
    return scale / 2 * float(search.residual_diagonal.mean()) / lam**1.5


def cannot_converge(
    before: tuple[int, float], now: tuple[int, float], most: int, kind: str
) -> bool:
    """Tell whether the error falls too slowly to reach the goal within the most landmarks.

    A trace falls ever slower in the rank, and so does a sampled error in its logarithm: the line
    through the last two looks is the best that can be hoped for.
    """
    rank, error = now
    if not 0.0 < error < math.inf:
        return error != 0.0
    left = most - rank if kind == "rigorous" else math.log(most / rank)
    return math.log(error) + 1.5 * slope(before, now, kind) * left > 0.0


def slope(before: tuple[int, float], now: tuple[int, float], kind: str) -> float:
    """Return how the logarithm of the error falls with the rank, or with the rank's logarithm."""
    (r0, e0), (r1, e1) = before, now
    if r1 <= r0 or not (0.0 < e0 < math.inf and 0.0 < e1 < math.inf):
        return 0.0  # nothing is known of it
    fall = math.log(e1) - math.log(e0)
    return fall / (r1 - r0 if kind == "rigorous" else math.log(r1 / r0))
