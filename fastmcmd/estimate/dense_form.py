"""Construction of the dense form of two samples: outputs or nodes of predictions, and the memory budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.base import Backend
from fastmcmd.embedding.atoms import normal_atoms
from fastmcmd.embedding.densities import has_panels
from fastmcmd.embedding.design import Design
from fastmcmd.embedding.exponential_sums import densities_kernel, split_delta
from fastmcmd.embedding.features import pooled
from fastmcmd.embedding.panel_densities import SharedPanels, shared_panels
from fastmcmd.embedding.panel_gram import PanelOutputs
from fastmcmd.embedding.quadrature import refined_nodes
from fastmcmd.embedding.sample import DrawnOutputs, PredictedOutputs, Sample
from fastmcmd.embedding.spread import Spread
from fastmcmd.errors import NumericalError
from fastmcmd.estimate.budget import Budget
from fastmcmd.estimate.dense import MATRIX_SHARE, DenseFit, distinct_samples
from fastmcmd.estimate.outputs import (
    MOST_PAIRS,
    MOST_RANK,
    any_predicted,
    is_atomless,
    pairs_in_closed_form,
    sums_exponentials,
)
from fastmcmd.estimate.task import Task, backend_of
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.predictive import Draws
from fastmcmd.solvers.cholesky import least_bytes

__all__ = ["fit_dense"]

_MOST_IN_CLOSED_FORM = 5000  # inputs; of more, densities on panels take less time than all pairs
_MOST_PANELS = 300  # of 16 polynomials each
# Factors of the goal of expectations, whose share of the tolerance is 1 / 20. The second leaves more than
# the tolerance, but still far less than nodes would.
_COARSER = (8.0, 100.0)


def fit_dense(nature: Sample, model: Sample, task: Task) -> tuple[DenseFit, int]:
    """Return the dense form of two samples, and the bytes it needs besides matrices.

    Raises
    ------
    ValueError
        The nodes of predicted distributions have too many pairs.
    MemoryLimitError
        The form does not fit in ``memory_limit``.
    """
    options, x_kernel, y_kernel = task.options, task.x_kernel, task.y_kernel
    samples = nature, model
    in_closed_form = pairs_in_closed_form(samples, task)
    may_pair = in_closed_form and len(model) <= _MOST_IN_CLOSED_FORM
    on_panels = None if may_pair else _on_panels(samples, task)
    if on_panels is not None:
        return _panel_form(samples, on_panels, task)
    if in_closed_form:
        atoms, node_error = [normal_atoms(side.outputs) for side in samples], None
        atomless = False, False
    else:
        has_delta = split_delta(y_kernel)[1]
        atomless = (
            has_delta and is_atomless(nature.outputs),
            has_delta and is_atomless(model.outputs),
        )
        atoms, node_error = _by_nodes(samples, atomless, task)
    values, where = pooled(atoms[0].flat, atoms[1].flat)
    if any_predicted(samples) and _pairs(len(values), samples, task) * len(task.grid) > MOST_PAIRS:
        raise NumericalError(
            f"draws=None: {y_kernel!r} has no low rank over the predicted distributions (more than "
            f"{MOST_RANK} features), and sums over all pairs of their {len(values):,} "
            f"{'atoms' if in_closed_form else 'quadrature nodes'} would take too long; use draws=100, "
            "say, or a smoother y_kernel"
        )
    columns = atoms[0].values.shape[2] // (2 if in_closed_form else 1)
    budget, least = _budget(samples, len(values), task)
    form = DenseFit(
        backend=_backend(task),
        x_kernel=x_kernel,
        y_kernel=y_kernel,
        samples=samples,
        outputs=np.ascontiguousarray(values[:, :columns]),
        deviations=values[:, columns:] if in_closed_form else None,
        spread=(
            _spread_of(nature, atoms[0], where[0], 1.0),
            _spread_of(model, atoms[1], where[1], -1.0),
        ),
        budget=budget.available(*least),
        options=options,
        node_error=node_error,
        points=None if task.stays else len(task.grid),
        atomless=atomless,
        input_features=task.known_input_features(nature),
    )
    if options.solver in ("lowrank", "nystrom"):
        form.notes.append(
            f"y_kernel has no low rank over these outputs, which solver={options.solver!r} needs: "
            "switched to dense form (lowrank is for output features)"
        )
    return form, budget.working


def _budget(
    samples: tuple[Sample, Sample], outputs: int, task: Task
) -> tuple[Budget, tuple[()] | tuple[int, str]]:
    """Return the budget, and the least bytes that a direct solver needs with a phrase for the message."""
    options = task.options
    n = max(len(sample.design) for sample in samples)
    budget = Budget.of(
        options.memory_limit, n=n, columns=16, outputs=outputs, rank=16, points=64,
        threads=get_num_threads(), in_stages=False,
    )  # fmt: skip
    if options.solver == "cholesky":
        return budget, _least_memory(samples, task.backend, task.x_kernel, options)
    return budget, ()


def _backend(task: Task) -> Backend:
    """Return the backend of both kernels: that of every compiled kernel, or one for this pair."""
    if task.x_kernel.compiled and task.y_kernel.compiled:
        return task.backend
    return backend_of(task.options, task.x_kernel + task.y_kernel)


def _on_panels(samples: tuple[Sample, Sample], task: Task) -> SharedPanels | None:
    """Return the model's densities on panels of the line, or None if these do not serve."""
    nature, model = samples
    if not (
        isinstance(nature.outputs, DrawnOutputs)
        and isinstance(model.outputs, PredictedOutputs)
        and has_panels(model.outputs.prediction)
    ):
        return None
    kernel = densities_kernel(task.y_kernel)
    if kernel is None:
        return None
    inputs, most = len(nature.design) + len(model.design), _MOST_PANELS
    while most and PanelOutputs.bytes_of(most, inputs) > task.options.memory_limit // 4:
        most //= 2
    goal = task.expectation_error(model.lam)
    for coarser in _COARSER:
        some = shared_panels(model.outputs.prediction, kernel, coarser * goal, most)
        if some is not None:
            return some
    return None


