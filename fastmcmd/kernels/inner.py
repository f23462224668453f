"""Kernels that depend on an inner product: Polynomial, Linear, Cosine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd.kernels.base import (
    Array,
    Instruction,
    Kernel,
    as_rows,
    check_number,
    fits,
    in_range,
    relative_error,
    squared_norms,
    underflow,
)
from fastmcmd.kernels.distance import number
from fastmcmd.kernels.gamma import Gamma, check_gamma, resolve_gamma

__all__ = ["Cosine", "Linear", "Polynomial", "moderate_rows"]

_MODERATE = 2.0**-50  # squares of it, and of its inverse, keep all digits in float32


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Polynomial kernel ``(gamma x.z + coef0)^degree``, as in scikit-learn.

    The default is the input kernel of Young et al. (arXiv 2405.12412): ``(x.z / d + 1)^3``.

    Parameters
    ----------
    degree : int
        Positive whole number; other powers are not kernels in general.
    gamma : float, "variance", "median" or None
        A positive number, or a rule as in `RBF`; None: 1/d.
    coef0 : float
        Nonnegative constant.
    """

    degree: int = 3
    gamma: Gamma = None
    coef0: float = 1.0

    def __post_init__(self) -> None:
        degree = check_number(self.degree, "degree", least=1.0, strict=False)
        if degree != int(degree):
            raise ValueError(f"degree is {degree:g}; a whole number is needed")
        object.__setattr__(self, "degree", int(degree))
        object.__setattr__(self, "gamma", check_gamma(self.gamma))
        object.__setattr__(self, "coef0", check_number(self.coef0, "coef0", strict=False))

    def resolve(self, data: ArrayLike) -> Polynomial:
        """Return the kernel with a numeric gamma."""
        if self.is_resolved:
            return self
        return replace(self, gamma=resolve_gamma(self.gamma, data, "euclidean"))

    @property
    def is_resolved(self) -> bool:
        """Whether gamma is a number."""
        return isinstance(self.gamma, float)

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        kind = np.result_type(x, z).type
        return np.asarray((kind(number(self.gamma)) * (x @ z.T) + kind(self.coef0)) ** self.degree)

    def of_squares(self, squares: Array) -> Array:
        """Return ``(gamma |x|^2 + coef0)^degree`` (n,)."""
        with np.errstate(over="ignore"):  # infinity is what a check of the diagonal looks for
            return np.asarray((number(self.gamma) * squares + self.coef0) ** self.degree)

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "polynomial", (number(self.gamma), self.coef0, float(self.degree), 0.0)

    def max_value(self, max_norm2: float) -> float:
        """Return ``(gamma max_norm2 + coef0)^degree``."""
        return _power(number(self.gamma) * max_norm2 + self.coef0, self.degree)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return a bound on the error: the slope of the power times the error of the base.

        The product has d roundings and two more of its rows, gamma two, coef0 and the sum one each.
        """
        del direct
        gamma = number(self.gamma)
        base = gamma * max_norm2 + self.coef0
        if not (in_range(unit, gamma) and fits(unit, max_norm2, _power(base, self.degree))):
            return math.inf
        tiny = underflow(unit)
        off = (
            relative_error(dim + 6, unit) * base
            + gamma * _underflow_error(unit, dim, max_norm2)
            + 2 * tiny
        )
        slope = self.degree * _power(base + off, self.degree - 1)
        power = _power(base + off, self.degree)
        underflow_error = self.degree * tiny * max(1.0, power)
        return slope * off + (self.degree + 4) * unit * power + underflow_error


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel ``x.z``."""

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        return np.asarray(x @ z.T)

    def of_squares(self, squares: Array) -> Array:
        """Return ``|x|^2`` (n,)."""
        return squares

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "linear", (0.0, 0.0, 0.0, 0.0)

    def max_value(self, max_norm2: float) -> float:
        """Return ``max_norm2`` (Cauchy-Schwarz)."""
        return max_norm2

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return a bound on the error of a sum of products of rounded rows: d + 2 roundings."""
        del direct
        if not fits(unit, max_norm2):
            return math.inf
        return relative_error(dim + 3, unit) * max_norm2 + _underflow_error(unit, dim, max_norm2)


@dataclass(frozen=True)
class Cosine(Kernel):
    """Cosine similarity ``x.z / (|x| |z|)``, 0 if a row is zero, as in scikit-learn."""

    scale_free: ClassVar[bool] = True
    divides_by_norms: ClassVar[bool] = True

    def prepared(self, x: Array, name: str) -> Array:
        """Return rows of moderate size, each multiplied by a power of two if necessary."""
        del name
        return _moderate(x)

    def diagonal(self, x: ArrayLike) -> Array:
        """Return ones (n,), zero for zero rows."""
        return (as_rows(x) != 0).any(axis=1).astype(np.float64)

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        return np.asarray(_unit_rows(x) @ _unit_rows(z).T)

    def of_squares(self, squares: Array) -> Array:
        """Return ones (n,), zero for zero rows."""
        return (squares > 0).astype(np.float64)

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "cosine", (0.0, 0.0, 0.0, 0.0)

    def max_value(self, max_norm2: float) -> float:
        """Return 1."""
        del max_norm2
        return 1.0

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return a bound on the error of a normalised sum of products.

        There are d roundings of the sum, d of both norms together, two of the rows, and two each of roots,
        quotients and products. Rows are zero or of moderate size, as `prepared` ensures.
        """
        del direct
        if not fits(unit, max_norm2):
            return math.inf
        return relative_error(2 * dim + 12, unit)


def _unit_rows(x: Array) -> Array:
    x = _moderate(x)
    norms = np.sqrt(squared_norms(x))[:, None]
    return np.asarray((x / np.where(norms > 0, norms, 1)).astype(x.dtype, copy=False))


def moderate_rows(x: Array) -> Array:
    """Return a mask of the rows (n, d) that are zero or whose squares keep their digits in float32."""
    largest = np.abs(x).max(axis=1, initial=0.0)
    return np.asarray((largest == 0) | ((largest >= _MODERATE) & (largest <= 1 / _MODERATE)))


def _moderate(x: Array) -> Array:
    """Return rows of moderate size, multiplied by powers of two if necessary; else the same array."""
    if moderate_rows(x).all():
        return x
    exponent = np.frexp(np.abs(x).max(axis=1, keepdims=True, initial=0.0))[1]
    return np.asarray(np.ldexp(x, -exponent), dtype=x.dtype)


def _underflow_error(unit: float, dim: int, max_norm2: float) -> float:
    """Return a bound on the error of an inner product from underflow of its products or coordinates."""
    tiny = underflow(unit)
    return dim * tiny + 2 * tiny * math.sqrt(dim * max_norm2)


def _power(base: float, degree: int) -> float:
    try:
        return float(base**degree)
    except OverflowError:
        return math.inf
