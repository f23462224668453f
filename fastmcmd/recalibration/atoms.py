"""Counts and draws whose distribution functions are mapped by one increasing function."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import RandomState
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_count
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.predictive import Draws, Predictive
from fastmcmd.predictive.base import Array, Nodes, check_levels
from fastmcmd.predictive.numerics.spread import root_of_squares
from fastmcmd.recalibration.monotone import MonotoneMap
from fastmcmd.recalibration.recalibrated import RecalibratedCDF

__all__ = ["RecalibratedAtoms", "recalibrated"]

_BLOCK = 1 << 20  # node values per block
_MOST_ROWS = 1 << 10  # rows of a block that is searched as one array: levels keep 13 digits
# By rounding, R^-1(R(F(k))) may be slightly above F(k), and the quantile would be k + 1. The rounding of
# R(F(k)) grows where R is almost flat: it is subtracted before the inverse, that of the inverse after it.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


def recalibrated(prediction: Predictive, mapping: MonotoneMap) -> RecalibratedCDF:
    """Return the predictions with the distribution functions R(F(y))."""
    if isinstance(prediction, RecalibratedCDF):  # compose the maps: quadrature needs all knots
        return recalibrated(prediction.inner, mapping.after(prediction.mapping))
    return (RecalibratedAtoms if prediction.exact_nodes else RecalibratedCDF)(prediction, mapping)


class RecalibratedAtoms(RecalibratedCDF):
    """Distributions on the same outcomes with the distribution functions R(F(y)).

    Parameters
    ----------
    inner : Predictive
        Predicted distributions of n numbers whose nodes are all outcomes: discrete ones, draws, and
        mixtures of these.
    mapping : MonotoneMap
        Increasing map R with R(0) = 0 and R(1) = 1.

    Notes
    -----
    An outcome k has the probability ``R(F(k)) - R(F(k-1))``: counts stay counts, and draws become weighted
    draws. Quantiles of draws are interpolated as in `Draws`.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import MonotoneMap, RecalibratedAtoms
    >>> r = MonotoneMap(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.25, 1.0]))
    >>> RecalibratedAtoms(fm.Draws([[1.0, 3.0]]), r).mean.tolist()
    [2.5]
    """

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,) or (n, j)."""
        levels = check_levels(level)
        if isinstance(self.inner, Draws):  # between draws, quantiles are interpolated
            return self.inner.quantile(self.mapping.inverse(levels))
        levels = _slightly_below(self.mapping.inverse(_slightly_below(levels)))
        return self.inner.quantile(levels)

    def _masses(self, weights: Array) -> Array:
        """Return mapped probabilities of increasing outcomes (n, L)."""
        upto = np.cumsum(weights, axis=1)
        upto[:, -1] = 1.0
        return np.diff(self.mapping(upto), axis=1, prepend=0.0)

    @property
    def exact_nodes(self) -> bool:
        """Whether the nodes of the inner distributions are exact."""
        return self.inner.exact_nodes

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the outcomes in increasing order, with their probabilities."""
        values, weights = self.inner.nodes(splits)
        if (np.diff(values, axis=1) < 0).any():
            order = np.argsort(values, axis=1, kind="stable")
            values = np.take_along_axis(values, order, axis=1)
            weights = np.take_along_axis(weights, order, axis=1)
        return values, self._masses(weights)

    def coarse_nodes(self) -> Nodes:
        """Return the nodes themselves: their sums are exact."""
        return self.nodes()

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return self.inner.node_count

    def support(self) -> Nodes | None:
        """Return the outcomes (L,) that all rows share and their probabilities (n, L), or None."""
        nodes = self.inner.support()
        if nodes is None or (np.diff(nodes[0]) < 0).any():
            return None
        return nodes[0], self._masses(nodes[1])

    def closed_form(self, kernel: object, points: Array) -> None:
        """Return None: sums over outcomes are exact."""
        del kernel, points

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        mean, std = np.empty(len(self)), np.empty(len(self))
        for rows, values, masses in self._blocks():
            mean[rows] = np.einsum("nl,nl->n", masses, values)
            std[rows] = root_of_squares(masses, values - mean[rows, None])
        return mean, std

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size)."""
        rng = generator(random_state, Purpose.SAMPLE)
        out = np.empty((len(self), check_count(size, "size")))
        for rows, values, masses in self._blocks(_MOST_ROWS):
            upto = np.cumsum(masses, axis=1)
            upto[:, -1] = 1.0
            row = np.arange(len(values))[:, None]
            uniform = rng.random((len(values), size))
            cell = np.searchsorted((upto + row).ravel(), (uniform + row).ravel(), side="right")
            columns = cell.reshape(uniform.shape) - row * values.shape[1]
            columns = np.clip(columns, 0, values.shape[1] - 1)
            out[rows] = np.take_along_axis(values, columns, axis=1)
        return out

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,): the integral of a step function."""
        y = np.asarray(np.broadcast_to(self.outcomes(y), self.shape))
        out = np.empty(len(self))
        for rows, values, masses in self._blocks():
            level = np.cumsum(masses, axis=1)[:, :-1]
            outcomes = y[rows][:, None]
            below = np.clip(outcomes, values[:, :-1], values[:, 1:]) - values[:, :-1]
            above = np.diff(values, axis=1) - below
            inside = (below * level**2 + above * (1 - level) ** 2).sum(axis=1)
            outside = np.maximum(values[:, 0] - y[rows], 0) + np.maximum(y[rows] - values[:, -1], 0)
            out[rows] = inside + outside
        return out

    def _blocks(self, most: int | None = None) -> Iterator[tuple[slice, Array, Array]]:
        """Yield rows with their outcomes and probabilities."""
        step = max(1, _BLOCK // max(1, self.node_count))
        for rows in row_blocks(len(self), step if most is None else min(step, most)):
            yield rows, *self.take(np.arange(rows.start, rows.stop)).nodes()


def _slightly_below(levels: Array) -> Array:
    """Return levels inside (0, 1) less the rounding."""
    return np.where((levels > _ROUNDING) & (levels < 1), levels - _ROUNDING, levels)
