"""The direct solver: Cholesky of packed tiles in memory, or of panels on disk, with refinement."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import NotPositiveDefiniteError, PackedGram
from fastmcmd.checkpoint import Stages
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.memory import format_bytes
from fastmcmd.progress import Progress
from fastmcmd.solvers import audit
from fastmcmd.solvers.base import Goal, Solution, System
from fastmcmd.solvers.panels import PanelCholesky, least_room

__all__ = ["DirectSolver", "cholesky_bytes", "least_bytes"]

_REFINEMENTS = 4

Factor = PackedGram | PanelCholesky


def cholesky_bytes(operator: GramOperator, factors: int = 1) -> int:
    """Return the bytes that the factors and the prepared rows take, in the precision wanted."""
    rows = operator.row_bytes(EXACT) + operator.row_bytes(operator.dtype)
    return factors * operator.packed_bytes + rows


def least_bytes(
    operator: GramOperator, cache_dir: str | os.PathLike[str] | None
) -> tuple[int, str]:
    """Return the least bytes that `DirectSolver` needs, and for what, for a message."""
    need = cholesky_bytes(operator)
    if cache_dir is None:
        part, ways = "", "raise memory_limit, name a folder on disk for the factor with cache_dir"
    else:
        need = min(need, least_room(operator))
        part, ways = "panels of ", "raise memory_limit"
    return need, (
        f"for solver='cholesky', {format_bytes(need)} of them for {part}the factor of "
        f"{len(operator):,} distinct inputs; {ways}, or use solver='cg'"
    )


class DirectSolver:
    """Solves systems over one operator; factors are kept for later right-hand sides.

    Parameters
    ----------
    operator : GramOperator
        K; a copy of it is factored for each different diagonal.
    cache_dir : str or os.PathLike, optional
        Folder for factors that do not fit in memory.
    stages : Stages, optional
        Where factors in ``cache_dir`` keep how far they are.
    """

    def __init__(
        self,
        operator: GramOperator,
        cache_dir: str | os.PathLike[str] | None = None,
        stages: Stages | None = None,
    ) -> None:
        self.operator = operator
        self.cache_dir = cache_dir
        self._stages = stages
        self._made = 0
        self._factors: list[tuple[NDArray[np.float64], Factor]] = []

    def close(self) -> None:
        """Give back the factors, those on disk included; a later solve makes them again."""
        factors, self._factors = self._factors, []
        for _, factor in factors:
            _close(factor)

    def _leave(self) -> None:
        """Give back the factors; those on disk stay where a later run can go on with them."""
        factors, self._factors = self._factors, []
        for _, factor in factors:
            if isinstance(factor, PanelCholesky):
                factor.leave()

    def _factor(self, shift: NDArray[np.float64], progress: Progress) -> Factor:
        for known, factor in self._factors:
            if np.array_equal(known, shift):
                return factor
        operator = self.operator
        need = cholesky_bytes(operator, len(self._factors) + 1)
        make: Callable[[NDArray[np.float64], Progress], Factor] = self._packed
        if need > operator.room:
            if self.cache_dir is None:
                raise MemoryLimitError(
                    f"solver='cholesky' needs {format_bytes(need)} for the factor of "
                    f"{len(operator):,} distinct inputs, and memory_limit leaves "
                    f"{format_bytes(operator.room)}; raise memory_limit, name a folder on disk for "
                    "the factor with cache_dir, or use solver='cg'"
                )
            make = self._panels
        operator.release()
        try:
            factor = make(shift, progress)
        except NotPositiveDefiniteError as error:
            raise ValueError(
                f"K + n lam I is not positive definite in {operator.dtype} ({error}): lam (smallest "
                f"n lam: {shift.min():.1e}) is below the rounding of the kernel matrix, or "
                "x_kernel is not positive semi-definite. Use a larger lam"
                + ("" if operator.dtype == EXACT else " or dtype='float64'")
            ) from None
        self._factors.append((shift, factor))
        return factor

    def _packed(self, shift: NDArray[np.float64], progress: Progress) -> PackedGram:
        operator = self.operator
        progress.stage("Cholesky factorisation")
        packed = operator.pack(operator.dtype)
        operator.backend.packed_add_diagonal(packed, shift)
        operator.backend.packed_cholesky(packed)
        return packed

    def _panels(self, shift: NDArray[np.float64], progress: Progress) -> PanelCholesky:
        operator = self.operator
        assert self.cache_dir is not None
        taken = sum(f.nbytes for _, f in self._factors if isinstance(f, PackedGram))
        room = operator.room - taken
        keep = None if self._stages is None else self._stages(f"factor {self._made}")
        self._made += 1
        factor = PanelCholesky(operator, shift, self.cache_dir, room, progress, keep)
        operator.has_filed = True
        return factor

    def solve(
        self, systems: list[System], goal: Goal, progress: Progress, *, keep: bool = False
    ) -> list[Solution]:
        """Solve all systems, refined until the certified error is within ``goal``, or no better.

        Without ``keep``, and after any error, no factor is left, in memory or on disk; after an interrupt
        one that a checkpoint knows.

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
            The factor does not fit, and there is no ``cache_dir``.
        ValueError
            The matrix is not numerically positive definite.
        OSError
            ``cache_dir`` is full, or cannot be written or read.
        """
        solutions = []
        try:
            for system in systems:
                factor = self._factor(system.shift, progress)
                solutions.append(self._refined(system, factor, goal, progress))
                del factor  # freed before the next is made
                if not keep:
                    self.close()
        except KeyboardInterrupt:
            self._leave()
            raise
        except BaseException:
            self.close()
            raise
        return solutions

    def _solve(self, factor: Factor, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        if isinstance(factor, PanelCholesky):
            return factor.solve(rhs)
        return self.operator.backend.packed_solve(factor, rhs)

    def _refined(self, system: System, factor: Factor, goal: Goal, progress: Progress) -> Solution:
        operator = self.operator
        value = self._solve(factor, system.rhs)
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
            value = value + self._solve(factor, residual)
        assert best is not None
        return best


def _close(factor: Factor) -> None:
    if isinstance(factor, PanelCholesky):
        factor.close()
