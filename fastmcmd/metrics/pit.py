"""Probability integral transforms (PIT), sorted once for all metrics that use them, and their histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import AnyArray, NanPolicy, RandomState
from fastmcmd._base.arrays import namespace_of
from fastmcmd._base.checks import check_choice, check_count
from fastmcmd._base.plotted import Plotted
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import ColumnTable, aligned
from fastmcmd.errors import RowError
from fastmcmd.metrics.count_bands import check_level, even_bands
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = [
    "PITHistogram",
    "PITSums",
    "SortedPIT",
    "conclude_histogram",
    "gather_histogram",
    "histogram_sums",
    "pit_histogram",
    "pit_of_rows",
    "pit_values",
    "sort_pit",
]

PITS = ("randomized", "mid", "plain")
_TINY = 1e-300  # smallest width of a step, so that an edge divided by it stays finite
_TOTAL = 1e-9  # relative difference of the weight from the number of rows that is rounding
_BAR = 40  # characters of the longest bar of a text histogram


@metric
def pit_values(
    y: ArrayLike,
    prediction: PredictionLike,
    pit: str = "randomized",
    random_state: RandomState = 0,
    *,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return the probability integral transform of each outcome.

    Returns
    -------
    ndarray (n,)
        Values in [0, 1].

    Notes
    -----
    See Czado, Gneiting & Held, *Predictive Model Assessment for Count Data* (Biometrics, 2009), section
    2.1.

    Examples
    --------
    An outcome at the predicted median has the PIT 1/2, and one two standard deviations above it nearly
    1:

    >>> import fastmcmd as fm
    >>> fm.pit_values([0.0, 2.0], fm.Gaussian([0.0, 0.0], 1.0)).round(3).tolist()
    [0.5, 0.977]
    """
    check_choice(pit, "pit", PITS)
    rows = read(y, prediction, None, nan_policy, on_device=True)
    return rows.scatter(pit_of_rows(rows.y, rows.prediction, pit, random_state))


def pit_of_rows(y: Array, prediction: Predictive, pit: str, random_state: RandomState) -> Array:
    """Return the PIT of checked rows; see `pit_values`."""
    if pit == "plain":
        return _checked_values(prediction.cdf(y))
    low, high = prediction.cdf_bounds(y)
    if low is _checked_values(high):
        return high
    share: AnyArray = 0.5
    if pit == "randomized":  # drawn on the host, so that all devices use the same numbers
        share = generator(random_state, Purpose.PIT).uniform(size=len(prediction))
        share = namespace_of(high).from_host(share)
    values: Array = low + share * (high - low)
    return values


def _checked_values(values: Array) -> Array:
    """Return the probabilities; raise an error if the prediction returned NaN."""
    namespace = namespace_of(values)
    missing = namespace.xp.isnan(values)
    if bool(namespace.xp.any(missing)):
        bad = int(namespace.argmax(namespace.cast(missing, "int8")))
        raise RowError(f"prediction has a cdf of NaN at y (first in row {bad})", bad)
    return values


@dataclass(frozen=True, eq=False)
class SortedPIT:
    """PIT values in ascending order, for metrics that count the values up to a level.

    Values and weights may lie on a device; counts are host arrays.

    Attributes
    ----------
    values : ndarray (m,)
        Ascending values.
    cumulative : ndarray (m + 1,) or None
        Cumulative weights of the values; None if each value counts 1.
    squares : float
        Sum of squared weights.
    nan_result : bool
        Whether NaN propagates; counts are then NaN.
    """

    values: Array
    cumulative: Array | None = None
    squares: float = 0.0
    nan_result: bool = False

    @property
    def weight(self) -> float:
        """Sum of weights."""
        if self.nan_result:
            return float("nan")
        return float(self.n if self.cumulative is None else self.cumulative[-1])

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.values.shape[0])

    def up_to(self, levels: Array) -> Array:
        """Return the weight of values <= each level."""
        return self._weights(namespace_of(self.values).positions(self.values, levels, "right"))

    def below(self, levels: Array) -> Array:
        """Return the weight of values < each level."""
        return self._weights(namespace_of(self.values).positions(self.values, levels, "left"))

    def _weights(self, count: AnyArray) -> Array:
        if self.cumulative is None:
            weights = count.astype(np.float64)
        else:
            weights = namespace_of(self.values).at(self.cumulative, count)
        return np.asarray(weights * np.nan if self.nan_result else weights)


def sort_pit(values: Array, weights: Array | None = None, *, nan_result: bool = False) -> SortedPIT:
    """Return PIT values (m,), which must hold no NaN, sorted together with their weights."""
    namespace = namespace_of(values)
    if weights is None:
        return SortedPIT(namespace.sort(values), None, float(values.shape[0]), nan_result)
    order = namespace.argsort(values)
    weights = weights[order]
    cumulative = namespace.running(weights)
    return SortedPIT(values[order], cumulative, float(weights @ weights), nan_result)


@dataclass(frozen=True)
class PITSums:
    """Counts of a PIT histogram.

    Attributes
    ----------
    mass : ndarray (bins,)
        Weight in each bin; NaN where NaN propagates.
    n : int
        Rows.
    """

    mass: Array
    n: int

    def __add__(self, other: PITSums) -> PITSums:
        return PITSums(self.mass + other.mass, self.n + other.n)


