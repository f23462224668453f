"""Cost of each solver in float32 operations: the formulas behind every `Solver.estimate`.

Costs depend on sizes and on numbers that a run has measured, never on a clock.
"""

from __future__ import annotations

import math

from fastmcmd.gram.cost import (
    FEWEST_PRODUCTS,
    READ_COST,
    STORE_COST,
    KernelMatrix,
    expected_products,
)
from fastmcmd.solvers.protocol import Cost, ProblemSize

__all__ = [
    "EXACT_COST", "LEAST_CG", "PAIR_COST", "cg_cost", "cholesky_cost", "exact_cost", "factor_cost",
    "factor_work", "low_rank_cost", "most_landmarks", "preconditioned_cost", "step_cost",
]  # fmt: skip

EXACT_COST = 2.0  # cost of a float64 operation in float32 operations
# Time of the small dense steps, measured on two shared cores (their operation count predicts a third of
# it): for each landmark that is searched and factored, and for each use of the preconditioner.
_LANDMARK, _APPLIED = 4e7, 1e8
CANDIDATES = 3000  # rows that landmarks of a preconditioner are drawn from
# Cost of substitution and of the normal equations for each pair of landmarks, relative to a matrix product:
# both run at 0.8 to 0.9 of its rate. A pass counts as half of the two that an estimate adds up.
PAIR_COST = 1.2
# Cost of an operation of a factorisation of n rows, whose large products run faster than those of CG: the
# first number + the second / n, at most 1 (measured: 1,000 to 6,000 rows).
_FACTOR, _FACTOR_ROWS = 0.65, 300.0
_OVERHEAD = 2e7  # operations that take as long as Python's overhead of one iteration
LEAST_CG = (
    FEWEST_PRODUCTS / 2 * _OVERHEAD
)  # a lower bound on the cost of CG for any system (`cg_cost`)


def step_cost(n: int, columns: int) -> float:
    """Return the cost of the steps of CG between two products."""
    # In float64, on n x r blocks and on r x r eigenvalue problems.
    return EXACT_COST * (16.0 * n * columns**2 + 30.0 * columns**3) + _OVERHEAD


def factor_work(n: int) -> float:
    """Return the operations of a Cholesky factorisation, each counted as one."""
    return n**3 / 3


def factor_cost(n: int, columns: int) -> float:
    """Return the cost of a float64 factorisation and of solutions for ``columns`` right-hand sides."""
    rate = min(1.0, _FACTOR + _FACTOR_ROWS / n)
    return EXACT_COST * (rate * factor_work(n) + 2 * n * n * columns)


def cg_cost(size: ProblemSize, products: float | None = None, feature_bytes: int = 0) -> Cost:
    """Return the cost of block CG; ``products`` defaults to the number that CG is expected to need.

    Features of a preconditioner take ``feature_bytes`` of the memory for tiles.
    """
    if products is None:
        products = expected_products(size.condition, size.error)
    steps = sum(step_cost(size.matrix.size, columns) for columns in size.columns)
    return Cost(
        setup=size.matrix.streamed_cost(size.total_columns),
        per_product=size.matrix.product_cost(size.total_columns, feature_bytes) + steps,
        products=products,
    )


def preconditioned_cost(
    size: ProblemSize, landmarks: int, products: float, *, holds_features: bool
) -> Cost:
    """Return the cost of building a preconditioner and of CG with it from an existing residual.

    ``holds_features`` says whether it stores features of all rows in float32.
    """
    n, entry, columns = size.matrix.size, size.matrix.entry_cost, size.total_columns
    searched = 4.0 * min(n, CANDIDATES) * landmarks * (entry + landmarks) + _LANDMARK * landmarks
    pairs = PAIR_COST * landmarks  # of substitution, and of F'F for each diagonal
    if holds_features:
        building = 2 * entry + pairs + 2 * STORE_COST + size.diagonals * pairs
        # Each application to all columns: two products with the features.
        applied = 2.0 * (2 * READ_COST + 2 * columns)
    else:
        building = EXACT_COST * size.diagonals * (2 * entry + 2 * pairs)
        # Two products with n x p entries of K in float64.
        applied = 2 * EXACT_COST * (2 * entry + 2 * columns)
    feature_bytes = size.feature_bytes(landmarks) if holds_features else 0
    product = cg_cost(size, products, feature_bytes).per_product + applied * n * landmarks
    product += _APPLIED * len(size.columns)
    return Cost(searched + building * n * landmarks, product, products)


def exact_cost(matrix: KernelMatrix, columns: int, factors: int = 1) -> float:
    """Return the cost of factors and solves; K is computed twice, for the factor and for the residual."""
    factored = factors * factor_cost(matrix.size, columns)
    return 2 * matrix.streamed_cost(0, exact=True) + factored


def cholesky_cost(size: ProblemSize) -> Cost:
    """Return the cost of factors and solves as for any solver."""
    return Cost(exact_cost(size.matrix, size.total_columns, size.diagonals))


def low_rank_cost(size: ProblemSize, landmarks: int, passes: int = 2) -> Cost:
    """Return the cost of passes over the rows that compute features at the landmarks in float64."""
    n, entry = size.matrix.size, size.matrix.entry_cost
    return Cost(passes * EXACT_COST * n * landmarks * (entry + PAIR_COST * landmarks))


def most_landmarks(size: ProblemSize, work: float) -> int:
    """Return the largest number of landmarks for which two passes cost at most ``work``."""
    entry, row = size.matrix.entry_cost, work / size.matrix.size
    # 4 (p entry + PAIR_COST p^2) = row, solved for p.
    root = math.sqrt(entry * entry + PAIR_COST * row)
    return int((root - entry) / (2 * PAIR_COST))
