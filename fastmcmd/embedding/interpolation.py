"""Expected features of many predictions of one family, interpolated in its parameters.

Integrals of a row take up to a millisecond. Expected features are smooth in the parameters of a family, so
those at Chebyshev points of cells (`CellTree`) determine the features of all rows, and later passes over
the rows integrate nothing. The error of a cell is estimated from the terms that its series lack, and
compared with rows that are integrated themselves, rare ones among them. Cells whose error is too large are
bisected. To it a row adds the errors of the integrals near it (`ParameterCell.errors_of`): such errors vary
as slowly as the features themselves, or independently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.embedding.densities import Parametric, is_parametric, parts_of
from fastmcmd.embedding.parameter_cells import CellTree, ParameterCell
from fastmcmd.embedding.parameter_series import ParameterSeries
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Predictive

__all__ = ["InterpolatedMeans", "integration_sites"]

Index = NDArray[np.intp]
# Means (m, r), residuals (m,) and errors (m,) of predictions.
Integrals = tuple[Array, Array, Array]
Integrate = Callable[[Predictive], Integrals]

_LEAST_ROWS = 1000  # rows from which interpolation is tried
_SHARE = 0.5  # largest share of the rows that is integrated
# Factors by which cells are shorter, one after another until series converge: a density with a steep side
# is narrower than its quartiles say. If errors fall less than by the ratio, series of a kink diverge.
_SHORTER, _FALLS = (1.0, 4.0, 16.0), 0.03
_OF_GOAL = 0.25  # share of the goal: error of interpolation
_ROUNDS = 6  # rounds of bisections
_TOTAL = 1.2  # integrals in all rounds, relative to the largest number in the end
_UNRESOLVED = (
    3000  # error of the first cell, relative to the goal, from which bisections do not help
)
_TAILS = np.array([1e-16, 0.5])  # levels of quantiles that integrals need, from both ends
# Random rows of a cell that are integrated for comparison, at most, and as many at random places; points of
# the cell for each of them.
_COMPARED, _POINTS_OF_COMPARED = 8, 12
_TIMES = 4  # error of a cell, relative to the largest difference at these rows beyond errors of integrals
_DROPPED = 0.25  # terms that are left out, relative to the goal and the errors of integrals


@dataclass(frozen=True, eq=False)
class _CellIntegrals:
    """Integrals at the points of a cell, or of its rows, and the error of interpolation.

    The series is that of means and residuals; cells without points hold the means of their rows.
    """

    mean: Array
    residual: Array
    error: Array
    off: float = 0.0
    series: ParameterSeries | None = None

    @property
    def size(self) -> int:
        """Number of features of outputs that are held for the rows of the cell."""
        return len(self.mean) if self.series is None else len(self.series)

    @property
    def typical(self) -> float:
        """Root mean square of the errors of integrals."""
        return float(np.sqrt(np.mean(np.square(self.error))))


class _FamilyMeans:
    """Expected features of predictions of one family.

    Parameters
    ----------
    prediction : Family, Gaussian or Truncated
        All predictions.
    tree : CellTree
        Cells of their parameters.
    integrate : callable
        Integrals of predictions.
    goal : float
        Error that interpolation should have; four times as much is acceptable.
    most : int
        Largest number of integrals.
    most_terms : int
        Largest number of means or terms of series.

    Attributes
    ----------
    serves : bool
        Whether interpolation saves enough.
    divergence : float
        Error of a cell whose series does not converge; 0 if that is not why interpolation does not serve.
    """

    def __init__(
        self,
        prediction: Parametric,
        tree: CellTree,
        integrate: Integrate,
        goal: float,
        most: int,
        most_terms: int,
    ) -> None:
        self._tree, self._integrate, self._goal = tree, integrate, goal
        self._at_once = max(_LEAST_ROWS, most_terms // 2)
        self._rank, self._rng = 0, generator(len(prediction), Purpose.PROBE)
        self._integrals: dict[ParameterCell, _CellIntegrals] = {}
        cells = list(tree.cells())
        # One cell shows whether series converge: those of kernels or densities with kinks may not.
        most_rows = max(cells, key=lambda cell: len(cell.rows) if cell.counts else 0)
        self._add([most_rows])
        first = self._integrals[most_rows]
        self.serves = first.off <= _UNRESOLVED * goal + first.typical
        self.divergence = 0.0 if self.serves else first.off
        if not self.serves:
            return
        self._add([cell for cell in cells if cell is not most_rows])
        total = self.sites
        for _ in range(_ROUNDS):
            inexact = self._inexact(goal)
            total += 2 * sum(map(len, inexact))
            if not inexact or total > _TOTAL * most:
                break
            for cell in inexact:
                series = self._integrals.pop(cell).series
                assert series is not None, "of cells with points"
                tree.bisect(cell, int(np.argmax(series.beyond)))
            self._add([cell for cell in tree.cells() if cell not in self._integrals])
        inexact = self._inexact(goal / _OF_GOAL / 2)
        # Integrals that are known cost nothing more: all rows would be integrated otherwise.
        rows = sum(len(cell.rows) - self._integrals[cell].size for cell in inexact)
        self.serves = rows <= most and self._size + rows <= most_terms
        if self.serves and inexact:
            for cell in inexact:
                del self._integrals[cell]
            self._add([tree.without_points(cell) for cell in inexact])
        self._places = {
            cell: {row.tobytes(): place for place, row in enumerate(tree.coordinates_of(cell.rows))}
            for cell in self._integrals
            if not cell.counts
        }

    @property
    def _size(self) -> int:
        """Number of means or terms of series."""
        return sum(one.size for one in self._integrals.values())

    @property
    def sites(self) -> int:
        """Number of predictions that are integrated."""
        return sum(map(len, self._integrals))

    def _inexact(self, goal: float) -> list[ParameterCell]:
        """Return the cells whose error of interpolation is too large, beside that of integrals."""
        return [
            cell
            for cell, one in self._integrals.items()
            if cell.counts and one.off > 2 * goal + one.typical
        ]

    def _add(self, cells: list[ParameterCell]) -> None:
        """Integrate at the points of cells or their rows, and at some rows for comparison."""
        start, total = 0, 0
        for end, cell in enumerate(cells, 1):
            total += len(cell)
            if total >= self._at_once or end == len(cells):
                self._add_at_once(cells[start:end])
                start, total = end, 0

    def _add_at_once(self, cells: list[ParameterCell]) -> None:
        compared = [self._tree.coordinates_of(self._rows_to_compare(cell)) for cell in cells]
        sites = [*(self._tree.sites_of(cell) for cell in cells), *compared]
        ends = np.cumsum([len(at) for at in sites])[:-1]
        integrals = self._integrate(self._tree.at(np.concatenate(sites)))
        self._rank = integrals[0].shape[1]
        means, residuals, errors = (np.split(one, ends) for one in integrals)
        for number, (cell, at) in enumerate(zip(cells, compared, strict=True)):
            mean, residual, error = means[number], residuals[number], errors[number]
            if not cell.counts:
                self._integrals[cell] = _CellIntegrals(mean.copy(), residual, error)
                continue
            one = _CellIntegrals(mean[:0], residual, error)
            negligible = _DROPPED * (self._goal + one.typical)
            series = ParameterSeries.of(cell, mean, residual, negligible)
            other = len(cells) + number
            differences = np.linalg.norm(series.at(at)[0] - means[other], axis=1)
            excess = differences - cell.errors_of(error, at) - errors[other]
            off = max(float(series.beyond.sum()), _TIMES * float(excess.max())) + series.dropped
            self._integrals[cell] = replace(one, off=off, series=series)

    def _rows_to_compare(self, cell: ParameterCell) -> Index:
        """Return random rows, and those nearest to random places: rare rows may be unlike the rest."""
        if not cell.counts:
            return cell.rows[:0]
        count = min(_COMPARED, max(2, len(cell) // _POINTS_OF_COMPARED))
        random_rows = self._rng.choice(cell.rows, count)
        size = np.where(cell.high > cell.low, cell.high - cell.low, 1.0)
        at = (self._tree.coordinates_of(cell.rows) - cell.low) / size
        places = self._rng.uniform(size=(count, at.shape[1]))
        nearest = [int(np.square(at - place).sum(axis=1).argmin()) for place in places]
        return np.unique(np.append(random_rows, cell.rows[nearest]))

    def of(self, part: Parametric) -> Integrals:
        """Return the integrals of some of the predictions; others are integrated here."""
        at = self._tree.coordinates(part)
        mean, residual, error = (
            np.empty((len(part), self._rank)),
            np.empty(len(part)),
            np.empty(len(part)),
        )
        unknown, covered = np.ones(len(part), dtype=bool), self._tree.covers(part)
        for cell, index in self._tree.located(at):
            one = self._integrals[cell]
            rows = index[covered[index] & cell.holds(at[index])]
            if one.series is None:
                places = self._places[cell]
                place = np.array([places.get(at[row].tobytes(), -1) for row in rows], dtype=np.intp)
                rows, place = rows[place >= 0], place[place >= 0]
                mean[rows], residual[rows] = one.mean[place], one.residual[place]
                error[rows] = one.error[place]
            elif len(rows):
                mean[rows], between = one.series.at(at[rows])
                residual[rows] = np.clip(between, *cell.around(one.residual, at[rows]))
                error[rows] = cell.errors_of(one.error, at[rows]) + one.off
            unknown[rows] = False
        rows = np.flatnonzero(unknown)
        if len(rows):
            mean[rows], residual[rows], error[rows] = self._integrate(part.take(rows))
        return mean, residual, error


class InterpolatedMeans:
    """Expected features of predictions of a family, or of mixtures of such predictions."""

    def __init__(self, families: list[_FamilyMeans]) -> None:
        self._families = families

    @staticmethod
    def of_all(
        prediction: Predictive,
        kernel: Kernel,
        integrate: Integrate,
        goal: float,
        most_terms: int | None = None,
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
        most_terms : int, optional
            Largest number of means or terms of series that are held; default as many as predictions.
        """
        most = int(_SHARE * len(prediction))
        before = np.inf
        for shorter in _SHORTER:
            trees = _trees(prediction, kernel, goal, shorter)
            if trees is None:
                return None
            terms = len(prediction) if most_terms is None else most_terms // len(trees)
            families = list[_FamilyMeans]()
            for part, tree in trees:
                families.append(_FamilyMeans(part, tree, integrate, _OF_GOAL * goal, most, terms))
                if not families[-1].serves:
                    break
            last = families[-1]
            if last.serves:
                return InterpolatedMeans(families)
            if not 0 < last.divergence <= _FALLS * before:
                return None
            before = last.divergence
        return None

    def of(self, prediction: Predictive) -> Integrals:
        """Return the means (m, r), residuals (m,) and errors (m,) of some of the predictions."""
        integrals = []
        for (weight, part), family in zip(parts_of(prediction), self._families, strict=True):
            assert is_parametric(part), "as all predictions"
            mean, residual, error = family.of(part)
            integrals.append((weight[:, None] * mean, weight * residual, weight * error))
        mean, residual, error = (sum(one[1:], one[0]) for one in zip(*integrals, strict=True))
        return mean, residual, error


