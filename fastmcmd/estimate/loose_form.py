"""The low-rank form of a loose tolerance: landmarks drawn uniformly, few passes, residuals of some rows.

If ``tol`` is loose, a choice of landmarks, sums over all pairs of them and a rigorous bound cost more than
the answer. Here landmarks are drawn, `LandmarkEquations` solves for their weights, and a sample of rows
shows the residual of the whole system. Let g be any approximation of the image at the rows. With ``B = D^-1
(P - g)`` and ``R = P - (K + D) B`` its error is ``-D (K + D)^-1 R``, at row i at most::

    |R_i| + sqrt(k(x_i, x_i)) / 2 ||D^(-1/2) R||

The sample estimates the norm (`RowSample`) and the largest |R_i| of all rows. Its rows are drawn uniformly,
by their outputs, and among those far from all others, where residuals are largest; the last two kinds
include the most extreme rows for certain.

The same sample forecasts how many landmarks are enough before any equation is solved: the image is small
beside P, so ``B ~ D^-1 P``, and the residuals of any number of landmarks follow from ``K P`` and ``F' P``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import inner, row_squares
from fastmcmd.embedding.sample import Sample
from fastmcmd.estimate.lowrank import LowRankFit, LowRankPart, Term
from fastmcmd.estimate.outputs import MeanFeatures
from fastmcmd.estimate.primal import Truncation
from fastmcmd.estimate.task import SOLVER_SHARE, Task
from fastmcmd.gram import EXACT, GramOperator, KernelFeatures, offset_of
from fastmcmd.gram.cost import MatrixSize
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.solvers import BlockCG, ProblemSize
from fastmcmd.solvers.certify import SPREAD, rounding
from fastmcmd.solvers.landmark_iteration import LandmarkEquations, Weights, features_at
from fastmcmd.solvers.lowrank import LowRankSolution, RowErrors
from fastmcmd.solvers.row_sample import RowSample

__all__ = ["fit_loosely", "is_loose"]

Index = NDArray[np.intp]

_LEAST_ROWS = 4000
_LOOSE = 5e-5  # tolerance, relative to sqrt(k(x, x)), from which this form is tried
_WORTH = 0.6  # largest expected cost, relative to that of CG
_COLUMNS = 20  # approximate number of features of a scalar output
# Usual number of products with the n x p kernel values, 4 to 6, at 0.6 of the rate of a symmetric one; and
# operations of the small dense problems, relative to the cube of the number of landmarks.
_PRODUCTS, _DENSE = 8.0, 8.0
_PER_DIGIT = 0.5  # share of further products for each digit of k(x, x) / lam beyond the first
_FIRST, _STEP = 128, 16  # landmarks of the first look, and their increment
_LOOKS, _MOST_GROWTH = 5, 2.5  # looks at more landmarks, and the factor of their number at most
# Factor by which the power may still grow after later looks; after the first, n / 5000.
_FASTER, _MANY = 1.3, 5000
_LONELY, _MOST_LONELY = 8, 512  # one landmark in 8 is a row far from all others
_LEAST_POWER = 0.4  # least power of the number of landmarks like which bounds fall
_AIM, _SURE = 0.7, 0.8  # shares of the goal: the aim of a forecast, and the largest that is trusted
_ENOUGH = 0.06  # share of the goal that the iteration may leave
_SOME = 2048  # rows of the preconditioner
_DRAWS, _CERTAIN = 192, 32  # rows of the certificate
_MOST_FAR = 100.0  # largest ratio of guessed squares of residuals
# Ratio of a row's squared right-hand side to their mean from which no sample is trusted.
_DOMINANT = 25.0
_ROUNDED = 0.1  # share of the goal that residuals in float32 may be off by
_MEMORY = 4  # at most 1 / 4 of the memory limit


def fit_loosely(nature: Sample, task: Task, outputs: MeanFeatures) -> LowRankFit | None:
    """Return the low-rank form with these output features, or None if it does not reach ``tol``."""
    features = outputs.features
    if len(outputs.means) != 1 or not isinstance(features, KernelFeatures):
        return None
    return _Loose(nature, task, outputs.means[0], features, outputs.truncation).fit()


def is_loose(nature: Sample, model: Sample, task: Task) -> bool:
    """Tell whether `fit_loosely` is worth a try.

    It applies to rows in memory without weights, all different, with the same regulariser, evaluated at
    the rows themselves, and to kernels with k(x, x) = const.
    """
    options, kernel, n = task.options, task.x_kernel, len(nature)
    if options.solver != "auto" or options.certificate == "rigorous" or task.stays:
        return False
    if options.rank is not None or not isinstance(nature.x, np.ndarray):
        return False
    if not isinstance(options.landmarks, str) or options.landmarks == "uniform":
        return False
    if n < _LEAST_ROWS or task.grid is not nature.x or nature.weights is not None:
        return False
    if not kernel.translation_invariant or task.backend.on_device or not kernel.compiled:
        return False
    if options.dtype is not None and options.dtype != FLOAT32:
        return False
    if kernel.compares_rows:
        return False
    if options.tol < _LOOSE * task.scale or 8 * 5 * n * _COLUMNS > options.memory_limit // _MEMORY:
        return False
    if _most_landmarks(nature, task, _COLUMNS) < _FIRST:
        return False
    return nature.same_system(model) and len(nature.design) == n


def _most_landmarks(nature: Sample, task: Task, columns: int) -> int:
    """Return the largest number of landmarks that costs clearly less than CG."""
    n, dim = len(nature), int(nature.x.shape[1])
    matrix = MatrixSize(task.x_kernel, n, dim, task.backend.name)
    size = ProblemSize(matrix, (columns,), 1, task.scale**2 / nature.lam, task.options.tol)
    most = _WORTH * BlockCG().estimate(size).total
    # An entry of K is computed for one product, not for two as in a symmetric one.
    count = _PRODUCTS * (1 + _PER_DIGIT * max(0.0, math.log10(max(size.condition, 1.0)) - 1))
    product = count * n * (2 * matrix.entry_cost + 2 * columns)
    low, high = 0, n // 4
    while low < high:
        rank = (low + high + 1) // 2
        cost = product * rank + _DENSE * rank**3
        low, high = (rank, high) if cost <= most else (low, rank - 1)
    limit = task.options.memory_limit // _MEMORY
    return min(low, math.isqrt(limit // 24))


class _Loose:
    """The search for landmarks, the solution and its certificate."""

    def __init__(
        self,
        nature: Sample,
        task: Task,
        rhs: Array,
        outputs: KernelFeatures,
        truncation: Truncation,
    ) -> None:
        assert isinstance(nature.x, np.ndarray)
        self._nature, self._task, self._rhs = nature, task, rhs
        self._outputs, self._truncation = outputs, truncation
        self._x: HostArray = nature.x
        self._backend, self._kernel = task.backend, task.x_kernel
        self._offset = offset_of(self._kernel, self._backend, self._x)
        self._shift = len(self._x) * nature.lam
        self._squares = row_squares(self._rhs)
        self._goal = SOLVER_SHARE * task.options.tol

    def fit(self) -> LowRankFit | None:
        """Return the form, or None."""
        if float(self._squares.max()) > _DOMINANT * float(self._squares.mean()):
            return None
        self._draw()
        search = self._search()
        if search is None:
            return None
        features, sums = search
        some = self._x[self._order[-_SOME:]]
        try:
            equations = LandmarkEquations(features, self._points, some, self._nature.lam)
        except np.linalg.LinAlgError:
            return None
        weights = equations.solve(sums, _ENOUGH * self._goal / self._task.scale)
        if weights is None:
            return None
        fitted = self._certified(features, weights)
        part, rank = fitted.parts[0], self._outputs.rank
        assert part.values is not None
        scale = np.full(len(self._x), self._task.scale)
        errors = part.errors(self._x, scale, rows=slice(0, len(self._x)))
        bounds = fitted.truncation.bounds(part.values[0], errors, scale, rank)
        return fitted if float(bounds.max()) <= self._task.options.tol else None

    def _draw(self) -> None:
        """Draw the rows of the certificate, and the order in which rows become landmarks."""
        x, n, backend = self._x, len(self._x), self._backend
        order = generator(n, Purpose.LANDMARKS).permutation(n)
        self._order: Index = order
        self._points = backend.points(x, FLOAT32, self._offset)
        first = backend.points(x[order[:_FIRST]], FLOAT32, self._offset)
        mean = np.full((_FIRST, 1), 1.0 / _FIRST)
        density = backend.matmul(self._kernel, self._points, first, mean)[:, 0]
        lonely = np.argpartition(density, _MOST_LONELY)[:_MOST_LONELY]
        lonely = lonely[np.argsort(density[lonely], kind="stable")]
        typical_rows = order[np.isin(order, lonely, invert=True)]
        # One landmark in `_LONELY` is a row far from all others.
        turns = np.arange(n)
        alone = turns % _LONELY == _LONELY - 1
        alone &= turns < _LONELY * _MOST_LONELY
        self._landmarks: Index = np.empty(n, dtype=np.intp)
        self._landmarks[alone] = lonely[: int(alone.sum())]
        self._landmarks[~alone] = np.concatenate([typical_rows, lonely[int(alone.sum()) :]])
        typical, largest = float(np.median(density)), float(density.max())
        far = (typical / np.maximum(density, 1e-6 * largest)) ** 2
        guesses = (np.ones(n), np.minimum(far, _MOST_FAR), self._squares)
        rng = generator(n, Purpose.CERTIFICATE)
        self._sample = RowSample(n, guesses, _CERTAIN, _DRAWS, rng)

    def _search(self) -> tuple[KernelFeatures, Array] | None:
        """Return features at enough landmarks, with sums ``F' P / D``; None if they cost too much."""
        most = _most_landmarks(self._nature, self._task, self._rhs.shape[1])
        first = self._rhs / self._shift  # B, but for the image, which is small beside P
        rows, rank = self._x[self._sample.rows], _FIRST
        points = np.concatenate([rows, self._x[self._landmarks[:rank]]])
        image, sums = np.split(self._sums(points, first), [len(rows)])
        early = max(1.0, len(self._x) / _MANY)  # with many rows, a look costs little beside CG
        for look in range(_LOOKS):
            landmarks = self._x[self._landmarks[:rank]]
            features = features_at(self._kernel, self._backend, landmarks, self._offset)
            if features is None:
                return None
            if rank > len(sums):
                fresh = self._sums(landmarks[len(sums) :], first)
                sums = np.concatenate([sums, fresh])
            products = features.solve(sums)
            ranks, bounds = self._forecasts(features, rows, image, products)
            enough = np.flatnonzero(bounds <= _SURE * self._goal)
            if len(enough):
                rank = int(ranks[enough[0]])
                return features.leading(rank), np.ascontiguousarray(products[:rank])
            half = len(ranks) // 2
            fall = math.log(max(float(bounds[half] / bounds[-1]), 1.0))
            power = max(_LEAST_POWER, fall / math.log(ranks[-1] / ranks[half]))
            growth = (float(bounds[-1]) / (_AIM * self._goal)) ** (1 / power)
            if rank * growth ** (1 / (_FASTER if look else early)) > most:
                return None
            rank = min(most, _STEP * math.ceil(rank * min(growth, _MOST_GROWTH) / _STEP))
            if rank <= features.rank:
                return None
        return None

    def _sums(self, rows: HostArray, values: Array) -> Array:
        """Return ``k(rows, X) values`` (m, c) in float32."""
        points = self._backend.points(rows, FLOAT32, self._offset)
        return self._backend.matmul(self._kernel, points, self._points, values)

    def _forecasts(
        self, features: KernelFeatures, rows: HostArray, image: Array, sums: Array
    ) -> tuple[Index, Array]:
        """Return numbers of landmarks and the bounds that they will leave.

        ``image`` (s, c) is ``K P / D`` at the rows of the certificate; ``sums`` (p, c) are ``F' P / D``.
        """
        p = features.of_rows(rows, EXACT, keep=True, sizes=False)[0].values
        residual = image.copy()
        ranks, bounds = [], []
        for start in range(0, features.rank, _STEP):
            block = slice(start, start + _STEP)
            residual -= inner(p[block], sums[block])
            ranks.append(min(start + _STEP, features.rank))
            bounds.append(self._bound(np.sqrt(row_squares(residual))))
        return np.array(ranks), np.array(bounds)

    def _slope(self, residual: Array) -> float:
        """Return the error relative to sqrt(k(x, x)) from residuals (s,) of the sampled rows."""
        return math.sqrt(self._sample.upper(residual**2) / self._shift) / 2

    def _bound(self, residual: Array) -> float:
        return SPREAD * float(residual.max()) + self._task.scale * self._slope(residual)

    def _certified(self, features: KernelFeatures, weights: Weights) -> LowRankFit:
        """Return the form with the certificate that the sampled rows give."""
        x, n, image, rows = self._x, len(self._x), weights.image, self._sample.rows
        coefficients = (self._rhs - image) / self._shift
        operator = GramOperator(self._backend, self._kernel, x, FLOAT32, 0)
        noise = rounding(operator, coefficients, dtype=FLOAT32)
        if noise <= _ROUNDED * self._goal:
            product = self._sums(x[rows], coefficients)
        else:
            noise = rounding(operator, coefficients)
            product = self._backend.matmul(
                self._kernel,
                self._backend.points(x[rows], EXACT, self._offset),
                self._backend.points(x, EXACT, self._offset),
                coefficients,
            )
        # P - D B is the image, up to rounding of both.
        residual = np.sqrt(row_squares(image[rows] - product)) + noise
        residuals = np.full(n, SPREAD * float(residual.max()))
        residuals[rows] = residual
        slope = self._slope(residual)
        solution = LowRankSolution(
            weights=weights.values, slope=slope, constant=0.0, miss=math.inf, floor=0.0, through=0.0,
            row=0.0, kind="sampled", rows=RowErrors(slope, 0.0, residuals),
        )  # fmt: skip
        columns = self._rhs.shape[1]
        part = LowRankPart(
            features, [solution], [Term(slice(0, columns), self._nature.lam, 1.0)], FLOAT32, n,
            1, 0.0, x=x, values=np.sqrt(row_squares(image))[None, :],
        )  # fmt: skip
        peak = 8 * (4 * n * columns + 4 * n + 3 * features.rank**2)
        return LowRankFit(self._outputs, [part], self._truncation, n, peak)
