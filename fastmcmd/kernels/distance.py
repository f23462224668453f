"""Kernels of a distance: RBF, Laplacian, Matern, Delta."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fastmcmd.kernels.base import Array, Instruction, Kernel, as_rows, check_number
from fastmcmd.kernels.gamma import Gamma, check_gamma, resolve_gamma

__all__ = ["RBF", "Delta", "Laplacian", "Matern"]


def squared_distances(x: Array, z: Array) -> Array:
    """Return ``|x_i - z_j|_2^2`` from differences, a column at a time."""
    out = np.zeros((len(x), len(z)), dtype=np.result_type(x, z, np.float32))
    for column in range(x.shape[1]):
        difference = np.subtract.outer(x[:, column], z[:, column]).astype(out.dtype, copy=False)
        out += difference * difference
    return out


def l1_distances(x: Array, z: Array) -> Array:
    """Return ``|x_i - z_j|_1``, a column at a time."""
    out = np.zeros((len(x), len(z)), dtype=np.result_type(x, z, np.float32))
    for column in range(x.shape[1]):
        out += np.abs(np.subtract.outer(x[:, column], z[:, column]))
    return out


def _square_error(unit: float, dim: int, max_norm2: float) -> float:
    """Bound the absolute error of ``|x|^2 + |z|^2 - 2 x.z``.

    Rows of squared norm M: each of the three sums is at most M (2 M for the product) with error
    ``(dim + 3) unit`` relative, and two additions of at most 4 M round once each.
    """
    return (4 * dim + 20) * unit * max_norm2


class _Stationary(Kernel):
    translation_invariant: ClassVar[bool] = True

    def diagonal(self, x: Any) -> Array:
        """Return ones (n,)."""
        return np.ones(len(as_rows(x)))

    def max_value(self, max_norm2: float) -> float:
        """Return 1."""
        del max_norm2
        return 1.0


@dataclass(frozen=True)
class RBF(_Stationary):
    """Gaussian kernel ``exp(-gamma |x - z|_2^2)``, as in scikit-learn.

    Parameters
    ----------
    gamma : float, "variance", "median" or None
        Positive number; ``1 / (2 var)`` or ``1 / (2 median distance^2)`` of the data; None: 1/d.
    """

    gamma: Gamma = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_gamma(self.gamma))

    def resolve(self, data: Any) -> RBF:
        """Return the kernel with a numeric gamma."""
        return replace(self, gamma=resolve_gamma(self.gamma, data, "euclidean"))

    @property
    def is_resolved(self) -> bool:
        """Whether gamma is a number."""
        return isinstance(self.gamma, float)

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        return np.exp(-number(self.gamma, x) * squared_distances(x, z))

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "rbf", (number(self.gamma), 0.0, 0.0, 0.0)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Bound the error: ``max_s s exp(-s) = 1/e``, and the slope of exp is at most 1."""
        if direct:
            # Differences of rounded rows are off by 2 unit |row| each: a slope of at most
            # sqrt(2 gamma / e) per unit of distance.
            moved = math.sqrt(2 * number(self.gamma) / math.e) * 2 * unit * math.sqrt(max_norm2)
            return (dim + 5) * unit / math.e + 4 * unit + moved
        return number(self.gamma) * _square_error(unit, dim, max_norm2) + 5 * unit


@dataclass(frozen=True)
class Laplacian(_Stationary):
    """Laplacian kernel ``exp(-gamma |x - z|_1)``, as in scikit-learn.

    Parameters
    ----------
    gamma : float, "variance", "median" or None
        Positive number; ``1 / (2 var)`` or ``1 / median L1 distance`` of the data; None: 1/d.
    """

    gamma: Gamma = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_gamma(self.gamma))

    def resolve(self, data: Any) -> Laplacian:
        """Return the kernel with a numeric gamma."""
        return replace(self, gamma=resolve_gamma(self.gamma, data, "cityblock"))

    @property
    def is_resolved(self) -> bool:
        """Whether gamma is a number."""
        return isinstance(self.gamma, float)

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        return np.exp(-number(self.gamma, x) * l1_distances(x, z))

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "laplacian", (number(self.gamma), 0.0, 0.0, 0.0)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Bound the error as for the RBF kernel, with a slope of gamma per unit of distance."""
        del direct
        moved = number(self.gamma) * 2 * unit * math.sqrt(dim * max_norm2)
        return (dim + 5) * unit / math.e + 4 * unit + moved


@dataclass(frozen=True)
class Matern(_Stationary):
    """Matern kernel of half-integer smoothness, as in scikit-learn.

    With ``r = |x - z|_2 / length_scale``: ``exp(-r)`` for nu = 1/2, ``(1 + sqrt(3) r) exp(-sqrt(3) r)``
    for 3/2 and ``(1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)`` for 5/2 (Rasmussen & Williams, *Gaussian
    Processes for Machine Learning*, equations 4.17 and 4.18).

    Parameters
    ----------
    nu : {0.5, 1.5, 2.5}
        Smoothness.
    length_scale : float
        Positive length, in units of x.
    """

    nu: float = 1.5
    length_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu is {self.nu!r}; 0.5, 1.5 or 2.5 is needed")
        object.__setattr__(self, "nu", float(self.nu))
        object.__setattr__(self, "length_scale", check_number(self.length_scale, "length_scale"))

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        r = np.sqrt(2 * self.nu * squared_distances(x, z)) / self.length_scale
        factor = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r * r / 3.0}[self.nu]
        return np.asarray(factor * np.exp(-r), dtype=r.dtype)

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "matern", (self.length_scale, self.nu, 0.0, 0.0)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Bound the error: |r dk/dr| <= 0.55 and |dk/dr| <= 1 in r = sqrt(2 nu) distance / length."""
        length = self.length_scale / math.sqrt(2 * self.nu)
        if direct:
            moved = 2 * unit * math.sqrt(max_norm2) / length
            return 0.55 * (dim / 2 + 4) * unit + 8 * unit + moved
        square = _square_error(unit, dim, max_norm2)
        # Near zero distance the root magnifies: |sqrt(s + e) - sqrt(s)| <= sqrt(e); for nu > 1/2
        # the kernel is a function of s with slope at most 1 / (2 length^2).
        if self.nu == 0.5:
            return math.sqrt(square) / length + 8 * unit
        return square / (2 * length**2) + 8 * unit


@dataclass(frozen=True)
class Delta(_Stationary):
    """Equality kernel: 1 where all columns are equal, else 0; for labels and counts."""

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        out = np.ones((len(x), len(z)), dtype=np.result_type(x, z, np.float32))
        for column in range(x.shape[1]):
            out *= np.equal.outer(x[:, column], z[:, column])
        return out

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "delta", (0.0, 0.0, 0.0, 0.0)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return 0: comparison is exact (for values that the tile's precision tells apart)."""
        del unit, dim, max_norm2, direct
        return 0.0


def number(value: Gamma, like: Array | None = None) -> Any:
    """Return a resolved parameter as a number, in the precision of ``like`` where given."""
    if not isinstance(value, float):
        raise ValueError(f"gamma={value!r} depends on the data: call kernel.resolve(data) first")
    return value if like is None else np.result_type(like, np.float32).type(value)
