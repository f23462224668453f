"""Draws from a predicted distribution: ensemble members, Monte-Carlo samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive.base import Array, Nodes, Predictive, parameter

__all__ = ["Draws"]


@dataclass(frozen=True, eq=False)
class Draws(Predictive):
    """Empirical distributions of draws, each with the same weight.

    Parameters
    ----------
    array : array_like (n,), (n, l) or (n, l, k)
        One or l draws an input; vectors of k components.
    """

    array: Array

    def __post_init__(self) -> None:
        array = parameter(self.array, "draws")
        if array.ndim not in (1, 2, 3) or array.size == 0:
            raise ValueError(
                f"draws have shape {array.shape}; (n,), (n, l) or (n, l, k) is needed, none of them 0"
            )
        object.__setattr__(self, "array", array[:, None] if array.ndim == 1 else array)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)`` or ``(n, k)``."""
        return (self.array.shape[0], *self.array.shape[2:])

    @property
    def mean(self) -> Array:
        """Means over draws."""
        return np.asarray(self.array.mean(axis=1))

    @property
    def variance(self) -> Array:
        """Variances over draws (ddof=0: of the empirical distribution)."""
        return np.asarray(self.array.var(axis=1))

    @property
    def std(self) -> Array:
        """Standard deviations over draws."""
        return np.asarray(self.array.std(axis=1))

    def cdf(self, y: Any) -> Array:
        """Return the share of draws <= y."""
        return np.asarray((self.array <= np.asarray(y)[:, None]).mean(axis=1))

    def cdf_below(self, y: Any) -> Array:
        """Return the share of draws < y."""
        return np.asarray((self.array < np.asarray(y)[:, None]).mean(axis=1))

    def log_prob(self, y: Any) -> Array:
        """Refuse: draws have no density."""
        del y
        raise ValueError(
            "draws have no density; fit a distribution to them, such as Gaussian(mean, std)"
        )

    def quantile(self, level: Any) -> Array:
        """Return empirical quantiles (n,) or (n, j)."""
        return (
            np.asarray(np.moveaxis(np.quantile(self.array, level, axis=1), 0, -1))
            if np.ndim(level)
            else np.asarray(np.quantile(self.array, level, axis=1))
        )

    def sample(self, size: int, random_state: Any = None) -> Array:
        """Return ``size`` draws with replacement."""
        rng = np.random.default_rng(random_state)
        which = rng.integers(0, self.array.shape[1], (self.array.shape[0], size))
        return np.asarray(self.array[np.arange(len(which))[:, None], which])

    def take(self, rows: NDArray[np.intp]) -> Draws:
        """Return the draws of some rows."""
        return Draws(self.array[rows])

    def nodes(self) -> Nodes:
        """Return the draws, with equal weights."""
        n, count = self.array.shape[:2]
        return self.array, np.full((n, count), 1.0 / count)
