"""The policy by which CG begins with a preconditioner, or switches to one later.

Before the first product, a small problem of the same kind shows how many products plain CG needs. Later,
the decay of the residual shows it. From that follows what a preconditioned run may cost (`Allowance`), and
the search for landmarks ends where their estimated cost is lowest, or where no landmarks are within it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.gram.cost import expected_products
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.solvers.base import System, by_diagonal, scaled_norm
from fastmcmd.solvers.block_cg import BlockCGRun
from fastmcmd.solvers.cg import exact_pass
from fastmcmd.solvers.costs import cg_cost, preconditioned_cost
from fastmcmd.solvers.decay import products_left
from fastmcmd.solvers.preconditioner import EARLY_RANK, RANKS, Landmarks, Look, Preconditioner
from fastmcmd.solvers.protocol import ProblemSize
from fastmcmd.solvers.row_features import StoredFeatures, StreamedFeatures

__all__ = ["Allowance", "Preconditioners", "SwitchPolicy", "landmarks_after", "preconditioners_of"]


_FIRST = 4  # products before the first decision; each later one comes after half as many more
_WORTH = 0.6  # largest cost of a preconditioned run, relative to the expected cost of plain CG
_LEAST_PRODUCTS = 3.0  # products of preconditioned CG: this number, and
_PER_ROOT = 0.4  # this many per decade of residual and root of the remaining eigenvalue (measured)
_FALL = 2.0  # assumed power of the rank with which that eigenvalue falls, until it is measured
# With a preconditioner from the start, each product divides the residual by this over the remaining
# eigenvalue, and the first by 10^0.2 more. With a margin of 0.05 products, that predicted 126 of 144 runs
# exactly (2 to 512 columns, eigenvalues 2e-5 to 1, lam = 0.01 and 0.1, tol = 1e-4 and 1e-6), and the others
# to one product.
_PER_PRODUCT, _FIRST_GAIN, _MARGIN = 8.0, 0.2, 0.05
_ROUNDED = 2.0  # factor by which float32 features may increase the remaining eigenvalue
_CLEARLY = 1e-3  # share of k(x, x) left by landmarks from which float32 adds at most 1e-4 of it
_USUAL = (128, 2.0)  # landmarks and products of a run that began with a preconditioner
_WORTH_FROM_START = 0.85  # as `_WORTH`: both costs are known better before the first product
# Share of a run that a preconditioner may save, below which its landmarks are not looked for: a look takes
# 3 to 5 % of such a run, and often ends in "no".
_LEAST_GAIN = 0.125
# Rows of the small problem on which plain CG is tried, at least and for each right-hand side: block CG
# must not exhaust its dimensions. It is tried if all rows are so many times more.
_PART, _PART_PER_COLUMN, _MANY = 512, 16, 6
# From this share of its rows that are directions of CG, the small problem says nothing.
_EXHAUSTED = 0.75
# A device does so from this many operations of a product on. An H200 takes half a second for them, and the
# host 2 s for the landmarks of a million rows.
_LEAST_ON_DEVICE = 5e13


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

    @property
    def largest(self) -> float:
        """Estimate of the largest eigenvalue of the scaled matrices."""
        return max(one.largest for one in self.apply)


@dataclass(frozen=True)
class Allowance:
    """What a preconditioned run may cost, and what it has to do.

    Attributes
    ----------
    most : float
        Largest cost.
    decades : float
        Powers of ten by which the residual has to fall.
    from_start : bool
        Whether the run begins with the preconditioner.
    """

    most: float
    decades: float
    from_start: bool = False


def landmarks_after(
    operator: GramOperator, systems: list[System], step: int, budget: int
) -> Landmarks:
    """Return the landmarks after ``step`` steps; equal calls give equal landmarks."""
    operator.begin_search()
    landmarks = Landmarks(operator, _least_shift(systems), budget)
    for rank in RANKS[:step]:
        landmarks.grow(rank)
    landmarks.step = step
    return landmarks


def preconditioners_of(
    operator: GramOperator,
    systems: list[System],
    size: ProblemSize,
    landmarks: Landmarks | None,
    budget: int,
) -> Preconditioners | None:
    """Return the preconditioners of all systems; ``budget`` is that of the search.

    Returns None without landmarks, and for a kernel that is not positive semi-definite.
    """
    if landmarks is None:
        return None
    kind = StoredFeatures if _stores(size, landmarks) else StreamedFeatures
    features, least = kind(operator, landmarks.kernel_features()), _least_shift(systems)
    applied: dict[int, Preconditioner] = {}
    for numbers in by_diagonal(systems):
        shift = systems[numbers[0]].shift
        mu = 1.0 + landmarks.damping * float(np.median(least / shift))
        try:
            preconditioner = Preconditioner(features, shift, mu)
        except np.linalg.LinAlgError:
            return None
        applied |= dict.fromkeys(numbers, preconditioner)
    return Preconditioners(
        [applied[number] for number in range(len(systems))], landmarks.step, budget
    )


def _stores(size: ProblemSize, landmarks: Landmarks) -> bool:
    """Tell whether a preconditioner stores its features: they fit, and float32 leaves little more of K."""
    if not size.fits_features(landmarks.rank):
        return False
    if landmarks.unexplained > _CLEARLY:
        return True
    exact = landmarks.residual_eigenvalue()
    return landmarks.residual_eigenvalue(FLOAT32) <= _ROUNDED * exact


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
    landmarks : Landmarks, optional
        Landmarks of an earlier policy for the same systems, which are not searched again.
    """

    def __init__(
        self, operator: GramOperator, systems: list[System], size: ProblemSize, target: float,
        limit: int, budget: int, certificate: str = "auto", landmarks: Landmarks | None = None,
    ) -> None:  # fmt: skip
        self._certificate = certificate
        self._operator, self._systems, self._size = operator, systems, size
        self._target, self._limit, self._budget = target, limit, budget
        self._plain = cg_cost(size)
        self._product = self._plain.per_product
        self._landmarks, self._first_step = landmarks, 0

    @property
    def step(self) -> int:
        """Steps of landmarks examined so far: where the next search begins."""
        return self._first_step

    def resume(self, step: int) -> None:
        """Begin with the landmarks that an interrupted run had reached."""
        self._first_step, self._landmarks = step, None

    def part_rows(self) -> int:
        """Return on how many rows to try plain CG (`on_part`); 0 to begin without."""
        operator = self._operator
        rows = max(_PART, _PART_PER_COLUMN * self._size.total_columns)
        if operator.size < _MANY * rows:
            return 0
        if operator.backend.on_device and self._product < _LEAST_ON_DEVICE:
            return 0
        # Below that even the search for landmarks does not pay.
        usual = self._total(*_USUAL)
        return 0 if _WORTH_FROM_START * self._plain.total <= usual else rows

    def on_part(self, count: int) -> BlockCGRun:
        """Return plain CG on ``count`` random rows, to be run to its end.

        Plain CG is expected to need as many products as on a random part of the rows with the same
        regulariser, whose spectrum is much the same.
        """
        operator = self._operator
        rows, index = operator.own_rows(count, generator(operator.size, Purpose.PROBE))
        small = GramOperator(
            operator.backend, operator.kernel, rows, operator.dtype, operator.budget
        )
        share = len(index) / len(operator)
        systems = [
            System(np.ascontiguousarray(system.rhs[index]), share * system.shift[index])
            for system in self._systems
        ]
        unit = float(np.finfo(operator.dtype).eps) / 2
        return BlockCGRun(small, systems, self._target, self._limit, unit=unit)

    def at_start(self, products: int, rows: int) -> Allowance | None:
        """Return what preconditioners to begin with may cost, or None to begin without.

        ``products`` is the number on a part of ``rows`` rows. Block CG solves it with few products once its
        directions are as many as the rows; that says nothing about all rows, so the usual number counts.
        """
        exhausted = products * max(self._size.columns) >= _EXHAUSTED * rows
        if exhausted and not self._operator.backend.on_device:
            expected = expected_products(self._size.condition, self._size.error)
            products = max(products, math.ceil(expected))
        plain, usual = products * self._product + self._certified(products), self._total(*_USUAL)
        most, gain = _WORTH_FROM_START * plain, plain - usual
        if most <= usual or gain < _LEAST_GAIN * (self._plain.setup + plain):
            return None
        return self.from_start(most)

    def from_start(self, most: float) -> Allowance | None:
        """Return the allowance of a run that begins with preconditioners and costs at most ``most``.

        None if right-hand sides are too large for their norms.
        """
        norm = max(scaled_norm(system.rhs, system.shift) for system in self._systems)
        if not math.isfinite(norm):
            return None
        decades = math.log10(max(norm / self._target, 10.0))
        return Allowance(most, decades, from_start=True)

    def decide(self, history: list[float]) -> Allowance | None:
        """Return what preconditioners may cost after the residual norms ``history``, or None to stay."""
        if not _looked_at(len(history)) or not math.isfinite(history[-1]):
            return None
        plain = products_left(history, self._target, self._limit) * self._product
        if plain * _WORTH <= self._total(RANKS[0], _LEAST_PRODUCTS):
            return None
        decades = math.log10(max(history[-1] / self._target, 10.0))
        return Allowance(min(_WORTH * plain, (self._limit - len(history)) * self._product), decades)

    def cheapest(self, allowance: Allowance | None) -> Landmarks | None:
        """Return the landmarks with which a run costs least, or None if that is more than ``allowance``."""
        if allowance is None:
            return None
        self._operator.begin_search()
        if self._landmarks is None:
            shift = _least_shift(self._systems)
            self._landmarks = Landmarks(self._operator, shift, self._budget)
        landmarks, before = self._landmarks, None
        step, least = max(1, self._first_step), (math.inf, 0)
        while True:
            while landmarks.step < step:
                landmarks.grow(RANKS[landmarks.step])
                landmarks.step += 1
            look = landmarks.looks.get(step)
            if look is None:
                stores = _stores(self._size, landmarks)
                eigenvalue = landmarks.residual_eigenvalue(FLOAT32 if stores else EXACT)
                rank, exhausted = landmarks.rank, landmarks.exhausted
                look = Look(rank, max(eigenvalue, 1e-300), stores, exhausted)
                landmarks.looks[landmarks.step] = look
            now, stores = (look.rank, look.eigenvalue), look.stores
            total = self._expected(*now, allowance, stores=stores)
            least = min(least, (total, step))
            if look.exhausted:
                break
            if before is None and step == 1 and look.rank > EARLY_RANK:
                early = landmarks.early_eigenvalue(FLOAT32 if stores else EXACT)
                before = EARLY_RANK, max(early, now[1])
            ahead, best = self._ahead(before, now, allowance, stores=stores)
            if (ahead > allowance.most and total > allowance.most) or ahead > total:
                break
            # A look takes longer than the landmarks themselves: of two steps on the way, one is enough.
            before, step = now, min(step + 2, max(best, step + 1))
        self._first_step = landmarks.step
        if self._operator.needs_search_bytes:  # a later search begins again
            self._landmarks = None
        if total > allowance.most >= least[0]:  # more landmarks did not bring what was expected
            landmarks = landmarks_after(self._operator, self._systems, least[1], self._budget)
            total = least[0]
        return None if total > allowance.most or landmarks.rank == 0 else landmarks

    def _certified(self, products: int) -> float:
        """Return the cost of the certificate after a run of this many products."""
        columns = self._size.total_columns
        return exact_pass(self._operator, columns, self._certificate, products)

    def _total(self, rank: int, products: float, *, stores: bool = True) -> float:
        """Return the cost of a run; ``stores`` says whether features are stored where they fit.

        Before a look at landmarks that is assumed, also after an earlier look: a run that is interrupted
        between the two looks decides as if it were not.
        """
        holds = stores and self._size.fits_features(rank)
        return preconditioned_cost(self._size, rank, products, holds_features=holds).total

    def _expected(
        self, rank: int, eigenvalue: float, allowance: Allowance, *, stores: bool
    ) -> float:
        """Return the cost of a run with ``rank`` landmarks that leave ``eigenvalue``."""
        decades = allowance.decades
        products = _LEAST_PRODUCTS + _PER_ROOT * decades * math.sqrt(eigenvalue)
        if not allowance.from_start:
            return self._total(rank, products, stores=stores)
        if eigenvalue < 1.0:
            count = (decades - _FIRST_GAIN) / math.log10(_PER_PRODUCT / eigenvalue)
            products = max(1, math.ceil(count + _MARGIN))
        total = self._total(rank, products, stores=stores)
        return total + self._certified(math.ceil(products))

    def _ahead(
        self, before: tuple[int, float] | None, now: tuple[int, float], allowance: Allowance,
        *, stores: bool,
    ) -> tuple[float, int]:  # fmt: skip
        """Return the least cost that more landmarks may lead to, and the number of steps to it.

        The eigenvalue is assumed to keep falling.
        """
        assert self._landmarks is not None
        slope, most = -_FALL, self._landmarks.largest
        if before is not None and now[0] > before[0]:
            fall = math.log(now[1] / before[1]) / math.log(now[0] / before[0])
            # The first eigenvalues of many kernels fall more slowly than those after them.
            is_early = before[0] == EARLY_RANK and fall > slope
            slope = min(0.0, (fall + slope) / 2 if is_early else fall)
        return min(
            (
                (
                    self._expected(
                        rank, now[1] * (rank / now[0]) ** slope, allowance, stores=stores
                    ),
                    number,
                )
                for number, rank in enumerate(RANKS, 1)
                if now[0] < rank <= most
            ),
            default=(math.inf, 0),
        )


def _looked_at(count: int) -> bool:
    """Tell whether the policy decides after ``count`` products."""
    look = _FIRST
    while look < count:
        look += max(2, look // 2)
    return look == count
