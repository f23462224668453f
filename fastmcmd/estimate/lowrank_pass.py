"""Passes over the rows for the low-rank form: sums of the normal equations, and residuals of rows.

Each pass resumes from a checkpoint if there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, DType, HostArray
from fastmcmd._base.progress import Progress
from fastmcmd._base.sums import dot
from fastmcmd.backends.tall_skinny import row_squares
from fastmcmd.checkpoint import Stages, fingerprint_of
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.estimate.row_stream import RowBlock, StackedRowStream, StreamState
from fastmcmd.gram import EXACT, GramOperator, KernelFeatures
from fastmcmd.gram.cost import MatrixSize
from fastmcmd.io.state import same_layout
from fastmcmd.kernels.base import UNIT
from fastmcmd.solvers.lowrank import LowRankSolution, RowSums, SumsState
from fastmcmd.solvers.residual_sample import (
    ResidualSample,
    SampleState,
    certified_by_all,
    full_residual_bytes,
    sampled_rows,
)
from fastmcmd.solvers.rounding import Rounding
from fastmcmd.solvers.row_sample import RowGuess

__all__ = ["Pass", "Passes"]


# The residuals of all rows are computed if the product with K costs at most this share of the normal
# equations, or at most this many float32 operations (a quarter of a second on two cores).
_AFFORDABLE, _CHEAP = 0.6, 5e10


@dataclass(frozen=True, eq=False)
class Pass:
    """The results of a pass over the rows.

    Attributes
    ----------
    sums : RowSums
        Sums of the normal equations.
    residual_diagonal : ndarray (n,)
        Residual diagonal of each row: the part of ``k(x, x)`` that the features do not explain.
    sizes : ndarray (n,) or None
        Norms of the interpolation coefficients.
    rounding : Rounding or None
        Bounds on the float64 rounding of the features.
    norms : ndarray (m, n)
        Norm of each row's right-hand side, for each model; after a pass over the residuals, of ``D B``.
    """

    sums: RowSums
    residual_diagonal: Array
    sizes: Array | None
    rounding: Rounding | None
    norms: NDArray[np.float32]

    @property
    def bounded_residual_diagonal(self) -> Array:
        """``residual_diagonal`` (n,) plus the part that rounding may hide."""
        if self.rounding is None or self.sizes is None:
            return self.residual_diagonal
        return self.residual_diagonal + self.rounding.of_residual_diagonal(self.sizes)


@dataclass(frozen=True, eq=False)
class SumsPassState:
    """The state of a pass that sums the normal equations, after some rows.

    Attributes
    ----------
    of : str
        Fingerprint of the landmarks and the precision.
    step : int
        Rows of a block.
    largest, norm2 : float
        Largest kernel value, and largest squared norm of a row.
    sums, streams
        Sums, and accumulated truncation of the output features.
    residual_diagonal, sizes : ndarray (done,)
        Residual diagonal of the finished rows, and norms of their interpolation coefficients.
    norms : ndarray (models, done)
        Norms of the right-hand sides.
    """

    of: str
    step: int
    largest: float
    norm2: float
    sums: SumsState
    streams: list[StreamState]
    residual_diagonal: Array
    sizes: Array | None
    norms: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ResidualPassState:
    """The state of a pass over sampled residuals, after some rows; fields as in `SumsPassState`.

    ``values`` (models, done) are those of `Passes`.
    """

    of: str
    step: int
    sample: SampleState
    norms: NDArray[np.float32]
    values: NDArray[np.float64] | None


class Passes:
    """Passes over the rows of a problem.

    Parameters
    ----------
    problem : PartProblem
        Rows and systems.
    progress : Progress
        Receives a report of each block.
    stages : Stages, optional
        Function of a name that returns the checkpoint stage of that pass.

    Attributes
    ----------
    pass_count : int
        Number of passes so far.
    whole_bytes : int
        Bytes of the residuals of all rows, once they were computed.
    values : ndarray (m, n) or None
        MCMD of each model at all rows, if a pass over the residuals computed it.
    """

    def __init__(self, problem: PartProblem, progress: Progress, stages: Stages | None) -> None:
        self.problem, self.progress, self.stages = problem, progress, stages
        self.stream = problem.stream
        self.pass_count = 0
        self.whole_bytes = 0
        self.values: NDArray[np.float64] | None = None

    def sums(self, features: KernelFeatures, dtype: DType, *, sizes: bool) -> Pass:
        """Return the sums of the normal equations over all rows; with ``sizes``, also bound rounding."""
        stream, kernel, backend = self.stream, self.problem.kernel, self.problem.backend
        sums, n = self.problem.sums(features.rank), len(stream)
        residual_diagonal, row_sizes = np.empty(n), np.empty(n) if sizes else None
        norms = np.empty((self.problem.models, n), dtype=np.float32)
        largest = norm2 = 0.0
        work = features.rank * (2.0 * stream.x.shape[1] + 2.0 * features.rank)
        sweep = self.progress.sweep(f"normal equations, {features.rank} landmarks", n, work)
        stream.begin()
        self.values = None
        step, start = self.problem.step(features.rank), 0
        keep = None if self.stages is None else self.stages(f"sums {self.pass_count}")
        identity = fingerprint_of(features.pivots, features.factor, str(dtype)) if keep else ""
        saved_state = None if keep is None else keep.load(SumsPassState)
        # With another amount of memory the landmarks may differ: the pass then starts again.
        if keep is not None and saved_state is not None and saved_state.of == identity:
            keep.check(_sums_fit(saved_state, sums, stream, norms, row_sizes))
            sums.restore(saved_state.sums)
            stream.restore(saved_state.streams)
            start, step = len(saved_state.residual_diagonal), saved_state.step
            largest, norm2 = saved_state.largest, saved_state.norm2
            residual_diagonal[:start] = saved_state.residual_diagonal
            norms[:, :start] = saved_state.norms
            if row_sizes is not None and saved_state.sizes is not None:
                row_sizes[:start] = saved_state.sizes
            self.progress.stage(f"resumed from a checkpoint after {start:,} rows")
        del saved_state
        for block in self.problem.blocks(step, start):
            f, diagonal, off = features.of_rows(
                block.x, dtype, keep=True, sizes=row_sizes is not None
            )
            assert f.values is not None
            residual_diagonal[block.rows] = off
            norms[:, block.rows] = self.problem.norms(block.rhs)
            sums.add(f.values, block.rhs, off, diagonal, block.weight)
            stream.account(block)
            largest = max(largest, float(diagonal.max()))
            if row_sizes is not None:
                row_sizes[block.rows] = f.sizes
                norm2 = max(norm2, float(row_squares(block.x, features.offset).max()))
            sweep.advance(block.rows.stop)
            if keep is not None:
                stop = block.rows.stop
                state = partial(
                    _sums_state, sums, stream, identity, step, (largest, norm2),
                    residual_diagonal[:stop], None if row_sizes is None else row_sizes[:stop],
                    norms[:, :stop],
                )  # fmt: skip
                keep.save(state, force=stop == n)  # a finished pass is never repeated
        sums.settle()
        self.pass_count += 1
        rounding = None
        if row_sizes is not None:
            dim = stream.x.shape[1]
            direct = backend.direct_distances(dim, kernel)
            entry = kernel.rounding(UNIT, dim, norm2 * (1 + 1e-5), direct, largest)
            squares = (
                dot(row_sizes, row_sizes)
                if stream.weights is None
                else np.einsum("i,i,i->", stream.weights, row_sizes, row_sizes)
            )
            size = math.sqrt(float(squares) / sums.weight)
            rounding = Rounding.of(features, entry, largest, size)
        return Pass(sums, residual_diagonal, row_sizes, rounding, norms)

    def all_is_cheap(self, rank: int) -> bool:
        """Tell whether the residuals of all rows fit, and are cheap next to the normal equations."""
        n, columns = len(self.stream), self.stream.columns
        dim, budget = int(self.stream.x.shape[1]), self.problem.setting.budget
        if full_residual_bytes(n, columns) + 16 * n * dim > budget // 2:
            return False
        matrix = MatrixSize(self.problem.kernel, n, dim, self.problem.backend.name)
        sums = self.problem.pass_work(rank)
        return matrix.streamed_cost(columns, exact=True) <= max(_CHEAP, _AFFORDABLE * sums)

    def all_residuals(
        self, features: KernelFeatures, row_pass: Pass, solutions: list[LowRankSolution]
    ) -> list[LowRankSolution]:
        """Certify by the residuals of all rows: one pass over coefficients, one product with K."""
        stream, problem, n = self.stream, self.problem, len(self.stream)
        at = features.coefficients(np.hstack([solution.weights for solution in solutions]))
        value, image = np.empty((n, stream.columns)), np.empty((n, stream.columns))
        self.values = np.empty((problem.models, n))
        sweep = self.progress.sweep("residuals of all rows", n)
        for block in problem.blocks(problem.step(features.rank), 0):
            fitted = features.combine(block.x, at, EXACT)
            image[block.rows] = fitted
            self.take_values(block.rows, fitted)
            total = row_pass.sums.weight
            value[block.rows] = problem.coefficients(fitted, block.rhs, block.weight, total)
            row_pass.norms[:, block.rows] = problem.norms(block.rhs - fitted)
            sweep.advance(block.rows.stop)
        self.pass_count += 1
        dim = int(stream.x.shape[1])
        self.whole_bytes = full_residual_bytes(n, stream.columns) + 8 * n * dim
        budget = problem.setting.budget // 2
        operator = GramOperator(problem.backend, problem.kernel, stream.x, EXACT, budget)
        terms = [(term.columns, term.lam) for term in problem.terms]
        return certified_by_all(
            operator, solutions, terms, value, image, stream.weights, row_pass.sums.weight
        )

    def take_values(self, rows: slice, image: Array) -> None:
        """Store the values at some rows, whose image is (b, c)."""
        values = self.problem.values(image)
        if values is None or self.values is None:
            self.values = None
        else:
            self.values[:, rows] = values

    def residuals(
        self,
        features: KernelFeatures,
        dtype: DType,
        row_pass: Pass,
        solutions: list[LowRankSolution],
    ) -> list[LowRankSolution]:
        """Certify by the residuals of some rows: one pass over the coefficients of all rows.

        The rows are drawn by the norms of their right-hand sides. If many coefficients are much larger than
        these norms predict, a second pass samples other rows, drawn by the coefficients themselves.
        """
        problem, total = self.problem, row_pass.sums.weight
        at = features.coefficients(np.hstack([solution.weights for solution in solutions]))
        for again in (False, True):
            guesses = row_pass.norms.copy()
            self.values = np.empty((problem.models, len(self.stream)))
            one = _ResidualPass(self, features, dtype, row_pass, at, " again" if again else "")
            for block in problem.blocks(one.step, one.start):
                one.add(block)
            self.pass_count += 1
            sampled = problem.certified(one.sample, one.sample.residual(), solutions, total)
            if again or one.sample.foresaw(guesses, row_pass.norms):
                break
        return sampled


class _ResidualPass:
    """One pass over the coefficients of all rows, which sums up the residuals of a sample.

    Parameters
    ----------
    passes : Passes
        The problem, with the streams and the checkpoint of its passes.
    features, dtype
        Features at the landmarks, and the precision of the image.
    row_pass : Pass
        Its norms guess ``D B`` of each row; the pass replaces them by those that it computes.
    at : ndarray (p, c)
        Coefficients of ``k(x, landmarks)`` that give the image.
    name : str
        Part of the name of the checkpoint's stage.

    Attributes
    ----------
    sample : ResidualSample
        The sampled rows.
    step, start : int
        Rows of a block, and the first row: others are already part of a resumed pass.
    """

    def __init__(
        self, passes: Passes, features: KernelFeatures, dtype: DType, row_pass: Pass, at: Array,
        name: str,
    ) -> None:  # fmt: skip
        self._passes, self._problem, stream = passes, passes.problem, passes.stream
        self._features, self._dtype, self._row_pass, self._at = features, dtype, row_pass, at
        draws = sampled_rows(features.rank)
        step = self._problem.step(features.rank)
        problem, diagonal = self._problem, row_pass.bounded_residual_diagonal
        cells, guesses = problem.cells(stream.x), None
        if cells is not None:
            cell_rows = problem.cell_rows(cells, diagonal, stream.weights, row_pass.norms)
            guesses = [list[RowGuess]() for _ in cell_rows]
            for of_term, of_model, one in zip(guesses, cell_rows, stream.streams, strict=True):
                for some in of_model:
                    parts = [
                        one.rhs(some.rows[start : start + step])[0]
                        for start in range(0, len(some.rows), step)
                    ]
                    of_term += some.guesses(np.concatenate(parts) / problem.unit)
        self.sample = sample = problem.sample(
            features, diagonal, stream.weights, row_pass.norms, draws, guesses
        )
        sample.begin(stream.x[sample.rows], stream.columns)
        self._sweep = passes.progress.sweep("sampled residuals", len(stream))
        self.step, self.start = step, 0
        name = f"residuals{name} {passes.pass_count}"
        self._keep = keep = None if passes.stages is None else passes.stages(name)
        self._identity = ""
        if keep is None:
            return
        self._identity = fingerprint_of(
            features.pivots, features.factor, at, sample.rows, str(dtype)
        )
        saved_state = keep.load(ResidualPassState)
        if saved_state is not None and saved_state.of == self._identity:
            keep.check(
                same_layout(saved_state.sample, sample.state())
                and _rows_fit(saved_state.norms, row_pass.norms, saved_state.step)
                and _values_fit(saved_state, passes.values)
            )
            sample.restore(saved_state.sample)
            self.start, self.step = saved_state.norms.shape[1], saved_state.step
            row_pass.norms[:, : self.start] = saved_state.norms
            if saved_state.values is None or passes.values is None:
                passes.values = None
            else:
                passes.values[:, : self.start] = saved_state.values
            passes.progress.stage(f"resumed from a checkpoint after {self.start:,} rows")

    def add(self, block: RowBlock) -> None:
        """Add a block of rows."""
        problem, norms = self._problem, self._row_pass.norms
        image = self._features.combine(block.x, self._at, self._dtype)
        coefficients = problem.coefficients(
            image, block.rhs, block.weight, self._row_pass.sums.weight
        )
        self.sample.add(block.rows, block.x, coefficients, image)
        norms[:, block.rows] = problem.norms(block.rhs - image)
        self._passes.take_values(block.rows, image)
        values = self._passes.values
        stop = block.rows.stop
        self._sweep.advance(stop)
        if self._keep is not None:
            state = partial(
                _residual_state, self.sample, self._identity, self.step, norms[:, :stop],
                None if values is None else values[:, :stop],
            )  # fmt: skip
            self._keep.save(state, force=stop == norms.shape[1])


def _rows_fit(saved_rows: HostArray, full: HostArray, step: int) -> bool:
    """Tell whether ``saved`` can be the first columns of ``full``, whose columns are all rows."""
    if saved_rows.ndim != full.ndim or saved_rows.dtype != full.dtype or step < 1:
        return False
    return saved_rows.shape[:-1] == full.shape[:-1] and saved_rows.shape[-1] <= full.shape[-1]


def _values_fit(saved_state: ResidualPassState, full: HostArray | None) -> bool:
    """Tell whether saved values can be those of the saved rows."""
    if saved_state.values is None or full is None:
        return True
    same_rows = saved_state.values.shape[1:] == saved_state.norms.shape[1:]
    return same_rows and _rows_fit(saved_state.values, full, saved_state.step)


def _sums_fit(
    saved_state: SumsPassState,
    sums: RowSums,
    stream: StackedRowStream,
    norms: HostArray,
    sizes: Array | None,
) -> bool:
    finished_rows = saved_state.residual_diagonal
    rows: list[tuple[HostArray, HostArray]] = [
        (finished_rows, np.empty(norms.shape[1])),
        (saved_state.norms, norms),
    ]
    if sizes is not None and saved_state.sizes is not None:
        rows.append((saved_state.sizes, sizes))
    states = stream.state()
    return (
        all(_rows_fit(one, full, saved_state.step) for one, full in rows)
        and all(one.shape[-1] == len(finished_rows) for one, _ in rows)
        and same_layout(saved_state.sums, sums.state())
        and len(saved_state.streams) == len(states)
        and all(same_layout(*pair) for pair in zip(saved_state.streams, states, strict=True))
    )


def _sums_state(
    sums: RowSums, stream: StackedRowStream, of: str, step: int, largest: tuple[float, float],
    residual_diagonal: Array, sizes: Array | None, norms: NDArray[np.float32],
) -> SumsPassState:  # fmt: skip
    return SumsPassState(
        of, step, *largest, sums.state(), stream.state(), residual_diagonal, sizes, norms
    )


def _residual_state(
    sample: ResidualSample, of: str, step: int, norms: NDArray[np.float32],
    values: NDArray[np.float64] | None,
) -> ResidualPassState:  # fmt: skip
    return ResidualPassState(of, step, sample.state(), norms, values)
