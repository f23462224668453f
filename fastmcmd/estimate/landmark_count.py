"""How many landmarks a goal needs, and by which certificate: forecasts from errors at growing numbers.

The trace certificate is rigorous and needs one pass over the rows, but the trace falls slowly. Sampled
residuals often reach the goal with half of the landmarks, and need a second pass. `LandmarkCount` takes the
trace certificate unless it costs clearly more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fastmcmd.estimate.error_forecast import Forecast
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram.cost import entry_cost
from fastmcmd.solvers.base import CertificateKind
from fastmcmd.solvers.costs import EXACT_COST, PAIR_COST
from fastmcmd.solvers.residual_sample import sampled_rows

__all__ = ["KINDS", "LEAST_RANK", "LandmarkCount", "PassCost", "ranks_to_try"]

KINDS: dict[str, tuple[CertificateKind, ...]] = {
    "auto": ("rigorous", "sampled"),
    "rigorous": ("rigorous",),
    "sampled": ("sampled",),
}
# Trial ranks: 25, 32, 40, ... 256, 287, 323, ... 13004. A pass costs about their square.
_LADDER = tuple(round(2 ** (k / 6)) for k in (*range(28, 48, 2), *range(48, 83)))
LEAST_RANK = _LADDER[0]
_WORTH = 1.6  # largest cost of the trace certificate, relative to that of sampled residuals
_NEAR = (
    1.15  # ratio to the present number of landmarks up to which a forecast is taken without a look
)
# A step goes this share of the way to the forecast number of landmarks, on a logarithmic scale. Forecasts
# from few landmarks are rough, so it is at most about this factor.
_SHARE, _MOST_STEP = 0.8, 1.9


def ranks_to_try(start: int, end: int, counts: Sequence[LandmarkCount]) -> Iterator[int]:
    """Yield trial ranks as long as a count is undecided.

    Ranks far below all forecasts are left out, but none is more than about twice the one before.
    """
    last_rank = start
    for rank in [*(step for step in _LADDER if start <= step < end), end]:
        undecided = [count for count in counts if not count.decided]
        if not undecided:
            return
        forecast = min(count.forecast for count in undecided)
        step = (forecast / last_rank) ** _SHARE if last_rank else 0.0
        if rank == end or rank >= min(step, _MOST_STEP) * last_rank:
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
        The certificate that reaches the goal with ``landmarks``; None if none does yet.
    landmarks : int
        Number of landmarks that was settled: the present one, or one that is hardly larger.
    """

    def __init__(self, certificate: str, most: int, cost: PassCost) -> None:
        self._forecasts = {kind: Forecast(kind, most) for kind in KINDS[certificate]}
        self._cost = cost
        self._cannot_converge = False
        self.kind: CertificateKind | None = None
        self.landmarks = 0

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

    @property
    def power(self) -> float | None:
        """Power of the number of landmarks like which the error falls, at the end; None if unknown."""
        return None if self.kind is None else self._forecasts[self.kind].power

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
        if kind == "rigorous" and "sampled" in self._forecasts:
            self._forecasts["sampled"].add_trace(rank, error)

    def decide(self, rank: int, *, last: bool) -> None:
        """Choose a certificate at ``rank`` landmarks if one reaches the goal, or give up."""
        if self.decided:
            return
        for kind, one in self._forecasts.items():
            if one.within_goal(last=last) and (
                kind == "rigorous" or self._prefers_sampled(rank, last=last)
            ):
                self.kind, self.landmarks = kind, rank
                return
        near = self._near_goal(rank) if self._prefers_sampled(rank, last=last) else None
        if near is not None:
            self.kind, self.landmarks = "sampled", near
            return
        self._cannot_converge = all(one.cannot_converge for one in self._forecasts.values())

    def _near_goal(self, rank: int) -> int | None:
        """Return the number of landmarks for sampled residuals if it is hardly above ``rank``, else None.

        Another look at them would cost more than it tells.
        """
        sampled = self._forecasts.get("sampled")
        if sampled is None or not sampled.is_settled:
            return None
        count = sampled.landmarks_needed
        if count is None or count > min(_NEAR * rank, sampled.most):
            return None
        return math.ceil(count)

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
            return not trace.within_goal(last=last)
        if trace.landmarks_needed is None:
            return False
        dearer = self._cost.of("rigorous", max(trace.landmarks_needed, rank))
        return dearer > _WORTH * self._cost.of("sampled", rank)
