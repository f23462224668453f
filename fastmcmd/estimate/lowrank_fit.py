"""Fitting the low-rank form: landmarks, passes over the rows, certificate.

Landmarks are looked for among candidate rows. The candidates are a small problem of their own, on which
the certificate is computed before any pass over all rows: it tells how many landmarks the tolerance
needs, or that no affordable number will do. One pass then sums the normal equations; where its
certificate misses the goal, the rows that were missed most become candidates in turn (block randomly
pivoted Cholesky of the whole matrix, one pass a block).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import Backend
from fastmcmd.checkpoint import Stages, State, fingerprint_of
from fastmcmd.estimate.lowrank import LowRankPart, Term
from fastmcmd.estimate.outlook import LADDER, LOOKED_AT, SURE, hopeless, promising
from fastmcmd.estimate.part_problem import PartProblem, Setting
from fastmcmd.estimate.pilot import Pilot
from fastmcmd.estimate.rowwise import RowStream
from fastmcmd.gram import EXACT, KernelFeatures, offset_of
from fastmcmd.kernels import Kernel
from fastmcmd.progress import Progress
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.solvers.lowrank import LowRankSolution, ResidualSample, Rounding, RowSums

__all__ = ["fit_part"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]
_FLOAT32 = np.dtype(np.float32)
_UNIT = float(np.finfo(np.float64).eps) / 2

_ROUNDS = 4  # times that a missed goal asks for more landmarks
_GROWTH = 1.5
_CANDIDATES = 20000
_WELL_CONDITIONED = 100.0  # ||L^-1|| up to which float32 features keep enough digits
_COARSE = 1e-5  # tolerance from which float32 features can serve


def fit_part(
    stream: RowStream,
    terms: list[Term],
    backend: Backend,
    kernel: Kernel,
    setting: Setting,
    progress: Progress,
    stages: Stages | None = None,
) -> LowRankPart | None:
    """Fit the embeddings over one set of inputs; None where the goal is out of reach.

    ``stages`` returns where the state of a named pass is kept. Landmarks are found again: the same ones.
    """
    lam = min(term.lam for term in terms)
    goal, scale, most = setting.goal, setting.scale, setting.most
    hasty = setting.give_up and not setting.patient
    if hasty and not promising(stream.x, backend, kernel, lam, goal, scale, most):
        return None
    problem = PartProblem(stream, terms, backend, kernel, setting)
    fitting = _Fitting(problem, progress, stages)
    if isinstance(setting.landmarks, np.ndarray):
        return fitting.run(fitting.given(), True, fitting.kind_of_given())[0]
    return fitting.chosen()


@dataclass(frozen=True, eq=False)
class _Pass:
    """What a pass over the rows gave: sums, what each row misses, coefficients' sizes, rounding."""

    sums: RowSums
    missed: Array
    sizes: Array | None
    rounding: Rounding | None


