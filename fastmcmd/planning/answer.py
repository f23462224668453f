"""The plan of one backend, from a subsample of the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.base import Backend
from fastmcmd.estimate.task import SOLVER_SHARE, Task
from fastmcmd.kernels import Kernel, Scaled
from fastmcmd.options import Options
from fastmcmd.planning.exact import exact_budget, exact_plan
from fastmcmd.planning.lowrank import plan_of, search
from fastmcmd.planning.observed_outputs import ObservedOutputs
from fastmcmd.planning.outcome import Plan
from fastmcmd.planning.rates import DEVICE_ROWS
from fastmcmd.planning.subsample import Subsample
from fastmcmd.rows import Rows

__all__ = ["FEATURES", "ROWS", "answer", "possible_plan", "subsample_of"]

FEATURES = 30  # approximate number of features of a scalar output under an RBF kernel
ROWS = 3000  # rows that decisions are based on, if there are as many


def subsample_of(
    x: HostArray | Rows,
    backend: str,
    outcomes: ObservedOutputs | None = None,
    scaled: Scaled | None = None,
) -> Subsample:
    """Return randomly drawn rows that represent ``x``, with their ``outcomes``, for work on a backend.

    ``scaled`` scales the columns of rows in memory.
    """
    count = DEVICE_ROWS if backend == "cupy" else ROWS
    some, theirs = _sample(x, outcomes, count)
    if isinstance(x, Rows):  # not collapsed
        on_device = backend == "cupy" and x.on_device is not None
        return Subsample(
            len(x), some, 0 if on_device else int(x.nbytes), on_device, outcomes=theirs
        )
    if scaled is not None:
        some = scaled.rows(some)
    return Subsample(len(x), some, outcomes=theirs, all_rows=x, scaled=scaled)


def _sample(
    x: HostArray | Rows, outcomes: ObservedOutputs | None, count: int
) -> tuple[HostArray, ObservedOutputs | None]:
    """Return rows in random order, and their outcomes."""
    rng = generator(len(x), Purpose.PLAN)
    index = np.sort(rng.choice(len(x), min(len(x), count), replace=False))
    order = rng.permutation(len(index))
    if outcomes is not None:
        outcomes = outcomes.take(index[order])
    return np.asarray(x[index])[order], outcomes


def answer(
    rows: Subsample,
    backend: Backend,
    kernel: Kernel,
    options: Options,
    lam: float,
    columns: int = FEATURES,
    *,
    low_rank: bool = True,
) -> Plan:
    """Return the plan of a computation.

    Parameters
    ----------
    rows : Subsample
        Inputs.
    backend, kernel, options, lam
        Parts of the computation to plan.
    columns : int
        Features of the output kernel.
    low_rank : bool
        Whether the rows show the rank of the kernel matrix.

    Raises
    ------
    MemoryLimitError
        ``memory_limit`` is too small.
    """
    plan = possible_plan(rows, backend, kernel, options, lam, columns, low_rank=low_rank)
    if plan is None:
        of = rows.distinct
        budget, least = exact_budget(of, backend, kernel, options, columns)
        raise budget.shortage(*least)
    return plan


def possible_plan(
    rows: Subsample,
    backend: Backend,
    kernel: Kernel,
    options: Options,
    lam: float,
    columns: int,
    *,
    low_rank: bool,
) -> Plan | None:
    """Return the plan of a computation, or None if ``memory_limit`` is too small; arguments as in `answer`.

    Raises
    ------
    MemoryLimitError
        ``memory_limit`` is too small for the low-rank form, which the options require.
    """
    some, choice = rows.some(ROWS), None
    if low_rank or options.solver != "auto":
        choice = search(some, Task(kernel, some.y_kernel, options, some.x), lam)
    if choice is not None and choice.landmarks:
        return plan_of(choice, some, backend, options, columns)
    of = rows.distinct
    budget, least = exact_budget(of, backend, kernel, options, columns)
    if not budget.holds(*least):
        if options.solver != "auto" or not low_rank:
            return None
        choice = search(some, Task(kernel, some.y_kernel, options, some.x), lam, last_resort=True)
        if choice is None or not choice.landmarks:
            return None
        choice = replace(choice, reason=f"memory_limit is too small for cg; {choice.reason}")
        return plan_of(choice, some, backend, options, columns)
    searched = 0 if choice is None else choice.searched
    goal = SOLVER_SHARE * options.tol
    exact = exact_plan(of, backend, kernel, options, lam, goal, columns, searched)
    reasons = [f"{of.n:,} distinct inputs"] if of is not rows else []
    seconds = exact.seconds
    if choice is not None:
        reasons.append(f"no low rank: {choice.reason}")
        seconds += choice.seconds
    return replace(exact, n=rows.n, seconds=seconds, reasons=(*reasons, *exact.reasons))
