"""The input kernel matrix as an operator under a memory budget, and kernels as features."""

from fastmcmd.gram.features import KernelFeatures
from fastmcmd.gram.operator import EXACT, GramOperator, diagonal_of

__all__ = ["EXACT", "GramOperator", "KernelFeatures", "diagonal_of"]
