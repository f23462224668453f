"""The protocol of solvers: a solver estimates the cost of a problem, and solves it with a certificate.

A `LinearProblem` holds the systems, their inputs, and the required accuracy. A `Solver` is a small frozen
object that holds its own options and nothing else. A `Solved` holds solutions, their certificates, the
operator that made them, and notes on the run.

Every choice between two solvers compares the `Cost` that they estimate for the same `ProblemSize`: CG
against Cholesky, also in the dense form, plain against preconditioned CG, the most landmarks of the
low-rank form, and `fastmcmd.plan`. An estimate depends on sizes and numbers of the problem, never on a
clock: equal calls take equal steps. Decisions within a run (`switch_policy`,
`fastmcmd.estimate.lowrank_pass`) use the same formulas, those of `costs`. Whether output features pay at
all is a choice between forms, not solvers: see `fastmcmd.estimate.outputs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from fastmcmd._base.annotations import DType, HostArray
from fastmcmd._base.progress import Progress
from fastmcmd.backends.base import Backend
from fastmcmd.checkpoint import Checkpoint
from fastmcmd.gram import GramOperator
from fastmcmd.gram.cost import FEWEST_PRODUCTS, KernelMatrix, expected_products
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.kernels import Kernel
from fastmcmd.rows import Rows
from fastmcmd.solvers.base import Goal, Solution, System, by_diagonal, scaled_norm

__all__ = ["AnySolver", "Cost", "LinearProblem", "ProblemSize", "Solved", "Solver"]

# Share of the permitted error that quantized tiles may add by the estimate, of which 2 to 26 % were
# measured (30 problems: d = 16 to 512, lam = 0.01 and 0.1, smooth outcomes and noise).
_QUANTIZED_SHARE = 0.8
_LATER = 0.3  # share of |B| that is found after the first step
_ROW_SPREAD = 8.0  # certified error of a row, in typical errors
_MOST_CONDITION = 1e4  # the smallest eigenvalues of a preconditioner are then right to 0.1 %


@dataclass(frozen=True)
class ProblemSize:
    """The sizes that the cost of a solver depends on.

    Attributes
    ----------
    matrix : KernelMatrix
        The kernel matrix, or a stand-in with the same sizes, which gives the costs of its products.
    columns : tuple of int
        Number of right-hand sides of each system.
    diagonals : int
        Number of different matrices among the systems.
    condition : float
        ``k(x, x) / lam``.
    error : float
        Largest error that the certificate may leave in the answer.
    spare : int
        Bytes of the budget for features of a preconditioner (`GramOperator.spare_bytes`).
    """

    matrix: KernelMatrix
    columns: tuple[int, ...]
    diagonals: int
    condition: float
    error: float
    spare: int = 0

    @property
    def total_columns(self) -> int:
        """Number of right-hand sides of all systems together."""
        return sum(self.columns)

    def feature_bytes(self, landmarks: int) -> int:
        """Return the bytes of features of all rows in float32."""
        return FLOAT32.itemsize * self.matrix.size * landmarks

    def fits_features(self, landmarks: int) -> bool:
        """Tell whether a preconditioner can store features of all rows in float32.

        The rounding of ``M^-1`` is relative to its largest eigenvalue, and the smallest is as much
        less as K has condition.
        """
        fit = self.feature_bytes(landmarks) <= self.spare
        return fit and self.condition <= _MOST_CONDITION


@dataclass(frozen=True)
class Cost:
    """Expected cost of a solver, in float32 operations.

    Attributes
    ----------
    setup : float
        Work that is done once: a factorisation, a preconditioner, the first product.
    per_product : float
        Work of each product of an iteration and of the steps between two products.
    products : float
        Expected number of products.
    """

    setup: float
    per_product: float = 0.0
    products: float = 0.0

    @property
    def total(self) -> float:
        """Operations of the whole solve."""
        return self.setup + self.products * self.per_product


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """Systems over the same distinct inputs, and the accuracy that their solutions must reach.

    Attributes
    ----------
    backend, kernel, x
        Parts that define the kernel matrix K.
    systems : list of System
        Right-hand sides and diagonals.
    lam : float
        Smallest regulariser, for the choice of solver.
    goal : Goal
        Error that the certificate of each system may leave.
    budget : int
        Bytes that prepared rows, cached tiles or a factor may take.
    name : str
        Name of the problem in a checkpoint.
    stop : callable, optional
        Called after each product of CG; True ends the run without solutions (`Solved.stopped`).
    """

    backend: Backend
    kernel: Kernel
    x: HostArray | Rows
    systems: list[System]
    lam: float
    goal: Goal
    budget: int
    name: str = "both"
    stop: Callable[[], bool] | None = None

    def operator(self, dtype: DType, search_bytes: int = 0) -> GramOperator:
        """Return K in tiles of ``dtype``; searches for landmarks take ``search_bytes`` of the budget."""
        operator = GramOperator(
            self.backend, self.kernel, self.x, dtype, self.budget - search_bytes, self.products,
            search_bytes,
        )  # fmt: skip
        self._permit_quantized(operator)
        return operator

    def _permit_quantized(self, operator: GramOperator) -> None:
        """Let products read quantized tiles where that adds little to the certified error.

        Entries that err at random by e, all alike, leave ``sqrt(n) e |B|`` in a residual, and about
        ``e |B|`` in each of its rows, of which a certificate takes a multiple of the largest. The first
        product is exact: |B| counts without its first step.
        """
        if not operator.quantizable:
            return
        scale, error = self.goal.scale, 0.0
        for system in self.systems:
            shift = float(system.shift.min())
            size = _LATER * scaled_norm(system.rhs, system.shift) / math.sqrt(shift)
            size *= operator.rounding_share
            rows = math.sqrt(len(operator) / shift)
            error = max(error, size * (scale / 2 * rows + _ROW_SPREAD))
        if math.isfinite(error):
            operator.quantize_within(_QUANTIZED_SHARE * self.goal.error / max(error, 1e-300))

    @property
    def products(self) -> float:
        """Number of products that CG is expected to need; on a device the fewest."""
        if self.backend.on_device:
            return FEWEST_PRODUCTS
        diagonal = float(self.kernel.diagonal(self.x[:1])[0])
        return expected_products(diagonal / self.lam, self.goal.error)

    def size(self, operator: GramOperator) -> ProblemSize:
        """Return the sizes that costs depend on, with the products of ``operator``."""
        return ProblemSize(
            matrix=operator,
            columns=tuple(system.rhs.shape[1] for system in self.systems),
            diagonals=len(by_diagonal(self.systems)),
            condition=float(operator.diagonal.mean()) / self.lam,
            error=self.goal.error,
            spare=operator.spare_bytes,
        )


@dataclass(frozen=True, eq=False)
class Solved:
    """Solutions with their certificates, the operator that made them, and notes on the run.

    Attributes
    ----------
    solutions : list of Solution
        One for each system; empty if the run was ``stopped``.
    operator : GramOperator
        K, with its number of passes.
    solver : str
        Name of the solver that made the solutions, such as "cg"; not "auto".
    iterations : int
        Number of products of CG.
    notes : list of str
        Departures from the first choice of method.
    preconditioned : int
        Number of landmarks of the preconditioner; 0 without one.
    passes : int
        Number of products with K, including those of attempts in another precision.
    stopped : bool
        Whether `LinearProblem.stop` ended the run.
    rounding_alone : bool
        Whether the run ended because rounding in float64 alone exceeds the goal.
    """

    solutions: list[Solution]
    operator: GramOperator
    solver: str
    iterations: int
    notes: list[str] = field(default_factory=list)
    preconditioned: int = 0
    passes: int = 0
    stopped: bool = False
    rounding_alone: bool = False

    def worst(self, goal: Goal) -> float:
        """Return the largest certified error; infinity without solutions."""
        if not self.solutions:
            return float("inf")
        return max(goal.miss(s.certificate) for s in self.solutions) * goal.error

    def out_of_reach(self, goal: Goal) -> bool:
        """Tell whether a certificate's rounding alone exceeds the goal, so that no solver can reach it."""
        return any(goal.out_of_reach(s.certificate) for s in self.solutions)


Problem = TypeVar("Problem", contravariant=True)
State = TypeVar("State", contravariant=True)
Result = TypeVar("Result", covariant=True)


class AnySolver(Protocol[Problem, State, Result]):
    """A method for one kind of problem: a frozen object that holds its own options."""

    name: ClassVar[str]

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the expected cost."""

    def solve(self, problem: Problem, progress: Progress, state: State | None = None) -> Result:
        """Return certified solutions; save the run in ``state``, and resume it from there."""


# The solvers of a `LinearProblem`; `fastmcmd.estimate.lowrank_fit.LowRank` solves another kind of problem.
Solver: TypeAlias = AnySolver[LinearProblem, Checkpoint, Solved]
