"""Quadrature under continuous distributions of numbers, from their quantiles and densities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastmcmd.predictive.base import Array, Nodes

__all__ = ["COARSE", "FINE", "composite", "node_count"]

FINE, COARSE = (
    12,
    8,
)  # Gauss-Legendre nodes a panel, for the value and for the estimate of its error

# Panels end at these quantiles and their mirror images: closer together in the tails, where
# quantiles move fastest. 1e-16 of the mass is left out at either end.
_LEVELS = [1e-16, 1e-13, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4]
_MISMATCH = 1e-10  # mass of a panel by its density, against its quantiles

Quantile = Callable[[Array], Array]


def node_count(order: int = FINE, splits: int = 1) -> int:
    """Return the nodes of a row."""
    return 2 * len(_LEVELS) * order * splits


def composite(
    lower: Quantile, upper: Quantile, density: Quantile, order: int = FINE, splits: int = 1
) -> Nodes:
    """Return composite Gauss-Legendre nodes (n, L) and weights (n, L).

    Parameters
    ----------
    lower, upper : callable, (n, L) or (1, L) to (n, L)
        Quantile functions at levels from below (``ppf``) and from above (``isf``).
    density : callable (n, L) to (n, L)
        Densities.
    order, splits : int
        Nodes of a panel; equal parts that panels are cut into.

    Raises
    ------
    ValueError
        Quantiles that are not finite.

    Notes
    -----
    Nodes are placed evenly over the panels and weighted by the density; each panel is scaled to the
    mass between its quantiles. Rows whose density cannot be integrated in this way (a panel off by
    1e-10: densities with poles, very heavy tails) take quantiles at Gauss-Legendre levels instead:
    ``E f(Y)`` is the integral of ``f(Q(u))`` over u.
    """
    levels = np.array([*_LEVELS, 0.5])
    cut = np.linspace(0.0, 1.0, splits + 1)
    z, w = np.polynomial.legendre.leggauss(order)
    z, w = (z + 1) / 2, w / 2

    halves = []
    for quantile, sign in ((lower, 1.0), (upper, -1.0)):
        ends = quantile(levels[None, :])
        if not np.isfinite(ends).all():
            raise ValueError("prediction has quantiles that are not finite: give draws instead")
        ends = sign * np.maximum.accumulate(sign * ends, axis=1)
        values, mass, level = _panels(ends, levels, cut, z, w)
        height = density(values.reshape(len(ends), -1)).reshape(values.shape)
        weights = np.where(np.isfinite(height), height, 0.0) * w * _widths(ends, cut)
        wrong = _mismatch(weights.sum(axis=(2, 3)), mass.sum(axis=(1, 2)))
        share = weights.sum(axis=(2, 3), keepdims=True)
        scaled = weights * mass.sum(axis=(1, 2))[:, None, None] / np.where(share > 0, share, 1.0)
        if wrong.any():
            exact = quantile(level.reshape(1, -1)).reshape(len(ends), *level.shape)
            values = np.where(wrong[:, None, None, None], exact, values)
            scaled = np.where(wrong[:, None, None, None], mass, scaled)
        halves.append((values.reshape(len(ends), -1), scaled.reshape(len(ends), -1)))
    values = np.concatenate([values for values, _ in halves], axis=1)
    weights = np.concatenate([weights for _, weights in halves], axis=1)
    return values, weights / weights.sum(axis=1, keepdims=True)


def _mismatch(found: Array, known: Array) -> Array:
    """Return which rows (n,) have a panel whose mass is not the known one."""
    return np.asarray((np.abs(found - known) > _MISMATCH).any(axis=1))


def _widths(ends: Array, cut: Array) -> Array:
    """Return the widths (n, panels, splits, 1) of all parts."""
    return np.asarray(np.abs(np.diff(ends, axis=1))[:, :, None, None] * np.diff(cut)[:, None])


def _panels(
    ends: Array, levels: Array, cut: Array, z: Array, w: Array
) -> tuple[Array, Array, Array]:
    """Return values (n, panels, splits, order), and masses and levels (panels, splits, order)."""
    place = cut[:-1, None] + np.diff(cut)[:, None] * z
    values = ends[:, :-1, None, None] + np.diff(ends, axis=1)[:, :, None, None] * place
    span = np.diff(levels)[:, None, None]
    mass = span * np.diff(cut)[:, None] * w
    return values, mass, levels[:-1, None, None] + span * place
