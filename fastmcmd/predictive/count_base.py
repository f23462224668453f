"""The base class of predictions of counts: checks, and scores by sums or in closed form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_count
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.base import Predictive, check_levels, parameter, uniform_levels
from fastmcmd.predictive.expectation import TAIL_MASS
from fastmcmd.predictive.numerics.gamma_functions import lower_inverse, upper_inverse
from fastmcmd.predictive.numerics.spread import MOST_VALUES

__all__ = ["STEP", "Counts", "WholeNumbers", "beside", "shifted_gamma", "terms", "vector"]

STEP = 1 << 13  # rows per block: small temporaries, and milliseconds of work for a thread
_QUANTILES = 1 << 18  # quantiles per block: a few temporaries of 2 MB each
_MOST_DRAWN = 9e18  # NumPy draws counts that are 64-bit integers


def vector(value: object, name: str) -> Array:
    """Return a checked nonnegative parameter (n,)."""
    array = parameter(value, name, least=0.0)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; (n,) is needed: one value per input")
    return array


def beside(value: object, name: str, like: Array, strict: bool = True) -> Array:
    """Return a checked positive parameter in the shape (n,) of ``like``; scalars are repeated."""
    array = parameter(value, name, least=0.0, strict=strict)
    try:
        return np.array(np.broadcast_to(array, like.shape))
    except ValueError:
        raise ValueError(
            f"{name} has shape {array.shape}; a scalar or {like.shape} is needed, as mean has"
        ) from None


class WholeNumbers(Predictive):
    """The base of distributions on the whole numbers: outcomes between two are rounded."""

    discrete = True

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        return self._tail(np.floor(self.outcomes(y)), upper=False)

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        return self._tail(np.ceil(self.outcomes(y)) - 1, upper=False)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,); small probabilities keep all their digits."""
        return self._tail(np.floor(self.outcomes(y)), upper=True)

    def quantile(self, level: ArrayLike) -> Array:
        """Return the smallest counts with ``cdf >= level``, (n,) or (n, j); 0 at level 0."""
        levels = check_levels(level)
        quantiles = self.quantiles_at(np.atleast_1d(levels)[None, :])
        return quantiles if levels.ndim else quantiles[:, 0]

    @property
    def counts(self) -> tuple[Array, int]:
        """The first count of each row (n,), and the number of counts that hold the mass of any row."""
        return self._range

    @cached_property
    def _range(self) -> tuple[Array, int]:
        return self._find_range()

    @abstractmethod
    def _find_range(self) -> tuple[Array, int]:
        """Return what `counts` keeps."""

    @abstractmethod
    def _tail(self, count: Array, upper: bool) -> Array:
        """Return P(Y > count) or P(Y <= count) (n,) of whole numbers."""


