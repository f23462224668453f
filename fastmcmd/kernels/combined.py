"""Sums, products and constants of kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.cached import cached_property
from fastmcmd.errors import NumericalError
from fastmcmd.kernels.base import (
    Array,
    Instruction,
    Kernel,
    check_number,
    fits,
    operation,
    underflow,
)
from fastmcmd.kernels.distance import RBF, number
from fastmcmd.kernels.inner import moderate_rows

__all__ = ["Constant", "Product", "Sum"]

_EXP_UNITS = 2.0  # relative error of the core's exponential in units of rounding


@operation("constant")
@dataclass(frozen=True)
class Constant(Kernel):
    """The constant kernel.

    Parameters
    ----------
    value : float
        Nonnegative number.
    """

    scale_free: ClassVar[bool] = True
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_number(self.value, "value", strict=False))

    @property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """A constant does not depend on the rows."""
        return True

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        return np.full((len(x), len(z)), self.value, dtype=np.result_type(x, z))

    def of_squares(self, squares: Array) -> Array:
        """Return the constant (n,)."""
        return np.full(len(squares), self.value)

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "constant", (self.value, 0.0, 0.0, 0.0)

    def max_value(self, max_norm2: float) -> float:
        """Return the constant."""
        del max_norm2
        return self.value

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return the rounding of the constant itself."""
        del dim, max_norm2, direct
        if not fits(unit, self.value):
            return math.inf
        return unit * self.value + underflow(unit)


@dataclass(frozen=True)
class _Pair(Kernel):
    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            if not isinstance(getattr(self, name), Kernel):
                raise TypeError(f"{name} is {getattr(self, name)!r}; a kernel is needed")

    @cached_property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """Whether both parts are translation invariant."""
        return self.left.translation_invariant and self.right.translation_invariant

    @cached_property
    def compares_rows(self) -> bool:  # type: ignore[override]
        """Whether at least one part compares rows."""
        return self.left.compares_rows or self.right.compares_rows

    @cached_property
    def scale_free(self) -> bool:  # type: ignore[override]
        """Whether both parts are scale free."""
        return self.left.scale_free and self.right.scale_free

    @cached_property
    def has_scales(self) -> bool:  # type: ignore[override]
        """Whether at least one part scales the columns."""
        return self.left.has_scales or self.right.has_scales

    @cached_property
    def divides_by_norms(self) -> bool:  # type: ignore[override]
        """Whether at least one part divides by norms."""
        return self.left.divides_by_norms or self.right.divides_by_norms

    def prepared(self, x: Array, name: str) -> Array:
        """Return separately scaled rows if both parts allow that; else both must accept the originals."""
        if self.scale_free:
            for part in (self.left, self.right):
                x = part.prepared(x, name)
            return x
        for part in (self.left, self.right):
            if part.prepared(x, name) is not x:
                row = int(np.flatnonzero(~moderate_rows(x))[0])
                raise NumericalError(
                    f"{name}[{row}] has entries of at most {np.abs(x[row]).max():.1e}: their squares "
                    f"under- or overflow in {part!r}, which stands beside a kernel that depends on "
                    "their scale; scale the columns",
                    row,
                )
        return x

    def examine(self, rows: Array, name: str) -> None:
        """Examine both parts."""
        self.left.examine(rows, name)
        self.right.examine(rows, name)

    @cached_property
    def is_resolved(self) -> bool:
        """Whether both parts are resolved."""
        return self.left.is_resolved and self.right.is_resolved

    @cached_property
    def compiled(self) -> bool:
        """Whether the compiled core can evaluate both parts."""
        return self.left.compiled and self.right.compiled

    def resolve(self, data: ArrayLike) -> Kernel:
        """Return the combination of the resolved parts; itself if nothing is left to resolve."""
        if self.is_resolved:
            return self
        return replace(self, left=self.left.resolve(data), right=self.right.resolve(data))


