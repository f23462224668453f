"""The one place where what a person has becomes a `Predictive`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.frozen import ScipyPredictive, is_frozen
from fastmcmd.predictive.gaussian import Gaussian

__all__ = ["as_predictive"]


def as_predictive(value: Any, n: int, columns: int = 1, name: str = "prediction") -> Predictive:
    """Return predicted distributions for n outputs of ``columns`` components.

    Parameters
    ----------
    value : Predictive, array, (mean, std), scipy.stats or torch.distributions object
        What was given.
    n, columns : int
        Rows and components of the outputs.
    name : str
        Name of the argument, for messages.
    """
    found = _convert(value, n, columns, name)
    if len(found) != n:
        raise ValueError(f"{name} has {len(found)} rows and y has {n}; they must agree")
    if found.columns != columns:
        raise ValueError(
            f"{name} has {found.columns} components and y has {columns}; they must agree"
        )
    return found


def _convert(value: Any, n: int, columns: int, name: str) -> Predictive:
    if isinstance(value, Predictive):
        return value
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"{name} is a tuple of {len(value)}; (mean, std) is needed")
        return Gaussian(*value)
    if is_frozen(value):
        try:
            size = np.broadcast(*map(np.asarray, (*value.args, *value.kwds.values(), 0.0))).size
        except ValueError as error:
            raise ValueError(f"{name} has parameters that do not broadcast: {error}") from None
        return ScipyPredictive(value, n if size == 1 else size)
    kind = type(value)
    if kind.__module__.startswith("torch.distributions"):
        return _from_torch(value, name)
    if hasattr(value, "__array__") or isinstance(value, list) or hasattr(value, "__dlpack__"):
        from fastmcmd.checks import as_array

        array = as_array(value, name)
        if not np.isfinite(array).all():
            what = "NaN" if np.isnan(array).any() else "infinity"
            raise ValueError(f"{name} holds {what}; remove such rows first")
        if columns > 1 and array.ndim == 2:  # one vector an input
            array = array[:, None, :]
        elif columns == 1 and array.ndim == 3 and array.shape[2] == 1:
            array = array[:, :, 0]
        return Draws(array)
    raise TypeError(
        f"{name} is a {kind.__module__}.{kind.__name__}; a fastmcmd distribution such as Gaussian(mean, "
        "std), an array of draws (n,) or (n, l), a pair (mean, std), a frozen scipy.stats distribution "
        "or a torch.distributions object is needed"
    )


def _from_torch(value: Any, name: str) -> Predictive:
    from scipy import stats

    def array(tensor: Any) -> Any:
        return np.asarray(tensor.detach().cpu().double())

    match type(value).__name__:
        case "Normal":
            return Gaussian(array(value.loc), array(value.scale))
        case "Poisson":
            from fastmcmd.predictive.counts import Poisson

            return Poisson(array(value.rate))
        case "NegativeBinomial":
            total, mean = array(value.total_count), array(value.mean)
            from fastmcmd.predictive.counts import NegativeBinomial

            return NegativeBinomial(mean, 1 / total)
        case "StudentT":
            frozen = stats.t(array(value.df), loc=array(value.loc), scale=array(value.scale))
            return ScipyPredictive(frozen, array(value.loc).size)
        case "Laplace":
            frozen = stats.laplace(loc=array(value.loc), scale=array(value.scale))
            return ScipyPredictive(frozen, array(value.loc).size)
    raise TypeError(
        f"{name} is a torch.distributions.{type(value).__name__}, which is not known yet; give draws: "
        f"{name}.sample((l,)).T"
    )
