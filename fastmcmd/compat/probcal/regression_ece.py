"""The published expected calibration error of a regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import (
    as_array,
    as_rows,
    check_choice,
    check_count,
    check_positive,
    is_tensor,
)
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.base import DistributionLike

__all__ = ["compute_regression_ece", "predicted_cdf"]

_EDGE = 1e-5  # distance of the outermost levels from 0 and 1, as published


def compute_regression_ece(
    y_true: ArrayLike,
    posterior_predictive: DistributionLike,
    num_bins: int = 100,
    weights: str = "uniform",
    alpha: float = 1.0,
) -> float:
    """Return the expected calibration error of predicted distributions.

    Parameters
    ----------
    y_true : array_like or torch.Tensor (n,)
        Observed outputs.
    posterior_predictive : frozen scipy.stats or torch.distributions object, Predictive, or with a ``cdf``
        Predicted distributions, one an output; also the published ``DiscreteRandomVariable``.
    num_bins : int
        Levels p_j, even from 1e-5 to 1 - 1e-5.
    weights : {"uniform", "frequency"}
        Weights w_j, scaled to sum to one: equal, or the number of outcomes up to each level.
    alpha : float
        Exponent of the differences.

    Returns
    -------
    float
        ``sum_j w_j |p_j - mean(F_i(y_i) <= p_j)|^alpha``. NaN, as published, if "frequency" gives every
        level weight zero: no outcome lies up to any.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    Kuleshov, Fenner & Ermon, *Accurate Uncertainties for Deep Learning Using Calibrated Regression* (ICML
    2018), equation 9. `fastmcmd.regression_ece` has 99 levels and randomises the PIT of counts; here
    F_i(y_i) is P(Y <= y_i), as published, under which even a correct count model scores above zero.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from fastmcmd.compat.probcal import compute_regression_ece
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> compute_regression_ece(y, stats.norm(np.zeros(4000), 1.0)) < 0.02
    True
    """
    y = as_rows(as_array(y_true, "y_true").reshape(-1), "y_true")[:, 0].astype(np.float64)
    bins = check_count(num_bins, "num_bins")
    check_choice(weights, "weights", ("uniform", "frequency"))
    alpha = check_positive(alpha, "alpha")
    levels = np.linspace(_EDGE, 1 - _EDGE, bins)
    values = np.sort(predicted_cdf(posterior_predictive, y))
    counts = np.searchsorted(values, levels, side="right")
    gaps = np.abs(levels - counts / len(y)) ** alpha
    share: NDArray[np.float64] = (
        np.ones(bins) if weights == "uniform" else counts.astype(np.float64)
    )
    total = share.sum()
    return float(share @ gaps / total) if total else float("nan")


_Values = NDArray[np.float64]
_RETURNED = "what posterior_predictive.cdf returned"


def predicted_cdf(prediction: Any, y: _Values) -> _Values:
    """Return P(Y <= y) (n,) of predicted distributions, one an output.

    Parameters
    ----------
    prediction : torch.distributions object, published DiscreteRandomVariable, or object with a ``cdf``
        Predicted distributions.
    y : ndarray (n,)
        Finite outputs.
    """
    if type(prediction).__module__.startswith("torch.distributions"):
        values = _torch_cdf(prediction, y)
    elif not callable(getattr(prediction, "cdf", None)):
        raise TypeError(
            f"posterior_predictive is a {type(prediction).__name__}; a frozen scipy.stats or a "
            "torch.distributions object, a fastmcmd distribution, or an object with a method cdf is needed"
        )
    elif hasattr(prediction, "max_value") and hasattr(prediction, "dimension"):
        values = _table_cdf(prediction, y)
    else:
        values = as_array(prediction.cdf(y), _RETURNED).astype(np.float64)
    if values.shape != y.shape:
        raise ValueError(
            f"posterior_predictive returns probabilities of shape {values.shape} for y_true of {len(y)} "
            "outputs; one distribution per output is needed"
        )
    if np.isnan(values).any():
        raise ValueError(
            f"posterior_predictive returns NaN as P(Y <= y) of {int(np.isnan(values).sum())} outputs "
            f"(first in row {int(np.isnan(values).argmax())}); check its parameters"
        )
    return values


def _torch_cdf(prediction: Any, y: _Values) -> _Values:
    """Return P(Y <= y) of a torch distribution: exact for counts, its own formula for others."""
    import torch

    if type(prediction).__name__ == "Independent":
        return _torch_cdf(prediction.base_dist, y)

    def array(tensor: AnyArray) -> _Values:
        values = as_array(tensor, "a parameter of posterior_predictive")
        return values.astype(np.float64).reshape(-1)

    match type(prediction).__name__:
        case "Poisson":
            rate = array(prediction.rate)
            return _counts(y, rate.size, lambda k: scipy.special.pdtr(k, rate))
        case "NegativeBinomial":
            total, odds = array(prediction.total_count), array(prediction.probs)
            return _counts(y, total.size, lambda k: scipy.special.betainc(total, k + 1, 1 - odds))
    like = _parameter(prediction)
    at = torch.as_tensor(y, dtype=like.dtype, device=like.device)
    if prediction.batch_shape.numel() == len(y):
        at = at.reshape(prediction.batch_shape)
    try:
        with torch.no_grad():
            probabilities = prediction.cdf(at)
    except NotImplementedError:  # torch has no formula, but SciPy may have one
        return np.asarray(as_predictive(prediction, len(y), 1, "posterior_predictive").cdf(y))
    values = as_array(probabilities, _RETURNED).astype(np.float64)
    return values.reshape(-1) if values.size == len(y) else values


def _parameter(prediction: object) -> AnyArray:
    """Return a tensor of the dtype and on the device of a torch distribution: one of its parameters."""
    import torch

    parts = list(vars(prediction).values())
    tensors = [part for part in parts if is_tensor(part) and part.dtype.is_floating_point]
    inner = [part for part in parts if isinstance(part, torch.distributions.Distribution)]
    if tensors or not inner:
        return tensors[0] if tensors else torch.zeros(())
    return _parameter(inner[-1])  # of a mixture the components, after the mixing distribution


def _counts(y: _Values, size: int, cdf: Callable[[AnyArray], AnyArray]) -> _Values:
    """Return P(Y <= y) of counts: that of the whole number below, 0 below 0."""
    if size not in (1, len(y)):
        return np.empty(size)  # another shape: the caller reports it
    return np.where(y < 0, 0.0, cdf(np.floor(np.maximum(y, 0))))


def _table_cdf(prediction: Any, y: _Values) -> _Values:
    """Return P(Y <= y) of a published random variable, which holds a table of 0 to max_value - 1."""
    last = int(prediction.max_value) - 1
    floor = np.floor(y)
    index: AnyArray = np.clip(floor, 0, last).astype(np.int64)
    if getattr(prediction, "use_torch", False):
        import torch

        index = torch.as_tensor(index, device=prediction.device)
    probabilities = prediction.cdf(index)
    values = as_array(probabilities, _RETURNED).astype(np.float64).reshape(-1)
    if values.shape != y.shape:
        return values
    return np.where(floor < 0, 0.0, np.where(floor > last, 1.0, values))
