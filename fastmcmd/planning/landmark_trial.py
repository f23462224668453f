"""A search for landmarks among some rows, as a fit would make it among more, for plans."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.base import Backend
from fastmcmd.estimate.candidate_problem import CandidateProblem, ResidualRows
from fastmcmd.estimate.landmark_choice import CANDIDATES, FAR, LOOKED_THROUGH
from fastmcmd.estimate.landmark_count import (
    KINDS,
    LEAST_RANK,
    LandmarkCount,
    PassCost,
    ranks_to_try,
)
from fastmcmd.estimate.lowrank import Term
from fastmcmd.estimate.lowrank_fit import Certification
from fastmcmd.estimate.lowrank_form import COVERED_SHARE, POOL
from fastmcmd.estimate.lowrank_pass import Passes
from fastmcmd.estimate.part_problem import LowRankSetting, PartProblem
from fastmcmd.estimate.row_stream import RowStream, StackedRowStream, goal_of_rows
from fastmcmd.estimate.task import Task
from fastmcmd.gram import EXACT, KernelFeatures, offset_of
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.kernels import Kernel
from fastmcmd.planning.observed_outputs import error_of
from fastmcmd.planning.rates import rate
from fastmcmd.planning.subsample import Subsample
from fastmcmd.planning.timing import seconds_a_row, seconds_of
from fastmcmd.solvers.base import CertificateKind
from fastmcmd.solvers.costs import EXACT_COST
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.solvers.residual_sample import sampled_rows

__all__ = ["LandmarkTrial", "Search"]

_SHARE = 8  # at most 1 / 8 of the rows are trial landmarks; more would merely reproduce the rows
_TIMED, _TIMED_LANDMARKS = 2048, 128  # rows and landmarks of a pass that is timed
_ROUNDED_ROWS = 1000  # rows of a pass that shows the rounding
_TIMES = 1.3  # tolerated ratio between errors at candidate rows and at other rows
_RESIDUAL_SHARE = 0.25  # share of the rows that are no candidates: errors are sampled there


@dataclass(frozen=True)
class Search:
    """The result of a search for landmarks.

    Attributes
    ----------
    landmarks : int
        Number of landmarks that the fit would use; 0 if it would not take the low-rank form.
    kind : str
        Kind of certificate: "rigorous" or "sampled".
    seconds : float
        Time of the search, and of predictions if the fit would take the low-rank form.
    reason : str
        Reason for the result, for the user.
    a_row : tuple of float
        Seconds for each row: of the passes that sum the normal equations, and of those that give residuals
        and values.
    bounds_rounding : bool
        Whether the first pass bounds the rounding of features.
    searched : int
        Number of rows that a fit would search, whose mean features it needs.
    """

    landmarks: int
    kind: CertificateKind = "rigorous"
    seconds: float = 0.0
    reason: str = ""
    a_row: tuple[float, float] = (0.0, 0.0)
    bounds_rounding: bool = False
    searched: int = 0


class _Stream(StackedRowStream):
    """Some rows with their outputs, which represent all ``n`` rows."""

    def __init__(self, streams: list[RowStream], n: int) -> None:
        super().__init__(streams)
        self._n = n

    def __len__(self) -> int:
        return self._n


class LandmarkTrial:
    """A search for landmarks among some rows."""

    def __init__(
        self, rows: Subsample, backend: Backend, kernel: Kernel, setting: LowRankSetting, lam: float
    ) -> None:
        self._rows, self._setting, self._lam = rows, setting, lam
        start, outputs = time.perf_counter(), 3 * len(rows)
        self._outputs = rows.features()[0]
        # Seconds in which the fit chooses features of outputs.
        self.choosing = (time.perf_counter() - start) * 2 * min(rows.n, POOL) / outputs
        streams = [RowStream(list(rows.samples(lam)), self._outputs, True)]
        stream = _Stream(streams, rows.n)
        terms = [Term(slice(0, stream.columns), lam, 1.0)]
        self._problem = PartProblem.of(stream, terms, backend, kernel, setting)
        most, count = setting.most, len(rows)
        self._end = most if count == rows.n else min(most, max(LEAST_RANK, count // _SHARE))
        residual_count = 0 if count == rows.n else int(_RESIDUAL_SHARE * count)
        candidates = rows.x[residual_count:]
        self._search = LandmarkSearch(
            # A limit above the trial ranks: a search that reaches its limit counts as exhausted.
            backend, kernel, candidates, np.ones(len(candidates)),
            max(self._end + 1, setting.rank or 0), generator(rows.n, Purpose.LANDMARKS),
            offset_of(kernel, backend, rows.x),
        )  # fmt: skip
        rhs, _ = stream.rhs(np.arange(count))
        self._candidates = CandidateProblem(self._problem, self._search, rhs[residual_count:])
        if residual_count:
            at = ResidualRows(
                rows.x[:residual_count], rhs[:residual_count], np.ones(residual_count)
            )
            self._candidates.residual_rows = at
        self._has_far_rows = False
        self._predicted: dict[tuple[int, CertificateKind], float] = {}
        self.searching = 0.0  # seconds

    def predicting(self, search: Search, task: Task) -> float:
        """Return the seconds of predictions, as far as the passes that are timed lack them."""
        outcomes, n = self._rows.outcomes, self._rows.n
        if outcomes is None or outcomes.features is None:
            return 0.0
        passes = 1 + (search.kind == "sampled")
        if outcomes.is_drawn:
            timed_draws = int(self._rows.outputs()[1].shape[1])
            return passes * n * outcomes.seconds_of_draws(timed_draws)
        block = self._setting.block_rows(search.landmarks, self._outputs.rank, self._rows.dim)
        goal = goal_of_rows(outcomes.features, task, self._lam)
        expected = outcomes.expectations(n, min(n, block), goal)
        # Another pass measures errors of integrals, and one more looks for outputs that features miss.
        if outcomes.integrates:
            missing = error_of(expected.residuals, task, self._lam)
            passes += 1 + (missing > COVERED_SHARE * task.options.tol)
        count = passes * n + min(n, CANDIDATES) if outcomes.sites is None else outcomes.sites
        return outcomes.choosing + count * expected.a_row

    @property
    def rank(self) -> int:
        """Number of landmarks so far, at least 1."""
        return max(1, self._search.rank)

    @property
    def candidate_count(self) -> int:
        """Number of rows that are candidates for landmarks."""
        return len(self._search.rows)

    def result(self) -> Search:
        """Return the result of the search."""
        setting = self._setting
        if setting.rank is not None:
            return self._of_rank(setting.rank)
        landmark_count, kind = self._climb()
        bounds = kind == "rigorous"
        if landmark_count is None or landmark_count > setting.most:
            reason = f"{setting.most:,} landmarks seem not enough for tol"
            kind = KINDS[setting.certificate][-1]
            return Search(0 if setting.give_up else setting.most, kind, reason=reason)
        reason = f"{landmark_count:,} landmarks seem enough ({kind} bound)"
        if setting.give_up:
            kind, rounded = self._with_rounding(kind)
            reason = f"{landmark_count:,} landmarks seem enough ({kind} bound)"
            if rounded:
                reason = f"rounding at {landmark_count:,} landmarks would leave more than tol"
                return Search(0, reason=reason)
        return Search(landmark_count, kind, reason=reason, bounds_rounding=bounds)

    def _with_rounding(self, kind: CertificateKind) -> tuple[CertificateKind, bool]:
        """Return the certificate that a pass would end with, and whether rounding alone exceeds the goal.

        Where the bound on errors does, residuals are measured if the options allow that.
        """
        error = float(self._candidates.rounding_errors()[0])
        if kind == "rigorous" and self._error(kind) <= 1.0:
            error += self._error(kind)
        if error <= 1.0:
            return kind, False
        if "sampled" not in KINDS[self._setting.certificate]:
            return kind, True
        error = self._error_of_pass()
        # Residuals of fewer rows scatter more.
        spread = math.sqrt(self._rows.n / min(len(self._rows), _ROUNDED_ROWS))
        return "sampled", error > max(1.0, _TIMES * self._error("sampled") * spread)

    def _error_of_pass(self) -> float:
        """Return the sampled error of a pass over some rows, relative to the goal."""
        rows, features = self._rows.some(_ROUNDED_ROWS), self._search.kernel_features()
        setting = replace(self._setting, certificate="sampled")
        problem = replace(self._problem, stream=self._stream_of(rows), setting=setting)
        passes = Passes(problem, Progress(False, setting.goal), None)
        certification = Certification(problem, {0: "sampled"}, passes)
        return float(certification.of_pass(features, last=True)[2].errors[0])

    def _stream_of(self, rows: Subsample, draws: int | None = None) -> StackedRowStream:
        samples = list(rows.samples(self._lam, draws))
        return StackedRowStream([RowStream(samples, self._outputs, True)])

    def pass_seconds(self, search: Search) -> tuple[float, float]:
        """Return the seconds for each row: of the passes that sum the normal equations, and of values.

        On the host they are measured with few landmarks, and operations give those of further ones.
        """
        landmarks = search.landmarks
        if self._problem.backend.on_device:
            return self._measurement(search, landmarks)
        few = min(landmarks, _TIMED_LANDMARKS)
        sums, values = self._measurement(search, few)
        more, fewer = self._by_operations(search, landmarks), self._by_operations(search, few)
        return sums + more[0] - fewer[0], values + more[1] - fewer[1]

    def _measurement(self, search: Search, landmarks: int) -> tuple[float, float]:
        rng, problem, rows = generator(0, Purpose.PLAN), self._problem, self._rows
        kernel, backend = problem.kernel, problem.backend
        pivots = rows.x[rng.integers(0, len(rows), landmarks)]
        offset, outcomes = offset_of(kernel, backend, rows.x), rows.outcomes
        # Expectations are counted apart.
        draws = None if outcomes is None or outcomes.is_drawn else 1
        features = KernelFeatures(kernel, pivots, np.eye(landmarks), backend, offset)

        def seconds(count: int) -> float:
            part = replace(problem, stream=self._stream_of(rows.some(count), draws))
            passes = Passes(part, Progress(False, problem.setting.goal), None)
            sizes = search.bounds_rounding
            return seconds_of(lambda: passes.sums(features, EXACT, sizes=sizes))

        most = min(len(rows), _TIMED)
        sums = seconds_a_row(seconds, most)  # small dense problems take time whatever the rows
        at, some = rng.standard_normal((landmarks, problem.stream.columns)), rows.x[:most]
        values = seconds_of(lambda: features.combine(some, at, EXACT)) / most
        if search.kind == "sampled":  # of each row with the rows whose residuals are measured
            values *= 1 + sampled_rows(search.landmarks) / landmarks
        return sums, values

    def _by_operations(self, search: Search, landmarks: int) -> tuple[float, float]:
        problem, cost = self._problem, PassCost.of_problem(self._problem)
        per_second = rate(problem.backend, problem.kernel, self._rows, cost.columns, FLOAT32)
        sums = cost.of("rigorous" if search.bounds_rounding else "sums", landmarks)
        values = EXACT_COST * landmarks * (cost.entry + 2 * cost.columns)
        return sums / per_second, values / per_second

    def _of_rank(self, rank: int) -> Search:
        """Return the result for a number of landmarks that the options fix."""
        self._extend(min(rank, len(self._rows)))
        kind = KINDS[self._setting.certificate][-1]
        if self._setting.certificate == "auto" and self._error("rigorous") <= 1.0:
            kind = "rigorous"
        bounds = kind == "rigorous"
        return Search(rank, kind, reason="the rank asked for", bounds_rounding=bounds)

    def _error(self, kind: CertificateKind) -> float:
        place = self._search.rank, kind
        if place not in self._predicted:
            start = time.perf_counter()
            self._predicted[place] = float(self._candidates.errors(kind)[0])
            self.searching += time.perf_counter() - start
        return self._predicted[place]

    def _trace_error(self) -> float:
        """Return the error of the trace certificate; as in the fit, a rough one far above the goal."""
        start = time.perf_counter()
        rough = self._candidates.rough_errors()
        self.searching += time.perf_counter() - start
        return self._error("rigorous") if rough is None else float(rough[0])

    def _extend(self, rank: int) -> None:
        start, search = time.perf_counter(), self._search
        if self._setting.landmarks == "uniform":  # the rows are in random order
            while search.rank < rank and search.trial_count < len(search.rows):
                stop = min(search.trial_count + rank - search.rank, len(search.rows))
                search.take(np.arange(search.trial_count, stop), independent=True)
        else:
            if self._has_far_rows:
                search.grow(rank - int((rank - search.rank) * FAR))
                search.take_farthest(rank)
            search.grow(rank)
            if search.rank >= LOOKED_THROUGH and not self._has_far_rows:
                self._join_far_rows()
        self.searching += time.perf_counter() - start

    def _join_far_rows(self) -> None:
        """Let rows far from all others be candidates, too: each of them needs a landmark of its own."""
        self._has_far_rows = True
        far, count = self._rows.farthest(), len(self._search.rows)
        if count == self._rows.n or not len(far):
            return
        # A random row represents many rows, a far one only itself.
        weight = np.append(np.ones(count), np.full(len(far), count / self._rows.n))
        self._search = self._search.extended(far, weight, self._search.most)
        # Their outputs are those of any rows.
        rhs = np.concatenate([self._candidates.rhs, self._candidates.rhs[: len(far)]])
        at = self._candidates.residual_rows
        self._candidates = self._candidates.joined(self._search, rhs, np.arange(len(rhs)) >= count)
        self._candidates.residual_rows = at

    def _climb(self) -> tuple[int | None, CertificateKind]:
        """Return how many landmarks the goal needs, and by which certificate; None if no number is enough.

        If the rows are too few for the last landmarks, the error is extrapolated at its rate of decay.
        """
        end, setting = self._end, self._setting
        cost = PassCost.of_problem(self._problem)
        count = LandmarkCount(setting.certificate, setting.most, cost)
        for rank in ranks_to_try(self._search.rank, end, [count]):
            self._extend(rank)
            search = self._search
            last = search.exhausted or rank == setting.most
            trace = self._trace_error()
            for kind in KINDS["auto"]:
                if count.asks(kind, search.rank, last=last):
                    error = trace if kind == "rigorous" else self._error(kind)
                    count.add(kind, search.rank, error, trace)
            count.decide(search.rank, last=last)
            if count.kind is not None:
                return count.landmarks, count.kind
            if last or search.rank < rank:
                return None, "rigorous"
        best = None if count.decided else count.cheapest()
        return (None, "rigorous") if best is None else (math.ceil(min(best[0], 1e9)), best[1])
