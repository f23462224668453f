"""Predictions of numbers in [0, 1] by beta distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from fastmcmd.predictive.base import Array
from fastmcmd.predictive.family import Family, parameters
from fastmcmd.predictive.numerics.gamma_ratios import half_ratio, scaled_deviance, stirling_error

__all__ = ["Beta"]


class Beta(Family):
    """Beta distributions on [0, 1].

    Parameters
    ----------
    a, b : array_like, scalar or (n,)
        Shapes, positive: the mean is ``a / (a + b)``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    CRPS from Jordan, Krueger & Lerch, *Evaluating Probabilistic Forecasts with scoringRules* (JSS 2019),
    appendix A, its two cdfs reduced to one by their recurrence and ``B(2a, 2b)`` by the duplication
    formula, which keeps digits at large shapes: with the mean m,

        (y - m) (2 F(y) - 1) + 2 / (a + b) (y^a (1 - y)^b / B(a, b) - h(a) h(b) / (2 sqrt(pi) h(a + b)))

    where ``h(x) = Gamma(x + 1/2) / Gamma(x)``.

    Examples
    --------
    >>> from fastmcmd.predictive import Beta
    >>> Beta([1.0, 2.0], [1.0, 6.0]).mean.tolist()
    [0.5, 0.25]
    """

    a: Array
    b: Array
    _names = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(parameters(("a", "b"), a=a, b=b))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return np.asarray(self.a / (self.a + self.b))

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        total = self.a + self.b
        return np.asarray(self.a / total * (self.b / total) / (total + 1))

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.beta(self.a, self.b)

    def _cdf(self, y: Array, a: Array, b: Array) -> Any:
        return scipy.special.betainc(a, b, np.clip(y, 0.0, 1.0))

    def _sf(self, y: Array, a: Array, b: Array) -> Any:
        y = np.clip(y, 0.0, 1.0)
        # 1 - y has lost y where y is small: there only small complements come from it.
        complement = scipy.special.betainc(b, a, 1 - y)
        return np.where(
            (y < 0.5) & (complement > 0.01), 1 - scipy.special.betainc(a, b, y), complement
        )

    def _log_prob(self, y: Array, a: Array, b: Array) -> Any:
        inside = (y > 0) & (y < 1)
        x = np.where(inside, y, 0.5)
        density = _log_power(x, a, b) - np.log(x) - np.log1p(-x)
        edge = np.clip(y, 0.0, 1.0)
        at_edge = (
            scipy.special.xlogy(a - 1, edge)
            + scipy.special.xlog1py(b - 1, -edge)
            - scipy.special.betaln(a, b)
        )
        density = np.where(inside, density, at_edge)
        return np.where((y < 0) | (y > 1), -np.inf, np.where(np.isnan(y), np.nan, density))

    def _crps(self, y: Array, a: Array, b: Array) -> Any:
        total = a + b
        cut = np.clip(y, 0.0, 1.0)
        inside = (cut > 0) & (cut < 1)
        power = np.where(inside, np.exp(_log_power(np.where(inside, cut, 0.5), a, b)), 0.0)
        gini = half_ratio(a) * (half_ratio(b) / half_ratio(total)) / (2 * np.sqrt(np.pi))
        centred = (y - a / total) * (2 * scipy.special.betainc(a, b, cut) - 1)
        return centred + 2 / total * (power - gini)

    def _quantile(self, level: Array, a: Array, b: Array) -> Any:
        return scipy.special.betaincinv(a, b, level)

    def _sample(self, rng: Any, shape: Any, a: Array, b: Array) -> Any:
        return rng.beta(a, b, shape)


def _log_power(y: Array, a: Array, b: Array) -> Any:
    """Return ``log(y^a (1 - y)^b / B(a, b))`` for y in (0, 1), as a sum of terms that do not cancel."""
    total = a + b
    mean, rest = a / total, b / total
    deviance = a * (scaled_deviance(y, mean) / mean) + b * (scaled_deviance(1 - y, rest) / rest)
    scale = (np.log(a) + np.log(b) - np.log(total) - np.log(2 * np.pi)) / 2
    error = stirling_error(total) - stirling_error(a) - stirling_error(b)
    return scale + error - deviance
