"""Families of this package whose frozen distributions of scipy.stats have a location."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.numerics.closed_scores import CDFPiece
from fastmcmd.predictive.wrapped import Affine

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

    from fastmcmd.predictive.family import Family

__all__ = ["Located"]


class Located(Affine, ScipyPredictive):
    """Distributions of ``loc + scale Y``, where a family of this package has formulas for Y.

    Parameters
    ----------
    frozen : scipy.stats frozen distribution
        The distributions of ``loc + scale Y``.
    inner : Family
        Those of Y.
    loc, scale : ndarray (n,)
        Locations, and positive factors.

    Examples
    --------
    >>> from scipy import stats
    >>> from fastmcmd.predictive import as_predictive
    >>> as_predictive(stats.expon(loc=[1.0, 2.0]), 2).mean.tolist()
    [2.0, 3.0]
    """

    inner: Family

    def __init__(self, frozen: rv_frozen, inner: Family, loc: Array, scale: Array) -> None:
        self.frozen, self.inner, self.loc, self.scale = frozen, inner, loc, scale
        self._n = len(inner)
        self.discrete = False

    def __repr__(self) -> str:
        return f"Located({self.inner!r})"

    def _back(self, y: ArrayLike) -> Array:
        """Return the outcomes (n,) of Y at outcomes of ``loc + scale Y``."""
        with np.errstate(over="ignore"):
            return np.asarray((self.outcomes(y) - self.loc) / self.scale)

    def _forth(self, values: Array) -> Array:
        """Return outcomes (n,) or (n, j) of ``loc + scale Y`` at those of Y."""
        shape = (-1, *(1,) * (values.ndim - 1))
        with np.errstate(over="ignore"):
            return np.asarray(self.loc.reshape(shape) + self.scale.reshape(shape) * values)

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._forth(self.inner.mean)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self.scale * self.inner.std)

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(self.scale * self.inner.variance * self.scale)

    @property
    def coordinates(self) -> Array:
        """Coordinates (n, k) of the family, then loc and the logarithm of the scale."""
        return np.column_stack([self.inner.coordinates, self.loc, np.log(self.scale)])

    @property
    def logarithmic(self) -> tuple[bool, ...]:
        """Which coordinates are logarithms."""
        return *self.inner.logarithmic, False, True

    def at(self, coordinates: Array) -> Located:
        """Return the distributions of this family at coordinates (m, k)."""
        inner = self.inner.at(coordinates[:, :-2])
        loc, scale = coordinates[:, -2], np.exp(coordinates[:, -1])
        frozen = inner.frozen
        shapes, _, own_scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
        return Located(frozen.dist(*shapes, loc, own_scale * scale), inner, loc, scale)

    def take(self, rows: NDArray[np.intp]) -> Located:
        """Return the distributions of some rows."""
        frozen = super().take(rows).frozen
        return Located(frozen, self.inner.take(rows), self.loc[rows], self.scale[rows])

    def log_densities(self, values: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return log densities (m, L) of some rows (m,), or all, at numbers (m, L)."""
        loc, scale = (one if rows is None else one[rows] for one in (self.loc, self.scale))
        with np.errstate(over="ignore"):
            back = (values - loc[:, None]) / scale[:, None]
        return self.inner.log_densities(back, rows) - np.log(scale)[:, None]

    def _density(self, values: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.log_densities(values)))

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), as the family does."""
        back = self._back(y)
        with np.errstate(over="ignore"):
            scores = self.scale * self.inner.crps(back)
            gap = np.abs(self.outcomes(y) - self.loc)
        # So far out, only the distance matters.
        return np.where(np.isinf(back) & np.isfinite(gap), gap, scores)

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece; None without a formula."""
        standard = piece._replace(low=self._back(piece.low), high=self._back(piece.high))
        return self._scaled(self.inner.piece_scores(self._back(y), standard))

    def clipped_scores(self, y: Array, low: Array, high: Array) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` from low to high, where F is the cdf."""
        return self._scaled(self.inner.clipped_scores(*map(self._back, (y, low, high))))

    def _scaled(self, scores: Array | None) -> Array | None:
        return None if scores is None else np.asarray(self.scale * scores)

    def kinks(self) -> Array:
        """Return numbers (n, k) at which densities have kinks."""
        return self._forth(self.inner.kinks())

    def ends(self) -> tuple[Array, Array] | None:
        """Return the ends (n,) of the support."""
        ends = self.inner.ends()
        return None if ends is None else (self._forth(ends[0]), self._forth(ends[1]))

    @property
    def has_quick_quantiles(self) -> bool:
        """Whether those of the family are."""
        return self.inner.has_quick_quantiles

    def panel_quantiles(self, levels: Array) -> tuple[Array, Array]:
        """Return quantiles (n, j) at levels (1, j) from below and from above, to rounding of levels."""
        lower, upper = self.inner.panel_quantiles(levels)
        return self._forth(lower), self._forth(upper)

    def _near_quantiles(self, levels: Array, upper: bool) -> Array:
        return self._forth(self.inner._near_quantiles(levels, upper))

    def node_count_within(self, length: float) -> int:
        """Return the number of nodes (L) of `nodes_within`, without computing the nodes."""
        return self.inner.node_count_within(length / float(self.scale.max()))
