"""The input kernel matrix as an operator under a memory budget."""

from fastmcmd.gram.operator import EXACT, GramOperator

__all__ = ["EXACT", "GramOperator"]
