"""Expected features of many predictions of one family, interpolated in its parameters.

Integrals of a row take up to a millisecond. Expected features are smooth in the parameters of a family, so
those at Chebyshev points of cells (`CellTree`) determine the features of all rows, and later passes over
the rows integrate nothing. The error of a cell is estimated by the last terms of its series, and compared
with the error of rows that are integrated themselves; cells whose error is too large are bisected. To it a
row adds the largest error of an integral at a point: such errors vary as slowly as the features themselves,
or independently, and the squares of the weights of all points sum to about 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.cpu import core
from fastmcmd.embedding.densities import parts_of
from fastmcmd.embedding.parameter_cells import Cell, CellTree
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.family import Family

__all__ = ["InterpolatedMeans", "integrated"]

Index = NDArray[np.intp]
# Means (m, r), residuals (m,) and errors (m,) of predictions.
Integrals = tuple[Array, Array, Array]
Integrate = Callable[[Predictive], Integrals]

_LEAST_ROWS = 4000  # rows from which interpolation is tried
_SHARE = 0.5  # largest share of the rows that is integrated
_OF_GOAL = 0.25  # share of the goal: error of interpolation
_ROUNDS = 6  # rounds of bisections
_CHECKED, _CHECKED_SHARE = (
    10,
    8,
)  # rows of a cell that are integrated themselves; points for each of them
_TIMES = 4  # error of a cell, relative to the largest difference at its checked rows
_BLOCK = 1 << 19  # weights of a block of rows


@dataclass(frozen=True, eq=False)
class _Values:
    """Integrals at the points of a cell, or of its rows, and the error of interpolation."""

    mean: Array
    residual: Array
    error: Array
    off: float = 0.0


class _Component:
    """Expected features of predictions of one family.

    Parameters
    ----------
    prediction : Family
        All predictions.
    tree : CellTree
        Cells of their parameters.
    integrate : callable
        Integrals of predictions.
    goal : float
        Error that interpolation may have.
    most : int
        Largest number of integrals.
    """

    def __init__(
        self, prediction: Family, tree: CellTree, integrate: Integrate, goal: float, most: int
    ) -> None:
        self._tree, self._integrate = tree, integrate
        self._rng = generator(len(prediction), Purpose.PROBE)
        self._values: dict[Cell, _Values] = {}
        at = tree.coordinates(prediction)
        self._add(list(tree.cells()), at)
        for _ in range(_ROUNDS):
            inexact = self._inexact(goal)
            if not inexact or self.sites + sum(map(len, inexact)) > most:
                break
            for cell in inexact:
                terms = cell.omitted_terms(self._values.pop(cell).mean)
                tree.bisect(cell, int(np.argmax(terms)))
            self._add([cell for cell in tree.cells() if cell not in self._values], at)
        inexact = self._inexact(goal / _OF_GOAL)
        more = sum(len(cell.rows) for cell in inexact)
        self.serves = self.sites + more <= most
        if self.serves:
            for cell in inexact:
                del self._values[cell]
            self._add([tree.without_points(cell) for cell in inexact], at)
        self._rows = {
            cell: {at[row].tobytes(): place for place, row in enumerate(cell.rows)}
            for cell in self._values
            if not cell.counts
        }

    @property
    def sites(self) -> int:
        """Number of predictions that are integrated."""
        return sum(map(len, self._values))

    def _inexact(self, goal: float) -> list[Cell]:
        """Return the cells whose error of interpolation is too large."""
        return [
            cell
            for cell, one in self._values.items()
            if cell.counts and one.off > goal + np.median(one.error)
        ]

    def _add(self, cells: list[Cell], at: Array) -> None:
        """Integrate at the points of cells or their rows, and at some rows for comparison."""
        if not cells:
            return
        checked = [self._checked(cell) for cell in cells]
        points = [cell.points() if cell.counts else at[cell.rows] for cell in cells]
        integrals = self._integrate(
            self._tree.at(np.concatenate([*points, *(at[some] for some in checked)]))
        )
        ends = np.cumsum([len(one) for one in (*points, *checked)])[:-1]
        parts = [np.split(one, ends) for one in integrals]
        for number, (cell, some) in enumerate(zip(cells, checked, strict=True)):
            mean, residual, error = (one[number] for one in parts)
            off = 0.0
            if cell.counts:
                rows = mean, error, *(parts[which][len(cells) + number] for which in (0, 2))
                off = _off(cell, at[some], *rows)
            self._values[cell] = _Values(mean, residual, error, off)

    def _checked(self, cell: Cell) -> Index:
        """Return some rows of a cell, which are integrated themselves."""
        if not cell.counts:
            return cell.rows[:0]
        return self._rng.choice(
            cell.rows, min(_CHECKED, len(cell) // _CHECKED_SHARE), replace=False
        )

    def of(self, part: Family) -> Integrals:
        """Return the integrals of some of the predictions, or of others."""
        at, rank = self._tree.coordinates(part), next(iter(self._values.values())).mean.shape[1]
        out = np.empty((len(part), rank)), np.empty(len(part)), np.empty(len(part))
        unknown, covered = np.ones(len(part), dtype=bool), self._tree.covers(part)
        for cell, index in self._tree.located(at):
            one = self._values[cell]
            index = index[covered[index] & cell.holds(at[index])]
            if not cell.counts:
                places = np.array(
                    [self._rows[cell].get(at[i].tobytes(), -1) for i in index], dtype=np.intp
                )
                index, places = index[places >= 0], places[places >= 0]
                for values, whole in zip((one.mean, one.residual, one.error), out, strict=True):
                    whole[index] = values[places]
                unknown[index] = False
                continue
            unknown[index] = False
            step = max(1, _BLOCK // len(cell))
            for start in range(0, len(index), step):
                some = index[start : start + step]
                weights = cell.weights(at[some])
                mean = np.empty((len(some), rank))
                core().dense_matmul(weights, one.mean, mean, threads=1)
                out[0][some] = mean
                out[1][some] = cell.largest_around(one.residual, at[some])
                out[2][some] = one.error.max() + one.off
        index = np.flatnonzero(unknown)
        if len(index):
            for values, whole in zip(self._integrate(part.take(index)), out, strict=True):
                whole[index] = values
        return out


def _off(cell: Cell, at: Array, mean: Array, error: Array, checked: Array, errors: Array) -> float:
    """Return the error of interpolation, given integrals at the points of a cell and at some rows."""
    off = float(cell.omitted_terms(mean).sum())
    weights = cell.weights(at)
    difference = np.linalg.norm(weights @ mean - checked, axis=1)
    if (difference > off + error.max() + errors).any():
        return _TIMES * float(difference.max())
    return off


class InterpolatedMeans:
    """Expected features of predictions of a family, or of mixtures of such predictions."""

    def __init__(self, components: list[_Component]) -> None:
        self._components = components

    @staticmethod
    def made(
        prediction: Predictive,
        kernel: Kernel,
        integrate: Integrate,
        goal: float,
        most: int | None = None,
    ) -> InterpolatedMeans | None:
        """Return expected features of all predictions, or None if interpolation would save little.

        Parameters
        ----------
        prediction : Predictive
            All predictions.
        kernel : Kernel
            Output kernel.
        integrate : callable
            Returns the means (m, r), residuals (m,) and errors (m,) of predictions.
        goal : float
            Target error of a mean.
        most : int, optional
            Largest number of predictions that are integrated; default half of them.
        """
        trees = _trees(prediction, kernel, goal)
        half = int(_SHARE * len(prediction))
        most = half if most is None else min(half, most)
        if trees is None or sum(_size(tree) for _, tree in trees) > most * len(trees):
            return None
        components = list[_Component]()
        for part, tree in trees:
            components.append(_Component(part, tree, integrate, _OF_GOAL * goal, most))
            if not components[-1].serves:
                return None
        return InterpolatedMeans(components)

    def of(self, prediction: Predictive) -> Integrals:
        """Return the means (m, r), residuals (m,) and errors (m,) of some of the predictions."""
        parts = parts_of(prediction)
        every = [
            [weight[:, None] * mean, weight * residual, weight * error]
            for (weight, part), component in zip(parts, self._components, strict=True)
            for mean, residual, error in [component.of(part)]
        ]
        mean, residual, error = (sum(one[1:], one[0]) for one in zip(*every, strict=True))
        return mean, residual, error


def integrated(prediction: Predictive, kernel: Kernel, goal: float) -> list[Family] | None:
    """Return the predictions that are integrated first, or None if interpolation would save little."""
    trees = _trees(prediction, kernel, goal)
    return None if trees is None else [tree.sites() for _, tree in trees]


def _size(tree: CellTree) -> int:
    return sum(len(cell) for cell in tree.cells())


def _trees(
    prediction: Predictive, kernel: Kernel, goal: float
) -> list[tuple[Family, CellTree]] | None:
    if len(prediction) < _LEAST_ROWS:
        return None
    largest = float(np.sqrt(kernel.diagonal(np.zeros((1, prediction.columns)))[0]))
    trees = []
    for _, part in parts_of(prediction):
        if not isinstance(part, Family):
            return None
        tree = CellTree.of(part, kernel, _OF_GOAL * goal / largest)
        if tree is None:
            return None
        trees.append((part, tree))
    size = sum(_size(tree) for _, tree in trees)
    return trees if size <= _SHARE * len(prediction) * len(trees) else None
