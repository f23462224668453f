"""A prediction that caches its results, so that many metrics share one pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd.kernels import Kernel
from fastmcmd.predictive.base import Array, Predictive
from fastmcmd.predictive.wrapped import Wrapped

__all__ = ["Memo"]


class Memo(Wrapped):
    """A prediction that caches its moments, and its results for one array of outcomes.

    Parameters
    ----------
    base : Predictive
        The prediction.
    y : ndarray
        The outcomes. Results for this very object are cached; those for other arrays and views are not.
    """

    def __init__(self, base: Predictive, y: Array) -> None:
        super().__init__(base)
        self.y = y
        self._cached: dict[str, Array] = {}

    def _once(self, name: str, compute: Callable[[], Array]) -> Array:
        if name not in self._cached:
            self._cached[name] = compute()
        return self._cached[name]

    def _at(self, name: str, y: ArrayLike) -> Array:
        compute = getattr(self.base, name)
        return self._once(name, lambda: compute(y)) if y is self.y else compute(y)

    def store(self, level: float, quantiles: Array) -> None:
        """Cache quantiles (n,) that were computed elsewhere."""
        self._cached[_quantile(level)] = quantiles

    def subset(self, rows: NDArray[np.intp]) -> Memo:
        """Return the prediction of some rows, which remembers what this one does."""
        part = Memo(self.base.take(rows), self.y[rows])
        part._cached = {name: values[rows] for name, values in self._cached.items()}
        return part

    @property
    def mean(self) -> Array:
        """Means."""
        return self._once("mean", lambda: self.base.mean)

    @property
    def variance(self) -> Array:
        """Variances."""
        return self._once("variance", lambda: self.base.variance)

    @property
    def std(self) -> Array:
        """Standard deviations."""
        return self._once("std", lambda: self.base.std)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y)."""
        return self._at("cdf", y)

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y)."""
        if not self.discrete and type(self.base).cdf_below is Predictive.cdf_below:
            return self.cdf(y)  # the same numbers
        return self._at("cdf_below", y)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y), with all digits that the base has."""
        return self._at("sf", y)

    def log_prob(self, y: ArrayLike) -> Array:
        """Return log densities or log probabilities."""
        return self._at("log_prob", y)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability scores."""
        return self._at("crps", y)

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles; those of single levels are cached."""
        if np.ndim(level):
            return self.base.quantile(level)
        return self._once(_quantile(level), lambda: self.base.quantile(level))

    def closed_form_rows(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return ``E k(Y_i, Y'_i)`` (n,) of independent Y and Y'."""
        other = other.base if isinstance(other, Memo) else other
        return self.base.closed_form_rows(kernel, other)


def _quantile(level: ArrayLike) -> str:
    return f"quantile {float(np.asarray(level))!r}"
