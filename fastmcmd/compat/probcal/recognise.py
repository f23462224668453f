"""Kernels of callables: recognised by name, or called tile by tile."""

from __future__ import annotations

import functools
import math
import numbers
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from fastmcmd._base.annotations import AnyArray, Json
from fastmcmd._base.checks import tensor_on_host
from fastmcmd.kernels import RBF, Constant, Cosine, Kernel, Laplacian, Linear, Polynomial
from fastmcmd.kernels.base import Array, Instruction, as_rows

__all__ = [
    "CallableKernel",
    "Converter",
    "Converters",
    "KernelFunction",
    "as_kernel",
    "is_indefinite",
    "known_kernel",
]

KernelFunction: TypeAlias = Callable[[AnyArray, AnyArray], AnyArray]
# Turns float64 arrays into what a function takes, with the unit roundoff of that.
Converter: TypeAlias = tuple[Callable[[Array], AnyArray], float]
Converters: TypeAlias = list[Converter]

_DIAGONAL = 32  # rows whose block is computed for its diagonal: few, as most of it is discarded
_PROBED = (7, 5)  # rows with which a function is tried; unequal, so that a transpose shows
_ASYMMETRY = 1e-3  # relative to the largest entry: beyond rounding in any precision


@dataclass(frozen=True, eq=False)
class CallableKernel(Kernel):
    """``function(x, z) -> (n, m)`` of blocks of rows, as published; called tile by tile.

    Parameters
    ----------
    function : callable
        Takes rows (n, d) and (m, d), arrays or tensors, and returns their matrix. Symmetric and
        positive semi-definite; a few rows are tried for symmetry, the rest is not checked.
    label : str
        Name of the argument, for messages.
    convert : callable
        Turns an array into what the function takes.
    unit : float
        Unit roundoff of the precision in which the function is called.

    Notes
    -----
    `fastmcmd.CustomKernel` is a function of two single rows, compiled by Numba; this one is any Python
    code, called by one thread at a time.
    """

    function: KernelFunction
    label: str
    convert: Callable[[Array], AnyArray]
    unit: float
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    @property
    def compiled(self) -> bool:
        """Return False: the compiled core does not know the function."""
        return False

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        with self._lock:  # tiles are computed on several threads; the user's code expects one
            values = self.function(self.convert(x), self.convert(z))
        if hasattr(values, "detach"):
            values = tensor_on_host(values, f"what {self.label} returned")
        matrix = np.asarray(values)
        if matrix.shape != (len(x), len(z)):
            raise ValueError(
                f"{self.label} returned shape {matrix.shape} for {len(x)} and {len(z)} rows; a matrix of "
                f"shape {(len(x), len(z))} is needed"
            )
        if matrix.dtype.kind not in "fiub":
            raise TypeError(f"{self.label} returned dtype {matrix.dtype}; real numbers are needed")
        if not np.isfinite(matrix).all():
            problem = "NaN" if np.isnan(matrix).any() else "infinity"
            raise ValueError(f"{self.label} returned {problem}; finite numbers are needed")
        return matrix.astype(np.result_type(x, z), copy=False)

    def diagonal(self, x: AnyArray) -> Array:
        """Return k(x_i, x_i) (n,)."""
        rows = as_rows(x)
        out = np.empty(len(rows))
        for start in range(0, len(rows), _DIAGONAL):
            block = rows[start : start + _DIAGONAL].astype(np.float64)
            out[start : start + len(block)] = self.evaluate(block, block).diagonal()
        return out

    def check(self, x: Array) -> None:
        """Call the function on a few rows, and raise an error if its matrix is not symmetric."""
        first, last = x[: _PROBED[0]], x[-_PROBED[1] :]
        try:
            forward, back = self.evaluate(first, last), self.evaluate(last, first)
        except TypeError as error:  # a different number of arguments, or an error of its own
            raise TypeError(
                f"{self.label} cannot be called on two arrays of rows: {error}"
            ) from error
        if np.abs(forward - back.T).max() > _ASYMMETRY * np.abs(forward).max():
            raise ValueError(
                f"{self.label} is not symmetric: k(x, z) and k(z, x) differ by "
                f"{np.abs(forward - back.T).max():.2g}; a kernel is needed"
            )

    def instructions(self) -> Iterator[Instruction]:
        """Raise an error: there is no program."""
        raise TypeError(
            f"{self.label} is a Python function without a program for the compiled core"
        )

    def max_value(self, max_norm2: float) -> float:
        """Return infinity: the function may have any bound."""
        del max_norm2
        return math.inf

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return infinity: `rounding` has the assumption that replaces it."""
        del unit, dim, max_norm2, direct
        return math.inf

    def rounding(
        self, unit: float, dim: int, max_norm2: float, direct: bool, largest: float
    ) -> float:
        """Return the assumption of `Kernel.rounding` at the precision of the function's calls."""
        return super().rounding(max(unit, self.unit), dim, max_norm2, direct, largest)

    def to_dict(self) -> Json:
        """Raise an error: a function cannot be saved without pickle."""
        raise TypeError(f"{self!r} holds a Python function, which cannot be saved without pickle")

    def __repr__(self) -> str:
        return f"CallableKernel({getattr(self.function, '__name__', self.function)})"


