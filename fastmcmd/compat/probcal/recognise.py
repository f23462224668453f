"""Which kernel a callable is: ours, the published ones and scikit-learn's are recognised by name."""

from __future__ import annotations

import functools
import numbers
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fastmcmd.compat.probcal.callable_kernel import CallableKernel, Converters, KernelFunction
from fastmcmd.kernels import RBF, Constant, Cosine, Kernel, Laplacian, Linear, Polynomial
from fastmcmd.kernels.base import Array

__all__ = ["as_kernel", "is_indefinite", "known_kernel"]

_TRIED = 12  # rows with which an unknown function is tried


class _UnknownError(Exception):
    """A recognised function with arguments that its kernel here does not have."""


def as_kernel(
    function: Kernel | KernelFunction, label: str, rows: Array, converters: Converters
) -> Kernel:
    """Return the kernel that a callable is; any other function is called tile by tile.

    Parameters
    ----------
    function : Kernel or callable
        The argument called ``label``.
    label : str
        Name of the argument, for messages.
    rows : ndarray (n, d)
        Data that it will be called with.
    converters : list of (callable, float)
        What turns a float64 array into what an unknown function takes, and the unit roundoff of that; the
        first that the function does not fail on is used, so that one that holds float32 tensors
        works too.
    """
    if isinstance(function, Kernel):
        return function
    if not callable(function):
        raise TypeError(
            f"{label} is {function!r}; a function of two sets of rows that returns their kernel matrix, "
            "or a fastmcmd kernel, is needed"
        )
    try:
        recognised = known_kernel(function, rows.shape[1])
    except (TypeError, ValueError) as error:  # parameters out of range
        raise type(error)(f"{label}: {error}") from None
    if recognised is not None:
        return recognised
    if is_indefinite(function):
        warnings.warn(
            f"{label}: exp(-gamma |x - z|_1^2) of {rows.shape[1]} columns, the published Laplacian kernel, "
            "is not positive semi-definite: the values are the published formula's, but no discrepancy of "
            "distributions, and their error is not certified. partial(laplacian_kernel, squared=False) is "
            "the Laplacian kernel",
            UserWarning,
            stacklevel=4,
        )
    some = rows[:_TRIED].astype(np.float64)
    for convert, unit in converters[:-1]:
        kernel = CallableKernel(function, label, convert, unit)
        try:
            kernel.evaluate(some[:1], some[:1])
        except RuntimeError:  # what torch raises where dtypes do not match
            continue
        kernel.check(some)
        return kernel
    kernel = CallableKernel(function, label, *converters[-1])
    kernel.check(some)
    return kernel


def known_kernel(function: KernelFunction, columns: int) -> Kernel | None:
    """Return the kernel of a recognised function, or of a partial of one, for rows of d columns."""
    function, arguments = _opened(function)
    make = _KNOWN.get((getattr(function, "__module__", ""), getattr(function, "__name__", "")))
    if make is None or arguments is None:
        return None
    try:
        return make(columns, **{name: _number(value) for name, value in arguments.items()})
    except _UnknownError:
        return None


def is_indefinite(function: KernelFunction) -> bool:
    """Tell whether a function that is no kernel here is the published square of an L1 distance."""
    function, arguments = _opened(function)
    module = getattr(function, "__module__", "")
    return (
        module in _PUBLISHED
        and getattr(function, "__name__", "") == "laplacian_kernel"
        and bool((arguments or {}).get("squared", True))
    )


def _opened(function: KernelFunction) -> tuple[Any, dict[str, Any] | None]:
    """Return the function of a partial and its keywords; None where it holds positions, too."""
    if not isinstance(function, functools.partial):
        return function, {}
    return function.func, None if function.args else dict(function.keywords)


def _number(value: Any) -> Any:
    """Return an argument as a Python number; None and booleans as they are."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    if getattr(value, "shape", None) in ((), (1,)):  # a NumPy or torch scalar
        return float(value)
    raise _UnknownError


def _published_rbf(columns: int, gamma: float | None = None) -> Kernel:
    return RBF(gamma or 1.0 / columns)


def _published_laplacian(columns: int, gamma: float | None = None, squared: bool = True) -> Kernel:
    if not squared:
        return Laplacian(gamma or 1.0 / columns)
    if columns > 1:
        raise _UnknownError
    return RBF(gamma or 1.0 / columns)


def _published_polynomial(
    columns: int, gamma: float = 1.0, coef0: float = 1.0, degree: float = 3
) -> Kernel:
    del columns
    return _power(gamma, coef0, degree)


def _sklearn_rbf(columns: int, gamma: float | None = None) -> Kernel:
    gamma = 1.0 / columns if gamma is None else gamma
    return RBF(gamma) if gamma else Constant(1.0)


def _sklearn_laplacian(columns: int, gamma: float | None = None) -> Kernel:
    gamma = 1.0 / columns if gamma is None else gamma
    return Laplacian(gamma) if gamma else Constant(1.0)


def _sklearn_polynomial(
    columns: int, degree: float = 3, gamma: float | None = None, coef0: float = 1.0
) -> Kernel:
    return _power(1.0 / columns if gamma is None else gamma, coef0, degree)


def _power(gamma: float, coef0: float, degree: float) -> Kernel:
    if gamma == 0:
        return Constant(coef0**degree)
    return Polynomial(degree, gamma, coef0)  # type: ignore[arg-type]  # checked there


def _sklearn_linear(columns: int, dense_output: bool = True) -> Kernel:
    del columns, dense_output
    return Linear()


def _sklearn_cosine(columns: int, dense_output: bool = True) -> Kernel:
    del columns, dense_output
    return Cosine()


_PUBLISHED = ("fastmcmd.compat.probcal.kernels", "probcal.evaluation.kernels")
_KNOWN: dict[tuple[str, str], Callable[..., Kernel]] = {
    **{(module, "rbf_kernel"): _published_rbf for module in _PUBLISHED},
    **{(module, "laplacian_kernel"): _published_laplacian for module in _PUBLISHED},
    **{(module, "polynomial_kernel"): _published_polynomial for module in _PUBLISHED},
    ("sklearn.metrics.pairwise", "rbf_kernel"): _sklearn_rbf,
    ("sklearn.metrics.pairwise", "laplacian_kernel"): _sklearn_laplacian,
    ("sklearn.metrics.pairwise", "polynomial_kernel"): _sklearn_polynomial,
    ("sklearn.metrics.pairwise", "linear_kernel"): _sklearn_linear,
    ("sklearn.metrics.pairwise", "cosine_similarity"): _sklearn_cosine,
}
