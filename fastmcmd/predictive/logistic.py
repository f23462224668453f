"""Predictions by logistic distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.family import parameters
from fastmcmd.predictive.numerics.closed_scores import (
    SymmetricFamily,
)
from fastmcmd.predictive.numerics.density_terms import DensityFamily, DensityTerm, density_term
from fastmcmd.predictive.numerics.log_densities import LogDensity
from fastmcmd.predictive.symmetric import Symmetric

__all__ = ["Logistic"]


class Logistic(Symmetric):
    """Logistic distributions.

    Parameters
    ----------
    loc, scale : array_like, scalar or (n,)
        Medians, and scales, positive: the standard deviation is ``pi scale / sqrt(3)``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    The CRPS is ``scale (z - 2 log F(z) - 1)`` (Jordan, Krueger & Lerch, *Evaluating Probabilistic Forecasts
    with scoringRules*, JSS 2019, appendix A).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.Logistic([0.0, 1.0], 2.0).cdf([0.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    _symmetric = SymmetricFamily.LOGISTIC
    _core_density = LogDensity.LOGISTIC

    def __init__(self, loc: ArrayLike, scale: ArrayLike) -> None:
        super().__init__(parameters(("scale",), loc=loc, scale=scale))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self.loc

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        return np.asarray(self.std**2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return np.asarray(np.pi / np.sqrt(3) * self.scale)

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.logistic(self.loc, self.scale)

    def _log_prob(self, y: Array, loc: Array, scale: Array) -> Array:
        size = np.abs(y - loc) / scale
        return -size - 2 * np.log1p(np.exp(-size)) - np.log(scale)

    def _density_formula(self) -> tuple[Any, tuple[Array, ...]]:
        return _log_density_at, (*self._values, -np.log(self.scale))

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the density, for the core."""
        return density_term(DensityFamily.LOGISTIC, -np.log(self.scale), *self._values)

    def _quantile(self, level: Array, loc: Array, scale: Array) -> Array:
        return loc + scale * scipy.special.logit(level)

    def _upper_quantile(self, level: Array, loc: Array, scale: Array) -> Array:
        return self._quantile(level, loc, -scale)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], loc: Array, scale: Array
    ) -> Array:
        return rng.logistic(loc, scale, shape)


def _log_density_at(y: Array, loc: Array, scale: Array, height: Array) -> Array:
    """Return the log density; a rounding of ``log(1 + exp(-|z|))`` to 1e-16 is one of the density."""
    size = np.abs(y - loc)
    size /= -scale
    return size - 2 * np.log(1 + np.exp(size)) + height
