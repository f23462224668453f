"""The direct solver: blocked Cholesky of the packed tiles, with iterative refinement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import NotPositiveDefiniteError, PackedGram
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.memory import format_bytes
from fastmcmd.progress import Progress
from fastmcmd.solvers import audit
from fastmcmd.solvers.base import Goal, Solution, System

__all__ = ["DirectSolver", "cholesky_bytes"]

_REFINEMENTS = 4


def cholesky_bytes(operator: GramOperator, factors: int = 1) -> int:
    """Return the bytes that the factors and the prepared rows take, in the precision wanted."""
    rows = operator.row_bytes(EXACT) + operator.row_bytes(operator.dtype)
    return factors * operator.packed_bytes + rows


class DirectSolver:
    """Solves systems over one operator; factors are kept for later right-hand sides.

    Parameters
    ----------
    operator : GramOperator
        K; a packed copy of it is factored for each different diagonal.
    """

    def __init__(self, operator: GramOperator) -> None:
        self.operator = operator
        self._factors: list[tuple[NDArray[np.float64], PackedGram]] = []

    def _factor(self, shift: NDArray[np.float64], progress: Progress, keep: bool) -> PackedGram:
        for known, packed in self._factors:
            if np.array_equal(known, shift):
                return packed
        operator = self.operator
        need = cholesky_bytes(operator, len(self._factors) + 1)
        if need > operator.room:
            raise MemoryLimitError(
                f"solver='cholesky' needs {format_bytes(need)} for the factor of {len(operator):,} "
                f"distinct inputs, and memory_limit leaves {format_bytes(operator.room)}; raise "
                "memory_limit or use solver='cg'"
            )
        progress.stage("Cholesky factorisation")
        operator.drop_cache()
        packed = operator.pack(operator.dtype)
        operator.backend.packed_add_diagonal(packed, shift)
        try:
            operator.backend.packed_cholesky(packed)
        except NotPositiveDefiniteError as error:
            raise ValueError(
                f"K + n lam I is not positive definite in {operator.dtype} ({error}): lam (smallest "
                f"n lam: {shift.min():.1e}) is below the rounding of the kernel matrix, or "
                "x_kernel is not positive semi-definite. Use a larger lam"
                + ("" if operator.dtype == EXACT else " or dtype='float64'")
            ) from None
        if keep:
            self._factors.append((shift, packed))
        return packed

    def solve(
        self, systems: list[System], goal: Goal, progress: Progress, *, keep: bool = False
    ) -> list[Solution]:
        """Solve all systems, refined until the certified error is within ``goal``, or no better.

        Parameters
        ----------
        systems : list of System
            One factorisation for each different diagonal.
        goal : Goal
            Error that the certificate may leave.
        progress : Progress
            Told of each product.
        keep : bool
            Whether factors stay for later calls.

        Raises
        ------
        MemoryLimitError
            The factor does not fit.
        ValueError
            The matrix is not numerically positive definite.
        """
        return [
            self._refined(system, self._factor(system.shift, progress, keep), goal, progress)
            for system in systems
        ]

    def _refined(
        self, system: System, packed: PackedGram, goal: Goal, progress: Progress
    ) -> Solution:
        operator = self.operator
        value = operator.backend.packed_solve(packed, system.rhs)
        best: Solution | None = None
        for _ in range(_REFINEMENTS):
            (solution,), (residual,) = audit.exact(operator, [system], [value])
            miss = goal.miss(solution.certificate)
            progress.product(miss * progress.target)
            if best is not None and miss >= goal.miss(best.certificate):
                break
            gain = np.inf if best is None else goal.miss(best.certificate) / miss
            best = solution
            if miss <= 1.0 or gain < 2:
                break
            value = value + operator.backend.packed_solve(packed, residual)
        assert best is not None
        return best
