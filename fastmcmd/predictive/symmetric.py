"""The base class of families that are symmetric around their location, with formulas in the core."""

from __future__ import annotations

from typing import ClassVar

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.family import Family
from fastmcmd.predictive.numerics.closed_scores import (
    CDFPiece,
    SymmetricFamily,
    clipped_scores,
    interval_masses,
    piece_scores,
    symmetric_scores,
    symmetric_tails,
)

__all__ = ["Symmetric"]


class Symmetric(Family):
    """A family with locations and scales, whose tails and scores the core computes.

    A subclass names itself to the core in ``_symmetric``.
    """

    loc: Array
    scale: Array
    _names = ("loc", "scale")
    _scales = ("scale",)
    _symmetric: ClassVar[SymmetricFamily]
    _has_core_scores = True

    def cdf_and_sf(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return P(Y <= y) and P(Y > y) (n,)."""
        return symmetric_tails(self._symmetric, self.outcomes(y), self.loc, self.scale)

    def interval_masses(self, low: Array, high: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return P(Y < low), P(Y >= low), P(Y <= high), P(Y > high) and P(low <= Y <= high) (n,)."""
        return interval_masses(self._symmetric, low, high, self.loc, self.scale)

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece."""
        return piece_scores(self._symmetric, y, self.loc, self.scale, piece)

    def clipped_scores(self, y: Array, low: Array, high: Array) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` from low to high, where F is the cdf."""
        return clipped_scores(self._symmetric, y, self.loc, self.scale, low, high)

    def _cdf(self, y: Array, loc: Array, scale: Array) -> Array:
        return symmetric_tails(self._symmetric, y, loc, scale)[0]

    def _sf(self, y: Array, loc: Array, scale: Array) -> Array:
        return symmetric_tails(self._symmetric, y, loc, scale)[1]

    def _crps(self, y: Array, loc: Array, scale: Array) -> Array:
        return symmetric_scores(self._symmetric, y, loc, scale)
