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

    Raises
    ------
    TypeError
        Something else; the message lists what is accepted.
    ValueError
        Another number of rows or components, or parameters out of range.

    Examples
    --------
    >>> from fastmcmd.predictive import as_predictive
    >>> as_predictive(([0.0, 1.0], 2.0), 2).std.tolist()
    [2.0, 2.0]
    """
    found = _convert(value, n, columns, name)
    if len(found) != n:
        hint = ""
        if isinstance(value, list) and len(found) == 2:
            hint = "; means and standard deviations are given as a tuple, (mean, std)"
        raise ValueError(f"{name} has {len(found)} rows and y has {n}; they must agree{hint}")
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
        return _gaussian(*value, n)
    if is_frozen(value):
        return _from_scipy(value, n)
    kind = type(value)
    if kind.__module__.startswith("torch.distributions"):
        return _from_torch(value, n, name)
    if hasattr(value, "__array__") or isinstance(value, list) or hasattr(value, "__dlpack__"):
        return _from_draws(value, columns, name)
    raise TypeError(
        f"{name} is a {kind.__module__}.{kind.__name__}; a fastmcmd distribution such as Gaussian(mean, "
        "std), an array of draws (n,) or (n, l), a pair (mean, std), a frozen scipy.stats distribution "
        "such as scipy.stats.t(df, loc, scale), or a torch.distributions object is needed"
    )


def _gaussian(mean: Any, std: Any, n: int) -> Gaussian:
    return Gaussian(np.full(n, mean) if np.ndim(mean) == 0 else mean, std)


def _from_draws(value: Any, columns: int, name: str) -> Draws:
    from fastmcmd.checks import as_array

    array = as_array(value, name)
    if not np.isfinite(array).all():
        what = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"{name} holds {what}; remove such rows first")
    if columns > 1 and array.ndim == 2:  # one vector an input
        array = array[:, None, :]
    return Draws(array)


def _from_scipy(frozen: Any, n: int) -> Predictive:
    sizes = {np.size(value) for value in (*frozen.args, *frozen.kwds.values())} - {1}
    if len(sizes) == 1:  # the rows that it has: a mismatch is told by as_predictive
        n = sizes.pop()
    found = ScipyPredictive(frozen, n)
    if frozen.dist.name == "norm":  # closed forms
        return Gaussian(found.mean, found.std)
    return found


def _from_torch(value: Any, n: int, name: str) -> Predictive:
    from scipy import stats

    from fastmcmd.predictive.counts import NegativeBinomial, Poisson

    def array(tensor: Any) -> Any:
        found = np.asarray(tensor.detach().cpu().double())
        return np.full(n, found) if found.ndim == 0 else found

    def frozen(family: Any, *arguments: Any) -> ScipyPredictive:
        parts = [
            part[:, 0] if part.ndim == 2 and part.shape[1] == 1 else part for part in arguments
        ]
        return ScipyPredictive(family(*parts), len(parts[0]))

    match type(value).__name__:
        case "Independent":
            return _from_torch(value.base_dist, n, name)
        case "Normal":
            return Gaussian(array(value.loc), array(value.scale))
        case "Poisson":
            return Poisson(array(value.rate))
        case "NegativeBinomial":
            return NegativeBinomial(array(value.mean), 1 / array(value.total_count))
        case "StudentT":
            return frozen(stats.t, array(value.df), array(value.loc), array(value.scale))
        case "Laplace":
            return frozen(stats.laplace, array(value.loc), array(value.scale))
    raise TypeError(
        f"{name} is a torch.distributions.{type(value).__name__}, which is not known yet; give draws: "
        f"{name}.sample((l,)).T"
    )
