"""A glance at some rows: whether the trace can fall to what the goal needs, with landmarks that pay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.base import Backend
from fastmcmd.estimate.error_forecast import cannot_converge, slope
from fastmcmd.gram import offset_of
from fastmcmd.kernels import Kernel
from fastmcmd.solvers.landmarks import LandmarkSearch

__all__ = ["trace_may_suffice"]

# Rows and ranks of the first trial, by the number of all rows and of columns.
_GLANCE, _GLANCE_AT_FEW, _FEW_GLANCED = (1000, (48, 96)), (500, (24, 48)), 4000
_ON_LINE, _ON_LINE_AT_FEW, _FEW_ON_LINE = (500, (48, 96)), (300, (12, 20)), 2000
_RESOLVED = 1e-4  # share of k(x, x) that landmarks leave on a line where few more are enough


def trace_may_suffice(
    x: Any, n: int, backend: Backend, kernel: Kernel, lam: float, goal: float, scale: float, most: int,
    paying: float = math.inf,
) -> bool:  # fmt: skip
    """Tell from a few of the rows ``x`` whether the trace can fall to what the goal needs.

    ``x`` are all ``n`` rows, or some that represent them. ``paying`` is the number of landmarks above which
    another solver takes less time: if the trace falls on as fast, more are needed.
    """
    is_line = x.shape[1] == 1
    if is_line and n < _FEW_ON_LINE:
        count, ranks = _ON_LINE_AT_FEW
    elif n < _FEW_GLANCED:
        count, ranks = _GLANCE_AT_FEW
    else:
        count, ranks = _ON_LINE if is_line else _GLANCE
    if is_line and _FEW_ON_LINE <= n < _FEW_GLANCED:
        most *= 2  # the error falls ever faster, and a search costs little
    rng = generator(n, Purpose.PROBE)
    x = x[np.sort(rng.choice(len(x), min(len(x), count), replace=False))]
    # A limit above the trial ranks: a search that reaches its limit counts as exhausted.
    search = _search(x, backend, kernel, 2 * ranks[-1], rng)
    looks = []
    for rank in ranks:
        search.grow(rank)
        error = _trace_error(search, lam, scale) / goal
        resolved = _RESOLVED if is_line else 0.0
        if error <= 1.0 or search.residual_diagonal.mean() <= resolved * search.diagonal.mean():
            return True
        if search.exhausted:
            return is_line  # so few landmarks are soon searched, and measured residuals may suffice
        looks.append((search.rank, error))
    if cannot_converge(looks[0], looks[1], most, "rigorous"):
        return False
    fall = slope(looks[0], looks[1], "rigorous")
    return fall == 0.0 or search.rank - math.log(error) / fall <= paying


def _search(
    x: HostArray, backend: Backend, kernel: Kernel, most: int, rng: np.random.Generator
) -> LandmarkSearch:
    offset = offset_of(kernel, backend, x)
    return LandmarkSearch(backend, kernel, x, np.ones(len(x)), most, rng, offset)


def _trace_error(search: LandmarkSearch, lam: float, scale: float) -> float:
    """Return ``scale t b / 2`` of the trace certificate; the unknown b is replaced by lam^(-1/2)."""
    return scale / 2 * float(search.residual_diagonal.mean()) / lam**1.5
