"""Densities as sums of weighted densities of families that the core computes."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array

__all__ = ["DensityFamily", "DensityTerm", "density_term"]

_CONSTANTS = 4  # of a row, before the logarithm of the height

# A family, its constants (n, 5) and weights (n,).
DensityTerm: TypeAlias = tuple[int, Array, Array]


class DensityFamily(IntEnum):
    """The families of ``csrc/loops/densities.h``, where their formulas and constants are."""

    NORMAL = 0
    LAPLACE = 1
    LOGISTIC = 2
    STUDENT = 3
    LOG_NORMAL = 4
    GAMMA = 5
    BETA = 6
    WEIBULL = 7


def density_term(family: DensityFamily, height: Array, *constants: ArrayLike) -> list[DensityTerm]:
    """Return one term of weight 1, from the constants of a family and the logarithms of heights (n,)."""
    table = np.zeros((len(height), _CONSTANTS + 1))
    for column, values in enumerate(constants):
        table[:, column] = values
    table[:, _CONSTANTS] = height
    return [(int(family), table, np.ones(len(height)))]
