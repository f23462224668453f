"""Fitting the low-rank form: landmarks, passes over the rows, certificate.

Several models at the same inputs share landmarks and passes; each has its own certificate.

Landmarks are chosen among candidate rows. The candidates form a small problem of their own. Its
certificate, computed before any pass over all rows, predicts how many landmarks the tolerance needs, or
that no affordable number is enough. One pass then sums the normal equations. If its certificate misses the
goal, the rows with the largest residuals become candidates for more landmarks (block randomly pivoted
Cholesky of the whole matrix, one pass for each block).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, DType, HostArray
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.checkpoint import Stages
from fastmcmd.estimate.lowrank import LowRankPart
from fastmcmd.estimate.lowrank_pass import Pass, Passes
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.estimate.rank_forecast import (
    LADDER,
    LOOKED_AT,
    SURE,
    CandidateProblem,
    cannot_converge,
    trace_may_suffice,
)
from fastmcmd.gram import EXACT, KernelFeatures, offset_of, tile_dtype
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.solvers.base import CertificateKind
from fastmcmd.solvers.costs import low_rank_cost, most_landmarks
from fastmcmd.solvers.landmarks import LandmarkSearch, importance_of
from fastmcmd.solvers.protocol import Cost, ProblemSize

__all__ = ["LowRank"]

Index = NDArray[np.intp]

_ROUNDS = 4  # passes of the normal equations at most: a missed goal adds landmarks
_GROWTH = 1.5
CANDIDATES = 20_000  # rows from which landmarks are chosen
_WELL_CONDITIONED = 100.0  # ||L^-1|| up to which float32 features keep enough digits
_DEPENDENT = 1e4  # ||L^-1||, for kernel values of 1, from which float64 may lose a residual of 1e-8
_COARSE = 1e-5  # tolerance from which float32 features are precise enough


@dataclass(frozen=True)
class LowRank:
    """The solver of a `PartProblem`: normal equations at a few landmarks, summed by passes over the rows.

    Attributes
    ----------
    landmarks : int
        Largest number of landmarks.
    """

    landmarks: int
    name: ClassVar[str] = "lowrank"

    @classmethod
    def affordable(cls, size: ProblemSize, work: float) -> LowRank:
        """Return the solver with the most landmarks whose estimated cost is at most ``work``."""
        return cls(most_landmarks(size, work))

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the expected cost of two passes."""
        return low_rank_cost(size, self.landmarks)

    def solve(
        self, problem: PartProblem, progress: Progress, state: Stages | None = None
    ) -> list[LowRankPart | None]:
        """Return the certified embeddings of each model, or None if the goal is out of reach.

        ``state`` returns the checkpoint stage of a named pass. A resumed run chooses the same landmarks
        again.
        """
        stream, setting = problem.stream, problem.setting
        if setting.most != self.landmarks:
            setting = replace(setting, most=self.landmarks)
            problem = replace(problem, setting=setting)
        hasty = setting.give_up and not setting.patient
        if hasty and not trace_may_suffice(
            stream.x, problem.backend, problem.kernel, problem.lam, setting.goal, setting.scale,
            setting.most,
        ):  # fmt: skip
            return [None] * problem.models
        fitting = _Fitting(problem, progress, state)
        if isinstance(setting.landmarks, np.ndarray):
            kind: CertificateKind = "sampled" if setting.certificate == "sampled" else "rigorous"
            kinds = dict.fromkeys(range(problem.models), kind)
            return [*fitting.run(fitting.features_as_passed(), True, kinds)[0]]
        return fitting.search_and_run()


