"""The choice of landmarks: which, and how many a goal needs, before any pass over all rows.

Landmarks are chosen among candidate rows. The candidates form a small problem of their own, whose
certificate at growing ranks predicts that of all rows; it may show that no affordable number is enough. If
the certificate of a pass misses the goal, the rows with the largest residuals become candidates for more
landmarks (block randomly pivoted Cholesky of the whole matrix, one pass for each block).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.estimate.candidate_problem import CandidateProblem, ResidualRows
from fastmcmd.estimate.landmark_count import KINDS, LandmarkCount, PassCost, ranks_to_try
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram import EXACT, KernelFeatures, offset_of
from fastmcmd.rows import Rows, as_blocks
from fastmcmd.solvers.base import CertificateKind
from fastmcmd.solvers.landmarks import LandmarkSearch

__all__ = [
    "ALL_CANDIDATES",
    "CANDIDATES",
    "FAR",
    "LOOKED_THROUGH",
    "LandmarkChoice",
    "candidates_at",
]

Index = NDArray[np.intp]

CANDIDATES = 10_000  # rows of the first search for landmarks, unless all are few enough
ALL_CANDIDATES = 20_000
# The first candidates, from which about so many landmarks come. The others join them after that.
_FIRST_CANDIDATES, _FEW_LANDMARKS = 4000, 256
_RESIDUAL_ROWS = 4000  # rows beside the candidates at which residuals are measured
# With so many landmarks all rows, in memory or on disk, are looked through for isolated ones. A fifth as
# many as there are candidates become candidates, too.
LOOKED_THROUGH, _LOOKED_THROUGH_ON_DISK, _ISOLATED = 25, 128, 5
_AGAIN = 4  # so many times more landmarks show others
_FURTHER, _LATE = 1.25, 2  # see `_looks_through`
_FAR_ROWS = 4000  # rows that are looked at again before a decision
# Rows among which isolated ones are looked for again: the largest of the last look. A share of all, and
# at least so many times the rows that become candidates. Residuals only fall as landmarks are added.
_STILL_FAR, _STILL_TIMES = 0.25, 4
_ROUNDED = 48  # landmarks from which rounding is looked at before the decision
# Largest ratio of the error by the trace to the true one (100 to 1,000 times, and more with landmarks that
# are almost exact).
_CAUTION = 1000.0
FAR = 0.5  # share of further landmarks that have the largest residuals


class LandmarkChoice:
    """The choice of landmarks for a problem, and of the certificate of each model.

    Attributes
    ----------
    expected : float
        Error that a number of landmarks which the options fix leaves at least; 0 if they fix none.
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
        # Rows of the candidates, which of them are isolated, and uniform candidates that join later.
        self._index, self._is_isolated = np.empty(0, dtype=np.intp), np.empty(0, dtype=bool)
        self._later = np.empty(0, dtype=np.intp)
        # Landmarks when isolated rows were looked for, and from which they are looked for next.
        on_disk = isinstance(self._stream.x, Rows)
        self._looked_at = 0
        self._next_look = _LOOKED_THROUGH_ON_DISK if on_disk else LOOKED_THROUGH
        self._last_residuals: NDArray[np.float32] | None = None  # of the last look, weighted
        self._rounding_seen = False
        self._counts: list[LandmarkCount] = []
        self.expected = 0.0
        self.notes: list[str] = []
        self.searched = 0

    @property
    def power(self) -> float | None:
        """Power of the number of landmarks like which errors fall, at the end; None if unknown."""
        return min((count.power for count in self._counts if count.power is not None), default=None)

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
            mean = float(candidates.search.residual_diagonal.mean())
            self.expected = self._problem.trace_error(mean) / _CAUTION
            return candidates.search.kernel_features(), self._kinds_at_rank(candidates)
        cost = PassCost.of_problem(self._problem)
        counts = [LandmarkCount(setting.certificate, most, cost) for _ in models]
        self._counts = counts
        for rank in ranks_to_try(0, most, counts):
            candidates = self._grown(candidates, rank, most)
            if not self._looked_at and self._looks_through(candidates.search.rank):
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
        settled = max(count.landmarks for count in counts)
        if settled > search.rank:
            candidates = self._grown(candidates, settled, most)
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
        if self._looked_at:
            self._extend(search, rank - int((rank - search.rank) * FAR))
            search.take_farthest(rank)
        self._extend(search, rank)
        return candidates

    def _first_search(self) -> tuple[LandmarkSearch, int]:
        """Return a search among candidates drawn uniformly, and the largest number of landmarks."""
        setting, stream = self._setting, self._stream
        most = setting.most if setting.rank is None else setting.rank
        index = self._candidates(most)
        most, self._uniform = min(most, len(index)), len(index)
        if self._setting.landmarks != "uniform" and len(index) > 2 * _FIRST_CANDIDATES:
            order = self.rng.permutation(index)
            index, self._later = np.sort(order[:_FIRST_CANDIDATES]), order[_FIRST_CANDIDATES:]
        self._index, self._is_isolated = index, np.zeros(len(index), dtype=bool)
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
        if float(predicted[asking].min()) <= 1.0:
            far = self._far_rows(rank)
            if far is not None:
                predicted = candidates.with_rows(kind, predicted, far)
                if float(predicted[asking].min()) > 1.0:
                    self._next_look = rank // _LATE  # before any more landmarks
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
        self._looked_at = search.rank
        while self._next_look <= search.rank:
            self._next_look *= _AGAIN
        if len(index) == rows_of_weight:
            return candidates
        later = self._later[:0]
        if search.rank >= _FEW_LANDMARKS:
            later, self._later = np.setdiff1d(self._later, index), later
        count = self._uniform // _ISOLATED
        residual_diagonal = self._weighted_residuals(search.kernel_features(), count)
        self._last_residuals = residual_diagonal.astype(np.float32)
        residual_diagonal[index] = residual_diagonal[later] = 0.0
        count = min(count, int(np.count_nonzero(residual_diagonal)))
        isolated = np.argpartition(residual_diagonal, -max(count, 1))[
            len(residual_diagonal) - count :
        ]
        further = np.concatenate([later, np.sort(isolated)])
        if not len(further):
            return candidates
        self._index = index = np.concatenate([index, further])
        is_isolated = np.concatenate([self._is_isolated, np.arange(len(further)) >= len(later)])
        self._is_isolated = is_isolated
        # A uniform candidate represents many rows, an isolated one only itself.
        single = int(is_isolated.sum())
        weight = self._weights_of(index)
        weight[is_isolated] *= (len(index) - single) / (rows_of_weight - single)
        joined = search.extended(stream.x[further], weight, most)
        self.searched = max(self.searched, len(joined.rows))
        rhs = np.concatenate([candidates.rhs, stream.rhs(further)[0]])
        return candidates.joined(joined, rhs, is_isolated)

    def _far_rows(self, rank: int) -> ResidualRows | None:
        """Return the rows that landmarks missed most when all were looked through, but for the candidates.

        A decision that overlooks them costs another pass. None if they were looked through just before.
        """
        stream, last = self._stream, self._last_residuals
        if last is None or rank < _FURTHER * self._looked_at:
            return None
        count = min(_FAR_ROWS, len(last) - len(self._index))
        if count <= 0:
            return None
        last[self._index] = 0.0
        index = np.sort(np.argpartition(last, -count)[-count:])
        total = len(last) if stream.weights is None else float(stream.weights.sum())
        weights = self._weights_of(index) / total
        return ResidualRows(stream.x[index], stream.rhs(index)[0], weights)

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
        """Return some rows of positive weight, no uniform candidates; None if all are candidates.

        Isolated candidates may be among them: their residuals are the largest.
        """
        stream, rows = self._stream, self._rows_of_weight()
        uniform = self._index[~self._is_isolated]
        if len(rows) == len(uniform):
            return None
        size = min(len(uniform) + _RESIDUAL_ROWS, len(rows))
        trial_rows = self._probe.choice(rows, size, replace=False)  # in random order
        index = np.sort(trial_rows[np.isin(trial_rows, uniform, invert=True)][:_RESIDUAL_ROWS])
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
    steps = [LOOKED_THROUGH]
    while steps[-1] < rank:
        steps.append(_AGAIN * steps[-1])
    return [*steps[:-1], rank]


def candidates_at(rank: int, n: int) -> int:
    """Return the number of candidates among ``n`` rows in memory at the last of ``rank`` landmarks.

    That is without limits of memory, and with isolated rows.
    """
    uniform = n if n <= ALL_CANDIDATES else CANDIDATES
    if uniform <= 2 * _FIRST_CANDIDATES:
        return uniform
    isolated = uniform // _ISOLATED if rank >= LOOKED_THROUGH else 0
    first = uniform if rank > _FEW_LANDMARKS else _FIRST_CANDIDATES
    return min(n, first + isolated)
