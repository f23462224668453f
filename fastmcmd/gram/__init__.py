"""The input kernel matrix as an operator under a memory budget, and low-rank features of kernels."""

from fastmcmd.gram.features import KernelFeatures
from fastmcmd.gram.operator import GramOperator
from fastmcmd.gram.precision import EXACT, tile_dtype
from fastmcmd.gram.row_statistics import (
    check_finite,
    check_sizes,
    diagonal_of,
    largest_diagonal,
    offset_of,
    rows_are_finite,
    shared_row_statistics,
    squared_norms,
)

__all__ = [
    "EXACT", "GramOperator", "KernelFeatures", "check_finite", "check_sizes", "diagonal_of",
    "largest_diagonal", "offset_of", "rows_are_finite", "shared_row_statistics",
    "squared_norms", "tile_dtype",
]  # fmt: skip
