"""Forecasts of the errors that landmarks leave, from errors at smaller numbers of landmarks.

The trace certificate falls smoothly. Sampled errors scatter, and fall like a power of it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from fastmcmd.solvers.base import CertificateKind

__all__ = ["TRACE_POWER", "Forecast", "SampledErrors", "TraceErrors", "cannot_converge", "slope"]

_LOOKED_AT = 60  # landmarks from which the decay of the error is extrapolated
_APART = 1.55  # ratio of two numbers of landmarks from which a decay is read
# A predicted error up to this share of the goal is trusted. With the most landmarks a pass is tried up to
# another: what truncation of the output features leaves of the tolerance comes on top of the goal. The
# first sampled errors must be smaller, before their scatter is averaged.
_SURE, _HOPEFUL = 0.88, 1.1
_SURE_AT_FIRST = 0.5, 0.7
# Power of the number of landmarks by which the slope of a trace grows, if it is not known yet, and limits.
_USUAL_CURVATURE, _LEAST_CURVATURE, _MOST_CURVATURE = 0.5, 0.05, 2.0
# Usual power of the trace like which sampled errors fall, and its standard deviation from problem to
# problem; standard deviation of the logarithm of a single error (1.1 to 2 measured, and 0.3).
TRACE_POWER, _POWER_SPREAD, _SCATTER = 1.3, 0.4, 0.3
# Ratio of a forecast to the most landmarks from which these are not enough: a power of their ratio to the
# present number, up to a limit.
_DOUBT, _MOST_DOUBT = 0.3, 1.5
_LATE = 0.5  # share of the most landmarks from which that alone is enough
_OCTAVES = 2.0  # of landmarks, whose errors count


def cannot_converge(
    before: tuple[int, float], now: tuple[int, float], most: int, kind: str
) -> bool:
    """Tell whether the error falls too slowly to reach the goal with the most landmarks.

    The logarithm of a trace falls ever more slowly in the rank. That of a sampled error falls about like a
    line in the logarithm of the rank. One and a half times the slope through the last two points is an
    optimistic forecast.
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


class TraceErrors:
    """Errors of the trace certificate at growing numbers of landmarks, and where they go from there.

    On logarithmic scales the curve falls ever faster: its slope grows like a power of the number of
    landmarks, from 0 for a power law to 1 for an exponential decay.
    """

    def __init__(self) -> None:
        self._errors: dict[int, float] = {}

    def add(self, rank: int, error: float) -> None:
        """Add the error at ``rank`` landmarks."""
        if 0.0 < error < math.inf:
            self._errors[rank] = error

    def landmarks(self, share: float) -> float | None:
        """Return the number of landmarks that leave this share of the last error; None if unknown."""
        decay = self._decay
        if decay is None:
            return None
        rank, steepness, curvature = decay
        return rank * (1 - curvature * math.log(share) / steepness) ** (1 / curvature)

    @property
    def power(self) -> float | None:
        """Power of the number of landmarks like which errors fall at the last number; None if unknown."""
        decay = self._decay
        return None if decay is None else decay[1]

    @property
    def _decay(self) -> tuple[int, float, float] | None:
        """The last number of landmarks, the power there, and the power of it like which that grows."""
        points = list(self._errors.items())[-1:]
        for point in reversed(self._errors.items()):
            if point[0] * _APART <= points[-1][0]:
                points.append(point)
        slopes = [-slope(before, now, "sampled") for now, before in itertools.pairwise(points[:3])]
        if not slopes or min(slopes) <= 0.0:
            return None
        rank, curvature = points[0][0], _USUAL_CURVATURE
        if len(slopes) == 2:  # the slopes are those half-way between the points
            apart = math.log(rank / points[2][0]) / 2
            curvature = math.log(slopes[0] / slopes[1]) / apart
            curvature = min(max(curvature, _LEAST_CURVATURE), _MOST_CURVATURE)
        return rank, slopes[0] * (rank / points[1][0]) ** (curvature / 2), curvature