_TEST_ROWS = 12  # rows that test an unknown function


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
    some = rows[:_TEST_ROWS].astype(np.float64)
    for convert, unit in converters[:-1]:
        kernel = CallableKernel(function, label, convert, unit)
        try:
            kernel.evaluate(some[:1], some[:1])
        except RuntimeError:  # torch raises it for dtypes that do not match
            continue
        kernel.check(some)
        return kernel
    kernel = CallableKernel(function, label, *converters[-1])
    kernel.check(some)
    return kernel


def known_kernel(function: KernelFunction, columns: int) -> Kernel | None:
    """Return the kernel of a recognised function, or of a partial of one, for rows of d columns."""
    function, arguments = _opened(function)
    make = _RECOGNISED.get((getattr(function, "__module__", ""), getattr(function, "__name__", "")))
    if make is None or arguments is None:
        return None
    numbers_of = {name: _number(value) for name, value in arguments.items()}
    if not all(value is None or isinstance(value, (bool, float)) for value in numbers_of.values()):
        return None
    return make(columns, **numbers_of)


def is_indefinite(function: KernelFunction) -> bool:
    """Return whether a function that is no kernel here is the published square of an L1 distance."""
    function, arguments = _opened(function)
    module = getattr(function, "__module__", "")
    return (
        module in _PUBLISHED
        and getattr(function, "__name__", "") == "laplacian_kernel"
        and bool((arguments or {}).get("squared", True))
    )


def _opened(function: KernelFunction) -> tuple[Any, dict[str, Any] | None]:
    """Return the function of a partial and its keywords; None if it also holds positional arguments."""
    if not isinstance(function, functools.partial):
        return function, {}
    return function.func, None if function.args else dict(function.keywords)


def _number(value: Any) -> Any:
    """Return a scalar as a Python number; None, booleans and other values are unchanged."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    if getattr(value, "shape", None) in ((), (1,)):  # a NumPy or torch scalar
        return float(value)
    return value


def _published_rbf(columns: int, gamma: float | None = None) -> Kernel:
    return RBF(gamma or 1.0 / columns)


def _published_laplacian(
    columns: int, gamma: float | None = None, squared: bool = True
) -> Kernel | None:
    if not squared:
        return Laplacian(gamma or 1.0 / columns)
    return RBF(gamma or 1.0 / columns) if columns == 1 else None


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
_RECOGNISED: dict[tuple[str, str], Callable[..., Kernel | None]] = {
    **{(module, "rbf_kernel"): _published_rbf for module in _PUBLISHED},
    **{(module, "laplacian_kernel"): _published_laplacian for module in _PUBLISHED},
    **{(module, "polynomial_kernel"): _published_polynomial for module in _PUBLISHED},
    ("sklearn.metrics.pairwise", "rbf_kernel"): _sklearn_rbf,
    ("sklearn.metrics.pairwise", "laplacian_kernel"): _sklearn_laplacian,
    ("sklearn.metrics.pairwise", "polynomial_kernel"): _sklearn_polynomial,
    ("sklearn.metrics.pairwise", "linear_kernel"): _sklearn_linear,
    ("sklearn.metrics.pairwise", "cosine_similarity"): _sklearn_cosine,
}
