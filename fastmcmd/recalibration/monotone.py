"""Strictly increasing, piecewise linear maps of [0, 1] onto itself, such as that of PIT values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive.base import Array

__all__ = ["MonotoneMap", "empirical"]


@dataclass(frozen=True, eq=False, repr=False)
class MonotoneMap:
    """The map R that is linear between the points (p_k, r_k).

    Parameters
    ----------
    p, r : ndarray (k,)
        Knots. Both arrays begin with 0, end with 1 and increase strictly.
    """

    p: Array
    r: Array
    rules: dict[Any, Any] = field(default_factory=dict, init=False)  # cached quadrature rules

    def __repr__(self) -> str:
        return f"MonotoneMap({len(self.p) - 2} knots inside)"

    def __call__(self, p: Array) -> Array:
        """Return R(p)."""
        return np.asarray(np.interp(p, self.p, self.r))

    def inverse(self, u: Array) -> Array:
        """Return the p with R(p) = u."""
        return np.asarray(np.interp(u, self.r, self.p))

    def inverse_above(self, u: Array) -> Array:
        """Return 1 - p with R(p) = 1 - u, without computing 1 - u, which loses digits of small u."""
        return np.asarray(np.interp(u, 1 - self.r[::-1], 1 - self.p[::-1]))

    @property
    def slopes(self) -> Array:
        """Slopes between knots, all positive."""
        return np.asarray(np.diff(self.r) / np.diff(self.p))

    def cell(self, p: Array) -> NDArray[np.intp]:
        """Return the index of the interval that holds p; a knot belongs to the interval on its right."""
        cell = np.searchsorted(self.p, p, side="right") - 1
        return np.asarray(np.clip(cell, 0, len(self.p) - 2))

    def after(self, first: MonotoneMap) -> MonotoneMap:
        """Return the map of p to self(first(p))."""
        p = np.unique(np.concatenate([first.p, first.inverse(self.p)]))
        return MonotoneMap.through(p, self(first(p)))

    @classmethod
    def through(cls, p: Array, r: Array) -> MonotoneMap:
        """Return the map through (0, 0), the strictly increasing ones of some points, and (1, 1)."""
        p, r = np.concatenate([[0.0], p]), np.concatenate([[0.0], r])
        up = np.concatenate([[True], (np.diff(p) > 0) & (np.diff(r) > 0)])
        keep = up & (p < 1) & (r < 1)
        return cls(np.append(p[keep], 1.0), np.append(r[keep], 1.0))

    def at_levels(self, levels: Array) -> MonotoneMap:
        """Return the map that interpolates this one at some levels p."""
        return MonotoneMap.through(levels, self(levels))

    def thinned(self, knots: int) -> MonotoneMap:
        """Return a map through ``knots`` inner points of this one, evenly spaced in r."""
        if knots >= len(self.p) - 2:
            return self
        r = np.arange(1, knots + 1) / (knots + 1)
        return MonotoneMap.through(self.inverse(r), r)


def empirical(values: Array, weights: Array | None) -> tuple[MonotoneMap, float]:
    """Return the distribution function of values in [0, 1] and the effective number of values.

    Parameters
    ----------
    values : ndarray (n,)
        Values in [0, 1].
    weights : ndarray (n,) or None
        Their weights.

    Returns
    -------
    MonotoneMap
        At each distinct value, the mass below it plus half of its own mass (Hazen's plotting positions),
        with linear interpolation from (0, 0) to (1, 1). It depends neither on the scale of the weights nor
        on whether a row is repeated or has a larger weight.
    float
        Kish's effective number of distinct values, ``(sum m)^2 / sum m^2`` for masses m.
    """
    if weights is not None:
        positive = np.flatnonzero(weights > 0)
        values, weights = values[positive], weights[positive]
    order = None if weights is None else np.argsort(values, kind="stable")
    sorted_values = np.sort(values) if order is None else values[order]
    first = np.flatnonzero(np.concatenate([[True], sorted_values[1:] > sorted_values[:-1]]))
    if weights is None:
        mass = np.diff(first, append=len(sorted_values)).astype(np.float64)
    else:
        mass = np.add.reduceat(weights[order], first)
    distinct = sorted_values[first]
    middle = np.cumsum(mass)
    total = float(middle[-1])
    effective = total**2 / float(mass @ mass)
    middle -= mass / 2
    middle /= total
    inside = (distinct > 0) & (distinct < 1)
    return MonotoneMap.through(distinct[inside], middle[inside]), effective
