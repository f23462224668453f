"""Passes over the rows for the low-rank form: sums of the normal equations, and residuals of some rows.

Each goes on from a checkpoint where there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.tall import row_squares
from fastmcmd.checkpoint import Stages, State, fingerprint_of
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.estimate.rowwise import Abreast
from fastmcmd.gram import KernelFeatures
from fastmcmd.progress import Progress
from fastmcmd.solvers.lowrank import LowRankSolution, ResidualSample, RowSums
from fastmcmd.solvers.rounding import Rounding

__all__ = ["Pass", "Passes"]

Array = NDArray[np.float64]
_UNIT = float(np.finfo(np.float64).eps) / 2


@dataclass(frozen=True, eq=False)
class Pass:
    """What a pass over the rows gave: sums, what each row misses, coefficients' sizes, rounding."""

    sums: RowSums
    missed: Array
    sizes: Array | None
    rounding: Rounding | None


class Passes:
    """Makes passes over the rows of a problem.

    Parameters
    ----------
    problem : PartProblem
        Rows and systems.
    progress : Progress
        Told of each block.
    stages : Stages, optional
        Where the state of a named pass is kept.

    Attributes
    ----------
    made : int
        Passes so far.
    """

    def __init__(self, problem: PartProblem, progress: Progress, stages: Stages | None) -> None:
        self.problem, self.progress, self.stages = problem, progress, stages
        self.stream = problem.stream
        self.made = 0

    def sums(self, features: KernelFeatures, dtype: np.dtype[Any], *, sizes: bool) -> Pass:
        """Sum the normal equations over all rows; with ``sizes`` look at what rounding in float64 does."""
        stream, kernel, backend = self.stream, self.problem.kernel, self.problem.backend
        sums, n = self.problem.sums(features.rank), len(stream)
        miss, found = np.empty(n), np.empty(n) if sizes else None
        largest = norm2 = 0.0
        work = features.rank * (2.0 * stream.x.shape[1] + 2.0 * features.rank)
        sweep = self.progress.sweep(f"normal equations, {features.rank} landmarks", n, work)
        stream.begin()
        step, start = self.problem.step(features.rank), 0
        keep = None if self.stages is None else self.stages(f"sums {self.made}")
        told = fingerprint_of(features.pivots, features.factor, str(dtype)) if keep else ""
        saved = None if keep is None else keep.load()
        # With other memory other landmarks may have been found: the pass begins anew.
        if saved is not None and str(saved["of"]) == told:
            sums.restore(saved)
            stream.restore(saved)
            start, step = (int(value) for value in saved["rows"])
            largest, norm2 = (float(value) for value in saved["largest"])
            miss[:start] = saved["missed"]
            if found is not None:
                found[:start] = saved["sizes"]
            self.progress.stage(f"went on from a checkpoint after {start:,} rows")
        del saved
        for block in self.problem.blocks(step, start):
            f, diagonal, off = features.of_rows(block.x, dtype, keep=True, sizes=found is not None)
            assert f.values is not None
            miss[block.rows] = off
            sums.add(f.values, block.rhs, off, diagonal, block.weight)
            stream.account(block)
            largest = max(largest, float(diagonal.max()))
            if found is not None:
                found[block.rows] = f.sizes
                norm2 = max(norm2, float(row_squares(block.x, features.offset).max()))
            sweep.done(block.rows.stop)
            if keep is not None:
                done, most = block.rows.stop, (largest, norm2)
                keep.save(
                    lambda: _sums_state(sums, stream, told, (done, step), most, miss, found),  # noqa: B023
                    force=done == n,  # a pass that is over is not made again
                )
        sums.settle()
        self.made += 1
        rounding = None
        if found is not None:
            dim = stream.x.shape[1]
            direct = backend.direct_distances(dim, kernel)
            entry = kernel.rounding(_UNIT, dim, norm2 * (1 + 1e-5), direct, largest)
            squares = (
                found @ found
                if stream.weights is None
                else np.einsum("i,i,i->", stream.weights, found, found)
            )
            size = math.sqrt(float(squares) / sums.weight)
            rounding = Rounding.of(features, entry, largest, size)
        return Pass(sums, miss, found, rounding)

    def residuals(
        self, features: KernelFeatures, dtype: np.dtype[Any], sums: RowSums,
        solutions: list[LowRankSolution], miss: Array,
    ) -> list[LowRankSolution]:  # fmt: skip
        """Certify by the residuals of some rows: a pass over the coefficients of all."""
        stream = self.stream
        sample = ResidualSample(features, miss, stream.weights, len(stream))
        sample.begin(stream.x[sample.rows], stream.columns)
        at = features.coefficients(np.hstack([solution.weights for solution in solutions]))
        sweep = self.progress.sweep("sampled residuals", len(stream))
        step, start = self.problem.step(features.rank), 0
        keep = None if self.stages is None else self.stages(f"residuals {self.made}")
        told = fingerprint_of(features.pivots, features.factor, at, str(dtype)) if keep else ""
        saved = None if keep is None else keep.load()
        if saved is not None and str(saved["of"]) == told:
            sample.restore(saved)
            start, step = (int(value) for value in saved["rows"])
            self.progress.stage(f"went on from a checkpoint after {start:,} rows")
        for block in self.problem.blocks(step, start):
            image = features.combine(block.x, at, dtype)
            coefficients = self.problem.coefficients(image, block.rhs, block.weight, sums.weight)
            sample.add(block.rows, block.x, coefficients, image)
            done = block.rows.stop
            sweep.done(done)
            if keep is not None:
                reached = np.array((done, step))
                keep.save(
                    lambda: {"of": np.array(told), "rows": reached, **sample.state()},  # noqa: B023
                    force=done == len(stream),
                )
        self.made += 1
        return self.problem.certified(sample, sample.residual(), solutions, sums.weight)


def _sums_state(
    sums: RowSums, stream: Abreast, told: str, rows: tuple[int, int],
    largest: tuple[float, float], miss: Array, sizes: Array | None,
) -> State:  # fmt: skip
    """Return the state of a pass after ``rows[0]`` rows in blocks of ``rows[1]``."""
    state: State = {**sums.state(), **stream.state()}
    state["of"], state["rows"], state["largest"] = np.array(told), np.array(rows), np.array(largest)
    state["missed"] = miss[: rows[0]]
    if sizes is not None:
        state["sizes"] = sizes[: rows[0]]
    return state
