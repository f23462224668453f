"""Inner products of polynomial densities on panels of the line, for sums of exponentials.

For numbers on different sides of a panel's end, the kernel ``p(s) exp(-s)``, ``s = rate |y - z|``, is a
sum of products of one function of each number. With ``s = s_1 + d + s_2``, the panels' moments of
``s_1^j exp(-s_1)`` and of ``s_2^k exp(-s_2)`` are enough. So densities that are polynomials on panels have
inner products, with each other and with single outputs, to rounding. Kinks of the kernel cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import factorial

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.cached import cached_property
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.embedding.exponential_sums import ExponentialSum

__all__ = ["TERMS", "ExponentialPanels", "largest_errors", "polynomials"]

TERMS = 16  # polynomials of a panel
_WINDOW = 40.0  # exp(-40) is below rounding
_FAR = 800.0  # exp(-800) is 0
_NODES = 40  # of a window: exact to rounding for polynomials times exp(-s), s from 0 to 40
_MOST_INTEGRALS = 4  # that bound errors: more would gain little
_CANCELS = 1e-9  # a derivative of a sum, relative to those of its terms, that is rounding
_POINTS = 1 << 15  # outputs, times the nodes of a window, at once


def polynomials(x: Array, length: Array | float) -> Array:
    """Return the Legendre polynomials (..., TERMS) at x in (-1, 1), orthonormal on panels of a length."""
    norms = np.sqrt(2 * np.arange(TERMS) + 1)
    scale = np.sqrt(np.asarray(length))[..., None]
    return np.asarray(np.polynomial.legendre.legvander(x, TERMS - 1) * norms / scale)


@dataclass(frozen=True, eq=False)
class ExponentialPanels:
    """Panels that follow each other on the line, and a kernel.

    Attributes
    ----------
    kernel : ExponentialSum
        The kernel; its value at equal outputs alone does not matter to densities.
    edges : ndarray (p + 1,)
        Ends of the panels, ascending.
    """

    kernel: ExponentialSum
    edges: Array

    @cached_property
    def inner(self) -> Array:
        """Inner products (q, q) of all polynomials, q = 16 p."""
        low, high = self.edges[:-1], self.edges[1:]
        lengths, panels = high - low, len(low)
        out = np.zeros((panels, TERMS, panels, TERMS))
        distinct, place = np.unique(lengths, return_inverse=True)
        blocks = np.stack([self._within(float(length)) for length in distinct])
        for rate, coefficients in self.kernel.terms:
            from_low = _moments(rate, len(coefficients), lengths)
            from_high = from_low * _SIGNS
            for panel in range(panels - 1):
                far = _scaled(rate, low[panel + 1 :] - high[panel])
                for j in range(len(coefficients)):
                    for k in range(len(coefficients) - j):
                        right = _decay(far, coefficients, j, k)[:, None] * from_low[panel + 1 :, k]
                        out[panel, :, panel + 1 :] += from_high[panel, j, :, None, None] * right
        flat = out.reshape(panels * TERMS, -1)
        flat += flat.T.copy()
        for panel in range(panels):
            out[panel, :, panel] = blocks[place.reshape(-1)[panel]]
        return flat

    def at(self, y: Array) -> Array:
        """Return the expected kernel values (m, q) between outputs (m,) and all polynomials."""
        low, high = self.edges[:-1], self.edges[1:]
        lengths = high - low
        out = np.zeros((len(y), len(low), TERMS))
        for rate, coefficients in self.kernel.terms:
            from_low = _moments(rate, len(coefficients), lengths)
            for side, gaps in (
                (from_low, low - y[:, None]),
                (from_low * _SIGNS, y[:, None] - high),
            ):
                outside = gaps >= 0
                far = _scaled(rate, np.where(outside, gaps, np.inf))
                for k in range(len(coefficients)):
                    at = np.where(outside, _decay(far, coefficients, 0, k), 0.0)
                    out += at[:, :, None] * side[None, :, k]
        panel = np.searchsorted(self.edges, y, side="right") - 1
        inside = np.flatnonzero((panel >= 0) & (panel < len(low)))
        inside = inside[y[inside] > low[panel[inside]]]
        for start in range(0, len(inside), max(1, _POINTS // _NODES)):
            some = inside[start : start + max(1, _POINTS // _NODES)]
            places = panel[some]
            a, length = low[places], lengths[places]
            out[some, places] = self._around(y[some] - a, length)
        return out.reshape(len(y), -1)

    def _around(self, place: Array, length: Array) -> Array:
        """Return the expected values (m, TERMS) at places (m,) within panels of lengths (m,)."""
        total = np.zeros((len(place), TERMS))
        z, w = gauss_legendre(_NODES)
        for rate, coefficients in self.kernel.terms:
            for sign, extent in ((-1.0, place), (1.0, length - place)):
                window = _windows(rate, extent)
                gap = window[:, None] * (z + 1) / 2
                weight = window[:, None] * w / 2 * _decay(rate * gap, coefficients, 0, 0)
                x = 2 * (place[:, None] + sign * gap) / length[:, None] - 1
                at = polynomials(x, length[:, None])
                total += np.einsum("mk,mkl->ml", weight, at)
        return total

    def _within(self, length: float) -> Array:
        """Return the inner products (TERMS, TERMS) on a panel, from the values around each place."""
        rates = [rate for rate, _ in self.kernel.terms if rate]
        cuts = sorted({0.0, length, *(c for rate in rates for c in _cuts(rate, length))})
        z, w = gauss_legendre(_NODES)
        total = np.zeros((TERMS, TERMS))
        for start, stop in pairwise(cuts):
            place = start + (stop - start) * (z + 1) / 2
            at = polynomials(2 * place / length - 1, np.full(len(place), length))
            around = self._around(place, np.full(len(place), length))
            total += at.T @ ((stop - start) * w[:, None] / 2 * around)
        return (total + total.T) / 2


_SIGNS = (-1.0) ** np.arange(TERMS)  # of the polynomials on a panel that is turned around


def _windows(rate: float, extent: Array) -> Array:
    """Return how far (m,) a term reaches within the extent on one side."""
    return np.minimum(extent, _WINDOW / rate) if rate else extent


def _cuts(rate: float, length: float) -> list[float]:
    """Return the ends of the layers at both ends of a panel in which values change at the rate."""
    layer = _WINDOW / rate
    return [layer, length - layer] if 2 * layer < length else [length / 2]


def _scaled(rate: float, gaps: Array) -> Array:
    """Return distances in units of the rate, cut where the exponential is 0."""
    if not rate:
        return np.zeros(gaps.shape)
    return np.minimum(rate * np.minimum(gaps, 2 * _FAR / rate), _FAR)


def _decay(s: Array, coefficients: tuple[float, ...], j: int, k: int) -> Array:
    """Return the factor of ``s_1^j exp(-s_1) s_2^k exp(-s_2)`` in ``p(r) exp(-r)``, r = s_1 + s + s_2."""
    total, power = np.zeros(s.shape), np.ones(s.shape)
    for degree in range(j + k, len(coefficients)):
        degrees_left = degree - j - k
        ways = factorial(degree) / (factorial(j) * factorial(k) * factorial(degrees_left))
        total += coefficients[degree] * ways * power
        power = power * s
    return np.asarray(total * np.exp(-s))


def _moments(rate: float, degree: int, lengths: Array) -> Array:
    """Return ``integral P_l(t) s^j exp(-s) dt`` (p, degree, TERMS), s = rate (t - low), for each panel."""
    z, w = gauss_legendre(_NODES)
    distinct, place = np.unique(lengths, return_inverse=True)
    window = _windows(rate, distinct)[:, None]
    t = window * (z + 1) / 2
    at = polynomials(2 * t / distinct[:, None] - 1, distinct[:, None])
    s = rate * t
    powers = np.stack([s**j for j in range(degree)], axis=1)
    weight = powers * (window * w / 2 * np.exp(-s))[:, None]
    return np.asarray(np.einsum("pjk,pkl->pjl", weight, at)[place.reshape(-1)])


def largest_errors(kernel: ExponentialSum, length: float) -> float:
    """Return the largest norm of the embedding of a unit residual of all polynomials on a panel.

    The squared norm of g is the mean of its squared spectrum under that of the kernel, k^. If g is
    orthogonal to polynomials of degree below N, its integral is again a function on the panel, orthogonal
    to those below N - 1, and at most ``length / (2 N)`` times as large. After m integrals
    ``k^(w) w^(2 m)`` takes the place of the kernel's spectrum.
    """
    bounds = []
    factor = 1.0
    for order, most in enumerate(_spectral_bounds(kernel)):
        bounds.append(factor * most)
        factor *= length / (2 * (TERMS - order))
    return min(bounds)


@lru_cache(maxsize=16)
def _spectral_bounds(kernel: ExponentialSum) -> tuple[float, ...]:
    """Return ``sup sqrt(k^(w) w^(2 m))`` for m = 0, 1 and so on, as long as it is finite."""
    terms = [(rate, c) for rate, c in kernel.terms if rate]
    # The first odd derivative that is not 0 at 0 has order 2 m - 1 if m integrals are allowed.
    orders = 1 + next(
        (m for m in range(1, _MOST_INTEGRALS) if _is_odd(terms, 2 * m - 1)), _MOST_INTEGRALS
    )
    rates = [rate for rate, _ in terms]
    w = np.geomspace(min(rates) * 1e-3, max(rates) * 1e5, 4000)
    spectrum = np.zeros(len(w))
    for rate, c in terms:
        for k, one in enumerate(c):
            spectrum += 2 * one * factorial(k) * np.real((rate / (rate + 1j * w)) ** (k + 1)) / rate
    spectrum = np.maximum(spectrum, 0.0)
    # Between points of the grid the products rise by less than a percent.
    return tuple(1.01 * float(np.sqrt((spectrum * w ** (2 * m)).max())) for m in range(orders))


def _is_odd(terms: list[tuple[float, tuple[float, ...]]], order: int) -> bool:
    """Tell whether a derivative of the kernel on one side of 0 is not 0, beyond rounding."""
    parts = [
        rate**order
        * sum(
            c[k] * (-1.0) ** (order - k) * factorial(order) / factorial(order - k)
            for k in range(min(order + 1, len(c)))
        )
        for rate, c in terms
    ]
    return abs(sum(parts)) > _CANCELS * sum(rate**order for rate, _ in terms)
