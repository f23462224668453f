"""The candidates for landmarks as a problem of their own, which predicts the certificate of all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.sums import dot
from fastmcmd.backends import tall_skinny
from fastmcmd.estimate.common_share import CommonShare
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram import EXACT, KernelFeatures
from fastmcmd.kernels.base import UNIT
from fastmcmd.solvers.landmarks import LandmarkSearch, importance_of
from fastmcmd.solvers.lowrank import LowRankSolution
from fastmcmd.solvers.residual_sample import LEAST_DRAWS, ResidualSample
from fastmcmd.solvers.rounding import Rounding
from fastmcmd.solvers.row_cells import Cells
from fastmcmd.solvers.row_sample import RowGuess

__all__ = ["CandidateFit", "CandidateProblem", "ResidualRows"]

Index = NDArray[np.intp]

_PARTS = 8  # parts of the rows where residuals are measured, which are compared
_ROUNDED_ROWS = 500  # rows that show the rounding
# Trace errors above this many goals may be rough: from a fit with at least this share of the landmarks.
_FAR_ABOVE, _ROUGHLY = 3.0, 0.5


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Rows at which residuals are measured: inputs (h, d), right-hand sides (h, c) and weights (h,)."""

    x: HostArray
    rhs: Array
    weight: Array


@dataclass(frozen=True, eq=False)
class CandidateFit:
    """A fit of the candidates.

    Attributes
    ----------
    candidates : int
        Their number.
    features : KernelFeatures
        The features at the landmarks.
    solutions : list of LowRankSolution
        Solutions of the candidates, with trace certificates.
    trace : float
        Mean of the residual diagonal over all rows, as the candidates predict it.
    """

    candidates: int
    features: KernelFeatures
    solutions: list[LowRankSolution]
    trace: float


