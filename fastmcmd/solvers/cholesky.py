"""The direct solver: Cholesky of packed tiles in memory, or out of core, with refinement.

With a checkpoint, a long factorisation writes the factor as it goes, so that a killed run can resume it.
Finished solutions are saved, too: a run that resumes at the second diagonal does not repeat the first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import DType
from fastmcmd._base.memory import format_bytes
from fastmcmd._base.progress import Progress
from fastmcmd.backends.base import NotPositiveDefiniteError, PackedGram
from fastmcmd.checkpoint import Checkpoint, Stage, Stages, fingerprint_of, stages_of
from fastmcmd.errors import MemoryLimitError, NumericalError
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.solvers import certify
from fastmcmd.solvers.base import Goal, Solution, System, by_diagonal
from fastmcmd.solvers.block_layout import least_memory, whole_factor_fits
from fastmcmd.solvers.costs import cholesky_cost, factor_work
from fastmcmd.solvers.factor_file import FactorStage, LeavingAtInterrupt
from fastmcmd.solvers.out_of_core import OutOfCoreCholesky
from fastmcmd.solvers.protocol import Cost, LinearProblem, ProblemSize, Solved

__all__ = [
    "Cholesky", "DirectSolver", "cholesky_bytes", "factor_fits", "least_bytes", "too_large_for_float32",
]  # fmt: skip

_REFINEMENTS = 4
# Float32 operations from which a checkpoint gives the factor a file: half a minute on one core.
_LONG = 2e12
LARGE_VALUES = 1e3  # kernel values from which messages blame the scale of x for the rounding

Factor = PackedGram | OutOfCoreCholesky


@dataclass(frozen=True, eq=False)
class SolutionState:
    """A finished solution, with the operator's number of passes and its flags."""

    solution: Solution
    passes: int
    has_cached: bool
    has_filed: bool


@dataclass(frozen=True)
class Cholesky:
    """A factorisation with refinement: in memory, or in block columns in a file.

    Attributes
    ----------
    dtype : numpy.dtype or None
        Precision of the factor; None is float64.
    cache_dir : str or os.PathLike or None
        Folder for a factor that does not fit in memory.
    """

    dtype: DType | None = None
    cache_dir: str | os.PathLike[str] | None = None
    name: ClassVar[str] = "cholesky"

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the expected cost."""
        return cholesky_cost(size)

    def fits(self, operator: GramOperator, budget: int) -> bool:
        """Tell whether a factor of ``operator``, in this solver's precision, fits in memory."""
        return factor_fits(operator, budget, dtype=self.dtype or EXACT)

    def serves(self, operator: GramOperator, budget: int) -> bool:
        """Tell whether a factor of ``operator`` fits in memory, or in block columns in ``cache_dir``."""
        if self.fits(operator, budget):
            return True
        least = least_memory(operator, self.dtype or EXACT)
        return self.cache_dir is not None and least <= budget

    def solve(
        self,
        problem: LinearProblem,
        progress: Progress,
        state: Checkpoint | None = None,
        passes: int = 0,
    ) -> Solved:
        """Return certified solutions; ``passes`` counts the passes over K that another solver made before.

        Raises
        ------
        MemoryLimitError, NumericalError, OSError
            As for `DirectSolver.solve`.
        """
        operator = problem.operator(self.dtype or EXACT)
        operator.passes = passes
        stages = stages_of(state, f"{problem.name} cholesky")
        direct = DirectSolver(operator, self.cache_dir, stages)
        systems = problem.systems
        has_one_factor = len(systems) > 1 and len(by_diagonal(systems)) == 1
        solutions = direct.solve(systems, problem.goal, progress, keep=has_one_factor)
        direct.close()
        return Solved(solutions, operator, self.name, 0, passes=operator.passes)


def cholesky_bytes(operator: GramOperator, factors: int = 1) -> int:
    """Return the bytes of the factors and of the prepared rows, in the operator's precision."""
    return factors * operator.packed_bytes + _row_bytes(operator)


def factor_fits(
    operator: GramOperator, budget: int, factors: int = 1, dtype: DType | None = None
) -> bool:
    """Tell whether the factors and the prepared rows fit in ``budget``, or in the memory of the devices.

    ``dtype`` is the precision of the factors; default: the operator's.
    """
    dtype = dtype or operator.dtype
    packed = operator.packed_bytes // operator.dtype.itemsize * dtype.itemsize
    rows = operator.row_bytes(EXACT) + operator.row_bytes(dtype)
    return operator.backend.keeps(factors * packed, rows, budget)


def _row_bytes(operator: GramOperator) -> int:
    return operator.row_bytes(EXACT) + operator.row_bytes(operator.dtype)


