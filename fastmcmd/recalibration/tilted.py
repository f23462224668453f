"""Predictions whose densities are multiplied by a weight function that differs from row to row."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.cached import cached_property
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.inference.corrections import log_masses
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.atomless import without_atoms
from fastmcmd.predictive.base import LEAST_UNIFORM, Array, Nodes
from fastmcmd.predictive.wrapped import Derived

__all__ = ["TiltedCDF", "TiltedCounts"]

_BLOCK = 1 << 20  # nodes per block
_FINE = 129  # smallest number of levels
_PER_CELL = 2  # Gauss-Legendre nodes between two levels
_ROUNDING = 1e-14  # rounding of a sum of masses that should reach a level


def _refined(levels: Array, weights: Array) -> tuple[Array, Array]:
    """Return the same w with at least 128 cells, small at both ends, where nodes would be too few."""
    if len(levels) > _FINE:
        return levels, weights
    tail = 2.0 ** -np.arange(8, 40)
    fine = np.concatenate([levels, np.linspace(0, 1, _FINE), tail, 1 - tail])
    fine = np.unique(fine[(fine >= levels[0]) & (fine <= levels[-1])])
    return fine, np.stack([np.interp(fine, levels, one) for one in weights])


class TiltedCDF(Derived):
    """Continuous distributions with densities ``f(y) w(F(y))``, where w differs from row to row.

    Parameters
    ----------
    inner : Predictive
        Continuous predicted distributions of n numbers with densities.
    levels : ndarray (K,)
        Nodes u of w, increasing from 0 to 1.
    weights : ndarray (n, K)
        Nonnegative values of w at the nodes, with linear interpolation between them. Each row is
        normalised, so a factor per row does not matter.

    Notes
    -----
    Let G be the integral of the normalised w, which is piecewise quadratic. Then ``cdf = G(F(y))``,
    ``quantile = F^-1(G^-1)`` and ``log_prob = log f + log w(F(y))``. The result is a distribution for every
    w, with the support of the prediction. Expectations are sums over quantiles at Gauss-Legendre levels
    between nodes.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import TiltedCDF
    >>> moved = TiltedCDF(fm.Gaussian([0.0], 1.0), np.array([0.0, 1.0]), np.array([[0.0, 2.0]]))
    >>> moved.cdf(0.0).tolist(), moved.mean.round(4).tolist()  # the larger of two draws
    ([0.25], [0.5642])
    """

    def __init__(self, inner: Predictive, levels: Array, weights: Array) -> None:
        if inner.discrete or not inner.has_density:
            raise ValueError(
                f"prediction is {inner!r}; continuous distributions with densities are needed"
            )
        levels, weights = _refined(levels, weights)
        self.inner, self.levels = inner, levels
        width = np.diff(levels)
        areas = (weights[:, 1:] + weights[:, :-1]) / 2 * width
        total = areas.sum(axis=1, keepdims=True)
        if not (np.isfinite(total) & (total > 0)).all():
            raise ValueError("weights of some row are not finite, or all 0")
        self.weights = weights / total
        areas /= total
        start = np.zeros((len(weights), 1))
        self._below = np.concatenate([start, np.cumsum(areas, axis=1)], axis=1)
        self._above = np.concatenate([np.cumsum(areas[:, ::-1], axis=1)[:, ::-1], start], axis=1)

    def __repr__(self) -> str:
        return f"TiltedCDF({self.inner!r})"

    def _parts(
        self, u: Array
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Array, Array, Array, Array]:
        """Return rows and cells of levels (n,) or (n, j), positions in the cells, and w at both ends."""
        row = np.arange(len(self)).reshape(-1, *[1] * (u.ndim - 1))
        cell = np.clip(np.searchsorted(self.levels, u, side="right") - 1, 0, len(self.levels) - 2)
        width = self.levels[cell + 1] - self.levels[cell]
        place = np.clip((u - self.levels[cell]) / width, 0.0, 1.0)
        left, right = self.weights[row, cell], self.weights[row, cell + 1]
        return row, cell, place, width, left, right

    def _map(self, u: Array) -> Array:
        """Return G(u)."""
        row, cell, t, width, left, right = self._parts(u)
        level = self._below[row, cell] + width * t * (left + (right - left) * t / 2)
        return np.minimum(level, 1.0)

    def _map_above(self, s: Array) -> Array:
        """Return ``1 - G(1 - s)``, accurate for small s."""
        row, cell, t, width, left, right = self._parts(1 - s)
        back = np.where(cell == len(self.levels) - 2, s / width, 1 - t)
        return np.minimum(
            self._above[row, cell + 1] + width * back * (right + (left - right) * back / 2), 1.0
        )

    def _inverse(self, p: Array) -> Array:
        """Return u with G(u) = p for levels (n, j)."""
        cell = np.empty(p.shape, dtype=np.intp)
        for i in range(len(p)):
            cell[i] = np.searchsorted(self._below[i], p[i], side="right") - 1
        cell = np.clip(cell, 0, len(self.levels) - 2)
        row = np.arange(len(self))[:, None]
        width = self.levels[cell + 1] - self.levels[cell]
        left, right = self.weights[row, cell], self.weights[row, cell + 1]
        cell_mass = np.maximum(p - self._below[row, cell], 0.0) / width
        # left t + (right - left) t^2 / 2 = rest, without cancellation.
        root = np.sqrt(np.maximum(left**2 + 2 * (right - left) * cell_mass, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(cell_mass > 0, 2 * cell_mass / (left + root), 0.0)
        return np.asarray(self.levels[cell] + width * np.clip(t, 0.0, 1.0))

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,): G(F(y))."""
        return self._map(np.asarray(self.inner.cdf(y)))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,); small probabilities keep all their digits."""
        return self._map_above(np.asarray(self.inner.sf(y)))

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density (n,), ``log f(y) + log w(F(y))``."""
        level = np.asarray(self.inner.cdf(y))
        _, _, t, _, left, right = self._parts(level)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.inner.log_prob(y) + np.log(left + (right - left) * t))

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        inside = self._inverse(np.asarray(levels))
        edge = (inside <= 0) | (inside >= 1)
        if not edge.any():
            return self.inner.quantiles_at(inside)
        values = self.inner.quantiles_at(np.clip(inside, LEAST_UNIFORM, 1 - 2 * LEAST_UNIFORM))
        ends = np.asarray(self.inner.quantile(np.array([0.0, 1.0])))
        values = np.where(inside <= 0, ends[:, :1], values)
        return np.where(inside >= 1, ends[:, 1:], values)

    def take(self, rows: NDArray[np.intp]) -> TiltedCDF:
        """Return the distributions of some rows."""
        return TiltedCDF(self.inner.take(rows), self.levels, self.weights[rows])

    def _rule(self, per_cell: int) -> tuple[Array, Array, Array]:
        """Return Gauss-Legendre levels (L,), their shares (L,) and positions in a cell (per_cell,)."""
        z, w = gauss_legendre(per_cell)
        width = np.diff(self.levels)[:, None]
        levels = self.levels[:-1, None] + width * (z + 1) / 2
        return levels.ravel(), (width * w / 2).ravel(), (z + 1) / 2

    def _nodes(self, per_cell: int) -> Nodes:
        levels, shares, places = self._rule(per_cell)
        left, right = self.weights[:, :-1, None], self.weights[:, 1:, None]
        density = left + (right - left) * places
        return np.asarray(self.inner.quantile(levels)), density.reshape(len(self), -1) * shares

    def nodes(self, splits: int = 1) -> Nodes:
        """Return quantiles of the prediction at Gauss-Legendre levels, and their weights."""
        return self._nodes(_PER_CELL * splits)

    def coarse_nodes(self) -> Nodes:
        """Return half as many nodes; comparing sums over both estimates the error of `nodes`."""
        return self._nodes(1)

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return _PER_CELL * (len(self.levels) - 1)

    @property
    def mean(self) -> Array:
        """Means (n,); not finite where the prediction has no finite mean."""
        return np.where(np.isfinite(self.inner.mean), self._moments[0], self.inner.mean)

    @property
    def std(self) -> Array:
        """Standard deviations (n,); not finite where the prediction has no finite one."""
        return np.where(np.isfinite(self.inner.std), self._moments[1], self.inner.std)

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return E k(Y, z) for kernels that need no integral."""
        return without_atoms(self, kernel, points)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), to about 1e-4 standard deviations.

        The score ``E|Y - y| - E|Y - Y'| / 2`` is computed as ``E|Y - y| - E[Y (2 G(F(Y)) - 1)]``, by sums
        over the nodes. If means are not finite, the cdf is integrated instead.
        """
        if not np.isfinite(self.inner.mean).all():
            return super().crps(y)
        y = np.broadcast_to(self.outcomes(y), self.shape)
        levels = self._rule(_PER_CELL)[0]
        out = np.empty(len(self))
        step = max(1, _BLOCK // len(levels))
        for start in range(0, len(self), step):
            part = self.take(np.arange(start, min(start + step, len(self))))
            values, weights = part.nodes()
            outcomes = y[start : start + step, None]
            level = part._map(np.broadcast_to(levels, values.shape))
            distance = np.abs(values - outcomes) - (values - part.mean[:, None]) * (2 * level - 1)
            out[start : start + step] = np.einsum("nl,nl->n", weights, distance)
        return out


class TiltedCounts(Derived):
    """Counts with normalised probabilities ``f(k) w(k)``, where w differs from row to row.

    Parameters
    ----------
    inner : Predictive
        Predicted distributions of n counts.
    first : ndarray (n,)
        The first count at which w is specified.
    log_weights : ndarray (n, L)
        log w at ``first``, ``first + 1`` and so on, which must hold the mass; w is constant beyond.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import TiltedCounts
    >>> doubled = np.arange(60)[None, :] * np.log(2)  # 2^k: a Poisson distribution of twice the mean
    >>> TiltedCounts(fm.Poisson([3.0]), np.zeros(1), doubled).mean.round(9).tolist()
    [6.0]
    """

    discrete = True

    def __init__(self, inner: Predictive, first: Array, log_weights: Array) -> None:
        if not inner.discrete:
            raise ValueError(f"prediction is {inner!r}; counts are needed")
        self.inner, self.first, self.log_weights = inner, first, log_weights
        if not np.isfinite(log_weights).all():
            raise ValueError("log_weights hold values that are not finite")

    @staticmethod
    def of_table(inner: Predictive, first: Array, log_weights: Array, logs: Array) -> TiltedCounts:
        """Return the distributions from log probabilities (n, L) of the counts computed before."""
        tilted = TiltedCounts(inner, first, log_weights)
        vars(tilted)["_table"] = tilted._normalised(logs)
        return tilted

    def __repr__(self) -> str:
        return f"TiltedCounts({self.inner!r})"

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """Log normalisers (n,) and probabilities (n, L)."""
        counts = self.first[:, None] + np.arange(self.log_weights.shape[1])
        return self._normalised(log_masses(self.inner, counts))

    def _normalised(self, logs: Array) -> tuple[Array, Array]:
        logs = self.log_weights + logs
        top = logs.max(axis=1, keepdims=True)
        np.exp(logs - top, out=logs)
        total = logs.sum(axis=1, keepdims=True)
        return top[:, 0] + np.log(total[:, 0]), logs / total

    def _place(self, y: Array) -> NDArray[np.intp]:
        """Return the column of the table for counts (n,); the nearest column for counts outside it."""
        place = np.where(np.isnan(y), 0.0, y - self.first)
        return np.clip(place, 0, self.log_weights.shape[1] - 1).astype(np.intp)

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log probability (n,); -inf where y is not a count."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        tilt = self.log_weights[np.arange(len(self)), self._place(y)]
        return np.asarray(self.inner.log_prob(y) + tilt - self._table[0])

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        """P(Y <= k) and P(Y > k) (n, L) for the counts k of the table."""
        masses = self._table[1]
        upto = np.minimum(np.cumsum(masses, axis=1), 1.0)
        above = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1] - masses
        return upto, np.maximum(above, 0.0)

    def _summed(self, count: Array, kind: int, below: float, beyond: float) -> Array:
        place = count - self.first
        level = self._sums[kind][np.arange(len(self)), self._place(count)]
        level = np.where(
            place < 0, below, np.where(place >= self.log_weights.shape[1], beyond, level)
        )
        return np.where(np.isnan(count), np.nan, level)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return self._summed(np.floor(y), 0, 0.0, 1.0)

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return self._summed(np.ceil(y) - 1, 0, 0.0, 1.0)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,); small probabilities keep all their digits."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return self._summed(np.floor(y), 1, 1.0, 0.0)

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        upto, out = self._sums[0], np.empty(np.shape(levels))
        for i in range(len(self)):
            out[i] = np.searchsorted(upto[i], levels[i] * (1 - _ROUNDING), side="left")
        out = np.minimum(out, upto.shape[1] - 1) + self.first[:, None]
        out = np.where(levels <= 0, np.asarray(self.inner.quantile(0.0))[:, None], out)
        return np.where(levels >= 1, np.asarray(self.inner.quantile(1.0))[:, None], out)

    def take(self, rows: NDArray[np.intp]) -> TiltedCounts:
        """Return the distributions of some rows."""
        return TiltedCounts(self.inner.take(rows), self.first[rows], self.log_weights[rows])

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the counts that hold the mass, and their probabilities."""
        del splits
        return self.first[:, None] + np.arange(self.log_weights.shape[1]), self._table[1]

    @property
    def node_count(self) -> int:
        """Number of counts per row."""
        return self.log_weights.shape[1]
