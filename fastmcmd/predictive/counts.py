"""Predictions of counts: Poisson, negative binomial."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fastmcmd.predictive.base import Array, parameter
from fastmcmd.predictive.frozen import ScipyPredictive

__all__ = ["NegativeBinomial", "Poisson"]

# Below these a negative binomial is a Poisson distribution to rounding, and formulas overflow.
_LEAST_DISPERSION = 1e-30
_LEAST_ODDS = 1e-12  # of SciPy's parameters, for quantiles and draws


def _vector(value: Any, name: str) -> Array:
    array = parameter(value, name, least=0.0)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; (n,) is needed: a value an input")
    return array


def _from_ratios(ratios: Array) -> Array:
    """Return probabilities (n, L) from those of each value to the one before it (n, L - 1).

    Supports start where 1e-16 of the mass lies below, so products stay in range; far above the mass
    they end in zero. Rounding grows with the square root of the distance, to 1e-14 at 1,000 values.
    """
    masses = np.ones((ratios.shape[0], ratios.shape[1] + 1))
    np.cumprod(ratios, axis=1, out=masses[:, 1:])
    masses /= masses.sum(axis=1, keepdims=True)
    return masses


def _log_rising(k: Array, size: Array) -> Array:
    """Return ``log(Gamma(k + size) / Gamma(size) / size^k)``, with no digits lost at large sizes.

    Above 100 by Stirling's series, whose next term is below ``1 / (1260 size^5)``, 1e-13.
    """
    total = k + size
    plain = special.gammaln(total) - special.gammaln(size) - k * np.log(size)
    tail = (1 / total - 1 / size) / 12 - (1 / total**3 - 1 / size**3) / 360
    series = (total - 0.5) * np.log1p(k / size) - k + tail
    return np.asarray(np.where(size > 100, series, plain))


class Poisson(ScipyPredictive):
    """Poisson distributions.

    Parameters
    ----------
    mean : array_like (n,)
        Means, nonnegative.

    Raises
    ------
    ValueError
        Negative or not finite means, or another shape.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.Poisson([1.0, 4.0]).variance.tolist()
    [1.0, 4.0]
    """

    def __init__(self, mean: Any) -> None:
        from scipy import stats  # slow to load: only when used

        self._mean = _vector(mean, "mean")
        super().__init__(stats.poisson(self._mean), len(self._mean))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._mean

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        return self._mean

    def take(self, rows: NDArray[np.intp]) -> Poisson:
        """Return the distributions of some rows."""
        return Poisson(self._mean[rows])

    def _masses(self, values: Array) -> Array:
        """Return probabilities, from ``p(k) / p(k - 1) = mean / k``."""
        return _from_ratios(self._mean[:, None] / values[:, 1:])

    def __repr__(self) -> str:
        return f"Poisson{self.shape}"


class NegativeBinomial(ScipyPredictive):
    """Negative binomial distributions with variance ``mean + dispersion mean^2`` (NB2).

    Parameters
    ----------
    mean : array_like (n,)
        Means, nonnegative.
    dispersion : array_like, scalar or (n,)
        Dispersion alpha as in statsmodels, positive; towards 0 the Poisson distribution.

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

    def __init__(self, mean: Any, dispersion: Any) -> None:
        from scipy import stats

        self._mean = _vector(mean, "mean")
        alpha = parameter(dispersion, "dispersion", least=0.0, strict=True)
        try:
            alpha = np.broadcast_to(alpha, self._mean.shape)
        except ValueError:
            raise ValueError(
                f"dispersion has shape {alpha.shape}; a scalar or {self._mean.shape} is needed"
            ) from None
        self.dispersion = np.array(alpha)
        self._alpha = np.maximum(alpha, _LEAST_DISPERSION)
        # SciPy's mean is size (1 - p) / p: sizes from a rounded p keep it where p is nearly 1.
        success = 1 / (1 + np.maximum(alpha * self._mean, _LEAST_ODDS))
        size = np.where(self._mean > 0, self._mean * success / (1 - success), 1.0)
        success = np.where(self._mean > 0, success, 1.0)
        super().__init__(stats.nbinom(size, success), len(self._mean))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._mean

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        return np.asarray(self._mean * (1 + self.dispersion * self._mean))

    def cdf(self, y: Any) -> Array:
        """Return P(Y <= y) (n,)."""
        return self._cdf(np.floor(self.outcomes(y)))

    def cdf_below(self, y: Any) -> Array:
        """Return P(Y < y) (n,)."""
        return self._cdf(np.ceil(self.outcomes(y)) - 1)

    def _cdf(self, k: Array) -> Array:
        """Return ``1 - I_q(k + 1, 1/alpha)``, with q the one of p and q that keeps its digits."""
        odds = self._alpha * self._mean
        above = special.betainc(np.maximum(k, 0) + 1, 1 / self._alpha, odds / (1 + odds))
        return np.asarray(np.where(k < 0, 0.0, 1 - above))

    def log_prob(self, y: Any) -> Array:
        """Return the log probability (n,)."""
        y = np.asarray(np.broadcast_to(self.outcomes(y), self.shape))
        valid = (y >= 0) & (y == np.floor(y)) & np.isfinite(y)
        k = np.where(valid, y, 0.0)
        size, odds = 1 / self._alpha, self._alpha * self._mean
        ways = _log_rising(k, size) - special.gammaln(k + 1)
        logs = ways + special.xlogy(k, self._mean / (1 + odds)) - size * np.log1p(odds)
        return np.asarray(np.where(valid, logs, np.where(np.isnan(y), np.nan, -np.inf)))

    def take(self, rows: NDArray[np.intp]) -> NegativeBinomial:
        """Return the distributions of some rows."""
        return NegativeBinomial(self._mean[rows], self.dispersion[rows])

    def _masses(self, values: Array) -> Array:
        """Return probabilities, from ``p(k) / p(k - 1) = (1 + alpha (k - 1)) mu / ((1 + alpha mu) k)``."""
        mean, alpha = self._mean[:, None], self.dispersion[:, None]
        odd = mean / (1 + alpha * mean)
        if values.strides[0] == 0 and np.ptp(self.dispersion) == 0:  # one support, one dispersion
            k = values[:1, 1:]
            return _from_ratios(odd * ((1 + alpha[:1] * (k - 1)) / k))
        return _from_ratios(odd * (1 + alpha * (values[:, 1:] - 1)) / values[:, 1:])

    def __repr__(self) -> str:
        return f"NegativeBinomial{self.shape}"
