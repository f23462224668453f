"""CG that begins with a preconditioner, or switches to one, if that saves time.

Of many rows, some show how many products plain CG would need. If these cost clearly more than landmarks and
a preconditioned run, CG begins with a preconditioner. Else it begins without: at the paper's regulariser 4
to 8 products are enough. Then the decay of the residual predicts how many more products are needed, and the
iteration may continue with a preconditioner from its present residual, so that no product is lost. Choices
depend on numbers of the run and on costs in operations, never on a clock: the same call takes the same
steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fastmcmd._base.annotations import DType
from fastmcmd._base.progress import Progress
from fastmcmd.checkpoint import Checkpoint, Stage, Stages, stages_of
from fastmcmd.errors import ROUNDING_ALONE, NumericalError
from fastmcmd.gram import EXACT, GramOperator, tile_dtype
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.solvers.base import Goal, System
from fastmcmd.solvers.block_cg import restarted
from fastmcmd.solvers.cg import (
    MOST_PRODUCTS,
    CertifiedCG,
    CGState,
    Driver,
    Iterated,
    load_cg,
    report_resumed,
)
from fastmcmd.solvers.cholesky import too_large_for_float32
from fastmcmd.solvers.costs import cg_cost, preconditioned_cost
from fastmcmd.solvers.protocol import Cost, LinearProblem, ProblemSize, Solved
from fastmcmd.solvers.switch_policy import Preconditioners, SwitchPolicy, preconditioners_of

__all__ = ["PreconditionedCG", "PreconditionedRun", "iterate"]

_SEARCH = 8  # the search for landmarks gets 1 / 8 of the budget
_MOST_SEARCH = 100_000_000  # bytes, enough for the most landmarks
_LEAST_PRODUCTS = 20  # products that CG may make before another solver takes over


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
        return preconditioned_cost(size, landmarks, products) if landmarks else cg_cost(size)

    def operator(self, problem: LinearProblem) -> GramOperator:
        """Return K in the precision with which `solve` begins.

        Raises
        ------
        NumericalError
            ``dtype`` is float32, and some values are out of its range.
        """
        dtype = self.dtype or (FLOAT32 if _float32_can_serve(problem) else EXACT)
        dtype = tile_dtype(problem.kernel, dtype, problem.x)
        operator = problem.operator(dtype, _search_budget(problem))
        if dtype == EXACT or np.isfinite(operator.rounding(dtype)):
            return operator
        if self.dtype is not None:
            raise NumericalError(too_large_for_float32(operator))
        return problem.operator(EXACT, _search_budget(problem))

    def solve(
        self,
        problem: LinearProblem,
        progress: Progress,
        state: Checkpoint | None = None,
        alternative: Cost | None = None,
        operator: GramOperator | None = None,
    ) -> Solved:
        """Return certified solutions; if CG misses the goal, the most accurate ones.

        Parameters
        ----------
        problem, progress, state
            As for every `Solver`.
        alternative : Cost, optional
            Cost of the solver that takes over if CG does not converge: the products may cost as much.
        operator : GramOperator, optional
            The result of `operator` for this problem.
        """
        operator = operator or self.operator(problem)
        goal, notes = problem.goal, list[str]()
        best: Solved | None = None
        preconditioners: Preconditioners | None = None
        first, passes = operator.dtype, 0
        for precision in [first] if first == EXACT or self.dtype else [first, EXACT]:
            if best is not None:
                notes.append(
                    f"float32 was certified to {best.worst(goal):.1e}, {goal.error:.1e} is needed: went "
                    "on in float64"
                )
                progress.stage("float64")
                operator.drop_cache()
                operator = problem.operator(precision, _search_budget(problem))
                operator.passes = passes
            size, limit = problem.size(operator), MOST_PRODUCTS
            if alternative is not None:
                affordable = int(alternative.total / self.estimate(size).per_product)
                limit = min(limit, max(_LEAST_PRODUCTS, affordable))
            run = iterate(
                operator, problem.systems, size, goal, self.certificate, limit, progress,
                _search_budget(problem), preconditioners,
                stages_of(state, f"{problem.name} {precision}"), problem.stop,
                last=precision == EXACT or self.dtype is not None,
            )  # fmt: skip
            passes, preconditioners = operator.passes, run.preconditioners
            notes += run.notes
            if run.result is None:
                return Solved([], operator, self.name, 0, notes, passes=passes, stopped=True)
            solved = Solved(
                run.result.solutions, operator, self.name, run.result.iterations, notes,
                0 if preconditioners is None else preconditioners.rank,
            )  # fmt: skip
            if best is None or solved.worst(goal) < best.worst(goal):
                best = solved
            if best.worst(goal) <= goal.error:
                break
            if best.out_of_reach(goal):
                # Float64 tiles or a Cholesky factor would not be certified to less either.
                notes.append(f"{ROUNDING_ALONE} {best.worst(goal):.1e}, {goal.error:.1e} is needed")
                break
        assert best is not None
        return replace(best, passes=passes)


def _search_budget(problem: LinearProblem) -> int:
    return min(_MOST_SEARCH, problem.budget // _SEARCH)


def _float32_can_serve(problem: LinearProblem) -> bool:
    """Tell whether float32 tiles can lead to a certificate within the tolerance.

    If float64 computes the residual R, each refinement shrinks the float32 error by a factor of about
    eps k / lam; the rounding that the last refinement leaves must be below the tolerance. A user's kernel
    function runs in float64 anyway.
    """
    if not problem.kernel.compiled:
        return False
    # Rounding of float32 entries, relative to the size of the answer: see docs/theory.md.
    diagonal = float(problem.kernel.diagonal(problem.x[:1])[0])
    return problem.lam >= 1e-5 * max(diagonal, 1e-300)


@dataclass(frozen=True, eq=False)
class PreconditionedRun:
    """The result of `iterate`.

    Attributes
    ----------
    result : Iterated or None
        The solutions; None if the run was stopped.
    preconditioners : Preconditioners or None
        The preconditioners, if the run needed them and they worked.
    notes : list of str
        Events of the run, for the user.
    """

    result: Iterated | None
    preconditioners: Preconditioners | None = None
    notes: list[str] = field(default_factory=list)


def iterate(
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
    stop: Callable[[], bool] | None = None,
    *,
    last: bool = True,
) -> PreconditionedRun:
    """Return solutions by CG, preconditioned if that saves time.

    Parameters
    ----------
    operator, systems, goal, certificate, limit, progress
        As in `CertifiedCG`.
    size : ProblemSize
        What costs depend on.
    budget : int
        Bytes that the search for landmarks may use.
    preconditioners : Preconditioners, optional
        Preconditioners that an earlier run needed; this run begins with them.
    stages : callable, optional
        Function of a name that returns the checkpoint stage for that part of the run.
    stop : callable, optional
        Called after each product; True ends the run without solutions.
    last : bool
        Whether no run in a higher precision follows if this one does not converge.
    """

    def store(name: str) -> Stage | None:
        return None if stages is None else stages(name)

    def cg(apply: Preconditioners | None, state: CGState | None) -> CertifiedCG:
        return CertifiedCG(
            operator, systems, goal, certificate, limit, progress,
            None if apply is None else [*apply.apply], state,
        )  # fmt: skip

    def plain_again(note: str, instead_of: Iterated | None = None) -> PreconditionedRun:
        again = store("again")
        result = Driver(again, stop).follow(cg(None, load_cg(again, progress)))
        if result is not None and instead_of is not None:
            result = min((result, instead_of), key=lambda one: one.worst(goal))
        return PreconditionedRun(result, None, [note])

    state, stalled = None, False
    preconditioned = store("preconditioned")
    saved = None if preconditioned is None else preconditioned.load(_PreconditionedState)
    if saved is not None:
        state, stalled = saved.cg, saved.stalled
        report_resumed(state, progress)
        if preconditioners is None:
            preconditioners = preconditioners_of(
                operator, systems, saved.landmark_steps, saved.search_budget
            )
        saved = None  # its arrays are not held any longer than needed
    elif preconditioners is None:
        policy = SwitchPolicy(operator, systems, size, goal.residual, limit, budget, certificate)
        watch = _SwitchDriver(store("plain"), policy, stop)
        interrupted = watch.begin(progress)
        preconditioners = policy.at_start() if interrupted is None else None
        if preconditioners is None:
            plain = cg(None, interrupted)
            del interrupted
            result = None if watch.undecided and watch.switches(plain) else watch.follow(plain)
            del plain
            if watch.switched is None:
                return PreconditionedRun(result)
            preconditioners, state = watch.switched
        del watch, policy
        progress.stage(f"preconditioned with {preconditioners.rank} landmarks")
        if state is not None:
            assert state.block is not None
            block = restarted(state.block, [*preconditioners.apply], goal.residual)
            if block is None:
                return plain_again(_indefinite(preconditioners))
            state = replace(state, block=block)
            del block
    driver = _PreconditionedDriver(preconditioned, preconditioners, stalled, stop)
    run = cg(preconditioners, state)
    del state
    result = driver.follow(run)
    del run
    if result is None:
        return PreconditionedRun(None)
    if result.indefinite:
        return plain_again(_indefinite(preconditioners))
    if result.converged or not driver.stalled or not last:
        # If a run in a higher precision follows, its own notes say so.
        notes = [f"preconditioned with {preconditioners.rank} landmarks"]
        return PreconditionedRun(result, preconditioners, notes if result.converged or last else [])
    return plain_again(
        f"CG preconditioned with {preconditioners.rank} landmarks stalled: went on without", result
    )


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


class _SwitchDriver(Driver):
    """Drives plain CG, and stops it when the policy switches to a preconditioner.

    Attributes
    ----------
    switched : tuple or None
        The preconditioners and the state of the run at the switch; None if there was no switch.
    """

    def __init__(
        self, store: Stage | None, policy: SwitchPolicy, stop: Callable[[], bool] | None
    ) -> None:
        super().__init__(store, stop)
        self._policy = policy
        self._history: list[float] = []
        self._decided = 0  # number of residual norms that the policy has decided on
        self.switched: tuple[Preconditioners, CGState] | None = None

    def begin(self, progress: Progress) -> CGState | None:
        """Return the state of an interrupted run, with its residual norms."""
        saved = None if self._store is None else self._store.load(_PlainState)
        if saved is None:
            return None
        self._history, self._decided = saved.history, saved.decided
        self._policy.resume(saved.landmark_steps)
        report_resumed(saved.cg, progress)
        return saved.cg

    @property
    def undecided(self) -> bool:
        """Whether an interrupted run was saved before the decision on its last product."""
        return self._decided < len(self._history)

    def record(self, run: CertifiedCG, norm: float | None) -> None:
        # The next round, or the end of the run, starts a new history.
        self._history = [] if norm is None else [*self._history, norm]
        self._decided = min(self._decided, len(self._history))

    def saved_state(self, run: CertifiedCG) -> _PlainState:
        return _PlainState(run.state(), self._history, self._policy.step, self._decided)

    def ends(self, run: CertifiedCG, norm: float | None) -> bool:
        return super().ends(run, norm) or (norm is not None and self.switches(run))

    def switches(self, run: CertifiedCG) -> bool:
        """Ask the policy to decide on the residual norms so far; tell whether it switches."""
        preconditioners = self._policy.decide(self._history)
        self._decided = len(self._history)
        if preconditioners is not None:
            self.switched = preconditioners, run.state()
        return preconditioners is not None


class _PreconditionedDriver(Driver):
    """Drives preconditioned CG, and saves the inputs of its preconditioners with the state.

    Attributes
    ----------
    stalled : bool
        Whether the iteration of a system has ended without reaching its target.
    """

    def __init__(
        self, store: Stage | None, preconditioners: Preconditioners, stalled: bool,
        stop: Callable[[], bool] | None,
    ) -> None:  # fmt: skip
        super().__init__(store, stop)
        self._preconditioners = preconditioners
        self.stalled = stalled

    def record(self, run: CertifiedCG, norm: float | None) -> None:
        block = run.state().block
        results = [] if block is None else block.results
        self.stalled = self.stalled or not all(result.converged for result in results)

    def saved_state(self, run: CertifiedCG) -> _PreconditionedState:
        preconditioners = self._preconditioners
        return _PreconditionedState(
            run.state(), preconditioners.step, preconditioners.budget, self.stalled
        )
