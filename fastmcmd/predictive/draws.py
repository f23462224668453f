"""Draws from a predicted distribution: ensemble members, Monte-Carlo samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive.base import (
    Array,
    Nodes,
    Predictive,
    check_levels,
    check_size,
    parameter,
)

__all__ = ["Draws"]


@dataclass(frozen=True, eq=False, repr=False)
class Draws(Predictive):
    """Empirical distributions of draws, each with the same weight.

    Parameters
    ----------
    array : array_like (n,), (n, l) or (n, l, k)
        One or l draws an input; vectors of k components. (n, l, 1) is taken as (n, l).

    Raises
    ------
    ValueError
        Draws that are not finite, or of another shape.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.Draws([[0.0, 1.0], [2.0, 4.0]]).cdf([0.5, 5.0]).tolist()
    [0.5, 1.0]
    """

    array: Array

    def __post_init__(self) -> None:
        array = parameter(self.array, "draws")
        if array.ndim not in (1, 2, 3) or array.size == 0:
            raise ValueError(
                f"draws have shape {array.shape}; (n,), (n, l) or (n, l, k) is needed, none of them 0"
            )
        if array.ndim == 1:
            array = array[:, None]
        elif array.ndim == 3 and array.shape[2] == 1:
            array = array[:, :, 0]
        object.__setattr__(self, "array", array)

    def __repr__(self) -> str:
        return f"Draws{self.array.shape}"

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
        """Return the share of draws <= y: (n,), or (n, k) per component."""
        return np.asarray((self.array <= self._beside(y)).mean(axis=1))

    def cdf_below(self, y: Any) -> Array:
        """Return the share of draws < y."""
        return np.asarray((self.array < self._beside(y)).mean(axis=1))

    def _beside(self, y: Any) -> Array:
        y = self.outcomes(y)
        return y[:, None] if y.ndim else y

    def log_prob(self, y: Any) -> Array:
        """Refuse: draws have no density."""
        del y
        raise ValueError(
            "draws have no density; fit a distribution to them, such as Gaussian(mean, std)"
        )

    def quantile(self, level: Any) -> Array:
        """Return empirical quantiles, interpolated between draws; levels (j,) add a last axis."""
        levels = check_levels(level)
        found = np.quantile(self.array, levels, axis=1)
        return np.asarray(np.moveaxis(found, 0, -1) if levels.ndim else found)

    def sample(self, size: int, random_state: Any = None) -> Array:
        """Return ``size`` draws with replacement."""
        rng = np.random.default_rng(random_state)
        which = rng.integers(0, self.array.shape[1], (self.array.shape[0], check_size(size)))
        return np.asarray(self.array[np.arange(len(which))[:, None], which])

    def take(self, rows: NDArray[np.intp]) -> Draws:
        """Return the draws of some rows."""
        return Draws(self.array[rows])

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the draws, with equal weights."""
        del splits
        n, count = self.array.shape[:2]
        return self.array, np.full((n, count), 1.0 / count)

    @property
    def node_count(self) -> int:
        """Draws of a row."""
        return int(self.array.shape[1])
