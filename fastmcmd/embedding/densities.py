"""Densities of predictions as Legendre series on panels, with an estimate of the truncation error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.predictive import Gaussian, Predictive, ScipyPredictive
from fastmcmd.predictive.adapters.frozen import is_of_scipy
from fastmcmd.predictive.family import Family
from fastmcmd.predictive.numerics.quadrature import PANEL_LEVELS, in_order
from fastmcmd.predictive.truncated import Truncated

__all__ = [
    "REACH",
    "TO_SERIES",
    "PanelDensities",
    "Parametric",
    "has_panels",
    "is_parametric",
    "parts_of",
]

# Distributions of numbers with coordinates.
Parametric: TypeAlias = Family | Gaussian | Truncated | ScipyPredictive

_TERMS = 12
_PLACES, _SHARES = gauss_legendre(_TERMS)
_DEGREES = np.arange(_TERMS)
REACH = 6.0  # half-width of a bump: exp(-x^2) is 2e-16 there
# Values at the nodes to coefficients of Legendre polynomials.
TO_SERIES = (
    np.polynomial.legendre.legvander(_PLACES, _TERMS - 1).T
    * _SHARES
    * (2 * _DEGREES[:, None] + 1)
    / 2
)
_NODES = 1 << 18  # nodes whose densities are computed together: about twelve such arrays at a time
_ROUNDS = 6  # rounds of halving panels whose series are not exact enough


def parts_of(prediction: Predictive) -> list[tuple[Array, Predictive]]:
    """Return weights (n,) and components of mixtures; for others, weights 1 and the prediction."""
    parts = prediction.weighted_parts()
    if parts is None:
        return [(np.ones(len(prediction)), prediction)]
    return [(weight * inner, one) for weight, part in parts for inner, one in parts_of(part)]


def is_parametric(prediction: Predictive) -> TypeGuard[Parametric]:
    """Tell whether predictions are of a family, or such in intervals whose densities have no kink.

    A family is one of ours, or a continuous one of SciPy's.
    """
    if isinstance(prediction, Truncated):
        return isinstance(prediction.base, (Family, Gaussian)) and not prediction.kinks().shape[1]
    if isinstance(prediction, (Family, Gaussian)):
        return True
    if not isinstance(prediction, ScipyPredictive) or prediction.discrete:
        return False
    return is_of_scipy(prediction.frozen.dist)


def has_panels(prediction: Predictive) -> bool:
    """Tell whether predictions are `Parametric` densities, or mixtures of these.

    Other distributions may have atoms, which no series for a density shows: `ZeroInflated` has one at 0.
    """
    if prediction.columns > 1 or prediction.discrete:
        return False
    if prediction.weighted_parts() is None:
        return is_parametric(prediction)
    return all(part is not prediction and has_panels(part) for _, part in parts_of(prediction))


@dataclass(frozen=True, eq=False)
class PanelDensities:
    """Densities of n predictions on panels of the line.

    Attributes
    ----------
    low, high : ndarray (n, p)
        Ends of the panels.
    series : ndarray (n, p, 12)
        Coefficients of Legendre polynomials on the panels.
    weights : ndarray (n, p, 12)
        Masses at the nodes of each panel.
    error : ndarray (n, p)
        L2 norm of the truncation error of the series, estimated by their last two terms.
    """

    low: Array
    high: Array
    series: Array
    weights: Array
    error: Array

    @staticmethod
    def of(prediction: Predictive, limits: list[tuple[float, float]]) -> PanelDensities:
        """Return densities of predictions, with panels halved until the truncation errors are as allowed.

        ``allowed`` holds pairs of a rate and the largest norm of the error's embedding by the kernel
        ``exp(-(rate (y - z))^2 / 2)``.
        """
        levels = PANEL_LEVELS
        (lower, upper), masses = _level_quantiles(prediction, levels)
        lower = np.maximum.accumulate(in_order(lower, levels, 1.0), axis=1)
        upper = np.minimum.accumulate(in_order(upper, levels, -1.0), axis=1)[:, ::-1]
        low = np.concatenate([lower[:, :-1], upper[:, :-1]], axis=1)
        high = np.concatenate([lower[:, 1:], upper[:, 1:]], axis=1)
        mass = np.concatenate([masses[0], masses[1][:, ::-1]], axis=1)
        count = mass.shape[1]
        mass = np.broadcast_to(mass, (len(prediction), count))
        owner, cuts = np.arange(count), np.ones(count, dtype=np.intp)
        densities = _on_panels(prediction, low, high, mass, cuts)
        for _ in range(_ROUNDS):
            short = np.zeros(densities.low.shape[1], dtype=bool)
            for rate, most in limits:
                short |= densities.norms(rate).max(axis=0) > most
            if not short.any():
                break
            owner = np.repeat(np.arange(count), cuts)
            cuts[np.unique(owner[short])] *= 2
            densities = _on_panels(prediction, low, high, mass, cuts)
        return densities

    def block(self, rows: slice) -> PanelDensities:
        """Return the densities of some rows, as views."""
        return PanelDensities(
            self.low[rows], self.high[rows], self.series[rows], self.weights[rows], self.error[rows]
        )

    def norms(self, rate: float) -> Array:
        """Return estimated norms (n, p) of the embeddings of the truncation errors.

        For the kernel ``k(y, z) = exp(-(rate (y - z))^2 / 2)`` the norm is at most the mass, and at most
        ``(2 pi)^(1/4) rate^(-1/2)`` times the L2 norm (Young's inequality). The masses of panels are exact,
        so the error of a short panel shrinks with the variation of the kernel over it.
        """
        length = self.high - self.low
        least = np.minimum(np.sqrt(length), (2 * np.pi) ** 0.25 * rate**-0.5)
        norms = self.error * least * np.minimum(1.0, rate * length)
        return np.where(np.isnan(norms), np.inf, norms)


def _level_quantiles(
    prediction: Predictive, levels: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return quantiles (n, j) from below and from above to a middle, and masses between them.

    The middle is the median, or the kink of a density that has one: no panel has it inside. Masses are
    (1, j - 1) or (n, j - 1).
    """
    kinks = prediction.kinks()
    below = above = np.full(len(prediction), 0.5)
    if kinks.shape[1] == 1:
        below, above = prediction.cdf_and_sf(kinks[:, 0])
    if (below == above).all():
        steps = np.diff(levels, axis=1)
        return prediction.panel_quantiles(levels), (steps, steps)
    parts = [2 * np.minimum(share, 1.0)[:, None] * levels for share in (below, above)]
    quantiles = prediction.quantiles_at(parts[0]), prediction.upper_quantiles_at(parts[1])
    for side in quantiles:
        side[:, -1] = kinks[:, 0]
    return quantiles, (np.diff(parts[0], axis=1), np.diff(parts[1], axis=1))


def _on_panels(
    prediction: Predictive, low: Array, high: Array, mass: Array, cuts: NDArray[np.intp]
) -> PanelDensities:
    """Return densities on panels that are cut into parts, scaled to the mass of each panel."""
    blocks = row_blocks(len(prediction), _NODES // (int(cuts.sum()) * _TERMS))
    if len(blocks) == 1:
        return _block_on_panels(prediction, low, high, mass, cuts)
    parts = [
        _block_on_panels(
            prediction.take(np.arange(rows.start, rows.stop)),
            low[rows],
            high[rows],
            mass[rows],
            cuts,
        )
        for rows in blocks
    ]
    names = ("low", "high", "series", "weights", "error")
    return PanelDensities(*(np.concatenate([getattr(one, k) for one in parts]) for k in names))


def _block_on_panels(
    prediction: Predictive, low: Array, high: Array, mass: Array, cuts: NDArray[np.intp]
) -> PanelDensities:
    n = len(prediction)
    owner = np.repeat(np.arange(len(cuts)), cuts)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    place = np.arange(len(owner)) - first[owner]
    width = (high - low)[:, owner]
    a = low[:, owner] + width * (place / cuts[owner])
    b = low[:, owner] + width * ((place + 1) / cuts[owner])
    half = (b - a) / 2
    y = (a + half)[:, :, None] + half[:, :, None] * _PLACES
    with np.errstate(all="ignore"):
        density = np.exp(prediction.log_densities(y.reshape(n, -1))).reshape(y.shape)
    density = np.where(np.isfinite(density), density, 0.0)
    weights = density * _SHARES * half[:, :, None]
    sums = np.add.reduceat(weights.sum(axis=2), first, axis=1)
    scale = (mass / np.where(sums > 0, sums, 1.0))[:, owner, None]
    # If no double lies between the ends of a panel, or the density underflows at every node, the mass is
    # spread evenly, with an error of position of at most the panel's length.
    unresolved_mass = np.where(sums > 0, 0.0, mass)[:, owner]
    even = (unresolved_mass / cuts[owner] / 2)[:, :, None] * _SHARES
    series = (density * scale) @ TO_SERIES.T
    # Densities of 1e300 on a panel of length 1e-301: their squares alone would overflow.
    last = series[:, :, -2:] * np.sqrt(half[:, :, None] * (2 / (2 * _DEGREES[-2:] + 1)))
    length = np.maximum(b - a, np.finfo(np.float64).tiny)
    series[:, :, 0] += np.where(b > a, unresolved_mass / cuts[owner] / length, 0.0)
    error = np.hypot(last[:, :, 0], last[:, :, 1]) + unresolved_mass / np.sqrt(length)
    return PanelDensities(a, b, series, weights * scale + even, error)