class SampledErrors:
    """Errors of the sampled certificate at growing numbers of landmarks, as a power of those of the trace.

    Single errors scatter, those of the trace do not. Power and level are fitted to the errors of the last
    octaves; the power is drawn towards the usual one, as long as they tell little of it.
    """

    def __init__(self) -> None:
        self._points: list[tuple[int, float, float]] = []
        self.power = TRACE_POWER

    @property
    def has_begun(self) -> bool:
        """Whether any error is known."""
        return bool(self._points)

    def add(self, rank: int, error: float, trace: float) -> float:
        """Add the error at ``rank`` landmarks; return what the fit gives there."""
        self._points.append((rank, math.log(trace), math.log(error)))
        recent = [point for point in self._points if point[0] * 2**_OCTAVES >= rank]
        mean_trace = sum(trace for _, trace, _ in recent) / len(recent)
        mean_error = sum(error for *_, error in recent) / len(recent)
        squares = sum((trace - mean_trace) ** 2 for _, trace, _ in recent)
        products = sum((trace - mean_trace) * (error - mean_error) for _, trace, error in recent)
        certainty = (_SCATTER / _POWER_SPREAD) ** 2
        self.power = (products + certainty * TRACE_POWER) / (squares + certainty)
        return math.exp(mean_error + self.power * (math.log(trace) - mean_trace))


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
    _sampled: SampledErrors = field(default_factory=SampledErrors)
    _trace: TraceErrors = field(default_factory=TraceErrors)

    def add(self, rank: int, error: float, trace: float = 0.0) -> None:
        """Add the error that ``rank`` landmarks are predicted to leave.

        With a positive ``trace``, the error of the trace certificate, a sampled error is replaced by what
        all of them together suggest.
        """
        if self.kind == "rigorous":
            trace = error
        elif 0.0 < trace < math.inf and 0.0 < error < math.inf:
            error = self._sampled.add(rank, error, trace)
        self.add_trace(rank, trace)
        self._looks.append((rank, error))

    def add_trace(self, rank: int, error: float) -> None:
        """Add an error of the trace certificate, along which sampled errors fall."""
        self._trace.add(rank, error)

    @property
    def power(self) -> float | None:
        """Power of the number of landmarks like which errors fall at the last number; None if unknown."""
        power = self._trace.power
        return power if power is None or self.kind == "rigorous" else self._sampled.power * power

    @property
    def has_begun(self) -> bool:
        """Whether any error is known."""
        return bool(self._looks)

    def within_goal(self, *, last: bool = False) -> bool:
        """Tell whether the last error is surely within the goal; ``last`` if no more landmarks follow."""
        if not self._looks:
            return False
        count, sure = len(self._looks), _HOPEFUL if last else _SURE
        if self.kind == "sampled" and not last and not self.is_settled:
            sure = _SURE_AT_FIRST[count - 1]
        return self._looks[-1][1] <= sure

    @property
    def is_settled(self) -> bool:
        """Whether there are enough errors to average their scatter."""
        return len(self._looks) > len(_SURE_AT_FIRST)

    @property
    def _trend(self) -> tuple[tuple[int, float], tuple[int, float]] | None:
        """The last error, after one with far fewer landmarks: single errors scatter. None if unknown."""
        rank = self._looks[-1][0] if self._looks else 0
        before = [look for look in self._looks if _LOOKED_AT <= look[0] <= rank / _APART]
        return (before[-1], self._looks[-1]) if before else None

    @property
    def cannot_converge(self) -> bool:
        """Whether the last errors fall too slowly.

        Sampled errors must also be forecast to need more landmarks. With few landmarks the forecast alone
        is not enough: some rows may cause most of the error until they become landmarks.
        """
        trend = self._trend
        if trend is None:
            return False
        falls_slowly = cannot_converge(*trend, self.most, self.kind)
        count = self.landmarks_needed if self._sampled.has_begun else None
        if count is None:
            return falls_slowly
        share = self._looks[-1][0] / self.most
        is_late = self.is_settled and share >= _LATE
        too_many = count > min(_MOST_DOUBT, share**-_DOUBT) * self.most
        return too_many and (is_late or falls_slowly)

    @property
    def landmarks_needed(self) -> float | None:
        """Number of landmarks that reach the goal if the error falls on as fast; None if unknown."""
        if self._looks and self._looks[-1][1] <= _SURE:
            return float(self._looks[-1][0])
        if self._sampled.has_begun:
            return self._trace.landmarks((_SURE / self._looks[-1][1]) ** (1 / self._sampled.power))
        if self._trend is None:
            return None
        before, (rank, error) = self._trend
        fall = slope(before, (rank, error), "rigorous")
        if fall >= 0.0:
            return math.inf
        return rank + math.log(_SURE / error) / fall
