"""Ranks of outcomes among draws, and their histogram: flat if outcomes and draws are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import check_choice, check_count, quote
from fastmcmd._base.plotted import Plotted
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import ColumnTable
from fastmcmd.metrics.count_bands import CountBands, check_level
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive import Draws
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["RankHistogram", "rank_histogram"]

_MOST_BINS = 20
_BLOCK = 1 << 18  # draws per block


@dataclass(frozen=True, eq=False, repr=False)
class RankHistogram(Plotted, ColumnTable):
    """Histogram of the ranks of outcomes among m draws, from 0 to m: flat if both are alike.

    Attributes
    ----------
    edges : ndarray (bins + 1,)
        Bin j holds the ranks from ``edges[j]`` to ``edges[j + 1] - 1``.
    count : ndarray (bins,)
        Number of rows in each bin.
    low, high : ndarray (bins,)
        Band that holds all counts together with probability ``level``, if ranks are uniform.
    level : float
        Level of the band. Counts are whole numbers, so that the probability may be a little higher.
    n, draws : int
        Rows, and draws per row.
    p_value : float
        P-value of uniform ranks: that of the count farthest in a tail, for all counts together.
    """

    picture: ClassVar[str] = "rank_histogram"
    edges: Array
    count: Array
    low: Array
    high: Array
    level: float
    n: int
    draws: int
    p_value: float

    @property
    def expected(self) -> Array:
        """Expected counts (bins,) of uniform ranks."""
        return np.asarray(self.n * np.diff(self.edges) / (self.draws + 1))

    @property
    def heights(self) -> Array:
        """Counts relative to those expected (bins,): 1 everywhere for uniform ranks."""
        return np.asarray(self.count / self.expected)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists, by name: first and last rank, count, expected count and band."""
        return {
            "first rank": self.edges[:-1].tolist(),
            "last rank": (self.edges[1:] - 1).tolist(),
            "count": self.count.tolist(),
            "expected": self.expected.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
        }

    def __repr__(self) -> str:
        return (
            f"RankHistogram of {self.n:,} rows among {self.draws:,} draws: p = {self.p_value:.3g} for "
            f"uniform ranks\n{self.table()}"
        )


@metric
def rank_histogram(
    y: ArrayLike,
    prediction: PredictionLike,
    bins: int | None = None,
    *,
    level: float = 0.95,
    random_state: RandomState = 0,
    nan_policy: NanPolicy = "raise",
) -> RankHistogram:
    """Return the histogram of the ranks of outcomes among draws, with a simultaneous band.

    It is flat for calibrated draws, has a hump for too wide ones, a valley for too narrow ones, and a slope
    for biased ones.

    Parameters
    ----------
    prediction : Draws, or array_like (n, m)
        Draws, such as the members of an ensemble.
    bins : int, optional
        Number of bins, at most m + 1. Default: at most 20, and such that all bins hold as many ranks if
        that is possible with at least 10.
    level : float
        Probability with which the band holds the counts of all bins together, if ranks are uniform.
    random_state : int, numpy.random.Generator or None
        Source of the order of outcomes and draws that are equal.
    nan_policy : {"raise", "omit"}
        What to do with rows that hold NaN.

    Returns
    -------
    RankHistogram

    Notes
    -----
    See Hamill, *Interpretation of Rank Histograms for Verifying Ensemble Forecasts* (Monthly Weather
    Review, 2001). The band is exact for independent rows: the counts are multinomial, and the pointwise
    level of their binomial intervals is chosen for all bins together (Säilynoja, Bürkner & Vehtari, 2022,
    who do so for cumulative counts).

    Examples
    --------
    The first ensemble is right. The second has half of the spread, so outcomes often fall outside all
    of its members: the ends of the histogram are too high.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> y, draws = rng.normal(size=500), rng.normal(size=(500, 9))
    >>> fm.metrics.rank_histogram(y, draws).p_value > 0.05
    True
    >>> fm.metrics.rank_histogram(y, 0.5 * draws).p_value < 0.001
    True
    """
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    level = check_level(level)
    rows = read(y, prediction, None, nan_policy)
    sets = rows.prediction
    if not isinstance(sets, Draws):
        raise TypeError(
            f"prediction is {quote(sets)}; draws (n, m) are needed (of distributions see pit_histogram)"
        )
    values = sets.array
    cells = values.shape[1] + 1
    bins = _default_bins(cells) if bins is None else check_count(bins, "bins", most=cells)
    edges = np.linspace(0, cells, bins + 1).round().astype(np.int64)
    ranks = _ranks(rows.y, values, generator(random_state, Purpose.PIT).random(len(values)))
    count = np.histogram(ranks, edges - 0.5)[0]
    bands = CountBands(np.diff(edges) / cells, len(values), False)
    return RankHistogram(
        edges, count, *bands.band(level), level, len(values), cells - 1, bands.p_value(count)
    )


def _default_bins(cells: int) -> int:
    if cells <= _MOST_BINS:
        return cells
    even = [bins for bins in range(_MOST_BINS // 2, _MOST_BINS + 1) if cells % bins == 0]
    return max(even, default=_MOST_BINS)


def _ranks(y: Array, draws: Array, uniform: Array) -> Array:
    """Return ranks (n,): the draws below y, and a uniform number of those equal to it."""

    def work(rows: slice) -> Array:
        below = (draws[rows] < y[rows, None]).sum(axis=1)
        equal = (draws[rows] == y[rows, None]).sum(axis=1)
        return np.asarray(below + np.floor(uniform[rows] * (equal + 1)))

    return np.concatenate(over_rows(work, len(y), max(1, _BLOCK // draws.shape[1])))
