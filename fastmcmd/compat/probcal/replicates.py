"""The CCE of bootstrap samples in shared passes over one kernel matrix.

A bootstrap sample is the rows with counts c: its system is ``K + n lam / c`` over the rows that it
holds, and all trials of a sample share it. Kernel values are computed once, all samples share the products
with them (`split_gram`), and each draw has a certificate.
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
from fastmcmd.compat.probcal.split_gram import SplitGram, Subset
from fastmcmd.embedding.features import output_features, pooled
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import EXACT, GramOperator, diagonal_of
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.solvers import Goal, LinearProblem, System, certify, solver_of
from fastmcmd.solvers.base import Solution
from fastmcmd.solvers.block_cg import BlockCGRun
from fastmcmd.solvers.cg import MOST_PRODUCTS

__all__ = ["MCMDReplicates", "bootstrap_mcmd"]

Array = NDArray[np.float64]
Draw = Callable[[NDArray[np.intp]], Array]

_SOLVER_SHARE = 0.7  # of the tolerance; the features take the rest
_ROUNDING_SHARE = 0.2  # of the tolerance, likewise, of a product in single precision
_EXPECTED = 1e-3  # smallest value for the first choice of features, relative to sqrt(k(x, x))
_ATTEMPTS = 2  # the second with the least value of the first
_MOST_RANK = 500  # of the output features
_LEAST_RESIDUAL, _MOST_RESIDUAL = 5e-15, 1e-8  # of the output features, relative
_ABSENT = 1e-16  # count of a row that a sample does not hold: its part is far below rounding
_SOLVED = 0.8  # of the residual that the goal allows; rounding takes the rest
_SHARE = 0.5  # of the memory that kernel values may take


@dataclass(frozen=True, eq=False)
class MCMDReplicates:
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
) -> MCMDReplicates:
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
        gram = SplitGram.of(operator)
    out = np.empty((len(samples), trials, len(grid)))
    worst = 0.0
    for some in _groups(counts, trials, limit):
        draws_of_samples = [
            [_draw_outcomes(draw, samples[number]) for _ in range(trials)] for number in some
        ]
        least = _EXPECTED * scale
        for _ in range(_ATTEMPTS):
            error_limit = _error_limit(least, tol)
            systems, truncation = [], 0.0
            for number, draws in zip(some, draws_of_samples, strict=True):
                rows = samples[number]
                system, error = _system(
                    y, rows, counts[number], draws, y_kernel(y[rows]), lam, scale, error_limit
                )
                systems.append(system)
                truncation = max(truncation, error)
            solved = None
            if gram is not None:
                solved = _solved_on_split(
                    operator, gram, systems, [counts[k] for k in some], trials, goal
                )
            if solved is None:  # too many rows for memory, or single precision is not exact enough
                problem = LinearProblem(
                    backend, x_kernel, x, systems, lam, goal, limit // 2, "bootstrap"
                )
                solver = solver_of(_options(tol, memory_limit))
                solved = _Solved.of(solver.solve(problem, Progress(False, tol)).solutions, scale)
            images, error = solved.images, solved.error
            if grid is not x:
                images, rounded = _elsewhere(operator, solved.values, grid, tol)
                error += rounded
            least = np.inf
            for number, image in zip(some, images, strict=True):
                parts = image.reshape(len(grid), trials, -1)
                out[number] = np.sqrt(np.einsum("qtr,qtr->tq", parts, parts))
                least = min(least, float(out[number].min()))
            # What the features miss only takes away from the square.
            least = max(least - error, 0.0)
            above = truncation**2 / max(float(np.hypot(least, truncation)) + least, 1e-300)
            if error + above <= tol or above <= error:
                break
        worst = max(worst, error + above)
    return MCMDReplicates(out, worst)


def _elsewhere(
    operator: GramOperator, values: list[Array], grid: HostArray, tol: float
) -> tuple[list[Array], float]:
    """Return K(grid, x) times each solution, and a bound on what rounding does to a row."""
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


def _draw_outcomes(draw: Draw, rows: NDArray[np.intp]) -> Array:
    return np.asarray(draw(rows), dtype=np.float64)


def _error_limit(least: float, tol: float) -> float:
    """Return the possible truncation error of a value, in quadrature, if no value is below ``least``."""
    share = (1 - _SOLVER_SHARE) * tol / 2
    return float(np.sqrt(share * (share + 2 * least)))


def _system(
    y: Array,
    rows: NDArray[np.intp],
    counts: Array,
    draws: list[Array],
    kernel: Kernel,
    lam: float,
    scale: float,
    error_limit: float,
) -> tuple[System, float]:
    """Return the system of a sample, and a bound on the truncation by output features, in quadrature."""
    backend = get_backend("auto", kernel).directly()
    trials = len(draws)
    flat = [values.reshape(-1, y.shape[1]) for values in draws]
    amplitude = scale / np.sqrt(lam)
    residual = float(np.clip((error_limit / amplitude) ** 2 / 2, _LEAST_RESIDUAL, _MOST_RESIDUAL))
    values, where = pooled(y, *flat)
    embedding = output_features(kernel, backend, values, residual, _MOST_RANK)
    if embedding is None:
        raise ValueError(
            f"output_kernel is {kernel!r}, which needs more than {_MOST_RANK} features of these "
            "outcomes; a smoother kernel on outputs is needed"
        )
    features, p, residual_diagonal = embedding
    present = counts > 0
    out = np.zeros((len(y), trials, features.rank))
    out[present] = p[where[0][present], None]
    order = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    share_of = 1 / counts[rows[order], None]
    for trial, places in enumerate(where[1:]):
        sorted_places = places.reshape(len(rows), -1)[order]
        mean = (
            p[sorted_places[:, 0]] if sorted_places.shape[1] == 1 else p[sorted_places].mean(axis=1)
        )
        out[rows[order][starts], trial] -= np.add.reduceat(share_of * mean, starts, axis=0)
    shift = len(rows) * lam / np.maximum(counts, _ABSENT)
    error = amplitude * float(np.sqrt(max(residual_diagonal.max(), 0.0)))
    out, dropped = _leading(out, shift, scale, error_limit / np.sqrt(2))
    return System(out.reshape(len(y), -1), shift), float(np.hypot(error, dropped))


def _leading(out: Array, shift: Array, scale: float, error_limit: float) -> tuple[Array, float]:
    """Return right-hand sides (n, t, r) in fewer features, and what those left out add to a value.

    At any point that is at most ``scale / 2`` times the norm of their right-hand sides, scaled by
    ``D^(-1/2)``.
    """
    flat = out.reshape(-1, out.shape[2])
    weights = np.repeat(1 / shift, out.shape[1])[:, None]
    squares, axes = np.linalg.eigh(flat.T @ (weights * flat))
    tails = scale / 2 * np.sqrt(np.cumsum(np.maximum(squares, 0.0)))  # of the smallest together
    dropped_count = min(int(np.searchsorted(tails, error_limit)), out.shape[2] - 1)
    leading = (flat @ axes[:, dropped_count:]).reshape(*out.shape[:2], -1)
    return leading, float(tails[dropped_count - 1]) if dropped_count else 0.0


@dataclass(frozen=True, eq=False)
class _Solved:
    """Solutions (n, k) of each sample, their images under K, and a bound on the error of a value."""

    values: list[Array]
    images: list[Array]
    error: float

    @classmethod
    def of(cls, solutions: list[Solution], scale: float) -> _Solved:
        return cls(
            [solution.value for solution in solutions],
            [solution.image for solution in solutions],
            max(solution.certificate.error(scale) for solution in solutions),
        )


def _solved_on_split(
    operator: GramOperator, gram: SplitGram, systems: list[System], counts: list[Array],
    trials: int, goal: Goal,
) -> _Solved | None:  # fmt: skip
    """Solve each system on the rows that its sample holds; None where the goal is not met.

    Each trial has a certificate of its own. The residual of rows that a sample holds is that of the
    recurrence.
    """
    unit = float(np.finfo(gram.remainder.dtype).eps) / 2
    sample_rows = [np.flatnonzero(count) for count in counts]
    storage = np.empty(max(map(len, sample_rows)) ** 2, dtype=gram.remainder.dtype)
    split, values, residuals = [], [], []
    for system, rows, count in zip(systems, sample_rows, counts, strict=True):
        part = System(system.rhs[rows], system.shift[rows])
        subset: Any = Subset(gram, rows, storage)
        run = BlockCGRun(subset, [part], _SOLVED * goal.residual, MOST_PRODUCTS, None, unit)
        for _ in run.products():
            pass
        (result,) = run.results()
        value, residual = np.zeros_like(system.rhs), np.empty_like(system.rhs)
        value[rows], residual[rows] = result.value, result.residual
        absent = np.flatnonzero(count == 0)
        residual[absent] = -gram.times(absent, rows, result.value)  # the right-hand side is 0 there
        for columns in np.split(np.arange(value.shape[1]), trials):
            some = slice(columns[0], columns[-1] + 1)
            split.append(System(system.rhs[:, some], system.shift))
            values.append(value[:, some])
            residuals.append(residual[:, some])
    solutions = certify.sampled(operator, split, values, residuals, [None] * len(split))
    certified = _Solved.of(solutions, goal.scale)
    if not certified.error <= goal.error:
        return None
    starts = range(0, len(split), trials)
    return _Solved(
        [np.concatenate(certified.values[k : k + trials], axis=1) for k in starts],
        [np.concatenate(certified.images[k : k + trials], axis=1) for k in starts],
        certified.error,
    )