@dataclass(frozen=True, eq=False, repr=False)
class PITHistogram(Plotted, ColumnTable):
    """Histogram of PIT values: flat for a calibrated model.

    Attributes
    ----------
    edges : ndarray (bins + 1,)
        Evenly spaced edges from 0 to 1. Bins include their right edge; the first also its left edge.
    mass : ndarray (bins,)
        Weight in each bin.
    pit : str
        Kind of PIT.
    n : int
        Rows.
    """

    picture: ClassVar[str] = "pit_histogram"
    edges: Array
    mass: Array
    pit: str
    n: int

    @property
    def share(self) -> Array:
        """Shares of the weight (bins,), which sum to 1."""
        return np.asarray(self.mass / self.mass.sum())

    @property
    def heights(self) -> Array:
        """Densities (bins,): 1 everywhere for a calibrated model."""
        return np.asarray(self.share * len(self.mass))

    def band(self, level: float = 0.95) -> Array | None:
        """Return the band (2, bins) that holds the densities of all bins with a probability of ``level``.

        It is exact for independent PIT values of a calibrated model; those of ``pit="nonrandomized"``
        scatter less. Rows with weights have no band: the result is None.
        """
        if abs(self.mass.sum() - self.n) > _TOTAL * self.n:
            return None
        bins = len(self.mass)
        return np.stack(even_bands(bins, self.n).band(check_level(level))) * bins / self.n

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns of the curve as lists, by name."""
        return {
            "low": self.edges[:-1].tolist(),
            "high": self.edges[1:].tolist(),
            "share": self.share.tolist(),
            "density": self.heights.tolist(),
        }

    def table(self) -> str:
        """Return bins, shares and densities as text, with bars."""
        rows = [["PIT", "share", "density", ""]]
        heights = self.heights
        top = heights.max()
        for i, (share, height) in enumerate(zip(self.share, heights, strict=True)):
            bar = "" if np.isnan(top) else "#" * round(_BAR * float(height / top))
            span = f"{self.edges[i]:.3g} to {self.edges[i + 1]:.3g}"
            rows.append([span, f"{share:.4f}", f"{height:.3f}", bar.ljust(_BAR)])
        return aligned(rows)

    def __repr__(self) -> str:
        return f"PITHistogram of {self.n:,} rows ({self.pit})\n{self.table()}"


def gather_histogram(rows: Outcomes, bins: int, pit: str, random_state: RandomState) -> PITSums:
    """Return the weight of PIT values in bins of equal width; see `pit_histogram`."""
    edges = np.linspace(0.0, 1.0, bins + 1)[1:]
    if pit == "nonrandomized":
        upto = _mean_conditional(rows, edges)
        if rows.nan_result:
            upto = upto * np.nan
    else:
        values = pit_of_rows(rows.y, rows.prediction, pit, random_state)
        return histogram_sums(sort_pit(values, rows.weights, nan_result=rows.nan_result), bins)
    return PITSums(np.diff(upto, prepend=0.0), len(rows.prediction))


def histogram_sums(pit: SortedPIT, bins: int) -> PITSums:
    """Return the weight of sorted PIT values in bins of equal width."""
    upto = pit.up_to(np.linspace(0.0, 1.0, bins + 1)[1:])
    return PITSums(np.diff(upto, prepend=0.0), pit.n)


def _mean_conditional(rows: Outcomes, edges: Array) -> Array:
    """Return the sum over rows of the cdf of the PIT given y, evaluated at the edges."""
    low, high = rows.prediction.cdf_bounds(rows.y)
    _checked_values(high)
    namespace, weights = rows.namespace, rows.weights
    xp = namespace.xp
    atoms = high > low
    if not bool(xp.all(atoms)):
        # Without an atom the cdf is a step at high, here a slope over one unit of rounding.
        step = xp.minimum(xp.nextafter(high, high - 1.0), high - _TINY)
        low = xp.where(atoms, low, step)
    width = high - low
    values = []
    for edge in map(float, edges):
        share = edge - low
        share /= width
        share = namespace.clip(share, 0.0, 1.0)
        values.append(xp.sum(share) if weights is None else share @ weights)
    return namespace.numbers(values)


def conclude_histogram(sums: PITSums, pit: str) -> PITHistogram:
    """Return the histogram."""
    return PITHistogram(np.linspace(0.0, 1.0, len(sums.mass) + 1), sums.mass, pit, sums.n)


@metric
def pit_histogram(
    y: ArrayLike,
    prediction: PredictionLike,
    bins: int = 10,
    *,
    pit: str = "randomized",
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> PITHistogram:
    """Return the histogram of the PIT, flat for a calibrated model.

    Parameters
    ----------
    bins : int
        Number of bins of equal width in [0, 1].
    pit : {"randomized", "mid", "plain", "nonrandomized"}
        See `pit_values`. "nonrandomized" spreads each outcome evenly from P(Y < y) to P(Y <= y). This is
        the expectation of the randomised histogram, without its noise.

    Returns
    -------
    PITHistogram

    Notes
    -----
    The non-randomised histogram is that of Czado, Gneiting & Held, *Predictive Model Assessment for Count
    Data* (Biometrics, 2009), section 2.1. Its heights are ``F(j/J) - F((j-1)/J)``, where F is the mean over
    rows of the conditional cdfs ``(u - P(Y < y)) / P(Y = y)``, clipped to [0, 1].

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.pit_histogram([0.0, 1.0], fm.Gaussian([0.0, 0.0], 1.0), bins=2).mass.tolist()
    [1.0, 1.0]
    """
    bins = check_count(bins, "bins")
    check_choice(pit, "pit", (*PITS, "nonrandomized"))
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True)
    return conclude_histogram(gather_histogram(rows, bins, pit, random_state), pit)
