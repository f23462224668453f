"""The public function `plan`: what `cce` would do at some inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastmcmd._base.annotations import (
    CertificateName,
    FilePath,
    HostArray,
    InputsLike,
    MemoryLimit,
    SolverName,
)
from fastmcmd._base.checks import as_rows, check_count, check_same_length
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.default_kernels import chosen_input_kernel, chosen_kernels, chosen_lam
from fastmcmd.estimate.arguments import inputs, resolved_kernels, scaled_inputs
from fastmcmd.estimate.task import Task, backend_of
from fastmcmd.kernels import RBF, Kernel, Scaled, split_scales
from fastmcmd.options import Options, where_data_are
from fastmcmd.planning.answer import FEATURES, ROWS, answer, subsample_of
from fastmcmd.planning.choice import settled
from fastmcmd.planning.observed_outputs import MOST_FEATURES, ObservedOutputs
from fastmcmd.planning.outcome import Plan
from fastmcmd.planning.subsample import Subsample
from fastmcmd.predictive import Categorical, as_predictive
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import numbered
from fastmcmd.rows import Rows

__all__ = ["plan"]


def plan(
    x: InputsLike | tuple[int, int],
    x_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    features: int | None = None,
    tol: float = 1e-6,
    solver: SolverName = "auto",
    backend: str = "auto",
    dtype: DTypeLike | None = None,
    memory_limit: MemoryLimit = None,
    certificate: CertificateName = "auto",
    rank: int | None = None,
    cache_dir: FilePath | None = None,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | str | None = None,
    y: ArrayLike | None = None,
    y_kernel: Kernel | str | None = None,
    prediction: PredictionLike | None = None,
) -> Plan:
    """Return a plan of what `cce` would do at these inputs, without the computation.

    Parameters
    ----------
    x : array_like (n, d), rows on disk, or tuple (n, d)
        Inputs, or only their shape. For a shape the plan assumes a kernel matrix of no low rank.
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs; default as in `cce`, chosen from ``x``.
    lam : float, "auto" or "paper", optional
        Regulariser; default as in `cce`.
    features : int, optional
        Number of features of the output kernel. Default: that of ``y``, else 30, which the reasons mention:
        an RBF kernel on scalar outputs needs 20 to 35, the default kernel more if it resolves outcomes
        that scatter little around steep means.
    tol, solver, backend, dtype, memory_limit, certificate, rank, cache_dir, devices
    device_memory_limit
        As in `mcmd`.
    y : array_like (n,) or (n, k), optional
        Observed outputs, which determine ``features``.
    y_kernel : Kernel, "auto" or "paper", optional
        Kernel on outputs, used with ``y``; default as in `cce`.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object, optional
        The predictions of ``y``, as in `cce`. Expectations under distributions take time, for some families
        more than everything else; without predictions the plan counts draws.

    Returns
    -------
    Plan
        Backend, solver, landmarks, cache, memory, passes, seconds and reasons.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.
    MemoryLimitError
        ``memory_limit`` is too small for any method.

    Notes
    -----
    The solvers run on a thirtieth of the rows, or a ninth if that leaves too much open, but on 1,000 to
    2,500, with the costs and the memory of all rows; 3,000 rows show how many landmarks are needed. For
    ``seconds``, a product, a pass over some rows and the expectations of some predictions are timed.
    Without ``y`` outputs are made up. They matter little, except for the sampled certificate of the
    low-rank form, and where CG just reaches ``tol`` after a product. Of stored tiles ``seconds`` includes
    half a second per gigabyte for memory that is used for the first time. A call takes longer than planned
    where a certificate just misses the tolerance and part of the work is repeated.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> x = np.random.default_rng(0).uniform(-2, 2, (20_000, 1))
    >>> plan = fm.plan(x, fm.RBF(0.5))
    >>> plan.solver
    'lowrank'
    """
    backend, devices = where_data_are(backend, devices, x)
    options = Options.of(
        tol=tol, solver=solver, backend=backend, dtype=dtype, memory_limit=memory_limit,
        progress=False, certificate=certificate, rank=rank, cache_dir=cache_dir,
        devices=devices, device_memory_limit=device_memory_limit,
    )  # fmt: skip
    lam = chosen_lam(lam, x_kernel)
    shape = x if _is_shape(x) else None
    rows = inputs(x, "x", options) if shape is None else _of_shape(shape)
    if features is not None:
        features = check_count(features, "features")
    if y is None:
        if prediction is not None:
            raise ValueError("prediction is given without y; pass the observed outputs, too")
        input_kernel, outcomes = chosen_input_kernel(rows, x_kernel), None
    else:
        if shape is not None:
            raise ValueError("y is given with only the shape of x; its kernel needs x, too")
        input_kernel, outcomes = _outcomes(rows, y, prediction, x_kernel, y_kernel)
    if shape is not None:
        input_kernel, _, (rows,) = scaled_inputs(input_kernel, x=rows)
        kernel = _resolved(input_kernel, rows)
        some = Subsample(shape[0], rows, made_up=True)
        all_rows: Rows | Subsample = some
    else:
        all_rows, some, kernel = _sampled(rows, input_kernel, options.backend, outcomes)
    some, columns, origin = _with_features(some, outcomes, features, kernel, options, lam)
    options = settled(options, (kernel, some.y_kernel), all_rows, lam, columns)
    if options.backend == "cupy" and backend != "cupy" and shape is None:
        outcomes, some = some.outcomes, _sampled(rows, input_kernel, "cupy", outcomes)[1]
        if outcomes is not None and some.outcomes is not None:
            some = replace(some, outcomes=some.outcomes.like(outcomes))
    result = answer(
        some, backend_of(options, kernel), kernel, options, lam, columns, low_rank=shape is None
    )
    assumptions = [one for one in (options.backend_reason, origin) if one]
    if shape is not None:
        assumptions.append("from the shape alone: standard normal rows of no low rank are assumed")
    return replace(result, reasons=(*assumptions, *result.reasons))


def _outcomes(
    rows: HostArray | Rows,
    y: ArrayLike,
    prediction: PredictionLike | None,
    x_kernel: Kernel | str | None,
    y_kernel: Kernel | str | None,
) -> tuple[Kernel, ObservedOutputs]:
    """Return the input kernel chosen with observed outputs, and these with their predictions."""
    y = numbered(y, prediction)
    observed = as_rows(y, "y")
    check_same_length(x=rows, y=observed)
    predicted = None
    if prediction is not None:
        predicted = as_predictive(prediction, *observed.shape, y=y, x=rows)
    classes = isinstance(predicted, Categorical)
    of_inputs, of_outputs, _ = chosen_kernels(rows, observed, x_kernel, y_kernel, classes=classes)
    kernel = of_outputs.resolve(observed.astype(np.float64, copy=False))
    return of_inputs, ObservedOutputs(observed, kernel, predicted)


def _resolved(kernel: Kernel, rows: HostArray | Rows) -> Kernel:
    """Return the checked input kernel with its parameters."""
    return resolved_kernels(kernel, RBF("variance"), rows, np.array([[0.0], [1.0]]))[0]


def _sampled(
    rows: HostArray | Rows, kernel: Kernel, backend: str, outcomes: ObservedOutputs | None
) -> tuple[Rows | Subsample, Subsample, Kernel]:
    """Return what represents all rows, a subsample, and the kernel of its rows.

    Of rows in memory only the subsample is scaled, unless the kernel's parameters depend on all of them.
    """
    scales, inner = split_scales(kernel)
    if scales is not None and inner.is_resolved and not isinstance(rows, Rows):
        some = subsample_of(rows, backend, outcomes, Scaled(inner, scales))
        return some, some, _resolved(inner, some.x)
    inner, _, (rows,) = scaled_inputs(kernel, x=rows)
    some = subsample_of(rows, backend, outcomes)
    return rows if isinstance(rows, Rows) else some, some, _resolved(inner, rows)


def _with_features(
    some: Subsample,
    outcomes: ObservedOutputs | None,
    features: int | None,
    kernel: Kernel,
    options: Options,
    lam: float,
) -> tuple[Subsample, int, str]:
    """Return the subsample with features of its outcomes, their number, and its origin."""
    if outcomes is None or some.outcomes is None:
        if features is not None:
            return some, features, ""
        reason = f"{FEATURES} features of outputs are assumed; y= or features= say how many"
        return some, FEATURES, reason
    featured = outcomes.with_features(Task(kernel, outcomes.kernel, options, some.x), lam)
    if featured is None or featured.features is None:
        reason = f"y needs more than {MOST_FEATURES:,} features"
        return replace(some, outcomes=None), features or MOST_FEATURES, reason
    some = replace(some, outcomes=some.outcomes.like(featured))
    if features is not None:
        return some, features, ""
    rank = featured.features.rank
    of = "y" if outcomes.prediction is None else "y and its predictions"
    return some, rank, f"{rank} features of outputs, from {of}"


def _is_shape(x: object) -> TypeGuard[tuple[int, int]]:
    return isinstance(x, tuple) and len(x) == 2 and all(isinstance(size, int) for size in x)


def _of_shape(shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return random rows for a shape, at most `ROWS` of them."""
    n, d = shape
    if n < 1 or d < 1:
        raise ValueError(f"x is {shape}; a shape (n, d) of positive numbers is needed")
    rng = generator(0, Purpose.PLAN)
    return rng.standard_normal((min(n, ROWS), d), dtype=np.float32)
