"""What each solver costs, in float32 operations: the formulas behind every `Solver.estimate`.

Sizes decide, and numbers that a run has seen; never a clock.
"""

from __future__ import annotations

import math

from fastmcmd.gram.cost import expected_products
from fastmcmd.solvers.protocol import Cost, ProblemSize

__all__ = [
    "cg_cost", "cholesky_cost", "factor_work", "low_rank_cost", "most_landmarks", "preconditioned_cost",
    "step_cost",
]  # fmt: skip

_EXACT = 2.0  # float64 operations cost twice float32 ones
# What small dense steps take, measured on two shared cores (their own products would take a tenth): for
# each landmark that is looked for and factored, and for each time that the preconditioner is applied.
_LANDMARK, _APPLIED = 1e8, 4e8
CANDIDATES = 6000  # rows that landmarks of a preconditioner are drawn from
_OVERHEAD = 2e7  # operations in whose time Python gets through the steps of an iteration


def step_cost(n: int, columns: int) -> float:
    """Return the cost of what CG does between two products."""
    # In float64 on n x r blocks, and on r x r eigenvalue problems.
    return _EXACT * (16.0 * n * columns**2 + 30.0 * columns**3) + _OVERHEAD


def factor_work(n: int) -> float:
    """Return the operations of a Cholesky factorisation, each counted as one."""
    return n**3 / 3


def cg_cost(size: ProblemSize, products: float | None = None) -> Cost:
    """Return the cost of block CG; ``products`` by default as many as it is expected to need."""
    if products is None:
        products = expected_products(size.condition, size.error)
    steps = sum(step_cost(size.matrix.size, columns) for columns in size.columns)
    return Cost(
        setup=size.matrix.streamed_cost(size.total_columns),
        per_product=size.matrix.product_cost(size.total_columns) + steps,
        products=products,
    )


def preconditioned_cost(size: ProblemSize, landmarks: int, products: float) -> Cost:
    """Return the cost of a preconditioner and of CG with it, from a residual that is there already."""
    n, entry = size.matrix.size, size.matrix.entry_cost
    searched = 4.0 * min(n, CANDIDATES) * landmarks * (entry + landmarks) + _LANDMARK * landmarks
    made = _EXACT * size.diagonals * n * landmarks * (2 * entry + 2 * landmarks)
    # Each time it is applied to all columns: two products with n x p entries of K in float64.
    applied = 2 * _EXACT * n * landmarks * (2 * entry + 2 * size.total_columns)
    applied += _APPLIED * len(size.columns)
    return Cost(searched + made, cg_cost(size).per_product + applied, products)


def cholesky_cost(size: ProblemSize) -> Cost:
    """Return the cost of a factorisation: K twice, for the factor and for the residual; the solves."""
    n, columns = size.matrix.size, size.total_columns
    factored = _EXACT * size.diagonals * (factor_work(n) + 2 * n * n * columns)
    return Cost(2 * size.matrix.streamed_cost(0, exact=True) + factored)


def low_rank_cost(size: ProblemSize, landmarks: int, passes: int = 2) -> Cost:
    """Return the cost of passes over the rows with their features at some landmarks, in float64."""
    n, entry = size.matrix.size, size.matrix.entry_cost
    return Cost(passes * _EXACT * n * landmarks * (entry + 2.0 * landmarks))


def most_landmarks(size: ProblemSize, work: float) -> int:
    """Return the most landmarks whose two passes cost no more than ``work``."""
    entry, row = size.matrix.entry_cost, work / size.matrix.size
    # 4 (p entry + 2 p^2) = row, solved for p.
    return int((-entry + math.sqrt(entry * entry + 2 * row)) / 4)
