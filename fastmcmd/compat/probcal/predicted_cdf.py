"""P(Y_i <= y_i) under whatever the published code calls a posterior predictive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import as_array, is_tensor
from fastmcmd.predictive import as_predictive

__all__ = ["predicted_cdf"]

_Values = NDArray[np.float64]


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
        values = as_array(prediction.cdf(y), "what posterior_predictive.cdf returned")
        values = values.astype(np.float64)
    if values.shape != y.shape:
        raise ValueError(
            f"posterior_predictive returns probabilities of shape {values.shape} for y_true of {len(y)} "
            "outputs; one distribution an output is needed"
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
        return np.asarray(tensor.detach().cpu().double()).reshape(-1)

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
    except NotImplementedError:  # torch has no formula, and perhaps SciPy has
        return np.asarray(as_predictive(prediction, len(y), 1, "posterior_predictive").cdf(y))
    values = np.asarray(probabilities.detach().cpu().double())
    return values.reshape(-1) if values.size == len(y) else values


def _parameter(prediction: Any) -> AnyArray:
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
    whole = np.floor(y)
    index: AnyArray = np.clip(whole, 0, last).astype(np.int64)
    if getattr(prediction, "use_torch", False):
        import torch

        index = torch.as_tensor(index, device=prediction.device)
    probabilities = prediction.cdf(index)
    if is_tensor(probabilities):
        probabilities = probabilities.detach().cpu().double()
    values = np.asarray(probabilities, dtype=np.float64).reshape(-1)
    if values.shape != y.shape:
        return values
    return np.where(whole < 0, 0.0, np.where(whole > last, 1.0, values))
