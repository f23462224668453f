"""Output distributions of networks: from their raw outputs to predictions, in NumPy and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastmcmd as fm

__all__ = ["GAUSSIANS", "HEADS", "ensemble", "parameters", "prediction", "size"]

HEADS = (
    "gaussian", "poisson", "negative binomial", "double poisson", "beta-NLL", "faithful", "natural",
)  # fmt: skip
GAUSSIANS = ("gaussian", "beta-NLL", "faithful", "natural")  # these differ in the loss only
_LEAST = 1e-6  # of positive parameters
_ONE = np.log(np.e - 1)  # where softplus is 1


def size(head: str) -> int:
    """Return the number of outputs of a network."""
    return 1 if head == "poisson" else 2


def _softplus(values: np.ndarray) -> np.ndarray:
    return np.logaddexp(values, 0)


def parameters(
    head: str, out: Any, centre: Any, scale: Any, softplus: Callable[[Any], Any] = _softplus
) -> tuple[Any, Any]:
    """Return the mean and the second parameter of a head, for arrays or tensors of raw outputs.

    The second parameter is the variance of a Gaussian, the dispersion of a negative binomial, the phi of a
    double Poisson, and None for a Poisson. Outputs of 0 give about the moments of all outcomes.

    Parameters
    ----------
    head : str
        One of `HEADS`.
    out : array or tensor (..., k)
        Raw outputs.
    centre, scale : array, tensor or float
        Mean and standard deviation of the outcomes that the network was trained with.
    softplus : callable
        ``log(1 + exp(x))`` of the array library.
    """
    first = out[..., 0]
    second = softplus(out[..., 1] + _ONE) + _LEAST if size(head) == 2 else None
    if head == "natural":  # mean times precision, and precision
        return centre + scale * first / second, scale**2 / second
    if head in GAUSSIANS:
        return centre + scale * first, scale**2 * second
    mean = centre * softplus(first + _ONE) + _LEAST
    return mean, second * centre / scale**2 if head == "double poisson" else second


def prediction(head: str, mean: np.ndarray, second: np.ndarray | None) -> fm.Predictive:
    """Return the predicted distributions of a head from its parameters."""
    if head == "poisson" or second is None:
        return fm.Poisson(mean)
    if head == "negative binomial":
        return fm.NegativeBinomial(mean, second)
    if head == "double poisson":
        return fm.DoublePoisson(mean, second)
    return fm.Gaussian(mean, np.sqrt(second))


def ensemble(members: list[fm.Predictive]) -> fm.Predictive:
    """Return the equal mixture of predictions."""
    return fm.Mixture(members)
