"""The iterative solver: block CG over the operator, certified, refined, in float64 if need be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.checkpoint import Keep, State
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.progress import Progress
from fastmcmd.solvers import audit
from fastmcmd.solvers.base import Certificate, Goal, Solution, System
from fastmcmd.solvers.block_cg import CGResult, Preconditioner, block_cg, state_of

__all__ = ["Iterated", "solve_cg"]

Array = NDArray[np.float64]
_REFINEMENTS = 4
_AFFORDABLE = 0.6  # of the work so far: an exact pass that costs no more is always made


@dataclass(frozen=True, eq=False)
class Iterated:
    """Solutions of all systems, and how they came about."""

    solutions: list[Solution]
    iterations: int
    converged: bool

    def state(self) -> State:
        """Return it as arrays by name."""
        done = np.array([self.iterations, self.converged])
        return {"done": done, **_packed(self.solutions)}


def solve_cg(
    operator: GramOperator,
    systems: list[System],
    goal: Goal,
    certificate: str,
    max_iterations: int,
    progress: Progress,
    precondition: list[Preconditioner] | None = None,
    keep: Keep | None = None,
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
    precondition : list of callable, optional
        For each system what applies a symmetric positive definite approximation of
        ``(D^(-1/2) K D^(-1/2) + I)^-1`` to a block (n, k), as in `block_cg`.
    keep : Keep, optional
        Where the state is saved and where it starts from: iterations, and the refinement they are of.
        A run that was interrupted and goes on from there returns the same bits as one that was not.
    """
    limit, tell = goal.residual, _teller(progress, operator, systems)
    state = keep.load() if keep is not None else None
    if state is not None:
        progress.stage(f"went on from a checkpoint after {int(state['passes'])} products")
        if "done" in state:
            operator.passes = int(state["passes"])
            return _iterated(state)
    this = None if state is None else _round(state)
    while True:
        current = systems if this is None else this.systems(systems)
        within = None if keep is None else _Within(keep, this, state)
        state = None  # its arrays are not held any longer than needed
        unit = float(np.finfo(operator.dtype).eps) / 2
        results = block_cg(
            operator, current, limit, max_iterations, tell, precondition, within, unit,
            0.0 if this is None else this.largest,
        )  # fmt: skip
        passes = operator.passes
        try:
            if this is None:
                outcome = _first(operator, systems, goal, certificate, results)
            else:
                outcome = _refined(operator, systems, goal, this, results)
            if keep is not None:
                keep.save(lambda: {**outcome.state(), "passes": np.array(operator.passes)})  # noqa: B023
        except KeyboardInterrupt:
            if within is not None:
                solved = dict(enumerate(results))
                within.save(lambda: state_of(solved, passes), force=True)  # noqa: B023
            raise
        if isinstance(outcome, Iterated):
            return outcome
        this = outcome


@dataclass(frozen=True, eq=False)
class _Round:
    """A refinement: what was ``found`` after ``iterations``, and its ``residuals`` to be solved for.

    ``largest`` is the largest eigenvalue that was seen.
    """

    attempt: int
    iterations: int
    largest: float
    found: list[Solution]
    residuals: list[Array]

    def systems(self, systems: list[System]) -> list[System]:
        return [
            System(residual, system.shift)
            for residual, system in zip(self.residuals, systems, strict=True)
        ]

    def state(self) -> State:
        residuals = {f"round.{i}.residual": array for i, array in enumerate(self.residuals)}
        numbers = np.array([self.attempt, self.iterations, self.largest])
        return {"round": numbers, **_packed(self.found), **residuals}


class _Within:
    """Keeps the state of a block CG run together with that of the round it belongs to."""

    def __init__(self, keep: Keep, this: _Round | None, state: State | None) -> None:
        self._keep, self._this, self._state = keep, this, state

    def load(self) -> State | None:
        state, self._state = self._state, None
        return state

    def save(self, state: Callable[[], State], *, force: bool = False) -> None:
        outer = {} if self._this is None else self._this.state()
        self._keep.save(lambda: {**outer, **state()}, force=force)


