"""Predictions of counts by Poisson and negative binomial distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd.predictive.base import check_range, parameter
from fastmcmd.predictive.count_base import Counts, beside, shifted_gamma, terms, vector
from fastmcmd.predictive.numerics import gamma_functions
from fastmcmd.predictive.numerics.gamma_functions import LARGE_SHAPE

__all__ = ["NegativeBinomial", "Poisson"]

# Below these values a negative binomial equals a Poisson distribution to rounding, and formulas overflow.
_LEAST_DISPERSION = 1e-30
_LEAST_ODDS = 1e-12  # in SciPy's parameters, for quantiles and draws

_FEW_TERMS = 128  # terms of a Poisson sum that cost as much as two Bessel functions and a cdf
_SOME_TERMS = 256  # terms of a negative binomial sum that cost as much as 2F1 and a cdf
_WIDEST = 1e20  # dispersion from which half the mean difference is the mean
_MOST_MEAN = 1e100
_MOST_DISPERSION = 1e300
_WIDE = 0.1  # dispersion from which SciPy's hypergeometric function is accurate for any mean
_MOST_BINOMIAL = 1e15  # mean from which a shifted gamma distribution is the same to rounding
_MANY_TERMS = 1 << 16  # terms summed at most if the closed form would lose digits
_TINY = 1e-6  # probability below which a difference from 1 has lost too many digits


def _means(value: ArrayLike) -> Array:
    mean = vector(value, "mean")
    check_range(mean, "mean", 0.0, _MOST_MEAN)
    return mean


def _inside(k: Array, mean: Array, alpha: Array, expected: Array, below: float) -> Array:
    """Return a cdf or sf, with its limits inserted at both ends, where special functions fail.

    Beyond the far end, the remaining mass is below the smallest double.
    """
    spread = 1 + alpha * mean
    far = k > mean + 50 * np.sqrt(mean) * np.sqrt(spread) + 2000 * spread
    return np.asarray(np.where(k < 0, below, np.where(far, 1 - below, expected)))


def _binomial_tail(k: Array, mean: Array, alpha: Array, upper: bool) -> Array:
    """Return P(Y <= k) or P(Y > k) of negative binomial rows.

    They equal ``I_p(1/alpha, k + 1)`` and ``I_q(k + 1, 1/alpha)``, p = 1 / (1 + alpha mean) and q = 1 - p.
    The one whose argument is not near 1 is computed; the other is 1 minus it, or, where that difference is
    too small to be accurate, the complemented incomplete beta function.
    """
    odds = alpha * mean
    count, size = k + 1, 1 / alpha
    p, q = 1 / (1 + odds), odds / (1 + odds)
    low = odds > 1  # the lower tail is the one computed
    out = scipy.special.betainc(
        np.where(low, size, count), np.where(low, count, size), np.where(low, p, q)
    )
    is_complement = low == upper
    out[is_complement] = 1 - out[is_complement]
    is_inaccurate = is_complement & (out < _TINY)
    ends = (size, count, p) if upper else (count, size, q)
    out[is_inaccurate] = scipy.special.betaincc(*(values[is_inaccurate] for values in ends))
    is_inaccurate = (mean >= _MOST_BINOMIAL) | (np.isnan(out) & ~np.isnan(k))
    if (
        is_inaccurate.any()
    ):  # SciPy is wrong there without a warning; fourth moments differ by 1 / mean
        mean = mean[is_inaccurate]
        shape, scale = shifted_gamma(mean, alpha[is_inaccurate])
        tail = gamma_functions.upper if upper else gamma_functions.lower
        out[is_inaccurate] = tail(
            shape, np.maximum(shape + (k[is_inaccurate] - mean + 0.5) / scale, 0.0)
        )
    return np.asarray(out)


def _poisson_tail(k: Array, mean: Array, upper: bool) -> Array:
    """Return P(Y <= k) or P(Y > k) of Poisson rows."""
    large = mean >= LARGE_SHAPE
    if not large.any():
        return np.asarray(scipy.special.pdtrc(k, mean) if upper else scipy.special.pdtr(k, mean))
    out = np.empty(len(mean))
    out[~large] = _poisson_tail(k[~large], mean[~large], upper)
    part = np.empty(np.count_nonzero(large))
    _core.poisson_tails(k[large], mean[large], upper, part)
    out[large] = part
    return out


class Poisson(Counts):
    """Poisson distributions.

    Parameters
    ----------
    mean : array_like (n,)
        Means, nonnegative.

    Raises
    ------
    ValueError
        Means that are negative or not finite, or of another shape.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.Poisson([1.0, 4.0]).variance.tolist()
    [1.0, 4.0]
    """

    def __init__(self, mean: ArrayLike) -> None:
        self._set(_means(mean))

    def _set(self, mean: Array) -> None:
        self._mean, self._n = mean, len(mean)
        self._alpha = np.zeros_like(mean)

    def _freeze(self) -> Any:
        from scipy import stats  # slow to load: only when used

        return stats.poisson(self._mean)

    def _draws(self, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int64]:
        return rng.poisson(self._mean, shape)

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        return self._mean

    def take(self, rows: NDArray[np.intp]) -> Poisson:
        """Return the distributions of some rows."""
        part = Poisson.__new__(Poisson)
        part._set(self._mean[rows])
        self._share_ends(part, rows)
        return part

    def _cdf(self, k: Array, mean: Array, alpha: Array) -> Array:
        return _inside(k, mean, alpha, _poisson_tail(np.maximum(k, 0), mean, upper=False), 0.0)

    def _sf(self, k: Array, mean: Array, alpha: Array) -> Array:
        return _inside(k, mean, alpha, _poisson_tail(np.maximum(k, 0), mean, upper=True), 1.0)

    def _summed(self, mean: Array, alpha: Array) -> NDArray[np.bool_]:
        return np.asarray(terms(mean, alpha) <= _FEW_TERMS)

    def _half_gini(self, mean: Array, alpha: Array) -> Array:
        del alpha
        return np.asarray(mean * (scipy.special.i0e(2 * mean) + scipy.special.i1e(2 * mean)))

    def __repr__(self) -> str:
        return f"Poisson{self.shape}"


class NegativeBinomial(Counts):
    """Negative binomial distributions with variance ``mean + dispersion mean^2`` (NB2).

    Parameters
    ----------
    mean : array_like (n,)
        Means, nonnegative.
    dispersion : array_like, scalar or (n,)
        Dispersion alpha as in statsmodels, positive. Its limit at 0 is the Poisson distribution.

    Raises
    ------
    ValueError
        Parameters out of range, not finite or of another shape.

    Notes
    -----
    ``p(k) = Gamma(k + 1/alpha) / (Gamma(1/alpha) k!) (1 + alpha mu)^(-1/alpha) (alpha mu / (1 + alpha
    mu))^k`` (Cameron & Trivedi, *Regression Analysis of Count Data*, section 3.3.1).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.NegativeBinomial([1.0, 4.0], 0.5).variance.tolist()
    [1.5, 12.0]
    """

    def __init__(self, mean: ArrayLike, dispersion: ArrayLike) -> None:
        mean = _means(mean)
        dispersion = beside(dispersion, "dispersion", mean)
        if dispersion.max(initial=0.0) > _MOST_DISPERSION:
            raise ValueError(
                f"dispersion has values up to {dispersion.max():g}; at most {_MOST_DISPERSION:g} is "
                "needed: beyond it 1 over it and variances leave the range of float64"
            )
        with np.errstate(over="ignore"):
            odds = (mean * dispersion).max(initial=0.0)
        if odds > _MOST_DISPERSION:
            raise ValueError(
                f"mean times dispersion is up to {odds:g}; at most {_MOST_DISPERSION:g} is needed: beyond "
                "it standard deviations leave the range of float64"
            )
        self._set(mean, dispersion)

    def _set(self, mean: Array, dispersion: Array) -> None:
        self._mean, self.dispersion, self._n = mean, dispersion, len(mean)
        self._alpha = np.maximum(self.dispersion, _LEAST_DISPERSION)

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.nbinom(*self._size_and_success())

    def _draws(self, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int64]:
        return rng.negative_binomial(*self._size_and_success(), shape)

    def _size_and_success(self) -> tuple[Array, Array]:
        # SciPy's mean is size (1 - p) / p. Computing size from the rounded p preserves it for p near 1.
        success = 1 / (1 + np.maximum(self.dispersion * self._mean, _LEAST_ODDS))
        size = np.where(self._mean > 0, self._mean * success / (1 - success), 1.0)
        success = np.where(self._mean > 0, success, 1.0)
        return size, success

    @classmethod
    def from_n_p(cls, n: ArrayLike, p: ArrayLike) -> NegativeBinomial:
        """Return the distributions of the number of failures before the n-th success of probability p.

        Parameters
        ----------
        n : array_like, scalar or (n,)
            Numbers of successes, positive; they need not be whole.
        p : array_like, scalar or (n,)
            Probabilities of success, in (0, 1].

        Raises
        ------
        ValueError
            Parameters out of range, or whose shapes do not fit.

        Notes
        -----
        These are the parameters of SciPy (`scipy.stats.nbinom`) and NumPy: the mean is ``n (1 - p) / p``,
        the dispersion ``1 / n``. In torch.distributions, ``probs`` is the probability of the events that
        are counted; convert with ``from_n_p(total_count, 1 - probs)``.

        Examples
        --------
        >>> import fastmcmd as fm
        >>> fm.NegativeBinomial.from_n_p([2.0, 3.0], 0.5).mean.tolist()
        [2.0, 3.0]
        """
        size = parameter(n, "n", least=0.0, strict=True)
        chance = parameter(p, "p", least=0.0, strict=True)
        if (chance > 1).any():
            raise ValueError(f"p has values up to {chance.max():g}; all must be in (0, 1]")
        try:
            size, chance = np.broadcast_arrays(np.atleast_1d(size), chance)
        except ValueError:
            raise ValueError(
                f"n has shape {size.shape} and p has {chance.shape}; scalars or one shape are needed"
            ) from None
        check_range(size, "n", 1 / _MOST_DISPERSION, _MOST_DISPERSION)
        mean = size * ((1 - chance) / np.maximum(chance, 1 / _MOST_MEAN))
        if (chance < 1 / _MOST_MEAN).any() or (mean > _MOST_MEAN).any():
            raise ValueError(
                f"n (1 - p) / p, the mean, is above {_MOST_MEAN:g}; a larger p is needed"
            )
        return cls(mean, 1 / size)

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(self._mean * (1 + self.dispersion * self._mean))

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return np.asarray(np.sqrt(self._mean) * np.sqrt(1 + self.dispersion * self._mean))

    def _cdf(self, k: Array, mean: Array, alpha: Array) -> Array:
        return _inside(
            k, mean, alpha, _binomial_tail(np.maximum(k, 0), mean, alpha, upper=False), 0.0
        )

    def _sf(self, k: Array, mean: Array, alpha: Array) -> Array:
        return _inside(
            k, mean, alpha, _binomial_tail(np.maximum(k, 0), mean, alpha, upper=True), 1.0
        )

    def _summed(self, mean: Array, alpha: Array) -> NDArray[np.bool_]:
        length = terms(mean, alpha)
        loses = (mean < 1) | (alpha > 10)
        return np.asarray((length <= _SOME_TERMS) | (loses & (length <= _MANY_TERMS)))

    def _half_gini(self, mean: Array, alpha: Array) -> Array:
        """Return ``mean (1 + b) 2F1(1/alpha + 1, 1/2; 2; -4 b (1 + b))``, ``b = alpha mean``.

        This is the form of Wei & Held 2014. SciPy's function overflows for small dispersions, where
        quadrature replaces it.
        """
        out = np.zeros(len(mean))
        wide, narrow = (alpha >= _WIDE) & (alpha < _WIDEST), (alpha < _WIDE) & (mean > 0)
        most = alpha >= _WIDEST
        out[most] = mean[most]  # the limit, within a relative error of 700 / alpha
        m, a = mean[wide], alpha[wide]
        b = a * m
        out[wide] = m * (1 + b) * scipy.special.hyp2f1(1 / a + 1, 0.5, 2.0, -4 * b * (1 + b))
        part = np.empty(np.count_nonzero(narrow))
        _core.half_gini(mean[narrow], alpha[narrow], part)
        out[narrow] = part
        return out

    def take(self, rows: NDArray[np.intp]) -> NegativeBinomial:
        """Return the distributions of some rows."""
        part = NegativeBinomial.__new__(NegativeBinomial)
        part._set(self._mean[rows], self.dispersion[rows])
        self._share_ends(part, rows)
        return part

    def __repr__(self) -> str:
        return f"NegativeBinomial{self.shape}"
