"""The base class of families in Pearson's system, whose quantiles at many levels come from a march."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.base import check_levels
from fastmcmd.predictive.family import Family
from fastmcmd.predictive.numerics.marching import FEW, between_tails

__all__ = ["PearsonFamily"]

_LEAST, _MOST = 1e-290, 1e290  # range in which standard quantiles have all their digits


class PearsonFamily(Family):
    """A family whose density satisfies ``f' / f = (p0 + p1 x) / (q0 + q1 x + q2 x^2)`` in standard form.

    For many levels, quantiles are computed by integrating that equation inwards from the outermost
    quantiles (see `fastmcmd._core.march`). This is ten times faster than calling SciPy for each level, and
    as accurate.
    """

    _positive = True  # whether standard quantiles are positive

    @abstractmethod
    def _shapes(self) -> tuple[Array, ...]:
        """Return the parameters (n,) of the standard form."""

    @abstractmethod
    def _lower(self, levels: Array, *shapes: Array) -> Array:
        """Return standard quantiles at rising levels up to 0.5."""

    @abstractmethod
    def _upper(self, levels: Array, *shapes: Array) -> Array:
        """Return the standard points with the given masses above them: rising, up to 0.5."""

    @abstractmethod
    def _from_standard(self, x: Array) -> Array:
        """Return the quantiles (n, j) that correspond to standard quantiles."""

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,) or (n, j)."""
        levels = check_levels(level)
        if levels.size < FEW:
            return super().quantile(levels)
        return self.quantiles_at(levels[None, :])

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (1, j) for all rows, or (n, j)."""
        quantiles = self._marched(levels, upper=False)
        return super().quantiles_at(levels) if quantiles is None else quantiles

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the numbers (n, j) at which `sf` equals levels (n, j)."""
        quantiles = self._marched(levels, upper=True)
        return super().upper_quantiles_at(levels) if quantiles is None else quantiles

    def _marched(self, levels: Array, upper: bool) -> Array | None:
        """Return quantiles at levels that rise or fall; None if levels are few or in another order."""
        if levels.shape[1] < FEW:
            return None
        if len(levels) == 1 and not _rises_inside(levels):
            order = np.argsort(levels[0])
            place = np.argsort(order)
            sorted_levels = levels[:, order]
            inner = (sorted_levels[0] > 0) & (sorted_levels[0] < 1)
            quantiles = np.empty((len(self), len(order)))
            quantiles[:, inner] = self._rising(sorted_levels[:, inner], upper)
            if not inner.all():
                ends = super().upper_quantiles_at if upper else super().quantiles_at
                quantiles[:, ~inner] = ends(sorted_levels[:, ~inner])
            return quantiles[:, place]
        if _rises_inside(levels):
            return self._rising(levels, upper)
        mirrored = levels[:, ::-1]
        return self._rising(mirrored, upper)[:, ::-1] if _rises_inside(mirrored) else None

    def _rising(self, levels: Array, upper: bool) -> Array:
        tails = (self._upper, self._lower) if upper else (self._lower, self._upper)
        x = between_tails(*tails, levels, *self._shapes())
        values = self._from_standard(x)
        # Standard quantiles may overflow or underflow although the scaled ones do not.
        size, least = np.abs(x), _LEAST if self._positive else -1.0
        if not (size.max(initial=_LEAST) < _MOST and size.min(initial=_MOST) >= least):
            row, column = np.nonzero(~(size < _MOST) | (size < least))
            level = levels[row if len(levels) > 1 else 0, column]
            row_part = self.take(row)
            values = np.array(values)
            single = Family.upper_quantiles_at if upper else Family.quantiles_at
            values[row, column] = single(row_part, level[:, None])[:, 0]
        return values


def _rises_inside(levels: Array) -> bool:
    """Return whether levels (n, j) lie in (0, 1) and rise in every row."""
    inside = (levels[:, 0] > 0).all() and (levels[:, -1] < 1).all()
    return bool(inside and (levels[:, 1:] >= levels[:, :-1]).all())
