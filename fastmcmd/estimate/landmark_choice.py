"""The choice of landmarks: which, and how many a goal needs, before any pass over all rows.

Landmarks are chosen among candidate rows. The candidates form a small problem of their own, whose
certificate at growing ranks predicts that of all rows; it may show that no affordable number is enough. If
the certificate of a pass misses the goal, the rows with the largest residuals become candidates for more
landmarks (block randomly pivoted Cholesky of the whole matrix, one pass for each block).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.sums import dot
from fastmcmd.backends import tall_skinny
from fastmcmd.backends.base import Backend
from fastmcmd.backends.tiled import times
from fastmcmd.estimate.common_share import CommonShare
from fastmcmd.estimate.error_forecast import TRACE_POWER, cannot_converge, slope
from fastmcmd.estimate.landmark_count import (
    KINDS,
    LandmarkCount,
    PassCost,
    ranks_to_try,
)
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram import EXACT, KernelFeatures, offset_of
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT
from fastmcmd.rows import Rows, as_blocks
from fastmcmd.solvers.base import CertificateKind
from fastmcmd.solvers.landmarks import LandmarkSearch, importance_of
from fastmcmd.solvers.lowrank import LowRankSolution
from fastmcmd.solvers.residual_sample import LEAST_DRAWS, ResidualSample
from fastmcmd.solvers.rounding import Rounding
from fastmcmd.solvers.row_cells import Cells
from fastmcmd.solvers.row_sample import RowGuess

__all__ = [
    "ALL_CANDIDATES",
    "CANDIDATES",
    "CandidateProblem",
    "LandmarkChoice",
    "ResidualRows",
    "trace_may_suffice",
]

Index = NDArray[np.intp]

CANDIDATES = 10_000  # rows of the first search for landmarks, unless all are few enough
ALL_CANDIDATES = 20_000
# Rows and ranks of the first trial, by the number of all rows and of columns.
_GLANCE, _GLANCE_AT_FEW, _FEW_GLANCED = (2000, (48, 96)), (500, (24, 48)), 4000
_ON_LINE, _ON_LINE_AT_FEW, _FEW_ON_LINE = (500, (48, 96)), (300, (12, 20)), 2000
_RESOLVED = 1e-4  # share of k(x, x) that landmarks leave on a line where few more are enough
_RESIDUAL_ROWS = 4000  # rows beside the candidates at which residuals are measured
_PARTS = 8  # parts of these rows, whose residuals are compared
# With so many landmarks all rows, in memory or on disk, are looked through for isolated ones. A fifth as
# many as there are candidates become candidates, too.
_LOOKED_THROUGH, _LOOKED_THROUGH_ON_DISK, _ISOLATED = 25, 128, 5
_AGAIN = 4  # so many times more landmarks show others
_FURTHER, _LATE = 1.25, 2  # see `_looks_through`
# Rows among which isolated ones are looked for again: the largest of the last look. A share of all, and
# at least so many times the rows that become candidates. Residuals only fall as landmarks are added.
_STILL_FAR, _STILL_TIMES = 0.25, 4
# Landmarks from which rounding is looked at before the decision, and rows that show it.
_ROUNDED, _ROUNDED_ROWS = 48, 500
# Trace errors above this many goals may be rough: from a fit with at least this share of the landmarks.
_FAR_ABOVE, _ROUGHLY = 3.0, 0.5
_FAR = 0.5  # share of further landmarks that have the largest residuals


def trace_may_suffice(
    x: Any, backend: Backend, kernel: Kernel, lam: float, goal: float, scale: float, most: int,
    paying: float = math.inf,
) -> bool:  # fmt: skip
    """Tell from a few of the rows ``x`` whether the trace can fall to what the goal needs.

    ``paying`` is the number of landmarks above which another solver takes less time: if the trace falls on
    as fast, more are needed.
    """
    n, is_line = len(x), x.shape[1] == 1
    if is_line and n < _FEW_ON_LINE:
        count, ranks = _ON_LINE_AT_FEW
    elif n < _FEW_GLANCED:
        count, ranks = _GLANCE_AT_FEW
    else:
        count, ranks = _ON_LINE if is_line else _GLANCE
    if is_line and _FEW_ON_LINE <= n < _FEW_GLANCED:
        most *= 2  # the error falls ever faster, and a search costs little
    rng = generator(n, Purpose.PROBE)
    x = x[np.sort(rng.choice(len(x), min(len(x), count), replace=False))]
    # A limit above the trial ranks: a search that reaches its limit counts as exhausted.
    search = _search(x, backend, kernel, 2 * ranks[-1], rng)
    looks = []
    for rank in ranks:
        search.grow(rank)
        error = _trace_error(search, lam, scale) / goal
        resolved = _RESOLVED if is_line else 0.0
        if error <= 1.0 or search.residual_diagonal.mean() <= resolved * search.diagonal.mean():
            return True
        if search.exhausted:
            return is_line  # so few landmarks are soon searched, and measured residuals may suffice
        looks.append((search.rank, error))
    if cannot_converge(looks[0], looks[1], most, "rigorous"):
        return False
    fall = slope(looks[0], looks[1], "rigorous")
    return fall == 0.0 or search.rank - math.log(error) / fall <= paying


def _search(
    x: HostArray, backend: Backend, kernel: Kernel, most: int, rng: np.random.Generator
) -> LandmarkSearch:
    offset = offset_of(kernel, backend, x)
    return LandmarkSearch(backend, kernel, x, np.ones(len(x)), most, rng, offset)


def _trace_error(search: LandmarkSearch, lam: float, scale: float) -> float:
    """Return ``scale t b / 2`` of the trace certificate; the unknown b is replaced by lam^(-1/2)."""
    return scale / 2 * float(search.residual_diagonal.mean()) / lam**1.5


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Rows at which residuals are measured: inputs (h, d), right-hand sides (h, c) and weights (h,)."""

    x: HostArray
    rhs: Array
    weight: Array


