"""Predictions on intervals with further masses at the ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array
from fastmcmd._base.cached import cached_property
from fastmcmd.errors import RowError
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics.closed_scores import CDFPiece, scores_with_distance
from fastmcmd.predictive.zero_inflated import row_probabilities

__all__ = ["EndMasses"]

_ROUNDING = 1e-12  # by which the sum of two probabilities may exceed 1


class EndMasses(Mixture):
    """Mixtures of continuous distributions on intervals and point masses at the ends of these.

    Parameters
    ----------
    inner : Predictive of numbers
        Continuous distributions with known ends, such as `Uniform` and `Truncated`.
    lower_mass, upper_mass : array_like, scalar or (n,)
        Probabilities of the lower and of the upper end, in [0, 1]. The rest belongs to ``inner``.

    Raises
    ------
    TypeError, ValueError
        Distributions without known ends, or with masses of their own; probabilities out of range, or of
        an infinite end.

    Notes
    -----
    The continuous ranked probability score is one integral over the interval, on which the cdf rises in
    proportion to that of ``inner``, and the distance to the interval.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> from fastmcmd.predictive.end_masses import EndMasses
    >>> cloud_cover = EndMasses(fm.Uniform([0.0], 1.0), 0.2, 0.5)
    >>> cloud_cover.cdf([0.5]).round(3).tolist()
    [0.35]
    """

    def __init__(
        self, inner: Predictive, lower_mass: ArrayLike = 0.0, upper_mass: ArrayLike = 0.0
    ) -> None:
        ends = inner.ends() if isinstance(inner, Predictive) and inner.atomless else None
        if ends is None:
            raise TypeError(
                f"inner is a {type(inner).__name__}; a continuous fastmcmd distribution with known ends is "
                "needed, such as Uniform(low, high)"
            )
        lower = row_probabilities(lower_mass, "lower_mass", inner.shape)
        upper = row_probabilities(upper_mass, "upper_mass", inner.shape)
        rise = 1 - lower - upper
        if rise.min(initial=0.0) < -_ROUNDING:
            row = int(rise.argmin())
            raise RowError(
                f"lower_mass and upper_mass sum to {lower[row] + upper[row]:g} in row {row}; at most 1 "
                "is needed",
                row,
            )
        for end, mass, name in zip(ends, (lower, upper), ("lower_mass", "upper_mass"), strict=True):
            bad = np.isinf(end)
            if bad.any() and (bad := bad & (mass > 0)).any():
                row = int(bad.argmax())
                raise RowError(
                    f"{name} is {mass[row]:g} in row {row}, where this end is infinite; 0 is needed",
                    row,
                )
        self._inner = inner
        self._piece = CDFPiece(*ends, lower, np.maximum(rise, 0.0, out=rise), upper)
        self.discrete = self.has_density = False

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return self._inner.shape

    @cached_property
    def components(self) -> tuple[Predictive, ...]:  # type: ignore[override]
        """The continuous distributions, and the point masses at both ends, at 0 where there are none."""
        ends = (self._piece.low, self._piece.high)
        points = (Draws(np.where(np.isinf(end), 0.0, end)[:, None]) for end in ends)
        return (self._inner, *points)

    @cached_property
    def weights(self) -> Array:  # type: ignore[override]
        """Weights (n, 3) of the components."""
        piece = self._piece
        return np.stack([piece.rise, piece.below, piece.above], axis=1)

    @cached_property
    def _all_used(self) -> bool:  # type: ignore[override]
        return bool((self.weights > 0).all())

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), in closed form where ``inner`` has one."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        piece = self._piece

        def inside(outcomes: Array) -> Array | None:
            with np.errstate(all="ignore"):
                return self._inner.piece_scores(outcomes, piece)

        scores = scores_with_distance(y, piece.low, piece.high, inside)
        if scores is None:
            return super().crps(y)
        rows = np.flatnonzero(np.isnan(scores))
        if len(rows):
            scores[rows] = self.take(rows).crps(y[rows])
        return scores
