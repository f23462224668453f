"""The low-rank problem for one set of inputs: its rows, systems and settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, DType, HostArray
from fastmcmd._base.sums import size_of
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.base import Backend
from fastmcmd.estimate.lowrank import Term, row_coefficients
from fastmcmd.estimate.row_images import row_images_cost
from fastmcmd.estimate.row_stream import RowBlock, StackedRowStream
from fastmcmd.gram import EXACT, KernelFeatures, tile_dtype
from fastmcmd.gram.cost import MatrixSize
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT32
from fastmcmd.rows import Rows
from fastmcmd.solvers.costs import low_rank_cost
from fastmcmd.solvers.lowrank import LowRankSolution, RowSums, solve_sums
from fastmcmd.solvers.protocol import ProblemSize
from fastmcmd.solvers.residual_sample import ResidualSample, floor_of
from fastmcmd.solvers.rounding import Rounding
from fastmcmd.solvers.row_cells import CellRows, Cells, largest_cells, row_cells
from fastmcmd.solvers.row_sample import RowGuess

__all__ = ["LowRankSetting", "PartProblem", "block_rows"]


# Rows of a block; not a power of two, whose columns would share few sets of the cache.
_LEAST_ROWS, _MOST_ROWS = 256, 12256
# Bytes of the features of a block: the C library keeps memory up to 32 MB for the next block, and a larger
# block would be given back to the system, which clears it again.
_REUSED = 30_000_000
_MOST_AHEAD = 8  # blocks computed ahead at once: the pass itself needs threads, too
_ROWS_OF_UNIT = 64
_LEAST_NORM, _MOST_NORM = 1e-15, 1e15  # right-hand sides in this range need no unit for their norms
_LARGEST = 1e37  # largest norm: it leaves float32 some range for sums
_NEARLY = 0.98  # share of the tolerance: rounding of the answer takes a part, too
_WELL_CONDITIONED = 100.0  # ||L^-1|| up to which float32 features keep enough digits
# The same by the goal: the error of the trace certificate that rounding to float32 adds, relative to it.
# Measured residuals show at most a fiftieth of that (lam from 1e-4 to 0.1).
_ROUNDED, _HIDING = 5.0, 0.1
_COARSE = 1e-5  # tolerance from which float32 features are precise enough
# Rows of a block on a device: launching kernels and waiting then cost little.
_MOST_OF_DEVICE = 65504


def block_rows(budget: int, rank: int, columns: int, dim: int, *, on_device: bool = False) -> int:
    """Return the number of rows of a block that fit in ``budget`` bytes with their features."""
    per_row = 8 * (4 * rank + 8 * columns + 3 * dim)
    most = _MOST_OF_DEVICE if on_device else min(_MOST_ROWS, _REUSED // (8 * rank))
    return int(np.clip(budget // per_row, _LEAST_ROWS, max(most, _LEAST_ROWS)))


@dataclass(frozen=True)
class LowRankSetting:
    """Goal, limits and precision of a low-rank solve.

    Attributes
    ----------
    goal : float
        Largest error that the certificate of a part may leave.
    scale : float
        Largest ``sqrt(k(x, x))`` where the goal must hold.
    rank : int or None
        Number of landmarks; None chooses as many as the goal needs.
    most : int
        Largest number of landmarks before a pass.
    largest : int
        The same after a pass that misses the goal: another pass often takes less time than another solver.
    landmarks : str or ndarray (p, d)
        "rpcholesky", "uniform", or the landmarks themselves.
    certificate : str
        "auto", "rigorous" or "sampled".
    dtype : numpy.dtype or None
        Precision of the features; None chooses.
    budget : int
        Available memory in bytes.
    give_up : bool
        Whether to end without a pass if the goal is out of reach.
    patient : bool
        Whether finding that out may cost more than a trial on a few rows.
    grid : ndarray (g, d) or None
        Further points where the goal must hold (a sample of them, if there are many).
    tolerance : float or None
        Largest error of the answer, truncation of the output features included; None if other systems, too,
        contribute to that error.
    points : int
        Number of evaluation points.
    most_work : float
        Largest cost of values from all rows at points that the landmarks miss: that of another solver.
    """

    goal: float
    scale: float
    rank: int | None
    most: int
    largest: int
    landmarks: Any
    certificate: str
    dtype: DType | None
    budget: int
    give_up: bool
    patient: bool = True
    grid: HostArray | None = None
    tolerance: float | None = None
    points: int = 0
    most_work: float = 0.0

    def block_rows(self, rank: int, columns: int, dim: int, on_device: bool = False) -> int:
        """Return the number of rows of a block."""
        return block_rows(self.budget // 6, rank, columns, dim, on_device=on_device)

    def threads(self, rows: int, columns: int, dim: int) -> int:
        """Return how many blocks of this many rows are computed at once."""
        block = 8 * rows * (4 * columns + 2 * dim)
        return max(1, min(get_num_threads(), _MOST_AHEAD, self.budget // 4 // max(1, block)))


@dataclass(frozen=True, eq=False)
class PartProblem:
    """Systems over one set of inputs, for a solver in low-rank form.

    Attributes
    ----------
    stream : StackedRowStream
        Inputs, right-hand sides and weights.
    terms : list of Term
        The systems in the order of their right-hand sides, whose columns are adjacent for all models.
    backend, kernel
        The input kernel, and the backend that computes it.
    setting : LowRankSetting
        Goal, limits and precision.
    unit : float
        Unit of norms of right-hand sides: a power of two near those of some rows if float32 may not hold
        them, else 1.
    norm : float
        Root mean square of the norms of some rows of right-hand sides.
    """

    stream: StackedRowStream
    terms: list[Term]
    backend: Backend
    kernel: Kernel
    setting: LowRankSetting
    unit: float
    norm: float

    @classmethod
    def of(
        cls,
        stream: StackedRowStream,
        terms: list[Term],
        backend: Backend,
        kernel: Kernel,
        setting: LowRankSetting,
    ) -> PartProblem:
        """Return the problem in the unit that some rows suggest."""
        n = len(stream.x)  # rows in memory: the stream of a plan stands for more
        some = np.unique(np.linspace(0, n - 1, _ROWS_OF_UNIT).astype(np.intp))
        largest, unit, norm = 0.0, 1.0, 0.0
        for one in stream.streams:
            rhs = one.rhs(some)[0]
            largest = max(largest, float(np.abs(rhs).max(initial=0.0)))
            norm = max(norm, size_of(rhs) / math.sqrt(len(some)))
        if largest != 0.0 and not _LEAST_NORM < largest < _MOST_NORM:
            unit = float(2.0 ** np.floor(np.log2(largest)))
        return cls(stream, terms, backend, kernel, setting, unit, norm)

    @property
    def lam(self) -> float:
        """The smallest regulariser."""
        return min(term.lam for term in self.terms)

    def sums(self, rank: int) -> RowSums:
        """Return empty sums for features at ``rank`` landmarks."""
        return RowSums(self.backend, rank, [term.columns for term in self.terms])

    def step(self, rank: int) -> int:
        """Return the number of rows of a block."""
        dim = self.stream.x.shape[1]
        return self.setting.block_rows(rank, self.stream.columns, dim, self.backend.on_device)

    def blocks(self, step: int, start: int) -> Iterator[RowBlock]:
        """Yield the rows from ``start`` in blocks of ``step``."""
        threads = self.setting.threads(step, self.stream.columns, int(self.stream.x.shape[1]))
        return self.stream.blocks(step, start, threads)

    def solve(
        self, sums: RowSums, features: KernelFeatures, rounding: Rounding | None
    ) -> list[LowRankSolution]:
        """Return the solutions of all terms, with trace certificates."""
        return [solve_sums(sums, t.columns, t.lam, features, rounding) for t in self.terms]

    def coefficients(self, image: Array, rhs: Array, weight: Array | None, total: float) -> Array:
        """Return ``B = D^-1 (P - F W)`` of a block, with the columns of all terms."""
        return row_coefficients(self.terms, image, rhs, weight, total)

    def certified(
        self,
        sample: ResidualSample,
        residual: Array,
        solutions: list[LowRankSolution],
        total: float,
    ) -> list[LowRankSolution]:
        """Return the solutions certified by the residuals (s, c) of the sampled rows."""
        return [
            sample.certified(index, solution, residual[:, term.columns], total, term.lam)
            for index, (term, solution) in enumerate(zip(self.terms, solutions, strict=True))
        ]

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.stream.streams)

    def columns_of(self, model: int) -> slice:
        """Return the columns of a model's right-hand sides."""
        columns = [term.columns for term in self.terms if term.model == model]
        return slice(columns[0].start, columns[-1].stop)

    def errors(
        self, solutions: list[LowRankSolution], max_residual_diagonal: float, size: float = 0.0
    ) -> Array:
        """Return the certified error of each model, relative to the goal.

        ``max_residual_diagonal`` is the largest e(x, x), ``size`` the norm of interpolation coefficients.
        """
        at = np.array([max_residual_diagonal]), np.array([size])
        errors = np.zeros(self.models)
        for term, solution in zip(self.terms, solutions, strict=True):
            rows = solution.rows
            if rows is not None and self.setting.grid is None:  # the grid is the sample itself
                largest = float(rows.residuals.max(initial=0.0))
                errors[term.model] += self.setting.scale * rows.slope + largest + rows.constant
            else:
                errors[term.model] += solution.error(np.array([self.setting.scale]), *at)[0]
        return errors / self.setting.goal

    def work_at_rows(self, solutions: list[LowRankSolution], grid: tuple[Array, Array]) -> Array:
        """Return the cost (m,) of values from all rows at the points that each model's landmarks miss.

        ``grid`` holds the residual diagonal, and norms of interpolation coefficients, at the points of the
        setting's grid, which represent all points.
        """
        errors = np.zeros((self.models, len(grid[0])))
        scale = np.full(len(grid[0]), self.setting.scale)
        for term, solution in zip(self.terms, solutions, strict=True):
            errors[term.model] += solution.error(scale, *grid)
        n, dim = len(self.stream), int(self.stream.x.shape[1])
        matrix = MatrixSize(self.kernel, n, dim, self.backend.name)
        columns = self.stream.columns // self.models
        all_points = row_images_cost(matrix, columns, self.setting.points)
        return np.asarray((errors > self.setting.goal).mean(axis=1) * all_points)

    def pass_work(self, rank: int) -> float:
        """Return the cost of a pass at so many landmarks."""
        n, dim = len(self.stream), int(self.stream.x.shape[1])
        matrix = MatrixSize(self.kernel, n, dim, self.backend.name)
        size = ProblemSize(matrix, (self.stream.columns,), 1, 1.0, self.setting.goal)
        return low_rank_cost(size, rank, passes=1).total

    def trace_error(self, residual_diagonal: float) -> float:
        """Return the error, in the units of the goal, that a mean residual diagonal of this size may leave.

        A larger regulariser than the one that it takes at most does not lower the rounding of values.
        """
        scale = self.setting.scale
        lam = min(self.lam, _HIDING * scale**2)
        return scale / 2 * residual_diagonal / lam**1.5 * self.norm

    def sampled_precision(self, features: KernelFeatures, expected: float = 0.0) -> DType:
        """Return the precision of features that need not be exact: residuals are measured.

        ``expected`` is an error that the landmarks leave in any case, if known.
        """
        setting = self.setting
        if not self.kernel.compiled or tile_dtype(self.kernel, FLOAT32, self.stream.x) == EXACT:
            return EXACT
        if setting.dtype is not None:
            return setting.dtype
        goal = max(setting.goal, expected)
        if goal < _COARSE:
            return EXACT
        # Rounding of features counts like a residual diagonal of this size, but for its random signs.
        scale = setting.scale
        error = self.trace_error(UNIT32 * (features.inverse_norm * scale) * scale**2)
        precise = features.inverse_norm <= _WELL_CONDITIONED or error <= _ROUNDED * goal
        return FLOAT32 if precise else EXACT

    def values(self, image: Array) -> NDArray[np.float64] | None:
        """Return the MCMD (m, b) of each model from the images (b, c); None if a model has two systems.

        They are the values of the estimate if the model has no other inputs.
        """
        if len(self.terms) > self.models:
            return None
        blocks = [image[:, term.columns] for term in self.terms]
        return np.sqrt([np.einsum("ij,ij->i", block, block) for block in blocks])

    def with_spare_truncation(self, errors: Array) -> Array:
        """Return certified errors (m,), relative to the goal, with what truncation leaves of the tolerance.

        The goal reserves a share for truncation of the output features. After a pass the truncation is
        known, and often far smaller. Errors that fit beside it are within the goal: they become 1 at most.
        """
        setting = self.setting
        if setting.tolerance is None:
            return errors
        out = errors.copy()
        for model, stream in enumerate(self.stream.streams):
            if stream.is_drawn:
                truncation = setting.scale / 2 * stream.truncated()
                if errors[model] * setting.goal + truncation <= _NEARLY * setting.tolerance:
                    out[model] = min(out[model], 1.0)
        return out

    def norms(self, values: Array) -> NDArray[np.float32]:
        """Return the norms (m, b) of rows of right-hand sides, or of residuals, of each model.

        The norms only set probabilities of rows: their ratios matter, so they are in ``unit``.
        """
        out = np.empty((self.models, len(values)), dtype=np.float32)
        for model in range(self.models):
            block = values[:, self.columns_of(model)]
            if self.unit != 1.0:
                block = block / self.unit
            with np.errstate(over="ignore"):
                norms = np.sqrt(np.einsum("ij,ij->i", block, block))
            out[model] = np.minimum(norms, _LARGEST)  # for rows unlike the sampled ones
        return out

    def cells(self, x: HostArray | Rows) -> list[Cells] | None:
        """Return cells of rows ``x``, for each size of cells.

        None if the rows are not in memory, or the kernel is not translation invariant.
        """
        if not (isinstance(x, np.ndarray) and self.kernel.translation_invariant):
            return None
        return row_cells(self.kernel, x)

    def cell_rows(
        self,
        all_cells: list[Cells],
        residual_diagonal: Array,
        weight: Array | None,
        norms: HostArray,
    ) -> list[list[CellRows]]:
        """Return rows of clusters whose residuals may be large, for each model and size of cells."""
        out = list[list[CellRows]]()
        residual_diagonal = residual_diagonal + floor_of(residual_diagonal, weight)
        scale = 1.0 if weight is None else weight
        for norm in norms:
            largest = float(norm.max(initial=0.0))
            sizes, some = scale * (norm / max(largest, 1e-300)), all_cells if largest > 0.0 else []
            out.append([largest_cells(cells, residual_diagonal, sizes) for cells in some])
        return out

    def sample(
        self,
        features: KernelFeatures,
        residual_diagonal: Array,
        weight: Array | None,
        norms: HostArray,
        draws: int,
        guesses: list[list[RowGuess]] | None,
    ) -> ResidualSample:
        """Return a sample of rows for measuring residuals; ``guesses`` are of `cell_rows`, or None."""
        terms, n = [term.columns for term in self.terms], len(residual_diagonal)
        return ResidualSample(features, residual_diagonal, weight, norms, terms, n, draws, guesses)
