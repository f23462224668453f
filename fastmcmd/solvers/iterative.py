"""The iterative solver: block CG over the operator, certified, refined, in float64 if need be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.progress import Progress
from fastmcmd.solvers import audit
from fastmcmd.solvers.base import Solution, System
from fastmcmd.solvers.block_cg import block_cg

__all__ = ["Iterated", "solve_cg"]

_INNER = 0.5  # of the target is left to the recurrence, the rest to rounding
_REFINEMENTS = 4
_AFFORDABLE = 0.5  # of the work so far: an exact pass that costs no more is always made


@dataclass(frozen=True, eq=False)
class Iterated:
    """Solutions of all systems, and how they came about."""

    solutions: list[Solution]
    iterations: int
    converged: bool


def solve_cg(
    operator: GramOperator,
    systems: list[System],
    target: float,
    certificate: str,
    max_iterations: int,
    progress: Progress,
) -> Iterated:
    """Solve all systems until ``||D^(-1/2) R||_2`` is certified to be at most ``target``.

    Parameters
    ----------
    operator : GramOperator
        K in float32 or float64 tiles.
    systems : list of System
        They share every product.
    target : float
        Bound wanted on the scaled residual of each system.
    certificate : {"auto", "rigorous", "sampled"}
        How float32 solutions are certified.
    max_iterations : int
        Products of a run at most.
    progress : Progress
        Told of each product.
    """
    columns = sum(system.rhs.shape[1] for system in systems)
    values = [np.zeros_like(system.rhs) for system in systems]
    current = systems
    spent = 0.0
    iterations = 0
    found: list[Solution] = []
    worst = np.inf
    for attempt in range(_REFINEMENTS):
        results = block_cg(
            operator, current, _INNER * target, max_iterations, _teller(progress)
        )
        taken = max(result.iterations for result in results)
        iterations += taken
        spent += operator.pass_cost(columns) * max(1, taken)
        values = [value + result.value for value, result in zip(values, results, strict=True)]
        exact = (
            attempt > 0
            or operator.dtype == EXACT
            or certificate == "rigorous"
            or (
                certificate == "auto"
                and operator.pass_cost(columns, exact=True) <= _AFFORDABLE * spent
            )
            or len(operator) <= 2 * audit.SAMPLE
        )
        if not exact:
            found = audit.sampled(
                operator, systems, values, [result.residual for result in results]
            )
            worst = _worst(found)
            if worst <= target:
                return Iterated(found, iterations, True)
        solutions, residuals = audit.exact(operator, systems, values)
        before, worst = worst, _worst(solutions)
        if not found or worst < before or exact:
            found = solutions
        if worst <= target:
            return Iterated(found, iterations, True)
        if attempt > 0 and worst > before / 4 or not all(r.converged for r in results):
            break
        current = [
            System(residual, system.shift)
            for residual, system in zip(residuals, systems, strict=True)
        ]
    return Iterated(found, iterations, False)


def _worst(solutions: list[Solution]) -> float:
    return max(solution.certificate.residual for solution in solutions)


def _teller(progress: Progress) -> Callable[[float], None]:
    def tell(relative: float) -> None:
        progress.product(relative * _INNER * progress.target)

    return tell


