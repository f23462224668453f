"""The policy by which CG begins with a preconditioner, or switches to one later.

Before the first product, a small problem of the same kind shows how many products plain CG needs. Later,
the decay of the residual shows it. Estimated costs decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.gram import GramOperator
from fastmcmd.solvers.base import System, by_diagonal, scaled_norm
from fastmcmd.solvers.block_cg import BlockCGRun
from fastmcmd.solvers.cg import exact_pass
from fastmcmd.solvers.costs import cg_cost, preconditioned_cost
from fastmcmd.solvers.preconditioner import RANKS, Landmarks, Preconditioner
from fastmcmd.solvers.protocol import ProblemSize

__all__ = ["Preconditioners", "SwitchPolicy", "preconditioners_of"]


_FIRST = 4  # products before the first decision; each later one comes after half as many more
_WORTH = 0.6  # largest cost of a preconditioned run, relative to the expected cost of plain CG
_LEAST_PRODUCTS = 3.0  # products of preconditioned CG: this number, and
_PER_ROOT = 0.4  # this many per decade of residual and root of the remaining eigenvalue (measured)
_FALL = 2.0  # assumed power of the rank with which that eigenvalue falls, until it is measured
# With a preconditioner from the start, each product divides the residual by this over the remaining
# eigenvalue. It predicted 36 of 40 runs exactly (2 to 512 columns, eigenvalues 1e-8 to 0.5, lam = 0.01 and
# 0.1, tol = 1e-4 and 1e-6), the others to one product. A last tenth of a product is not made.
_PER_PRODUCT, _NOT_MADE = 16.0, 0.1
_USUAL = (128, 2.0)  # landmarks and products of a run that began with a preconditioner
_WORTH_FROM_START = 0.8  # as `_WORTH`: both costs are known better before the first product
# Rows of the small problem on which plain CG is tried, at least and for each right-hand side: block CG
# must not exhaust its dimensions. It is tried if all rows are so many times more.
_PART, _PART_PER_COLUMN, _MANY = 512, 16, 6


@dataclass(frozen=True, eq=False)
class Preconditioners:
    """A preconditioner for each system, and the inputs from which they can be rebuilt.

    Attributes
    ----------
    apply : list of Preconditioner
        One for each system.
    step : int
        Number of steps in which the landmarks were drawn.
    budget : int
        Bytes that the search for landmarks was allowed to use.
    """

    apply: list[Preconditioner]
    step: int
    budget: int

    @property
    def rank(self) -> int:
        """Number of landmarks."""
        return self.apply[0].rank


def preconditioners_of(
    operator: GramOperator, systems: list[System], step: int, budget: int
) -> Preconditioners:
    """Return the preconditioners after ``step`` steps of landmarks; equal calls give equal results."""
    landmarks = Landmarks(operator, _least_shift(systems), budget)
    landmarks.grow_to(step)
    return _of_landmarks(operator, systems, landmarks, budget)


def _of_landmarks(
    operator: GramOperator, systems: list[System], landmarks: Landmarks, budget: int
) -> Preconditioners:
    features, least = landmarks.features(), _least_shift(systems)
    applied: dict[int, Preconditioner] = {}
    for numbers in by_diagonal(systems):
        shift = systems[numbers[0]].shift
        mu = 1.0 + landmarks.damping * float(np.median(least / shift))
        applied |= dict.fromkeys(numbers, Preconditioner(operator, shift, features, mu))
    return Preconditioners(
        [applied[number] for number in range(len(systems))], landmarks.step, budget
    )


def _least_shift(systems: list[System]) -> Array:
    return min((system.shift for system in systems), key=lambda shift: float(shift.min()))


class SwitchPolicy:
    """Decides from the residual norms of plain CG whether to switch to a preconditioner.

    Parameters
    ----------
    operator, systems
        K and the systems to solve.
    size : ProblemSize
        The sizes that costs depend on.
    target : float
        Residual norm at which the run ends.
    limit : int
        Largest number of products.
    budget : int
        Bytes that the search for landmarks may use.
    certificate : {"auto", "rigorous", "sampled"}
        How the solutions will be certified.
    """

    def __init__(
        self, operator: GramOperator, systems: list[System], size: ProblemSize, target: float,
        limit: int, budget: int, certificate: str = "auto",
    ) -> None:  # fmt: skip
        self._certificate = certificate
        self._operator, self._systems, self._size = operator, systems, size
        self._target, self._limit, self._budget = target, limit, budget
        self._product = cg_cost(size).per_product
        self._landmarks: Landmarks | None = None
        self._first_step = 0

    @property
    def step(self) -> int:
        """Steps of landmarks examined so far: where the next search begins."""
        return self._first_step if self._landmarks is None else self._landmarks.step

    def resume(self, step: int) -> None:
        """Begin with the landmarks that an interrupted run had reached."""
        self._first_step, self._landmarks = step, None

    def at_start(self) -> Preconditioners | None:
        """Return preconditioners to begin with, or None to begin without.

        Plain CG is expected to need as many products as on a random part of the rows with the same
        regulariser, whose spectrum is much the same.
        """
        operator, columns = self._operator, self._size.total_columns
        rows = max(_PART, _PART_PER_COLUMN * columns)
        if operator.size < _MANY * rows or operator.backend.on_device:
            return None
        usual = self._total(*_USUAL)  # below that even the search for landmarks does not pay
        if _WORTH_FROM_START * cg_cost(self._size).total <= usual:
            return None
        products = self._products_on_part(rows)
        plain = products * self._product + self._certified(products)
        if _WORTH_FROM_START * plain <= usual:
            return None
        norm = max(scaled_norm(system.rhs, system.shift) for system in self._systems)
        if not math.isfinite(norm):
            return None
        decades = math.log10(max(norm / self._target, 10.0))
        return self._cheaper(_WORTH_FROM_START * plain, decades, from_start=True)

    def _products_on_part(self, count: int) -> int:
        """Return the number of products that plain CG makes on ``count`` random rows."""
        operator = self._operator
        rows, index = operator.random_rows(count, generator(operator.size, Purpose.PROBE))
        small = GramOperator(
            operator.backend, operator.kernel, rows, operator.dtype, operator.budget
        )
        share = len(index) / len(operator)
        systems = [
            System(np.ascontiguousarray(system.rhs[index]), share * system.shift[index])
            for system in self._systems
        ]
        unit = float(np.finfo(operator.dtype).eps) / 2
        run = BlockCGRun(small, systems, self._target, self._limit, unit=unit)
        return sum(1 for _ in run.products())

    def decide(self, history: list[float]) -> Preconditioners | None:
        """Return preconditioners to continue with after the residual norms ``history``, or None to stay."""
        if not _looked_at(len(history)) or not math.isfinite(history[-1]):
            return None
        plain = self._more(history) * self._product
        if plain * _WORTH <= self._total(RANKS[0], _LEAST_PRODUCTS):
            return None
        decades = math.log10(max(history[-1] / self._target, 10.0))
        most = min(_WORTH * plain, (self._limit - len(history)) * self._product)
        return self._cheaper(most, decades)

    def _cheaper(
        self, most: float, decades: float, *, from_start: bool = False
    ) -> Preconditioners | None:
        """Return the cheapest preconditioners for a run over ``decades`` that costs at most ``most``."""
        if self._landmarks is None:
            self._landmarks = Landmarks(self._operator, _least_shift(self._systems), self._budget)
            self._landmarks.grow_to(self._first_step)
        landmarks, before = self._landmarks, None
        if landmarks.step == 0:
            landmarks.grow()
        while True:
            now = landmarks.rank, max(landmarks.residual_eigenvalue(), 1e-300)
            total = self._expected(*now, decades, from_start)
            if landmarks.exhausted:
                break
            ahead = self._ahead(before, now, decades, from_start)
            if ahead > most and total > most:
                return None
            if ahead > total:
                break
            before = now
            landmarks.grow()
        if total > most or landmarks.rank == 0:
            return None
        try:
            return _of_landmarks(self._operator, self._systems, landmarks, self._budget)
        except np.linalg.LinAlgError:  # a kernel that is not positive semi-definite
            return None

    def _certified(self, products: int) -> float:
        """Return the cost of the certificate after a run of this many products."""
        columns = self._size.total_columns
        return exact_pass(self._operator, columns, self._certificate, products)

    def _total(self, rank: int, products: float) -> float:
        return preconditioned_cost(self._size, rank, products).total

    def _expected(self, rank: int, eigenvalue: float, decades: float, from_start: bool) -> float:
        """Return the cost of a run with ``rank`` landmarks that leave ``eigenvalue``."""
        products = _LEAST_PRODUCTS + _PER_ROOT * decades * math.sqrt(eigenvalue)
        if not from_start:
            return self._total(rank, products)
        if eigenvalue < 1.0:
            count = decades / math.log10(_PER_PRODUCT / eigenvalue)
            products = max(1, math.ceil(count - _NOT_MADE))
        return self._total(rank, products) + self._certified(math.ceil(products))

    def _ahead(
        self, before: tuple[int, float] | None, now: tuple[int, float], decades: float,
        from_start: bool,
    ) -> float:  # fmt: skip
        """Return the least cost that more landmarks may lead to if the eigenvalue keeps falling."""
        slope = -_FALL
        if before is not None and now[0] > before[0]:
            slope = min(0.0, math.log(now[1] / before[1]) / math.log(now[0] / before[0]))
        return min(
            (
                self._expected(rank, now[1] * (rank / now[0]) ** slope, decades, from_start)
                for rank in RANKS
                if rank > now[0]
            ),
            default=math.inf,
        )

    def _more(self, history: list[float]) -> float:
        """Return how many products plain CG still needs, from the decay over the last half of them."""
        count = len(history)
        half = count // 2
        fall = math.log(max(history[half - 1] / history[-1], 1e-300)) / (count - half)
        remaining = math.log(max(history[-1] / self._target, 1.0))
        return min(float(self._limit), remaining / fall) if fall > 0 else float(self._limit)


def _looked_at(count: int) -> bool:
    """Tell whether the policy decides after ``count`` products."""
    look = _FIRST
    while look < count:
        look += max(2, look // 2)
    return look == count
