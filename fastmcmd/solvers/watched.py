"""CG that takes a preconditioner on where that saves time.

It begins without: at the paper's regulariser 4 to 8 products are enough. From the fall of the residual
it is told how many more are needed; where they cost clearly more than landmarks and a preconditioned run,
the iteration goes on with a preconditioner from the residual that it has, so that no product is lost.
Choices follow from numbers of the run and from costs in operations, never from a clock: the same call
takes the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.checkpoint import Keep, Stages, State
from fastmcmd.gram import GramOperator
from fastmcmd.gram.cost import entry_cost
from fastmcmd.progress import Progress
from fastmcmd.solvers.base import Goal, System, by_diagonal
from fastmcmd.solvers.block_cg import DROP, led
from fastmcmd.solvers.iterative import Iterated, solve_cg
from fastmcmd.solvers.preconditioner import RANKS, Landmarks, Preconditioner

__all__ = ["Lead", "preconditioning_cost", "solve_watched", "step_cost"]

Array = NDArray[np.float64]

_FIRST = (
    4  # products before the fall of the residual is looked at; then each time half as many more
)
_WORTH = 0.6  # of what plain CG is expected to cost: a preconditioner must not cost more
_NEEDED = 3.0  # products of preconditioned CG: that many, and
_PER_ROOT = 0.4  # that many for each decade of residual and root of the eigenvalue left (measured)
_FALL = 2.0  # power of the rank with which that eigenvalue falls, before it was measured
# What small dense steps take, measured on two shared cores (their own products would take a tenth): for
# each landmark that is looked for and factored, and for each time that the preconditioner is applied.
_LANDMARK, _APPLIED = 1e8, 4e8
_OVERHEAD = 2e7  # operations in whose time Python gets through the steps of an iteration


def step_cost(n: int, columns: int) -> float:
    """Return the cost of what is done between two products, in float32 operations."""
    # In float64 on n x r blocks, and on r x r eigenvalue problems.
    return 2 * (16.0 * n * columns**2 + 30.0 * columns**3) + _OVERHEAD


def preconditioning_cost(
    operator: GramOperator, systems: list[System], rank: int, products: int
) -> float:
    """Return the cost of a preconditioner of so many landmarks, made and applied, as a run judges it."""
    judge = _Judge(operator, systems, 1.0, 0, 0)
    return judge.build(rank) + products * judge.apply(rank)


@dataclass(frozen=True, eq=False)
class Lead:
    """A preconditioner for each system, and from which it can be made again: ``step``, ``room``."""

    apply: list[Preconditioner]
    step: int
    room: int

    @property
    def rank(self) -> int:
        """Number of landmarks."""
        return self.apply[0].rank


class _Switch(Exception):
    """Plain CG ends here: its state, and the preconditioner to go on with."""

    def __init__(self, state: State, lead: Lead) -> None:
        super().__init__()
        self.state, self.lead = state, lead


def solve_watched(
    operator: GramOperator,
    systems: list[System],
    goal: Goal,
    certificate: str,
    limit: int,
    progress: Progress,
    room: int,
    notes: list[str],
    lead: Lead | None = None,
    stages: Stages | None = None,
    *,
    last: bool = True,
) -> tuple[Iterated, Lead | None]:
    """Solve by CG, preconditioned where that saves time.

    Parameters
    ----------
    operator, systems, goal, certificate, limit, progress
        As in `solve_cg`.
    room : int
        Bytes that the search for landmarks may take.
    notes : list of str
        Added to.
    lead : Lead, optional
        A preconditioner that proved to be needed already.
    stages : callable, optional
        Returns where the state of a named part of the run is kept.
    last : bool
        Whether no better precision follows where this one does not converge.

    Returns
    -------
    Iterated
        The solutions.
    Lead or None
        The preconditioner, if it was needed and served.
    """

    def keep(name: str) -> Keep | None:
        return None if stages is None else stages(name)

    def run(lead: Lead | None, where: Keep | None) -> Iterated:
        apply: list[Callable[[Array], Array]] | None = None if lead is None else [*lead.apply]
        return solve_cg(
            operator, systems, goal, certificate, limit, progress, apply, where
        )  # fmt: skip

    kept = keep("preconditioned")
    saved = None if kept is None else kept.load()
    state: State | None = None
    begun: State | None = None
    if saved is not None:
        step, used = map(int, saved.pop("landmarks"))
        if lead is None:
            lead = make_lead(operator, systems, step, used)
        state = saved
    if lead is None:
        watch = _Watch(keep("plain"), _Judge(operator, systems, goal.residual, limit, room))
        try:
            return run(None, watch), None
        except _Switch as switch:
            lead, begun = switch.lead, switch.state
        progress.stage(f"preconditioned with {lead.rank} landmarks")
    rank = lead.rank
    try:
        if begun is not None:
            state = _handed_over(begun, lead, goal.residual)
        where = _Led(kept, lead, state)
        found = run(lead, where)
    except ValueError as error:
        if "precondition" not in str(error):
            raise
        notes.append(f"the preconditioner of {rank} landmarks is not positive definite in float64")
        return run(None, keep("again")), None
    if found.converged or not where.stalled or not last:
        if found.converged or last:  # else it is told of what follows
            notes.append(f"preconditioned with {rank} landmarks")
        return found, lead
    notes.append(f"CG preconditioned with {rank} landmarks stalled: went on without")
    again = run(None, keep("again"))
    return min((again, found), key=lambda one: _miss(one, goal)), None


def _miss(found: Iterated, goal: Goal) -> float:
    return max(goal.miss(solution.certificate) for solution in found.solutions)


def make_lead(operator: GramOperator, systems: list[System], step: int, room: int) -> Lead:
    """Return the preconditioner of ``step`` steps of landmarks; the same each time."""
    landmarks = Landmarks(operator, _least_shift(systems), room)
    landmarks.grow_to(step)
    return _lead(operator, systems, landmarks, room)


def _lead(operator: GramOperator, systems: list[System], landmarks: Landmarks, room: int) -> Lead:
    features, least = landmarks.features(), _least_shift(systems)
    applied: dict[int, Preconditioner] = {}
    for numbers in by_diagonal(systems):
        shift = systems[numbers[0]].shift
        mu = 1.0 + landmarks.damping * float(np.median(least / shift))
        applied |= dict.fromkeys(numbers, Preconditioner(operator, shift, features, mu))
    return Lead([applied[number] for number in range(len(systems))], landmarks.step, room)


def _least_shift(systems: list[System]) -> Array:
    return min((system.shift for system in systems), key=lambda shift: float(shift.min()))


class _Judge:
    """Tells from the residuals so far whether to go on with a preconditioner."""

    def __init__(
        self, operator: GramOperator, systems: list[System], target: float, limit: int, room: int
    ) -> None:
        self._operator, self._systems, self._target = operator, systems, target
        self._limit, self._room = limit, room
        self._n, self._columns = operator.size, sum(s.rhs.shape[1] for s in systems)
        self._entry = entry_cost(operator.kernel, operator.dim, operator.backend.name)
        step = sum(step_cost(self._n, s.rhs.shape[1]) for s in systems)
        self._product = operator.product_cost(self._columns) + step
        self._landmarks: Landmarks | None = None
        self._begun = 0

    @property
    def step(self) -> int:
        """Steps of landmarks that were looked at: where the next look begins."""
        return self._begun if self._landmarks is None else self._landmarks.step

    def go_on(self, step: int) -> None:
        """Begin where another run had come to."""
        self._begun, self._landmarks = step, None

    def __call__(self, history: list[float]) -> Lead | None:
        """Return the preconditioner to go on with after the residual norms ``history``, or None."""
        if not _looked_at(len(history)) or not math.isfinite(history[-1]):
            return None
        plain = self._more(history) * self._product
        if plain * _WORTH <= self._total(64, _NEEDED):
            return None
        decades = math.log10(max(history[-1] / self._target, 10.0))
        if self._landmarks is None:
            self._landmarks = Landmarks(self._operator, _least_shift(self._systems), self._room)
            self._landmarks.grow_to(self._begun)
        landmarks, before = self._landmarks, None
        most = min(_WORTH * plain, (self._limit - len(history)) * self._product)
        if landmarks.step == 0:
            landmarks.grow()
        while True:
            now = landmarks.rank, max(landmarks.left(), 1e-300)
            total = self._expected(*now, decades)
            if landmarks.exhausted:
                break
            ahead = self._ahead(before, now, decades)
            if ahead > most and total > most:
                return None
            if ahead > total:
                break
            before = now
            landmarks.grow()
        if total > most or landmarks.rank == 0:
            return None
        try:
            return _lead(self._operator, self._systems, landmarks, self._room)
        except np.linalg.LinAlgError:  # a kernel that is not positive semi-definite
            return None

    def _expected(self, rank: int, left: float, decades: float) -> float:
        """Return the cost of a run with ``rank`` landmarks that leave the eigenvalue ``left``."""
        return self._total(rank, _NEEDED + _PER_ROOT * decades * math.sqrt(left))

    def _ahead(
        self, before: tuple[int, float] | None, now: tuple[int, float], decades: float
    ) -> float:
        """Return the least cost that more landmarks may lead to, if the eigenvalue falls on."""
        slope = -_FALL
        if before is not None and now[0] > before[0]:
            slope = min(0.0, math.log(now[1] / before[1]) / math.log(now[0] / before[0]))
        return (
            min(
                self._expected(rank, now[1] * (rank / now[0]) ** slope, decades)
                for rank in RANKS
                if rank > now[0]
            )
            if now[0] < RANKS[-1]
            else math.inf
        )

    def _more(self, history: list[float]) -> float:
        """Return how many products plain CG still needs, from the last half of those done."""
        count = len(history)
        half = count // 2
        fall = math.log(max(history[half - 1] / history[-1], 1e-300)) / (count - half)
        rest = math.log(max(history[-1] / self._target, 1.0))
        return min(float(self._limit), rest / fall) if fall > 0 else float(self._limit)

    def build(self, rank: int) -> float:
        """Return the cost of landmarks and of the preconditioners made of them."""
        rows = min(self._n, 6000)
        look = 4.0 * rows * rank * (self._entry + rank) + _LANDMARK * rank
        made = len(by_diagonal(self._systems))
        return look + 2.0 * made * self._n * rank * (2 * self._entry + 2 * rank)

    def apply(self, rank: int) -> float:
        """Return the cost of applying them to all columns: two products with a strip of K in float64."""
        strips = 4.0 * self._n * rank * (2 * self._entry + 2 * self._columns)
        return strips + _APPLIED * len(self._systems)

    def _total(self, rank: int, products: float) -> float:
        return self.build(rank) + products * (self._product + self.apply(rank))


def _looked_at(count: int) -> bool:
    look = _FIRST
    while look < count:
        look += max(2, look // 2)
    return look == count


class _Watch:
    """Keeps the state of plain CG with its residual norms, and ends it where it is told to."""

    def __init__(self, keep: Keep | None, judge: _Judge) -> None:
        self._keep, self._judge = keep, judge
        self._history: list[float] = []
        self._judged = 0  # how many of them were looked at

    def load(self) -> State | None:
        state = None if self._keep is None else self._keep.load()
        if state is not None:
            self._history = state.pop("history").tolist()
            step, self._judged = (int(value) for value in state.pop("looked"))
            self._judge.go_on(step)
            if self._judged < len(self._history):
                self._decide(state)  # the file was written before that
        return state

    def save(self, state: Callable[[], State], *, force: bool = False) -> None:
        current = state()
        norms = [float(array[3]) for name, array in current.items() if _is_run(name, current)]
        if not force:
            # A run that ended, or is certified, begins another history.
            self._history = [*self._history, max(norms)] if norms else []
            self._judged = min(self._judged, len(self._history))
        if self._keep is not None:
            looked = np.array([self._judge.step, self._judged])
            told = {"history": np.array(self._history), "looked": looked}
            self._keep.save(lambda: {**current, **told}, force=force)
        if norms and not force:
            self._decide(current)

    def _decide(self, state: State) -> None:
        self._judged = len(self._history)
        lead = self._judge(self._history)
        if lead is not None:
            raise _Switch(state, lead)


def _is_run(name: str, state: State) -> bool:
    index, _, what = name.partition(".")
    return what == "numbers" and f"{index}.directions" in state


class _Led:
    """Keeps the state of preconditioned CG with what the preconditioner is made of.

    ``stalled`` tells whether a run of it ended without reaching its target.
    """

    def __init__(self, keep: Keep | None, lead: Lead, state: State | None) -> None:
        self._keep, self._state = keep, state
        self._lead = np.array([lead.step, lead.room])
        self.stalled = state is not None and bool(state.pop("stalled", False))

    def load(self) -> State | None:
        state, self._state = self._state, None
        return state

    def save(self, state: Callable[[], State], *, force: bool = False) -> None:
        current = state()
        ended = [a[1] for name, a in current.items() if _is_result(name, current)]
        self.stalled = self.stalled or not all(ended)
        if self._keep is not None:
            more = {"landmarks": self._lead, "stalled": np.array(self.stalled)}
            self._keep.save(lambda: {**current, **more}, force=force)


def _is_result(name: str, state: State) -> bool:
    index, _, what = name.partition(".")
    return what == "numbers" and f"{index}.value" in state


def _handed_over(state: State, lead: Lead, target: float) -> State:
    """Return the state from which preconditioned CG goes on where plain CG ended."""
    found = dict(state)
    for index, apply in enumerate(lead.apply):
        if f"{index}.directions" not in state:
            continue  # this system is solved
        iterations, _, _, norm, *reach = map(float, state[f"{index}.numbers"])
        found[f"{index}.numbers"] = np.array([iterations, 0, norm, norm, *reach])
        found[f"{index}.directions"] = led(state[f"{index}.residual"], apply, DROP * target)
        found.pop(f"{index}.first", None)
        found.pop(f"{index}.first_image", None)
    return found
