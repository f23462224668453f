"""Distributions of PyTorch, NumPyro and TensorFlow Probability, recognised by class and parameter names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.checks import as_array
from fastmcmd.predictive.adapters.by_methods import MethodsPredictive
from fastmcmd.predictive.adapters.foreign import has_methods, library
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.beta import Beta
from fastmcmd.predictive.binomial import Binomial
from fastmcmd.predictive.categorical import Categorical
from fastmcmd.predictive.counts import NegativeBinomial, Poisson
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.lifetimes import Exponential, GeneralizedPareto, Weibull
from fastmcmd.predictive.location_scale import Laplace, StudentT, Uniform
from fastmcmd.predictive.logistic import Logistic
from fastmcmd.predictive.positive import Gamma, LogNormal

__all__ = ["LIBRARIES", "from_library"]

LIBRARIES = ("torch", "numpyro", "tensorflow_probability")

Parameter = Callable[..., Array]


def from_library(value: Any, n: int, name: str) -> Predictive:
    """Return a distribution of these libraries as one of ours, by its family or else by its methods.

    Parameters
    ----------
    value : distribution object
        Distributions of numbers or, if normal, of vectors with independent components.
    n : int
        Number of rows, for objects that hold a single distribution for all rows.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    TypeError
        An object of no known family that lacks the methods needed.
    ValueError
        Other shapes, or parameters out of range.
    """
    kind = type(value).__name__
    if kind == "Independent":
        return _independent(value, n, name)
    if kind == "ExpandedDistribution" and not tuple(value.base_dist.batch_shape):
        return from_library(value.base_dist, _first(tuple(value.batch_shape), n), name)
    if kind == "MixtureSameFamily":
        return _mixture(value, n, name)
    prediction = _family(value, _reader(value, n))
    if prediction is not None:
        return prediction
    event = tuple(getattr(value, "event_shape", ()))
    if not has_methods(value) or event:
        raise TypeError(
            f"{name} is a {library(value)} {kind}{f' of vectors {event}' if event else ''}, which has no "
            f"family here and no cdf; give draws of it, an array (n, l{', k' if event else ''})"
        )
    return MethodsPredictive(value, _first(tuple(getattr(value, "batch_shape", ())), n))


def _first(shape: tuple[int, ...], n: int) -> int:
    return int(shape[0]) if shape else n


def _family(value: object, one: Parameter) -> Predictive | None:
    """Return the distribution if its family is known, or None.

    ``one(name, ...)`` reads the first parameter that exists among its names.
    """
    match type(value).__name__:
        case "Normal":
            return Gaussian(one("loc"), one("scale"))
        case "LogNormal":
            return LogNormal(one("loc"), one("scale"))
        case "StudentT":
            return StudentT(one("df"), one("loc"), one("scale"))
        case "Cauchy":
            return StudentT(1.0, one("loc"), one("scale"))
        case "Laplace":
            return Laplace(one("loc"), one("scale"))
        case "Gamma":
            return Gamma(one("concentration"), one("rate"))
        case "Exponential":
            return Exponential(one("rate"))
        case "Weibull":
            return Weibull(one("concentration"), one("scale"))
        case "GeneralizedPareto":
            return GeneralizedPareto(one("concentration"), one("scale"), one("loc"))
        case "Logistic":
            return Logistic(one("loc"), one("scale"))
        case "Beta":
            return Beta(one("concentration1"), one("concentration0"))
        case "Uniform":
            return Uniform(one("low"), one("high"))
        case "Poisson":
            return Poisson(one("mean"))
        case "NegativeBinomial" | "NegativeBinomialProbs" | "NegativeBinomialLogits":
            return NegativeBinomial(one("mean"), 1 / one("total_count"))
        case (
            "Geometric" | "GeometricProbs" | "GeometricLogits"
        ):  # failures before the first success
            return NegativeBinomial(one("mean"), 1.0)
        case "NegativeBinomial2" | "GammaPoisson":
            return NegativeBinomial(one("mean"), 1 / one("concentration"))
        case "Binomial" | "BinomialProbs" | "BinomialLogits":
            count = _flat(one("total_count"))
            share = np.where(count > 0, _flat(one("mean")) / np.maximum(count, 1), 0.0)
            return Binomial(count, np.clip(share, 0, 1))
        case "Bernoulli" | "BernoulliProbs" | "BernoulliLogits":
            share = _flat(one("mean"))
            return Categorical(np.stack([1 - share, share], axis=1))
        case "Categorical" | "CategoricalProbs" | "CategoricalLogits":
            probs = _array(value, "probs_parameter", "probs")
            rows = one("batch") if probs.ndim == 1 else probs
            return Categorical(np.broadcast_to(probs, (len(rows), probs.shape[-1])))
    return None


def _flat(array: Array) -> Array:
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _array(value: object, *names: str) -> Array:
    """Return the first of several parameters or moments that exists, as attribute or method."""
    for name in names:
        attribute = getattr(value, name, None)
        attribute = attribute() if callable(attribute) else attribute
        if attribute is not None:
            return as_array(attribute, name).astype(np.float64)
    raise TypeError(
        f"prediction is a {library(value)} {type(value).__name__} without {' or '.join(names)}; give "
        "draws of it, an array (n, l)"
    )


def _reader(value: Any, n: int) -> Parameter:
    """Return a function that reads parameters in the batch shape, or (n,) for a batch of one."""

    def one(*names: str) -> Array:
        shape = tuple(value.batch_shape) or (n,)
        return np.broadcast_to(
            np.zeros(()) if names == ("batch",) else _array(value, *names), shape
        )

    return one


def _independent(value: Any, n: int, name: str) -> Predictive:
    """Return an Independent distribution: of numbers if it has one component, or of normal vectors."""
    base = getattr(value, "base_dist", None)
    base = value.distribution if base is None else base
    batch, event = tuple(value.batch_shape), tuple(value.event_shape)
    if not event:
        return from_library(base, n, name)
    if len(batch) > 1 or len(event) > 1:
        raise ValueError(
            f"{name} is an Independent with batch shape {batch} and event shape {event}; (n,) and (k,) are "
            "needed: a vector of k components an input"
        )
    shape = (_first(batch, n), *event)
    if type(base).__name__ == "Normal":
        loc, scale = (np.broadcast_to(_array(base, part), shape) for part in ("loc", "scale"))
        return Gaussian(loc, scale)
    if event == (1,):
        prediction = _family(base, lambda *names: np.broadcast_to(_array(base, *names), shape))
        if prediction is not None:
            return prediction
    raise TypeError(
        f"{name} is an Independent of {library(value)} {type(base).__name__}; of vectors only normal ones "
        f"are known: give draws, an array (n, l, {event[0]})"
    )


def _mixture(value: object, n: int, name: str) -> Predictive:
    """Return a mixture of K components; components are the last axis of the batch."""
    from fastmcmd.predictive.mixture import Mixture

    def part(*names: str) -> Any:
        return next(
            attribute
            for attribute in (getattr(value, x, None) for x in names)
            if attribute is not None
        )

    mixing = part("mixture_distribution", "mixing_distribution")
    component = part("component_distribution", "components_distribution")
    weights = _array(mixing, "probs_parameter", "probs")
    batch = tuple(component.batch_shape)
    if len(batch) not in (1, 2):
        raise ValueError(
            f"{name} is a mixture whose components have batch shape {batch}; (K,) or (n, K) is needed"
        )
    if type(component).__name__ == "Independent":
        base = getattr(component, "base_dist", None)
        component = component.distribution if base is None else base
    component_shape = tuple(component.batch_shape)

    def reader(k: int) -> Parameter:
        def one(*names: str) -> Array:
            array = np.take(
                np.broadcast_to(_array(component, *names), component_shape), k, len(batch) - 1
            )
            return np.array(array) if len(batch) == 2 else np.broadcast_to(array, (n, *array.shape))

        return one

    components = [_family(component, reader(k)) for k in range(batch[-1])]
    if any(member is None for member in components):
        raise TypeError(
            f"{name} is a mixture of {library(value)} {type(component).__name__}, which has no family "
            "here; give draws of it, an array (n, l)"
        )
    return Mixture([member for member in components if member is not None], weights)
