"""Exact simultaneous bands for the counts of n independent values in cells, or up to each cell's end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import as_float
from fastmcmd.metrics.binomial_tails import (
    binomial_cdf,
    binomial_sf,
    lower_quantile,
    poisson_mass,
    upper_quantile,
)
from fastmcmd.predictive.base import Array

__all__ = ["CountBands", "check_level", "even_bands"]

_DIRECT = 1 << 16  # products up to which a plain convolution is faster than transforms
_STEPS = 14  # of the search for the pointwise level: 4 digits


@dataclass(frozen=True, eq=False)
class CountBands:
    """Bands for counts of n values that fall independently into cells of known probability.

    The bands join central binomial intervals of one pointwise level; their simultaneous level is exact.

    Attributes
    ----------
    mass : ndarray (k,)
        Probabilities of the cells, which sum to 1.
    n : int
        Number of values.
    cumulative : bool
        Whether counts are those up to the ends of the first k - 1 cells, or those in each of the k cells.

    Notes
    -----
    The pointwise level is chosen as in Säilynoja, Bürkner & Vehtari, *Graphical Test for Discrete
    Uniformity and its Applications in Goodness-of-Fit Evaluation and Multiple Sample Comparison*
    (Statistics and Computing, 2022), section 2.2. Counts are those of independent Poisson variables given
    their sum, so that the probability of a band is a chain of convolutions.

    Examples
    --------
    >>> bands = even_bands(10, 100)
    >>> low, high = bands.band(0.95)
    >>> float(low[0]), float(high[0]), round(bands.coverage(low, high), 3)
    (3.0, 19.0, 0.962)
    """

    mass: Array
    n: int
    cumulative: bool

    @property
    def expected(self) -> Array:
        """Probabilities of the counts: of the cells, or of their unions."""
        return np.cumsum(self.mass)[:-1] if self.cumulative else self.mass

    def band(self, level: float) -> tuple[Array, Array]:
        """Return the smallest and largest counts of a band that holds all counts with this probability."""
        return self._pointwise(_pointwise_level(self, level))

    def p_value(self, counts: ArrayLike) -> float:
        """Return the probability of a count at least as far in a tail as the farthest of these."""
        counts = np.asarray(counts)
        lower = binomial_cdf(counts, self.n, self.expected)
        upper = binomial_sf(counts - 1, self.n, self.expected)
        least = float(np.minimum(1.0, 2 * np.minimum(lower, upper)).min())
        if least == 1:
            return 1.0
        return float(np.clip(1 - self.coverage(*self._pointwise(least * (1 + 1e-9))), 0, 1))

    def coverage(self, low: Array, high: Array) -> float:
        """Return the probability that all counts lie between ``low`` and ``high``, both included."""
        if (low > high).any():
            return 0.0
        low, high = low.astype(np.int64), high.astype(np.int64)
        zero, n = np.zeros(1, dtype=np.int64), np.array([self.n])
        if self.cumulative:
            sums = np.concatenate([low, n]), np.concatenate([high, n])
            before = np.concatenate([zero, low]), np.concatenate([zero, high])
            low, high = np.maximum(sums[0] - before[1], 0), sums[1] - before[0]
        else:
            sums = np.cumsum(low), np.minimum(np.cumsum(high), self.n)
        probability, start = np.ones(1), 0
        for cell, (least, most, bottom, top) in enumerate(zip(low, high, *sums, strict=True)):
            weights = poisson_mass(np.arange(least, most + 1), self.n * self.mass[cell])
            probability = _convolved(probability, weights)
            start += int(least)
            probability = probability[max(0, bottom - start) : top - start + 1]
            start = max(start, int(bottom))
            if not len(probability):
                return 0.0
        if not start <= self.n < start + len(probability):
            return 0.0
        return float(probability[self.n - start] / poisson_mass(self.n, self.n))

    def _pointwise(self, outside: float) -> tuple[Array, Array]:
        """Return central binomial intervals with at most the probability ``outside`` beyond them."""
        tail = outside / 2
        low = lower_quantile(tail, self.n, self.expected)
        return low, upper_quantile(tail, self.n, self.expected)


def even_bands(cells: int, n: int, *, cumulative: bool = False) -> CountBands:
    """Return the bands for cells of equal probability."""
    return CountBands(np.full(cells, 1 / cells), n, cumulative)


def check_level(level: float, name: str = "level") -> float:
    """Return a level checked to lie in (0, 1)."""
    number = as_float(level, name)
    if not 0 < number < 1:
        raise ValueError(f"{name} is {number:g}; a number between 0 and 1 is needed")
    return number


def _pointwise_level(bands: CountBands, level: float) -> float:
    return _searched(bands.mass.tobytes(), bands.n, bands.cumulative, level)


@lru_cache(maxsize=256)
def _searched(mass: bytes, n: int, cumulative: bool, level: float) -> float:
    """Return the largest probability outside each interval with which all of them hold together."""
    bands = CountBands(np.frombuffer(mass), n, cumulative)
    low, high = (
        (1 - level) / max(1, len(bands.expected)),
        1 - level,
    )  # Bonferroni, and a single count
    for _ in range(_STEPS):
        middle = np.sqrt(low * high)
        if bands.coverage(*bands._pointwise(middle)) >= level:
            low = middle
        else:
            high = middle
    return float(low)


def _convolved(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the convolution of two sequences."""
    if len(first) * len(second) <= _DIRECT:
        return np.convolve(first, second)
    size = len(first) + len(second) - 1
    fast = scipy.fft.next_fast_len(size, real=True)
    product = scipy.fft.rfft(first, fast) * scipy.fft.rfft(second, fast)
    return np.asarray(np.maximum(scipy.fft.irfft(product, fast)[:size], 0.0))
