"""Chebyshev series of expected features in the parameters of a cell, without their negligible terms.

Most terms of a product of one series for each parameter are negligible: those of high degree in several
parameters at once. The other terms are what a row takes time and a cell memory for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.chebyshev import to_series
from fastmcmd.backends.cpu import core
from fastmcmd.embedding.parameter_cells import ParameterCell

__all__ = ["ParameterSeries"]

_BLOCK = 1 << 18  # terms of a block of rows


@dataclass(frozen=True, eq=False)
class ParameterSeries:
    """A series in the coordinates of a cell.

    Attributes
    ----------
    cell : ParameterCell
        A cell with points.
    degrees : ndarray (k, t)
        Degrees of the terms along each coordinate.
    coefficients : ndarray (t, r + 1)
        Their coefficients, in the last column those of residuals.
    dropped : float
        Sum of the norms of the terms that are left out.
    beyond : ndarray (k,)
        Estimated norms of the terms that follow along each coordinate.
    """

    cell: ParameterCell
    degrees: NDArray[np.intp]
    coefficients: Array
    dropped: float
    beyond: Array

    @staticmethod
    def of(
        cell: ParameterCell, values: Array, residuals: Array, negligible: float
    ) -> ParameterSeries:
        """Return the series through values (s, r) at the points of a cell, and residuals (s,) beside them.

        Terms are left out as long as the sum of the norms of their coefficients in ``values`` is at most
        ``negligible``.
        """
        series = np.column_stack([values, residuals]).reshape(*cell.counts, -1)
        for axis, count in enumerate(cell.counts):
            series = np.moveaxis(np.tensordot(to_series(count), series, (1, axis)), 0, axis)
        norms = np.linalg.norm(series[..., :-1], axis=-1)
        order = np.argsort(norms, axis=None, kind="stable")
        sums = np.cumsum(norms.ravel()[order])
        left_out = min(int(np.searchsorted(sums, negligible, side="right")), len(order) - 1)
        places = np.sort(order[left_out:])
        return ParameterSeries(
            cell,
            np.stack(np.unravel_index(places, cell.counts)),
            np.ascontiguousarray(series.reshape(len(order), -1)[places]),
            float(sums[left_out - 1]) if left_out else 0.0,
            _terms_beyond(norms),
        )

    def __len__(self) -> int:
        return len(self.coefficients)

    def at(self, coordinates: Array) -> tuple[Array, Array]:
        """Return the values (m, r) and residuals (m,) at coordinates (m, k), row by row."""
        values = np.empty((len(coordinates), self.coefficients.shape[1]))

        def work(rows: slice) -> None:
            some = coordinates[rows]
            terms = np.ones((len(some), len(self)))
            for axis, degrees in enumerate(self.degrees):
                terms *= np.take(self.cell.polynomials(some, axis), degrees, axis=1)
            core().dense_matmul(terms, self.coefficients, values[rows], threads=1)

        over_rows(work, len(coordinates), max(1, _BLOCK // len(self)))
        return values[:, :-1], values[:, -1]


def _terms_beyond(norms: Array) -> Array:
    """Return estimated norms (k,) of the terms that a series lacks along each coordinate.

    The last two terms would be followed by smaller ones, at the rate of those before.
    """
    beyond = np.zeros(norms.ndim)
    for axis, count in enumerate(norms.shape):
        if count > 1:
            of_axis = np.linalg.norm(np.moveaxis(norms, axis, 0).reshape(count, -1), axis=1)
            before, last = of_axis[-4:-2].sum(), of_axis[-2:].sum()
            beyond[axis] = 2 * last * min(1.0, last / max(before, 1e-300))
    return beyond
