"""Predictions of numbers of successes by binomial distributions."""

from __future__ import annotations

import warnings

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd.errors import RowError
from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.count_base import WholeNumbers
from fastmcmd.predictive.family import parameters

__all__ = ["Binomial"]

_LEAST_MASS = 1e-290  # probability below which its logarithm is computed as such
_MOST_TRIALS = 2**53  # whole numbers beyond are not all doubles


class Binomial(WholeNumbers, ScipyPredictive):
    """Binomial distributions: successes among n independent trials of probability p.

    Parameters
    ----------
    n : array_like, scalar or (n,)
        Numbers of trials, whole and nonnegative.
    p : array_like, scalar or (n,)
        Probabilities of success, in [0, 1].

    Raises
    ------
    ValueError
        Parameters out of range, not finite, whose lengths differ, or all scalar.

    Notes
    -----
    SciPy computes cdfs and quantiles. The CRPS is the sum over the counts of ``(F(k) - 1{y <= k})^2``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.Binomial(10, [0.5, 0.1]).mean.tolist()
    [5.0, 1.0]
    """

    trials: Array
    probability: Array

    def __init__(self, n: ArrayLike, p: ArrayLike) -> None:
        values = parameters((), n=n, p=p)
        trials, probability = values["n"], values["p"]
        valid_trials = (trials >= 0) & (trials == np.floor(trials)) & (trials <= _MOST_TRIALS)
        if not valid_trials.all():
            row = int(np.argmin(valid_trials))
            raise RowError(
                f"n is {trials[row]:g} in row {row}; whole numbers of trials, 0 or more, are needed",
                row,
            )
        inside = (probability >= 0) & (probability <= 1)
        if not inside.all():
            row = int(np.argmin(inside))
            raise RowError(f"p is {probability[row]:g} in row {row}; all must be in [0, 1]", row)
        self._set(trials, probability)

    def _set(self, trials: Array, probability: Array) -> None:
        from scipy import stats

        self.trials, self.probability = trials, probability
        super().__init__(stats.binom(trials.astype(np.int64), probability), len(trials))

    def __repr__(self) -> str:
        return f"Binomial{self.shape}"

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return np.asarray(self.trials * self.probability)

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        return np.asarray(self.trials * self.probability * (1 - self.probability))

    def _tail(self, k: Array, upper: bool) -> Array:
        """Return P(Y > k) or P(Y <= k) of whole k; by another routine where SciPy's underflows."""
        tail = self._all(self.frozen.sf(k) if upper else self.frozen.cdf(k))
        underflowed = (tail == 0) & (k < self.trials if upper else k >= 0)
        if underflowed.any():
            other = scipy.special.bdtrc if upper else scipy.special.bdtr
            k = np.clip(k, 0, np.maximum(self.trials - 1, 0))
            tail = np.where(
                underflowed, other(k, self.trials.astype(np.int64), self.probability), tail
            )
        return tail

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log probability (n,); -inf where y is not a possible count."""
        y = self.outcomes(y)
        with np.errstate(divide="ignore"):
            mass = self._all(self.frozen.pmf(y))
            return np.where(mass < _LEAST_MASS, self._all(self.frozen.logpmf(y)), np.log(mass))

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", RuntimeWarning
            )  # of SciPy, at levels that it underflows at
            quantiles = super().quantiles_at(levels)
        counts = np.maximum(quantiles, 0.0)  # SciPy's quantile at level 0 is -1
        row_levels = np.broadcast_to(levels, counts.shape)
        for column in range(counts.shape[1]):
            level, count = row_levels[:, column], counts[:, column]
            low = self._tail(count, upper=False) < level
            high = (count > 0) & (self._tail(count - 1, upper=False) >= level)
            rows = np.flatnonzero((low | high) & (level > 0) & (level < 1))
            if rows.size:  # SciPy's quantiles of tiny levels may be wrong
                part = self.take(rows)
                counts[rows, column] = Predictive.quantiles_at(part, level[rows, None])[:, 0]
        return counts

    def _find_range(self) -> tuple[Array, int]:
        """Return first values and their number: one more on both sides, for scores of tiny p or 1 - p."""
        first, count = ScipyPredictive._find_range(self)
        below = np.minimum(first, 1.0)
        return first - below, count + 2

    def _masses(self, values: Array) -> Array:
        """Return probabilities of consecutive values, from ``p(k + 1) / p(k)``."""
        masses, few = np.empty(values.shape), self.probability < 1
        odds = np.where(few, self.probability / np.where(few, 1 - self.probability, 1.0), 0.0)
        first = np.ascontiguousarray(values[:, 0])
        _core.count_masses(first, odds, self.trials, np.full(len(self), -1.0), masses)
        rows = np.flatnonzero(~few)
        masses[rows] = values[rows] == self.trials[rows, None]
        return masses

    def take(self, rows: NDArray[np.intp]) -> Binomial:
        """Return the distributions of some rows."""
        part = Binomial.__new__(Binomial)
        part._set(self.trials[rows], self.probability[rows])
        return part
