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
from fastmcmd.errors import FEATURES_MISS
from fastmcmd.gram import EXACT
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels.base import UNIT, relative_error
from fastmcmd.result import Info, Result
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
    """What a block keeps: rows in the coordinates of the landmarks, ``W^1/2``, ``W^1/2 E``, ``W^1/2 F``."""

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


class _Pool:
    """Submits functions to workers, or calls them here."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.tasks = 0

    def submit(self, function: Callable[..., Any], *arguments: object) -> Handle:
        """Return a handle of the result; arguments may be handles."""
        self.tasks += 1
        if self.client is None:
            return function(*arguments)
        return self.client.submit(function, *arguments, pure=False)

    def gather(self, handles: list[Handle]) -> list[Handle]:
        """Return results."""
        return handles if self.client is None else list(self.client.gather(handles))


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
    pool = _Pool(run.client)
    ridge = Ridge(state, state.models[""], setting.lam)
    mu, smoother = ridge.shift, setting.accumulator._smoother
    assert smoother is not None
    prepared = _prepared(run, blocks, _Prepare(setting.accumulator, state.columns))
    kernel = smoother  # carries kernel, backend and offset to the workers
    if run.client is not None:
        kernel = run.client.scatter(_bare(smoother), broadcast=True)
    vectors = [
        pool.submit(_first, parts_of_block, ridge.coefficients, mu) for parts_of_block in prepared
    ]
    inner = np.linalg.inv(state.gram + mu * np.eye(len(state.gram)))

    def product(left: list[Handle], right: list[Handle]) -> list[Handle]:
        """Return ``K(left, X) right`` for blocks of points, with right (n, r) by block."""
        sums = [None] * len(left)
        for at in range(0, len(right), _COLUMN_BLOCKS):
            columns = list(zip(prepared, right, strict=True))[at : at + _COLUMN_BLOCKS]
            flat = [one for pair in columns for one in pair]
            sums = [
                pool.submit(_added_product, kernel, x, total, *flat)
                for x, total in zip(left, sums, strict=True)
            ]
        return sums

    def residual_of(vectors: list[Handle]) -> tuple[list[Handle], list[Handle]]:
        """Return the vectors with their true residuals, and the embeddings at the rows."""
        scaled = [
            pool.submit(_weighted, *parts_of_block, "z")
            for parts_of_block in zip(prepared, vectors, strict=True)
        ]
        images = product(prepared, scaled)
        trios = zip(prepared, vectors, images, strict=True)
        return [
            pool.submit(_with_residual, *parts_of_block, mu) for parts_of_block in trios
        ], images

    vectors, images = residual_of(vectors)
    size = float(
        np.sqrt(max(smoother.features.diagonal(scaled_rows(smoother, setting.sample.x)).max(), 0.0))
    )
    goal, iterations, products = 2 * np.sqrt(mu) * tol / size / 2, 0, 1
    rho_before: Array | None = None
    best = np.inf
    for _ in range(3):  # restarts from the true residual
        rho_before = None
        while iterations < _MOST_ITERATIONS:
            pairs = zip(prepared, vectors, strict=True)
            results = pool.gather(
                [pool.submit(_sums_of_residual, *parts_of_block) for parts_of_block in pairs]
            )
            cross, squares = (sum(part) for part in zip(*results, strict=True))
            norm = float(np.sqrt(squares.sum()))
            run.progress.product(size * norm / (2 * np.sqrt(mu)))
            if norm <= goal:
                break
            solved = inner @ cross
            rho = np.maximum((squares - np.einsum("pr,pr->r", cross, solved)) / mu, 0.0)
            ratio = np.zeros_like(rho) if rho_before is None else _quotient(rho, rho_before)
            rho_before = rho
            trios = zip(prepared, vectors, strict=True)
            vectors = [
                pool.submit(_directed, *parts_of_block, solved, ratio, mu)
                for parts_of_block in trios
            ]
            pairs = zip(prepared, vectors, strict=True)
            image = product(
                prepared, [pool.submit(_weighted, *parts_of_block, "p") for parts_of_block in pairs]
            )
            moves = list(zip(prepared, vectors, image, strict=True))
            curvature = sum(
                pool.gather(
                    [pool.submit(_curvature, *parts_of_block, mu) for parts_of_block in moves]
                )
            )
            step = _quotient(rho, np.asarray(curvature))
            vectors = [pool.submit(_stepped, *parts_of_block, step, mu) for parts_of_block in moves]
            iterations, products = iterations + 1, products + 1
        vectors, images = residual_of(vectors)
        products += 1
        pairs = zip(prepared, vectors, strict=True)
        results = pool.gather(
            [pool.submit(_sums_of_residual, *parts_of_block) for parts_of_block in pairs]
        )
        norm = float(np.sqrt(sum(one[1].sum() for one in results)))
        if norm <= goal or norm > best / 2:
            break
        best = norm
    norms = pool.gather([pool.submit(_solution_norm, parts_of_block) for parts_of_block in vectors])
    rounding = _rounding(smoother, setting, state, float(np.sqrt(sum(norms))), size)
    output_residual = float(np.sqrt(state.models[""].residual + state.models[""].lost[2]))
    total_residual = norm + rounding + output_residual
    values, diagonal = _values(
        pool, options["at"], prepared, vectors, images, product, smoother, kernel, state
    )
    bounds = np.sqrt(diagonal) * total_residual / (2 * np.sqrt(mu))
    count, width = state.rows, setting.sample.x.shape[1] + len(state.columns)
    workers = 1 if run.client is None else len(run.client.nthreads())
    moved_bytes = 8.0 * count * width * max(workers - 1, 0)
    notes = (
        *setting.notes,
        f"exact over {len(blocks) ** 2:,} pairs of blocks; each of {products} products moves at most "
        f"{format_bytes(moved_bytes)} among {workers} workers, in {pool.tasks:,} tasks together",
    )  # fmt: skip
    if output_residual > norm + rounding:
        share = size * output_residual / (2 * np.sqrt(mu))
        notes = (*notes, f"{FEATURES_MISS} {share:.1e}")
    info = Info(
        "cg", "feature", "cpu", "float64", "streamed", "rigorous" if state.models[""].proven else "sampled",
        count, count, len(state.columns), iterations, products, time.perf_counter() - start, 0, notes,
        smoother.rank,
    )  # fmt: skip
    return Result.of(values, np.asarray(bounds), tol, info, "CCE")


def _values(
    pool: _Pool, at: Any, prepared: list[Handle], vectors: list[Handle], images: list[Handle],
    product: Callable[..., list[Handle]], smoother: Smoother, kernel: Any, state: CongruenceSums,
) -> tuple[Array, Array]:  # fmt: skip
    """Return values and k(x, x) at the points; those of the rows are known from the last product."""
    if at is None:
        results = pool.gather(
            [
                pool.submit(_norms, kernel, *parts_of_block)
                for parts_of_block in zip(prepared, images, strict=True)
            ]
        )
    else:
        x = at.compute() if is_blockwise(at) else at
        rows = scaled_rows(smoother, as_rows(x, "at").astype(np.float64))
        parts = [(rows[start : start + _POINTS],) for start in range(0, len(rows), _POINTS)]
        if pool.client is not None:
            parts = pool.client.scatter(parts)
        pairs = zip(prepared, vectors, strict=True)
        images = product(
            parts, [pool.submit(_weighted, *parts_of_block, "z") for parts_of_block in pairs]
        )
        results = pool.gather(
            [
                pool.submit(_norms, kernel, *parts_of_block)
                for parts_of_block in zip(parts, images, strict=True)
            ]
        )
    values, diagonal = (np.concatenate(part) for part in zip(*results, strict=True))
    return values, diagonal


def _prepared(run: Run, blocks: Blocks, prepare: _Prepare) -> list[Handle]:
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
    """Return a smoother whose arrays a worker may receive apart from it, as copies of its own."""
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
