"""Moments of outcomes and predicted means for all bootstrap samples: R² and the correlation.

With u and v, outcome and predicted mean less a centre, both measures are functions of the means of
``u, v, u^2, u v, v^2``. Their standard errors (delta method) need moments up to the fourth order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOMENT_MEASURES", "PairMoments", "powers_of"]

Array = NDArray[np.float64]

MOMENT_MEASURES = "r2", "pearson"
_POWERS = [(total - b, b) for total in range(5) for b in range(total + 1)]  # of u and of v
_PLACES = {power: place for place, power in enumerate(_POWERS)}
_QUADRATIC = _POWERS[:6]  # 1, u, v, u^2, u v, v^2
# The place of the product of two quadratic powers among all powers.
_PRODUCTS = np.array([[_PLACES[a + c, b + d] for c, d in _QUADRATIC] for a, b in _QUADRATIC])


def powers_of(y: Array, mean: Array, centre: tuple[float, float]) -> Array:
    """Return ``u^a v^b`` (15, n) up to the fourth order."""
    u, v = y - centre[0], mean - centre[1]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.stack([u**a * v**b for a, b in _POWERS])


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Sums of powers of outcomes and predicted means.

    Attributes
    ----------
    centre : tuple of float (2,)
        What is subtracted from both.
    sums : ndarray (2, 15, B + 1)
        Sums with weights ``c w`` and ``c w^2``, for each sample.
    """

    centre: tuple[float, ...]
    sums: Array

    def __add__(self, other: PairMoments) -> PairMoments:
        return PairMoments(self.centre, self.sums + other._about(self.centre))

    def _about(self, centre: tuple[float, ...]) -> Array:
        """Return the sums about another centre, by the binomial theorem."""
        moves = [old - new for old, new in zip(self.centre, centre, strict=True)]
        out = np.zeros_like(self.sums)
        for place, (a, b) in enumerate(_POWERS):
            for i in range(a + 1):
                for j in range(b + 1):
                    with np.errstate(over="ignore", invalid="ignore"):  # then no interval
                        factor = (
                            comb(a, i)
                            * np.float64(moves[0]) ** (a - i)
                            * comb(b, j)
                            * np.float64(moves[1]) ** (b - j)
                        )
                    out[:, place] += factor * self.sums[:, _PLACES[i, j]]
        return out

    def numbers(self, name: str) -> tuple[Array, Array]:
        """Return a measure and its standard error for each sample (B + 1,)."""
        totals = self.sums[0, 0]
        value, slopes = (_r2 if name == "r2" else _pearson)(
            self.sums[0, 1:6] / totals, self.centre[1] - self.centre[0]
        )
        # ``sum c w^2 (slopes . (powers - means))^2``, a quadratic form of the fourth moments.
        constant = -(slopes * self.sums[0, 1:6] / totals).sum(axis=0)
        form = np.concatenate([constant[None], slopes])
        squares = np.einsum("is,ijs,js->s", form, self.sums[1][_PRODUCTS], form)
        return value, np.sqrt(np.maximum(squares, 0.0)) / totals


def _r2(means: Array, gap: float) -> tuple[Array, Array]:
    """Return 1 - E e^2 / var y, with ``e = v - u + gap``, and its slopes (5, s)."""
    u, v, uu, uv, vv = means
    error, spread = gap**2 + 2 * gap * (v - u) + vv - 2 * uv + uu, uu - u**2
    zero, one = np.zeros_like(u), np.ones_like(u)
    of_error = np.stack([-2 * gap * one, 2 * gap * one, one, -2 * one, one])
    of_spread = np.stack([-2 * u, zero, one, zero, zero])
    return 1 - error / spread, -of_error / spread + error / spread**2 * of_spread


def _pearson(means: Array, gap: float) -> tuple[Array, Array]:
    """Return the correlation and its slopes (5, s)."""
    del gap
    u, v, uu, uv, vv = means
    product, spread, other = uv - u * v, uu - u**2, vv - v**2
    size = np.sqrt(spread * other)
    zero, one = np.zeros_like(u), np.ones_like(u)
    of_product = np.stack([-v, -u, zero, one, zero])
    of_spread = np.stack([-2 * u, zero, one, zero, zero])
    of_other = np.stack([zero, -2 * v, zero, zero, one])
    value = product / size
    return value, of_product / size - value / 2 * (of_spread / spread + of_other / other)
