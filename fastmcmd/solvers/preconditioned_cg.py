"""CG that begins with a preconditioner, or switches to one, if that saves time.

Of many rows, some show how many products plain CG would need. If these cost clearly more than landmarks and
a preconditioned run, CG begins with a preconditioner. Else it begins without: at the paper's regulariser 4
to 8 products are enough. Then the decay of the residual predicts how many more products are needed, and the
iteration may continue with a preconditioner from its present residual, so that no product is lost. Choices
depend on numbers of the run and on costs in operations, never on a clock: the same call takes the same
steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np

from fastmcmd._base.annotations import DType
from fastmcmd._base.memory import power_of_two_within
from fastmcmd._base.progress import Progress
from fastmcmd.checkpoint import Checkpoint, Stage, Stages, stages_of
from fastmcmd.errors import NumericalError
from fastmcmd.gram import EXACT, GramOperator, tile_dtype
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.solvers.base import Goal, System
from fastmcmd.solvers.block_cg import BlockCGRun, restarted
from fastmcmd.solvers.cg import (
    MOST_PRODUCTS,
    CertifiedCG,
    CGState,
    Iterated,
    load_cg,
    report_resumed,
)
from fastmcmd.solvers.cholesky import too_large_for_float32
from fastmcmd.solvers.costs import cg_cost, preconditioned_cost
from fastmcmd.solvers.decay import products_left
from fastmcmd.solvers.preconditioner import Landmarks
from fastmcmd.solvers.protocol import Cost, LinearProblem, ProblemSize, Solved
from fastmcmd.solvers.switch_policy import (
    Preconditioners,
    SwitchPolicy,
    landmarks_after,
    preconditioners_of,
)

__all__ = ["Attempt", "PreconditionedCG", "search_budget"]

Run = TypeVar("Run", bound=CertifiedCG)

_SEARCH = 8  # the search for landmarks gets 1 / 8 of the budget
_MOST_SEARCH = 100_000_000  # bytes, enough for the most landmarks
# Of a small budget it gets 1 / 4, up to what 512 landmarks take: fewer often do not pay.
_SMALL_SEARCH, _USUAL_SEARCH = 4, 16_777_216
# Products that CG may make before another solver takes over, and what they may cost relative to that one: a
# preconditioner may still make them few.
_LEAST_PRODUCTS, _PATIENCE = 20, 1.4
_MOST_ON_PART = 32  # products on a part of the rows; with more, a preconditioner pays anyway


@dataclass(frozen=True)
class PreconditionedCG:
    """Block CG, in float32 if that can be certified, then in float64; preconditioned if that pays.

    Attributes
    ----------
    certificate : {"auto", "rigorous", "sampled"}
        How float32 solutions are certified.
    dtype : numpy.dtype or None
        Precision of the tiles; None starts in float32 and continues in float64 if needed.
    """

    certificate: str = "auto"
    dtype: DType | None = None
    name: ClassVar[str] = "cg"

    def estimate(self, size: ProblemSize, landmarks: int = 0, products: float = 0.0) -> Cost:
        """Return the expected cost of plain CG, with which a run begins.

        With ``landmarks``, return the cost of a preconditioner and of ``products`` products with it.
        """
        if not landmarks:
            return cg_cost(size)
        fits = size.fits_features(landmarks)
        return preconditioned_cost(size, landmarks, products, holds_features=fits)

    def operator(self, problem: LinearProblem) -> GramOperator:
        """Return K in the precision with which `solve` begins.

        Raises
        ------
        NumericalError
            ``dtype`` is float32, and some values are out of its range.
        """
        dtype = self.dtype or (FLOAT32 if _float32_can_serve(problem) else EXACT)
        dtype = tile_dtype(problem.kernel, dtype, problem.x)
        operator = problem.operator(dtype, search_budget(problem))
        if dtype == EXACT or np.isfinite(operator.rounding(dtype)):
            return operator
        if self.dtype is not None:
            raise NumericalError(too_large_for_float32(operator))
        return problem.operator(EXACT, search_budget(problem))

    def solve(
        self,
        problem: LinearProblem,
        progress: Progress,
        state: Checkpoint | None = None,
        alternative: Cost | None = None,
        operator: GramOperator | None = None,
        landmarks: Landmarks | None = None,
    ) -> Solved:
        """Return certified solutions; if CG misses the goal, the most accurate ones.

        Parameters
        ----------
        problem, progress, state
            As for every `Solver`.
        alternative : Cost, optional
            Cost of the solver that takes over if CG does not converge: the products may cost little more.
        operator : GramOperator, optional
            The result of `operator` for this problem.
        landmarks : Landmarks, optional
            Landmarks that a `SwitchPolicy` with that operator has searched.
        """
        operator = operator or self.operator(problem)
        work = _Precisions(self, problem, progress, state, alternative)
        for attempt in work.attempts(operator, landmarks):
            for run in attempt.runs():
                with run.saved_at_interrupt():
                    for norm in run.products():
                        run.after_product(norm)
                        if problem.stop is not None and problem.stop():
                            return work.stopped()
                        if attempt.switches(run):
                            break
                del run  # frees its arrays before the next one begins
        return work.best()


class _Precisions:
    """Attempts in float32, if that may serve, and then in float64, until one reaches the goal."""

    def __init__(
        self,
        solver: PreconditionedCG,
        problem: LinearProblem,
        progress: Progress,
        state: Checkpoint | None,
        alternative: Cost | None,
    ) -> None:
        self._solver, self._problem, self._progress = solver, problem, progress
        self._state, self._alternative = state, alternative
        self._operator: GramOperator | None = None
        self._best: Solved | None = None
        self._passes, self._notes, self._rounding_alone = 0, list[str](), False

    def attempts(self, operator: GramOperator, landmarks: Landmarks | None) -> Iterator[Attempt]:
        """Yield the attempts, the first with ``operator``; the caller makes their runs."""
        problem, fixed = self._problem, self._solver.dtype is not None
        goal, first, preconditioners = problem.goal, operator.dtype, None
        for precision in [first] if first == EXACT or fixed else [first, EXACT]:
            if self._best is not None:
                self._notes.append(
                    f"float32 was certified to {self._best.worst(goal):.1e}, {goal.error:.1e} is needed: "
                    "continued in float64"
                )
                self._progress.stage("float64")
                operator.drop_cache()
                # A preconditioner that the next attempt begins with keeps its features.
                feature_bytes = 0 if preconditioners is None else operator.feature_bytes
                operator = problem.operator(precision, search_budget(problem))
                operator.passes, operator.feature_bytes = self._passes, feature_bytes
            self._operator = operator
            attempt = Attempt(
                operator, problem.systems, problem.size(operator), goal, self._solver.certificate,
                self._most_products(operator), self._progress, search_budget(problem), preconditioners,
                stages_of(self._state, f"{problem.name} {precision}"),
                landmarks, last=precision == EXACT or fixed,
            )  # fmt: skip
            landmarks = None  # of the first attempt only
            yield attempt
            preconditioners = attempt.preconditioners
            self._take(attempt, operator)
            assert self._best is not None
            if self._rounding_alone or self._best.worst(goal) <= goal.error:
                break

    def _most_products(self, operator: GramOperator) -> int:
        """Return the limit of products: together they cost little more than the alternative."""
        if self._alternative is None:
            return MOST_PRODUCTS
        per_product = self._solver.estimate(self._problem.size(operator)).per_product
        affordable = int(_PATIENCE * self._alternative.total / per_product)
        return min(MOST_PRODUCTS, max(_LEAST_PRODUCTS, affordable))

    def _take(self, attempt: Attempt, operator: GramOperator) -> None:
        """Take the result of an attempt if it is the best so far."""
        result, goal, preconditioners = attempt.result, self._problem.goal, attempt.preconditioners
        assert result is not None
        self._passes = operator.passes
        self._notes += attempt.notes
        solved = Solved(
            result.solutions, operator, self._solver.name, result.iterations, self._notes,
            0 if preconditioners is None else preconditioners.rank,
        )  # fmt: skip
        if self._best is None or solved.worst(goal) < self._best.worst(goal):
            self._best = solved
        worst = self._best.worst(goal)
        if worst > goal.error and self._best.out_of_reach(goal):
            # Float64 tiles or a Cholesky factor would not be certified to less either.
            self._rounding_alone = True
            self._notes.append(
                f"rounding in float64 alone leaves {worst:.1e}, {goal.error:.1e} is needed"
            )

    def best(self) -> Solved:
        """Return the most accurate result."""
        assert self._best is not None
        return replace(self._best, passes=self._passes, rounding_alone=self._rounding_alone)

    def stopped(self) -> Solved:
        """Return a result without solutions, for a run that the caller has stopped."""
        operator = self._operator
        assert operator is not None
        return Solved(
            [], operator, self._solver.name, 0, self._notes, passes=operator.passes, stopped=True
        )


def search_budget(problem: LinearProblem) -> int:
    """Return the bytes that the search for landmarks may use."""
    usual = min(_USUAL_SEARCH, power_of_two_within(problem.budget // _SMALL_SEARCH))
    return max(usual, min(_MOST_SEARCH, power_of_two_within(problem.budget // _SEARCH)))


def _float32_can_serve(problem: LinearProblem) -> bool:
    """Tell whether float32 tiles can lead to a certificate within the tolerance.

    If float64 computes the residual R, each refinement shrinks the float32 error by a factor of about
    eps k / lam; the rounding that the last refinement leaves must be below the tolerance. A user's kernel
    function runs in float64 anyway, and on some devices float64 takes less time in all.
    """
    if not problem.kernel.compiled or problem.backend.starts_in_float64(len(problem.x)):
        return False
    # Rounding of float32 entries, relative to the size of the answer: see docs/theory.md.
    diagonal = float(problem.kernel.diagonal(problem.x[:1])[0])
    return problem.lam >= 1e-5 * max(diagonal, 1e-300)


class Attempt:
    """CG in one precision: plain, preconditioned if that saves time, and plain again if that fails.

    `runs` yields the runs. The caller makes the products of each. After each product it calls the run's
    `after_product`, and asks `switches` whether to leave the run.

    Parameters
    ----------
    operator, systems, goal, certificate, limit, progress
        As in `CertifiedCG`.
    size : ProblemSize
        What costs depend on.
    budget : int
        Bytes that the search for landmarks may use.
    preconditioners : Preconditioners, optional
        Preconditioners that an earlier attempt needed; this one begins with them.
    stages : callable, optional
        Function of a name that returns the checkpoint stage for that part of the attempt.
    landmarks : Landmarks, optional
        Landmarks that were searched with this operator before. CG begins with them if a part of the rows
        cannot show how many products it would need without.
    last : bool
        Whether no attempt in a higher precision follows if this one does not converge.

    Attributes
    ----------
    result : Iterated or None
        The solutions, after the last run.
    preconditioners : Preconditioners or None
        The preconditioners, if the attempt needed them and they worked.
    notes : list of str
        Events of the attempt, for the user.
    """

    def __init__(
        self,
        operator: GramOperator,
        systems: list[System],
        size: ProblemSize,
        goal: Goal,
        certificate: str,
        limit: int,
        progress: Progress,
        budget: int,
        preconditioners: Preconditioners | None = None,
        stages: Stages | None = None,
        landmarks: Landmarks | None = None,
        *,
        last: bool = True,
    ) -> None:
        self._landmarks = landmarks
        self._operator, self._systems, self._size, self._goal = operator, systems, size, goal
        self._certificate, self._limit, self._progress = certificate, limit, progress
        self._budget, self._stages, self._last = budget, stages, last
        self._switched: tuple[Preconditioners, CGState] | None = None
        self.result: Iterated | None = None
        self.preconditioners = preconditioners
        self.notes: list[str] = []

    def runs(self) -> Iterator[CertifiedCG | _PartRun]:
        """Yield the runs; after the last one `result` holds the solutions."""
        state, stalled = None, False
        store = self._stage("preconditioned")
        saved_state = None if store is None else store.load(_PreconditionedState)
        if saved_state is not None:
            state, stalled = saved_state.cg, saved_state.stalled
            report_resumed(state, self._progress)
            if self.preconditioners is None:
                parts = self._operator, self._systems
                step, budget = saved_state.landmark_steps, saved_state.search_budget
                landmarks = landmarks_after(*parts, step, budget)
                self.preconditioners = preconditioners_of(*parts, self._size, landmarks, budget)
                del landmarks
            saved_state = None  # its arrays are not held any longer than needed
        elif self.preconditioners is None:
            plain, cheapest = self._plain(), self._landmarks
            self._landmarks = None
            part_rows = 0 if plain.interrupted else plain.policy.part_rows()
            if part_rows:
                on_part = _PartRun(plain.policy.on_part(part_rows), self._goal.residual)
                yield on_part
                allowance = plain.policy.at_start(on_part.expected, part_rows)
                cheapest = plain.policy.cheapest(allowance)
                del on_part
            if not plain.interrupted:
                self.preconditioners = preconditioners_of(
                    self._operator, self._systems, self._size, cheapest, self._budget
                )
            del cheapest
            if self.preconditioners is None:
                # A saved run may lack the decision on its last product.
                if not self.switches(plain):
                    yield plain
                self.result = plain.outcome
                if self._switched is None:
                    return
                self.preconditioners, state = self._switched
                self._switched = None
            del plain
            self._progress.stage(f"preconditioned with {self.preconditioners.rank} landmarks")
            if state is not None:
                assert state.block is not None
                block = restarted(state.block, self.preconditioners.apply, self._goal.residual)
                if block is None:
                    yield from self._again(_indefinite(self.preconditioners))
                    return
                state = replace(state, block=block)
                del block
        assert self.preconditioners is not None
        run = self._run(_PreconditionedRun, state, store, self.preconditioners)
        run.preconditioners, run.stalled = self.preconditioners, stalled
        del state
        yield run
        self.result, stalled = run.outcome, run.stalled
        del run
        yield from self._after_preconditioned(self.preconditioners, stalled)

    def _after_preconditioned(
        self, preconditioners: Preconditioners, stalled: bool
    ) -> Iterator[CertifiedCG]:
        """Yield a plain run if the preconditioned one did not help."""
        result, rank = self.result, preconditioners.rank
        assert result is not None
        if result.indefinite:
            yield from self._again(_indefinite(preconditioners))
        elif stalled and self._last and not result.converged:
            note = f"CG preconditioned with {rank} landmarks stalled: continued without a preconditioner"
            yield from self._again(note, result)
        elif result.converged or self._last:  # otherwise the notes of the next attempt say so
            self.notes.append(f"preconditioned with {rank} landmarks")

    def switches(self, run: CertifiedCG | _PartRun) -> bool:
        """Decide on the residual norms of a plain run; tell whether it ends for a preconditioned one."""
        if isinstance(run, _PartRun):
            return run.ends
        if not isinstance(run, _PlainRun) or run.decided == len(run.history):
            return False
        landmarks = run.policy.cheapest(run.policy.decide(list(run.history)))
        preconditioners = preconditioners_of(
            self._operator, self._systems, self._size, landmarks, self._budget
        )
        run.decided = len(run.history)
        if preconditioners is not None:
            self._switched = preconditioners, run.state()
        return preconditioners is not None

    def _stage(self, name: str) -> Stage | None:
        return None if self._stages is None else self._stages(name)

    def _run(
        self,
        kind: type[Run],
        state: CGState | None,
        store: Stage | None,
        preconditioners: Preconditioners | None = None,
    ) -> Run:
        return kind(
            self._operator, self._systems, self._goal, self._certificate, self._limit, self._progress,
            None if preconditioners is None else [*preconditioners.apply], state, store,
            0.0 if preconditioners is None else preconditioners.largest,
        )  # fmt: skip

    def _plain(self) -> _PlainRun:
        """Return the first run, or the continuation of an interrupted one."""
        store = self._stage("plain")
        saved_state = None if store is None else store.load(_PlainState)
        run = self._run(_PlainRun, None if saved_state is None else saved_state.cg, store)
        run.policy = SwitchPolicy(
            self._operator, self._systems, self._size, self._goal.residual, self._limit, self._budget,
            self._certificate, self._landmarks,
        )  # fmt: skip
        if saved_state is not None:
            run.interrupted = True
            run.history, run.decided = tuple(saved_state.history), saved_state.decided
            run.policy.resume(saved_state.landmark_steps)
            report_resumed(saved_state.cg, self._progress)
        return run

    def _again(self, note: str, instead_of: Iterated | None = None) -> Iterator[CertifiedCG]:
        """Yield a plain run from the beginning; ``instead_of`` stays the result if it is better."""
        store = self._stage("again")
        run = self._run(CertifiedCG, load_cg(store, self._progress), store)
        yield run
        assert run.outcome is not None
        results = [run.outcome] if instead_of is None else [run.outcome, instead_of]
        self.result = min(results, key=lambda result: result.worst(self._goal))
        self.preconditioners, self.notes = None, [note]


def _indefinite(preconditioners: Preconditioners) -> str:
    rank = preconditioners.rank
    return f"the preconditioner of {rank} landmarks is not positive definite in float64"


@dataclass(frozen=True, eq=False)
class _PlainState:
    """Plain CG with the residual norms that the policy decides on."""

    cg: CGState
    history: list[float]
    landmark_steps: int
    decided: int


@dataclass(frozen=True, eq=False)
class _PreconditionedState:
    """Preconditioned CG, with the inputs that determine its preconditioners."""

    cg: CGState
    landmark_steps: int
    search_budget: int
    stalled: bool


class _PartRun:
    """Plain CG on a part of the rows, which shows how many products all rows would need.

    It ends after some products: the decay of the residual then tells the number.
    """

    def __init__(self, run: BlockCGRun, target: float) -> None:
        self._run, self._target = run, target
        self._count, self._norms = 0, list[float]()

    def products(self) -> Iterator[float | None]:
        """Return the products, as `CertifiedCG.products` does."""
        return self._run.products()

    def after_product(self, norm: float | None) -> None:
        """Record the residual norm after a product."""
        self._count += 1
        if norm is not None:
            self._norms.append(norm)

    @property
    def ends(self) -> bool:
        """Whether enough products are made."""
        return len(self._norms) >= _MOST_ON_PART

    @property
    def expected(self) -> int:
        """Number of products down to the target."""
        if not self.ends:
            return self._count
        return self._count + math.ceil(
            products_left(self._norms, self._target, MOST_PRODUCTS - self._count)
        )

    def saved_at_interrupt(self) -> AbstractContextManager[None]:
        """Return a context that saves nothing."""
        return nullcontext()


class _PlainRun(CertifiedCG):
    """Plain CG with the residual norms of the current round.

    Attributes
    ----------
    policy : SwitchPolicy
        Decides on a preconditioner.
    history : tuple of float
        The residual norms.
    decided : int
        Number of norms that the policy has decided on.
    interrupted : bool
        Whether the run continues one that a checkpoint has saved.
    """

    policy: SwitchPolicy
    history: tuple[float, ...] = ()
    decided = 0
    interrupted = False

    def record(self, norm: float | None) -> None:
        self.history = () if norm is None else (*self.history, norm)
        self.decided = min(self.decided, len(self.history))

    def saved_state(self) -> _PlainState:
        return _PlainState(self.state(), list(self.history), self.policy.step, self.decided)


class _PreconditionedRun(CertifiedCG):
    """Preconditioned CG, which saves the inputs of its preconditioners with the state.

    Attributes
    ----------
    preconditioners : Preconditioners
        The preconditioners.
    stalled : bool
        Whether the iteration of a system has ended without reaching its target.
    """

    preconditioners: Preconditioners
    stalled = False

    def record(self, norm: float | None) -> None:
        block = self.state().block
        results = [] if block is None else block.results
        self.stalled = self.stalled or not all(result.converged for result in results)

    def saved_state(self) -> _PreconditionedState:
        step, budget = self.preconditioners.step, self.preconditioners.budget
        return _PreconditionedState(self.state(), step, budget, self.stalled)
