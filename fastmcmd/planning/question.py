"""The public function `plan`: what `cce` would do at some inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastmcmd._base.annotations import (
    CertificateName,
    FilePath,
    InputsLike,
    MemoryLimit,
    SolverName,
)
from fastmcmd._base.checks import as_rows, check_count, check_same_length
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.default_kernels import chosen_input_kernel, chosen_kernels, chosen_lam
from fastmcmd.embedding.features import output_features
from fastmcmd.estimate.arguments import inputs, resolved_kernels, scaled_inputs
from fastmcmd.estimate.task import backend_of
from fastmcmd.kernels import RBF, Kernel
from fastmcmd.options import Options, where_data_are
from fastmcmd.planning.answer import FEATURES, ROWS, answer, subsample_of
from fastmcmd.planning.choice import settled
from fastmcmd.planning.outcome import Plan
from fastmcmd.planning.subsample import MOST_FEATURES, ObservedOutputs, Subsample

__all__ = ["plan"]

# Residual of the features that are counted: less than a call needs of these outputs, because it needs as
# much of a model's, too.
_EPS = 1e-15


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
    The solvers run on a twelfth of the rows, 1,500 to 4,000, with the costs and the memory of all rows; at
    most 20,000 rows show how many landmarks are needed. The products that they make, and a pass over some
    rows, are timed for ``seconds``. Without ``y`` outputs are made up. They matter little, except for the
    sampled certificate of the low-rank form, and where CG just reaches ``tol`` after a product. Of stored
    tiles ``seconds`` includes half a second per gigabyte for memory that is used for the first time.

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
    given_rows = None if shape is not None else rows
    features, origin, of_y = _features(features, given_rows, x_kernel, y, y_kernel)
    input_kernel = of_y.x_kernel if of_y else chosen_input_kernel(rows, x_kernel)
    input_kernel, options, (rows,) = scaled_inputs(input_kernel, options, x=rows)
    kernels = resolved_kernels(input_kernel, RBF("variance"), rows, np.array([[0.0], [1.0]]))
    like = rows if shape is None or not isinstance(rows, np.ndarray) else Subsample(shape[0], rows)
    options = settled(options, kernels, like, lam, features)
    kernel = kernels[0]
    some = like
    if not isinstance(some, Subsample):
        some = subsample_of(some, options.backend, of_y.outcomes if of_y else None)
    result = answer(
        some, backend_of(options, kernel), kernel, options, lam, features, low_rank=shape is None
    )
    assumptions = [one for one in (options.backend_reason, origin) if one]
    if shape is not None:
        assumptions.append("from the shape alone: standard normal rows of no low rank are assumed")
    return replace(result, reasons=(*assumptions, *result.reasons))


@dataclass(frozen=True, eq=False)
class _OfOutputs:
    """The input kernel chosen with observed outputs, and the outputs if their kernel has low rank."""

    x_kernel: Kernel
    outcomes: ObservedOutputs | None


def _features(
    features: int | None, rows: Any, x_kernel: Any, y: Any, y_kernel: Any
) -> tuple[int, str, _OfOutputs | None]:
    """Return the number of features of the output kernel, its origin, and what else ``y`` gives."""
    if features is not None:
        return check_count(features, "features"), "", None
    if y is None:
        reason = f"{FEATURES} features of outputs are assumed; y= or features= say how many"
        return FEATURES, reason, None
    if rows is None:
        raise ValueError("y is given with only the shape of x; its kernel needs x, too")
    outputs = as_rows(y, "y")
    check_same_length(x=rows, y=outputs)
    of_inputs, of_outputs, _ = chosen_kernels(rows, outputs, x_kernel, y_kernel)
    index = np.linspace(0, len(outputs) - 1, ROWS).astype(np.intp)
    ends = [outputs.argmin(axis=0), outputs.argmax(axis=0)]
    some = np.unique(outputs[np.concatenate([index, *ends])].astype(np.float64), axis=0)
    kernel = of_outputs.resolve(outputs.astype(np.float64, copy=False))
    factored = output_features(kernel, get_backend("auto", kernel), some, _EPS, MOST_FEATURES)
    if factored is None:
        reason = f"y needs more than {MOST_FEATURES:,} features"
        return MOST_FEATURES, reason, _OfOutputs(of_inputs, None)
    rank = factored[0].rank
    reason = f"{rank} features of outputs, from y"
    return rank, reason, _OfOutputs(of_inputs, ObservedOutputs(outputs, kernel))


def _is_shape(x: object) -> TypeGuard[tuple[int, int]]:
    return isinstance(x, tuple) and len(x) == 2 and all(isinstance(size, int) for size in x)


def _of_shape(shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return random rows for a shape, at most `ROWS` of them."""
    n, d = shape
    if n < 1 or d < 1:
        raise ValueError(f"x is {shape}; a shape (n, d) of positive numbers is needed")
    rng = generator(0, Purpose.PLAN)
    return rng.standard_normal((min(n, ROWS), d), dtype=np.float32)
