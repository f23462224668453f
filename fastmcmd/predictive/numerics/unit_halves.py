"""Quantiles and scores of distributions on [0, 1] from panels in each half, counted from its end.

Doubles near 1 are too far apart for panels that approach a pole there, or another singular point: next to 0
they are close. Where the panels of a row are unsafe, those of Y serve below 1/2, and those of 1 - Y above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics import density_panels
from fastmcmd.predictive.numerics.density_panels import safe_scores, scores_up_to

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["panel_quantiles", "panel_scores"]

_MIDDLE = 0.5


def panel_quantiles(
    prediction: Predictive, components: Sequence[Predictive], levels: Array
) -> Array:
    """Return `density_panels.panel_quantiles`, by halves where they are NaN."""
    quantiles = density_panels.panel_quantiles(prediction, components, levels)
    rows = np.flatnonzero(np.isnan(quantiles).any(axis=1))
    halves = _halves(prediction, components, rows)
    if halves is not None:
        levels = levels if len(levels) == 1 else levels[rows]
        lower, upper = (
            density_panels.panel_quantiles(*half, half_levels, _MIDDLE)
            for half, half_levels in zip(halves, (levels, 1 - levels[:, ::-1]), strict=True)
        )
        quantiles[rows] = _joined(quantiles[rows], lower, upper)
    return quantiles


def panel_scores(
    prediction: Predictive,
    components: Sequence[Predictive],
    y: Array,
    levels: Array | None = None,
) -> tuple[Array, Array]:
    """Return `density_panels.panel_scores`, by halves where they are NaN."""
    scores, quantiles = density_panels.panel_scores(prediction, components, y, levels)
    rows = np.flatnonzero(np.isnan(scores).any(axis=1) | np.isnan(quantiles).any(axis=1))
    halves = _halves(prediction, components, rows)
    if halves is not None:
        if levels is not None and len(levels) > 1:
            levels = levels[rows]
        mirrored_levels = None if levels is None else 1 - levels[:, ::-1]
        below, lower, outside = scores_up_to(*halves[0], y[rows], levels, _MIDDLE)
        above, upper, other_outside = scores_up_to(
            *halves[1], 1 - y[rows], mirrored_levels, _MIDDLE
        )
        both = safe_scores(below + above, outside + other_outside)
        scores[rows] = np.where(np.isnan(scores[rows]), both, scores[rows])
        quantiles[rows] = _joined(quantiles[rows], lower, upper)
    return scores, quantiles


def _halves(
    prediction: Predictive, components: Sequence[Predictive], rows: NDArray[np.intp]
) -> list[tuple[Predictive, list[Predictive]]] | None:
    """Return the distributions of Y and of 1 - Y in some rows, each with its components; None without."""
    if not len(rows):
        return None
    some = prediction.take(rows)
    mirrored = some.mirrored()
    if mirrored is None:
        return None
    parts = [component.take(rows) for component in components]
    complements = [other for part in parts if (other := part.mirrored()) is not None]
    return [(some, parts), (mirrored, complements)]


def _joined(quantiles: Array, lower: Array, upper: Array) -> Array:
    """Return quantiles (n, j) where they are numbers, else those of the half in which they lie."""
    other = np.where(np.isnan(lower), 1 - upper[:, ::-1], lower)
    return np.where(np.isnan(quantiles), other, quantiles)
