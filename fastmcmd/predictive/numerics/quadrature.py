"""Quadrature over continuous distributions of numbers, from their quantiles and densities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, Nodes
from fastmcmd._base.gauss import gauss_legendre

__all__ = [
    "COARSE",
    "FINE",
    "PANEL_LEVELS",
    "Ends",
    "Stops",
    "composite",
    "in_order",
    "merged_neighbours",
    "node_count",
    "nodes_within",
    "panel_ends",
]

FINE, COARSE = (
    12,
    8,
)  # Gauss-Legendre nodes per panel, for the value and for its error estimate

# Panels end at these quantiles and their mirror images. They are denser in the tails, where quantiles
# change fastest. 1e-16 of the mass is left out at either end.
PANEL_LEVELS = np.array(
    [[1e-16, 1e-13, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5]]
)
_MISMATCH = 1e-10  # largest difference between the masses of a panel by density and by quantiles
_MOST_CUTS = 128  # most parts of a long panel
_NEGLIGIBLE_MASS = 2e-13  # mass of a tail that may be left out
_LIGHT = 1e-6  # mass of a panel below which fewer parts suffice, because its error matters less

Quantile = Callable[[Array], Array]
# Numbers (n, k) at which densities have kinks, and the masses (n, k) below and above them.
Stops = tuple[Array, Array, Array]


@dataclass(frozen=True, eq=False)
class _SidePanels:
    """Panels on one side of the median, from the tail on.

    Attributes
    ----------
    ends : ndarray (n, m + 1)
        Ends of the panels.
    masses : ndarray (n, m) or (1, m)
        Masses of the panels.
    levels : ndarray (n, m) or (1, m)
        Masses of the tails that begin with them.
    """

    ends: Array
    masses: Array
    levels: Array


Ends = tuple[_SidePanels, _SidePanels]  # panels below the median, and those above it


def merged_neighbours(values: Array, weights: Array) -> tuple[Array, Array]:
    """Return half as many nodes (n, (L + 1) // 2): the means of neighbours, with their weights."""
    if values.shape[1] % 2:
        values = np.concatenate([values, values[:, -1:]], axis=1)
        weights = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    pairs = np.take_along_axis(values, order, axis=1).reshape(len(values), -1, 2)
    shares = np.take_along_axis(weights, order, axis=1).reshape(pairs.shape)
    both = shares.sum(axis=2)
    part = np.divide(shares[:, :, 1], both, out=np.zeros_like(both), where=both > 0)
    return (1 - part) * pairs[:, :, 0] + part * pairs[:, :, 1], both


def node_count(order: int = FINE, splits: int = 1, stops: int = 0) -> int:
    """Return the number of nodes per row."""
    return 2 * (PANEL_LEVELS.shape[1] - 1 + stops) * order * splits


def nodes_within(ends: Ends, length: float) -> int:
    """Return the number of nodes per row of `composite` with panels no longer than ``length``."""
    return FINE * int(sum(_cuts(half, length).sum() for half in ends))


def panel_ends(lower: Quantile, upper: Quantile, stops: Stops | None = None) -> Ends:
    """Return the panels of `composite`, which end at ``stops``, too.

    Raises
    ------
    ValueError
        Quantiles that are not finite.
    """
    places, below, above = (None, None, None) if stops is None else stops
    return _half(lower, 1.0, places, below), _half(upper, -1.0, places, above)


def _half(
    quantile: Quantile, sign: float, places: Array | None, outside: Array | None
) -> _SidePanels:
    levels = PANEL_LEVELS
    ends = in_order(quantile(levels), levels, sign)
    if not np.isfinite(ends).all():
        raise ValueError("prediction has quantiles that are not finite: give draws instead")
    ends = np.asarray(sign * np.maximum.accumulate(sign * ends, axis=1))
    if places is not None and outside is not None:
        levels = np.broadcast_to(levels, ends.shape)
        first, last = np.minimum(ends[:, :1], ends[:, -1:]), np.maximum(ends[:, :1], ends[:, -1:])
        ends = sign * np.sort(sign * np.append(ends, np.clip(places, first, last), axis=1), axis=1)
        outside = np.clip(outside, levels[:, :1], levels[:, -1:])
        levels = np.sort(np.append(levels, outside, axis=1), axis=1)
    return _SidePanels(ends, np.diff(levels, axis=1), levels[:, :-1])


def in_order(ends: Array, levels: Array, sign: float) -> Array:
    """Return quantiles (n, j) at levels (1, j), wrong ones of hardly any mass moved to the next one.

    Wrong ones are infinite or on the other side of the next: they are beyond doubles, or SciPy's formula
    loses so small a level to rounding. Quantiles times ``sign`` rise.
    """
    tails = int((levels <= _NEGLIGIBLE_MASS).sum())
    next_end = ends[:, tails : tails + 1]
    out = np.array(ends)
    for column in range(tails - 1, -1, -1):
        one = out[:, column : column + 1]
        is_right = np.isfinite(one) & (sign * one <= sign * next_end)
        next_end = out[:, column : column + 1] = np.where(is_right, one, next_end)
    return out


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
    ends_of_panels : Ends, optional
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
    halves = []
    for quantile, half in zip(
        (lower, upper), ends_of_panels or panel_ends(lower, upper), strict=True
    ):
        steps, masses = np.diff(half.ends, axis=1), half.masses
        panel, place, share = _rule(order, splits * _cuts(half, length))
        start = np.flatnonzero(np.diff(panel, prepend=-1))
        values = half.ends[:, panel] + steps[:, panel] * place
        height = density(values)
        weights = np.where(np.isfinite(height), height, 0.0) * share * np.abs(steps)[:, panel]
        sums = np.add.reduceat(weights, start, axis=1)
        wrong = np.asarray((np.abs(sums - masses) > _MISMATCH).any(axis=1))
        weights *= (masses / np.where(sums > 0, sums, 1.0))[:, panel]
        if wrong.any():
            exact = quantile(half.levels[:, panel] + masses[:, panel] * place)
            values = np.where(wrong[:, None], exact, values)
            weights = np.where(wrong[:, None], masses[:, panel] * share, weights)
        halves.append((values, weights))
    values = np.concatenate([values for values, _ in halves], axis=1)
    weights = np.concatenate([weights for _, weights in halves], axis=1)
    return values, weights / weights.sum(axis=1, keepdims=True)


def _cuts(half: _SidePanels, length: float | None) -> NDArray[np.intp]:
    """Return the number of parts (m,) into which panels are cut."""
    cuts = np.ones(half.masses.shape[1])
    if length is not None:
        widths = np.abs(np.diff(half.ends, axis=1)).max(axis=0, initial=0.0)
        heaviest = half.masses.max(axis=0, initial=0.0)
        most = _MOST_CUTS * np.minimum(1.0, np.cbrt(heaviest / _LIGHT))
        cuts = np.minimum(np.ceil(widths / length), most)
    return np.maximum(cuts, 1).astype(np.intp)


def _rule(order: int, cuts: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array, Array]:
    """Return the panel of each node, its position in the panel in (0, 1), and its share of the panel."""
    z, w = gauss_legendre(order)
    z, w = (z + 1) / 2, w / 2
    place = [((np.arange(count)[:, None] + z) / count).ravel() for count in cuts]
    share = [np.tile(w, count) / count for count in cuts]
    panel = np.repeat(np.arange(len(cuts)), cuts * order)
    return panel, np.concatenate(place), np.concatenate(share)
