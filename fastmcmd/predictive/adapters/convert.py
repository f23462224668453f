"""The one place where what a person has becomes a `Predictive`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.predictive.adapters.by_methods import MethodsPredictive
from fastmcmd.predictive.adapters.by_name import LIBRARIES, from_library
from fastmcmd.predictive.adapters.foreign import has_methods, library
from fastmcmd.predictive.adapters.from_scipy import from_frozen
from fastmcmd.predictive.adapters.frozen import is_frozen
from fastmcmd.predictive.adapters.recognise import (
    check_column_names,
    check_probabilities,
    row_hint,
)
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.location_scale import Uniform

__all__ = ["as_predictive"]


def as_predictive(
    value: Any, n: int, columns: int = 1, name: str = "prediction", *, y: Any = None
) -> Predictive:
    """Return predicted distributions for n outputs of ``columns`` components.

    Parameters
    ----------
    value : Predictive, array, (mean, std), or distribution object of another library
        What was given. Of scipy.stats both frozen distributions and the new random variables; of
        PyTorch, NumPyro and TensorFlow Probability known families and mixtures of them; of any other
        library what has ``cdf`` and ``log_prob``.
    n, columns : int
        Rows and components of the outputs.
    name : str
        Name of the argument, for messages.
    y : array_like (n,), optional
        The outcomes: they tell class probabilities, which are refused, from draws.

    Raises
    ------
    TypeError
        Something else; the message lists what is accepted.
    ValueError
        Another number of rows or components, or parameters out of range; a data frame whose columns are
        named as parameters or quantiles, and class probabilities, which are no draws.

    Examples
    --------
    >>> from fastmcmd.predictive import as_predictive
    >>> as_predictive(([0.0, 1.0], 2.0), 2).std.tolist()
    [2.0, 2.0]
    """
    prediction = _convert(value, n, columns, name, y)
    if len(prediction) != n:
        hint = row_hint(value, len(prediction), n)
        raise ValueError(f"{name} has {len(prediction)} rows and y has {n}; they must agree{hint}")
    if prediction.columns != columns:
        raise ValueError(
            f"{name} has {prediction.columns} components and y has {columns}; they must agree"
        )
    return prediction


def _convert(value: Any, n: int, columns: int, name: str, y: Any) -> Predictive:
    if isinstance(value, Predictive):
        return value
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"{name} is a tuple of {len(value)}; (mean, std) is needed")
        return _gaussian(*value, n)
    if is_frozen(value):
        return from_frozen(value, n)
    if library(value) in LIBRARIES and hasattr(value, "log_prob"):
        return from_library(value, n, name)
    if has_methods(value):
        return _from_methods(value, n)
    kind = type(value)
    if hasattr(value, "__array__") or isinstance(value, list) or hasattr(value, "__dlpack__"):
        return _from_draws(value, columns, name, y)
    raise TypeError(
        f"{name} is a {kind.__module__}.{kind.__name__}; a fastmcmd distribution such as Gaussian(mean, "
        "std), an array of draws (n,) or (n, l), a pair (mean, std), a frozen scipy.stats distribution "
        "such as scipy.stats.t(df, loc, scale), or an object with cdf and log_prob, as those of PyTorch, "
        "NumPyro and TensorFlow Probability, is needed"
    )


def _gaussian(mean: Any, std: Any, n: int) -> Gaussian:
    return Gaussian(np.full(n, mean) if np.ndim(mean) == 0 else mean, std)


def _from_draws(value: Any, columns: int, name: str, y: Any) -> Draws:
    from fastmcmd._base.checks import as_array

    if columns == 1:
        check_column_names(value, name)
    array = as_array(value, name)
    if not np.isfinite(array).all():
        what = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"{name} holds {what}; remove such rows first")
    if array.ndim not in (1, 2, 3) or 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}; draws (n,), (n, m) or (n, m, k), none of them 0, are needed"
        )
    if columns > 1 and array.ndim == 2:  # one vector an input
        array = array[:, None, :]
    if columns == 1:
        check_probabilities(array, y, name)
    return Draws(array)


def _from_methods(value: Any, n: int) -> Predictive:
    """Return a distribution by its methods; the new normal and uniform ones of SciPy as ours."""
    own = {"Normal": ("mu", "sigma"), "Uniform": ("a", "b")}.get(type(value).__name__)
    if library(value) == "scipy" and own is not None:
        first, second = (np.asarray(getattr(value, part), np.float64) for part in own)
        shape = np.broadcast_shapes(first.shape, second.shape) or (n,)
        first, second = np.broadcast_to(first, shape), np.broadcast_to(second, shape)
        return Gaussian(first, second) if own[0] == "mu" else Uniform(first, second)
    return MethodsPredictive(value, n)