@operation("sum")
@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two kernels, created by ``+``."""

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        return np.asarray(self.left.evaluate(x, z) + self.right.evaluate(x, z))

    def diagonal(self, x: ArrayLike) -> Array:
        """Return the sum of the diagonals (n,)."""
        if self.translation_invariant:
            return super().diagonal(x)
        return np.asarray(self.left.diagonal(x) + self.right.diagonal(x))

    def of_squares(self, squares: Array) -> Array:
        """Return the sum of the diagonals (n,)."""
        return np.asarray(self.left.of_squares(squares) + self.right.of_squares(squares))

    def instructions(self) -> Iterator[Instruction]:
        """Yield both parts, then the addition."""
        yield from self.left.instructions()
        yield from self.right.instructions()
        yield "add", (0.0, 0.0, 0.0, 0.0)

    def max_value(self, max_norm2: float) -> float:
        """Return the sum of the bounds."""
        return self.left.max_value(max_norm2) + self.right.max_value(max_norm2)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return the sum of the errors plus the rounding of the sum."""
        parts = self.left.entry_error(unit, dim, max_norm2, direct)
        parts += self.right.entry_error(unit, dim, max_norm2, direct)
        parts += unit * self._error_of_powers()
        return parts + unit * (self.max_value(max_norm2) + parts)

    @cached_property
    def fourth_powers(self) -> int:
        """How many of the summands the core computes as fourth powers of the one before: 0, 1 or 2.

        These are two or three RBFs each of whose gammas is four times the one before.
        """
        if not isinstance(self.right, RBF):
            return 0
        inner = self.left if isinstance(self.left, Sum) else None
        before = self.left if inner is None else inner.right
        if not isinstance(before, RBF) or number(self.right.gamma) != 4 * number(before.gamma):
            return 0
        if inner is None:
            return 1
        return 2 if inner.fourth_powers == 1 else 0

    def _error_of_powers(self) -> float:
        """Return the units of rounding of the last power: four times those before it, and two."""
        units = _EXP_UNITS
        for _ in range(self.fourth_powers):
            units = 4 * units + 2
        return units if self.fourth_powers else 0.0

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


@operation("product")
@dataclass(frozen=True)
class Product(_Pair):
    """The product of two kernels, created by ``*``."""

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        return np.asarray(self.left.evaluate(x, z) * self.right.evaluate(x, z))

    def diagonal(self, x: ArrayLike) -> Array:
        """Return the product of the diagonals (n,)."""
        if self.translation_invariant:
            return super().diagonal(x)
        return np.asarray(self.left.diagonal(x) * self.right.diagonal(x))

    def of_squares(self, squares: Array) -> Array:
        """Return the product of the diagonals (n,)."""
        return np.asarray(self.left.of_squares(squares) * self.right.of_squares(squares))

    def instructions(self) -> Iterator[Instruction]:
        """Yield both parts, then the multiplication."""
        yield from self.left.instructions()
        yield from self.right.instructions()
        yield "mul", (0.0, 0.0, 0.0, 0.0)

    def max_value(self, max_norm2: float) -> float:
        """Return the product of the bounds."""
        return self.left.max_value(max_norm2) * self.right.max_value(max_norm2)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return the combined error of the factors plus the rounding of the product."""
        a, b = self.left.max_value(max_norm2), self.right.max_value(max_norm2)
        ea = self.left.entry_error(unit, dim, max_norm2, direct)
        eb = self.right.entry_error(unit, dim, max_norm2, direct)
        if math.inf in (ea, eb) or not fits(unit, a * b):
            return math.inf
        return ea * b + eb * a + ea * eb + unit * (a + ea) * (b + eb) + underflow(unit)

    def __repr__(self) -> str:
        parts = (
            f"({part!r})" if isinstance(part, Sum) else repr(part)
            for part in (self.left, self.right)
        )
        return " * ".join(parts)
