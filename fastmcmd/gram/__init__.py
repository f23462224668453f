"""The input kernel matrix as an operator under a memory budget, and kernels as features."""

from fastmcmd.gram.features import KernelFeatures
from fastmcmd.gram.operator import GramOperator
from fastmcmd.gram.precision import EXACT, tile_dtype
from fastmcmd.gram.survey import check_finite, check_sizes, diagonal_of, offset_of, surveyed

__all__ = [
    "EXACT", "GramOperator", "KernelFeatures", "check_finite", "check_sizes", "diagonal_of", "offset_of",
    "surveyed", "tile_dtype",
]  # fmt: skip
