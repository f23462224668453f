"""Predicted densities as polynomials on panels that all rows share, with an error for each row.

Panels are halved until the polynomials show each density, and its probability of each panel. A kink at the
median (`Laplace`) is on the end of two rules of quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.embedding.densities import parts_of
from fastmcmd.embedding.exponential_panels import (
    TERMS,
    ExponentialPanels,
    largest_errors,
    polynomials,
)
from fastmcmd.embedding.exponential_sums import ExponentialSum
from fastmcmd.predictive import Predictive

__all__ = ["SharedPanels", "shared_panels"]

_NODES = 24  # of a panel
_HALVINGS = 120
_PROBED = 30  # rows that are tried first: most panels that are too long are so for some of them
_PANELS = 2  # total error of a prediction, in units of the error allowed on a panel
_LIGHT = 1e-3  # share of the goal: mass of a negligible panel
_TAIL = 0.05  # share of the goal: mass beyond all panels, on each side


@dataclass(frozen=True, eq=False)
class SharedPanels:
    """Densities of n predictions.

    Attributes
    ----------
    panels : ExponentialPanels
        The panels, and the kernel.
    coefficients : ndarray (n, 16 p)
        Coefficients of orthonormal polynomials.
    error : ndarray (n,)
        Errors of the embeddings by the kernel, as quadrature measures them.
    """

    panels: ExponentialPanels
    coefficients: Array
    error: Array


def shared_panels(
    prediction: Predictive, kernel: ExponentialSum, goal: float, most: int
) -> SharedPanels | None:
    """Return densities for which `has_panels` is true on common panels, or None if these are too many.

    Parameters
    ----------
    prediction : Predictive
        All n predictions.
    kernel : ExponentialSum
        Output kernel.
    goal : float
        Target error of each embedding.
    most : int
        Largest number of panels.
    """
    parts = [_DensityPart.of(weight, one, kernel, goal) for weight, one in parts_of(prediction)]
    ends = np.concatenate([part.ends for part in parts])
    if not np.isfinite(ends).all() or not ends.min() < ends.max():
        return None
    probed = [
        part.take(np.arange(0, len(prediction), 1 + len(prediction) // _PROBED)) for part in parts
    ]
    tail = _TAIL * goal * float(np.sqrt(kernel.at_zero))
    low, high = np.array([ends.min()]), np.array([ends.max()])
    fine: list[tuple[float, float, Array, Array]] = []
    for _ in range(_HALVINGS):
        long = np.zeros(len(low), dtype=bool)
        for panel, (a, b) in enumerate(zip(low, high, strict=True)):
            one = _on_panel(probed, float(a), float(b), goal / _PANELS)
            one = one and _on_panel(parts, float(a), float(b), goal / _PANELS)
            if one is not None:
                fine.append((float(a), float(b), *one))
                continue
            long[panel] = True
            if not a < (a + b) / 2 < b:
                return None
        if not long.any():
            break
        if len(fine) + 2 * long.sum() > most:
            return None
        middle = (low[long] + high[long]) / 2
        low, high = np.concatenate([low[long], middle]), np.concatenate([middle, high[long]])
    else:
        return None
    fine.sort(key=lambda one: one[0])
    edges = np.array([*(one[0] for one in fine), fine[-1][1]])
    coefficients = np.concatenate([one[2] for one in fine], axis=1)
    error = sum((one[3] for one in fine), np.full(len(prediction), 2 * tail))
    return SharedPanels(ExponentialPanels(kernel, edges), coefficients, error)


@dataclass(frozen=True, eq=False)
class _DensityPart:
    """A component of the predictions, and what its quadrature needs.

    Attributes
    ----------
    weight : ndarray (n,)
        Its weight in each row.
    prediction : Predictive
        The component.
    kernel : ExponentialSum
        Output kernel.
    goal : float
        Target error.
    median : ndarray (n,)
        Where the density may have a kink.
    ends : ndarray (2,)
        Numbers between which all rows have all but a negligible mass.
    """

    weight: Array
    prediction: Predictive
    kernel: ExponentialSum
    goal: float
    median: Array
    ends: Array

    @staticmethod
    def of(
        weight: Array, prediction: Predictive, kernel: ExponentialSum, goal: float
    ) -> _DensityPart:
        level = np.full((len(prediction), 1), _TAIL * goal)
        low, high = prediction.quantiles_at(level), prediction.upper_quantiles_at(level)
        ends = np.array([low.min(), high.max()])
        return _DensityPart(weight, prediction, kernel, goal, prediction.quantile(0.5), ends)

    def take(self, rows: NDArray[np.intp]) -> _DensityPart:
        """Return some rows."""
        return replace(
            self,
            weight=self.weight[rows],
            prediction=self.prediction.take(rows),
            median=self.median[rows],
        )

    def on(self, a: float, b: float, most: float) -> tuple[Array, Array] | None:
        """Return coefficients (n, 16) on a panel, and errors (n,); None if one is over ``most``."""
        size = float(np.sqrt(self.kernel.at_zero))
        mass = self._mass(a, b)
        coefficients, error = np.zeros((len(mass), TERMS)), size * mass
        kinked = (self.median > a) & (self.median < b)
        matters = mass > _LIGHT * self.goal
        factor = largest_errors(self.kernel, b - a)
        for rows, has_kink in ((matters & kinked, True), (matters & ~kinked, False)):
            some = np.flatnonzero(rows)
            if not len(some):
                continue
            ends = [np.full(len(some), a), np.full(len(some), b)]
            if has_kink:
                ends.insert(1, self.median[some])
            c, norm = self._projected(some, ends)
            off = np.abs(c[:, 0] * np.sqrt(b - a) - mass[some])
            coefficients[some] = c
            error[some] = factor * norm + size * off
            if not (self.weight[some] * error[some]).max() <= most:
                return None
        return coefficients, error

    def _projected(self, rows: NDArray[np.intp], ends: list[Array]) -> tuple[Array, Array]:
        """Return coefficients (m, 16) of rows, and L2 norms (m,) of residuals, by rules between ends."""
        z, w = gauss_legendre(_NODES)
        low, length = float(ends[0][0]), float(ends[-1][0] - ends[0][0])
        pieces = [(start[:, None], (stop - start)[:, None] / 2) for start, stop in pairwise(ends)]
        y = np.concatenate([start + half * (z + 1) for start, half in pieces], axis=1)
        weight = np.concatenate([half * w for _, half in pieces], axis=1)
        density = self.prediction.densities(rows, y)
        x = 2 * (y - low) / length - 1
        with np.errstate(invalid="ignore", over="ignore"):
            if len(pieces) == 1:
                basis = polynomials(x[0], np.full(_NODES, length))
                c = (density * weight) @ basis
                residual = density - c @ basis.T
            else:
                basis = polynomials(x, np.full(x.shape, length))
                c = np.einsum("nk,nkl->nl", density * weight, basis)
                residual = density - np.einsum("nl,nkl->nk", c, basis)
            return c, np.sqrt(np.einsum("nk,nk->n", weight, residual * residual))

    def _mass(self, a: float, b: float) -> Array:
        """Return the probabilities (n,) of a panel, from the tail in which they are accurate."""
        low, high = np.full(len(self.weight), a), np.full(len(self.weight), b)
        mass, upper = np.empty(len(low)), self.median < a
        for rows, above in ((np.flatnonzero(upper), True), (np.flatnonzero(~upper), False)):
            if len(rows):
                part = self.prediction.take(rows)
                ends = (
                    (part.sf(low[rows]), part.sf(high[rows]))
                    if above
                    else (part.cdf(high[rows]), part.cdf(low[rows]))
                )
                mass[rows] = ends[0] - ends[1]
        return mass


def _on_panel(
    parts: list[_DensityPart], a: float, b: float, most: float
) -> tuple[Array, Array] | None:
    """Return coefficients (n, 16) of all parts together, and errors (n,); None if one is over ``most``."""
    n = len(parts[0].weight)
    coefficients, errors = np.zeros((n, TERMS)), np.zeros(n)
    for part in parts:
        one = part.on(a, b, most)
        if one is None:
            return None
        coefficients += part.weight[:, None] * one[0]
        errors += part.weight * one[1]
    return (coefficients, errors) if errors.max() <= most else None