class CandidateProblem:
    """The candidates as a small problem, whose certificate predicts that of all rows.

    The trace certificate is about the same for any number of rows. (Rows unlike the candidates add to it,
    but a pass over all rows finds them, and a few more landmarks among them bring it down again.) Residuals
    are not the same. A row's own term in its residual falls with the number of rows. Of the terms of other
    rows, one share falls with the root of that number, because outputs scatter around their mean; the other
    share does not fall. Residuals from parts of the rows separate these two: the second share is common to
    all parts, so products of two of them show its square (`CommonShare`).

    Residuals are measured at rows that are no candidates: landmarks explain themselves, and they are chosen
    where the candidates' residual is large. With 1,402 landmarks of 20,000 candidates in four columns, the
    candidates themselves predicted a five-hundredth of the error at all rows.

    Parameters
    ----------
    problem : PartProblem
        The problem of all rows.
    search : LandmarkSearch
        Search among the candidates.
    rhs : ndarray (m, c)
        Right-hand sides of the candidates.
    isolated : ndarray (m,), optional
        Which candidates are isolated rows: each represents only itself.

    Attributes
    ----------
    search, rhs
        As passed.
    residual_rows : ResidualRows or None
        Rows that are no candidates, for predictions of sampled certificates; None takes the candidates.
    fit : CandidateFit or None
        The last fit.
    common : list of CommonShare
        The common share of residuals, for each model.
    """

    def __init__(
        self,
        problem: PartProblem,
        search: LandmarkSearch,
        rhs: Array,
        isolated: NDArray[np.bool_] | None = None,
    ) -> None:
        self.problem, self.search, self.rhs, self._isolated = problem, search, rhs, isolated
        self.residual_rows: ResidualRows | None = None
        self.fit: CandidateFit | None = None
        self.common = [CommonShare() for _ in range(problem.models)]
        self._cells: tuple[HostArray, list[Cells] | None] | None = None
        self._n = len(problem.stream)

    def joined(
        self, search: LandmarkSearch, rhs: Array, isolated: NDArray[np.bool_]
    ) -> CandidateProblem:
        """Return the problem with further candidates, which knows what was measured before."""
        problem = CandidateProblem(self.problem, search, rhs, isolated)
        problem.fit, problem.common = self.fit, self.common
        return problem

    def errors(self, kind: str) -> Array:
        """Return the predicted error of each model by this kind of certificate, relative to the goal.

        The error of "rigorous", the trace certificate, is without rounding.
        """
        problem, search, size = self.problem, self.search, (len(self.rhs), self.search.rank)
        if self.fit is None or size != (self.fit.candidates, self.fit.features.rank):
            features, sums = search.kernel_features(), problem.sums(search.rank)
            sums.add(
                search.columns, self.rhs, search.residual_diagonal, search.diagonal, search.weight
            )
            sums.settle()
            sums.residual_trace *= self._share_of_landmarks
            solutions = problem.solve(sums, features, None)
            self.fit = CandidateFit(len(self.rhs), features, solutions, self._trace)
        features, solutions = self.fit.features, self.fit.solutions
        largest = float(search.residual_diagonal.max())
        if kind == "rigorous":
            return problem.errors(solutions, largest)
        weights = np.hstack([solution.weights for solution in solutions])
        image = tall_skinny.product(search.columns, weights, transposed=True)
        norms = problem.norms(self.rhs - image)
        search.importance = importance_of(search.weight, norms)  # for later landmarks
        if self.residual_rows is None:
            at = ResidualRows(search.rows, self.rhs, search.weight)
            columns, residual_diagonal = search.columns, search.residual_diagonal
        else:
            at = self.residual_rows
            columns, residual_diagonal = search.features_of(at.x)
            largest = max(largest, float(residual_diagonal.max()))
            image = tall_skinny.product(columns, weights, transposed=True)
        at_norms = norms if self.residual_rows is None else problem.norms(at.rhs - image)
        total = float(at.weight.sum())
        coefficients = problem.coefficients(image, at.rhs, at.weight, total)
        if self._cells is None or self._cells[0] is not at.x:
            self._cells = at.x, problem.cells(at.x)
        cells, guesses = self._cells[1], None
        if cells is not None:
            cell_rows = problem.cell_rows(cells, residual_diagonal, at.weight, at_norms)
            guesses = [list[RowGuess]() for _ in cell_rows]
            for model, of_model in enumerate(cell_rows):
                for some in of_model:
                    rhs = at.rhs[some.rows][:, problem.columns_of(model)] / problem.unit
                    guesses[model] += some.guesses(rhs)
        sample = problem.sample(
            features, residual_diagonal, at.weight, at_norms, LEAST_DRAWS, guesses
        )
        # Among all rows, each coefficient is smaller by the share of these rows.
        sample.account(slice(0, len(image)), coefficients * len(at.x) / self._n)
        residual = self._residual_of_all(sample, at.x, columns, residual_diagonal, coefficients)
        certified = problem.certified(sample, residual, solutions, total)
        return problem.errors(certified, largest) + self._own_terms(norms)

    def rough_errors(self) -> Array | None:
        """Return the errors of "rigorous" with the energy of an earlier fit, whose landmarks were fewer.

        None if they were far fewer, or if the errors are too near the goal for a rough answer.
        """
        fit = self.fit
        if fit is None or fit.features.rank < _ROUGHLY * self.search.rank or not fit.trace > 0.0:
            return None
        share = self._trace / fit.trace
        fallen = [
            replace(one, slope=share * one.slope, miss=math.sqrt(share) * one.miss)
            for one in fit.solutions
        ]
        errors = self.problem.errors(fallen, float(self.search.residual_diagonal.max()))
        return errors if float(errors.min()) > _FAR_ABOVE else None

    @property
    def _trace(self) -> float:
        """Mean of the residual diagonal over all rows, as the candidates predict it."""
        search = self.search
        mean = float(np.average(search.residual_diagonal, weights=search.weight))
        return mean * self._share_of_landmarks

    @property
    def _share_of_landmarks(self) -> float:
        """Factor of the mean residual: among all rows, landmarks are a smaller share."""
        candidates = len(self.rhs)
        return candidates / max(1, candidates - self.search.rank) if candidates < self._n else 1.0

    def rounding_errors(self) -> Array:
        """Return the error of each model, relative to the goal, that rounding alone leaves.

        It is that of the trace certificate, estimated from some candidates.
        """
        problem, search = self.problem, self.search
        features, kernel = search.kernel_features(), problem.kernel
        some = np.ascontiguousarray(search.rows[:: max(1, len(search.rows) // _ROUNDED_ROWS)])
        row_features, diagonal, _ = features.of_rows(some, EXACT, keep=False, sizes=True)
        sizes, dim = row_features.sizes, int(some.shape[1])
        assert sizes is not None
        norm2 = float(tall_skinny.row_squares(some, features.offset).max())
        direct, largest = problem.backend.direct_distances(dim, kernel), float(diagonal.max())
        entry = kernel.rounding(UNIT, dim, norm2, direct, largest)
        rounding = Rounding.of(features, entry, largest, math.sqrt(dot(sizes, sizes) / len(sizes)))
        sums = problem.sums(search.rank)
        nothing = np.zeros(len(self.rhs))
        sums.add(search.columns, self.rhs, nothing, search.diagonal, search.weight)
        solutions = problem.solve(sums.settle(), features, rounding)
        return problem.errors(solutions, 0.0, float(sizes.max()))

    def with_rows(self, kind: str, errors: Array, rows: ResidualRows) -> Array:
        """Return the ``errors`` of this kind, with what further single ``rows`` add to them.

        The weights of the rows are relative to the sum over all rows.
        """
        assert self.fit is not None
        problem, solutions = self.problem, self.fit.solutions
        columns, residual_diagonal = self.search.features_of(rows.x)
        if kind == "rigorous":
            largest = max(
                float(self.search.residual_diagonal.max()), float(residual_diagonal.max())
            )
            return problem.errors(solutions, largest)
        weights = np.hstack([solution.weights for solution in solutions])
        norms = problem.norms(rows.rhs - tall_skinny.product(columns, weights, transposed=True))
        return errors + self._own_errors(residual_diagonal, rows.weight, norms)

    def _own_terms(self, norms: HostArray) -> Array:
        """Return the errors, relative to the goal, that isolated candidates which are no landmarks add.

        ``norms`` (models, m) are those of ``D B`` of the candidates.
        """
        search = self.search
        isolated = slice(0) if self._isolated is None else self._isolated
        share = search.weight[isolated] / float(search.weight.sum())
        return self._own_errors(search.residual_diagonal[isolated], share, norms[:, isolated])

    def _own_errors(self, residual_diagonal: Array, share: Array, norms: HostArray) -> Array:
        """Return the errors that single rows with these shares of the weight add: residuals ``e B``."""
        problem = self.problem
        terms = residual_diagonal * share * norms * problem.unit / problem.lam
        if not terms.size:
            return np.zeros(len(norms))
        slope = np.sqrt((share * terms**2).sum(axis=1) / problem.lam) / 2
        return np.asarray(
            (terms.max(axis=1) + problem.setting.scale * slope) / problem.setting.goal
        )

    def _residual_of_all(
        self,
        sample: ResidualSample,
        x: HostArray,
        columns: Array,
        residual_diagonal: Array,
        coefficients: Array,
    ) -> Array:
        """Return residuals of the rows of a sample as all rows would give them.

        ``columns`` (r, h) are the features of the rows ``x`` that they are measured with.
        """
        problem, share = self.problem, len(x) / self._n
        rows = sample.rows
        own_terms = residual_diagonal[rows, None] * coefficients[rows]
        residual = np.zeros_like(own_terms)
        squares = np.zeros((problem.models, len(rows)))  # of the residuals of all parts
        model_columns = [problem.columns_of(model) for model in range(problem.models)]
        for part in range(_PARTS):
            fresh = self._residual(x, columns, rows, part, coefficients)
            fresh += own_terms * (rows % _PARTS == part)[:, None]
            residual += fresh
            for square, some in zip(squares, model_columns, strict=True):
                square += np.einsum("ij,ij->i", fresh[:, some], fresh[:, some])
        for model, (square, some) in enumerate(zip(squares, model_columns, strict=True)):
            total_square = np.einsum("ij,ij->i", residual[:, some], residual[:, some])
            size = sample.mean(total_square)
            common = sample.mean(total_square - square) * _PARTS / (_PARTS - 1)
            common = size * self.common[model].add(self.search.rank, common / max(size, 1e-300))
            residual[:, some] *= math.sqrt((common + (size - common) * share) / max(size, 1e-300))
        residual -= own_terms * share
        return residual

    def _residual(
        self, x: HostArray, columns: Array, rows: Index, part: int, coefficients: Array
    ) -> Array:
        """Return the contribution of one part of the rows ``x`` to the residuals ``-E B`` of some of them.

        ``columns`` (r, len(x)) are the features of all.
        """
        search, problem = self.search, self.problem
        kernel, backend, offset = problem.kernel, problem.backend, search.offset
        inputs, right = x[part::_PARTS], np.ascontiguousarray(coefficients[part::_PARTS])
        targets = backend.points(x[rows], EXACT, offset)
        image = np.zeros((len(rows), right.shape[1]))
        step = problem.step(search.rank)
        for start in range(0, len(inputs), step):
            some = slice(start, start + step)
            points = backend.points(inputs[some], EXACT, offset)
            image += backend.matmul(kernel, targets, points, right[some])
        low = tall_skinny.times(columns[:, part::_PARTS], right)
        return tall_skinny.inner(columns[:, rows], low) - image
