"""The kernel interface: a value that can be called, added and multiplied, and that has error bounds."""

from __future__ import annotations

import dataclasses
import math
import numbers
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.abstract import Abstract
from fastmcmd._base.annotations import HostArray, Json
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import as_array, as_float, distinct_digits

__all__ = [
    "UNIT",
    "Array",
    "Instruction",
    "Kernel",
    "KernelLike",
    "as_rows",
    "check_number",
    "fits",
    "in_range",
    "power_of_two",
    "relative_error",
    "underflow",
]

Array = HostArray
Class = TypeVar("Class", bound="Kernel")
Instruction = tuple[str, tuple[float, float, float, float]]

EPS = float(np.finfo(np.float64).eps)  # distance of 1 to the next double, 2^-52
UNIT = EPS / 2  # unit roundoff of float64
UNIT32 = float(np.finfo(np.float32).eps) / 2  # unit roundoff of float32
_BLOCK = 1 << 20  # elements of a temporary array
_FLOAT32_LIMITS, _FLOAT64_LIMITS = (
    (float(one.tiny), float(one.max), float(one.smallest_subnormal))
    for one in (np.finfo(np.float32), np.finfo(np.float64))
)


def as_rows(x: ArrayLike, name: str = "x") -> Array:
    """Return (n,) as (n, 1), and (n, d) unchanged; integers and half precision become float64."""
    rows: Array = x if type(x) is np.ndarray and x.dtype.kind == "f" else as_array(x, name)
    if rows.dtype.itemsize < 4:
        rows = rows.astype(np.float64)
    if rows.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {rows.shape}; (n,) or (n, d) is needed")
    return rows[:, None] if rows.ndim == 1 else rows


def relative_error(operations: float, unit: float) -> float:
    """Return the relative error ``n u / (1 - n u)`` of n roundings, and infinity from n u = 1/2.

    Higham, *Accuracy and Stability of Numerical Algorithms*, lemma 3.1.
    """
    size = operations * unit
    return size / (1 - size) if size < 0.5 else math.inf


def _limits(unit: float) -> tuple[float, float, float]:
    """Return the smallest normal, the largest and the smallest number of the format of ``unit``."""
    return _FLOAT32_LIMITS if unit > 1e-12 else _FLOAT64_LIMITS


def in_range(unit: float, *values: float) -> bool:
    """Return whether all values are zero or keep their digits in the precision of roundoff ``unit``.

    Below its smallest normal number a format loses digits, above its largest it is infinite, and no
    bound in terms of ``unit`` holds.
    """
    least, most, _ = _limits(unit)
    for v in values:  # noqa: SIM110 (a generator takes three times as long)
        if not (v == 0 or least <= v <= most):
            return False
    return True


def fits(unit: float, *values: float) -> bool:
    """Return whether no value overflows in the precision of roundoff ``unit``.

    Use it for sizes that may be arbitrarily small; `underflow` bounds the loss from underflow.
    """
    most = _limits(unit)[1]
    for v in values:  # noqa: SIM110
        if not v <= most:
            return False
    return True


def underflow(unit: float) -> float:
    """Return the smallest positive number of the format, a bound on the error of an underflow."""
    return _limits(unit)[2]


def power_of_two(size: float) -> float:
    """Return the power of two nearest ``1 / size``: multiplying by it loses no digits."""
    if not 0 < size < math.inf:
        return 1.0
    return math.ldexp(1.0, min(1000, -round(math.log2(size))))


