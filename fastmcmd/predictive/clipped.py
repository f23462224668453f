"""Predictions of outcomes that are clipped to an interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array, Nodes
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.numerics.closed_scores import scores_with_distance
from fastmcmd.predictive.numerics.crps import crps
from fastmcmd.predictive.wrapped import Derived

__all__ = ["Clipped"]


class Clipped(Derived):
    """Distributions of ``min(max(Y, low), high)``.

    Parameters
    ----------
    inner : Predictive of numbers
        Distributions of Y.
    low, high : ndarray (n,)
        Ends, infinite where there is none.
    """

    has_density = False

    def __init__(self, inner: Predictive, low: Array, high: Array) -> None:
        self.inner, self.low, self.high = inner, low, high
        self.discrete = inner.discrete or isinstance(inner, Draws)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return np.where(y >= self.high, 1.0, np.where(y < self.low, 0.0, self.inner.cdf(y)))

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        below = np.where(y <= self.low, 0.0, self.inner.cdf_below(y))
        return np.where(y > self.high, 1.0, below)

    def atoms(self) -> Array:
        """Return both ends and those of the inner distributions (n, k)."""
        return np.column_stack([self.low, self.high, self.inner.atoms()])

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,)."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return np.where(y >= self.high, 0.0, np.where(y < self.low, 1.0, self.inner.sf(y)))

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), in closed form if Y has one.

        Between the ends the cdf is that of Y, and beyond them the score grows with the distance.
        """
        y = np.broadcast_to(self.outcomes(y), self.shape)

        def inside(outcomes: Array) -> Array | None:
            return self.inner.clipped_scores(outcomes, self.low, self.high)

        scores = scores_with_distance(y, self.low, self.high, inside)
        if scores is None:
            return self._integrated(y)
        rows = np.flatnonzero(np.isnan(scores))
        if len(rows):
            scores[rows] = self.take(rows)._integrated(y[rows])
        return scores

    def _integrated(self, y: Array) -> Array:
        """Return scores (n,) by sums or quadrature."""
        if self.discrete:
            return super().crps(y)
        inside = np.clip(y, self.low, self.high)
        with np.errstate(invalid="ignore"):
            distance = np.where(inside == y, 0.0, np.abs(y - inside))
        return crps(_BetweenEnds(self.inner, self.low, self.high), inside) + distance

    def log_prob(self, y: ArrayLike) -> Array:
        """Raise ValueError: outcomes at the ends have positive probability."""
        raise ValueError("prediction is clipped to an interval and has no density")

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,) or (n, j)."""
        inner = self.inner.quantile(level)
        low, high = (end if inner.ndim == 1 else end[:, None] for end in (self.low, self.high))
        return np.clip(inner, low, high)

    def take(self, rows: NDArray[np.intp]) -> Clipped:
        """Return the distributions of some rows."""
        return Clipped(self.inner.take(rows), self.low[rows], self.high[rows])

    def nodes(self, splits: int = 1) -> Nodes:
        """Return clipped nodes of Y and their weights."""
        values, weights = self.inner.nodes(splits)
        return np.clip(values, self.low[:, None], self.high[:, None]), weights

    @property
    def exact_nodes(self) -> bool:
        """Whether the nodes of the inner distributions are exact."""
        return self.inner.exact_nodes

    def coarse_nodes(self) -> Nodes:
        """Return clipped nodes of a lower order."""
        values, weights = self.inner.coarse_nodes()
        return np.clip(values, self.low[:, None], self.high[:, None]), weights

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return self.inner.node_count


class _BetweenEnds(Clipped):
    """The same distributions for arguments between the ends: their cdf does not jump at the ends.

    A node of quadrature that is rounded to an end of a narrow interval would meet the jump.
    """

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,) at y between the ends."""
        return self.inner.cdf(y)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,) at y between the ends."""
        return self.inner.sf(y)

    def take(self, rows: NDArray[np.intp]) -> _BetweenEnds:
        """Return the distributions of some rows."""
        return _BetweenEnds(self.inner.take(rows), self.low[rows], self.high[rows])
