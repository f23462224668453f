"""The plan of the low-rank form: the number of landmarks, the certificate, and the time of the passes."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from fastmcmd.backends.base import Backend
from fastmcmd.estimate.budget import low_rank_peak
from fastmcmd.estimate.landmark_choice import CANDIDATES, LOOKED_THROUGH, candidates_at
from fastmcmd.estimate.lowrank_choice import low_rank_setting, ruled_out
from fastmcmd.estimate.lowrank_form import POOL
from fastmcmd.estimate.part_problem import block_rows
from fastmcmd.estimate.task import Task
from fastmcmd.options import Options
from fastmcmd.planning.landmark_trial import LandmarkTrial, Search
from fastmcmd.planning.outcome import Plan
from fastmcmd.planning.subsample import Subsample

__all__ = ["plan_of", "search"]

_MANY = 3 * CANDIDATES // 2  # rows beyond which many rows are no candidates


def search(rows: Subsample, task: Task, lam: float, *, last_resort: bool = False) -> Search | None:
    """Search for landmarks as the fit would; return None if the fit would not even search.

    Parameters
    ----------
    rows : Subsample
        Rows to search.
    task : Task
        Kernels and options, with these rows as evaluation points.
    lam : float
        Regulariser.
    last_resort : bool
        Whether no other solver fits in memory.

    Raises
    ------
    MemoryLimitError
        The landmarks that the options require do not fit in ``memory_limit``.
    """
    n, backend, kernel = rows.n, task.backend, task.x_kernel
    outputs = 2 * min(n, POOL)
    setting = low_rank_setting(n, rows.dim, outputs, n, task, lam, last_resort=last_resort)
    if setting is None:
        return None
    start = time.perf_counter()
    if not last_resort and ruled_out(
        rows.every, task, lam, setting, n, in_memory=rows.all_rows is not None
    ):
        seconds = time.perf_counter() - start
        return Search(0, seconds=seconds, reason="a glance at the rows rules it out")
    trial = LandmarkTrial(rows, backend, kernel, setting, lam)
    landmarks = trial.result()
    if landmarks.landmarks:
        landmarks = replace(landmarks, a_row=trial.pass_seconds(landmarks))
    # The fit searches more candidates than these rows, and perhaps up to more landmarks. Its time grows
    # with the number of candidates, and with the square of the number of landmarks.
    searched = candidates_at(landmarks.landmarks, rows.n)
    more = trial.searching * searched / trial.candidate_count
    further = max(1.0, landmarks.landmarks / trial.rank) ** 2
    seconds = more * further + trial.choosing
    if landmarks.landmarks:
        seconds += trial.predicting(landmarks, task)
    if rows.n > _MANY and landmarks.landmarks >= LOOKED_THROUGH:
        # All rows are looked through for isolated ones, later a quarter of them with four times as many.
        looks = 1 + int(math.log(landmarks.landmarks / LOOKED_THROUGH, 4))
        a_look = rows.n * landmarks.a_row[1] * LOOKED_THROUGH / landmarks.landmarks
        seconds += looks * a_look
    return replace(landmarks, seconds=seconds, searched=searched)


def plan_of(
    search: Search,
    rows: Subsample,
    backend: Backend,
    options: Options,
    columns: int,
) -> Plan:
    """Return the plan of the low-rank form with the landmarks of a search."""
    landmarks, n = search.landmarks, rows.n
    sampled = search.kind == "sampled"
    candidates = min(n, CANDIDATES, max(2 * landmarks, options.memory_limit // (32 * landmarks)))
    peak = low_rank_peak(
        rows=n, points=n, dim=rows.dim, models=1, columns=columns, rank=landmarks,
        outputs=2 * min(n, POOL), searched=candidates, residual_bytes=0,
        block=block_rows(options.memory_limit // 6, landmarks, columns, rows.dim),
    )  # fmt: skip
    memory = min(options.memory_limit, peak)
    passes = "one pass for the normal equations"
    passes += ", one over residuals for the certificate" if sampled else ""
    seconds = search.seconds + n * sum(search.a_row)
    return Plan(
        n, rows.dim, backend.name, "lowrank", landmarks, "streamed", memory, 1 + sampled,
        seconds, (search.reason, passes),
    )  # fmt: skip