def _panel_form(
    samples: tuple[Sample, Sample], on_panels: SharedPanels, task: Task
) -> tuple[DenseFit, int]:
    """Return the dense form of nature's single outputs and the model's densities, and its working bytes."""
    nature, model = samples
    assert isinstance(nature.outputs, DrawnOutputs)
    values, (where,) = pooled(nature.outputs.flat)
    spread = _spread_of(nature, nature.outputs, where, 1.0)
    densities = PanelOutputs.of(
        on_panels.panels,
        model.design.average(on_panels.coefficients),
        values[:, 0],
        spread,
        len(nature.design),
    )
    error = model.design.average(on_panels.error[:, None])[:, 0]
    budget, least = _budget(samples, len(values), task)
    none = np.zeros(0, dtype=np.intp)
    form = DenseFit(
        backend=_backend(task),
        x_kernel=task.x_kernel,
        y_kernel=task.y_kernel,
        samples=samples,
        outputs=values,
        spread=(spread, Spread(none, none, np.zeros(0))),
        budget=budget.available(*least),
        options=task.options,
        node_error=float(np.sqrt((error**2 / model.shift).sum())),
        points=len(task.grid),
        input_features=task.known_input_features(nature),
        densities=densities,
    )
    return form, budget.working


def _pairs(outputs: int, samples: tuple[Sample, Sample], task: Task) -> float:
    """Return the pairs of outputs in a quadratic form, or the work of its linear time in pairs."""
    in_linear_time = not pairs_in_closed_form(samples, task) and sums_exponentials(samples, task)
    return 64.0 * outputs if in_linear_time else float(outputs) ** 2


def _by_nodes(
    samples: tuple[Sample, Sample], atomless: tuple[bool, ...], task: Task
) -> tuple[list[DrawnOutputs], float | None]:
    """Return predictions as weighted nodes, and the norm ``sum ||D^(-1/2) d||`` of their errors d.

    Densities give single outputs no probability; their nodes are for the kernel without its `Delta` parts.
    """
    sides: list[DrawnOutputs] = []
    total: float | None = None
    for side, no_atoms in zip(samples, atomless, strict=True):
        if isinstance(side.outputs, DrawnOutputs):
            sides.append(side.outputs)
            continue
        prediction = side.outputs.prediction
        goal = task.expectation_error(side.lam)
        kernel = split_delta(task.y_kernel)[0] if no_atoms else task.y_kernel
        if kernel is None:  # the embedding is zero
            some = np.asarray(prediction.quantile(0.5), dtype=np.float64)
            shape = len(prediction), 1, prediction.columns
            sides.append(DrawnOutputs(some.reshape(shape), np.zeros(shape[:2])))
            continue
        nodes, error = refined_nodes(prediction, kernel, goal)
        sides.append(nodes)
        if not (prediction.discrete or isinstance(prediction, Draws)):
            error = side.design.average(error[:, None])[:, 0]
            total = (total or 0.0) + float(np.sqrt((error**2 / side.shift).sum()))
    return sides, total


def _least_memory(
    samples: tuple[Sample, Sample], backend: Backend, x_kernel: Kernel, options: Options
) -> tuple[int, str]:
    """Return the least bytes that solver="cholesky" needs in dense form, and a phrase for the message."""
    distinct = distinct_samples(samples)
    sample = max(distinct, key=lambda sample: len(sample.design))
    dtype = options.dtype or EXACT
    operator = GramOperator(backend, x_kernel, sample.design.x, dtype, options.memory_limit)
    need, purpose = least_bytes(operator, options.cache_dir)
    return -(-need * len(distinct) * MATRIX_SHARE[1] // MATRIX_SHARE[0]), purpose


def _spread_of(
    sample: Sample, outputs_of_rows: DrawnOutputs, where: NDArray[np.intp], sign: float
) -> Spread:
    """Return how coefficients of inputs spread over distinct outputs, at ``where``."""
    design, draws = sample.design, outputs_of_rows.values.shape[1]
    rows = len(outputs_of_rows.values)
    source = np.arange(rows) if design.group is None else design.group
    share = sign * outputs_of_rows.share
    if design.group is not None:  # else each row is its own input: the weights cancel
        share *= np.repeat(_row_weight(design, rows) / design.weight[source], draws)
    return Spread(source if draws == 1 else np.repeat(source, draws), where, share)


def _row_weight(design: Design, rows: int) -> NDArray[np.float64]:
    return np.ones(rows) if design.row_weight is None else design.row_weight