class Counts(WholeNumbers, ScipyPredictive):
    """The base of Poisson (dispersion 0) and negative binomial distributions."""

    _mean: Array
    _alpha: Array  # (n,)

    @cached_property
    def frozen(self) -> Any:
        """The same distributions in scipy.stats, created only for what SciPy computes."""
        return self._freeze()

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._mean

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log probability (n,); -inf where y is not a count."""

        def masses(y: Array, mean: Array, alpha: Array) -> Array:
            out = np.empty(len(y))
            _core.log_masses(y, mean, alpha, out)
            return out

        return self._by_rows(masses, self.outcomes(y))

    def log_masses_from(self, first: Array, out: Array) -> None:
        """Write the log probabilities (n, L) of the whole numbers from ``first`` (n,) >= 0 on."""
        _core.consecutive_log_masses(first, self._mean, self._alpha, out)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,): the integral of ``(F(x) - 1{x >= y})^2``.

        Notes
        -----
        Short sums run over the mass. Long sums are replaced by the closed form ``E|Y - y| - E|Y - Y'| / 2``
        (Wei & Held, *Calibration Tests for Count Data*, TEST 2014) with, for dispersion a,

            E|Y - y| = (y - mean) (2 F(y) - 1) + 2 mean (1 + a y) p(y)

        and the mean difference from Bessel or hypergeometric functions, or quadrature.
        The error is about 1e-12 of the mean. Outcomes that are not counts have a score, too.
        """
        return self._by_rows(self._crps, self.outcomes(y))

    @property
    def has_quick_quantiles(self) -> bool:
        """True: few sums give a quantile."""
        return True

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (1, j) for all rows, or (n, j).

        One walk over the counts of a row finds all its quantiles. If the walk is long, a level is far out
        or rounding decides, the cdf is evaluated at nearby counts instead.
        """
        out = np.empty((len(self), levels.shape[1]))
        has_common_levels = len(levels) < len(self)

        def work(rows: slice) -> None:
            row_levels = np.ascontiguousarray(levels if has_common_levels else levels[rows])
            order = np.argsort(row_levels, axis=1)
            _core.count_quantiles(row_levels, order, self._mean[rows], self._alpha[rows], out[rows])
            row, column = np.nonzero(np.isnan(out[rows]))
            if len(row):
                of = row_levels[0 if has_common_levels else row, column]
                out[rows.start + row, column] = self._settled(rows.start + row, of)

        over_rows(work, len(self), _QUANTILES // max(1, levels.shape[1]))
        return out

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the smallest counts (n, j) at which `sf` is at most levels (n, j)."""
        n, count = len(self), levels.shape[1]
        flat_levels = np.broadcast_to(levels, (n, count)).ravel()
        rows = np.repeat(np.arange(n), count)
        out = self._settled(rows, flat_levels, upper=True)
        return np.where((flat_levels <= 0) & (self._mean[rows] > 0), np.inf, out).reshape(n, count)

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size)."""
        with np.errstate(over="ignore"):
            far = self._mean + 10 * self.std
        if far.max(initial=0.0) < _MOST_DRAWN:
            rng, shape = (
                generator(random_state, Purpose.SAMPLE),
                (check_count(size, "size"), len(self)),
            )
            return np.asarray(self._draws(rng, shape), dtype=np.float64).T.copy()
        return self.quantiles_at(uniform_levels((len(self), size), random_state))

    @abstractmethod
    def _draws(self, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int64]:
        """Return draws (size, n): those of scipy.stats, which takes longer to load than to draw."""

    def _settled(self, rows: NDArray[np.intp], levels: Array, upper: bool = False) -> Array:
        """Return quantiles of rows at levels, starting from nearby counts; 0 where all are."""
        from fastmcmd.predictive.numerics.inverse import least_count

        mean, alpha = self._mean[rows], self._alpha[rows]
        tail, sign = (self._sf, -1.0) if upper else (self._cdf, 1.0)

        def is_reached(counts: Array, some: NDArray[np.intp]) -> NDArray[np.bool_]:
            values = tail(counts, mean[some], alpha[some])
            return np.asarray(sign * values >= sign * levels[some])

        with np.errstate(all="ignore"):
            return least_count(is_reached, self._nearby(mean, alpha, levels, upper))

    def _nearby(self, mean: Array, alpha: Array, levels: Array, upper: bool) -> Array:
        """Return about the quantiles: those of a shifted gamma distribution with the same three moments."""
        shape, scale = shifted_gamma(mean, alpha)
        inverse = upper_inverse if upper else lower_inverse
        return np.asarray(mean + scale * (inverse(shape, levels) - shape) - 0.5)

    @cached_property
    def _ends(self) -> tuple[Array, Array] | None:
        """The first and last counts (n,) of the mass, by bounds on its tails; None if far apart."""
        if not terms(self._mean, self._alpha).max(initial=0.0) <= MOST_VALUES:
            return None
        first, last = np.empty(len(self)), np.empty(len(self))

        def work(rows: slice) -> None:
            mean, alpha = self._mean[rows], self._alpha[rows]
            _core.count_ranges(mean, alpha, TAIL_MASS, first[rows], last[rows])

        over_rows(work, len(self), STEP)
        return first, last

    def _share_ends(self, part: Counts, rows: NDArray[np.intp]) -> None:
        """Give those of rows to a part, if they are known."""
        ends = self.__dict__.get("_ends")
        if ends is not None:
            part.__dict__["_ends"] = ends[0][rows], ends[1][rows]

    def _find_range(self) -> tuple[Array, int]:
        """Return the first values (n,) and the number of values that hold almost all mass."""
        if self._ends is None:
            return ScipyPredictive._find_range(self)
        first, last = self._ends
        return first, int((last - first).max(initial=0.0)) + 1

    def _consecutive(self, first: Array, count: int) -> Nodes:
        """Return ``count`` values (n, count) from ``first`` on, and their probabilities."""
        values = first[:, None] + np.arange(count, dtype=np.float64)
        masses = np.empty(values.shape)
        step = self._mean / (1 + self._alpha * self._mean)
        _core.count_masses(first, step, np.ones(len(self)), self._alpha, masses)
        return values, masses

    def _by_rows(self, function: Callable[[Array, Array, Array], Array], y: Array) -> Array:
        """Return ``function`` of outcomes, means and dispersions, computed in row blocks on threads."""
        y = np.ascontiguousarray(np.broadcast_to(y, self.shape))
        out = np.empty(len(self))

        def work(rows: slice) -> None:
            out[rows] = function(y[rows], self._mean[rows], self._alpha[rows])

        over_rows(work, len(self), STEP)
        return out

    def _crps(self, y: Array, mean: Array, alpha: Array) -> Array:
        out = np.empty(len(y))
        summed = self._summed(mean, alpha)
        if summed.all():
            _core.crps_by_sums(y, mean, alpha, out)
            return out
        if summed.any():
            part = np.empty(np.count_nonzero(summed))
            _core.crps_by_sums(y[summed], mean[summed], alpha[summed], part)
            out[summed] = part
        y, mean, alpha = (values[~summed] for values in (y, mean, alpha))
        count = np.floor(y)
        mass = np.empty(len(y))
        _core.log_masses(count, mean, alpha, mass)
        np.exp(mass, out=mass)
        near = np.where(mass > 0, count, 0.0)  # avoids 0 times infinity
        with np.errstate(invalid="ignore"):  # outcomes may be NaN or infinite
            distance = (y - mean) * (2 * self._cdf(count, mean, alpha) - 1)
        distance += 2 * (mean * mass + alpha * mean * (near * mass))
        out[~summed] = distance - self._half_gini(mean, alpha)
        return out

    def _tail(self, count: Array, upper: bool) -> Array:
        return self._by_rows(self._sf if upper else self._cdf, count)

    def _freeze(self) -> Any:
        raise NotImplementedError

    def _cdf(self, k: Array, mean: Array, alpha: Array) -> Array:
        """Return P(Y <= k) for whole k."""
        raise NotImplementedError

    def _sf(self, k: Array, mean: Array, alpha: Array) -> Array:
        """Return P(Y > k) for whole k."""
        raise NotImplementedError

    def _summed(self, mean: Array, alpha: Array) -> NDArray[np.bool_]:
        """Return the rows whose sums are short, or whose closed form would lose digits."""
        raise NotImplementedError

    def _half_gini(self, mean: Array, alpha: Array) -> Array:
        """Return ``E|Y - Y'| / 2``."""
        raise NotImplementedError


def shifted_gamma(mean: Array, alpha: Array) -> tuple[Array, Array]:
    """Return shape and scale of the gamma distribution that, shifted, has the first three moments."""
    odds = alpha * mean
    scale = 0.5 + odds
    return mean / scale * ((1 + odds) / scale), scale


def terms(mean: Array, alpha: Array) -> Array:
    """Return roughly how many counts have more than 1e-17 of the mass."""
    odds = alpha * mean
    return np.asarray(18 * np.sqrt(mean) * np.sqrt(1 + odds) + 40 * odds)
