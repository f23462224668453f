"""The choice of solver, and the fallback to another solver when the first misses the tolerance."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fastmcmd._base.annotations import DType
from fastmcmd._base.progress import Progress
from fastmcmd.checkpoint import Checkpoint
from fastmcmd.errors import NumericalError
from fastmcmd.gram import GramOperator
from fastmcmd.options import Options
from fastmcmd.solvers.cg import MOST_PRODUCTS
from fastmcmd.solvers.cholesky import Cholesky
from fastmcmd.solvers.preconditioned_cg import PreconditionedCG, search_budget
from fastmcmd.solvers.preconditioner import RANKS, Landmarks
from fastmcmd.solvers.protocol import Cost, LinearProblem, ProblemSize, Solved, Solver
from fastmcmd.solvers.switch_policy import SwitchPolicy

__all__ = ["Auto", "solver_of"]

_WORTH = 0.9  # largest expected cost of preconditioned CG, relative to that of a factorisation
_LOOKS = 4.5  # the same share of a factorisation must pay for so many looks at landmarks


@dataclass(frozen=True)
class Auto:
    """Cholesky if its estimated cost is lower, else CG; Cholesky as a fallback if CG does not converge.

    CG with a preconditioner may cost less than plain CG: that shows at a look at some landmarks, which is
    taken if a factorisation costs much more than the look. The products of CG may cost as much as the
    factorisation. The fallback needs a factor that fits in memory, or a ``cache_dir``.

    Attributes
    ----------
    certificate, dtype
        As in `PreconditionedCG`.
    cache_dir : str or os.PathLike or None
        Folder for a factor that does not fit in memory.
    """

    certificate: str = "auto"
    dtype: DType | None = None
    cache_dir: str | os.PathLike[str] | None = None
    name: ClassVar[str] = "auto"

    @property
    def _members(self) -> tuple[PreconditionedCG, Cholesky]:
        return PreconditionedCG(self.certificate, self.dtype), Cholesky(self.dtype, self.cache_dir)

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the cost of the solver that is expected to be the cheapest."""
        return min((member.estimate(size) for member in self._members), key=lambda cost: cost.total)

    def solve(
        self, problem: LinearProblem, progress: Progress, state: Checkpoint | None = None
    ) -> Solved:
        """Return certified solutions; if no solver reaches the goal, the most accurate ones."""
        cg, cholesky = self._members
        goal, operator = problem.goal, cg.operator(problem)
        size = problem.size(operator)
        factor: Cost | None = None
        landmarks: Landmarks | None = None
        if cholesky.fits(operator, problem.budget):
            factor = cholesky.estimate(size)
            if factor.total <= cg.estimate(size).total:
                landmarks = self._landmarks(problem, operator, size, factor.total)
                if landmarks is None:
                    return cholesky.solve(problem, progress, state)
        solved = cg.solve(problem, progress, state, factor, operator, landmarks)
        landmarks = None  # frees them
        if solved.stopped or solved.worst(goal) <= goal.error or solved.out_of_reach(goal):
            return solved
        if not cholesky.serves(operator, problem.budget):
            return solved
        solved.notes.append(
            f"cg was certified to {solved.worst(goal):.1e}, {goal.error:.1e} is needed: switched "
            "to cholesky"
        )
        try:
            direct = cholesky.solve(problem, progress, state, solved.passes)
        except NumericalError:
            if not np.isfinite(solved.worst(goal)):
                raise
            solved.notes.append("cholesky failed: kept the result of cg")
            return solved
        if direct.worst(goal) < solved.worst(goal):
            return replace(direct, notes=solved.notes)
        return solved

    def _landmarks(
        self, problem: LinearProblem, operator: GramOperator, size: ProblemSize, most: float
    ) -> Landmarks | None:
        """Return landmarks with which CG costs clearly less than ``most``, or None if there are none.

        Only a look at some landmarks shows it: for a small regulariser, plain CG is expected to need dozens
        of products, however fast the eigenvalues fall.
        """
        if _WORTH * most < _LOOKS * PreconditionedCG().estimate(size, RANKS[0]).setup:
            return None
        policy = SwitchPolicy(
            operator, problem.systems, size, problem.goal.residual, MOST_PRODUCTS, search_budget(problem),
            self.certificate,
        )  # fmt: skip
        return policy.cheapest(policy.from_start(_WORTH * most))


def solver_of(options: Options) -> Solver:
    """Return the solver of a linear problem that the options select."""
    match options.solver:
        case "cg":
            return PreconditionedCG(options.certificate, options.dtype)
        case "cholesky":
            return Cholesky(options.dtype, options.cache_dir)
        case _:
            return Auto(options.certificate, options.dtype, options.cache_dir)
