"""Results of the predict methods of modelling packages: NGBoost, GPyTorch and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.checks import as_array
from fastmcmd.predictive.adapters.foreign import library
from fastmcmd.predictive.adapters.frozen import is_frozen
from fastmcmd.predictive.categorical import Categorical
from fastmcmd.predictive.gaussian import Gaussian

__all__ = ["unwrap"]


def unwrap(value: object, name: str) -> Any:
    """Return the distributions inside a modelling package's prediction; any other object unchanged.

    Parameters
    ----------
    value : object
        From NGBoost what ``pred_dist`` returns; from GPyTorch a normal distribution over all rows, of which
        the marginals are taken; from statsmodels the ``get_prediction`` of a linear model or the
        ``get_forecast`` of a time series model.
    name : str
        Name of the argument, for messages.

    Returns
    -------
    object
        A `Predictive` or a frozen scipy.stats distribution.

    Raises
    ------
    TypeError
        An object of these packages without predicted distributions of the outcomes; the message says what
        to pass.
    """
    match library(value):
        case "ngboost":
            return _ngboost(value, name)
        case "gpytorch":
            return _gpytorch(value, name)
        case "statsmodels":
            return _statsmodels(value, name)
    return value


def _ngboost(value: Any, name: str) -> Any:
    if is_frozen(getattr(value, "dist", None)):
        return value.dist
    if hasattr(value, "class_probs"):
        return Categorical(as_array(value.class_probs(), name))
    raise TypeError(
        f"{name} is a {type(value).__name__} of NGBoost; the pred_dist of a univariate regressor or of a "
        "classifier is needed, or draws of it, an array (n, l) or (n, l, k)"
    )


def _gpytorch(value: Any, name: str) -> Gaussian:
    kind = type(value).__name__
    if not kind.endswith("MultivariateNormal"):
        raise TypeError(
            f"{name} is a {kind} of GPyTorch; the normal distribution that likelihood(model(x)) returns is "
            "needed, or draws of it, an array (n, l)"
        )
    if tuple(value.batch_shape):
        raise TypeError(
            f"{name} is a {kind} of GPyTorch with the batch shape {tuple(value.batch_shape)}; () is needed"
        )
    return Gaussian(as_array(value.mean, name), as_array(value.stddev, name))


def _statsmodels(value: Any, name: str) -> Any:
    if hasattr(value, "se_obs"):
        return value.dist(*value.dist_args, loc=_numbers(value.predicted_mean), scale=value.se_obs)
    if ".tsa." in type(value).__module__ and hasattr(value, "se_mean"):
        if getattr(value, "signal_only", False):
            raise TypeError(
                f"{name} is a forecast of the signal; one of outcomes, with signal_only=False, is needed"
            )
        return Gaussian(_numbers(value.predicted_mean), _numbers(value.se_mean))
    raise TypeError(
        f"{name} is a {type(value).__name__} of statsmodels, which has no distribution of the outcomes; "
        "pass get_prediction(x) of a linear model's results, get_distribution(exog=x) of a generalised "
        "linear or discrete model's, or get_forecast(steps) of a time series model's"
    )


def _numbers(column: object) -> Array:
    """Return a series or a column (n, 1) as numbers (n,)."""
    array = np.asarray(column, np.float64)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
