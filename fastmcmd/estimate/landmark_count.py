"""How many landmarks a goal needs, and by which certificate: forecasts from errors at growing numbers.

The trace certificate is rigorous and needs one pass over the rows, but the trace falls slowly. Sampled
residuals often reach the goal with half of the landmarks, and need a second pass. `LandmarkCount` takes the
trace certificate unless it costs clearly more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram.cost import entry_cost
from fastmcmd.solvers.base import CertificateKind
from fastmcmd.solvers.costs import EXACT_COST, PAIR_COST
from fastmcmd.solvers.residual_sample import sampled_rows

__all__ = [
    "KINDS", "LEAST_RANK", "TRACE_POWER", "Forecast", "LandmarkCount", "PassCost", "cannot_converge",
    "ranks_to_try", "slope",
]  # fmt: skip

KINDS: dict[str, tuple[CertificateKind, ...]] = {
    "auto": ("rigorous", "sampled"),
    "rigorous": ("rigorous",),
    "sampled": ("sampled",),
}
# Trial ranks: 25, 32, 40, ... 256, 287, 323, ... 13004. A pass costs about their square.
_LADDER = tuple(round(2 ** (k / 6)) for k in (*range(28, 48, 2), *range(48, 83)))
LEAST_RANK = _LADDER[0]
_LOOKED_AT = 60  # ranks from which the decay of the error is extrapolated
# A predicted error below this share of the goal is trusted.
_SURE = 0.7
_APART = 1.55  # ratio of two numbers of landmarks from which a decay is read
_WORTH = 1.6  # largest cost of the trace certificate, relative to that of sampled residuals
# Sampled errors fall like this power of the trace errors (1.1 to 1.2 measured). Single ones scatter by a
# factor of 3, trace errors do not: the ratios of this many octaves are averaged.
TRACE_POWER, _OCTAVES = 1.15, 2.0
# No error is predicted below this share of the forecast number of landmarks. Forecasts from few landmarks
# are rough, so a step is at most about this factor.
_NEAREST, _FARTHEST = 0.95, 1.9


def cannot_converge(
    before: tuple[int, float], now: tuple[int, float], most: int, kind: str
) -> bool:
    """Tell whether the error falls too slowly to reach the goal with the most landmarks.

    The decay of a trace slows down with the rank, and the decay of a sampled error with the logarithm of
    the rank: the line through the last two points is the most optimistic forecast.
    """
    rank, error = now
    if not 0.0 < error < math.inf:
        return error != 0.0
    remaining = most - rank if kind == "rigorous" else math.log(most / rank)
    return math.log(error) + 1.5 * slope(before, now, kind) * remaining > 0.0


def slope(before: tuple[int, float], now: tuple[int, float], kind: str) -> float:
    """Return the slope of the error's logarithm in the rank, or in the rank's logarithm."""
    (r0, e0), (r1, e1) = before, now
    if r1 <= r0 or not (0.0 < e0 < math.inf and 0.0 < e1 < math.inf):
        return 0.0  # no information
    fall = math.log(e1) - math.log(e0)
    return fall / (r1 - r0 if kind == "rigorous" else math.log(r1 / r0))


def ranks_to_try(start: int, end: int, counts: Sequence[LandmarkCount]) -> Iterator[int]:
    """Yield trial ranks as long as a count is undecided.

    Ranks far below all forecasts are left out, but none is more than about twice the one before.
    """
    last_rank = start
    for rank in [*(step for step in _LADDER if start <= step < end), end]:
        undecided = [count for count in counts if not count.decided]
        if not undecided:
            return
        least = min(_NEAREST * min(count.forecast for count in undecided), _FARTHEST * last_rank)
        if rank == end or rank >= least:
            last_rank = rank
            yield rank


@dataclass(frozen=True)
class PassCost:
    """Operations for each row of the passes that a certificate needs.

    Attributes
    ----------
    entry : float
        Operations for a kernel value.
    columns : int
        Number of right-hand sides.
    """

    entry: float
    columns: int

    @classmethod
    def of_problem(cls, problem: PartProblem) -> PassCost:
        """Return the cost of passes over the rows of a problem."""
        dim = int(problem.stream.x.shape[1])
        entry = entry_cost(problem.kernel, dim, problem.backend.name)
        return cls(entry, problem.stream.columns)

    def of(self, kind: str, rank: float) -> float:
        """Return the cost with this kind of certificate and number of landmarks; "sums" has none."""
        sums = rank * (self.entry + PAIR_COST * rank)
        if kind == "sums":
            return EXACT_COST * sums
        if kind == "rigorous":  # interpolation coefficients bound the rounding: half as much again
            return EXACT_COST * (sums + PAIR_COST / 2 * rank * rank)
        residuals = (rank + sampled_rows(rank)) * (self.entry + 2 * self.columns)
        return EXACT_COST * (sums + residuals)


@dataclass(eq=False)
class Forecast:
    """Predicted errors by one kind of certificate, relative to the goal, and what follows from them.

    Attributes
    ----------
    kind : str
        "rigorous" or "sampled".
    most : int
        Largest number of landmarks.
    """

    kind: CertificateKind
    most: int
    _looks: list[tuple[int, float]] = field(default_factory=list)
    # Logarithms of the ratios of sampled errors to the trace.
    _levels: list[tuple[int, float]] = field(default_factory=list)

    def add(self, rank: int, error: float, trace: float = 0.0) -> None:
        """Add the error that ``rank`` landmarks are predicted to leave.

        With a positive ``trace``, the error of the trace certificate, a sampled error is replaced by the
        average of such errors.
        """
        if self.kind == "sampled" and 0.0 < trace < math.inf and 0.0 < error < math.inf:
            decay = TRACE_POWER * math.log(trace)
            self._levels.append((rank, math.log(error) - decay))
            levels = [level for at, level in self._levels if at * 2**_OCTAVES >= rank]
            error = math.exp(sum(levels) / len(levels) + decay)
        self._looks.append((rank, error))

    @property
    def has_begun(self) -> bool:
        """Whether any error is known."""
        return bool(self._looks)

    @property
    def within_goal(self) -> bool:
        """Whether the last error is surely within the goal."""
        return bool(self._looks) and self._looks[-1][1] <= _SURE

    @property
    def _trend(self) -> tuple[tuple[int, float], tuple[int, float]] | None:
        """The last error, after one with far fewer landmarks: single errors scatter. None if unknown."""
        rank = self._looks[-1][0] if self._looks else 0
        before = [look for look in self._looks if _LOOKED_AT <= look[0] <= rank / _APART]
        return (before[-1], self._looks[-1]) if before else None

    @property
    def cannot_converge(self) -> bool:
        """Whether the last errors fall too slowly."""
        trend = self._trend
        return trend is not None and cannot_converge(*trend, self.most, self.kind)

    @property
    def landmarks_needed(self) -> float | None:
        """Number of landmarks that reach the goal if the error falls on as fast; None if unknown."""
        if self._trend is None:
            return None
        before, (rank, error) = self._trend
        if error <= _SURE:
            return float(rank)
        fall = slope(before, (rank, error), "rigorous")
        if fall >= 0.0:
            return math.inf
        return rank + math.log(_SURE / error) / fall


class LandmarkCount:
    """The number of landmarks and the certificate for one model, as predicted errors come in.

    Parameters
    ----------
    certificate : {"auto", "rigorous", "sampled"}
        Which kinds of certificate are allowed.
    most : int
        Largest number of landmarks.
    cost : PassCost
        Cost of the passes.

    Attributes
    ----------
    kind : str or None
        The certificate that reaches the goal with the present landmarks; None if none does yet.
    """

    def __init__(self, certificate: str, most: int, cost: PassCost) -> None:
        self._forecasts = {kind: Forecast(kind, most) for kind in KINDS[certificate]}
        self._cost = cost
        self._cannot_converge = False
        self.kind: CertificateKind | None = None

    @property
    def decided(self) -> bool:
        """Whether a certificate is chosen, or no number of landmarks is enough."""
        return self.kind is not None or self._cannot_converge

    @property
    def forecast(self) -> float:
        """Least number of landmarks with which a certificate may reach the goal; 0 if unknown."""
        alive = [
            one for one in self._forecasts.values() if one.has_begun and not one.cannot_converge
        ]
        return min((one.landmarks_needed or 0.0 for one in alive), default=0.0)

    def asks(self, kind: str, rank: int, *, last: bool) -> bool:
        """Tell whether the error by this kind of certificate at ``rank`` matters for the decision.

        ``last`` says that no more landmarks follow.
        """
        if self.decided or kind not in self._forecasts:
            return False
        return kind == "rigorous" or self._prefers_sampled(rank, last=last)

    def add(self, kind: CertificateKind, rank: int, error: float, trace: float = 0.0) -> None:
        """Add a predicted error, relative to the goal; see `Forecast.add` for ``trace``."""
        self._forecasts[kind].add(rank, error, trace)

    def decide(self, rank: int, *, last: bool) -> None:
        """Choose a certificate at ``rank`` landmarks if one reaches the goal, or give up."""
        if self.decided:
            return
        for kind, one in self._forecasts.items():
            if one.within_goal and (kind == "rigorous" or self._prefers_sampled(rank, last=last)):
                self.kind = kind
                return
        self._cannot_converge = all(one.cannot_converge for one in self._forecasts.values())

    def cheapest(self) -> tuple[float, CertificateKind] | None:
        """Return the forecast number of landmarks and its certificate, for one that is not decided."""
        forecasts = [
            (one.landmarks_needed, kind)
            for kind, one in self._forecasts.items()
            if not one.cannot_converge
        ]
        counts = [(count, kind) for count, kind in forecasts if count is not None]
        return min(counts, key=lambda one: self._cost.of(one[1], one[0]), default=None)

    def _prefers_sampled(self, rank: int, *, last: bool) -> bool:
        """Tell whether sampled residuals at ``rank`` cost clearly less than the trace certificate."""
        trace = self._forecasts.get("rigorous")
        if trace is None:
            return True
        if trace.cannot_converge or last:
            return not trace.within_goal
        if trace.landmarks_needed is None:
            return False
        dearer = self._cost.of("rigorous", max(trace.landmarks_needed, rank))
        return dearer > _WORTH * self._cost.of("sampled", rank)