def integration_sites(
    prediction: Predictive, kernel: Kernel, goal: float
) -> list[Parametric] | None:
    """Return the predictions that are integrated first, or None if interpolation would save little."""
    trees = _trees(prediction, kernel, goal)
    if trees is None:
        return None
    return [tree.sites() for _, tree in trees]


def _finite(tree: CellTree) -> bool:
    """Tell whether all sites have proper quantiles: between rows, they may be equal or beyond doubles."""
    sites = tree.sites()
    levels = np.broadcast_to(_TAILS, (len(sites), len(_TAILS)))
    ends = sites.quantiles_at(levels), sites.upper_quantiles_at(levels)
    spread = np.diff(sites.quantile(np.array([0.25, 0.75])), axis=1)
    return bool((spread > 0).all()) and all(bool(np.isfinite(end).all()) for end in ends)


def _trees(
    prediction: Predictive, kernel: Kernel, goal: float, shorter: float = 1.0
) -> list[tuple[Parametric, CellTree]] | None:
    if len(prediction) < _LEAST_ROWS or prediction.columns > 1:
        return None
    largest = float(np.sqrt(kernel.diagonal(np.zeros((1, 1)))[0]))
    if not largest > 0:
        return None
    parts = [part for _, part in parts_of(prediction)]
    trees = []
    for part in parts:
        if not is_parametric(part):
            return None
        tree = CellTree.of(part, kernel, _OF_GOAL * goal / largest, shorter)
        if tree is None:
            return None
        trees.append((part, tree))
    if sum(tree.size for _, tree in trees) > _SHARE * len(prediction) * len(trees):
        return None
    return trees if all(_finite(tree) for _, tree in trees) else None