@dataclass(frozen=True, eq=False)
class CandidateFit:
    """A fit of the candidates.

    Attributes
    ----------
    candidates : int
        Their number.
    features : KernelFeatures
        The features at the landmarks.
    solutions : list of LowRankSolution
        Solutions of the candidates, with trace certificates.
    trace : float
        Mean of the residual diagonal over all rows, as the candidates predict it.
    """

    candidates: int
    features: KernelFeatures
    solutions: list[LowRankSolution]
    trace: float


class CandidateProblem:
    """The candidates as a small problem, whose certificate predicts that of all rows.

    The trace certificate is about the same for any number of rows. (Rows unlike the candidates add to it,
    but a pass over all rows finds them, and a few more landmarks among them bring it down again.) Residuals
    are not the same. A row's own term in its residual falls with the number of rows. Of the terms of other
    rows, one share falls with the root of that number, because outputs scatter around their mean; the other
    share does not fall. Residuals from parts of the rows separate these two: the second share is common to
    all parts, so products of two of them show its square (`CommonShare`).

    Residuals are measured at rows that are no candidates: landmarks explain themselves, and they are chosen
    where the candidates' residual is large. With 1,402 landmarks of 20,000 candidates in four columns, the
    candidates themselves predicted a five-hundredth of the error at all rows.

    Parameters
    ----------
    problem : PartProblem
        The problem of all rows.
    search : LandmarkSearch
        Search among the candidates.
    rhs : ndarray (m, c)
        Right-hand sides of the candidates.
    isolated : int
        Number of the last candidates that are isolated rows: each represents only itself.
    before : CandidateProblem, optional
        The problem of fewer candidates.

    Attributes
    ----------
    search, rhs
        As passed.
    residual_rows : ResidualRows or None
        Rows that are no candidates, for predictions of sampled certificates; None takes the candidates.
    fit : CandidateFit or None
        The last fit.
    common : list of CommonShare
        The common share of residuals, for each model.
    """

    def __init__(
        self,
        problem: PartProblem,
        search: LandmarkSearch,
        rhs: Array,
        isolated: int = 0,
        before: CandidateProblem | None = None,
    ) -> None:
        self.problem, self.search, self.rhs, self._isolated = problem, search, rhs, isolated
        self.residual_rows: ResidualRows | None = None
        self.fit = None if before is None else before.fit
        self.common = (
            [CommonShare() for _ in range(problem.models)] if before is None else before.common
        )
        self._cells: tuple[HostArray, list[Cells] | None] | None = None
        self._n = len(problem.stream)

    def errors(self, kind: str) -> Array:
        """Return the predicted error of each model by this kind of certificate, relative to the goal.

        The error of "rigorous", the trace certificate, is without rounding.
        """
        problem, search, size = self.problem, self.search, (len(self.rhs), self.search.rank)
        if self.fit is None or size != (self.fit.candidates, self.fit.features.rank):
            features, sums = search.kernel_features(), problem.sums(search.rank)
            sums.add(
                search.columns, self.rhs, search.residual_diagonal, search.diagonal, search.weight
            )
            sums.settle()
            sums.residual_trace *= self._share_of_landmarks
            solutions = problem.solve(sums, features, None)
            self.fit = CandidateFit(len(self.rhs), features, solutions, self._trace)
        features, solutions = self.fit.features, self.fit.solutions
        largest = float(search.residual_diagonal.max())
        if kind == "rigorous":
            return problem.errors(solutions, largest)
        weights = np.hstack([solution.weights for solution in solutions])
        image = times(search.columns.T, weights)
        norms = problem.norms(self.rhs - image)
        search.importance = importance_of(search.weight, norms)  # for later landmarks
        if self.residual_rows is None:
            at = ResidualRows(search.rows, self.rhs, search.weight)
            columns, residual_diagonal = search.columns, search.residual_diagonal
        else:
            at = self.residual_rows
            columns, residual_diagonal = search.features_of(at.x)
            largest = max(largest, float(residual_diagonal.max()))
            image = times(columns.T, weights)
        at_norms = norms if self.residual_rows is None else problem.norms(at.rhs - image)
        total = float(at.weight.sum())
        coefficients = problem.coefficients(image, at.rhs, at.weight, total)
        if self._cells is None or self._cells[0] is not at.x:
            self._cells = at.x, problem.cells(at.x)
        cells, guesses = self._cells[1], None
        if cells is not None:
            cell_rows = problem.cell_rows(cells, residual_diagonal, at.weight, at_norms)
            guesses = [list[RowGuess]() for _ in cell_rows]
            for model, of_model in enumerate(cell_rows):
                for some in of_model:
                    rhs = at.rhs[some.rows][:, problem.columns_of(model)] / problem.unit
                    guesses[model] += some.guesses(rhs)
        sample = problem.sample(
            features, residual_diagonal, at.weight, at_norms, LEAST_DRAWS, guesses
        )
        # Among all rows, each coefficient is smaller by the share of these rows.
        sample.account(slice(0, len(image)), coefficients * len(at.x) / self._n)
        residual = self._residual_of_all(sample, at.x, columns, residual_diagonal, coefficients)
        certified = problem.certified(sample, residual, solutions, total)
        return problem.errors(certified, largest) + self._own_terms(norms)

    def rough_errors(self) -> Array | None:
        """Return the errors of "rigorous" with the energy of an earlier fit, whose landmarks were fewer.

        None if they were far fewer, or if the errors are too near the goal for a rough answer.
        """
        fit = self.fit
        if fit is None or fit.features.rank < _ROUGHLY * self.search.rank or not fit.trace > 0.0:
            return None
        share = self._trace / fit.trace
        fallen = [
            replace(one, slope=share * one.slope, miss=math.sqrt(share) * one.miss)
            for one in fit.solutions
        ]
        errors = self.problem.errors(fallen, float(self.search.residual_diagonal.max()))
        return errors if float(errors.min()) > _FAR_ABOVE else None

    @property
    def _trace(self) -> float:
        """Mean of the residual diagonal over all rows, as the candidates predict it."""
        search = self.search
        mean = float(np.average(search.residual_diagonal, weights=search.weight))
        return mean * self._share_of_landmarks

    @property
    def _share_of_landmarks(self) -> float:
        """Factor of the mean residual: among all rows, landmarks are a smaller share."""
        candidates = len(self.rhs)
        return candidates / max(1, candidates - self.search.rank) if candidates < self._n else 1.0

    def rounding_errors(self) -> Array:
        """Return the error of each model, relative to the goal, that rounding alone leaves.

        It is that of the trace certificate, estimated from some candidates.
        """
        problem, search = self.problem, self.search
        features, kernel = search.kernel_features(), problem.kernel
        some = np.ascontiguousarray(search.rows[:: max(1, len(search.rows) // _ROUNDED_ROWS)])
        row_features, diagonal, _ = features.of_rows(some, EXACT, keep=False, sizes=True)
        sizes, dim = row_features.sizes, int(some.shape[1])
        assert sizes is not None
        norm2 = float(tall_skinny.row_squares(some, features.offset).max())
        direct, largest = problem.backend.direct_distances(dim, kernel), float(diagonal.max())
        entry = kernel.rounding(UNIT, dim, norm2, direct, largest)
        rounding = Rounding.of(features, entry, largest, math.sqrt(dot(sizes, sizes) / len(sizes)))
        sums = problem.sums(search.rank)
        nothing = np.zeros(len(self.rhs))
        sums.add(search.columns, self.rhs, nothing, search.diagonal, search.weight)
        solutions = problem.solve(sums.settle(), features, rounding)
        return problem.errors(solutions, 0.0, float(sizes.max()))

    def _own_terms(self, norms: HostArray) -> Array:
        """Return the errors, relative to the goal, that isolated candidates which are no landmarks add.

        ``norms`` (models, m) are those of ``D B`` of the candidates. Such a row's residual is ``e B``.
        """
        search, problem = self.search, self.problem
        isolated = slice(len(self.rhs) - self._isolated, None)
        share = search.weight[isolated] / float(search.weight.sum())
        terms = (
            search.residual_diagonal[isolated]
            * share
            * norms[:, isolated]
            * problem.unit
            / problem.lam
        )
        if not terms.size:
            return np.zeros(len(norms))
        slope = np.sqrt((share * terms**2).sum(axis=1) / problem.lam) / 2
        return np.asarray(
            (terms.max(axis=1) + problem.setting.scale * slope) / problem.setting.goal
        )

    def _residual_of_all(
        self,
        sample: ResidualSample,
        x: HostArray,
        columns: Array,
        residual_diagonal: Array,
        coefficients: Array,
    ) -> Array:
        """Return residuals of the rows of a sample as all rows would give them.

        ``columns`` (r, h) are the features of the rows ``x`` that they are measured with.
        """
        problem, share = self.problem, len(x) / self._n
        rows = sample.rows
        own_terms = residual_diagonal[rows, None] * coefficients[rows]
        residual = np.zeros_like(own_terms)
        squares = np.zeros((problem.models, len(rows)))  # of the residuals of all parts
        model_columns = [problem.columns_of(model) for model in range(problem.models)]
        for part in range(_PARTS):
            fresh = self._residual(x, columns, rows, part, coefficients)
            fresh += own_terms * (rows % _PARTS == part)[:, None]
            residual += fresh
            for square, some in zip(squares, model_columns, strict=True):
                square += np.einsum("ij,ij->i", fresh[:, some], fresh[:, some])
        for model, (square, some) in enumerate(zip(squares, model_columns, strict=True)):
            total_square = np.einsum("ij,ij->i", residual[:, some], residual[:, some])
            size = sample.mean(total_square)
            common = sample.mean(total_square - square) * _PARTS / (_PARTS - 1)
            common = size * self.common[model].add(self.search.rank, common / max(size, 1e-300))
            residual[:, some] *= math.sqrt((common + (size - common) * share) / max(size, 1e-300))
        residual -= own_terms * share
        return residual

    def _residual(
        self, x: HostArray, columns: Array, rows: Index, part: int, coefficients: Array
    ) -> Array:
        """Return the contribution of one part of the rows ``x`` to the residuals ``-E B`` of some of them.

        ``columns`` (r, len(x)) are the features of all.
        """
        search, problem = self.search, self.problem
        kernel, backend, offset = problem.kernel, problem.backend, search.offset
        inputs, right = x[part::_PARTS], np.ascontiguousarray(coefficients[part::_PARTS])
        targets = backend.points(x[rows], EXACT, offset)
        image = np.zeros((len(rows), right.shape[1]))
        step = problem.step(search.rank)
        for start in range(0, len(inputs), step):
            some = slice(start, start + step)
            points = backend.points(inputs[some], EXACT, offset)
            image += backend.matmul(kernel, targets, points, right[some])
        low = tall_skinny.times(columns[:, part::_PARTS], right)
        return tall_skinny.inner(columns[:, rows], low) - image


class LandmarkChoice:
    """The choice of landmarks for a problem, and of the certificate of each model.

    Attributes
    ----------
    notes : list of str
        Events of the choice, for the user.
    searched : int
        Largest number of candidates in a search.
    rng : numpy.random.Generator
        Source of the draws.
    """

    def __init__(self, problem: PartProblem, progress: Progress) -> None:
        self._problem, self._progress = problem, progress
        self._stream, self._setting = problem.stream, problem.setting
        self.rng = generator(len(problem.stream), Purpose.LANDMARKS)
        self._probe = generator(len(problem.stream), Purpose.PROBE)
        # Rows of the candidates, and how many of them are isolated.
        self._index, self._isolated = np.empty(0, dtype=np.intp), 0
        # Whether isolated rows were looked for, and landmarks from which they are looked for next.
        on_disk = isinstance(self._stream.x, Rows)
        self._has_looked = False
        self._next_look = _LOOKED_THROUGH_ON_DISK if on_disk else _LOOKED_THROUGH
        self._last_residuals: NDArray[np.float32] | None = (
            None  # weighted residuals of the last look
        )
        self._rounding_seen = False
        self._traces: dict[int, float] = {}  # the predicted trace error at numbers of landmarks
        self.notes: list[str] = []
        self.searched = 0

    @property
    def power(self) -> float | None:
        """Power of the number of landmarks with which errors fall, at the end; None if unknown."""
        looks = list(self._traces.items())
        before = [look for look in looks if 2 * look[0] <= looks[-1][0]]
        fall = slope(before[-1], looks[-1], "sampled") if before else 0.0
        return -TRACE_POWER * fall if fall < 0.0 else None

    def of_caller(self) -> tuple[KernelFeatures, dict[int, CertificateKind]]:
        """Return the features at the landmarks that the caller passed, and each model's certificate."""
        kind: CertificateKind = "sampled" if self._setting.certificate == "sampled" else "rigorous"
        rows = self._problem.kernel.prepared(self._setting.landmarks, "landmarks")
        search = self.search(rows, np.ones(len(rows)), len(rows))
        search.take_all()
        if search.rank < len(rows):
            self.notes.append(f"{len(rows) - search.rank} landmarks repeat others: left out")
        return search.kernel_features(), dict.fromkeys(range(self._problem.models), kind)

    def choose(self) -> tuple[KernelFeatures, dict[int, CertificateKind]] | None:
        """Return landmarks among some rows, and the certificate of each model that reaches the goal.

        The number of landmarks is what the options fix, or what the predicted errors need. Returns None if
        no model can reach the goal; that holds back no other solver, so it applies with ``give_up`` only.
        """
        setting, models = self._setting, range(self._problem.models)
        search, most = self._first_search()
        rhs, _ = self._stream.rhs(self._index)
        candidates = CandidateProblem(self._problem, search, rhs)
        if setting.rank is not None:
            for rank in _steps_to(most):
                candidates = self._grown(candidates, rank, most)
            return candidates.search.kernel_features(), self._kinds_at_rank(candidates)
        cost = PassCost.of_problem(self._problem)
        counts = [LandmarkCount(setting.certificate, most, cost) for _ in models]
        for rank in ranks_to_try(0, most, counts):
            candidates = self._grown(candidates, rank, most)
            if not self._has_looked and self._looks_through(candidates.search.rank):
                # Before a decision for so few landmarks: a pass that finds isolated rows takes far longer.
                candidates = self._with_isolated(candidates, most)
            search = candidates.search
            last = search.exhausted or rank == most
            for kind in KINDS["auto"]:
                self._predict(candidates, kind, counts, last=last)
            for count in counts:
                count.decide(search.rank, last=last)
            if self._rounding_rules_out(candidates, all(count.decided for count in counts)):
                return None
            if last:
                break
        search = candidates.search
        kinds = {model: count.kind for model, count in enumerate(counts) if count.kind is not None}
        if len(kinds) < len(counts) and not setting.give_up:
            self._extend(search, most)
            kinds = dict.fromkeys(models, KINDS[setting.certificate][-1]) | kinds
        return (search.kernel_features(), kinds) if kinds else None

    def _rounding_rules_out(self, candidates: CandidateProblem, decided: bool) -> bool:
        """Tell whether rounding alone exceeds what rigorous certificates may leave, of every model.

        That is looked at once there are some landmarks, and at the decision. A pass would show it, too.
        """
        setting, rank = self._setting, candidates.search.rank
        if setting.certificate != "rigorous" or not setting.give_up:
            return False
        if not decided and (self._rounding_seen or rank < _ROUNDED):
            return False
        self._rounding_seen = True
        # A pass may use all of the tolerance that truncation leaves.
        most = max(1.0, (setting.tolerance or 0.0) / setting.goal)
        return bool(candidates.rounding_errors().min() > most)

    def _grown(self, candidates: CandidateProblem, rank: int, most: int) -> CandidateProblem:
        """Return the candidates with landmarks up to ``rank``, of at most ``most`` in the end."""
        if self._looks_through(candidates.search.rank, rank):
            candidates = self._with_isolated(candidates, most)
        search = candidates.search
        if self._has_looked:
            self._extend(search, rank - int((rank - search.rank) * _FAR))
            search.take_farthest(rank)
        self._extend(search, rank)
        return candidates

    def _first_search(self) -> tuple[LandmarkSearch, int]:
        """Return a search among candidates drawn uniformly, and the largest number of landmarks."""
        setting, stream = self._setting, self._stream
        most = setting.most if setting.rank is None else setting.rank
        self._index = index = self._candidates(most)
        most = min(most, len(index))
        return self.search(stream.x[index], self._weights_of(index), most), most

    def _kinds_at_rank(self, candidates: CandidateProblem) -> dict[int, CertificateKind]:
        """Return the certificate of each model with a number of landmarks that the options fix."""
        certificate, models = self._setting.certificate, range(self._problem.models)
        if certificate != "auto":
            return dict.fromkeys(models, KINDS[certificate][0])
        errors = candidates.errors("rigorous")
        return {model: "sampled" if errors[model] > 1.0 else "rigorous" for model in models}

    def _predict(
        self,
        candidates: CandidateProblem,
        kind: CertificateKind,
        counts: list[LandmarkCount],
        *,
        last: bool,
    ) -> None:
        """Tell the counts that ask for it which error this kind of certificate would leave."""
        rank, goal = candidates.search.rank, self._setting.goal
        asking = [model for model, count in enumerate(counts) if count.asks(kind, rank, last=last)]
        if not asking:
            return
        if kind == "sampled":
            candidates.residual_rows = self._residual_rows()
        trace = candidates.rough_errors() if kind == "rigorous" else None
        if trace is None:
            trace = candidates.errors("rigorous")
        predicted = trace if kind == "rigorous" else candidates.errors(kind)
        self._traces[rank] = float(trace[asking].max())
        for model in asking:
            counts[model].add(kind, rank, float(predicted[model]), float(trace[model]))
        error = float(predicted[asking].max()) * goal
        self._progress.report(f"{rank} landmarks: predicted error {error:.1e} (target {goal:.1e})")

    def _looks_through(self, rank: int, end: float = math.inf) -> bool:
        """Tell whether to look for isolated rows among all rows, with ``rank`` landmarks.

        That takes as long as an eighth of a pass. It does not pay if ``end``, the number of landmarks that
        follows, is hardly larger: the pass may be next.
        """
        due = self._next_look
        if self._setting.landmarks == "uniform" or rank < due:
            return False
        return end >= _FURTHER * rank or rank >= _LATE * due

    def _with_isolated(self, candidates: CandidateProblem, most: int) -> CandidateProblem:
        """Return the candidates together with the other rows that the landmarks miss most.

        Each isolated row needs a landmark of its own, and few of them are among candidates drawn uniformly.
        Others would show them only after a pass over the rows.
        """
        stream, search, index = self._stream, candidates.search, self._index
        rows_of_weight = len(self._rows_of_weight())
        uniform, self._has_looked = len(index) - self._isolated, True
        while self._next_look <= search.rank:
            self._next_look *= _AGAIN
        if len(index) == rows_of_weight:
            return candidates
        residual_diagonal = self._weighted_residuals(search.kernel_features(), uniform // _ISOLATED)
        self._last_residuals = residual_diagonal.astype(np.float32)
        residual_diagonal[index] = 0.0
        count = min(uniform // _ISOLATED, int(np.count_nonzero(residual_diagonal)))
        if not count:
            return candidates
        isolated = np.sort(np.argpartition(residual_diagonal, -count)[-count:])
        # A uniform candidate represents many rows, an isolated one only itself.
        self._isolated += count
        weight = self._weights_of(isolated) * (uniform / (rows_of_weight - self._isolated))
        joined = search.extended(stream.x[isolated], weight, most)
        self.searched = max(self.searched, len(joined.rows))
        rhs = np.concatenate([candidates.rhs, stream.rhs(isolated)[0]])
        self._index = np.concatenate([index, isolated])
        return CandidateProblem(self._problem, joined, rhs, self._isolated, candidates)

    def _weighted_residuals(self, features: KernelFeatures, count: int) -> Array:
        """Return ``w e(x, x)`` (n,) of the rows, 0 for those that an earlier look shows to be small.

        Only the ranks of the values matter, and ``count`` of them.
        """
        stream, problem = self._stream, self._problem
        dtype, step = problem.sampled_precision(features), problem.step(features.rank)
        out = np.zeros(len(stream))
        some = max(int(_STILL_FAR * len(out)), _STILL_TIMES * count)
        far = None
        if self._last_residuals is not None and some < len(out):
            far = np.sort(np.argpartition(self._last_residuals, -some)[-some:])
        for rows, block in as_blocks(stream.x, step):
            place: slice | Index = rows
            if far is not None:  # whole blocks are read: single rows on disk would take longer
                place = far[slice(*np.searchsorted(far, (rows.start, rows.stop)))]
                block = block[place - rows.start]
            if not len(block):
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                residuals = features.of_rows(block, dtype, keep=False, sizes=False)[2]
            if not np.isfinite(residuals).all():  # beyond float32
                residuals = features.of_rows(block, EXACT, keep=False, sizes=False)[2]
            out[place] = residuals
        if stream.weights is not None:
            out *= stream.weights
        return out

    def _extend(self, search: LandmarkSearch, rank: int) -> None:
        if self._setting.landmarks == "uniform":
            order = generator(len(self._stream), Purpose.PROBE).permutation(len(search.rows))
            while search.rank < rank and search.trial_count < len(order):
                proposed = order[search.trial_count : search.trial_count + rank - search.rank]
                search.take(proposed, independent=True)
        else:
            search.grow(rank)

    def _candidates(self, most: int) -> Index:
        """Return rows of positive weight, drawn uniformly, in ascending order."""
        rows = self._rows_of_weight()
        largest = CANDIDATES if len(rows) > ALL_CANDIDATES else ALL_CANDIDATES
        size = int(np.clip(self._setting.budget // 4 // (8 * most), 2 * most, largest))
        if len(rows) <= size:
            return rows
        return np.sort(self.rng.choice(rows, size, replace=False))

    def _rows_of_weight(self) -> Index:
        weights = self._stream.weights
        return np.arange(len(self._stream)) if weights is None else np.flatnonzero(weights)

    def _weights_of(self, index: Index) -> Array:
        weights = self._stream.weights
        return np.ones(len(index)) if weights is None else weights[index]

    def _residual_rows(self) -> ResidualRows | None:
        """Return some rows of positive weight that are no candidates; None if there are none."""
        stream, rows, candidates = self._stream, self._rows_of_weight(), self._index
        if len(rows) == len(candidates):
            return None
        size = len(candidates) + _RESIDUAL_ROWS
        trial_rows = self._probe.choice(
            rows, min(size, len(rows)), replace=False
        )  # in random order
        index = np.sort(trial_rows[np.isin(trial_rows, candidates, invert=True)][:_RESIDUAL_ROWS])
        return ResidualRows(stream.x[index], stream.rhs(index)[0], self._weights_of(index))

    def search(self, x: HostArray, weight: Array, most: int) -> LandmarkSearch:
        """Return a search for landmarks among candidates ``x`` (m, d)."""
        offset = offset_of(self._problem.kernel, self._problem.backend, x)
        self.searched = max(self.searched, len(x))
        return LandmarkSearch(
            self._problem.backend, self._problem.kernel, x, weight, most, self.rng, offset
        )

    def more(
        self,
        features: KernelFeatures,
        residual_diagonal: Array,
        rank: int,
        importance: Array | None,
        grid_residual: Array,
    ) -> LandmarkSearch:
        """Return a search with more landmarks, drawn among the points with the largest residuals.

        ``importance`` is a further factor of the probability of each row; None if all rows count alike.
        ``grid_residual`` is the residual diagonal at the points of the grid.
        """
        size = int(np.clip(self._setting.budget // 4 // (8 * rank), rank, CANDIDATES))
        rows = self._draw_rows(
            residual_diagonal if importance is None else residual_diagonal * importance, size
        )
        candidates = [features.pivots, self._stream.x[rows]]
        weight = np.ones(len(rows)) if importance is None else importance[rows]
        counts = [np.ones(features.rank), weight]
        if self._setting.grid is not None:
            some = self._draw_rows(grid_residual, size // 4)
            candidates.append(self._setting.grid[some])
            counts.append(np.full(len(some), float(counts[1].max(initial=1.0))))
        search = self.search(np.concatenate(candidates), np.concatenate(counts), rank)
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


def _steps_to(rank: int) -> list[int]:
    """Return the numbers of landmarks at which rows are looked through, and ``rank`` itself at the end."""
    steps = [_LOOKED_THROUGH]
    while steps[-1] < rank:
        steps.append(_AGAIN * steps[-1])
    return [*steps[:-1], rank]
