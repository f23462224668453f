"""Quantiles at many levels for Pearson's system: SciPy computes a few, a march the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows

__all__ = ["FEW", "Tail", "between_tails", "linear_slope"]

FEW = 8  # number of levels below which calling SciPy for each costs no more
_BLOCK = 1 << 17  # quantiles per block: 1 MB
_OFF = (
    1e-12  # relative error allowed in the mass at the end of a march, beyond rounding of its place
)
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Tail:
    """One tail of a standard distribution. Arrays and shape parameters broadcast in its formulas.

    Attributes
    ----------
    quantile : callable (level, *shapes)
        Points with mass ``level`` beyond them in this tail.
    mass : callable (x, *shapes)
        Mass beyond points, the inverse of ``quantile``.
    density : callable (x, *shapes)
        The density.
    slope : callable (*shapes) to (n, 8)
        Table for `fastmcmd._core.march`.
    sign : float
        1 for the lower tail, -1 for the upper one.
    """

    quantile: Callable[..., Array]
    mass: Callable[..., Array]
    density: Callable[..., Array]
    slope: Callable[..., Array]
    sign: float

    def inwards(self, levels: Array, *shapes: Array) -> Array:
        """Return points (n, j) with masses (n, j) or (1, j), in (0, 0.5] and rising, beyond them.

        If a march ends at a point with the wrong mass, SciPy computes the whole row instead.
        """
        # Sort by shape: rows that march together should need similar steps.
        order = np.argsort(shapes[0])
        shapes = tuple(shape[order] for shape in shapes)
        levels = levels[order] if len(levels) > 1 else levels
        columns = tuple(shape[:, None] for shape in shapes)
        with np.errstate(all="ignore"):
            x = np.array(np.broadcast_to(self.quantile(levels[:, 0], *shapes), shapes[0].shape))
            f = np.array(self.density(x, *shapes))
            out = np.empty((len(x), levels.shape[1]))
            _core.march(x, f, self.sign * (levels - levels[:, :1]), self.slope(*shapes), out)
            gap = np.abs(self.mass(x, *shapes) - levels[:, -1])
            good = gap <= _OFF * levels[:, -1] + _ROUNDING * np.abs(x) * f
            failed = np.flatnonzero(~(good & np.isfinite(out).all(axis=1)))
            if len(failed):
                row_levels = levels[failed] if len(levels) > 1 else levels
                out[failed] = self.quantile(row_levels, *(column[failed] for column in columns))
        sorted_quantiles = np.empty_like(out)
        sorted_quantiles[order] = out
        return sorted_quantiles


def between_tails(
    lower: Callable[..., Array], upper: Callable[..., Array], levels: Array, *shapes: Array
) -> Array:
    """Return standard quantiles (n, j), each computed from the nearer tail.

    Parameters
    ----------
    lower, upper : callable (levels, *shapes)
        Points of the lower and the upper tail, as returned by `Tail.inwards`.
    levels : ndarray (n, j) or (1, j)
        Rising levels in (0, 1).
    *shapes : ndarray (n,)
        Shape parameters. If all rows share them and the levels, a single row is computed.
    """
    n = len(shapes[0])
    if len(levels) == 1 and n > 1 and all((shape == shape[0]).all() for shape in shapes):
        one = between_tails(lower, upper, levels, *(shape[:1] for shape in shapes))
        return np.broadcast_to(one, (n, levels.shape[1]))
    out = np.empty((n, levels.shape[1]))
    low = levels <= 0.5
    first = int(low.any(axis=0).sum())  # number of columns in which some row is in its lower tail
    last = int(low.all(axis=0).sum())  # first column in which some row is in its upper tail

    def work(rows: slice) -> None:
        row_levels = levels[rows] if len(levels) > 1 else levels
        part = [shape[rows] for shape in shapes]
        quantiles = out[rows]
        if first:
            quantiles[:, :first] = lower(np.minimum(row_levels[:, :first], 0.5), *part)
        if last < row_levels.shape[1]:
            mirrored = np.minimum(1 - row_levels[:, last:], 0.5)[:, ::-1]
            above = upper(mirrored, *part)[:, ::-1]
            quantiles[:, last:] = np.where(row_levels[:, last:] <= 0.5, quantiles[:, last:], above)

    over_rows(work, n, max(1, _BLOCK // max(1, levels.shape[1])))
    return out


Three: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike]


def linear_slope(p0: ArrayLike, p1: ArrayLike, q: Three, roots: Three) -> Array:
    """Return the table (n, 8) for `fastmcmd._core.march` from columns that broadcast."""
    return np.stack(np.broadcast_arrays(p0, p1, *q, *roots), axis=-1).astype(np.float64)
