"""The decision for or against the low-rank form, and its memory budget."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fastmcmd._base.memory import format_bytes
from fastmcmd._base.threads import get_num_threads
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.errors import MemoryLimitError
from fastmcmd.estimate.budget import TILE_BYTES, pool_bytes
from fastmcmd.estimate.landmark_choice import ALL_CANDIDATES
from fastmcmd.estimate.lowrank import MOST_WORK
from fastmcmd.estimate.lowrank_fit import LowRank
from fastmcmd.estimate.lowrank_form import POOL
from fastmcmd.estimate.outputs import better_dense
from fastmcmd.estimate.part_problem import LowRankSetting
from fastmcmd.estimate.task import SOLVER_SHARE, Task, some_rows
from fastmcmd.estimate.trace_glance import trace_may_suffice
from fastmcmd.gram.cost import FEWEST_PRODUCTS, MatrixSize, expected_products
from fastmcmd.rows import Rows
from fastmcmd.solvers import BlockCG, ProblemSize

__all__ = ["low_rank_groups", "low_rank_setting", "ruled_out"]

_MOST_LANDMARKS = 4096
_COLUMNS = 30  # approximate number of features of a scalar output
_VECTOR_COLUMNS = 256  # the same for a vector output
_PATIENT = 22000  # rows from which CG is slow enough to justify a longer search
_LEAST_LANDMARKS = 32
_BYTES_PER_PAIR = 200  # bytes for each pair of landmarks: sums, factors, candidates
# The low-rank form can pay from that many operations of CG on: 4,000 rows of two columns at a hundredth of
# the largest eigenvalue. A glance at the rows takes as long as a tenth of that.
_LEAST_ROWS, _LEAST_WORK = 4000, 1.2e10
# The same for one column, where a few dozen landmarks are enough, and for two, where a hundred are.
_OF_COLUMNS = {1: (1000, 3e8), 2: (2000, 3e9)}
# Rows for each landmark at least, in few columns: a search for more takes as long as CG or a factorisation.
_ROWS_OF_LANDMARK, _LEAST_ROWS_OF_LANDMARK = {1: 12, 2: 12}, 4
_FEW_COLUMNS = 3
_HARD = 4.0  # cost of CG, relative to an easy problem, from which more landmarks of few columns pay
_SHARE = 0.4  # share of the cost of CG on an easy problem that two passes over the rows may cost
_BEYOND = 1.5  # factor of these numbers after a pass that misses the goal
# Rows whose pass takes as long as the search of so many rows and more; of fewer it weighs still more.
_SEARCH_ROWS, _LONG_SEARCH = 75_000, 40_000
# Landmarks up to which the form takes less time than CG, by what the trace needs in two columns. A number
# for an easy problem and the factor that a hard one adds, or a number for each operation of a row. A trace
# falls ever more slowly in more columns. Measured: 4,000 to 60,000 rows, 2 to 5 columns, and tolerances of
# 1e-3 to 1e-6.
_PAYING, _PAYING_HARD, _HARD_PRODUCTS, _PER_COLUMN, _MOST_COLUMNS = 120.0, 1.5, 10.0, 0.6, 5
_PAYING_OPERATION, _PAYING_ROWS, _MANY_ROWS = 1.9e-5, 4000, 100_000
_MORE_IN_PART, _MORE_PATIENT = 1.33, 2.3  # searches in a part of the rows; patient ones, too
# Operations of CG on a device in the time of one of the search, which runs on the host: on an H200, CG of
# 500,000 rows takes less time than a search.
_OF_DEVICE = 2e4
# Bytes of a feature of a further model: five columns over 20,000 candidates, and a part of the sums.
_COLUMN_BYTES = 8 * (5 * ALL_CANDIDATES + 4 * _MOST_LANDMARKS)
_SHARED_PART = 8  # models share a pass if all further ones take at most 1 / 8 of the budget


def _limit(n: int, dim: int, task: Task, lam: float, last_resort: bool = False) -> int:
    """Return the largest number of landmarks for the low-rank form; 0 if the form is not an option."""
    solver = task.options.solver
    if solver not in ("auto", "lowrank", "nystrom"):
        return 0
    if solver != "auto" or last_resort:
        return min(n, _MOST_LANDMARKS)
    least_rows, least = _OF_COLUMNS.get(dim, (_LEAST_ROWS, _LEAST_WORK))
    if n < least_rows:
        return 0
    size = _problem_size(n, dim, task, lam)
    least *= _OF_DEVICE if task.backend.on_device else 1.0
    expected = BlockCG().estimate(size).total
    if expected < least:
        return 0
    # Landmarks must pay even if CG needs few products: the cost of a failed search comes on top.
    easy = BlockCG().estimate(size, products=FEWEST_PRODUCTS)
    is_hard = dim <= _FEW_COLUMNS and expected >= _HARD * easy.total
    work = _SHARE * easy.total
    if n >= _PATIENT and not is_hard:
        work *= n / (n + _SEARCH_ROWS) * min(1.0, n / _LONG_SEARCH)
    affordable = LowRank.affordable(size, work).landmarks
    if n < _PATIENT and not is_hard:  # the small dense problems of the search weigh more
        affordable //= 2
    most = n // _ROWS_OF_LANDMARK.get(dim, _LEAST_ROWS_OF_LANDMARK)
    return min(most, _MOST_LANDMARKS, affordable)


def _problem_size(n: int, dim: int, task: Task, lam: float) -> ProblemSize:
    """Return the sizes of the linear problem that CG would solve instead."""
    matrix = MatrixSize(task.x_kernel, n, dim, task.backend.name)
    return ProblemSize(matrix, (_COLUMNS,), 1, task.scale**2 / lam, task.options.tol)


def low_rank_setting(
    n: int,
    dim: int,
    candidates: int,
    points: int,
    task: Task,
    lam: float,
    *,
    last_resort: bool = False,
) -> LowRankSetting | None:
    """Return goal and limits of the low-rank form of ``n`` rows, or None if the form is not an option.

    Parameters
    ----------
    n, dim : int
        Rows and columns of the inputs.
    candidates : int
        Outputs from which features are chosen.
    points : int
        Number of evaluation points.
    task : Task
        Kernels, options, and a grid for the largest ``k(x, x)``; some of its rows are enough.
    lam : float
        Smallest regulariser.
    last_resort : bool
        Whether no other solver fits in memory: the form is then tried with any number of landmarks.

    Raises
    ------
    MemoryLimitError
        The landmarks that the options require do not fit in ``memory_limit``.
    """
    options = task.options
    most = _limit(n, dim, task, lam, last_resort)
    if not most:
        return None
    is_required = options.solver != "auto"
    # Residual diagonal, norms, cells, values and bounds of each row; below: sums, factors and candidates.
    pool, passing = pool_bytes(candidates, _COLUMNS)
    fixed_bytes = 8 * (7 * n + 2 * points) + get_num_threads() * TILE_BYTES + pool
    budget = options.memory_limit - fixed_bytes
    fitting = math.isqrt(max(0, budget) // _BYTES_PER_PAIR)
    given_landmarks = 0 if isinstance(options.landmarks, str) else len(options.landmarks)
    least = options.rank or given_landmarks or _LEAST_LANDMARKS
    if fitting < least or budget < passing:
        if not is_required:
            return None
        need = fixed_bytes + max(passing, _BYTES_PER_PAIR * (least + 1) ** 2)
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(options.memory_limit)}; about {format_bytes(need)} are needed "
            f"for {least} landmarks of {n:,} rows"
        )
    return LowRankSetting(
        goal=SOLVER_SHARE * options.tol, tolerance=options.tol, scale=task.scale, rank=options.rank,
        most=min(most, fitting), largest=min(n, int(_BEYOND * most), fitting),
        landmarks=options.landmarks, certificate=options.certificate, dtype=options.dtype,
        budget=budget, give_up=not is_required,
        patient=last_resort or (n >= _PATIENT and options.certificate != "rigorous"),
        points=points,
        most_work=math.inf if last_resort else _most_work(n, dim, points, task, lam),
    )  # fmt: skip


def _most_work(n: int, dim: int, points: int, task: Task, lam: float) -> float:
    """Return the most work for values from all rows at points that the landmarks miss.

    It is the cost of CG with its values at all points, if CG would follow.
    """
    if task.options.solver != "auto":
        return MOST_WORK
    size = _problem_size(n, dim, task, lam)
    at_points = 2 * points / n * size.matrix.streamed_cost(_COLUMNS)
    return BlockCG().estimate(size).total + at_points


def low_rank_groups(
    nature: Sample, models: list[Sample], task: Task, *, last_resort: bool = False
) -> list[tuple[list[Sample], LowRankSetting | None]]:
    """Return the models in groups that share passes, with the setting of each.

    The setting is None if the form is neither required nor the best choice. Several models must have the
    inputs and the regulariser of nature; they share passes as far as memory allows. ``last_resort`` says
    that no other solver fits in memory.

    Raises
    ------
    ValueError
        The landmarks have another number of columns than the inputs.
    MemoryLimitError
        The landmarks that the options require do not fit in ``memory_limit``.
    """
    options, dim = task.options, nature.x.shape[1]
    n = max(map(len, (nature, *models)))
    if isinstance(options.landmarks, np.ndarray) and options.landmarks.shape[1] != dim:
        raise ValueError(
            f"landmarks has {options.landmarks.shape[1]} columns; {dim} are needed, as in x"
        )
    lam = min([side.lam for side in (nature, *models)])
    most = _limit(n, dim, task, lam, last_resort)
    if not most:
        return [(models, None)]
    candidates = _candidate_count(nature) + max(_candidate_count(model) for model in models)
    points = len(task.grid)
    setting = low_rank_setting(n, dim, candidates, points, task, lam, last_resort=last_resort)
    if setting is None or all(better_dense((nature, model), task) for model in models):
        return [(models, None)]
    apart = [
        side for side in models[:1] if not nature.same_rows(side)
    ]  # several have nature's inputs
    if not last_resort and any(
        ruled_out(side.x, task, lam, setting, len(side), in_memory=not isinstance(side.x, Rows))
        for side in (nature, *apart)
    ):
        return [(models, None)]
    if task.grid is not nature.x:
        setting = replace(setting, grid=some_rows(task.grid))
    groups: list[tuple[list[Sample], LowRankSetting | None]] = []
    further = _COLUMN_BYTES * (_COLUMNS if _scalar(nature) else _VECTOR_COLUMNS)
    # Models share passes as long as that costs no landmarks.
    spare = min(setting.budget // _SHARED_PART, setting.budget - _BYTES_PER_PAIR * (most + 1) ** 2)
    group_size = 1 + max(0, spare // further)
    for start in range(0, len(models), group_size):
        some = models[start : start + group_size]
        groups.append((some, replace(setting, budget=setting.budget - (len(some) - 1) * further)))
    return groups


def ruled_out(
    x: Any, task: Task, lam: float, setting: LowRankSetting, n: int, *, in_memory: bool
) -> bool:
    """Tell whether a glance at inputs (m, d) shows that landmarks cannot reach the goal, or do not pay.

    That comes before output features are chosen, which would take longer.

    Parameters
    ----------
    x : array_like (m, d)
        All ``n`` rows, or some that represent them: an object with a length and a shape that returns the
        rows of an index array.
    task, lam, setting
        Parts of the computation.
    n : int
        Number of rows.
    in_memory : bool
        Whether all rows are in memory: from disk, a glance may take longer than a pass.
    """
    most = setting.most
    if not setting.give_up:
        return False
    if setting.patient:
        if n >= _MANY_ROWS or not in_memory:
            return False
        most = _MOST_LANDMARKS
    return not trace_may_suffice(
        x, n, task.backend, task.x_kernel, lam, setting.goal, setting.scale, most,
        _paying(n, x.shape[1], task, lam),
    )  # fmt: skip


def _paying(n: int, dim: int, task: Task, lam: float) -> float:
    """Return the number of landmarks, by the trace certificate, above which CG takes less time."""
    if dim == 1 or n < _PAYING_ROWS or task.backend.on_device:
        return math.inf  # there a search costs little
    size = _problem_size(n, dim, task, lam)
    hard = max(1.0, expected_products(size.condition, size.error) / _HARD_PRODUCTS)
    easy = BlockCG().estimate(size, products=FEWEST_PRODUCTS)
    of_rows = _PAYING_OPERATION * easy.total / n
    if n > ALL_CANDIDATES:
        of_rows *= _MORE_IN_PART
    if n >= _PATIENT:
        of_rows *= _MORE_PATIENT
    paying = max(_PAYING * min(hard, _PAYING_HARD), of_rows * hard)
    return paying / (min(dim, _MOST_COLUMNS) / 2) ** _PER_COLUMN


def _scalar(side: Sample) -> bool:
    """Tell whether observed outputs are numbers."""
    outputs = side.all_outputs
    return isinstance(outputs, DrawnOutputs) and outputs.values.shape[2] == 1


def _candidate_count(side: Sample) -> int:
    """Return the largest number of outputs of a side from which the low-rank form chooses features."""
    outputs = side.all_outputs
    return min(outputs.count, POOL) if isinstance(outputs, DrawnOutputs) else POOL
