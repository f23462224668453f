"""Integrals of densities and polynomials under bumps on the line, by the compiled loops."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows
from fastmcmd.backends.cpu import core
from fastmcmd.embedding.densities import TO_SERIES, PanelDensities

__all__ = ["project", "smooth"]

# Gauss-Legendre rules for windows of length 3, 6 and 12, exact to rounding under exp(-x^2).
_SIZES = (16, 24, 40)
_RULES = np.zeros((2, len(_SIZES), _SIZES[-1]))
for _row, _size in enumerate(_SIZES):
    _RULES[:, _row, :_size] = np.polynomial.legendre.leggauss(_size)
_HERMITE = np.array(np.polynomial.hermite.hermgauss(8))  # exact for polynomials of degree 15
_VALUES = 1 << 14  # values of a block: some tenths of a millisecond


def smooth(densities: PanelDensities, places: Array, rate: float, t: Array) -> Array:
    """Return ``integral f_i(y) exp(-(rate (y - t_j))^2) dy`` (n, q), with t (q,) ascending.

    ``places`` (terms,) are the nodes of a panel's masses, in (-1, 1).
    """
    out = np.zeros((len(densities.low), len(t)))

    def fill(rows: slice) -> None:
        d = densities.block(rows)
        core().smooth_panels(
            d.low, d.high, d.series, d.weights, places, TO_SERIES, rate, t, *_RULES, _HERMITE, out[rows]
        )  # fmt: skip

    over_rows(fill, len(out), _VALUES // max(1, len(t)))
    return out


def project(y: Array, low: Array, high: Array, rate: float, terms: int) -> Array:
    """Return the first Legendre coefficients (n, p, terms) of ``exp(-(rate (t - y_i))^2)``.

    The polynomials are orthonormal on panels p from ``low[p]`` to ``high[p]``, ascending and disjoint.
    """
    out = np.zeros((len(y), len(low), terms))

    def fill(rows: slice) -> None:
        core().project_bumps(y[rows], low, high, rate, *_RULES, out[rows])

    over_rows(fill, len(y), _VALUES // max(1, len(low) * terms))
    return out
