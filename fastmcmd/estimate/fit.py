"""From two samples to a fitted difference of their conditional embeddings."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import Backend
from fastmcmd.backends.threads import get_num_threads
from fastmcmd.checkpoint import Checkpoint
from fastmcmd.embedding.expected import Expectation, candidates, node_error, node_outputs
from fastmcmd.embedding.features import output_features, pooled, pooled_with_importance
from fastmcmd.embedding.sample import DrawnOutputs, PredictedOutputs, Sample
from fastmcmd.errors import MemoryLimitError
from fastmcmd.estimate.budget import TILE_BYTES, Budget, pool_bytes
from fastmcmd.estimate.dense import DenseFit, least_room, spread_matrix
from fastmcmd.estimate.lowrank import LowRankFit
from fastmcmd.estimate.lowrank_form import POOL, fit_low_rank
from fastmcmd.estimate.part_problem import Setting
from fastmcmd.estimate.primal import Part, PrimalFit, Truncation
from fastmcmd.gram import EXACT, GramOperator, diagonal_of
from fastmcmd.gram.cost import affordable_rank
from fastmcmd.kernels import Kernel
from fastmcmd.memory import format_bytes
from fastmcmd.options import Options
from fastmcmd.progress import Progress
from fastmcmd.result import Info
from fastmcmd.rows import Rows
from fastmcmd.solvers import Goal, LinearProblem, Solved, System, solve
from fastmcmd.solvers.direct import least_bytes

__all__ = ["Fit", "fit", "low_rank_limit"]

_SOLVER_SHARE = 0.74  # of the tolerance; truncation of the features takes at most a quarter
_LEAST_EPS, _MOST_EPS = 5e-15, 1e-9  # residual of the output features, relative
_LEAST_RANK, _MOST_RANK = 256, 2000
_NODES = 400  # quadrature nodes of a prediction, about
_MOST_LANDMARKS = 4096
_COLUMNS = 30  # features of a scalar output, about
_PATIENT = 40000  # rows from which CG takes long enough for a closer look
_MOST_LOOKED_AT = 20000  # points of a grid whose certificate is looked at before the end
_LEAST_LANDMARKS = 32
_BYTES_PER_PAIR = 200  # of landmarks: sums, factors, candidates
_LEAST_LOW_RANK = 4000  # rows from which the low-rank form can pay
_MOST_PAIRS = 2e12  # pairs of quadrature nodes, times points: about a minute


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted difference of conditional embeddings, in feature or dense form."""

    form: PrimalFit | DenseFit | LowRankFit
    backend: Backend
    x_kernel: Kernel
    y_kernel: Kernel
    options: Options
    sizes: tuple[int, int]
    working: int
    started: float

    def evaluate(
        self, grid: NDArray[Any] | Rows, progress: Progress, checkpoint: Checkpoint | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Info]:
        """Return values and error bounds (q,) at ``grid``, and how they were computed.

        ``checkpoint`` keeps what is done in dense form, where evaluation is the work.
        """
        if isinstance(self.form, DenseFit):
            keep = None if checkpoint is None else checkpoint.stage("dense")
            values, errors, kind = self.form.evaluate(grid, progress, keep)
        else:
            values, errors, kind = self.form.evaluate(grid, progress)
        return values, errors, self._info(kind, int(grid.shape[1]))

    def witness(self, grid: NDArray[Any] | Rows, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the witness function (q, len(y))."""
        if isinstance(self.form, DenseFit):
            return self.form.witness(grid, y, Progress(False, self.options.tol))
        return self.form.witness(grid, y)

    def _info(self, kind: str, dim: int) -> Info:
        details = self.form.details()
        held = details.pop("held")
        return Info(
            backend=self.backend.name,
            device=self.backend.label(np.dtype(details["dtype"]), dim),
            certificate=kind,
            n=self.sizes[0],
            n_prime=self.sizes[1],
            seconds=time.perf_counter() - self.started,
            peak_bytes=self.working + held,
            **details,
        )


def fit(
    nature: Sample,
    model: Sample,
    x_kernel: Kernel,
    y_kernel: Kernel,
    options: Options,
    grid: NDArray[Any] | Rows,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> Fit:
    """Fit the difference of the conditional embeddings of two samples.

    Parameters
    ----------
    nature, model : Sample
        The two sides.
    x_kernel, y_kernel : Kernel
        Resolved kernels.
    options : Options
        How to compute.
    grid : ndarray (q, d)
        Points where the tolerance must hold.
    progress : Progress
        Told of each product.
    checkpoint : Checkpoint, optional
        Where the state of CG and of the passes over rows is kept.
    """
    started = time.perf_counter()
    backend = options.backend_for(x_kernel)
    scale = float(np.sqrt(max(float(diagonal_of(x_kernel, grid).max()), 0.0)))
    sides = [nature, model]
    lam = min(nature.lam, model.lam)
    amplitude = scale / 2 * (nature.lam**-0.5 + model.lam**-0.5)
    share = min(1.0, options.tol / 4 / max(amplitude, 1e-300))
    eps = float(np.clip(share**2, _LEAST_EPS, _MOST_EPS))
    low = _low_rank(
        nature, model, backend, x_kernel, y_kernel, options, grid, scale, eps, progress, checkpoint
    )
    if low is not None:
        sizes = (len(nature), len(model))
        return Fit(low, backend, x_kernel, y_kernel, options, sizes, 0, started)
    values, where, importance = _pool(sides)
    same = nature.design.same_as(model.design)
    n = max(len(side.design) for side in sides)
    drawn = all(isinstance(side.outputs, DrawnOutputs) for side in sides)
    most = _affordable_rank(n, len(grid), len(values), drawn)
    found = output_features(y_kernel, options.backend_for(y_kernel), values, eps, most, importance)
    if found is None:
        dense = _dense(nature, model, backend, x_kernel, y_kernel, options, len(grid), started)
        if options.solver in ("lowrank", "nystrom") and isinstance(dense.form, DenseFit):
            dense.form.notes.append(
                f"y_kernel has no low rank over these outputs, which solver={options.solver!r} needs: "
                "went on in dense form (lowrank is for output features)"
            )
        return dense
    features, p, missing = found
    means, missed, expectation, noise, rigorous = [], [], 0.0, 0.0, True
    residuals = np.sqrt(missing)
    for side, index in zip(sides, where, strict=True):
        if isinstance(side.outputs, DrawnOutputs):
            rows = side.outputs.mean_features(p, index)
            miss = side.outputs.mean_features(residuals[:, None], index)
        else:
            expected = Expectation(features, side.outputs.prediction)
            found_rows = expected.of(side.outputs.prediction)
            rows, miss = found_rows.mean, found_rows.missed[:, None]
            expectation += expected.error / np.sqrt(side.lam)
            noise += expected.noise
            rigorous = rigorous and expected.rigorous
        means.append(side.design.average(rows))
        missed.append(side.design.average(miss)[:, 0])
    if same and nature.lam == model.lam:
        # Where both sides have the same outputs their features cancel, and so does what they miss.
        equal = (means[0] == means[1]).all(axis=1)
        missed = [np.where(equal, 0.0, miss) for miss in missed]
    truncation = Truncation(
        sum(
            float(np.sqrt(((miss**2 + noise) / side.shift).sum()))
            for miss, side in zip(missed, sides, strict=True)
        ),
        expectation,
        rigorous,
    )
    rank = features.rank
    single = same and nature.lam == model.lam
    columns = rank if single else 2 * rank
    budget = Budget.of(
        options.memory_limit, n=n, columns=columns, outputs=len(values), rank=rank,
        points=len(grid), threads=get_num_threads(),
    )  # fmt: skip
    asked: tuple[()] | tuple[int, str] = ()
    if options.solver == "cholesky":
        x, dtype = max((side.design.x for side in sides), key=len), options.dtype or EXACT
        operator = GramOperator(backend, x_kernel, x, dtype, options.memory_limit)
        asked = least_bytes(operator, options.cache_dir)
    room = budget.room(*asked)

    def solved(sample: Sample, systems: list[System], share: float, name: str = "both") -> Solved:
        problem = LinearProblem(
            backend, x_kernel, sample.design.x, systems, lam,
            Goal(_SOLVER_SHARE * share * options.tol, scale), room, name,
        )  # fmt: skip
        result = solve(problem, options, progress, checkpoint)
        result.operator.release()
        return result

    if single:
        result = solved(nature, [System(means[0] - means[1], nature.shift)], 1.0)
        (only,) = result.solutions
        parts = [Part(nature.design, only.value, only.image, result)]
    elif same:
        systems = [System(mean, side.shift) for mean, side in zip(means, sides, strict=True)]
        result = solved(nature, systems, 0.5)
        ours, theirs = result.solutions
        parts = [Part(nature.design, ours.value - theirs.value, ours.image - theirs.image, result)]
    else:
        parts = []
        for side, mean, sign in zip(sides, means, (1.0, -1.0), strict=True):
            name = "nature" if sign > 0 else "model"
            result = solved(side, [System(mean, side.shift)], 0.5, name)
            (one,) = result.solutions
            parts.append(Part(side.design, sign * one.value, sign * one.image, result))
    form = PrimalFit(features, parts, truncation, options.certificate)
    sizes = (len(nature.design), len(model.design))
    return Fit(form, backend, x_kernel, y_kernel, options, sizes, budget.working, started)


def some_rows(grid: NDArray[Any] | Rows) -> NDArray[Any]:
    """Return the points of a grid, or some of very many."""
    if len(grid) <= _MOST_LOOKED_AT:
        return grid[:]
    rng = np.random.default_rng(len(grid))
    return grid[np.sort(rng.choice(len(grid), _MOST_LOOKED_AT, replace=False))]


def low_rank_limit(n: int, dim: int, kernel: Kernel, backend: Backend, options: Options) -> int:
    """Return the landmarks at most that the low-rank form may take; 0 where it is not considered."""
    if options.solver not in ("auto", "lowrank", "nystrom"):
        return 0
    if options.solver != "auto":
        return min(n, _MOST_LANDMARKS)
    if n < _LEAST_LOW_RANK:
        return 0
    affordable = affordable_rank(kernel, n, dim, backend.name, _COLUMNS)
    if n < _PATIENT:  # small dense problems of the search weigh more
        affordable //= 3
    return min(n // 4, _MOST_LANDMARKS, affordable)


def _low_rank(
    nature: Sample,
    model: Sample,
    backend: Backend,
    x_kernel: Kernel,
    y_kernel: Kernel,
    options: Options,
    grid: NDArray[Any] | Rows,
    scale: float,
    eps: float,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> LowRankFit | None:
    """Return the low-rank form where it was asked for, or serves best."""
    n = max(len(nature), len(model))
    most = low_rank_limit(n, nature.x.shape[1], x_kernel, backend, options)
    if not most:
        return None
    wanted = options.solver != "auto"
    dim = nature.x.shape[1]
    if isinstance(options.landmarks, np.ndarray) and options.landmarks.shape[1] != dim:
        raise ValueError(
            f"landmarks has {options.landmarks.shape[1]} columns; {dim} are needed, as in x"
        )
    # What each row misses, its size, values and bounds; then sums, factors and candidates.
    pool, passing = pool_bytes(sum(_drawn(side) for side in (nature, model)), _COLUMNS)
    held = 8 * (4 * n + 2 * len(grid)) + get_num_threads() * TILE_BYTES + pool
    room = options.memory_limit - held
    fitting = math.isqrt(max(0, room) // _BYTES_PER_PAIR)
    given = 0 if isinstance(options.landmarks, str) else len(options.landmarks)
    least = options.rank or given or _LEAST_LANDMARKS
    if fitting < least or room < passing:
        if not wanted:
            return None
        need = held + max(passing, _BYTES_PER_PAIR * (least + 1) ** 2)
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(options.memory_limit)}; about {format_bytes(need)} are needed "
            f"for {least} landmarks of {n:,} rows"
        )
    most = min(most, fitting)
    setting = Setting(
        goal=_SOLVER_SHARE * options.tol, scale=scale, rank=options.rank, most=most,
        landmarks=options.landmarks, certificate=options.certificate, dtype=options.dtype,
        room=room, give_up=not wanted, patient=n >= _PATIENT and options.certificate != "rigorous",
        grid=None if grid is nature.x else some_rows(grid),
    )  # fmt: skip
    return fit_low_rank(
        (nature, model), backend, y_kernel, x_kernel, setting, options, eps, _MOST_RANK, progress,
        checkpoint,
    )  # fmt: skip


def _drawn(side: Sample) -> int:
    """Return the outputs of a side among which features are looked for in low-rank form, at most."""
    outputs = side.all_outputs
    return min(len(outputs.flat), POOL) if isinstance(outputs, DrawnOutputs) else POOL


def _pool(
    sides: list[Sample],
) -> tuple[NDArray[np.float64], list[NDArray[np.intp]], NDArray[np.float64]]:
    """Return the distinct outputs to choose pivots from, each side's place, their importance."""
    return pooled_with_importance(
        *(
            (side.outputs.flat, np.ones(len(side.outputs.flat)))
            if isinstance(side.outputs, DrawnOutputs)
            else candidates(side.outputs.prediction)
            for side in sides
        )
    )


def _affordable_rank(n: int, points: int, outputs: int, drawn: bool) -> int:
    """Return the rank beyond which the dense form is the cheaper one.

    Of predicted distributions the dense form sums over pairs of their nodes: cheaper for few only.
    """
    if not drawn and float(_NODES * n) ** 2 * points > _MOST_PAIRS / 10:
        return min(outputs, _MOST_RANK)
    return min(outputs, max(_LEAST_RANK, min(n // 4, 2 * points, _MOST_RANK)))


def _dense(
    nature: Sample,
    model: Sample,
    backend: Backend,
    x_kernel: Kernel,
    y_kernel: Kernel,
    options: Options,
    points: int,
    started: float,
) -> Fit:
    drawn = [
        node_outputs(side.outputs.prediction)
        if isinstance(side.outputs, PredictedOutputs)
        else side.outputs
        for side in (nature, model)
    ]
    values, where = pooled(drawn[0].flat, drawn[1].flat)
    predicted = any(isinstance(side.outputs, PredictedOutputs) for side in (nature, model))
    if predicted and float(len(values)) ** 2 * points > _MOST_PAIRS:
        raise ValueError(
            f"draws=None: {y_kernel!r} has no low rank over the predicted distributions (more than "
            f"{_MOST_RANK} features), and sums over all pairs of their {len(values):,} quadrature nodes "
            "would take too long; use draws=100, say, or a smoother y_kernel"
        )
    n = max(len(nature.design), len(model.design))
    budget = Budget.of(
        options.memory_limit, n=n, columns=16, outputs=len(values), rank=16, points=64,
        threads=get_num_threads(),
    )  # fmt: skip
    samples = nature, model
    asked: tuple[()] | tuple[int, str] = ()
    if options.solver == "cholesky":
        asked = least_room(samples, backend, x_kernel, options)
    form = DenseFit(
        backend=options.backend_for(x_kernel + y_kernel),
        x_kernel=x_kernel,
        y_kernel=y_kernel,
        samples=samples,
        outputs=values,
        spread=(
            spread_matrix(nature, drawn[0], where[0], len(values), 1.0),
            spread_matrix(model, drawn[1], where[1], len(values), -1.0),
        ),
        room=budget.room(*asked),
        options=options,
        node_error=sum(
            node_error(side.outputs.prediction, y_kernel)
            for side in (nature, model)
            if isinstance(side.outputs, PredictedOutputs)
        ),
    )
    sizes = (len(nature.design), len(model.design))
    return Fit(form, backend, x_kernel, y_kernel, options, sizes, budget.working, started)
