"""Reliability of probabilities of an event by isotonic regression, with bands of a calibrated model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import HostArray, NanPolicy, RandomState
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.checks import as_float, check_choice, check_count
from fastmcmd._base.docstrings import entries, with_shared_parameters
from fastmcmd._base.plotted import Plotted
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import aligned
from fastmcmd.errors import RowError
from fastmcmd.metrics.count_bands import check_level
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["IsotonicReliability", "band_parameters", "exceedance_reliability", "isotonic"]

_POINTS = 200  # of the band at most
_TAIL = 0.005  # of the pointwise quantiles in which deviations are measured
_NUMBERS = 1 << 18  # simulated at a time
_FEW_TIED = (
    8  # rows per distinct probability, up to which events are drawn by row, not by probability
)
_ROUNDING = 1e-12  # of frequencies
_TABLE_LINES = 12  # lines of a table

band_parameters = with_shared_parameters(
    entries("""
level : float, default 0.95
    Probability with which the band holds the whole curve of a calibrated model.
resamples : int, default 1000
    Number of simulated calibrated outcomes behind the band; 0 computes none. The time grows with rows times
    resamples: 0.5 CPU seconds for 100,000 rows by default, 5 with weights.
random_state : int, numpy.random.Generator or None, default 0
    Source of the simulated outcomes.