def check_number(value: object, name: str, *, least: float = 0.0, strict: bool = True) -> float:
    """Return ``value`` as a checked finite float above ``least`` (or equal to it if not ``strict``)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; a number is needed")
    number = as_float(value, name)
    if not np.isfinite(number) or number < least or (strict and number == least):
        sign = ">" if strict else ">="
        value_text, bound = distinct_digits(number, least)
        raise ValueError(f"{name} is {value_text}; a finite number {sign} {bound} is needed")
    return number


def squared_norms(x: ArrayLike) -> Array:
    """Return ``|x_i|_2^2`` (n,), summed in float64 at least."""
    rows = as_rows(x)
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.result_type(rows, np.float64)))


# How kernels and constants combine: `combined` enters its classes, which are kernels themselves.
_OPERATIONS: dict[str, Callable[..., Kernel]] = {}


def operation(name: str) -> Callable[[type[Class]], type[Class]]:
    """Return a decorator that registers a class of kernels as "sum", "product" or "constant"."""

    def enter(kind: type[Class]) -> type[Class]:
        _OPERATIONS[name] = kind
        return kind

    return enter


class Kernel(Abstract):
    """A positive semi-definite function of two rows.

    Kernels are frozen, hashable dataclasses, equal if their parameters are equal. ``+`` and ``*`` combine
    them with each other and with nonnegative numbers. To add a kernel, write a short class with the methods
    below, add a leaf to the compiled core, and add a line to ``kernels/__init__.py``.
    """

    translation_invariant: ClassVar[bool] = False
    compares_rows: ClassVar[bool] = False  # whether it depends on which rows are equal
    divides_by_norms: ClassVar[bool] = False  # whether small rows count as much as large ones
    scale_free: ClassVar[bool] = False  # whether each row may be multiplied by a positive number
    has_scales: ClassVar[bool] = False  # whether a part of it scales the columns
    __array_ufunc__ = None  # an array times a kernel is an error, not an array of kernels

    def __call__(self, x: ArrayLike, z: ArrayLike | None = None) -> Array:
        """Return the kernel matrix (n, m) of rows x (n, d) and z (m, d), from the definition.

        The result is in float64 unless both inputs are float32. (n,) is read as (n, 1); ``z=None`` means
        ``x``. NaN is passed on.
        """
        x = as_rows(x)
        z = x if z is None else as_rows(z, "z")
        if x.shape[1] != z.shape[1]:
            raise ValueError(f"x has {x.shape[1]} columns and z has {z.shape[1]}; they must agree")
        out = np.empty((len(x), len(z)), dtype=np.result_type(x, z))
        step = max(1, _BLOCK // max(1, len(z)))
        for start in range(0, len(x), step):
            out[start : start + step] = self.evaluate(x[start : start + step], z)
        return out

    @abstractmethod
    def evaluate(self, x: Array, z: Array) -> Array:
        """Return the kernel matrix of a block of rows; ``x`` and ``z`` have the same columns."""

    def diagonal(self, x: ArrayLike) -> Array:
        """Return k(x_i, x_i) (n,)."""
        rows = as_rows(x)
        if self.translation_invariant:
            return np.full(len(rows), self.at_zero)
        return self.of_squares(squared_norms(rows))

    @cached_property
    def at_zero(self) -> float:
        """k(0, 0), the whole diagonal of a translation-invariant kernel."""
        return float(self.of_squares(np.zeros(1))[0])

    def of_squares(self, squares: Array) -> Array:
        """Return k(x_i, x_i) (n,) of rows with these squared norms; not available for custom functions."""
        raise TypeError(f"{type(self).__name__} is no function of squared norms")

    @abstractmethod
    def instructions(self) -> Iterator[Instruction]:
        """Yield the reverse-Polish program for the compiled core: names and up to four parameters."""

    @abstractmethod
    def max_value(self, max_norm2: float) -> float:
        """Return a bound on |k(x, z)| for rows of squared norm at most ``max_norm2``."""

    @abstractmethod
    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return a bound on |computed - exact| of an entry of a tile.

        Parameters
        ----------
        unit : float
            Unit roundoff: 6e-8 in float32, 1.1e-16 in float64.
        dim : int
            Number of columns d, summed sequentially.
        max_norm2 : float
            Largest squared norm of a row in the tile.
        direct : bool
            Whether squared distances are sums of squared differences (True) or ``|x|^2 + |z|^2 - 2 x.z``.

        Notes
        -----
        *Exact* is the kernel of the original rows; *computed* rounds rows, parameters and every operation
        to the precision of the tile. The error of a sum of d products is at most `relative_error` ``(d,
        unit)`` times the sum of their absolute values, in any order of summation (Higham, *Accuracy and
        Stability of Numerical Algorithms*, section 3.1). Exponentials and powers are assumed to have a
        relative error of at most five units (NumPy in float32: 2.5 units in the last place). The bound is
        infinite if parameters, norms or values leave the range of the format of the tile (`in_range`).
        """

    def rounding(
        self, unit: float, dim: int, max_norm2: float, direct: bool, largest: float
    ) -> float:
        """Return `entry_error`, or an assumed error for a custom function.

        ``largest`` bounds the diagonal of the kernel and therefore, by Cauchy-Schwarz, all its entries. A
        custom function is assumed to make 16 (d + 8) rounding errors relative to that.
        """
        if not self.compiled:
            return 16 * (dim + 8) * unit * largest
        return self.entry_error(unit, dim, max_norm2, direct)

    def resolve(self, data: ArrayLike) -> Kernel:
        """Return the kernel with parameters that depend on the data (n, d) replaced by numbers."""
        del data
        return self

    def prepared(self, x: Array, name: str) -> Array:
        """Return rows (n, d) with the same kernel values, whose squares neither underflow nor overflow.

        Returns the array itself unless some rows need scaling. ``name`` is its name in messages.

        Raises
        ------
        ValueError
            If squares of rows would underflow or overflow and the rows cannot be scaled separately.
        """
        del name
        return x

    def examine(self, rows: Array, name: str) -> None:
        """Raise an error if a custom function is not a kernel on some rows (m, d).

        ``name`` is the name of the kernel argument.
        """
        del rows, name

    @property
    def is_resolved(self) -> bool:
        """Whether all parameters are numbers."""
        return True

    @property
    def compiled(self) -> bool:
        """Whether the compiled core can evaluate the whole kernel."""
        return True

    def program(self) -> tuple[tuple[str, ...], list[tuple[float, float, float, float]]]:
        """Return names and parameters of the reverse-Polish program."""
        steps = list(self.instructions())
        return tuple(name for name, _ in steps), [parameters for _, parameters in steps]

    def to_dict(self) -> Json:
        """Return the kernel as a JSON-safe dictionary."""
        values = {
            field.name: value.to_dict() if isinstance(value, Kernel) else value
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            for value in (getattr(self, field.name),)
        }
        return {"kernel": type(self).__name__, **values}

    def __add__(self, other: object) -> Kernel:
        if isinstance(other, numbers.Real):
            value = check_number(other, "the number added to a kernel", strict=False)
            other = _OPERATIONS["constant"](value)
        return _OPERATIONS["sum"](self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: object) -> Kernel:
        if isinstance(other, numbers.Real):
            other = _OPERATIONS["constant"](check_number(other, "the factor of a kernel"))
        return _OPERATIONS["product"](self, other) if isinstance(other, Kernel) else NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__


# A kernel, the name of a choice such as "auto", or None for the default.
KernelLike: TypeAlias = Kernel | str | None
