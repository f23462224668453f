"""Cells of the parameters of a family within which expected features are polynomials.

Distributions move by about the width of the smoothed density within a cell, so a few Chebyshev points along
each parameter determine the expected features of all its rows. Rows that would need more points than there
are rows count themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import factorial, sqrt

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.chebyshev import chebyshev_points, to_series
from fastmcmd.backends.cpu import core
from fastmcmd.embedding.densities import Parametric
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.distance import variation_length
from fastmcmd.predictive import ScipyPredictive, Truncated

__all__ = ["CellTree", "ParameterCell"]

Index = NDArray[np.intp]

_MOST_DIMENSIONS = 3  # parameters that differ between rows
_LONGEST = 8.0  # largest move within a cell, relative to the width of smoothed densities
_COUNTS = (6, 8, 10, 12)  # numbers of points along a parameter
_LEVELS = np.array([0.1, 0.25, 0.5, 0.75, 0.9])  # of quantiles that show how far distributions move
_QUARTILES = 1, 3  # their places
_OF_QUARTILES = 1.35  # ratio of their distance to the standard deviation of normal distributions
_OF_LENGTH = 8.0  # ratio of `variation_length` to the standard deviation of an RBF kernel's bump
_OF_LOGARITHM = 0.7  # least move for a change of a logarithm by 1: shapes change tails only
_NO_CUT = 0.1  # share of the goal: mass outside an interval that does not matter
_FEW = 16  # rows that no further cell would serve
_MOST_ROWS = 1_000_000  # rows from which cells are made
_BLOCK = 1 << 18  # numbers of a block of rows
_DEEPEST = 100  # bisections one after another
_WORTH = 1.3  # smallest ratio of the rows of a cell to its points


def _count_of(ratio: float, goal: float) -> int:
    """Return the number of points for a move by ``ratio`` standard deviations, or 0 if none is enough.

    The n-th derivative of a normal density of unit height is at most sqrt(n!).
    """
    if ratio == 0.0:
        return 1
    if ratio > _LONGEST:
        return 0
    errors = {q: 2 * (ratio / 4) ** q / sqrt(factorial(q)) for q in _COUNTS}
    return next((q for q, error in errors.items() if error <= goal), 0)


@dataclass(frozen=True, eq=False)
class ParameterCell:
    """A box of parameters.

    Attributes
    ----------
    low, high : ndarray (k,)
        Ends of the coordinates of its rows.
    counts : tuple of int
        Numbers of Chebyshev points along each coordinate, or () if its rows count themselves.
    rows : ndarray (m,)
        Indices of its rows.
    """

    low: Array
    high: Array
    counts: tuple[int, ...]
    rows: Index

    def __len__(self) -> int:
        return int(np.prod(self.counts)) if self.counts else len(self.rows)

    def points(self) -> Array:
        """Return the coordinates (s, k) of its Chebyshev points."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        axes = [
            m + h * chebyshev_points(q) for m, h, q in zip(middle, half, self.counts, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))

    def holds(self, at: Array) -> NDArray[np.bool_]:
        """Tell which coordinates (m, k) lie within."""
        return np.asarray(((at >= self.low) & (at <= self.high)).all(axis=1))

    def _places(self, at: Array, axis: int) -> Array:
        half = (self.high[axis] - self.low[axis]) / 2
        t = (at[:, axis] - (self.low[axis] + self.high[axis]) / 2) / (half if half > 0 else 1.0)
        return np.asarray(np.clip(t, -1.0, 1.0))

    def polynomials(self, at: Array, axis: int) -> Array:
        """Return the Chebyshev polynomials (m, q) of a coordinate at coordinates (m, k)."""
        angles = np.arccos(self._places(at, axis))
        return np.asarray(np.cos(angles[:, None] * np.arange(self.counts[axis])))

    def weights(self, at: Array, axis: int) -> Array:
        """Return the weights (m, q) of the points along a coordinate at coordinates (m, k)."""
        count = self.counts[axis]
        weights = np.empty((len(at), count))
        core().dense_matmul(self.polynomials(at, axis), to_series(count), weights, threads=1)
        return weights

    def errors_of(self, errors: Array, at: Array) -> Array:
        """Return the errors (m,) at coordinates (m, k) that follow from errors (s,) at the points.

        Errors that are independent add up in squares, with the squares of the weights. Those that vary as
        slowly as the values are averaged, with the same squares.
        """
        out, squares = np.empty(len(at)), np.square(errors).reshape(self.counts[0], -1)

        def work(rows: slice) -> None:
            weights = np.square(self.weights(at[rows], 0))
            total, sums = weights.sum(axis=1), np.empty((len(weights), squares.shape[1]))
            core().dense_matmul(weights, squares, sums, threads=1)
            for axis, count in enumerate(self.counts[1:], 1):
                weights = np.square(self.weights(at[rows], axis))
                sums = np.einsum("mq,mqs->ms", weights, sums.reshape(len(weights), count, -1))
                total = total * weights.sum(axis=1)
            out[rows] = np.sqrt(sums[:, 0] * np.maximum(1.0, 1 / total))

        over_rows(work, len(at), max(1, _BLOCK // squares.shape[1]))
        return out

    def around(self, values: Array, at: Array) -> tuple[Array, Array]:
        """Return the least and the largest of ``values`` (s,) at the points around coordinates (m, k)."""
        corners = [np.zeros(len(at), dtype=np.intp)]
        for axis, count in enumerate(self.counts):
            after = np.searchsorted(
                -chebyshev_points(count), -self._places(at, axis)
            )  # points descend
            ends = np.clip(after - 1, 0, count - 1), np.clip(after, 0, count - 1)
            corners = [corner * count + end for corner in corners for end in ends]
        of_corners = np.stack([values[corner] for corner in corners])
        return of_corners.min(axis=0), of_corners.max(axis=0)


@dataclass(eq=False)
class _Branch:
    """A bisection: coordinates up to ``place`` are on the first side."""

    axis: int
    place: float
    sides: list[_Branch | ParameterCell]


class CellTree:
    """Cells of all parameters of predictions.

    Parameters
    ----------
    prediction : Family, Gaussian or Truncated
        Predictions, of which one to three parameters differ between rows.
    axes : ndarray (k,)
        Which coordinates these are.
    smallest : float
        Standard deviation of the bump of the output kernel.
    goal : float
        Error of interpolation, relative to the largest feature.
    shorter : float
        Factor by which moves within cells are shorter than the widths of distributions suggest.
    """

    def __init__(
        self,
        prediction: Parametric,
        axes: Index,
        smallest: float,
        goal: float,
        shorter: float = 1.0,
    ) -> None:
        self._prediction, self._axes, self._smallest, self._goal = prediction, axes, smallest, goal
        self._shorter = shorter
        self._logarithmic = np.array(prediction.logarithmic)[axes]
        self._at = self.coordinates(prediction)
        self._root = self._divided(np.arange(len(prediction)), _DEEPEST)

    @staticmethod
    def of(
        prediction: Parametric, kernel: Kernel, goal: float, shorter: float = 1.0
    ) -> CellTree | None:
        """Return the cells; None if no, many or integer parameters differ, or for kernels without a length.

        Moves within cells are ``shorter`` times as short as the widths of distributions suggest.
        """
        if len(prediction) > _MOST_ROWS:
            prediction = prediction.take(
                np.linspace(0, len(prediction) - 1, _MOST_ROWS).astype(np.intp)
            )
        at = prediction.coordinates
        axes = np.flatnonzero((at != at[0]).any(axis=0))
        if not (0 < len(axes) <= _MOST_DIMENSIONS and np.isfinite(at[:, axes]).all()):
            return None
        if _differ_by_integers(prediction, axes):
            return None
        middle = prediction.take(np.array([len(prediction) // 2])).quantile(0.5)
        length = variation_length(kernel, float(middle[0]))
        if not (np.isfinite(length) and length > 0):
            return None
        return CellTree(prediction, axes, length / _OF_LENGTH, goal, shorter)

    def coordinates(self, prediction: Parametric) -> Array:
        """Return the coordinates (m, k) of predictions that differ between rows."""
        return np.ascontiguousarray(prediction.coordinates[:, self._axes])

    def covers(self, prediction: Parametric) -> NDArray[np.bool_]:
        """Tell which predictions (m,) have the parameters that are the same in all rows."""
        fixed = np.delete(prediction.coordinates, self._axes, axis=1)
        same = np.delete(
            self._prediction.take(np.zeros(1, dtype=np.intp)).coordinates, self._axes, axis=1
        )
        return np.asarray((fixed == same).all(axis=1))

    def at(self, coordinates: Array) -> Parametric:
        """Return the predictions at coordinates (m, k)."""
        every = np.repeat(
            self._prediction.take(np.zeros(1, dtype=np.intp)).coordinates, len(coordinates), axis=0
        )
        every[:, self._axes] = coordinates
        return self._prediction.at(every)

    def cells(self) -> Iterator[ParameterCell]:
        """Yield all cells."""
        todo: list[_Branch | ParameterCell] = [self._root]
        while todo:
            one = todo.pop()
            if isinstance(one, ParameterCell):
                yield one
            else:
                todo += one.sides

    @property
    def size(self) -> int:
        """Number of points of all cells, and of rows that count themselves."""
        return sum(map(len, self.cells()))

    def coordinates_of(self, rows: Index) -> Array:
        """Return the coordinates (m, k) of some of the rows of cells."""
        return self._at[rows]

    def sites_of(self, cell: ParameterCell) -> Array:
        """Return the coordinates of the points of a cell, or of its rows if these count themselves."""
        return cell.points() if cell.counts else self._at[cell.rows]

    def sites(self) -> Parametric:
        """Return the predictions at the sites of all cells."""
        return self.at(np.concatenate([self.sites_of(cell) for cell in self.cells()]))

    def located(self, at: Array) -> Iterator[tuple[ParameterCell, Index]]:
        """Yield cells with the indices of the coordinates (m, k) on their side of all bisections."""
        todo: list[tuple[_Branch | ParameterCell, Index]] = [(self._root, np.arange(len(at)))]
        while todo:
            one, index = todo.pop()
            if not len(index):
                continue
            if isinstance(one, ParameterCell):
                yield one, index
            else:
                first = at[index, one.axis] <= one.place
                todo += [(one.sides[0], index[first]), (one.sides[1], index[~first])]

    def bisect(self, cell: ParameterCell, axis: int) -> None:
        """Divide a cell whose points are not enough along an axis."""
        self._replace(cell, self._bisected(cell.rows, axis, _DEEPEST))

    def without_points(self, cell: ParameterCell) -> ParameterCell:
        """Return a cell that takes the place of this one, and whose rows count themselves."""
        rows = ParameterCell(cell.low, cell.high, (), cell.rows)
        self._replace(cell, rows)
        return rows

    def _replace(self, cell: ParameterCell, branch: _Branch | ParameterCell) -> None:
        todo: list[_Branch | ParameterCell] = [self._root]
        if self._root is cell:
            self._root = branch
        while todo:
            one = todo.pop()
            if isinstance(one, _Branch):
                one.sides = [branch if side is cell else side for side in one.sides]
                todo += one.sides

    def _bisected(self, rows: Index, axis: int, deepest: int) -> _Branch | ParameterCell:
        at = self._at[rows, axis]
        place = (at.min() + at.max()) / 2
        first = at <= place
        sides = [self._divided(some, deepest - 1) for some in (rows[first], rows[~first])]
        return _Branch(axis, place, [*sides])

    def _divided(self, rows: Index, deepest: int) -> _Branch | ParameterCell:
        at = self._at[rows]
        low, high = at.min(axis=0), at.max(axis=0)
        if len(rows) <= _FEW or not deepest:
            return ParameterCell(low, high, (), rows)
        ratios = self._moves(low, high)
        counts = tuple(_count_of(ratio, self._goal) for ratio in ratios)
        if all(counts):
            served = len(rows) >= _WORTH * np.prod(counts)
            return ParameterCell(low, high, counts if served else (), rows)
        axis = int(np.argmax(ratios))
        if not low[axis] < (low[axis] + high[axis]) / 2 < high[axis]:
            return ParameterCell(low, high, (), rows)
        return self._bisected(rows, axis, deepest)

    def _moves(self, low: Array, high: Array) -> list[float]:
        """Return how far distributions move along each axis, relative to smoothed densities' widths."""
        corners = np.stack(np.meshgrid(*zip(low, high, strict=True), indexing="ij"), axis=-1)
        sites = self.at(corners.reshape(-1, len(low)))
        moves = _moves_of(sites.quantile(_LEVELS), len(low), self._smallest)
        if isinstance(sites, Truncated) and (sites.mass < 1 - _NO_CUT * self._goal).any():
            # How an interval cuts a density changes at the width of the density, which no kernel smooths.
            base = sites.base.quantile(_LEVELS)
            for end in (sites.low, sites.high):
                base = base - np.where(np.isfinite(end), end, 0.0)[:, None]
                moves = np.maximum(moves, _moves_of(base, len(low), 0.0))
        least = np.where(self._logarithmic, _OF_LOGARITHM * (high - low), 0.0)
        return [float(move) for move in self._shorter * np.maximum(moves, least)]


def _moves_of(quantiles: Array, k: int, smallest: float) -> Array:
    """Return how far quantiles (2^k, j) at the corners of a cell move along each axis (k,)."""
    quantiles = quantiles.reshape(*[2] * k, -1)
    spread = np.ptp(quantiles[..., _QUARTILES], axis=-1).min() / _OF_QUARTILES
    width = float(np.hypot(smallest, spread))
    moves = np.array([np.abs(np.diff(quantiles, axis=axis)).max() for axis in range(k)]) / width
    return np.where(np.isfinite(moves), moves, np.inf)


def _differ_by_integers(prediction: Parametric, axes: Index) -> bool:
    """Tell whether shapes are integers that differ between rows."""
    shapes = prediction.shapes if type(prediction) is ScipyPredictive else None
    return shapes is not None and shapes.are_integers and bool(axes[0] < shapes.distinct.shape[1])
