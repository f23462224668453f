"""The choice of solver and precision, and the way on when one does not reach the tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import Backend
from fastmcmd.checkpoint import Checkpoint, stages_of
from fastmcmd.errors import ROUNDING_ALONE, MemoryLimitError, NumericalError
from fastmcmd.gram import EXACT, GramOperator, tile_dtype
from fastmcmd.gram.cost import products_of_cg
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.progress import Progress
from fastmcmd.rows import Rows
from fastmcmd.solvers.base import Goal, Solution, System, by_diagonal
from fastmcmd.solvers.direct import DirectSolver, factor_fits, too_large_for_float32
from fastmcmd.solvers.watched import Lead, solve_watched, step_cost

__all__ = [
    "MOST_PRODUCTS",
    "LinearProblem",
    "Solved",
    "direct_is_cheaper",
    "expected_products",
    "solve",
]

_FLOAT32 = np.dtype(np.float32)
_CHOLESKY_RATE = 2.0  # float64 operations cost twice float32 ones
MOST_PRODUCTS = 2000  # that CG makes
_SEARCH = 8  # a share of the room is for the search of landmarks
_MOST_SEARCH = 100_000_000  # bytes, enough for the most landmarks


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """Systems over the same distinct inputs, and how exact the answer must be.

    Attributes
    ----------
    backend, kernel, x
        What K is.
    systems : list of System
        Right-hand sides and diagonals.
    lam : float
        Smallest regulariser, for the choice of solver.
    goal : Goal
        Error that the certificate of each system may leave.
    room : int
        Bytes that prepared rows, cached tiles or a factor may take.
    name : str
        Under which a checkpoint keeps its state.
    """

    backend: Backend
    kernel: Kernel
    x: NDArray[Any] | Rows
    systems: list[System]
    lam: float
    goal: Goal
    room: int
    name: str = "both"

    def operator(self, dtype: np.dtype[Any], less: int = 0) -> GramOperator:
        """Return K in tiles of ``dtype``, with ``less`` bytes less room."""
        return GramOperator(self.backend, self.kernel, self.x, dtype, self.room - less)


@dataclass(frozen=True, eq=False)
class Solved:
    """Solutions with their certificates, the operator that made them, and what was done."""

    solutions: list[Solution]
    operator: GramOperator
    solver: str
    iterations: int
    notes: list[str] = field(default_factory=list)
    preconditioned: int = 0  # landmarks of the preconditioner

    def worst(self, goal: Goal) -> float:
        """Return the largest certified error."""
        return max(goal.miss(s.certificate) for s in self.solutions) * goal.error


def solve(
    problem: LinearProblem,
    options: Options,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> Solved:
    """Solve with the solver asked for, or the one that the sizes favour.

    "auto" takes Cholesky where its cubic cost is below that of the iterations expected, else
    block CG in float32, then in float64, and Cholesky after all where CG does not converge within
    the cost of a factorisation and the factor fits in memory, or in ``cache_dir``. CG, and a factor
    in ``cache_dir``, are kept in ``checkpoint``.
    """
    notes: list[str] = []
    goal = problem.goal
    passes = 0
    dtype = options.dtype or (_FLOAT32 if _float32_can_serve(problem) else EXACT)
    dtype = tile_dtype(problem.kernel, dtype, problem.x)
    best: Solved | None = None
    lead: Lead | None = None
    searched = min(_MOST_SEARCH, problem.room // _SEARCH)
    if options.solver != "cholesky":
        operator = problem.operator(dtype, searched)
        if dtype != EXACT and not np.isfinite(operator.rounding(dtype)):
            if options.dtype is not None:
                raise NumericalError(too_large_for_float32(operator))
            dtype, operator = EXACT, problem.operator(EXACT, searched)
        if options.solver == "auto" and direct_is_cheaper(problem, operator):
            return _direct(problem, options, progress, notes, checkpoint)
        for precision in [dtype] if dtype == EXACT or options.dtype else [dtype, EXACT]:
            if precision != operator.dtype:
                notes.append(
                    f"float32 was certified to {best.worst(goal) if best else math.inf:.1e}, "
                    f"{goal.error:.1e} is needed: went on in float64"
                )
                progress.stage("float64")
                operator.drop_cache()
                operator = problem.operator(precision, searched)
                operator.passes = passes
            limit = MOST_PRODUCTS
            if options.solver == "auto" and factor_fits(operator, problem.room):
                limit = min(limit, _affordable_products(problem, operator))
            found, lead = solve_watched(
                operator, problem.systems, goal, options.certificate, limit, progress, searched,
                notes, lead, stages_of(checkpoint, f"{problem.name} {precision}"),
                last=precision == EXACT or options.dtype is not None,
            )  # fmt: skip
            passes = operator.passes
            rank = 0 if lead is None else lead.rank
            solved = Solved(found.solutions, operator, "cg", found.iterations, notes, rank)
            if best is None or solved.worst(goal) < best.worst(goal):
                best = solved
            if best.worst(goal) <= goal.error:
                return best
            if any(goal.out_of_reach(s.certificate) for s in best.solutions):
                # Neither float64 tiles nor a factor would be certified to less.
                notes.append(f"{ROUNDING_ALONE} {best.worst(goal):.1e}, {goal.error:.1e} is needed")
                return best
        fits = factor_fits(operator, problem.room) or options.cache_dir is not None
        if options.solver == "cg" or not fits:
            assert best is not None
            return best
        notes.append(
            f"cg was certified to {best.worst(goal) if best else math.inf:.1e}, "
            f"{goal.error:.1e} is needed: went on with cholesky"
        )
    try:
        solved = _direct(problem, options, progress, notes, checkpoint, passes)
    except (MemoryLimitError, ValueError):
        if best is None or not np.isfinite(best.worst(goal)):
            raise
        notes.append("cholesky failed: kept the result of cg")
        return best
    return solved if best is None or solved.worst(goal) < best.worst(goal) else best


def _direct(
    problem: LinearProblem,
    options: Options,
    progress: Progress,
    notes: list[str],
    checkpoint: Checkpoint | None,
    passes: int = 0,
) -> Solved:
    operator = problem.operator(options.dtype or EXACT)
    operator.passes = passes
    stages = stages_of(checkpoint, f"{problem.name} cholesky")
    direct = DirectSolver(operator, options.cache_dir, stages)
    systems = problem.systems
    shared = len(systems) > 1 and len(by_diagonal(systems)) == 1  # one factor serves all
    solutions = direct.solve(systems, problem.goal, progress, keep=shared)
    direct.close()
    return Solved(solutions, operator, "cholesky", 0, notes)


def _float32_can_serve(problem: LinearProblem) -> bool:
    """Tell whether tiles in float32 can end in a certificate at the target.

    With R refined in float64 the float32 error contracts by about eps k / lam a round; the rounding
    left in the last round must be below the target. A user's function runs in float64 anyway.
    """
    if not problem.kernel.compiled:
        return False
    # Rounding of float32 entries in the answer, relative to the size of the answer: see 3.6.
    diagonal = float(problem.kernel.diagonal(problem.x[:1])[0])
    return problem.lam >= 1e-5 * max(diagonal, 1e-300)


def expected_products(problem: LinearProblem, operator: GramOperator) -> float:
    """Return a guess of the products that CG needs, from the condition number and the target."""
    ratio = float(operator.diagonal.mean()) / problem.lam
    return products_of_cg(ratio, problem.goal.error)


def _factor_cost(problem: LinearProblem, n: int, columns: int) -> float:
    return _CHOLESKY_RATE * len(by_diagonal(problem.systems)) * (n**3 / 3 + 2 * n * n * columns)


def direct_is_cheaper(problem: LinearProblem, operator: GramOperator) -> bool:
    """Tell whether a factorisation costs less than the products that CG is expected to need."""
    n, columns = operator.size, sum(system.rhs.shape[1] for system in problem.systems)
    if not factor_fits(operator, problem.room):
        return False
    gram = 2 * operator.streamed_cost(0, exact=True)  # factored copy, and the residual
    direct = gram + _factor_cost(problem, n, columns)
    step = step_cost(n, columns)
    products = expected_products(problem, operator) * (operator.product_cost(columns) + step)
    return direct <= operator.streamed_cost(columns) + products


def _affordable_products(problem: LinearProblem, operator: GramOperator) -> int:
    """Return how many products cost as much as a factorisation."""
    n, columns = operator.size, sum(system.rhs.shape[1] for system in problem.systems)
    price = operator.product_cost(columns)
    return max(20, int(_factor_cost(problem, n, columns) / price))
