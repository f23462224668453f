"""The dense form of two samples: their outputs, or the nodes of predictions, and memory for systems."""

from __future__ import annotations

from fastmcmd.embedding.expected import node_error, node_outputs
from fastmcmd.embedding.features import pooled
from fastmcmd.embedding.sample import PredictedOutputs, Sample
from fastmcmd.errors import NumericalError
from fastmcmd.estimate.budget import Budget
from fastmcmd.estimate.dense import DenseFit, least_room, spread_matrix
from fastmcmd.estimate.outputs import MOST_PAIRS, MOST_RANK
from fastmcmd.estimate.task import Task
from fastmcmd.threads import get_num_threads

__all__ = ["fit_dense"]


def fit_dense(nature: Sample, model: Sample, task: Task) -> tuple[DenseFit, int]:
    """Return the dense form of two samples, and the bytes it takes besides matrices.

    Raises
    ------
    ValueError
        Predicted distributions whose nodes have too many pairs.
    MemoryLimitError
        ``memory_limit`` has no room for it.
    """
    options, x_kernel, y_kernel = task.options, task.x_kernel, task.y_kernel
    samples = nature, model
    drawn = [
        node_outputs(side.outputs.prediction)
        if isinstance(side.outputs, PredictedOutputs)
        else side.outputs
        for side in samples
    ]
    values, where = pooled(drawn[0].flat, drawn[1].flat)
    predicted = any(isinstance(side.outputs, PredictedOutputs) for side in samples)
    if predicted and float(len(values)) ** 2 * len(task.grid) > MOST_PAIRS:
        raise NumericalError(
            f"draws=None: {y_kernel!r} has no low rank over the predicted distributions (more than "
            f"{MOST_RANK} features), and sums over all pairs of their {len(values):,} quadrature nodes "
            "would take too long; use draws=100, say, or a smoother y_kernel"
        )
    n = max(len(nature.design), len(model.design))
    budget = Budget.of(
        options.memory_limit, n=n, columns=16, outputs=len(values), rank=16, points=64,
        threads=get_num_threads(),
    )  # fmt: skip
    asked: tuple[()] | tuple[int, str] = ()
    if options.solver == "cholesky":
        asked = least_room(samples, task.backend, x_kernel, options)
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
            for side in samples
            if isinstance(side.outputs, PredictedOutputs)
        ),
    )
    if options.solver in ("lowrank", "nystrom"):
        form.notes.append(
            f"y_kernel has no low rank over these outputs, which solver={options.solver!r} needs: "
            "went on in dense form (lowrank is for output features)"
        )
    return form, budget.working
