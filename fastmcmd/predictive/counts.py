"""Predictions of counts: Poisson, negative binomial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fastmcmd.predictive.base import Array, parameter
from fastmcmd.predictive.frozen import ScipyPredictive

__all__ = ["NegativeBinomial", "Poisson"]


def _vector(value: Any, name: str, least: float, strict: bool) -> Array:
    array = parameter(value, name, least=least, strict=strict)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; (n,) is needed: a value an input")
    return array


def _table(function: Callable[[Array], Any], values: Array, offset: float) -> Array:
    """Return ``function(values + offset)`` for whole numbers, each computed once."""
    low, high = int(values.min()), int(values.max())
    table = np.asarray(function(np.arange(low, high + 1, dtype=np.float64) + offset))
    return table[(values - low).astype(np.intp)]


class Poisson(ScipyPredictive):
    """Poisson distributions.

    Parameters
    ----------
    mean : array_like (n,)
        Means, nonnegative.
    """

    def __init__(self, mean: Any) -> None:
        from scipy import stats  # slow to load: only when used

        mean = _vector(mean, "mean", 0.0, False)
        super().__init__(stats.poisson(mean), len(mean))

    def _pmf(self, values: Array) -> Array:
        mean = self.mean[:, None]
        logs = special.xlogy(values, mean) - mean - _table(special.gammaln, values, 1.0)
        return np.asarray(np.exp(logs))

    def __repr__(self) -> str:
        return f"Poisson(n={len(self)})"

    def take(self, rows: NDArray[np.intp]) -> Poisson:
        """Return the distributions of some rows."""
        return Poisson(self.mean[rows])


class NegativeBinomial(ScipyPredictive):
    """Negative binomial distributions with variance ``mean + dispersion mean^2`` (NB2).

    Parameters
    ----------
    mean : array_like (n,)
        Means, positive.
    dispersion : array_like, scalar or (n,)
        Dispersion alpha as in statsmodels, positive.
    """

    def __init__(self, mean: Any, dispersion: Any) -> None:
        from scipy import stats

        mean = _vector(mean, "mean", 0.0, True)
        alpha = parameter(dispersion, "dispersion", least=0.0, strict=True)
        try:
            alpha = np.broadcast_to(alpha, mean.shape)
        except ValueError:
            raise ValueError(
                f"dispersion has shape {alpha.shape}; a scalar or {mean.shape} is needed"
            ) from None
        super().__init__(stats.nbinom(1 / alpha, 1 / (1 + alpha * mean)), len(mean))
        self.dispersion = np.array(alpha)

    def _pmf(self, values: Array) -> Array:
        size = 1 / self.dispersion[:, None]
        success = np.log1p(self.mean[:, None] / size)  # -log(p) of SciPy's parameters
        failure = -np.log1p(size / self.mean[:, None])
        if np.ptp(self.dispersion) == 0:  # one table serves all inputs
            rising = _table(special.gammaln, values, float(size[0, 0]))
        else:
            rising = special.gammaln(values + size)
        logs = rising - special.gammaln(size) - _table(special.gammaln, values, 1.0)
        return np.asarray(np.exp(logs - size * success + values * failure))

    def __repr__(self) -> str:
        return f"NegativeBinomial(n={len(self)})"

    def take(self, rows: NDArray[np.intp]) -> NegativeBinomial:
        """Return the distributions of some rows."""
        return NegativeBinomial(self.mean[rows], self.dispersion[rows])
