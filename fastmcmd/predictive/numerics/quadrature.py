"""Quadrature over continuous distributions of numbers, from their quantiles and densities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, Nodes
from fastmcmd._base.gauss import gauss_legendre

__all__ = ["COARSE", "FINE", "composite", "node_count", "nodes_within", "panel_ends"]

FINE, COARSE = (
    12,
    8,
)  # Gauss-Legendre nodes per panel, for the value and for its error estimate

# Panels end at these quantiles and their mirror images. They are denser in the tails, where quantiles
# change fastest. 1e-16 of the mass is left out at either end.
_LEVELS = [1e-16, 1e-13, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4]
_MISMATCH = 1e-10  # largest difference between the masses of a panel by density and by quantiles
_MOST_CUTS = 128  # most parts of a long panel
_LIGHT = 1e-6  # mass of a panel below which fewer parts suffice, because its error matters less

Quantile = Callable[[Array], Array]
Ends = tuple[Array, Array]  # ends (n, m) of the panels below the median, and of those above it


def node_count(order: int = FINE, splits: int = 1) -> int:
    """Return the number of nodes per row."""
    return 2 * len(_LEVELS) * order * splits


def nodes_within(ends: Ends, length: float) -> int:
    """Return the number of nodes per row of `composite` with panels no longer than ``length``."""
    levels = _levels()
    cuts = [_cuts(np.abs(np.diff(half, axis=1)), levels, length) for half in ends]
    return FINE * int(sum(part.sum() for part in cuts))


def panel_ends(lower: Quantile, upper: Quantile) -> Ends:
    """Return the ends of the panels of `composite`.

    Raises
    ------
    ValueError
        Quantiles that are not finite.
    """
    levels = _levels()
    return _half_ends(lower, levels, 1.0), _half_ends(upper, levels, -1.0)


def _levels() -> Array:
    return np.array([*_LEVELS, 0.5])


def _half_ends(quantile: Quantile, levels: Array, sign: float) -> Array:
    ends = quantile(levels[None, :])
    if not np.isfinite(ends).all():
        raise ValueError("prediction has quantiles that are not finite: give draws instead")
    return np.asarray(sign * np.maximum.accumulate(sign * ends, axis=1))


def composite(
    lower: Quantile,
    upper: Quantile,
    density: Quantile,
    order: int = FINE,
    splits: int = 1,
    length: float | None = None,
    ends_of_panels: Ends | None = None,
) -> Nodes:
    """Return composite Gauss-Legendre nodes (n, L) and weights (n, L).

    Parameters
    ----------
    lower, upper : callable, (n, L) or (1, L) to (n, L)
        Quantile functions at levels from below (``ppf``) and from above (``isf``).
    density : callable (n, L) to (n, L)
        Densities.
    order, splits : int
        Nodes per panel, and equal parts into which each panel is cut.
    length : float, optional
        Panels longer than this in any row, such as those of heavy tails, are cut into parts of this length:
        at most 128 parts, and fewer where there is little mass.
    ends_of_panels : tuple of ndarray, optional
        The result of `panel_ends`, if there are several calls for one distribution.

    Raises
    ------
    ValueError
        Quantiles that are not finite.

    Notes
    -----
    Each panel has Gauss-Legendre nodes, weighted by the density and scaled to the mass between its
    quantiles. If that mass is off by more than 1e-10 in some panel of a row (poles of the density, very
    heavy tails), the row uses quantiles at Gauss-Legendre levels instead: ``E f(Y)`` is the integral of
    ``f(Q(u))`` over u.
    """
    levels = _levels()
    halves = []
    for quantile, ends in zip(
        (lower, upper), ends_of_panels or panel_ends(lower, upper), strict=True
    ):
        widths = np.abs(np.diff(ends, axis=1))
        panel, place, share = _rule(order, splits * _cuts(widths, levels, length))
        start = np.flatnonzero(np.diff(panel, prepend=-1))
        values = ends[:, panel] + np.diff(ends, axis=1)[:, panel] * place
        masses = np.diff(levels)
        height = density(values)
        weights = np.where(np.isfinite(height), height, 0.0) * share * widths[:, panel]
        sums = np.add.reduceat(weights, start, axis=1)
        wrong = np.asarray((np.abs(sums - masses) > _MISMATCH).any(axis=1))
        weights *= (masses / np.where(sums > 0, sums, 1.0))[:, panel]
        if wrong.any():
            exact = quantile((levels[:-1][panel] + masses[panel] * place)[None, :])
            values = np.where(wrong[:, None], exact, values)
            weights = np.where(wrong[:, None], masses[panel] * share, weights)
        halves.append((values, weights))
    values = np.concatenate([values for values, _ in halves], axis=1)
    weights = np.concatenate([weights for _, weights in halves], axis=1)
    return values, weights / weights.sum(axis=1, keepdims=True)


def _cuts(widths: Array, levels: Array, length: float | None) -> NDArray[np.intp]:
    """Return the number of parts (m,) into which panels of widths (n, m) are cut."""
    cuts = np.ones(widths.shape[1])
    if length is not None:
        most = _MOST_CUTS * np.minimum(1.0, np.cbrt(np.diff(levels) / _LIGHT))
        cuts = np.minimum(np.ceil(widths.max(axis=0, initial=0.0) / length), most)
    return np.maximum(cuts, 1).astype(np.intp)


def _rule(order: int, cuts: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array, Array]:
    """Return the panel of each node, its position in the panel in (0, 1), and its share of the panel."""
    z, w = gauss_legendre(order)
    z, w = (z + 1) / 2, w / 2
    place = [((np.arange(count)[:, None] + z) / count).ravel() for count in cuts]
    share = [np.tile(w, count) / count for count in cuts]
    panel = np.repeat(np.arange(len(cuts)), cuts * order)
    return panel, np.concatenate(place), np.concatenate(share)
