"""Block CG with certificates: iterate, certify, and refine on the float64 residual if needed.

A `CertifiedCG` makes the products, and saves its state after each one. The solver that runs it decides
whether it continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np

from fastmcmd._base.annotations import Array, DType
from fastmcmd._base.progress import Progress
from fastmcmd.checkpoint import Checkpoint, Stage
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.solvers import certify
from fastmcmd.solvers.base import Goal, Solution, System
from fastmcmd.solvers.block_cg import BlockCGRun, Preconditioner
from fastmcmd.solvers.block_state import BlockState, CGResult
from fastmcmd.solvers.costs import cg_cost
from fastmcmd.solvers.protocol import Cost, LinearProblem, ProblemSize, Solved

__all__ = [
    "MOST_PRODUCTS", "BlockCG", "CGState", "CertifiedCG", "Iterated", "Round", "exact_pass", "load_cg",
    "report_resumed",
]  # fmt: skip

MOST_PRODUCTS = 2000
_REFINEMENTS = 4
_AFFORDABLE = 0.45  # share of the work so far: an exact pass that costs at most this is always made


@dataclass(frozen=True)
class BlockCG:
    """Block CG in one precision, without a preconditioner.

    Attributes
    ----------
    certificate : {"auto", "rigorous", "sampled"}
        How float32 solutions are certified.
    dtype : numpy.dtype
        Precision of the tiles.
    """

    certificate: str = "auto"
    dtype: DType = EXACT
    name: ClassVar[str] = "cg"

    def estimate(self, size: ProblemSize, products: float | None = None) -> Cost:
        """Return the expected cost; ``products`` by default as many as CG is expected to need."""
        return cg_cost(size, products)

    def solve(
        self, problem: LinearProblem, progress: Progress, state: Checkpoint | None = None
    ) -> Solved:
        """Return certified solutions."""
        operator = problem.operator(self.dtype)
        store = None if state is None else state.stage(f"{problem.name} block cg")
        run = CertifiedCG(
            operator, problem.systems, problem.goal, self.certificate, MOST_PRODUCTS, progress,
            state=load_cg(store, progress), store=store,
        )  # fmt: skip
        with run.saved_at_interrupt():
            for norm in run.products():
                run.after_product(norm)
                if problem.stop is not None and problem.stop():
                    return Solved([], operator, self.name, 0, passes=operator.passes, stopped=True)
        result = run.outcome
        assert result is not None
        return Solved(
            result.solutions, operator, self.name, result.iterations, passes=operator.passes
        )


@dataclass(frozen=True, eq=False)
class Iterated:
    """Solutions of all systems, with the number of iterations.

    ``indefinite`` says that the preconditioner is not positive definite; there are then no solutions.
    """

    solutions: list[Solution]
    iterations: int
    converged: bool
    indefinite: bool = False

    def worst(self, goal: Goal) -> float:
        """Return the largest certified error relative to the goal."""
        return _worst(self.solutions, goal)


@dataclass(frozen=True, eq=False)
class Round:
    """A refinement: solve for the residuals of the solutions so far.

    Attributes
    ----------
    attempt, iterations : int
        Refinements and products before it.
    largest : float
        Largest eigenvalue that the directions showed.
    solutions : list of Solution
        Solutions so far.
    residuals : list of ndarray (n, r)
        Their residuals in float64: the right-hand sides of this round.
    """

    attempt: int
    iterations: int
    largest: float
    solutions: list[Solution]
    residuals: list[Array]

    def systems(self, systems: list[System]) -> list[System]:
        """Return the systems of this round, with the residuals as right-hand sides."""
        return [
            System(residual, system.shift)
            for residual, system in zip(self.residuals, systems, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class CGState:
    """The state of a `CertifiedCG` run.

    Attributes
    ----------
    passes : int
        Products with K so far.
    round : Round or None
        The current refinement; None in the first run.
    block : BlockState or None
        State of the current iteration; None before it begins.
    outcome : Iterated or None
        The solutions, after the run has ended.
    """

    passes: int
    round: Round | None = None
    block: BlockState | None = None
    outcome: Iterated | None = None


class CertifiedCG:
    """Block CG until the certified errors are within a goal.

    `products` makes the products one by one. After each its caller calls `after_product`, and decides
    whether the run continues.
    Subclasses save more than the state of the iteration: they override `record` and `saved_state`.

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
        Largest number of products of a run.
    progress : Progress
        Receives a report of each product.
    precondition : list of callable, optional
        For each system a function that applies a symmetric positive definite approximation of
        ``(D^(-1/2) K D^(-1/2) + I)^-1`` to a block (n, k), as in `block_cg`.
    state : CGState, optional
        State to resume from: the run then returns the same bits as an uninterrupted run.
    store : Stage, optional
        Where the state is saved after each product, and at Ctrl-C.
    largest : float
        Estimate of the largest eigenvalue of the scaled matrices, which preconditioned directions do not
        show: rounding leaves a residual in proportion to it.

    Attributes
    ----------
    outcome : Iterated or None
        The solutions, after `products` has ended.
    """

    def __init__(
        self,
        operator: GramOperator,
        systems: list[System],
        goal: Goal,
        certificate: str,
        max_iterations: int,
        progress: Progress,
        precondition: list[Preconditioner] | None = None,
        state: CGState | None = None,
        store: Stage | None = None,
        largest: float = 0.0,
    ) -> None:
        self._operator, self._systems, self._goal = operator, systems, goal
        self._largest = largest
        self._certificate, self._max_iterations = certificate, max_iterations
        self._progress, self._precondition, self._store = progress, precondition, store
        self._round: Round | None = None
        self._block: BlockCGRun | None = None
        self._saved_block: BlockState | None = None
        self.outcome: Iterated | None = None
        if state is not None:
            operator.passes = state.passes
            self._round, self._saved_block, self.outcome = state.round, state.block, state.outcome

    def products(self) -> Iterator[float | None]:
        """Return the products of all rounds: an iterator over the largest residual norm after each product.

        It is None after the last product of a round. The caller passes it on to `after_product`. After the
        last round `outcome` holds the solutions.
        """
        return chain.from_iterable(self._rounds())

    def _rounds(self) -> Iterator[Iterator[float | None]]:
        """Yield the products of each round; certify once they are made, and refine if needed."""
        operator, goal, this = self._operator, self._goal, self._round
        unit = float(np.finfo(operator.dtype).eps) / 2
        while self.outcome is None:
            systems = self._systems if this is None else this.systems(self._systems)
            block_state, self._saved_block = self._saved_block, None
            block = BlockCGRun(
                operator, systems, goal.residual, self._max_iterations, self._precondition,
                unit, self._largest if this is None else this.largest, block_state,
                measures_terms=this is None and self._may_sample(),
            )  # fmt: skip
            del block_state, systems  # frees their arrays
            self._block = block
            yield block.products()
            results = block.results()
            following: Iterated | Round
            if any(result.indefinite for result in results):
                iterations = max(result.iterations for result in results)
                following = Iterated([], iterations, False, True)
            elif this is None:
                following = _first(operator, self._systems, goal, self._certificate, results)
            else:
                following = _refined(operator, self._systems, goal, this, results)
            self._block = None
            del block, results
            if isinstance(following, Iterated):
                self.outcome = following
            else:
                self._round = this = following
            self.record(None)
            self._save()

    def _may_sample(self) -> bool:
        """Tell whether a sample of the rows may certify the solutions: the later, the less likely."""
        columns = sum(system.rhs.shape[1] for system in self._systems)
        return not exact_pass(self._operator, columns, self._certificate, iterations=1)

    def after_product(self, norm: float | None) -> None:
        """Report a product, record its residual norm, and save the state, which is complete."""
        self._report(norm)
        self.record(norm)
        self._save()

    @contextmanager
    def saved_at_interrupt(self) -> Iterator[None]:
        """Save the state if Ctrl-C ends the block."""
        try:
            yield
        except KeyboardInterrupt:
            self._save(force=True)
            raise

    def record(self, norm: float | None) -> None:
        """Record a residual norm before the state is saved; None starts a new round."""

    def saved_state(self) -> object:
        """Return the state that a checkpoint stores, as a frozen dataclass."""
        return self.state()

    def _save(self, *, force: bool = False) -> None:
        if self._store is not None:
            self._store.save(self.saved_state, force=force)

    def _report(self, norm: float | None) -> None:
        """Report a product and ``norm``, the largest residual norm after it."""
        operator, progress = self._operator, self._progress
        columns = sum(system.rhs.shape[1] for system in self._systems)
        # Symmetric: d operations a pair, not 2 d.
        work = float(len(operator)) ** 2 * (operator.dim + 2 * columns)
        target = self._goal.residual
        relative = (target if norm is None else norm) / target
        progress.product(relative * progress.target, work)

    def state(self) -> CGState:
        """Return the current state."""
        if self.outcome is not None:
            return CGState(self._operator.passes, outcome=self.outcome)
        if self._block is None or not self._block.has_begun:
            return CGState(self._operator.passes, self._round, self._saved_block)
        block = self._block.state()
        return CGState(block.passes, self._round, block)


def load_cg(store: Stage | None, progress: Progress) -> CGState | None:
    """Return the state of an interrupted run, or None if there is none."""
    state = None if store is None else store.load(CGState)
    if state is not None:
        report_resumed(state, progress)
    return state


def report_resumed(state: CGState, progress: Progress) -> None:
    """Report that a run continues from a checkpoint."""
    progress.stage(f"resumed from a checkpoint after {state.passes} products")


def _first(
    operator: GramOperator,
    systems: list[System],
    goal: Goal,
    certificate: str,
    results: list[CGResult],
) -> Iterated | Round:
    """Certify the solutions of the first iteration, or return the round that refines them."""
    iterations = max(result.iterations for result in results)
    values = [result.value for result in results]
    columns = sum(system.rhs.shape[1] for system in systems)
    short = any(result.short for result in results)
    if not short and not exact_pass(operator, columns, certificate, iterations):
        recurred = [result.residual for result in results]
        later, sample = _later_cost(operator, columns), certify.sampled_cost(operator, columns)
        if later <= sample and not operator.quantized:
            # With few rows a recomputed residual is cheap, and free of the rounding that the iterations
            # left in the recurrence. Without it the sampled bound would often miss the goal, and the exact
            # pass would follow anyway.
            recurred = certify.replaced(operator, systems, values, recurred)
        terms = [result.term_squares for result in results]
        iterates = certify.sampled(operator, systems, values, recurred, terms)
        if _worst(iterates, goal) <= 1.0:
            return Iterated(iterates, iterations, True)
    iterates, residuals = certify.exact(operator, systems, values)
    largest = max(result.largest for result in results)
    return _next(Round(0, iterations, largest, iterates, residuals), goal, results)


def _refined(
    operator: GramOperator,
    systems: list[System],
    goal: Goal,
    this: Round,
    results: list[CGResult],
) -> Iterated | Round:
    """Certify the solutions corrected by ``results``, or return the round that refines them again."""
    iterations = this.iterations + max(result.iterations for result in results)
    corrections = [result.value for result in results]
    recurred, residuals = [result.residual for result in results], this.residuals
    better = certify.refined(operator, systems, this.solutions, corrections, recurred, residuals)
    if _worst(better, goal) > 1.0 and this.attempt + 1 < _REFINEMENTS:
        better, residuals = certify.exact(operator, systems, [s.value for s in better])
    worst = _worst(this.solutions, goal)
    if _worst(better, goal) > worst / 2:
        return Iterated(this.solutions, iterations, worst <= 1.0)
    following = Round(this.attempt + 1, iterations, this.largest, better, residuals)
    return _next(following, goal, results)


def _next(this: Round, goal: Goal, results: list[CGResult]) -> Iterated | Round:
    """Return ``this`` as the next round, or the final solutions if no further round can help."""
    is_within_goal = _worst(this.solutions, goal) <= 1.0
    converged = all(result.converged for result in results)
    cannot_converge = any(goal.out_of_reach(solution.certificate) for solution in this.solutions)
    if is_within_goal or cannot_converge or not converged or this.attempt == _REFINEMENTS:
        return Iterated(this.solutions, this.iterations, is_within_goal)
    return this


def exact_pass(operator: GramOperator, columns: int, certificate: str, iterations: int) -> float:
    """Return the cost of the float64 pass that certifies the solutions after this many products.

    It is 0 if a sample of the rows certifies them instead.
    """
    exact = operator.streamed_cost(columns, exact=True)
    if operator.dtype == EXACT or certificate == "rigorous" or operator.size <= 2 * certify.SAMPLE:
        return exact
    later = _later_cost(operator, columns)
    cost = operator.streamed_cost(columns) + max(0, iterations - 1) * later
    return exact if certificate == "auto" and exact <= _AFFORDABLE * cost else 0.0


def _later_cost(operator: GramOperator, columns: int) -> float:
    """Return the cost of a product after the first as if tiles were cached.

    The kind of the certificate must not depend on the memory limit.
    """
    return min(operator.cached_cost(columns), operator.streamed_cost(columns))


def _worst(solutions: list[Solution], goal: Goal) -> float:
    return max(goal.miss(solution.certificate) for solution in solutions)
