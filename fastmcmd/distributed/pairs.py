"""The exact CCE on a cluster: conjugate gradients whose products run over pairs of blocks.

The system is ``(W^1/2 K W^1/2 + N lam) Z = W^1/2 E``, preconditioned by the landmarks of the low-rank
solution, which is also the start. Each block keeps its rows, features and vectors where it is. An iteration
moves the search directions: every worker receives those of all blocks, n r numbers, and the inputs, n d
numbers, once if its memory holds them. Two sums of p r and r numbers a block come here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.blockwise import is_blockwise
from fastmcmd._base.checks import as_rows, check_positive
from fastmcmd._base.memory import format_bytes
from fastmcmd.distributed.blocks import (
    Arguments,
    BlockError,
    Blocks,
    arguments_of,
    common_rows,
    received,
    shipped,
)
from fastmcmd.distributed.rows import checked_rows
from fastmcmd.distributed.running import Handle, Run
from fastmcmd.distributed.setting import Setting
from fastmcmd.gram import EXACT
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels.base import UNIT, relative_error
from fastmcmd.result import Cause, Info, Result
from fastmcmd.streaming import CCE
from fastmcmd.streaming.congruence_landmarks import features_of, scaled_rows
from fastmcmd.streaming.congruence_sums import CongruenceSums, Ridge
from fastmcmd.streaming.output_features import Columns

__all__ = ["MOST_ROWS", "exact"]

MOST_ROWS = 1 << 20  # above, products of all pairs of rows take too long: low rank
_COLUMN_BLOCKS = 8  # blocks of columns that a task multiplies
_MOST_ITERATIONS = 300
_POINTS = 8_192  # points in memory that a task evaluates

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Prepare:
    """The arrays that a block keeps: rows in landmark coordinates, ``W^1/2``, ``W^1/2 E``, ``W^1/2 F``."""

    accumulator: CCE
    columns: Columns

    def __call__(self, arguments: Arguments) -> tuple[Array, Array, Array, Array]:
        x, y, prediction, weights = checked_rows(arguments)
        smoother, outputs = self.accumulator._smoother, self.accumulator._outputs
        assert smoother is not None
        root = np.ones(len(y)) if weights is None else np.sqrt(weights)
        e = outputs.transform(y, self.columns) - outputs.expected(prediction, self.columns)[0]
        f, _ = features_of(smoother, x)
        return scaled_rows(smoother, x), root, root[:, None] * e, root[:, None] * f


@dataclass(frozen=True, eq=False)
class _Vectors:
    """The vectors (n, r) of a block: solution, residual, direction."""

    z: Array
    r: Array
    p: Array


_Block: TypeAlias = tuple[
    Array, Array, Array, Array
]  # rows; roots of weights, and errors and features times these


def exact(
    run: Run,
    blocks: Blocks,
    setting: Setting,
    options: Arguments,
    start: float,
    state: CongruenceSums,
) -> Result:
    """Return the exact CCE at each row, or at ``options["at"]``, with a proven bound.

    Parameters
    ----------
    run, blocks, setting
        Where to compute, the rows, and kernels with landmarks.
    options : dict
        Arguments of `fastmcmd.cce`.
    start : float
        Time at which the call began.
    state : CongruenceSums
        Sums at the landmarks.
    """
    tol = check_positive(options["tol"], "tol")
    try:
        return _solved(run, blocks, setting, options, start, state, tol)
    except OSError as error:
        if run.client is None:
            raise
        raise run.scheduler_error() from error
    except Exception as error:
        if type(error).__name__ not in ("KilledWorker", "FutureCancelledError"):
            raise
        raise BlockError(
            f"workers died while they solved for all pairs of blocks: {error}"
        ) from error


def _solved(
    run: Run, blocks: Blocks, setting: Setting, options: Arguments, start: float, state: CongruenceSums,
    tol: float,
) -> Result:  # fmt: skip
    cg = _PairwiseCG(run, blocks, setting, state)
    smoother, mu, model = cg.smoother, cg.mu, state.models[""]
    rows = scaled_rows(smoother, setting.sample.x)
    size = float(np.sqrt(max(smoother.features.diagonal(rows).max(), 0.0)))
    norm = cg.solve(2 * np.sqrt(mu) * tol / size / 2, size / (2 * np.sqrt(mu)))
    rounding = _rounding(smoother, setting, state, cg.solution_norm(), size)
    output_residual = float(np.sqrt(model.residual + model.lost[2]))
    total_residual = norm + rounding + output_residual
    values, diagonal = cg.values(options["at"])
    bounds = np.sqrt(diagonal) * total_residual / (2 * np.sqrt(mu))
    count, width = state.rows, setting.sample.x.shape[1] + len(state.columns)
    workers = 1 if run.client is None else len(run.client.nthreads())
    moved_bytes = 8.0 * count * width * max(workers - 1, 0)
    notes = (
        *setting.notes,
        f"exact over {len(blocks) ** 2:,} pairs of blocks; each of {cg.products} products moves at most "
        f"{format_bytes(moved_bytes)} among {workers} workers, in {cg.tasks:,} tasks together",
    )  # fmt: skip
    cause = None
    if output_residual > norm + rounding:
        cause = Cause("output features", float(size * output_residual / (2 * np.sqrt(mu))))
        notes = (*notes, cause.note)
    info = Info(
        "cg", "feature", "cpu", "float64", "streamed", "rigorous" if model.proven else "sampled",
        count, count, len(state.columns), cg.iterations, cg.products, time.perf_counter() - start, 0,
        notes, smoother.rank, cause=None if bounds.max() <= tol else cause,
    )  # fmt: skip
    return Result.of(values, np.asarray(bounds), tol, info, "CCE")


class _PairwiseCG:
    """Preconditioned CG over all pairs of blocks; the vectors of a block stay where the block is.

    Attributes
    ----------
    mu : float
        Regulariser ``N lam``.
    iterations, products, tasks : int
        Steps, products with K, and tasks so far.
    """

    def __init__(self, run: Run, blocks: Blocks, setting: Setting, state: CongruenceSums) -> None:
        self._client, self._progress = run.client, run.progress
        ridge = Ridge(state, state.models[""], setting.lam)
        smoother = setting.accumulator._smoother
        assert smoother is not None
        self.mu, self.smoother = ridge.shift, smoother
        self.iterations = self.products = self.tasks = 0
        self._blocks = _prepared_blocks(run, blocks, _Prepare(setting.accumulator, state.columns))
        self._kernel: Handle = smoother  # carries kernel, backend and offset to the workers
        if run.client is not None:
            self._kernel = run.client.scatter(_bare(smoother), broadcast=True)
        self._inner = np.linalg.inv(state.gram + self.mu * np.eye(len(state.gram)))
        self._vectors = self._for_blocks(_first, (self._blocks,), ridge.coefficients, self.mu)
        self._images: list[Handle] = []

    def _submit(self, function: Callable[..., Handle], *arguments: object) -> Handle:
        """Return a handle of the result, computed by a worker or here; arguments may be handles."""
        self.tasks += 1
        if self._client is None:
            return function(*arguments)
        return self._client.submit(function, *arguments, pure=False)

    def _for_blocks(
        self, function: Callable[..., Handle], lists: tuple[list[Handle], ...], *arguments: object
    ) -> list[Handle]:
        """Return the results of a function for each block, with further arguments that all share."""
        return [self._submit(function, *of, *arguments) for of in zip(*lists, strict=True)]

    def _gathered(self, handles: list[Handle]) -> list[Handle]:
        return handles if self._client is None else list(self._client.gather(handles))

    def _product(self, left: list[Handle], name: str) -> list[Handle]:
        """Return ``K(left, X) W^1/2 v`` for blocks of points, where v is a vector of this name."""
        right = self._for_blocks(_weighted, (self._blocks, self._vectors), name)
        sums = [None] * len(left)
        for at in range(0, len(right), _COLUMN_BLOCKS):
            columns = list(zip(self._blocks, right, strict=True))[at : at + _COLUMN_BLOCKS]
            flat = [one for pair in columns for one in pair]
            sums = [
                self._submit(_added_product, self._kernel, x, total, *flat)
                for x, total in zip(left, sums, strict=True)
            ]
        return sums

    def _renew_residual(self) -> None:
        """Compute the true residuals, and the embeddings at the rows."""
        self._images = self._product(self._blocks, "z")
        trios = self._blocks, self._vectors, self._images
        self._vectors = self._for_blocks(_with_residual, trios, self.mu)
        self.products += 1

    def _residual_sums(self) -> tuple[Array, Array]:
        results = self._gathered(self._for_blocks(_sums_of_residual, (self._blocks, self._vectors)))
        cross, squares = (sum(part) for part in zip(*results, strict=True))
        return cross, squares

    def solve(self, goal: float, scale: float) -> float:
        """Solve until the residual norm is at most ``goal``, and return that norm.

        ``scale`` turns a residual norm into the error that progress reports.
        """
        self._renew_residual()
        norm = best = np.inf
        for _ in range(3):  # restarts from the true residual
            self._iterate(goal, scale)
            self._renew_residual()
            norm = float(np.sqrt(self._residual_sums()[1].sum()))
            if norm <= goal or norm > best / 2:
                break
            best = norm
        return norm

    def _iterate(self, goal: float, scale: float) -> None:
        rho_before: Array | None = None
        while self.iterations < _MOST_ITERATIONS:
            cross, squares = self._residual_sums()
            norm = float(np.sqrt(squares.sum()))
            self._progress.product(scale * norm)
            if norm <= goal:
                break
            solved = self._inner @ cross
            rho = np.maximum((squares - np.einsum("pr,pr->r", cross, solved)) / self.mu, 0.0)
            ratio = np.zeros_like(rho) if rho_before is None else _quotient(rho, rho_before)
            rho_before, pairs = rho, (self._blocks, self._vectors)
            self._vectors = self._for_blocks(_directed, pairs, solved, ratio, self.mu)
            moves = self._blocks, self._vectors, self._product(self._blocks, "p")
            curvature = sum(self._gathered(self._for_blocks(_curvature, moves, self.mu)))
            step = _quotient(rho, np.asarray(curvature))
            self._vectors = self._for_blocks(_stepped, moves, step, self.mu)
            self.iterations, self.products = self.iterations + 1, self.products + 1

    def solution_norm(self) -> float:
        """Return the norm of the solution."""
        return float(
            np.sqrt(sum(self._gathered(self._for_blocks(_solution_norm, (self._vectors,)))))
        )

    def values(self, at: Any) -> tuple[Array, Array]:
        """Return values and k(x, x) at the points; those of the rows follow from the last product."""
        parts, images = self._blocks, self._images
        if at is not None:
            x = at.compute() if is_blockwise(at) else at
            rows = scaled_rows(self.smoother, as_rows(x, "at").astype(np.float64))
            parts = [(rows[start : start + _POINTS],) for start in range(0, len(rows), _POINTS)]
            if self._client is not None:
                parts = self._client.scatter(parts)
            images = self._product(parts, "z")
        pairs = zip(parts, images, strict=True)
        results = self._gathered([self._submit(_norms, self._kernel, *of) for of in pairs])
        values, diagonal = (np.concatenate(part) for part in zip(*results, strict=True))
        return values, diagonal


def _prepared_blocks(run: Run, blocks: Blocks, prepare: _Prepare) -> list[Handle]:
    """Return what each block with rows keeps: futures, or the arrays themselves."""
    import dask

    shipment = shipped(prepare, blocks.template)
    make = dask.delayed(_prepare_block, pure=False)
    tasks = [make(shipment, number, *blocks.block(number)) for number in range(len(blocks))]
    if run.client is None:
        return [one for one in dask.compute(*tasks, scheduler="synchronous") if one is not None]
    futures = run.client.compute(tasks)
    sizes = run.client.gather(run.client.map(_has_rows, futures, pure=False))
    return [one for one, size in zip(futures, sizes, strict=True) if size]


def _prepare_block(shipment: bytes, number: int, *values: Any) -> Any:
    prepare, template = received(shipment)
    return prepare(arguments_of(template, values)) if common_rows(values) else None


def _has_rows(one: Any) -> bool:
    return one is not None


def _bare(smoother: Smoother) -> Smoother:
    """Return a smoother whose arrays a worker may receive separately, as its own copies."""
    return replace(smoother, features=replace(smoother.features))


def _added_product(smoother: Smoother, left: Any, total: Array | None, *flat: Any) -> Array:
    """Return ``total + sum_j K(left, X_j) V_j`` for pairs (block, V_j)."""
    features = smoother.features
    offset = None if features.offset is None else np.array(features.offset)
    rows = features.backend.points(np.require(left[0], requirements="A"), EXACT, offset)
    for block, vectors in zip(flat[::2], flat[1::2], strict=True):
        columns = features.backend.points(np.require(block[0], requirements="A"), EXACT, offset)
        added = features.backend.matmul(
            features.kernel, rows, columns, np.require(vectors, requirements=["A", "C"])
        )
        total = added if total is None else total + added
    assert total is not None
    return total


def _first(block: _Block, coefficients: Array, mu: float) -> _Vectors:
    """Return the low-rank solution as a start."""
    _, _, e, f = block
    z = (e - f @ coefficients) / mu
    return _Vectors(z, np.zeros_like(z), np.zeros_like(z))


def _weighted(block: _Block, vectors: _Vectors, name: str) -> Array:
    return np.asarray(block[1][:, None] * getattr(vectors, name))


def _with_residual(block: _Block, vectors: _Vectors, image: Array, mu: float) -> _Vectors:
    _, root, e, _ = block
    r = e - root[:, None] * image - mu * vectors.z
    return _Vectors(vectors.z, r, np.zeros_like(r))


def _sums_of_residual(block: _Block, vectors: _Vectors) -> tuple[Array, Array]:
    return block[3].T @ vectors.r, np.einsum("ij,ij->j", vectors.r, vectors.r)


def _directed(block: _Block, vectors: _Vectors, solved: Array, ratio: Array, mu: float) -> _Vectors:
    """Return the next direction: the preconditioned residual plus a multiple of the last one."""
    p = (vectors.r - block[3] @ solved) / mu + ratio * vectors.p
    return _Vectors(vectors.z, vectors.r, p)


def _image(block: _Block, vectors: _Vectors, image: Array, mu: float) -> Array:
    return np.asarray(block[1][:, None] * image + mu * vectors.p)


def _curvature(block: _Block, vectors: _Vectors, image: Array, mu: float) -> Array:
    return np.einsum("ij,ij->j", vectors.p, _image(block, vectors, image, mu))


def _stepped(block: _Block, vectors: _Vectors, image: Array, step: Array, mu: float) -> _Vectors:
    q = _image(block, vectors, image, mu)
    return _Vectors(vectors.z + step * vectors.p, vectors.r - step * q, vectors.p)


def _solution_norm(vectors: _Vectors) -> float:
    return float(np.einsum("ij,ij->", vectors.z, vectors.z))


def _norms(smoother: Smoother, block: _Block, image: Array) -> tuple[Array, Array]:
    rows = np.require(block[0], requirements="A")
    return np.linalg.norm(image, axis=1), np.asarray(smoother.features.diagonal(rows))


def _quotient(one: Array, other: Array) -> Array:
    return np.divide(one, other, out=np.zeros_like(one), where=other > 0)


def _rounding(
    smoother: Smoother, setting: Setting, state: CongruenceSums, norm: float, size: float
) -> float:
    """Bound what rounding changed in ``W^1/2 K W^1/2 Z``, whose matrix has a norm of at most N k(x, x)."""
    features = smoother.features
    rows = scaled_rows(smoother, setting.sample.x)
    if features.offset is not None:
        rows = rows - features.offset
    largest = float(np.einsum("ij,ij->i", rows, rows).max())
    direct = features.backend.direct_distances(rows.shape[1], features.kernel)
    entry = features.kernel.entry_error(UNIT, rows.shape[1], 4 * largest, direct)
    summing = relative_error(state.rows + 8, UNIT) * size**2
    return float((entry + summing) * state.weight * norm)
