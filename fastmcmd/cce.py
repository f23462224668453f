"""The conditional congruence error of a predictive model, as a function and as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numpy.typing import ArrayLike, DTypeLike

from fastmcmd._base.annotations import (
    CertificateName,
    Encoder,
    FilePath,
    InputsLike,
    Landmarks,
    MemoryLimit,
    RandomState,
    SolverName,
)
from fastmcmd._base.blockwise import is_blockwise, on_blocks
from fastmcmd.estimate.arguments import check_files, common_dtype
from fastmcmd.estimate.samples import encoded_inputs, problem_of
from fastmcmd.frames import check_row_order
from fastmcmd.gram import shared_row_statistics
from fastmcmd.inference.chance import Chance
from fastmcmd.kernels.base import KernelLike
from fastmcmd.mcmd import evaluate_at
from fastmcmd.options import Options, where_data_are
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.result import Result, on_device_of

__all__ = ["cce"]


def cce(
    x: InputsLike,
    y: ArrayLike,
    prediction: PredictionLike,
    at: InputsLike | None = None,
    x_kernel: KernelLike = None,
    y_kernel: KernelLike = None,
    lam: float | str | None = None,
    draws: int | None = None,
    encoder: Encoder | None = None,
    weights: ArrayLike | None = None,
    random_state: RandomState = None,
    tol: float = 1e-6,
    solver: SolverName = "auto",
    backend: str = "auto",
    dtype: DTypeLike | None = None,
    memory_limit: MemoryLimit = None,
    progress: bool = False,
    certificate: CertificateName = "auto",
    rank: int | None = None,
    landmarks: Landmarks = None,
    out: FilePath | None = None,
    cache_dir: FilePath | None = None,
    checkpoint: FilePath | None = None,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | str | None = None,
    client: object = None,
) -> Result:
    """Return the conditional congruence error of predictions at each input, with certified error bounds.

    Parameters
    ----------
    x : array_like (n, d) or (n,), or rows on disk
        Inputs, or objects that ``encoder`` turns into such an array. Rows on disk as in `mcmd`.
    y : array_like (n, k) or (n,)
        Observed outputs.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object
        The predicted distribution for each row of ``x``: a `Predictive` such as ``Gaussian(mean,
        std)``, draws of shape (n,) or (n, l) (vector outputs: (n, k) or (n, l, k)), or a frozen
        distribution whose parameters have n entries.
    at : array_like (q, d) or (q,), optional
        Inputs at which to evaluate the CCE. They need no outputs. Default: ``x``.
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs. Default ("auto"): the mean of three RBFs with lengths l, l/2 and l/4 on
        standardised columns, where l is the median distance. "paper": the published
        ``Polynomial(degree=3, gamma=None, coef0=1)``.
    y_kernel : Kernel, "auto" or "paper", optional
        Kernel on outputs. Default ("auto"): the mean of two RBFs, one as wide as all outcomes and one as
        wide as the outcomes at one input; `Delta` if the prediction is `Categorical` or y is bool. "paper":
        the published ``RBF("variance")``.
    lam : float, "auto" or "paper", optional
        Regulariser, positive. Default: 0.01; with ``x_kernel="paper"`` the published 0.1.
    draws : int, optional
        None: exact expectations under the predictions (all draws, if the prediction is draws), without
        Monte-Carlo noise. An integer: that many random draws per input (1 in the publication).
    encoder : callable, optional
        Function applied to ``x`` and ``at``; the kernel receives its result.
    weights : array_like (n,), optional
        Nonnegative weights of the rows.
    random_state : int, numpy.random.Generator or None
        Source of the random draws.
    tol, solver, backend, dtype, memory_limit, progress, certificate, rank, landmarks, out
    cache_dir, checkpoint, devices, device_memory_limit
        As in `mcmd`.
    client : distributed.Client, optional
        The cluster that computes if arguments are Dask collections; see `fastmcmd.distributed`. Default:
        the current client, or this process without one.

    Returns
    -------
    Result
        ``values`` (q,), the CCE at each point; ``mean``, ``error_bounds``, ``error_bound``, ``info``. The
        following (q,) are computed on first access: ``null_mean`` (expectation for a right model),
        ``excess`` (squared CCE beyond noise) and ``effective_rows`` (support).

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    ``CCE(x)`` is the MCMD at x between S = (x_i, y_i) and S' = (x_i, draws of the prediction at x_i)
    (Young et al., arXiv 2405.12412, section 4).

    The default kernels depend on x and y but never on the prediction, so values of several models on the
    same data can be compared. Values on other data or with other kernels cannot. docs/kernels.md defines
    the default kernels.

    Examples
    --------
    The second model knows the mean but claims three times the right spread. Its CCE is larger at every
    input.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 500)
    >>> y = x + 0.3 * rng.normal(size=500)
    >>> good = fm.cce(x, y, fm.Gaussian(x, 0.3), at=[-1.0, 0.0, 1.0])
    >>> bad = fm.cce(x, y, fm.Gaussian(x, 0.9), at=[-1.0, 0.0, 1.0])
    >>> good.values.round(2).tolist(), bad.values.round(2).tolist()
    ([0.06, 0.05, 0.08], [0.33, 0.34, 0.32])

    Every value has a certified error:

    >>> good.error_bound < 1e-6
    True
    """
    if is_blockwise(x, y, prediction, at, weights, client=client):
        return on_blocks("cce", locals())
    backend, devices = where_data_are(backend, devices, x)
    options = Options.of(
        tol=tol, solver=solver, backend=backend, dtype=dtype, memory_limit=memory_limit,
        progress=progress, certificate=certificate, rank=rank, landmarks=landmarks,
        cache_dir=cache_dir, checkpoint=checkpoint, devices=devices,
        device_memory_limit=device_memory_limit,
    )  # fmt: skip
    check_row_order(x=x, y=y, prediction=prediction, weights=weights)
    check_files(out, options.checkpoint, x=x, y=y, prediction=prediction, at=at, weights=weights)
    with shared_row_statistics():
        rows = encoded_inputs(x, encoder, "x", options)
        grid = rows
        if at is not None and at is not x:
            grid = encoded_inputs(at, encoder, "at", options, rows.shape[1])
        rows, grid = common_dtype(rows, grid)
        problem = problem_of(
            rows, y, [prediction], x_kernel, y_kernel, lam, draws, weights, random_state, options,
            grid,
        )  # fmt: skip
        nature, (model,), kernels = problem.nature, problem.models, problem.kernels
        source = Chance(nature, model, *kernels, problem.grid)
        fitted, result = evaluate_at(
            nature, model, *kernels, problem.options, problem.grid, "CCE", out, "at", source=source
        )
    if fitted.norms is not None:
        result = replace(result, source=replace(source, computed_norms=fitted.norms))
    result = result.with_suspicions(problem.suspicions[0])
    return result if out is not None else on_device_of(result, x)
