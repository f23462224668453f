"""Predictions of numbers of successes by binomial distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.cached import cached_property
from fastmcmd.errors import RowError
from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.count_base import WholeNumbers
from fastmcmd.predictive.family import parameters
from fastmcmd.predictive.numerics.count_masses import binomial_log_masses
from fastmcmd.predictive.numerics.inverse import least_count
from fastmcmd.predictive.numerics.spread import MOST_VALUES

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

__all__ = ["Binomial"]

_LOG_NEGLIGIBLE = 40.0  # minus the logarithm of a mass below rounding
_CLOSE = 1e-12  # distance of a sum from a level below which rounding may decide
_MOST_TERMS = 1 << 14  # probabilities summed at most for the quantiles of a row
_BLOCK = 1 << 17  # numbers held in memory at once
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
    SciPy computes cdfs. The CRPS is the sum over the counts of ``(F(k) - 1{y <= k})^2``.

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
        self.trials, self.probability, self._n = trials, probability, len(trials)

    @cached_property
    def frozen(self) -> rv_frozen:
        """The same distributions in scipy.stats, created only for what SciPy computes."""
        from scipy import stats  # slow to load: only when used

        return stats.binom(self.trials.astype(np.int64), self.probability)

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
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return binomial_log_masses(y, self.trials, self.probability)

    @property
    def has_quick_quantiles(self) -> bool:
        """True: sums over the counts, or a few cdfs, give a quantile."""
        return True

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (1, j) for all rows, or (n, j).

        They come from sums of probabilities. If these are many, a level is far out or rounding decides, the
        cdf is evaluated at nearby counts instead.
        """
        levels = np.ascontiguousarray(levels)
        out = np.empty((len(self), levels.shape[1]))
        length = self._reach()
        order = np.argsort(length)

        # Blocks of rows whose sums are similarly long.
        cost = np.cumsum(np.minimum(2 * length[order], _MOST_TERMS) + levels.shape[1])
        starts = np.unique(np.searchsorted(cost, np.arange(0.0, cost.max(initial=0.0), _BLOCK)))
        ends = np.append(starts[1:], len(order))

        def work(blocks: slice) -> None:
            for start, end in zip(starts[blocks], ends[blocks], strict=True):
                rows = order[start:end]
                row_levels = levels if len(levels) == 1 else levels[rows]
                out[rows] = self.take(rows)._quantiles(row_levels, length[rows])

        over_rows(work, len(starts), 1)
        return out

    def _reach(self) -> Array:
        """Return distances (n,) from the mean beyond which either tail is negligible.

        This is Bernstein's inequality: ``P(Y >= mean + t) <= exp(-t^2 / (2 variance + 2 t / 3))``.
        """
        third = _LOG_NEGLIGIBLE / 3
        return np.asarray(third + np.sqrt(third * third + 2 * _LOG_NEGLIGIBLE * self.variance))

    def _quantiles(self, levels: Array, reach: Array) -> Array:
        """Return quantiles of a block of rows, by sums where these are short."""
        n, count = len(self), levels.shape[1]
        out = np.full((n, count), np.nan)
        rows = np.flatnonzero(2 * reach < _MOST_TERMS)
        if len(rows):
            part = self if len(rows) == n else self.take(rows)
            first, length = part.counts
            values = first[:, None] + np.arange(length, dtype=np.float64)
            scratch = np.empty((2, values.shape[1]))
            of_rows = levels if len(levels) == 1 else levels[rows]
            by_sums = np.empty((len(rows), count))
            _core.step_quantiles(values, part._masses(values), of_rows, _CLOSE, scratch, by_sums)
            out[rows] = by_sums
        row, column = np.nonzero(np.isnan(out))
        if len(row):
            out[row, column] = self.take(row)._settled(
                levels[0 if len(levels) == 1 else row, column]
            )
        return out

    def _settled(self, levels: Array) -> Array:
        """Return quantiles (n,) at a level of each row: the first counts at which the cdf reaches it."""

        def is_reached(counts: Array, some: NDArray[np.intp]) -> NDArray[np.bool_]:
            return self.take(some)._tail(counts, upper=False) >= levels[some]

        with np.errstate(all="ignore"):
            start = self.mean + self.std * scipy.special.ndtri(levels)
            counts = least_count(is_reached, np.where(levels < 1, start, self.trials))
        counts = np.minimum(counts, self.trials)
        return np.where(levels <= 0, 0.0, np.where(levels >= 1, self.trials, counts))

    def _find_range(self) -> tuple[Array, int]:
        """Return the first values (n,) and the number of values that hold almost all mass."""
        reach = self._reach()
        first = np.maximum(np.floor(self.mean - reach), 0.0)
        last = np.minimum(np.ceil(self.mean + reach), self.trials)
        count = float((last - first).max(initial=0.0)) + 1
        if count > MOST_VALUES:
            return ScipyPredictive._find_range(self)
        return first, int(count)

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
