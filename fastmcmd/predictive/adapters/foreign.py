"""Calls of distributions from other libraries, without importing those libraries."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.checks import as_array

__all__ = ["Caller", "bounds", "has_methods", "library", "rows_of", "says_discrete"]

_DENSITIES = ("log_prob", "logpdf", "logpmf")


def library(value: object) -> str:
    """Return the name of the library that a distribution is from, such as ``"torch"``."""
    return type(value).__module__.partition(".")[0]


def has_methods(value: object) -> bool:
    """Return whether ``value`` has a cdf and a log density, as distributions of other libraries do."""
    if isinstance(value, type) or hasattr(value, "freeze"):  # an unfrozen family of scipy.stats
        return False
    return hasattr(value, "cdf") and any(hasattr(value, name) for name in _DENSITIES)


class Caller:
    """Calls methods of a distribution on NumPy arrays.

    Attributes
    ----------
    size : int
        Bytes of the numbers that the distribution returns, 4 or 8; the smaller if calls differ.
    """

    def __init__(self, value: object) -> None:
        self._value = _lenient(value)
        self._name = f"{library(value)} {type(value).__name__}"
        self._available: dict[tuple[str, ...], bool] = {}
        self.size = 8

    def __call__(self, names: tuple[str, ...], y: Array) -> Array:
        """Return the values at y of the first method that exists among ``names``.

        Raises
        ------
        TypeError
            If none of them exists.
        """
        for name in names:
            method = _attribute(self._value, name)
            if method is None:
                continue
            try:
                return self._array(method(self._like(y)), name)
            except NotImplementedError:
                continue
        members = " or ".join(names)
        raise TypeError(
            f"prediction is a {self._name}, whose {members} is missing or not implemented; give draws of "
            "it, an array (n, l)"
        )

    def has(self, names: tuple[str, ...]) -> bool:
        """Return whether at least one of several methods is implemented."""
        if names not in self._available:
            self._available[names] = self._try(names)
        return self._available[names]

    def moment(self, names: tuple[str, ...]) -> Array:
        """Return the first moment that exists among ``names``, as method or attribute."""
        for name in names:
            attribute = _attribute(self._value, name)
            if attribute is None:
                continue
            try:
                return self._array(attribute() if callable(attribute) else attribute, name)
            except NotImplementedError:
                continue
        raise TypeError(f"prediction is a {self._name} without {' or '.join(names)}")

    def _try(self, names: tuple[str, ...]) -> bool:
        try:
            if {"mean", "variance"} & set(names):
                self.moment(names)
            else:
                self(names, np.full((1, 1), 0.5))
        except TypeError:
            return False
        return True

    def _like(self, y: Array) -> Any:
        """Return values as an array of the distribution's library."""
        match library(self._value):
            case "torch":
                import torch

                return torch.as_tensor(np.ascontiguousarray(y), device=_device(self._value))
            case "tensorflow_probability":
                kind = self._value.dtype  # TensorFlow's own, or NumPy's over JAX
                return np.asarray(y, dtype=getattr(kind, "as_numpy_dtype", kind))
        return y

    def _array(self, attribute: object, name: str) -> Array:
        array = as_array(attribute, f"{self._name}.{name}")
        self.size = min(self.size, array.dtype.itemsize)
        return array.astype(np.float64)


def bounds(value: object) -> tuple[Any, Any]:
    """Return the ends of the support, as numbers or (n,); infinite where unknown."""
    support = _attribute(value, "support")
    if callable(support) and not hasattr(support, "is_discrete"):  # SciPy's method
        low, high = support()
    else:
        low = _attribute(support, "lower_bound")
        high = _attribute(support, "upper_bound")
    if support is None and library(value) == "tensorflow_probability":
        # The object does not report its support, and its cdf may be anything outside.
        low, high = _end(value, 0.0), _end(value, 1.0)
    return (
        -np.inf if low is None else as_array(low, "support").astype(np.float64),
        np.inf if high is None else as_array(high, "support").astype(np.float64),
    )


def _end(value: object, level: float) -> Any:
    """Return the quantiles at level 0 or 1, or None if they are not implemented or NaN."""
    try:
        end = np.asarray(_lenient(value).quantile(np.float32(level)))
    except (AttributeError, NotImplementedError):
        return None
    return None if np.isnan(end).any() else end


def says_discrete(value: object) -> bool | None:
    """Return whether a distribution reports that it is discrete; None if it reports nothing."""
    if any(kind.__name__ == "DiscreteDistribution" for kind in type(value).__mro__):
        return True
    if any(kind.__name__ == "ContinuousDistribution" for kind in type(value).__mro__):
        return False
    answer = _attribute(_attribute(value, "support"), "is_discrete")
    return None if answer is None else bool(answer)


def rows_of(value: Any, rows: NDArray[np.intp]) -> Any:
    """Return a new object for some rows, created from named parameters as in PyTorch and NumPyro.

    Returns None if that fails. The caller must check that the new object gives the same values.
    """
    names = getattr(value, "arg_constraints", None)
    if not isinstance(names, dict) or not names:
        return None
    parameters = {}
    for name in names:
        part = getattr(value, name, None)
        if part is not None and tuple(np.shape(part)) == tuple(value.batch_shape):
            index = _torch_rows(rows, part) if library(value) == "torch" else rows
            part = part[index]
        parameters[name] = part
    try:
        return type(value)(**parameters)
    except (TypeError, ValueError):
        return None


def _torch_rows(rows: NDArray[np.intp], like: Any) -> Any:
    import torch

    return torch.as_tensor(np.ascontiguousarray(rows), device=like.device)


def _attribute(value: object, name: str) -> Any:
    """Return an attribute, or None if there is none or its property is not implemented."""
    try:
        return getattr(value, name, None)
    except NotImplementedError:
        return None


def _lenient(value: Any) -> Any:
    """Return a copy of a distribution that does not raise outside its support."""
    if not hasattr(value, "_validate_args"):
        return value
    if library(value) == "tensorflow_probability":  # its bijectors cannot be copied separately
        return value.copy(validate_args=False) if value.validate_args else value
    copied = copy.copy(value)
    parts = vars(copied)
    for name, part in list(parts.items()):
        if hasattr(part, "_validate_args"):
            parts[name] = _lenient(part)
    parts["_validate_args"] = False
    return copied


def _device(value: object) -> Any:
    """Return the device of the first tensor in a PyTorch distribution."""
    for part in vars(value).values():
        if hasattr(part, "device"):
            return part.device
        if hasattr(part, "_validate_args"):
            return _device(part)
    return None
