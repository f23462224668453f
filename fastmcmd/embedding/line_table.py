"""Features of many outputs on panels of the line, interpolated in the output.

Features are integrals of a bump around the output, which are smooth functions of it. On a cell as long as
the narrowest bump is wide, sixteen Chebyshev points give them to 3e-14 of the kernel's size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.chebyshev import chebyshev_points, to_series
from fastmcmd.backends.cpu import core
from fastmcmd.embedding.line import LineFeatures

__all__ = ["LineTable"]

_POINTS = 16  # of a cell
_VALUES = 1 << 20  # features computed at once
_WORTH = 4  # outputs for each point from which a table saves time


@dataclass(frozen=True, eq=False)
class LineTable:
    """Chebyshev series of features and residuals on the cells that outputs are in.

    Attributes
    ----------
    features : LineFeatures
        The features.
    length : float
        Length of a cell; cell c begins at c times this.
    cells : ndarray (c,)
        The cells, ascending.
    series : ndarray (c, points, r + 1)
        Their series, in the last column those of ``k(y, y) - |p(y)|^2``; empty if a table saves no time.
    """

    features: LineFeatures
    length: float
    cells: Array
    series: Array

    @staticmethod
    def of(features: LineFeatures, y: Array) -> LineTable:
        """Return the table for outputs (n,)."""
        length = features.narrowest
        cells = np.unique(np.floor(y / length))
        if _WORTH * _POINTS * len(cells) > len(y):
            return LineTable(features, length, cells[:0], np.empty((0, _POINTS, 0)))
        to_coefficients = to_series(_POINTS)
        series = np.empty((len(cells), _POINTS, features.rank + 1))
        for some in row_blocks(len(cells), max(1, _VALUES // (_POINTS * features.rank))):
            at = (cells[some, None] + 0.5 + chebyshev_points(_POINTS) / 2) * length
            outputs = at.reshape(-1, 1)
            p = features.transform(outputs)
            values = np.column_stack([p, features.residuals(outputs, p)])
            values = values.reshape(len(at), _POINTS, -1)
            series[some] = np.einsum("ij,cjr->cir", to_coefficients, values)
        return LineTable(features, length, cells, series)

    def at(self, y: Array) -> tuple[Array, Array]:
        """Return the features (m, r) and residuals (m,) of ascending outputs (m,)."""
        if not len(self.cells):
            p = self.features.transform(y[:, None])
            return p, self.features.residuals(y[:, None], p)
        out = np.empty((len(y), self.series.shape[2]))
        place = np.floor(y / self.length)
        starts = np.flatnonzero(np.append(True, np.diff(place) != 0))
        for start, stop in zip(starts, np.append(starts[1:], len(y)), strict=True):
            cell = place[start]
            angle = 2 * (y[start:stop] / self.length - cell) - 1
            terms = np.ascontiguousarray(np.polynomial.chebyshev.chebvander(angle, _POINTS - 1))
            series = self.series[int(np.searchsorted(self.cells, cell))]
            core().dense_matmul(terms, series, out[start:stop], threads=1)
        return np.ascontiguousarray(out[:, :-1]), np.maximum(out[:, -1], 0.0)
