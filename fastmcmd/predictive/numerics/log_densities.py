"""Log densities of families without special functions, by loops of the core."""

from __future__ import annotations

from enum import IntEnum

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.elementwise import LIGHT_STEP, by_core

__all__ = ["LogDensity", "log_densities"]

_MOST = 3  # parameters of a family


class LogDensity(IntEnum):
    """The families of ``csrc/loops/log_densities.h``, where their formulas and parameters are."""

    LAPLACE = 0
    LOGISTIC = 1
    UNIFORM = 2
    EXPONENTIAL = 3
    LOG_NORMAL = 4
    LOG_LAPLACE = 5
    LOG_LOGISTIC = 6
    PARETO = 7
    EXTREME = 8
    TWO_PIECE_NORMAL = 9
    TWO_PIECE_LAPLACE = 10
    NORMAL = 11


def log_densities(family: LogDensity, y: Array, *parameters: Array) -> Array:
    """Return log densities, -inf outside the support, in the shape to which the arrays broadcast."""
    absent = _MOST - len(parameters)
    loop = _core.log_densities
    (logs,) = by_core(loop, family, 1, y, *parameters, absent=absent, step=LIGHT_STEP)
    return logs
