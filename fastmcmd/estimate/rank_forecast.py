"""Rank forecast: the number of landmarks that a goal needs, before any pass over all rows.

The candidates for landmarks are a small problem of their own. The forecast extrapolates the certificate of
that problem at growing ranks; it may show that no number of landmarks is enough.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.base import Backend
from fastmcmd.backends.tiled import times
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram import EXACT, offset_of
from fastmcmd.kernels import Kernel
from fastmcmd.solvers.landmarks import LandmarkSearch, importance_of
from fastmcmd.solvers.lowrank import RowSums
from fastmcmd.solvers.residual_sample import LEAST_DRAWS

__all__ = [
    "LADDER", "LOOKED_AT", "SURE", "CandidateProblem", "cannot_converge", "slope", "trace_may_suffice",
]  # fmt: skip

Index = NDArray[np.intp]

LADDER = tuple(round(2 ** (k / 3)) for k in range(14, 42))  # trial ranks: 25, 32, 40, ... 13004
LOOKED_AT = 60  # ranks from which the decay of the error is extrapolated
# A predicted error below this share of the goal is trusted; sampled residuals come from few rows.
SURE = {"rigorous": 0.7, "sampled": 0.55}
_GLANCE, _GLANCED = 2000, (48, 96)  # rows and ranks of the first trial


def trace_may_suffice(
    x: Any, backend: Backend, kernel: Kernel, lam: float, goal: float, scale: float, most: int
) -> bool:
    """Tell from a few of the rows ``x`` whether the trace can fall to what the goal needs."""
    rng = generator(len(x), Purpose.PROBE)
    x = x[np.sort(rng.choice(len(x), min(len(x), _GLANCE), replace=False))]
    # A limit above the trial ranks: a search that reaches its limit counts as exhausted.
    search = _search(x, backend, kernel, 2 * _GLANCED[-1], rng)
    looks = []
    for rank in _GLANCED:
        search.grow(rank)
        error = _trace_error(search, lam, scale) / goal
        if error <= 1.0 or search.exhausted:
            return error <= 1.0
        looks.append((search.rank, error))
    return not cannot_converge(looks[0], looks[1], most, "rigorous")


def _search(
    x: HostArray, backend: Backend, kernel: Kernel, most: int, rng: np.random.Generator
) -> LandmarkSearch:
    offset = offset_of(kernel, backend, x)
    return LandmarkSearch(backend, kernel, x, np.ones(len(x)), most, rng, offset)


def _trace_error(search: LandmarkSearch, lam: float, scale: float) -> float:
    """Return ``scale t b / 2`` of the trace certificate; the unknown b is replaced by lam^(-1/2)."""
    return scale / 2 * float(search.residual_diagonal.mean()) / lam**1.5


def cannot_converge(
    before: tuple[int, float], now: tuple[int, float], most: int, kind: str
) -> bool:
    """Tell whether the error falls too slowly to reach the goal with the most landmarks.

    The decay of a trace slows down with the rank, and the decay of a sampled error with the logarithm of
    the rank: the line through the last two points is the most optimistic forecast.
    """
    rank, error = now
    if not 0.0 < error < math.inf:
        return error != 0.0
    remaining = most - rank if kind == "rigorous" else math.log(most / rank)
    return math.log(error) + 1.5 * slope(before, now, kind) * remaining > 0.0


def slope(before: tuple[int, float], now: tuple[int, float], kind: str) -> float:
    """Return the slope of the error's logarithm in the rank, or in the rank's logarithm."""
    (r0, e0), (r1, e1) = before, now
    if r1 <= r0 or not (0.0 < e0 < math.inf and 0.0 < e1 < math.inf):
        return 0.0  # no information
    fall = math.log(e1) - math.log(e0)
    return fall / (r1 - r0 if kind == "rigorous" else math.log(r1 / r0))


class CandidateProblem:
    """The candidates as a small problem, whose certificate predicts that of all rows.

    The trace certificate is about the same for any number of rows. Residuals are not: outputs scatter
    around their conditional mean, and the scatter's share in a residual falls with the root of the number
    of rows. Residuals from two halves of the rows separate the two parts: the part that does not scatter is
    common to both halves, so the mean of their products is the square of half that part.
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
        if len(self._rhs) < self._n:  # landmarks are a smaller share of all rows
            sums.residual_trace *= len(self._rhs) / max(1, len(self._rhs) - search.rank)
        return sums

    def errors(self, kind: str) -> Array:
        """Return the predicted error of each model by this kind of certificate, relative to the goal."""
        return self.rigorous() if kind == "rigorous" else self.sampled()

    def rigorous(self) -> Array:
        """Return each model's error by the trace certificate, relative to the goal, without rounding."""
        sums = self._sums()
        solutions = self.problem.solve(sums, self.search.kernel_features(), None)
        return self.problem.errors(solutions, sums.max_residual_diagonal)

    def sampled(self) -> Array:
        """Return each model's predicted error by a sampled certificate, relative to the goal."""
        problem, search = self.problem, self.search
        features, sums = search.kernel_features(), self._sums()
        solutions = problem.solve(sums, features, None)
        weights = np.hstack([solution.weights for solution in solutions])
        image = times(search.columns.T, weights)
        coefficients = problem.coefficients(image, self._rhs, search.weight, sums.weight)
        norms = problem.norms(self._rhs - image)
        search.importance = importance_of(search.weight, norms)  # for later landmarks
        sample = problem.sample(
            features, search.residual_diagonal, search.weight, norms, LEAST_DRAWS
        )
        sample.account(slice(0, len(image)), coefficients)
        halves = [self._residual(sample.rows, half, coefficients) for half in (0, 1)]
        total = halves[0] + halves[1]
        certified = problem.certified(sample, total, solutions, sums.weight)
        errors = problem.errors(certified, sums.max_residual_diagonal)
        share = len(image) / self._n
        for model in range(problem.models):
            columns = problem.columns_of(model)
            size = sample.mean(np.einsum("ij,ij->i", total[:, columns], total[:, columns]))
            common = 4 * sample.mean(np.einsum("ij,ij->i", *(half[:, columns] for half in halves)))
            common = min(max(common, 0.0), size)
            errors[model] *= math.sqrt((common + (size - common) * share) / max(size, 1e-300))
        return errors

    def _residual(self, rows: Index, half: int, coefficients: Array) -> Array:
        """Return the contribution of one half of the candidates to the residuals ``-E B`` of some rows."""
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
