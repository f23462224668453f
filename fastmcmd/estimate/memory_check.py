"""An early look whether `memory_limit` can hold a solve, before anything of its size is allocated.

The memory of a solve follows from the shapes and the rank of the output kernel. A few hundred outputs give
the rank; a few thousand rows give a lower bound on the number of distinct inputs and outputs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.threads import get_num_threads
from fastmcmd.embedding.candidates import candidates
from fastmcmd.embedding.features import output_features, pooled_with_importance
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.estimate.budget import TILE_BYTES, Budget
from fastmcmd.estimate.feature_form import least_for
from fastmcmd.estimate.outputs import expected_outputs
from fastmcmd.estimate.task import Task

__all__ = ["exceeding_budget"]

_GLANCED = 2000  # rows that are searched for repeats
_OUTPUTS = 600  # outputs of a side that give the rank
_PREDICTED = 50  # predictions that represent all
_MOST_RANK = 256  # largest rank of the search
# For smaller problems the exact sizes give the refusal a little later: the memory that is allocated until
# then is less than any call needs.
_SMALL = 16_000_000
_DENSE = 16  # columns and rank of the dense form's budget
# With fewer than g^2 / 16 distinct rows, g sampled rows show no repeat with probability e^-8 at most.
_REPEATS = 16


def exceeding_budget(nature: Sample, model: Sample, task: Task) -> Budget | None:
    """Return a budget above ``memory_limit`` if that is too small for CG or Cholesky, else None.

    Nothing of the size of the problem is allocated. None is no guarantee: unknown sizes count with their
    lower bounds. The budget is an estimate, for the message of its `Budget.available`.
    """
    sides = nature, model
    n, outputs = max(map(len, sides)), sum(map(expected_outputs, sides))
    if _budget(n, _MOST_RANK, outputs, sides, task).holds():
        return None
    rank = _rank(sides, task)
    if rank is None:
        least = most = usual = _DENSE
    else:
        # All outputs have a rank of 0.8 to 1.3 times that of some, and mostly a little more.
        least, most, usual = (math.ceil(share * rank) for share in (0.8, 1.3, 1.1))
        most += 6
    if _budget(n, most, outputs, sides, task).holds(*least_for(list(sides), task)):
        return None
    budget = _budget(n, usual, outputs, sides, task)
    if budget.working <= get_num_threads() * TILE_BYTES + _SMALL:
        return None
    rows = max(_distinct(_some_inputs(side), len(side)) for side in sides)
    different = max(_distinct_outputs(side) for side in sides)
    return None if _budget(rows, least, different, sides, task).holds() else budget


def _budget(n: int, rank: int, outputs: int, sides: tuple[Sample, Sample], task: Task) -> Budget:
    nature, model = sides
    has_common_system = model.twin is nature and nature.lam == model.lam
    return Budget.of(
        task.options.memory_limit, n=n, columns=rank * (1 if has_common_system else 2), outputs=outputs,
        rank=rank, points=len(task.grid), threads=get_num_threads(), estimated=True,
        on_device=task.backend.on_device,
    )  # fmt: skip


def _spread(n: int, count: int) -> NDArray[np.intp]:
    """Return the indices of evenly spaced rows."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.intp))


def _some_inputs(side: Sample) -> NDArray[np.float64]:
    rows = np.sort(
        generator(len(side), Purpose.PLAN).choice(
            len(side), min(len(side), _GLANCED), replace=False
        )
    )
    if side.weights is not None:
        rows = rows[side.weights[rows] > 0]
    return np.asarray(side.x[rows])


def _distinct_outputs(side: Sample) -> int:
    """Return a lower bound on a side's number of distinct outputs; 1 for predicted distributions."""
    outputs = side.all_outputs
    if not isinstance(outputs, DrawnOutputs):
        return 1
    some = outputs.flat[_spread(outputs.count, _GLANCED)]
    return _distinct(np.asarray(some, dtype=np.float64), outputs.count)


def _distinct(some: NDArray[np.float64], n: int) -> int:
    """Return a lower bound on the number of distinct rows among n, from ``some`` of them."""
    count = len(np.unique(some, axis=0))
    if count < len(some):
        return count
    return n if len(some) == n else min(n, max(count, len(some) ** 2 // _REPEATS))


def _rank(sides: tuple[Sample, Sample], task: Task) -> int | None:
    """Return the rank of the output kernel on some outputs, or None if it is large."""
    parts = []
    for side in sides:
        outputs = side.all_outputs
        if isinstance(outputs, DrawnOutputs):
            values = np.asarray(outputs.flat[_spread(outputs.count, _OUTPUTS)], dtype=np.float64)
            parts.append((values, np.ones(len(values))))
        else:
            some = outputs.take(_spread(len(outputs.prediction), _PREDICTED))
            values, importance = candidates(some.prediction)
            rows = _spread(len(values), _OUTPUTS)
            parts.append((values[rows], importance[rows]))
    values, _, importance = pooled_with_importance(*parts)
    nature, model = sides
    eps = task.feature_residual(nature.lam, model.lam)
    most = min(_MOST_RANK, max(1, len(values) // 2))
    factored = output_features(task.y_kernel, task.y_backend, values, eps, most, importance)
    return None if factored is None else factored[0].rank
