"""What a kernel is: a value that is called, added, multiplied, and knows its bounds."""

from __future__ import annotations

import dataclasses
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Instruction", "Kernel", "as_rows", "check_number"]

Array = NDArray[Any]
Instruction = tuple[str, tuple[float, float, float, float]]

_BLOCK = 1 << 20  # elements of a temporary array


def as_rows(x: Array) -> Array:
    """Return (n,) as (n, 1), and (n, d) as it is."""
    x = np.asarray(x)
    return x[:, None] if x.ndim == 1 else x


def check_number(value: Any, name: str, *, least: float = 0.0, strict: bool = True) -> float:
    """Return ``value`` as a finite float above ``least`` (or equal to it where not strict)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; a number is needed")
    number = float(value)
    if not np.isfinite(number) or number < least or (strict and number == least):
        sign = ">" if strict else ">="
        raise ValueError(f"{name} is {number:g}; a finite number {sign} {least:g} is needed")
    return number


class Kernel(ABC):
    """A positive semi-definite function of two rows.

    Kernels are frozen dataclasses: equal when their parameters are, hashable, combined by ``+`` and
    ``*`` with each other and with nonnegative numbers. A new one is a short class with the methods
    below, a leaf in the compiled core, and a line in ``kernels/__init__.py``.
    """

    translation_invariant: ClassVar[bool] = False

    def __call__(self, x: Any, z: Any = None) -> Array:
        """Return the kernel matrix (n, m) of rows x (n, d) and z (m, d) by its plain definition.

        In the precision of the inputs; (n,) is taken as (n, 1); ``z=None`` takes ``x``.
        """
        x = as_rows(x)
        z = x if z is None else as_rows(z)
        if x.shape[1] != z.shape[1]:
            raise ValueError(f"x has {x.shape[1]} columns and z has {z.shape[1]}; they must agree")
        kind = np.result_type(x, z, np.float32)
        out = np.empty((len(x), len(z)), dtype=kind)
        step = max(1, _BLOCK // max(1, len(z)))
        for start in range(0, len(x), step):
            out[start : start + step] = self.evaluate(x[start : start + step], z)
        return out

    @abstractmethod
    def evaluate(self, x: Array, z: Array) -> Array:
        """Return the matrix of a block of rows; ``x`` and ``z`` have the same columns."""

    @abstractmethod
    def diagonal(self, x: Any) -> Array:
        """Return k(x_i, x_i) (n,)."""

    @abstractmethod
    def instructions(self) -> Iterator[Instruction]:
        """Yield the reverse-Polish program of the compiled core: names and up to four parameters."""

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
            Columns d, summed one after the other.
        max_norm2 : float
            Largest squared norm of a row, as the tile sees it.
        direct : bool
            Whether squared distances are sums of squared differences (relative error ``(dim + 3)
            unit``) or ``|x|^2 + |z|^2 - 2 x.z`` (absolute error ``(4 dim + 12) unit max_norm2``).

        Notes
        -----
        A sum of d products has relative error ``d unit`` of the sum of their sizes (Higham, Accuracy
        and Stability of Numerical Algorithms, 3.1); three units more cover rounding the rows themselves
        to the tile's precision, four a compiled exponential or power.
        """

    def rounding(
        self, unit: float, dim: int, max_norm2: float, direct: bool, largest: float
    ) -> float:
        """Return `entry_error`, or an assumption about a person's own function.

        ``largest`` bounds the kernel's diagonal and so, by Cauchy-Schwarz, all its entries. A custom
        function is taken to have 16 (d + 8) roundings relative to that.
        """
        if not self.compiled:
            return 16 * (dim + 8) * unit * largest
        return self.entry_error(unit, dim, max_norm2, direct)

    def resolve(self, data: Any) -> Kernel:
        """Return the kernel with parameters that depend on the data (n, d) replaced by numbers."""
        del data
        return self

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

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as a JSON-safe dictionary."""
        values = {
            field.name: value.to_dict() if isinstance(value, Kernel) else value
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            for value in (getattr(self, field.name),)
        }
        return {"kernel": type(self).__name__, **values}

    def __add__(self, other: Any) -> Kernel:
        from fastmcmd.kernels.combined import Constant, Sum

        if isinstance(other, Kernel):
            return Sum(self, other)
        return (
            Sum(self, Constant(float(other))) if isinstance(other, numbers.Real) else NotImplemented
        )

    def __mul__(self, other: Any) -> Kernel:
        from fastmcmd.kernels.combined import Constant, Product

        if isinstance(other, Kernel):
            return Product(self, other)
        return (
            Product(self, Constant(float(other)))
            if isinstance(other, numbers.Real)
            else NotImplemented
        )

    __radd__ = __add__
    __rmul__ = __mul__
