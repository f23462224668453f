"""Mean and spread of the CCE over bootstrap samples and draws of the model, as published.

The spread is not a confidence interval, and the mean is not an estimate of the CCE of the sample. A
bootstrap sample repeats rows, which doubles the noise part of the squared CCE. For a right model the mean
is larger than the CCE of the sample itself (1.2 to 1.3 times in simulations).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray, HostArray, Json, RandomState
from fastmcmd._base.checks import (
    as_rows,
    check_choice,
    check_count,
    check_lam,
    check_positive,
    check_same_length,
    quote,
)
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.compat.probcal.kernels import laplacian_kernel, polynomial_kernel, rbf_kernel
from fastmcmd.compat.probcal.recognise import Converters, KernelFunction, as_kernel, is_indefinite
from fastmcmd.compat.probcal.replicates import bootstrap_mcmd
from fastmcmd.errors import NumericalError, ToleranceWarning
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.base import PredictionLike

__all__ = [
    "LEVELS",
    "CCEResults",
    "CCESettings",
    "as_tensors",
    "bootstrap_cce",
    "cce_results",
    "cce_values",
]

Array = NDArray[np.float64]

LEVELS = ("0.025", "0.05", "0.1", "0.9", "0.95", "0.975")  # published levels of the quantiles


@dataclass
class CCEResults:
    """Summary of CCE values over bootstrap samples and draws, at each point.

    Attributes
    ----------
    expected_values, stdevs : ndarray or torch.Tensor (n,)
        Mean and spread (standard deviation) at each point. The spread is not a confidence interval.
    quantiles : dict of (n,)
        Quantiles at the levels "0.025", "0.05", "0.1", "0.9", "0.95" and "0.975".
    mean_cce_bar, std_cce_bar : float
        Mean and spread of the mean over points.
    """

    expected_values: AnyArray
    stdevs: AnyArray
    quantiles: Json
    mean_cce_bar: float
    std_cce_bar: float


@dataclass
class CCESettings:
    """Settings of the CCE, with the published names and defaults.

    Attributes
    ----------
    use_val_split_for_S : bool
        Whether the sample is the validation split. The points are always the test split.
    num_trials : int
        Number of trials, each with new draws from the model, per bootstrap sample.
    num_mc_samples : int
        Number of outcomes drawn per row in a trial.
    input_kernel, output_kernel : str, callable or Kernel
        "polynomial"; "rbf" or "laplacian" with ``gamma = 1 / (2 var(y))`` of the bootstrap sample; or any
        kernel that `compute_mcmd_torch` accepts.
    lmbda : float
        Regulariser.
    """

    use_val_split_for_S: bool = False
    num_trials: int = 5
    num_mc_samples: int = 1
    input_kernel: str | KernelFunction | Kernel = "polynomial"
    output_kernel: str | KernelFunction | Kernel = "rbf"
    lmbda: float = 0.1


def bootstrap_cce(
    x: ArrayLike,
    y: ArrayLike,
    prediction: PredictionLike,
    at: ArrayLike | None = None,
    *,
    num_bootstrap_samples: int = 10,
    settings: CCESettings | None = None,
    tol: float = 1e-5,
    memory_limit: int | str | None = None,
    random_state: RandomState = None,
) -> CCEResults:
    """Return the mean and spread of the CCE over bootstrap samples and draws, from arrays.

    Parameters
    ----------
    x : array_like (n, d) or (n,)
        Inputs.
    y : array_like (n,) or (n, k)
        Outcomes.
    prediction : Predictive, array, scipy.stats or torch.distributions object
        The predicted distributions. From draws (n, l), some are selected at random.
    at : array_like (q, d) or (q,), optional
        Points of evaluation. Default: ``x``.
    num_bootstrap_samples : int
        Number of bootstrap samples.
    settings : CCESettings, optional
        Kernels, regulariser and draws. ``use_val_split_for_S`` is ignored.
    tol : float
        Largest allowed error of a CCE value. A larger bound issues a `fastmcmd.ToleranceWarning`.
    memory_limit : int, str or None
        Bytes that may be allocated beyond the inputs.
    random_state : int, numpy.random.Generator or None
        Source of rows and draws.

    Returns
    -------
    CCEResults

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    As published (Young et al., *Beyond Calibration*, arXiv 2405.12412), each sample draws n rows with
    replacement and then, ``num_trials`` times, one outcome per row from the model. All samples share one
    kernel matrix, and the trials of a sample share one block of right-hand sides.

    The spread measures how much the bootstrapped number varies. It is not a confidence interval of the CCE:
    a repeated row counts its noise twice, which increases the squared CCE of every sample. For a right
    model the mean was 1.2 to 1.3 times that of the samples themselves in simulations (n = 200 to 1,000).
    For a decision, use `fastmcmd.congruence_test`.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.compat.probcal import bootstrap_cce
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, 300)
    >>> replicates = bootstrap_cce(x, x + rng.normal(size=300), fm.Gaussian(x, 1.0), random_state=0)
    >>> bool(replicates.std_cce_bar < replicates.mean_cce_bar)
    True
    """
    settings = CCESettings() if settings is None else settings
    if not isinstance(settings, CCESettings):
        raise TypeError(f"settings is {quote(settings)}; a CCESettings or None is needed")
    inputs, outcomes = as_rows(x, "x"), as_rows(y, "y").astype(np.float64)
    check_same_length(x=inputs, y=outcomes)
    grid = inputs if at is None else as_rows(at, "at", columns=inputs.shape[1])
    predictive = as_predictive(prediction, len(outcomes), outcomes.shape[1], y=outcomes)
    samples = check_count(num_bootstrap_samples, "num_bootstrap_samples", least=2)
    rng = generator(random_state, Purpose.BOOTSTRAP)
    repeats = check_count(settings.num_mc_samples, "num_mc_samples")

    def draw(rows: NDArray[np.intp]) -> Array:
        outcomes = np.asarray(predictive.take(rows).sample(repeats, rng), dtype=np.float64)
        return outcomes.reshape(len(rows), repeats, -1)

    n = len(inputs)
    rows = [rng.integers(0, n, n) for _ in range(samples)]
    values = cce_values(
        grid, inputs, outcomes, rows, draw, settings, tol, memory_limit, _as_arrays()
    )
    return cce_results(values)


def _as_arrays() -> Converters:
    return [(np.asarray, UNIT)]


def as_tensors(device: Any) -> Converters:
    """Return converters from arrays to tensors on a device, for kernels that are functions of tensors."""
    import torch

    return [
        (partial(torch.tensor, dtype=dtype, device=device), float(torch.finfo(dtype).eps) / 2)
        for dtype in (torch.float64, torch.float32)
    ]


def cce_values(
    grid: HostArray,
    x: HostArray,
    y: Array,
    samples: list[NDArray[np.intp]],
    draw: Callable[[NDArray[np.intp]], Array],
    settings: CCESettings,
    tol: float,
    memory_limit: int | str | None,
    converters: Converters,
) -> Array:
    """Return CCE values (samples, trials, q)."""
    trials = check_count(settings.num_trials, "num_trials")
    lam, tol = check_lam(settings.lmbda, "lmbda"), check_positive(tol, "tol")
    inputs = settings.input_kernel
    if isinstance(inputs, str):
        check_choice(inputs, "input_kernel", ("polynomial",))
        inputs = polynomial_kernel
    if is_indefinite(inputs) and x.shape[1] > 1:
        raise ValueError(
            f"input_kernel: exp(-gamma |x - z|_1^2) of {x.shape[1]} columns is not positive semi-definite; "
            "use partial(laplacian_kernel, squared=False)"
        )
    x_kernel = as_kernel(inputs, "input_kernel", x, converters).resolve(x)

    def y_kernel(outcomes: Array) -> Kernel:
        output_kernel = settings.output_kernel
        if isinstance(output_kernel, str):
            check_choice(output_kernel, "output_kernel", ("rbf", "laplacian"))
            spread = float(np.var(outcomes, ddof=1))
            gamma = 0.5 / spread if spread > 0 else 1.0
            output_kernel = partial(
                rbf_kernel if output_kernel == "rbf" else laplacian_kernel, gamma=gamma
            )
        if is_indefinite(output_kernel) and outcomes.shape[1] > 1:
            raise ValueError(
                f"output_kernel: exp(-gamma |y - z|_1^2) of {outcomes.shape[1]} columns is not positive "
                "semi-definite; use partial(laplacian_kernel, squared=False)"
            )
        return as_kernel(output_kernel, "output_kernel", outcomes, converters).resolve(outcomes)

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        result = bootstrap_mcmd(
            grid, x, y, samples, draw, trials, x_kernel, y_kernel, lam, tol, memory_limit
        )
    if not np.isfinite(result.values).all():
        raise NumericalError(
            "x, y or prediction holds numbers too large for the kernels; scale them"
        )
    if not result.error_bound <= tol:
        warnings.warn(
            f"values are certified to {result.error_bound:.1e}, and tol is {tol:.1e}", ToleranceWarning,
            stacklevel=3,
        )  # fmt: skip
    return result.values


def cce_results(values: Array) -> CCEResults:
    """Return the published summary of values (samples, trials, q)."""
    flat = values.reshape(-1, values.shape[2])
    means = flat.mean(axis=1)
    levels = np.quantile(flat, [float(level) for level in LEVELS], axis=0)
    return CCEResults(
        flat.mean(axis=0), flat.std(axis=0, ddof=1), dict(zip(LEVELS, levels, strict=True)),
        float(means.mean()), float(means.std(ddof=1)),
    )  # fmt: skip
