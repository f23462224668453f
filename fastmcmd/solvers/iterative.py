"""The iterative solver: block CG over the operator, certified, refined, in float64 if need be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.progress import Progress
from fastmcmd.solvers import audit
from fastmcmd.solvers.base import Goal, Solution, System
from fastmcmd.solvers.block_cg import block_cg

__all__ = ["Iterated", "solve_cg"]

_REFINEMENTS = 4
_AFFORDABLE = 0.6  # of the work so far: an exact pass that costs no more is always made


@dataclass(frozen=True, eq=False)
class Iterated:
    """Solutions of all systems, and how they came about."""

    solutions: list[Solution]
    iterations: int
    converged: bool


def solve_cg(
    operator: GramOperator,
    systems: list[System],
    goal: Goal,
    certificate: str,
    max_iterations: int,
    progress: Progress,
) -> Iterated:
    """Solve all systems until the error that their certificates leave is within ``goal``.

    Parameters
    ----------
    operator : GramOperator
        K in float32 or float64 tiles.
    systems : list of System
        They share every product.
    goal : Goal
        Error that the certificate of each system may leave.
    certificate : {"auto", "rigorous", "sampled"}
        How float32 solutions are certified.
    max_iterations : int
        Products of a run at most.
    progress : Progress
        Told of each product.
    """
    limit, tell = goal.residual, _teller(progress)
    results = block_cg(operator, systems, limit, max_iterations, tell)
    iterations = max(result.iterations for result in results)
    values = [result.value for result in results]
    columns = sum(system.rhs.shape[1] for system in systems)
    # As if tiles were cached: the kind of the certificate must not depend on the memory limit.
    later = min(operator.cached_cost(columns), operator.streamed_cost(columns))
    spent = operator.streamed_cost(columns) + max(0, iterations - 1) * later
    if not _exactly(operator, columns, certificate, spent):
        found = audit.sampled(operator, systems, values, [r.residual for r in results])
        if _worst(found, goal) <= 1.0:
            return Iterated(found, iterations, True)
    found, residuals = audit.exact(operator, systems, values)
    for attempt in range(_REFINEMENTS):
        worst = _worst(found, goal)
        if worst <= 1.0:
            return Iterated(found, iterations, True)
        if not all(result.converged for result in results):
            break
        current = [
            System(residual, system.shift)
            for residual, system in zip(residuals, systems, strict=True)
        ]
        results = block_cg(operator, current, limit, max_iterations, tell)
        iterations += max(result.iterations for result in results)
        corrections = [result.value for result in results]
        better = audit.refined(
            operator, systems, found, corrections, [r.residual for r in results], residuals
        )
        if _worst(better, goal) > 1.0 and attempt + 1 < _REFINEMENTS:
            better, residuals = audit.exact(operator, systems, [s.value for s in better])
        if _worst(better, goal) > worst / 2:
            break
        found = better
    return Iterated(found, iterations, _worst(found, goal) <= 1.0)


def _exactly(operator: GramOperator, columns: int, certificate: str, spent: float) -> bool:
    """Tell whether the first certificate comes from a float64 pass over all rows."""
    if operator.dtype == EXACT or certificate == "rigorous" or len(operator) <= 2 * audit.SAMPLE:
        return True
    cheap = operator.streamed_cost(columns, exact=True) <= _AFFORDABLE * spent
    return certificate == "auto" and cheap


def _worst(solutions: list[Solution], goal: Goal) -> float:
    return max(goal.miss(solution.certificate) for solution in solutions)


def _teller(progress: Progress) -> Callable[[float], None]:
    def tell(relative: float) -> None:
        progress.product(relative * progress.target)

    return tell
