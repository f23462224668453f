"""Hexagons over a plane: which rows lie in each, and means over these rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Hexagons"]

Array = NDArray[np.float64]

_CELLS = 30  # hexagons across: smaller ones hold too few points for a mean
_ROWS = int(_CELLS / np.sqrt(3))  # pairs of rows of hexagons, which are then nearly regular
_CORNERS = np.array([[0.5, -0.5], [0.5, 0.5], [0, 1], [-0.5, 0.5], [-0.5, -0.5], [0, -1]])
_PADDING = 1e-9  # of the range: the largest value is inside
_NARROW = 1e-15  # of the largest value: ranges below are expanded
_EXPANSION = 0.1
_ZERO = 1e-280  # sizes of hexagons below would not be normal numbers


@dataclass(frozen=True, eq=False)
class Hexagons:
    """The hexagons that hold points.

    Attributes
    ----------
    cells : ndarray (n,)
        The hexagon of each point.
    centres : ndarray (h, 2)
        Centres of the hexagons.
    polygon : ndarray (6, 2)
        Corners of a hexagon around 0.
    ends : ndarray (2, 2)
        The smallest and the largest coordinates.
    """

    cells: NDArray[np.intp]
    centres: Array
    polygon: Array
    ends: Array

    @staticmethod
    def of(places: Array) -> Hexagons:
        """Return the hexagons of points (n, 2), 30 across, as matplotlib's ``hexbin`` places them."""
        ends = np.array([_range(column) for column in places.T]).T
        size = (ends[1] - ends[0]) / (_CELLS, _ROWS)
        position = (places - ends[0]) / size
        # The centres form two lattices: corners and middles of rectangles. The nearest one decides.
        corner, middle = np.round(position), np.floor(position)
        stretch = np.array([1.0, 3.0])
        is_corner = (position - corner) ** 2 @ stretch < (position - middle - 0.5) ** 2 @ stretch
        nearest = np.where(is_corner[:, None], 2 * corner, 2 * middle + 1).astype(np.intp)
        codes = nearest[:, 0] * (2 * _ROWS + 2) + nearest[:, 1]
        present, cells = np.unique(codes, return_inverse=True)
        halves = np.stack(np.divmod(present, 2 * _ROWS + 2), axis=1)
        centres = halves / 2 * size + ends[0]
        return Hexagons(cells, centres, _CORNERS * size * (1, 1 / 3), ends)

    def means(self, values: Array) -> Array:
        """Return the mean (h,) of values (n,) in each hexagon."""
        count = len(self.centres)
        sums = np.bincount(self.cells, values, minlength=count)
        return np.asarray(sums / np.bincount(self.cells, minlength=count))


def _range(values: Array) -> tuple[float, float]:
    """Return a range around values, also if they are all equal."""
    low, high = float(values.min()), float(values.max())
    largest = max(abs(low), abs(high))
    if largest < _ZERO:
        low, high = -_EXPANSION, _EXPANSION
    elif high - low <= largest * _NARROW:
        low, high = low - _EXPANSION * abs(low), high + _EXPANSION * abs(high)
    padding = _PADDING * (high - low)
    return low - padding, high + padding
