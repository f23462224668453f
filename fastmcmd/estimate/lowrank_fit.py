"""The low-rank solver: passes over the rows at a few landmarks, until a certificate is within the goal.

Several models at the same inputs share landmarks and passes; each has its own certificate. One pass sums
the normal equations. If its certificate misses the goal, residuals are measured, or more landmarks are
chosen (`landmark_choice`) and the next pass follows.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fastmcmd._base.annotations import Array, DType
from fastmcmd._base.progress import Progress
from fastmcmd.checkpoint import Stages
from fastmcmd.estimate.landmark_choice import LandmarkChoice
from fastmcmd.estimate.lowrank import LowRankPart
from fastmcmd.estimate.lowrank_pass import Pass, Passes
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram import EXACT, KernelFeatures
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.solvers.base import CertificateKind
from fastmcmd.solvers.costs import low_rank_cost, most_landmarks
from fastmcmd.solvers.landmarks import importance_of
from fastmcmd.solvers.lowrank import LowRankSolution
from fastmcmd.solvers.protocol import Cost, ProblemSize

__all__ = ["Certification", "LowRank"]

_ROUNDS = 4  # passes of the normal equations at most; each adds landmarks until the goal is met
# Factor by which the number of landmarks grows from one pass to the next, and share of the goal that is
# aimed at. Errors fall with a power of that number that the choice has seen, taken between these two.
_LEAST_GROWTH, _MOST_GROWTH, _AIM = 1.1, 2.0, 0.7
_LEAST_POWER, _USUAL_POWER = 1.0, 4.0
_DEPENDENT = 1e4  # ||L^-1||, for kernel values of 1, from which float64 may lose a residual of 1e-8


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
        setting = problem.setting
        if setting.most != self.landmarks:
            setting = replace(setting, most=self.landmarks)
            problem = replace(problem, setting=setting)
        choice = LandmarkChoice(problem, progress)
        has_own_landmarks = isinstance(setting.landmarks, np.ndarray)
        first = choice.of_caller() if has_own_landmarks else choice.choose()
        if first is None:
            return [None] * problem.models
        features, kinds = first
        fixed, notes = has_own_landmarks or setting.rank is not None, choice.notes
        passes = Passes(problem, progress, state)
        work = Certification(problem, kinds, passes, choice.expected)
        best: tuple[float, LowRankPart, Certified] | None = None
        for attempt in range(_ROUNDS):
            last = fixed or attempt + 1 == _ROUNDS or features.rank >= setting.largest
            row_pass, dtype, certified = work.of_pass(features, last=last)
            progress.certified(float(certified.errors[sorted(kinds)].max()) * setting.goal)
            errors = problem.with_spare_truncation(certified.errors)
            worst = float(errors[sorted(kinds)].max())
            if best is not None and worst >= best[0]:  # due to rounding: more landmarks do not help
                notes.append(
                    f"{features.rank} landmarks were no better: kept {best[1].features.rank}"
                )
                break
            part = LowRankPart(
                features, certified.solutions, problem.terms, dtype, len(problem.stream), passes.pass_count,
                row_pass.sums.residual_trace / row_pass.sums.weight, notes, problem.stream.x,
                (row_pass.residual_diagonal, row_pass.sizes), choice.searched, passes.whole_bytes,
                passes.values,
            )  # fmt: skip
            best = worst, part, certified
            if worst <= 1.0 or last or certified.rounding_alone:
                break
            rank = min(setting.largest, math.ceil(_growth(worst, choice.power) * features.rank))
            enlarged = choice.more(
                features, row_pass.residual_diagonal, rank, certified.importance(row_pass),
                work.grid_residual,
            )  # fmt: skip
            if enlarged.rank <= features.rank:
                break
            notes.append(
                f"{features.rank} landmarks left an error of {worst * setting.goal:.1e}: "
                f"continued with {enlarged.rank}"
            )
            features = enlarged.kernel_features()
        assert best is not None
        return work.of_models(*best[1:])


def _growth(error: float, power: float | None) -> float:
    """Return the factor by which landmarks that leave this error, relative to the goal, should increase.

    ``power`` is that of the number of landmarks with which errors fall, if known.
    """
    if not error < math.inf:
        return _MOST_GROWTH
    power = _USUAL_POWER if power is None else min(max(power, _LEAST_POWER), _USUAL_POWER)
    factor = (error / _AIM) ** (1 / power)
    return min(_MOST_GROWTH, max(_LEAST_GROWTH, factor))


@dataclass(eq=False)
class Certified:
    """Certified solutions after a pass over the rows.

    Attributes
    ----------
    problem : PartProblem
        Rows and systems.
    bounds : tuple of float
        Largest residual diagonal, and norm of interpolation coefficients.
    solutions : list of LowRankSolution
        A solution for each term.
    errors : ndarray (models,)
        Error of each model relative to the goal.
    sampled, late : set of int
        Models that residuals certify, and those that they certify if that gives a smaller error.
    certifies_all : bool
        Whether the residuals are those of all rows.
    at_rows : tuple of float
        The ``bounds`` over the rows alone.
    grid : tuple of ndarray (g,), optional
        Residual diagonal, and norms of interpolation coefficients, at the points of the grid.
    rounding_alone : bool
        Whether the bound on rounding alone misses the goal, so that more landmarks do not help.
    """

    problem: PartProblem
    bounds: tuple[float, float]
    solutions: list[LowRankSolution]
    errors: Array
    sampled: set[int]
    late: set[int]
    certifies_all: bool
    at_rows: tuple[float, float] = (math.inf, math.inf)
    grid: tuple[Array, Array] | None = None
    rounding_alone: bool = False

    @property
    def needs_residuals(self) -> bool:
        """Whether residuals of some or all rows have to be measured."""
        return bool(self.sampled or self.late)

    @property
    def needs_all_residuals(self) -> bool:
        """Whether residuals of all rows have to be measured."""
        return self.certifies_all and self.needs_residuals

    def importance(self, row_pass: Pass) -> Array | None:
        """Return the importance (n,) of rows as further landmarks; None if all rows count alike.

        With measured residuals coefficients are known: rows count by ``e(x, x) |B|^2``, too.
        """
        weights = self.problem.stream.weights
        return importance_of(weights, row_pass.norms) if self.needs_residuals else weights

    def serve_from_rows(self, models: Collection[int], work: float) -> None:
        """Leave points that landmarks miss to values from all rows, if these serve all of some models.

        They do if the landmarks serve the rows, and values at the missed points cost at most ``work``.
        """
        problem, some = self.problem, sorted(models)
        if self.grid is None or bool((self.errors[some] <= 1.0).all()):
            return
        errors = problem.errors(self.solutions, *self.at_rows)
        if bool((problem.with_spare_truncation(errors)[some] <= 1.0).all()) and bool(
            (problem.work_at_rows(self.solutions, self.grid)[some] <= work).all()
        ):
            self.errors[some] = errors[some]

    def add(self, alternatives: list[LowRankSolution]) -> None:
        """Take the solutions that residuals certify, for the models that they serve."""
        problem = self.problem
        better = problem.errors(alternatives, *self.bounds)
        improved = self.sampled | {
            model for model in self.late if better[model] < self.errors[model]
        }
        self.solutions = [
            other if term.model in improved else one
            for term, one, other in zip(problem.terms, self.solutions, alternatives, strict=True)
        ]
        self.errors = problem.errors(self.solutions, *self.bounds)


class Certification:
    """The certificates of the models of a problem.

    Parameters
    ----------
    problem : PartProblem
        Rows and systems.
    kinds : dict of int to str
        Certificate of each model that must reach the goal.
    passes : Passes
        Passes over the rows.
    expected : float
        Error that the landmarks leave at least, if known.

    Attributes
    ----------
    grid_residual : ndarray (g,)
        Residual diagonal at the points of the grid, if it is not the sample itself.
    """

    def __init__(
        self,
        problem: PartProblem,
        kinds: dict[int, CertificateKind],
        passes: Passes,
        expected: float = 0.0,
    ) -> None:
        self.problem, self.kinds, self.passes, self.expected = problem, kinds, passes, expected
        self.grid_residual = np.zeros(0)

    def of_pass(self, features: KernelFeatures, *, last: bool) -> tuple[Pass, DType, Certified]:
        """Return a pass over the rows, the precision of its features, and the certified solutions.

        ``last`` as in `by_trace`.
        """
        passes = self.passes
        dtype, sizes = self.precision(features)
        row_pass = passes.sums(features, dtype, sizes=sizes)
        certified = self.by_trace(features, dtype, row_pass, last=last)
        if certified.needs_all_residuals:
            certified.add(passes.all_residuals(features, row_pass, certified.solutions))
        elif certified.needs_residuals:
            certified.add(passes.residuals(features, dtype, row_pass, certified.solutions))
        certified.serve_from_rows(self.kinds, self.problem.pass_work(features.rank))
        return row_pass, dtype, certified

    def of_models(self, part: LowRankPart, certified: Certified) -> list[LowRankPart | None]:
        """Return the part of each model, or None if another form should serve it."""
        setting = self.problem.setting
        for model in self.kinds:
            certified.serve_from_rows([model], setting.most_work)
        errors = self.problem.with_spare_truncation(certified.errors)
        has_own_landmarks = isinstance(setting.landmarks, np.ndarray)
        return [
            part.of_model(model)
            if has_own_landmarks
            or (model in self.kinds and not (setting.give_up and errors[model] > 1.0))
            else None
            for model in range(self.problem.models)
        ]

    def _certifies_all(self, features: KernelFeatures) -> bool:
        """Tell whether residuals of all rows give the certificate if the trace does not."""
        setting = self.problem.setting
        if setting.certificate != "auto" or setting.dtype == FLOAT32:
            return False
        return self.passes.all_is_cheap(features.rank)

    def precision(self, features: KernelFeatures) -> tuple[DType, bool]:
        """Return the precision of the features, and whether to bound their rounding in advance.

        Rigorous certificates must bound the rounding of features in advance. Sampled residuals show it for
        the sampled rows; with nearly dependent landmarks it may be much larger in single other rows.
        """
        if self._certifies_all(features):
            return EXACT, True
        rigorous = "rigorous" in self.kinds.values()
        dtype = EXACT if rigorous else self.problem.sampled_precision(features, self.expected)
        return dtype, dtype == EXACT and (rigorous or _nearly_dependent(features))

    def by_trace(
        self, features: KernelFeatures, dtype: DType, row_pass: Pass, *, last: bool
    ) -> Certified:
        """Return solutions with trace certificates, and the models whose residuals must be measured.

        ``last`` says that no pass with more landmarks follows: residuals are then measured for every model
        that misses the goal. Before that they are measured where only the bound on rounding misses it.
        """
        problem, kinds, sums = self.problem, self.kinds, row_pass.sums
        size = 0.0 if row_pass.sizes is None else float(row_pass.sizes.max())
        solutions = problem.solve(sums, features, row_pass.rounding)
        grid = self._on_grid(features, dtype, row_pass.sizes is not None)
        bounds = at_rows = sums.max_residual_diagonal, size
        if grid is not None:
            bounds = max(bounds[0], float(grid[0].max())), max(size, float(grid[1].max()))
        errors = problem.errors(solutions, *bounds)
        sampled = {model for model, kind in kinds.items() if kind == "sampled"}
        late, rounding_alone = {model for model in kinds if errors[model] > 1.0}, False
        if late and not last:
            # More landmarks lower the trace. They do not lower the bound on rounding, which is a worst
            # case; measured residuals are often far smaller.
            trace = problem.errors(problem.solve(sums, features, None), bounds[0])
            rounding_alone = all(errors[model] - trace[model] > 1.0 for model in late)
            late = {model for model in late if trace[model] <= 1.0}
        if problem.setting.certificate == "rigorous":
            late = set()
        else:
            rounding_alone = False
        certifies_all = self._certifies_all(features)
        if certifies_all:  # nothing is sampled, and the trace certificate may be enough
            sampled = {model for model in sampled | late if errors[model] > 1.0}
        return Certified(
            problem, bounds, solutions, errors, sampled, late, certifies_all, at_rows, grid,
            rounding_alone,
        )  # fmt: skip

    def _on_grid(
        self, features: KernelFeatures, dtype: DType, sizes: bool
    ) -> tuple[Array, Array] | None:
        """Return e(x, x), and norms of interpolation coefficients, at the points (g,) of a grid, if any."""
        grid = self.problem.setting.grid
        if grid is None:
            return None
        row_features, _, self.grid_residual = features.of_rows(grid, dtype, keep=False, sizes=sizes)
        size = row_features.sizes
        return self.grid_residual, np.zeros(len(grid)) if size is None else np.asarray(size)


def _nearly_dependent(features: KernelFeatures) -> bool:
    """Tell whether rounding of features may hide residuals that the certificate relies on."""
    largest = float(features.diagonal(features.pivots).max())
    return features.inverse_norm * math.sqrt(largest) > _DEPENDENT
