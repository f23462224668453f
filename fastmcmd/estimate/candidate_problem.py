"""The candidates for landmarks as a small problem of their own, before any pass over all rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.pieces import times
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram import EXACT
from fastmcmd.solvers.landmarks import LandmarkSearch, importance_of
from fastmcmd.solvers.lowrank import RowSums
from fastmcmd.solvers.residual_sample import DRAWN

__all__ = ["CandidateProblem"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class CandidateProblem:
    """The candidates as a problem of their own: what its certificate says, that of all rows will.

    The trace certificate is about the same for any number of rows. Residuals are not: outputs scatter
    around their conditional mean, and the share of the scatter in a residual falls with the root of the
    number of rows. The two are told apart by the residuals through two halves of the rows: what does not
    scatter is common to both, so that the mean of their products is the square of its half.
    """

    def __init__(self, problem: PartProblem, search: LandmarkSearch, index: Index) -> None:
        self.problem, self.search = problem, search
        self._rhs = problem.stream.rhs(index)[0]
        self._n = len(problem.stream)

    def _sums(self) -> RowSums:
        search = self.search
        sums = self.problem.sums(search.rank)
        sums.add(
            search.columns, self._rhs, search.residual_diagonal, search.diagonal, search.weight
        )
        sums.settle()
        if len(self._rhs) < self._n:  # landmarks are rarer among all rows
            sums.residual_trace *= len(self._rhs) / max(1, len(self._rhs) - search.rank)
        return sums

    def errors(self, kind: str) -> Array:
        """Return the error of each model that this kind of certificate will tell, relative to the goal."""
        return self.rigorous() if kind == "rigorous" else self.sampled()

    def rigorous(self) -> Array:
        """Return the error of each model by the trace certificate, relative to the goal; no rounding."""
        sums = self._sums()
        solutions = self.problem.solve(sums, self.search.found(), None)
        return self.problem.errors(solutions, sums.max_residual_diagonal)

    def sampled(self) -> Array:
        """Return the error of each model by the sampled certificate of all rows, relative to the goal."""
        problem, search = self.problem, self.search
        features, sums = search.found(), self._sums()
        solutions = problem.solve(sums, features, None)
        weights = np.hstack([solution.weights for solution in solutions])
        image = times(search.columns.T, weights)
        coefficients = problem.coefficients(image, self._rhs, search.weight, sums.weight)
        norms = problem.norms(self._rhs - image)
        search.importance = importance_of(search.weight, norms)  # of landmarks that follow
        sample = problem.sample(features, search.residual_diagonal, search.weight, norms, DRAWN)
        sample.account(slice(0, len(image)), coefficients)
        halves = [self._residual(sample.rows, half, coefficients) for half in (0, 1)]
        total = halves[0] + halves[1]
        certified = problem.certified(sample, total, solutions, sums.weight)
        errors = problem.errors(certified, sums.max_residual_diagonal)
        share = len(image) / self._n
        for model in range(problem.models):
            own = problem.columns_of(model)
            size = sample.mean(np.einsum("ij,ij->i", total[:, own], total[:, own]))
            common = 4 * sample.mean(np.einsum("ij,ij->i", *(half[:, own] for half in halves)))
            common = min(max(common, 0.0), size)
            errors[model] *= math.sqrt((common + (size - common) * share) / max(size, 1e-300))
        return errors

    def _residual(self, rows: Index, half: int, coefficients: Array) -> Array:
        """Return what one half of the candidates adds to the residuals ``-E B`` of some rows."""
        search, problem = self.search, self.problem
        kernel, backend, offset = problem.kernel, problem.backend, search.offset
        inputs, right = search.rows[half::2], np.ascontiguousarray(coefficients[half::2])
        targets = backend.points(search.rows[rows], EXACT, offset)
        image = np.zeros((len(rows), right.shape[1]))
        step = problem.step(search.rank)
        for start in range(0, len(inputs), step):
            some = slice(start, start + step)
            points = backend.points(inputs[some], EXACT, offset)
            image += backend.matmul(kernel, targets, points, right[some])
        low = search.columns[:, rows].T @ (search.columns[:, half::2] @ right)
        return np.asarray(low - image)
