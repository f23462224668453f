"""Predictions of positive numbers whose logarithms have Laplace or logistic distributions."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.family import Family, parameters
from fastmcmd.predictive.numerics.closed_scores import log_laplace_scores
from fastmcmd.predictive.numerics.log_densities import LogDensity, log_densities
from fastmcmd.predictive.numerics.log_ratios import from_log, log_ratio

__all__ = ["LogLaplace", "LogLogistic"]


class _LogSymmetric(Family):
    """A family of positive numbers whose logarithms are symmetric around ``log(scale)``.

    Moments are SciPy's.
    """

    scale: Array
    concentration: Array
    _names = ("scale", "concentration")
    _ends = (0.0, np.inf)
    _scales = "scale", "concentration"

    def __init__(self, scale: ArrayLike, shape: ArrayLike) -> None:
        values = parameters(("scale", "shape"), scale=scale, shape=shape)
        super().__init__({"scale": values["scale"], "concentration": values["shape"]})

    def _log_prob(self, y: Array, scale: Array, shape: Array) -> Array:
        assert self._core_density is not None, "every subclass has one"
        return log_densities(self._core_density, y, scale, shape)

    def _sf(self, y: Array, scale: Array, shape: Array) -> Array:
        return self._cdf_of_log(-log_ratio(y, scale) * shape)

    def _cdf(self, y: Array, scale: Array, shape: Array) -> Array:
        return self._cdf_of_log(log_ratio(y, scale) * shape)

    def _quantile(self, level: Array, scale: Array, shape: Array) -> Array:
        return from_log(self._quantile_of_log(level) / shape, scale)

    def _upper_quantile(self, level: Array, scale: Array, shape: Array) -> Array:
        return from_log(-self._quantile_of_log(level) / shape, scale)

    @staticmethod
    def _cdf_of_log(z: Array) -> Array:
        """Return the standard cdf of the logarithm."""
        raise NotImplementedError

    @staticmethod
    def _quantile_of_log(level: Array) -> Array:
        """Return standard quantiles of the logarithm."""
        raise NotImplementedError


class LogLaplace(_LogSymmetric):
    """Log-Laplace distributions, as ``scipy.stats.loglaplace(shape, scale=scale)``.

    Parameters
    ----------
    scale, shape : array_like, scalar or (n,)
        Medians, and shapes, both positive: ``log Y`` is a Laplace variable with the location ``log(scale)``
        and the scale ``1 / shape``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    The CRPS is that of Jordan, Krueger & Lerch, *Evaluating Probabilistic Forecasts with scoringRules* (JSS
    2019), appendix A. It is infinite for shapes up to 1.

    Examples
    --------
    >>> from fastmcmd.predictive.log_symmetric import LogLaplace
    >>> LogLaplace([1.0, 2.0], 3.0).cdf([1.0, 2.0]).tolist()
    [0.5, 0.5]
    """

    _core_density = LogDensity.LOG_LAPLACE
    _has_core_scores = True

    def kinks(self) -> Array:
        """Return the medians (n, 1)."""
        return self.scale[:, None]

    def _freeze(self) -> object:
        from scipy import stats

        return stats.loglaplace(self.concentration, scale=self.scale)

    def _crps(self, y: Array, scale: Array, shape: Array) -> Array:
        return log_laplace_scores(y, scale, shape)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], scale: Array, concentration: Array
    ) -> Array:
        return from_log(rng.laplace(size=shape) / concentration, scale)

    @staticmethod
    def _cdf_of_log(z: Array) -> Array:
        tail = np.exp(-np.abs(z)) / 2
        return np.where(z > 0, 1 - tail, tail)

    @staticmethod
    def _quantile_of_log(level: Array) -> Array:
        z = np.log(2 * np.minimum(level, 1 - level))
        return np.where(level > 0.5, -z, z)


class LogLogistic(_LogSymmetric):
    """Log-logistic distributions, as ``scipy.stats.fisk(shape, scale=scale)``.

    Parameters
    ----------
    scale, shape : array_like, scalar or (n,)
        Medians, and shapes, both positive: ``log Y`` is a logistic variable with the location
        ``log(scale)`` and the scale ``1 / shape``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Examples
    --------
    >>> from fastmcmd.predictive.log_symmetric import LogLogistic
    >>> LogLogistic([1.0, 2.0], 3.0).cdf([1.0, 2.0]).tolist()
    [0.5, 0.5]
    """

    _core_density = LogDensity.LOG_LOGISTIC

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), in closed form."""
        return ScipyPredictive.crps(self, y)

    def _freeze(self) -> object:
        from scipy import stats

        return stats.fisk(self.concentration, scale=self.scale)

    def _crps(self, y: Array, scale: Array, shape: Array) -> Array:
        raise NotImplementedError("`crps` is SciPy's")

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], scale: Array, concentration: Array
    ) -> Array:
        return from_log(rng.logistic(size=shape) / concentration, scale)

    @staticmethod
    def _cdf_of_log(z: Array) -> Array:
        return np.asarray(scipy.special.expit(z))

    @staticmethod
    def _quantile_of_log(level: Array) -> Array:
        return np.asarray(scipy.special.logit(level))