def _takes_long(operator: GramOperator) -> bool:
    """Tell whether the factorisation is worth a file; it decides from sizes alone, so each run agrees."""
    if operator.backend.on_device:  # faster than BLAS on the host
        return False
    work = factor_work(len(operator)) * operator.dtype.itemsize / 4
    return work + operator.streamed_cost(0) >= _LONG


def least_bytes(
    operator: GramOperator, cache_dir: str | os.PathLike[str] | None
) -> tuple[int, str]:
    """Return the least bytes that `DirectSolver` needs, and a phrase for the message that states them."""
    need = cholesky_bytes(operator)
    if operator.backend.on_device and factor_fits(operator, 0):
        need = 0
    if cache_dir is None:
        part, ways = "", "raise memory_limit, name a folder on disk for the factor with cache_dir"
    else:
        need = min(need, least_memory(operator))
        part, ways = "block columns of ", "raise memory_limit"
    return need, (
        f"for solver='cholesky', {format_bytes(need)} of them for {part}the factor of "
        f"{len(operator):,} distinct inputs; {ways}, or use solver='cg'"
    )


class DirectSolver:
    """Solver of systems over one operator; it can keep factors for later right-hand sides.

    Parameters
    ----------
    operator : GramOperator
        K; each different diagonal gets a factor of its own.
    cache_dir : str or os.PathLike, optional
        Folder for factors that do not fit in memory.
    stages : Stages, optional
        Parts of a checkpoint: solutions, and the progress of factors that take long or go to ``cache_dir``.
        Their files are in ``cache_dir``, or else beside the checkpoint.
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
        self._factors: list[tuple[NDArray[np.float64], Factor]] = []

    def close(self) -> None:
        """Release all factors, and delete their files; a later solve computes them again."""
        factors, self._factors = self._factors, []
        for _, factor in factors:
            _close(factor)

    def leave(self) -> None:
        """Release all factors; files that a checkpoint lists stay for a later run."""
        factors, self._factors = self._factors, []
        for _, factor in factors:
            if not isinstance(factor, PackedGram):
                factor.leave()

    def _stage(self, part: str) -> Stage | None:
        return None if self._stages is None else self._stages(part)

    def _factor_stage(self, shift: NDArray[np.float64]) -> FactorStage | None:
        """Return where the factor with this diagonal is saved, or None without a checkpoint."""
        if self._stages is None:
            return None
        stage = self._stages(f"factor {fingerprint_of(shift)[:8]}")
        if self.cache_dir is not None:
            return FactorStage(Path(self.cache_dir), stage)
        path = stage.checkpoint.path
        return FactorStage(path.parent, stage, f"checkpoint is {str(path)!r}")

    def _factor(self, shift: NDArray[np.float64], progress: Progress) -> Factor:
        for factored_shift, existing in self._factors:
            if np.array_equal(factored_shift, shift):
                return existing
        operator = self.operator
        if operator.dtype != EXACT and not np.isfinite(operator.rounding(operator.dtype)):
            raise NumericalError(too_large_for_float32(operator))
        fits = factor_fits(operator, operator.budget, len(self._factors) + 1)
        stage = self._factor_stage(shift)
        if not fits and self.cache_dir is None:
            need = cholesky_bytes(operator, len(self._factors) + 1)
            limit, trouble = "memory_limit", f"leaves {format_bytes(operator.budget)}"
            if operator.backend.on_device:
                limit, trouble = "device_memory_limit", "is too small for that"
            raise MemoryLimitError(
                f"solver='cholesky' needs {format_bytes(need)} for the factor of "
                f"{len(operator):,} distinct inputs, and {limit} {trouble}; raise {limit}, name a "
                "folder on disk for the factor with cache_dir, or use solver='cg'"
            )
        operator.drop_tiles()  # prepared rows stay: the certificate needs them
        try:
            if fits and (stage is None or not _takes_long(operator)):
                factor: Factor = self._packed(shift, progress)
            else:
                factor = self._out_of_core(shift, progress, stage, fits)
        except NotPositiveDefiniteError as error:
            raise NumericalError(_not_definite(operator, shift, error)) from None
        self._factors.append((shift, factor))
        return factor

    def _packed(self, shift: NDArray[np.float64], progress: Progress) -> PackedGram:
        operator = self.operator
        progress.stage("Cholesky factorisation")
        packed = operator.pack(operator.dtype)
        operator.backend.packed_add_diagonal(packed, shift)
        operator.backend.packed_cholesky(packed)
        return packed

    def _out_of_core(
        self,
        shift: NDArray[np.float64],
        progress: Progress,
        stage: FactorStage | None,
        fits: bool,
    ) -> OutOfCoreCholesky:
        operator = self.operator
        budget = operator.budget - sum(factor.nbytes for _, factor in self._factors)
        beside = budget - _row_bytes(operator)  # without the rows that certificates need
        in_memory = fits and not operator.backend.on_device and whole_factor_fits(operator, beside)
        if in_memory:
            budget = beside
        factor = OutOfCoreCholesky(
            operator, shift, self.cache_dir, budget, progress, stage, in_memory=in_memory
        )
        operator.has_cached |= factor.in_memory
        operator.has_filed |= not factor.in_memory
        return factor

    def solve(
        self, systems: list[System], goal: Goal, progress: Progress, *, keep: bool = False
    ) -> list[Solution]:
        """Return the solutions of all systems, refined until they reach ``goal`` or stop improving.

        Without ``keep``, and after any error, no factor remains in memory or on disk. After an interrupt
        the files that a checkpoint lists remain.

        Parameters
        ----------
        systems : list of System
            The systems. Each different diagonal takes one factorisation.
        goal : Goal
            Error that the certificate may leave.
        progress : Progress
            Receives a report of each product.
        keep : bool
            Whether factors stay for later calls.

        Raises
        ------
        MemoryLimitError
            The factor does not fit, and there is no ``cache_dir``.
        ValueError
            The matrix is not numerically positive definite.
        OSError
            ``cache_dir``, or the folder of the checkpoint, is full, or cannot be written or read.
        """
        solutions = []
        with LeavingAtInterrupt(self):
            for index, system in enumerate(systems):
                stage = None if keep else self._stage(f"solution {index}")
                solution = None if stage is None else self._loaded(stage, system)
                if solution is None:
                    factor = self._factor(system.shift, progress)
                    solution = self._refined(system, factor, goal, progress)
                    if stage is not None:
                        long = not isinstance(factor, PackedGram)
                        stage.save(partial(self._state, solution), force=long)
                    del factor  # freed before the next one is computed
                solutions.append(solution)
                if not keep:
                    self.close()
        return solutions

    def _state(self, solution: Solution) -> SolutionState:
        operator = self.operator
        return SolutionState(solution, operator.passes, operator.has_cached, operator.has_filed)

    def _loaded(self, stage: Stage, system: System) -> Solution | None:
        """Return the solution that an earlier run saved."""
        saved_state = stage.load(SolutionState)
        if saved_state is None:
            return None
        arrays = saved_state.solution.value, saved_state.solution.image
        shape = system.rhs.shape
        stage.check(all(array.shape == shape and np.isfinite(array).all() for array in arrays))
        factor = self._factor_stage(system.shift)
        assert factor is not None
        factor.remove()  # the earlier run may have ended before it removed the file
        self.operator.passes = saved_state.passes
        self.operator.has_cached, self.operator.has_filed = (
            saved_state.has_cached,
            saved_state.has_filed,
        )
        return saved_state.solution

    def _solve(self, factor: Factor, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        if isinstance(factor, OutOfCoreCholesky):
            return factor.solve(rhs)
        return self.operator.backend.packed_solve(factor, rhs)

    def _refined(self, system: System, factor: Factor, goal: Goal, progress: Progress) -> Solution:
        operator = self.operator
        value = self._solve(factor, system.rhs)
        best: Solution | None = None
        for _ in range(_REFINEMENTS):
            (solution,), (residual,) = certify.exact(operator, [system], [value])
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


def _not_definite(
    operator: GramOperator, shift: NDArray[np.float64], error: NotPositiveDefiniteError
) -> str:
    """Return the message that ``K + D`` is not positive definite, due to rounding or to the kernel."""
    kernel, least, largest = operator.kernel, float(shift.min()), operator.largest()
    rounding = len(operator) * operator.rounding(
        operator.dtype
    )  # bound for the smallest eigenvalue
    rounding += (
        len(operator) ** 1.5 * float(np.finfo(operator.dtype).eps) * largest
    )  # of the factor
    message = (
        f"K + n lam I is not positive definite in {operator.dtype} ({error}, n lam is {least:.1e})"
    )
    if rounding < least:
        return f"{message}: x_kernel {kernel!r} is not positive semi-definite; a kernel is needed"
    better = "" if operator.dtype == EXACT else ", dtype='float64'"
    if largest > LARGE_VALUES:
        return (
            f"{message}: x_kernel has values up to {largest:.1e}, whose rounding exceeds n lam; scale the "
            f"columns of x to unit variance, or use a larger lam{better}"
        )
    doubt = "" if kernel.compiled else ", or x_kernel is not positive semi-definite"
    return f"{message}: lam is below the rounding of the kernel matrix{doubt}; use a larger lam{better}"


def too_large_for_float32(operator: GramOperator) -> str:
    """Return the message that float32 tiles would overflow, or lose all digits."""
    return (
        f"dtype='float32': x (squared norms up to {operator.max_norm2:.1e}) or values of x_kernel "
        f"{operator.kernel!r} leave the range of float32; use dtype='float64', or scale the columns of x"
    )


def _close(factor: Factor) -> None:
    if not isinstance(factor, PackedGram):
        factor.close()