def _first(
    operator: GramOperator,
    systems: list[System],
    goal: Goal,
    certificate: str,
    results: list[CGResult],
) -> Iterated | _Round:
    """Certify the first solutions."""
    iterations = max(result.iterations for result in results)
    values = [result.value for result in results]
    columns = sum(system.rhs.shape[1] for system in systems)
    # As if tiles were cached: the kind of the certificate must not depend on the memory limit.
    later = min(operator.cached_cost(columns), operator.streamed_cost(columns))
    spent = operator.streamed_cost(columns) + max(0, iterations - 1) * later
    short = any(result.short for result in results)
    if not short and not _exactly(operator, columns, certificate, spent):
        believed = [result.residual for result in results]
        if later <= audit.sampled_cost(operator, columns):
            # Few rows: a fresh residual is cheap, and free of what the iterations' rounding left in the
            # old one; without it the sampled bound would often miss the goal, and the exact pass follow.
            believed = audit.replaced(operator, systems, values)
        found = audit.sampled(operator, systems, values, believed)
        if _worst(found, goal) <= 1.0:
            return Iterated(found, iterations, True)
    found, residuals = audit.exact(operator, systems, values)
    largest = max(result.largest for result in results)
    return _next(_Round(0, iterations, largest, found, residuals), goal, results)


def _refined(
    operator: GramOperator,
    systems: list[System],
    goal: Goal,
    this: _Round,
    results: list[CGResult],
) -> Iterated | _Round:
    """Certify the solutions corrected by ``results``."""
    iterations = this.iterations + max(result.iterations for result in results)
    corrections = [result.value for result in results]
    left, residuals = [result.residual for result in results], this.residuals
    better = audit.refined(operator, systems, this.found, corrections, left, residuals)
    if _worst(better, goal) > 1.0 and this.attempt + 1 < _REFINEMENTS:
        better, residuals = audit.exact(operator, systems, [s.value for s in better])
    worst = _worst(this.found, goal)
    if _worst(better, goal) > worst / 2:
        return Iterated(this.found, iterations, worst <= 1.0)
    following = _Round(this.attempt + 1, iterations, this.largest, better, residuals)
    return _next(following, goal, results)


def _next(this: _Round, goal: Goal, results: list[CGResult]) -> Iterated | _Round:
    """Return the next round, or the end where there is none."""
    reached = _worst(this.found, goal) <= 1.0
    converged = all(result.converged for result in results)
    hopeless = any(goal.out_of_reach(solution.certificate) for solution in this.found)
    if reached or hopeless or not converged or this.attempt == _REFINEMENTS:
        return Iterated(this.found, this.iterations, reached)
    return this


def _packed(solutions: list[Solution]) -> State:
    state: State = {}
    for index, solution in enumerate(solutions):
        state[f"found.{index}.value"] = solution.value
        state[f"found.{index}.image"] = solution.image
        state[f"found.{index}.certificate"] = solution.certificate.numbers()
    return state


def _unpacked(state: State) -> list[Solution]:
    solutions: list[Solution] = []
    while f"found.{len(solutions)}.value" in state:
        name = f"found.{len(solutions)}."
        told = Certificate.of_numbers(state[name + "certificate"])
        solutions.append(Solution(state[name + "value"], state[name + "image"], told))
    return solutions


def _iterated(state: State) -> Iterated:
    iterations, converged = map(int, state["done"])
    return Iterated(_unpacked(state), iterations, bool(converged))


def _round(state: State) -> _Round | None:
    if "round" not in state:
        return None
    attempt, iterations, largest = map(float, state["round"])
    found = _unpacked(state)
    residuals = [state[f"round.{index}.residual"] for index in range(len(found))]
    return _Round(int(attempt), int(iterations), largest, found, residuals)


def _exactly(operator: GramOperator, columns: int, certificate: str, spent: float) -> bool:
    """Tell whether the first certificate comes from a float64 pass over all rows."""
    if operator.dtype == EXACT or certificate == "rigorous" or len(operator) <= 2 * audit.SAMPLE:
        return True
    cheap = operator.streamed_cost(columns, exact=True) <= _AFFORDABLE * spent
    return certificate == "auto" and cheap


def _worst(solutions: list[Solution], goal: Goal) -> float:
    return max(goal.miss(solution.certificate) for solution in solutions)


def _teller(
    progress: Progress, operator: GramOperator, systems: list[System]
) -> Callable[[float], None]:
    columns = sum(system.rhs.shape[1] for system in systems)
    work = float(len(operator)) ** 2 * (operator.dim + 2 * columns)  # symmetric: d a pair, not 2 d

    def tell(relative: float) -> None:
        progress.product(relative * progress.target, work)

    return tell