""")
)


@dataclass(frozen=True, eq=False, repr=False)
class IsotonicReliability(Plotted):
    """Frequency of an event as an increasing function of its predicted probability.

    Attributes
    ----------
    probability : ndarray (k,)
        Distinct predicted probabilities, ascending.
    frequency : ndarray (k,)
        Their recalibrated values: the isotonic regression of the event on its probability.
    weight : ndarray (k,)
        Weight of the rows with each probability (without weights, their number).
    grid, low, high : ndarray (g,)
        Probabilities, at most 200 of them, and the band there. It holds the whole curve of a calibrated
        model with probability ``level``. Empty without resamples.
    level : float
        Level of the band.
    p_value : float
        P-value of calibration, by the largest deviation relative to the band; NaN without resamples.
    score : float
        Mean of ``(p - event)^2``, the Brier score, which is miscalibration - discrimination + uncertainty.
    miscalibration, discrimination, uncertainty : float
        What recalibration gains; what recalibrated probabilities gain over the overall frequency; and the
        score of the overall frequency.
    n : int
        Rows.
    event : str
        The event.
    """

    picture: ClassVar[str] = "isotonic_reliability"
    probability: Array
    frequency: Array
    weight: Array
    grid: Array
    low: Array
    high: Array
    level: float
    p_value: float
    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    n: int
    event: str

    def to_dict(self) -> dict[str, float]:
        """Return the terms of the score and the p-value by name."""
        names = ("score", "miscalibration", "discrimination", "uncertainty", "p_value")
        return {name: float(getattr(self, name)) for name in names}

    def table(self) -> str:
        """Return probabilities, frequencies and the band as text; long curves are thinned."""
        rows = [["probability", "frequency", f"{self.level:.0%} band"]]
        for j in np.unique(np.linspace(0, len(self.grid) - 1, _TABLE_LINES).round().astype(int)):
            at = self.grid[j]
            frequency = self.frequency[np.searchsorted(self.probability, at)]
            band = f"{self.low[j]:.4f} to {self.high[j]:.4f}"
            rows.append([f"{at:.4f}", f"{frequency:.4f}", band])
        return aligned(rows)

    def __repr__(self) -> str:
        terms = ", ".join(f"{name} {value:.4g}" for name, value in self.to_dict().items())
        return f"IsotonicReliability of {self.event}, {self.n:,} rows: {terms}"


def isotonic(
    probability: Array,
    occurred: HostArray,
    weights: Array | None,
    event: str,
    *,
    level: float,
    resamples: int,
    random_state: RandomState,
) -> IsotonicReliability:
    """Return the reliability of checked probabilities (n,) of an event that happened (n,) or not."""
    level, resamples = check_level(level), check_count(resamples, "resamples", least=0)
    n = len(probability)
    distinct, place = np.unique(probability.astype(np.float64), return_inverse=True)
    count = np.bincount(place, minlength=len(distinct))
    weight = np.bincount(place, weights, len(distinct)).astype(np.float64)
    positive = weight > 0
    if not positive.all():
        row = positive[place]
        return isotonic(
            probability[row], occurred[row], None if weights is None else weights[row], event,
            level=level, resamples=resamples, random_state=random_state,
        )  # fmt: skip
    factors = np.ones(n) if weights is None else weights

    def curves(events: Array) -> Array:
        """Return the recalibrated probabilities (b, k) from the weight of events at each."""
        values = np.divide(events, weight)
        _core.isotonic_rows(values, weight, np.empty(len(weight), np.int64), np.empty(len(weight)))
        return np.clip(values, 0.0, 1.0, out=values)

    def events_of(masses: Array) -> Array:
        """Return the weight of events at each distinct probability (b, k) from that of rows (b, n)."""
        bins = place + len(distinct) * np.arange(len(masses))[:, None]
        sums = np.bincount(bins.ravel(), masses.ravel(), len(masses) * len(distinct))
        return sums.reshape(len(masses), -1).astype(np.float64)

    observed = events_of((factors * occurred)[None])[0]
    frequency = curves(observed[None])[0]
    total = weight.sum()
    overall = observed.sum() / total

    def score(value: ArrayLike) -> float:
        """Return the Brier score of a probability for each distinct one."""
        values = np.broadcast_to(value, weight.shape)
        return float((observed * (1 - values) ** 2 + (weight - observed) * values**2).sum() / total)

    brier, recalibrated, unconditional = score(distinct), score(frequency), score(overall)
    grid_places = np.unique(np.linspace(0, len(distinct) - 1, _POINTS).round().astype(np.intp))
    grid, low, high, p_value = distinct[grid_places], np.empty(0), np.empty(0), float("nan")
    if resamples:
        rng = generator(random_state, Purpose.NULL)
        if weights is None and n <= _FEW_TIED * len(distinct):
            simulated = _simulated_by_row(rng, distinct, count, grid_places, resamples)
        else:
            simulated = np.empty((resamples, len(grid_places)))
            for draws in row_blocks(resamples, max(1, _NUMBERS // n)):
                draw_count = draws.stop - draws.start
                if weights is None:
                    shape = (draw_count, len(distinct))
                    events = rng.binomial(count, distinct, shape).astype(np.float64)
                else:
                    events = events_of(factors * (rng.random((draw_count, n)) < probability))
                simulated[draws] = curves(events)[:, grid_places]
        low, high, p_value = _band(simulated, frequency[grid_places], level)
    return IsotonicReliability(
        distinct, frequency, weight, grid if resamples else np.empty(0), low, high, level, p_value,
        brier, brier - recalibrated, unconditional - recalibrated, unconditional, n, event,
    )  # fmt: skip


def _simulated_by_row(
    rng: np.random.Generator, distinct: Array, count: HostArray, places: HostArray, resamples: int
) -> Array:
    """Return recalibrated probabilities (b, g) at some places of distinct ones, from calibrated events.

    An event of probability p is drawn from one random byte and, where that equals the first byte of p, from
    one further number. Events come first among rows of equal probability: the regression of rows then is
    constant there, and equals that of the distinct probabilities.
    """
    n = int(count.sum())
    leading = np.minimum(np.floor(256 * distinct), 255.0)  # 255 and a remainder of 1 for p = 1
    remainder = np.repeat(256 * distinct - leading, count)
    leading = np.repeat(leading.astype(np.uint8), count)
    starts = np.cumsum(count) - count
    tied, first_rows = count > 1, starts[places]
    tied_starts, tied_count = starts[tied], count[tied]
    rows, sums = np.empty((2, n // 2 + 2), np.int64)
    bits = np.zeros(8 * -(-n // 64), np.uint8)
    words = bits.view("<u8")
    simulated = np.empty((resamples, len(places)))
    for fits in simulated:
        numbers = np.frombuffer(rng.bytes(n), np.uint8)
        events = numbers < leading
        undecided = np.flatnonzero(numbers == leading)
        events[undecided] = rng.random(len(undecided)) < remainder[undecided]
        _core.events_first(events.view(np.uint8), tied_starts, tied_count)
        bits[: -(-n // 8)] = np.packbits(events, bitorder="little")
        _core.isotonic_bits(words.astype(np.uint64, copy=False), n, first_rows, rows, sums, fits)
    return simulated


def _band(simulated: Array, observed: Array, level: float) -> tuple[Array, Array, float]:
    """Return the band (g,), (g,) of simulated curves (b, g), and the p-value of the observed one.

    Half of the curves give pointwise quantiles; deviations of the other half from the median, in units of
    these, give their multiple. The observed curve of a calibrated model is exchangeable with that half,
    so that the band holds it with at least the given probability, whatever the quantiles.
    """
    scales, other_scales = np.array_split(simulated, 2)
    bottom, middle, top = np.quantile(scales, [_TAIL, 0.5, 1 - _TAIL], axis=0)

    def largest(curves: Array) -> Array:
        gap = curves - middle
        unit = np.where(gap > 0, top - middle, middle - bottom)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(
                np.where(np.abs(gap) < _ROUNDING, 0.0, np.abs(gap) / unit).max(axis=-1)
            )

    deviations = np.sort(largest(other_scales))
    rank = int(np.ceil(level * (len(deviations) + 1)))
    reach = deviations[rank - 1] if rank <= len(deviations) else np.inf
    with np.errstate(invalid="ignore"):
        low = np.nan_to_num(middle - reach * (middle - bottom), nan=0.0)
        high = np.nan_to_num(middle + reach * (top - middle), nan=1.0)
    farther = int(np.count_nonzero(deviations >= largest(observed)))
    return np.clip(low, 0, 1), np.clip(high, 0, 1), (1 + farther) / (1 + len(deviations))


@metric
@band_parameters
def exceedance_reliability(
    y: ArrayLike,
    prediction: PredictionLike,
    threshold: float,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> IsotonicReliability:
    """Return the reliability of predicted probabilities that the outcome exceeds a threshold.

    Parameters
    ----------
    threshold : float
        The event is ``y > threshold``.
    nan_policy : {"raise", "omit"}
        What to do with rows that hold NaN.

    Returns
    -------
    IsotonicReliability

    Notes
    -----
    Isotonic regression replaces bins: see Dimitriadis, Gneiting & Jordan, *Stable Reliability Diagrams for
    Probabilistic Classifiers* (PNAS, 2021), with their decomposition of the score. Their consistency bands
    hold point by point; this band holds the whole curve. It is exact for independent rows: outcomes are
    drawn from the predicted probabilities.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=500)
    >>> y = mean + rng.normal(size=500)
    >>> curve = fm.metrics.exceedance_reliability(y, (mean, 1.0), 0.5, resamples=200)
    >>> curve.p_value > 0.05, round(curve.score, 3)
    (True, 0.146)
    """
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    at = as_float(threshold, "threshold", "a finite number")
    if not np.isfinite(at):
        raise ValueError(f"threshold is {at:g}; a finite number is needed")
    rows = read(y, prediction, sample_weight, nan_policy)
    probability = np.clip(rows.prediction.sf(np.full(len(rows.y), at)), 0.0, 1.0)
    if np.isnan(probability).any():
        bad = int(np.argmax(np.isnan(probability)))
        raise RowError(
            f"prediction has an NaN probability beyond the threshold (first in row {bad})", bad
        )
    return isotonic(
        probability, rows.y > at, rows.weights, f"y > {at:g}",
        level=level, resamples=resamples, random_state=random_state,
    )  # fmt: skip
