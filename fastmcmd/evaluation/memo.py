"""A prediction that remembers what was asked of it, so that many metrics share one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.kernels import Kernel
from fastmcmd.predictive.base import Array, Nodes, Predictive

__all__ = ["Memo"]


class Memo(Predictive):
    """A prediction whose moments, and what it says of one fixed array of outcomes, are kept.

    Parameters
    ----------
    base : Predictive
        The prediction.
    y : ndarray
        The outcomes; answers for this very object are kept, those for others, and for views, are not.
    """

    def __init__(self, base: Predictive, y: Array) -> None:
        self.base, self.y = base, y
        self.discrete = base.discrete
        self.has_density, self.has_inverse = base.has_density, base.has_inverse
        self._kept: dict[str, Array] = {}

    def _once(self, name: str, compute: Callable[[], Array]) -> Array:
        if name not in self._kept:
            self._kept[name] = compute()
        return self._kept[name]

    def _at(self, name: str, y: Any) -> Array:
        compute = getattr(self.base, name)
        return self._once(name, lambda: compute(y)) if y is self.y else compute(y)

    def keep(self, level: float, quantiles: Array) -> None:
        """Keep quantiles (n,) that were computed elsewhere."""
        self._kept[_quantile(level)] = quantiles

    def subset(self, rows: NDArray[np.intp]) -> Memo:
        """Return the prediction of some rows, which remembers what this one does."""
        part = Memo(self.base.take(rows), self.y[rows])
        part._kept = {name: values[rows] for name, values in self._kept.items()}
        return part

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the outputs."""
        return self.base.shape

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

    def cdf(self, y: Any) -> Array:
        """Return P(Y <= y)."""
        return self._at("cdf", y)

    def cdf_below(self, y: Any) -> Array:
        """Return P(Y < y)."""
        if not self.discrete and type(self.base).cdf_below is Predictive.cdf_below:
            return self.cdf(y)  # the same numbers
        return self._at("cdf_below", y)

    def sf(self, y: Any) -> Array:
        """Return P(Y > y), small ones with the digits that the base keeps."""
        return self._at("sf", y)

    def log_prob(self, y: Any) -> Array:
        """Return log densities or log probabilities."""
        return self._at("log_prob", y)

    def crps(self, y: Any) -> Array:
        """Return the continuous ranked probability scores."""
        return self._at("crps", y)

    def quantile(self, level: Any) -> Array:
        """Return quantiles; those of single levels are kept."""
        if np.ndim(level):
            return self.base.quantile(level)
        return self._once(_quantile(level), lambda: self.base.quantile(level))

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles at levels of each row's own."""
        return self.base.quantiles_at(levels)

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return numbers whose `sf` has fallen to levels of each row's own."""
        return self.base.upper_quantiles_at(levels)

    def sample(self, size: int, random_state: Any = None) -> Array:
        """Return draws."""
        return self.base.sample(size, random_state)

    def take(self, rows: NDArray[np.intp]) -> Predictive:
        """Return the distributions of some rows."""
        return self.base.take(rows)

    def nodes(self, splits: int = 1) -> Nodes:
        """Return nodes and weights."""
        return self.base.nodes(splits)

    def coarse_nodes(self) -> Nodes:
        """Return cheaper nodes and weights."""
        return self.base.coarse_nodes()

    @property
    def node_count(self) -> int:
        """Nodes of a row."""
        return self.base.node_count

    def support(self) -> Nodes | None:
        """Return shared outputs and their probabilities."""
        return self.base.support()

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return expectations of a kernel."""
        return self.base.closed_form(kernel, points)

    def closed_form_pairs(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return expectations of a kernel over pairs."""
        return self.base.closed_form_pairs(kernel, other)

    def closed_form_rows(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return ``E k(Y_i, Y'_i)`` (n,) of independent Y and Y'."""
        other = other.base if isinstance(other, Memo) else other
        return self.base.closed_form_rows(kernel, other)

    def gaussian_parts(self) -> list[tuple[Array, Predictive]] | None:
        """Return weights (n,) and the Gaussians that this is a mixture of, or None."""
        return self.base.gaussian_parts()

    def nodes_within(self, length: float) -> Nodes:
        """Return nodes from panels no longer than ``length``."""
        return self.base.nodes_within(length)

    def __repr__(self) -> str:
        return repr(self.base)


def _quantile(level: Any) -> str:
    return f"quantile {float(level)!r}"