class _Fitting:
    def __init__(self, problem: PartProblem, progress: Progress, stages: Stages | None) -> None:
        self.problem, self.progress = problem, progress
        self.passes = Passes(problem, progress, stages)
        self.stream, self.setting = problem.stream, problem.setting
        self.backend, self.kernel = problem.backend, problem.kernel
        self.rng = generator(len(problem.stream), Purpose.LANDMARKS)
        self.grid_residual = np.zeros(0)
        self.size = 0.0  # largest norm of interpolation coefficients so far
        self.notes: list[str] = []
        self.searched = 0  # largest number of candidates for landmarks in a search

    # Landmarks ------------------------------------------------------------------------------------

    def features_as_passed(self) -> KernelFeatures:
        """Return the features at the landmarks that the caller passed."""
        rows = self.kernel.prepared(self.setting.landmarks, "landmarks")
        search = self._search(rows, np.ones(len(rows)), len(rows))
        search.take_all()
        if search.rank < len(rows):
            self.notes.append(f"{len(rows) - search.rank} landmarks repeat others: left out")
        return search.kernel_features()

    def search_and_run(self) -> list[LowRankPart | None]:
        """Choose landmarks until the predicted error is within the goal, then pass over the rows."""
        setting, models = self.setting, range(self.problem.models)
        most = setting.most if setting.rank is None else setting.rank
        index = self._candidates(most)
        most = min(most, len(index))
        search = self._search(self.stream.x[index], self._weight(index), most)
        candidates = CandidateProblem(self.problem, search, index)
        kinds: dict[int, CertificateKind] = dict.fromkeys(models, "rigorous")
        if setting.rank is not None:
            self._extend(search, most)
            if setting.certificate == "sampled":
                kinds = dict.fromkeys(models, "sampled")
            elif setting.certificate == "auto":
                kinds = {
                    m: "sampled" if e > 1.0 else "rigorous"
                    for m, e in enumerate(candidates.rigorous())
                }
        else:
            remaining = set(models)
            if setting.certificate != "sampled":
                remaining -= self._climb(candidates, most, "rigorous", remaining)
            if remaining and setting.certificate != "rigorous":
                kinds |= dict.fromkeys(remaining, "sampled")
                remaining -= self._climb(candidates, most, "sampled", remaining)
            if remaining and setting.give_up:
                kinds = {model: kind for model, kind in kinds.items() if model not in remaining}
                if not kinds:
                    return [None] * len(models)
            elif remaining:
                self._extend(search, most)
        parts, errors = self.run(search.kernel_features(), setting.rank is not None, kinds)
        return [
            None if model not in kinds or (setting.give_up and error > 1.0) else part
            for model, (part, error) in enumerate(zip(parts, errors, strict=True))
        ]

    def _climb(
        self, candidates: CandidateProblem, most: int, kind: CertificateKind, models: set[int]
    ) -> set[int]:
        """Add landmarks until the predicted errors of ``models`` are within the goal.

        Returns the models that reach it. The search ends early if no other model can reach the goal.
        """
        looks: list[tuple[int, Array]] = []
        search, remaining, reached = candidates.search, set(models), set[int]()
        for rank in [*(step for step in LADDER if search.rank <= step < most), most]:
            self._extend(search, rank)
            predicted = candidates.errors(kind)
            error = max(predicted[model] for model in remaining) * self.setting.goal
            self.progress.report(
                f"{search.rank} landmarks: predicted error {error:.1e} (target {self.setting.goal:.1e})"
            )
            reached |= {model for model in remaining if predicted[model] <= SURE[kind]}
            remaining -= reached
            if search.rank >= LOOKED_AT:
                if len(looks) > 1:  # over two steps, as a single predicted error scatters
                    before, was = looks[-2]
                    remaining -= {
                        model
                        for model in remaining
                        if cannot_converge(
                            (before, was[model]), (search.rank, predicted[model]), most, kind
                        )
                    }
                looks.append((search.rank, predicted))
            if not remaining or search.exhausted:
                break
        return reached

    def _extend(self, search: LandmarkSearch, rank: int) -> None:
        if self.setting.landmarks == "uniform":
            order = generator(len(self.stream), Purpose.PROBE).permutation(len(search.rows))
            while search.rank < rank and search.trial_count < len(order):
                proposed = order[search.trial_count : search.trial_count + rank - search.rank]
                search.take(proposed, independent=True)
        else:
            search.grow(rank)

    def _candidates(self, most: int) -> Index:
        """Return rows of positive weight, drawn uniformly, in ascending order."""
        size = int(np.clip(self.setting.budget // 4 // (8 * most), 2 * most, CANDIDATES))
        weights = self.stream.weights
        rows = np.arange(len(self.stream)) if weights is None else np.flatnonzero(weights)
        if len(rows) <= size:
            return rows
        return np.sort(self.rng.choice(rows, size, replace=False))

    def _weight(self, index: Index) -> Array:
        weights = self.stream.weights
        return np.ones(len(index)) if weights is None else weights[index]

    def _search(self, x: HostArray, weight: Array, most: int) -> LandmarkSearch:
        offset = offset_of(self.kernel, self.backend, x)
        self.searched = max(self.searched, len(x))
        return LandmarkSearch(self.backend, self.kernel, x, weight, most, self.rng, offset)

    def _importance(self, row_pass: Pass, measured: bool) -> Array | None:
        """Return the importance of each row in the choice of landmarks, or None if all rows count alike.

        For the trace certificate the importance is the weight. If residuals were measured, coefficients are
        known: a row then also counts by its part ``e(x, x) |B|^2`` of the residuals.
        """
        weights = self.stream.weights
        if not measured:
            return weights
        return importance_of(weights, row_pass.norms)

    def _more(
        self,
        features: KernelFeatures,
        residual_diagonal: Array,
        rank: int,
        importance: Array | None,
    ) -> LandmarkSearch:
        """Return a search with more landmarks, drawn among the points with the largest residuals."""
        size = int(np.clip(self.setting.budget // 4 // (8 * rank), rank, CANDIDATES))
        rows = self._draw_rows(
            residual_diagonal if importance is None else residual_diagonal * importance, size
        )
        candidates = [features.pivots, self.stream.x[rows]]
        weight = np.ones(len(rows)) if importance is None else importance[rows]
        counts = [np.ones(features.rank), weight]
        if self.setting.grid is not None:
            some = self._draw_rows(self.grid_residual, size // 4)
            candidates.append(self.setting.grid[some])
            counts.append(np.full(len(some), float(counts[1].max(initial=1.0))))
        search = self._search(np.concatenate(candidates), np.concatenate(counts), rank)
        search.take(np.arange(features.rank))
        search.grow(rank)
        return search

    def _draw_rows(self, chance: Array, size: int) -> Index:
        """Return distinct rows, drawn with probabilities proportional to ``chance``."""
        total = float(chance.sum())
        if not total > 0:
            return np.empty(0, dtype=np.intp)
        draws = np.searchsorted(np.cumsum(chance), self.rng.random(size) * total)
        return np.unique(np.minimum(draws, len(chance) - 1))

    # Certificates ---------------------------------------------------------------------------------

    def run(
        self, features: KernelFeatures, fixed: bool, kinds: dict[int, CertificateKind]
    ) -> tuple[list[LowRankPart], Array]:
        """Make passes until the certificates are within the goal, or more landmarks do not help.

        Returns the best parts of all models, and their errors relative to the goal. ``fixed`` prevents more
        landmarks. Only the models in ``kinds``, which maps them to certificate kinds, must reach the goal.
        """
        best: tuple[float, list[LowRankPart], Array] | None = None
        required_models = np.array(sorted(kinds))
        for attempt in range(_ROUNDS):
            certifies_all = self.setting.certificate == "auto" and self.passes.all_is_cheap(
                features.rank
            )
            certifies_all = certifies_all and self.setting.dtype != FLOAT32
            dtype = EXACT if certifies_all else self._precision(set(kinds.values()), features)
            # Rigorous certificates must bound the rounding of features in advance. Sampled residuals show
            # it for the sampled rows; with nearly dependent landmarks it may be much larger in single other
            # rows.
            sizes = certifies_all or (
                dtype == EXACT and ("rigorous" in kinds.values() or _nearly_dependent(features))
            )
            row_pass = self.passes.sums(features, dtype, sizes=sizes)
            sums, residual_diagonal = row_pass.sums, row_pass.residual_diagonal
            if row_pass.sizes is not None:
                self.size = float(row_pass.sizes.max())
            solutions = self.problem.solve(sums, features, row_pass.rounding)
            max_residual_diagonal = max(
                sums.max_residual_diagonal, self._residual_on_grid(features, dtype, sizes)
            )
            errors = self.problem.errors(solutions, max_residual_diagonal, self.size)
            rank = min(self.setting.most, math.ceil(_GROWTH * features.rank))
            last = fixed or attempt + 1 == _ROUNDS or rank <= features.rank
            sampled = {model for model, kind in kinds.items() if kind == "sampled"}
            if last and self.setting.certificate != "rigorous":
                late = {model for model in kinds if errors[model] > 1.0}
            else:
                late = set()
            if certifies_all:  # nothing is sampled, and the trace certificate may be enough
                sampled = {model for model in sampled | late if errors[model] > 1.0}
            if sampled or late:
                if certifies_all:
                    measured = self.passes.all_residuals(features, row_pass, solutions)
                else:
                    measured = self.passes.residuals(features, dtype, row_pass, solutions)
                better = self.problem.errors(measured, max_residual_diagonal, self.size)
                improved_models = sampled | {
                    model for model in late if better[model] < errors[model]
                }
                solutions = [
                    other if term.model in improved_models else one
                    for term, one, other in zip(
                        self.problem.terms, solutions, measured, strict=True
                    )
                ]
                errors = self.problem.errors(solutions, max_residual_diagonal, self.size)
            worst = float(errors[required_models].max())
            self.progress.certified(worst * self.setting.goal)
            part = LowRankPart(
                features, solutions, self.problem.terms, dtype, len(self.stream), self.passes.pass_count,
                sums.residual_trace / sums.weight, self.notes, self.stream.x,
                (residual_diagonal, row_pass.sizes), self.searched, self.passes.whole_bytes,
            )  # fmt: skip
            if best is not None and worst >= best[0]:  # due to rounding: more landmarks do not help
                best_rank = best[1][0].features.rank
                self.notes.append(f"{features.rank} landmarks were no better: kept {best_rank}")
                break
            best = worst, [part.of_model(model) for model in range(self.problem.models)], errors
            if worst <= 1.0 or last:
                break
            enlarged = self._more(
                features, residual_diagonal, rank, self._importance(row_pass, bool(sampled or late))
            )
            if enlarged.rank <= features.rank:
                break
            self.notes.append(
                f"{features.rank} landmarks left an error of {worst * self.setting.goal:.1e}: "
                f"went on with {enlarged.rank}"
            )
            features = enlarged.kernel_features()
        assert best is not None
        return best[1], best[2]

    def _residual_on_grid(self, features: KernelFeatures, dtype: DType, sizes: bool) -> float:
        """Return the largest e(x, x) on the grid, if the grid is not the sample itself."""
        grid = self.setting.grid
        if grid is None:
            return 0.0
        row_features, _, off = features.of_rows(grid, dtype, keep=False, sizes=sizes)
        if row_features.sizes is not None:
            self.size = max(self.size, float(row_features.sizes.max()))
        self.grid_residual = off
        return float(off.max())

    def _precision(self, kinds: set[CertificateKind], features: KernelFeatures) -> DType:
        """Return the precision of the features: float32 only if residuals are measured."""
        if "rigorous" in kinds or not self.kernel.compiled:
            return EXACT
        if tile_dtype(self.kernel, FLOAT32, self.stream.x) == EXACT:
            return EXACT
        if self.setting.dtype is not None:
            return self.setting.dtype
        coarse = self.setting.goal >= _COARSE and features.inverse_norm <= _WELL_CONDITIONED
        return FLOAT32 if coarse else EXACT


def _nearly_dependent(features: KernelFeatures) -> bool:
    """Tell whether rounding of features may hide residuals that the certificate relies on."""
    largest = float(features.diagonal(features.pivots).max())
    return features.inverse_norm * math.sqrt(largest) > _DEPENDENT
