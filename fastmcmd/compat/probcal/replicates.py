"""The CCE of bootstrap samples in shared passes over one kernel matrix.

A bootstrap sample is the rows with counts c: its system is ``K + n lam / c`` over the rows that it
holds, and all trials of a sample share it. Kernel values are computed once, block CG solves the
trials of a sample together, and one certificate covers all samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.memory import format_bytes, parse_memory
from fastmcmd._base.progress import Progress
from fastmcmd.backends import get_backend
from fastmcmd.embedding.features import output_features, pooled
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import EXACT, GramOperator, diagonal_of
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.solvers import Goal, LinearProblem, System, certify, solver_of
from fastmcmd.solvers.base import Solution
from fastmcmd.solvers.block_cg import BlockCGRun

__all__ = ["Replicates", "bootstrap_mcmd"]

Array = NDArray[np.float64]
Draw = Callable[[NDArray[np.intp]], Array]

_SOLVER_SHARE = 0.7  # of the tolerance; the features take the rest
_ROUNDING_SHARE = 0.2  # of the tolerance, likewise, of a product in single precision
_MOST_RANK = 500  # of the output features
_LEAST_RESIDUAL, _MOST_RESIDUAL = 5e-15, 1e-9  # of the output features, relative
_ABSENT = 1e-16  # count of a row that a sample does not hold: its part is far below rounding
_ROWS = 256  # rows of kernel values computed together
_GATHERED = 64  # rows copied together
_MOST_PRODUCTS = 2000
_SHARE = 0.5  # of the memory that kernel values may take


@dataclass(frozen=True, eq=False)
class Replicates:
    """MCMD values of bootstrap samples.

    Attributes
    ----------
    values : ndarray (samples, trials, q)
        At each point of the grid.
    error_bound : float
        Certified bound on the error of a value.
    """

    values: Array
    error_bound: float


def bootstrap_mcmd(
    grid: HostArray,
    x: HostArray,
    y: Array,
    samples: list[NDArray[np.intp]],
    draw: Draw,
    trials: int,
    x_kernel: Kernel,
    y_kernel: Callable[[Array], Kernel],
    lam: float,
    tol: float = 1e-6,
    memory_limit: int | str | None = None,
) -> Replicates:
    """Return the MCMD between outcomes and drawn outcomes for bootstrap samples of rows.

    Parameters
    ----------
    grid : ndarray (q, d)
        Points of evaluation; the array ``x`` itself costs no further pass.
    x, y : ndarray (n, d), (n, k)
        Inputs and outcomes.
    samples : list of ndarray (m,) of int
        Rows of each bootstrap sample, with repetition.
    draw : callable
        Takes rows (m,) and returns outcomes (m, l, k) drawn from their predictions.
    trials : int
        Draws of the model for each sample.
    x_kernel : Kernel
        Resolved kernel on inputs.
    y_kernel : callable
        Takes the outcomes (m, k) of a sample and returns the resolved kernel on outcomes.
    lam : float
        Regulariser.
    tol : float
        Largest error of a value.
    memory_limit : int, str or None
        Bytes that may be allocated beyond the inputs.
    """
    limit = parse_memory(memory_limit)
    backend = get_backend("auto", x_kernel)
    scale = float(np.sqrt(max(diagonal_of(x_kernel, x).max(), diagonal_of(x_kernel, grid).max())))
    counts = [np.bincount(rows, minlength=len(x)).astype(np.float64) for rows in samples]
    goal = Goal(_SOLVER_SHARE * tol, scale)
    operator = GramOperator(backend, x_kernel, x, np.dtype(np.float32), limit // 2)
    gram = None
    if len(x) ** 2 * operator.dtype.itemsize <= _SHARE * limit:
        gram = _gram(operator)
    out = np.empty((len(samples), trials, len(grid)))
    worst = 0.0
    for some in _groups(counts, trials, limit):
        systems, truncation = [], 0.0
        for number in some:
            kernel = y_kernel(y[samples[number]])
            system, residual = _system(
                y, samples[number], counts[number], draw, trials, kernel, lam, scale, tol
            )
            systems.append(system)
            truncation = max(truncation, residual)
        solutions = None
        if gram is not None:
            solutions = _solved_on_subsets(operator, gram, systems, [counts[k] for k in some], goal)
        if solutions is None:  # too many rows for memory, or float32 is not exact enough
            problem = LinearProblem(
                backend, x_kernel, x, systems, lam, goal, limit // 2, "bootstrap"
            )
            solutions = solver_of(_options(tol, memory_limit)).solve(
                problem, Progress(False, tol)
            ).solutions  # fmt: skip
        images = [solution.image for solution in solutions]
        error = max(solution.certificate.error(scale) for solution in solutions)
        if grid is not x:
            images, rounded = _elsewhere(operator, solutions, grid, tol)
            error += rounded
        least = np.inf
        for number, image in zip(some, images, strict=True):
            parts = image.reshape(len(grid), trials, -1)
            out[number] = np.sqrt(np.einsum("qtr,qtr->tq", parts, parts))
            least = min(least, float(out[number].min()))
        # What the features miss only takes away from the square.
        low = max(least - error, 0.0)
        above = truncation**2 / max(float(np.hypot(low, truncation)) + low, 1e-300)
        worst = max(worst, error + above)
    return Replicates(out, worst)


def _elsewhere(
    operator: GramOperator, solutions: list[Solution], grid: HostArray, tol: float
) -> tuple[list[Array], float]:
    """Return K(grid, x) times each solution, and a bound on what rounding does to a row."""
    values = [solution.value for solution in solutions]
    dtype = operator.dtype
    rounded = max(certify.rounding(operator, value, grid, dtype) for value in values)
    if rounded > _ROUNDING_SHARE * tol:
        dtype = EXACT
        rounded = max(certify.rounding(operator, value, grid, dtype) for value in values)
    ends = np.cumsum([value.shape[1] for value in values])[:-1]
    joint = operator.cross_matmul(grid, np.concatenate(values, axis=1), dtype)
    return np.split(joint, ends, axis=1), rounded


def _options(tol: float, memory_limit: int | str | None) -> Options:
    return Options.of(
        tol=tol, solver="auto", backend="auto", dtype=None, memory_limit=memory_limit, progress=False,
        certificate="auto",
    )  # fmt: skip


def _groups(counts: list[Array], trials: int, limit: int) -> list[list[int]]:
    """Return which samples are solved together: those whose vectors fit into memory."""
    typical = 8 * 8 * len(counts[0]) * 20 * trials  # bytes of the vectors of a sample
    size = int(limit // 2 // typical)
    if size == 0:
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(limit)}; about {format_bytes(2 * typical)} are needed for "
            f"{trials} draws of {len(counts[0]):,} rows"
        )
    return [
        list(range(start, min(start + size, len(counts)))) for start in range(0, len(counts), size)
    ]


def _system(
    y: Array,
    rows: NDArray[np.intp],
    counts: Array,
    draw: Draw,
    trials: int,
    kernel: Kernel,
    lam: float,
    scale: float,
    tol: float,
) -> tuple[System, float]:
    """Return the system of a sample, and a bound on what its output features miss in a value."""
    backend = get_backend("auto", kernel).directly()
    drawn = [np.asarray(draw(rows), dtype=np.float64) for _ in range(trials)]
    flat = [values.reshape(-1, y.shape[1]) for values in drawn]
    amplitude = scale / np.sqrt(lam)
    share = (1 - _SOLVER_SHARE) * tol / 2 / amplitude
    residual = float(np.clip(share**2, _LEAST_RESIDUAL, _MOST_RESIDUAL))
    values, where = pooled(y, *flat)
    made = output_features(kernel, backend, values, residual, _MOST_RANK)
    if made is None:
        raise ValueError(
            f"output_kernel is {kernel!r}, which needs more than {_MOST_RANK} features of these "
            "outcomes; a smoother kernel on outputs is needed"
        )
    features, p, residuals = made
    present = counts > 0
    out = np.zeros((len(y), trials, features.rank))
    out[present] = p[where[0][present], None]
    share_of = 1 / np.maximum(counts[rows], 1)
    for trial, places in enumerate(where[1:]):
        repeats = drawn[trial].shape[1]
        mean = p[places].reshape(len(rows), repeats, -1).mean(axis=1)
        order = np.argsort(rows, kind="stable")
        starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
        sums = np.add.reduceat((share_of[:, None] * mean)[order], starts, axis=0)
        out[rows[order][starts], trial] -= sums
    shift = len(rows) * lam / np.maximum(counts, _ABSENT)
    error = amplitude * float(np.sqrt(max(residuals.max(), 0.0)))
    return System(out.reshape(len(y), -1), shift), error


def _gram(operator: GramOperator) -> HostArray:
    """Return the kernel matrix (n, n); blocks below the diagonal are computed, the others copied."""
    n, dtype = len(operator), operator.dtype
    out = np.empty((n, n), dtype=dtype)
    points = operator.points()
    for start in range(0, n, _ROWS):
        rows = slice(start, min(start + _ROWS, n))
        block = operator.prepare(operator.x[rows], dtype)
        for other in range(0, start + 1, _ROWS):
            columns = slice(other, min(other + _ROWS, n))
            out[rows, columns] = operator.backend.gram(
                operator.kernel, block, operator.prepare(operator.x[columns], dtype)
            )
            if other < start:
                out[columns, rows] = out[rows, columns].T
    del points
    return out


class _Subset:
    """The kernel matrix of some rows, as block CG takes it."""

    def __init__(self, gram: HostArray, rows: NDArray[np.intp], storage: HostArray) -> None:
        self.passes = 0
        self._gram = storage[: len(rows) ** 2].reshape(len(rows), len(rows))
        for start in range(0, len(rows), _GATHERED):
            some = slice(start, start + _GATHERED)
            np.take(gram[rows[some]], rows, axis=1, out=self._gram[some], mode="clip")

    def matmul(self, v: Array) -> Array:
        """Return K v (m, k)."""
        self.passes += 1
        return np.asarray(self._gram @ v.astype(self._gram.dtype), dtype=np.float64)


def _solved_on_subsets(
    operator: GramOperator, gram: HostArray, systems: list[System], counts: list[Array], goal: Goal
) -> list[Solution] | None:
    """Solve each system on the rows that its sample holds; None where the goal is not met."""
    unit = float(np.finfo(gram.dtype).eps) / 2
    held = [np.flatnonzero(count) for count in counts]
    storage = np.empty(max(map(len, held)) ** 2, dtype=gram.dtype)
    values = []
    for system, rows in zip(systems, held, strict=True):
        part = System(system.rhs[rows], system.shift[rows])
        subset: Any = _Subset(gram, rows, storage)
        run = BlockCGRun(subset, [part], goal.residual, _MOST_PRODUCTS, None, unit)
        for _ in run.products():
            pass
        value = np.zeros_like(system.rhs)
        value[rows] = run.results()[0].value
        values.append(value)
    ends = np.cumsum([value.shape[1] for value in values])[:-1]
    images = np.split(gram @ np.concatenate(values, axis=1, dtype=gram.dtype), ends, axis=1)
    believed = [
        system.rhs - system.shift[:, None] * value - image
        for system, value, image in zip(systems, values, images, strict=True)
    ]
    solutions = certify.sampled(operator, systems, values, believed)
    return solutions if max(goal.miss(one.certificate) for one in solutions) <= 1 else None
