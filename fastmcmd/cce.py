"""The conditional congruence error of a predictive model, as a function and as an estimator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.checks import (
    as_rows,
    as_weights,
    check_callable,
    check_count,
    check_lam,
    check_same_length,
)
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.embedding.sample import DrawnOutputs, Outputs, PredictedOutputs, Sample
from fastmcmd.estimate.arguments import (
    check_files,
    common_dtype,
    default_kernels,
    inputs,
    prepared_inputs,
)
from fastmcmd.kernels import Kernel
from fastmcmd.mcmd import evaluate_at
from fastmcmd.options import Options, where_data_are
from fastmcmd.predictive import Draws, as_predictive
from fastmcmd.predictive.adapters.recognise import check_order
from fastmcmd.result import Result, on_device_of
from fastmcmd.rows import Rows

__all__ = ["cce", "encoded", "samples_of", "samples_of_all"]


def cce(
    x: Any,
    y: Any,
    prediction: Any,
    at: Any = None,
    x_kernel: Kernel | None = None,
    y_kernel: Kernel | None = None,
    lam: float = 0.1,
    draws: int | None = None,
    encoder: Callable[[Any], Any] | None = None,
    weights: Any = None,
    random_state: Any = None,
    tol: float = 1e-6,
    solver: str = "auto",
    backend: str = "auto",
    dtype: Any = None,
    memory_limit: Any = None,
    progress: bool = False,
    certificate: str = "auto",
    rank: int | None = None,
    landmarks: Any = None,
    out: Any = None,
    cache_dir: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | str | None = None,
) -> Result:
    """Estimate the conditional congruence error of predictions at each input.

    Parameters
    ----------
    x : array_like (n, d) or (n,), or rows on disk
        Inputs (or whatever ``encoder`` turns into such an array); on disk as in `mcmd`.
    y : array_like (n, k) or (n,)
        Observed outputs.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object
        The predicted distribution for each row of ``x``: a `Predictive` such as ``Gaussian(mean,
        std)``, draws of shape (n,) or (n, l) (vector outputs: (n, k) or (n, l, k)), or a frozen
        distribution whose parameters have n entries.
    at : array_like (q, d) or (q,), optional
        Inputs to score; default ``x`` itself. They need no outputs.
    x_kernel : Kernel, optional
        Kernel on inputs; default the paper's ``Polynomial(degree=3, gamma=None, coef0=1)``.
    y_kernel : Kernel, optional
        Kernel on outputs; default the paper's ``RBF("variance")``.
    lam : float
        Regulariser, positive; 0.1 in the paper.
    draws : int, optional
        None: exact expectations under the predictions (all draws where draws were given), no
        Monte-Carlo noise. An integer: that many random draws per input, as published (1).
    encoder : callable, optional
        Applied to ``x`` and ``at``; its result is what the kernel sees.
    weights : array_like (n,), optional
        Nonnegative weights of the rows.
    random_state : int, numpy.random.Generator or None
        Source of the random draws.
    tol, solver, backend, dtype, memory_limit, progress, certificate, rank, landmarks, out
    cache_dir, checkpoint, devices, device_memory_limit
        As in `mcmd`.

    Returns
    -------
    Result
        ``values`` (q,): CCE at each point; ``mean``, ``error_bounds``, ``error_bound``, ``info``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    ``CCE(x) = MCMD(x)`` between S = (x_i, y_i) and S' = (x_i, draws of the prediction at x_i)
    (Young et al., arXiv 2405.12412, section 4).

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 500)
    >>> y = x + 0.3 * rng.normal(size=500)
    >>> good = fm.cce(x, y, fm.Gaussian(x, 0.3))
    >>> bad = fm.cce(x, y, fm.Gaussian(x, 1.0))
    >>> bool(good.mean < bad.mean)
    True
    """
    given = x
    backend, devices = where_data_are(backend, devices, x)
    options = Options.of(
        tol=tol, solver=solver, backend=backend, dtype=dtype, memory_limit=memory_limit,
        progress=progress, certificate=certificate, rank=rank, landmarks=landmarks,
        cache_dir=cache_dir, checkpoint=checkpoint, devices=devices,
        device_memory_limit=device_memory_limit,
    )  # fmt: skip
    check_files(out, options.checkpoint, x=x, y=y, prediction=prediction, at=at, weights=weights)
    at_x = at is None or at is x
    x = encoded_inputs(x, encoder, "x", options)
    grid = x if at_x else encoded_inputs(at, encoder, "at", options, x.shape[1])
    x, grid = common_dtype(x, grid)
    x, grid = prepared_inputs(x_kernel, x=x, at=grid)
    nature, model, kernels = samples_of(
        x, y, prediction, x_kernel, y_kernel, lam, draws, weights, random_state
    )
    result = evaluate_at(nature, model, *kernels, options, grid, "CCE", out, "at")[1]
    return result if out is not None else on_device_of(result, given)


def encoded(x: Any, encoder: Callable[[Any], Any] | None) -> Any:
    """Return ``encoder(x)``, or ``x`` where there is none."""
    if encoder is None:
        return x
    check_callable(encoder, "encoder", 1, "a callable that maps inputs to an array")
    return encoder(x)


def encoded_inputs(
    value: Any,
    encoder: Callable[[Any], Any] | None,
    name: str,
    options: Options,
    columns: int | None = None,
) -> NDArray[Any] | Rows:
    """Return checked inputs, encoded where there is an encoder; messages say which of both they blame."""
    label = name if encoder is None else f"encoder({name})"
    return inputs(encoded(value, encoder), label, options, columns)


def samples_of(
    x: NDArray[Any] | Rows,
    y: Any,
    prediction: Any,
    x_kernel: Any,
    y_kernel: Any,
    lam: Any,
    draws: Any,
    weights: Any,
    random_state: Any,
) -> tuple[Sample, Sample, tuple[Kernel, Kernel]]:
    """Check what a person gave, and return both samples and the resolved kernels."""
    nature, (model,), kernels = samples_of_all(
        x, y, [prediction], x_kernel, y_kernel, lam, draws, weights, random_state
    )
    return nature, model, kernels


def samples_of_all(
    x: NDArray[Any] | Rows,
    y: Any,
    predictions: Iterable[Any],
    x_kernel: Any,
    y_kernel: Any,
    lam: Any,
    draws: Any,
    weights: Any,
    random_state: Any,
) -> tuple[Sample, list[Sample], tuple[Kernel, Kernel]]:
    """Check what a person gave, and return the sample of nature, those of models, resolved kernels."""
    check_order(y, "(x, y, prediction)")
    y = as_rows(y, "y")
    check_same_length(x=x, y=y)
    (y,) = prepared_inputs(y_kernel, y=y)
    outputs = [_predicted_outputs(p, y, draws, random_state) for p in predictions]
    outputs = [_prepared_outputs(y_kernel, each) for each in outputs]
    weights = as_weights(weights, "weights", len(x))
    lam = check_lam(lam)
    kernels = default_kernels(x_kernel, y_kernel, x, y)
    nature = Sample(x, DrawnOutputs(y[:, None, :]), weights, lam)
    return nature, [Sample(x, each, weights, lam, nature) for each in outputs], kernels


def _predicted_outputs(prediction: Any, y: Any, draws: Any, random_state: Any) -> Outputs:
    """Return the outputs of the model's side: draws, or distributions used exactly."""
    n, columns = y.shape
    predictive = as_predictive(prediction, n, columns, y=y)
    draws = check_count(draws, "draws", optional=True)
    if draws is None:
        if isinstance(predictive, Draws):
            return DrawnOutputs(predictive.array.reshape(n, -1, columns))
        return PredictedOutputs(predictive)
    rng = generator(random_state, Purpose.CCE)
    return DrawnOutputs(
        np.asarray(predictive.sample(draws, rng), dtype=np.float64).reshape(n, -1, columns)
    )


def _prepared_outputs(kernel: Any, outputs: Outputs) -> Outputs:
    """Return draws as the output kernel takes them; distributions as they are."""
    if isinstance(outputs, DrawnOutputs):
        (flat,) = prepared_inputs(kernel, prediction=outputs.flat)
        return DrawnOutputs(flat.reshape(outputs.values.shape), outputs.weights)
    return outputs