class _Fitting:
    def __init__(self, problem: PartProblem, progress: Progress, stages: Stages | None) -> None:
        self.problem, self.progress, self.stages = problem, progress, stages
        self.stream, self.setting = problem.stream, problem.setting
        self.backend, self.kernel = problem.backend, problem.kernel
        self.rng = np.random.default_rng(len(problem.stream))
        self.passes = 0
        self.grid_missed = np.zeros(0)
        self.size = 0.0  # of coefficients of interpolation, the largest seen
        self.notes: list[str] = []

    # Landmarks ------------------------------------------------------------------------------------

    def given(self) -> KernelFeatures:
        """Return the features at the landmarks that the caller gave."""
        rows = self.setting.landmarks
        search = self._search(rows, np.ones(len(rows)), len(rows))
        search.take(np.arange(len(rows)))
        if search.rank < len(rows):
            self.notes.append(f"{len(rows) - search.rank} landmarks repeat others: left out")
        return search.found()

    def chosen(self) -> LowRankPart | None:
        """Choose landmarks until the predicted error is within the goal, then make the passes."""
        setting = self.setting
        most = setting.most if setting.rank is None else setting.rank
        index = self._candidates(most)
        most = min(most, len(index))
        search = self._search(self.stream.x[index], self._weight(index), most)
        pilot = Pilot(self.problem, search, index)
        kind = "rigorous"
        if setting.rank is not None:
            self._extend(search, most)
            if setting.certificate == "sampled" or (
                setting.certificate == "auto" and pilot.rigorous() > 1.0
            ):
                kind = "sampled"
        else:
            reached = setting.certificate != "sampled" and self._climb(pilot, most, "rigorous")
            if not reached and setting.certificate != "rigorous":
                kind = "sampled"
                reached = self._climb(pilot, most, "sampled")
            if not reached and setting.give_up:
                return None
            if not reached:
                self._extend(search, most)
        part, worst = self.run(search.found(), setting.rank is not None, kind)
        return None if setting.give_up and worst > 1.0 else part

    def kind_of_given(self) -> str:
        """Return the kind of certificate that is asked for with given landmarks."""
        return "sampled" if self.setting.certificate == "sampled" else "rigorous"

    def _climb(self, pilot: Pilot, most: int, kind: str) -> bool:
        """Take landmarks until the predicted error is within the goal; False if it will not be."""
        looks: list[tuple[int, float]] = []
        search = pilot.search
        for rank in [*(step for step in LADDER if search.rank <= step < most), most]:
            self._extend(search, rank)
            predicted = pilot.rigorous() if kind == "rigorous" else pilot.sampled()
            error = predicted * self.setting.goal
            self.progress.tell(
                f"{search.rank} landmarks: predicted error {error:.1e} (target {self.setting.goal:.1e})"
            )
            if predicted <= SURE[kind]:
                return True
            if search.exhausted:
                return False
            if search.rank >= LOOKED_AT:
                # Over two steps: a predicted error scatters.
                if len(looks) > 1 and hopeless(looks[-2], (search.rank, predicted), most, kind):
                    return False
                looks.append((search.rank, predicted))
        return False

    def _extend(self, search: LandmarkSearch, rank: int) -> None:
        if self.setting.landmarks == "uniform":
            order = np.random.default_rng(len(self.stream)).permutation(len(search.rows))
            search.take(order[search.tried : search.tried + rank - search.rank])
        else:
            search.grow(rank)

    def _candidates(self, most: int) -> Index:
        """Return rows of positive weight drawn uniformly, in order."""
        size = int(np.clip(self.setting.room // 4 // (8 * most), 2 * most, _CANDIDATES))
        weights = self.stream.weights
        rows = np.arange(len(self.stream)) if weights is None else np.flatnonzero(weights)
        if len(rows) <= size:
            return rows
        return np.sort(self.rng.choice(rows, size, replace=False))

    def _weight(self, index: Index) -> Array:
        weights = self.stream.weights
        return np.ones(len(index)) if weights is None else weights[index]

    def _search(self, x: NDArray[Any], weight: Array, most: int) -> LandmarkSearch:
        offset = offset_of(self.kernel, self.backend, x)
        return LandmarkSearch(self.backend, self.kernel, x, weight, most, self.rng, offset)

    def _more(self, features: KernelFeatures, miss: Array, rank: int) -> LandmarkSearch:
        """Return a search with more landmarks, from the points that were missed most."""
        size = int(np.clip(self.setting.room // 4 // (8 * rank), rank, _CANDIDATES))
        weights = self.stream.weights
        rows = self._drawn(miss if weights is None else miss * weights, size)
        candidates = [features.pivots, self.stream.x[rows]]
        counts = [np.ones(features.rank), self._weight(rows)]
        if self.setting.grid is not None:
            some = self._drawn(self.grid_missed, size // 4)
            candidates.append(self.setting.grid[some])
            counts.append(np.full(len(some), float(counts[1].max(initial=1.0))))
        search = self._search(np.concatenate(candidates), np.concatenate(counts), rank)
        search.take(np.arange(features.rank))
        search.grow(rank)
        return search

    def _drawn(self, chance: Array, size: int) -> Index:
        """Return distinct rows drawn in proportion to ``chance``."""
        total = float(chance.sum())
        if not total > 0:
            return np.empty(0, dtype=np.intp)
        drawn = np.searchsorted(np.cumsum(chance), self.rng.random(size) * total)
        return np.unique(np.minimum(drawn, len(chance) - 1))

    # Passes ---------------------------------------------------------------------------------------

    def run(self, features: KernelFeatures, fixed: bool, kind: str) -> tuple[LowRankPart, float]:
        """Make passes until the certificate is within the goal, or there is no way on.

        Returns the best part, and its error relative to the goal; ``fixed`` landmarks stay.
        """
        best: tuple[float, LowRankPart] | None = None
        for attempt in range(_ROUNDS):
            dtype = self._precision(kind, features)
            done = self._sum(features, dtype)
            sums, miss = done.sums, done.missed
            solutions = self.problem.solve(sums, features, done.rounding)
            most_missed = max(sums.most_missed, self._missed_on_grid(features, dtype))
            worst = self.problem.worst(solutions, most_missed, self.size)
            rank = min(self.setting.most, math.ceil(_GROWTH * features.rank))
            last = fixed or attempt + 1 == _ROUNDS or rank <= features.rank
            if kind == "sampled" or (
                worst > 1.0 and last and self.setting.certificate != "rigorous"
            ):
                sampled = self._sample(features, dtype, sums, solutions, miss)
                better = self.problem.worst(sampled, most_missed, self.size)
                if kind == "sampled" or better < worst:
                    solutions, worst = sampled, better
            self.progress.certified(worst * self.setting.goal)
            part = LowRankPart(
                features, solutions, self.problem.terms, dtype, len(self.stream), self.passes,
                sums.missed / sums.weight, self.notes, self.stream.x, (miss, done.sizes),
            )  # fmt: skip
            if best is not None and worst >= best[0]:  # rounding: more would only cost
                kept = best[1].features.rank
                self.notes.append(f"{features.rank} landmarks were no better: kept {kept}")
                break
            best = worst, part
            if worst <= 1.0 or last:
                break
            found = self._more(features, miss, rank)
            if found.rank <= features.rank:
                break
            self.notes.append(
                f"{features.rank} landmarks left an error of {worst * self.setting.goal:.1e}: "
                f"went on with {found.rank}"
            )
            features = found.found()
        assert best is not None
        return best[1], best[0]

    def _missed_on_grid(self, features: KernelFeatures, dtype: np.dtype[Any]) -> float:
        """Return the largest e(x, x) at points of the grid, where it is not the sample itself."""
        grid = self.setting.grid
        if grid is None:
            return 0.0
        found, off = features.of_rows(grid, dtype, keep=False, sizes=dtype == EXACT)
        if found.sizes is not None:
            self.size = max(self.size, float(found.sizes.max()))
        self.grid_missed = off
        return float(off.max())

    def _precision(self, kind: str, features: KernelFeatures) -> np.dtype[Any]:
        """Return the precision of the features: float32 only where residuals are looked at."""
        if kind == "rigorous" or not self.kernel.compiled:
            return EXACT
        if self.setting.dtype is not None:
            return self.setting.dtype
        coarse = self.setting.goal >= _COARSE and features.inverse_norm <= _WELL_CONDITIONED
        return _FLOAT32 if coarse else EXACT

    def _sum(self, features: KernelFeatures, dtype: np.dtype[Any]) -> _Pass:
        """Sum the normal equations over all rows."""
        stream = self.stream
        sums, n = RowSums(self.backend, features.rank, stream.columns), len(stream)
        miss, sizes = np.empty(n), np.empty(n) if dtype == EXACT else None
        largest = norm2 = 0.0
        work = features.rank * (2.0 * stream.x.shape[1] + 2.0 * features.rank)
        sweep = self.progress.sweep(f"normal equations, {features.rank} landmarks", n, work)
        stream.begin()
        step, start = self.problem.step(features.rank), 0
        keep = None if self.stages is None else self.stages(f"sums {self.passes}")
        told = fingerprint_of(features.pivots, features.factor, str(dtype)) if keep else ""
        saved = None if keep is None else keep.load()
        # With other memory other landmarks may have been found: the pass begins anew.
        if saved is not None and str(saved["of"]) == told:
            sums.restore(saved)
            stream.restore(saved)
            start, step = (int(value) for value in saved["rows"])
            largest, norm2 = (float(value) for value in saved["largest"])
            miss[:start] = saved["missed"]
            if sizes is not None:
                sizes[:start] = saved["sizes"]
            self.progress.stage(f"went on from a checkpoint after {start:,} rows")
        del saved
        for block in stream.blocks(step, start):
            f, off = features.of_rows(block.x, dtype, keep=True, sizes=sizes is not None)
            assert f.values is not None
            miss[block.rows] = off
            diagonal = np.asarray(self.kernel.diagonal(block.x), dtype=np.float64)
            sums.add(f.values, block.rhs, off, diagonal, block.weight)
            stream.account(block)
            largest = max(largest, float(diagonal.max()))
            if sizes is not None:
                sizes[block.rows] = f.sizes
                moved = block.x if features.offset is None else block.x - features.offset
                norm2 = max(norm2, float(np.einsum("ij,ij->i", moved, moved).max()))
            sweep.done(block.rows.stop)
            if keep is not None:
                done, most = block.rows.stop, (largest, norm2)
                keep.save(
                    lambda: _sums_state(sums, stream, told, (done, step), most, miss, sizes),  # noqa: B023
                    force=done == n,  # a pass that is over is not made again
                )
        sums.settle()
        self.passes += 1
        rounding = None
        if sizes is not None:
            dim = stream.x.shape[1]
            direct = self.backend.direct_distances(dim)
            entry = self.kernel.rounding(_UNIT, dim, norm2 * (1 + 1e-5), direct, largest)
            squares = (
                sizes @ sizes
                if stream.weights is None
                else np.einsum("i,i,i->", stream.weights, sizes, sizes)
            )
            size = math.sqrt(float(squares) / sums.weight)
            rounding = Rounding.of(features, entry, largest, size)
            self.size = float(sizes.max())
        return _Pass(sums, miss, sizes, rounding)

    def _sample(
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
        keep = None if self.stages is None else self.stages(f"residuals {self.passes}")
        told = fingerprint_of(features.pivots, features.factor, at, str(dtype)) if keep else ""
        saved = None if keep is None else keep.load()
        if saved is not None and str(saved["of"]) == told:
            sample.restore(saved)
            start, step = (int(value) for value in saved["rows"])
            self.progress.stage(f"went on from a checkpoint after {start:,} rows")
        for block in stream.blocks(step, start):
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
        self.passes += 1
        return self.problem.certified(sample, sample.residual(), solutions, sums.weight)


def _sums_state(
    sums: RowSums, stream: RowStream, told: str, rows: tuple[int, int],
    largest: tuple[float, float], miss: Array, sizes: Array | None,
) -> State:  # fmt: skip
    """Return the state of a pass after ``rows[0]`` rows in blocks of ``rows[1]``."""
    state: State = {**sums.state(), **stream.state()}
    state["of"], state["rows"], state["largest"] = np.array(told), np.array(rows), np.array(largest)
    state["missed"] = miss[: rows[0]]
    if sizes is not None:
        state["sizes"] = sizes[: rows[0]]
    return state
