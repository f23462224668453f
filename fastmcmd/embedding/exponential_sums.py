"""Quadratic forms of output kernels that are sums of exponentials, in linear time.

For numbers, ``exp(-gamma |y - z|)`` times a polynomial in ``|y - z|`` is a state-space kernel: the sums
over all outputs to the left of y follow from the sums to the left of its neighbour. `Laplacian` and
`Matern` have this form, and so do their sums and products with each other, with `Constant` and with
`Delta`. For sorted outputs, ``c' K c`` takes O(u) operations per column instead of O(u^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.backends.cpu import core
from fastmcmd.kernels import Constant, Delta, Kernel, Laplacian, Matern, Product, Sum

__all__ = ["ExponentialSum", "densities_kernel", "split_delta"]


_MOST_TERMS = 8
# Largest rate, and largest inverse of a rate: differences of outputs keep their digits.
_RANGE = 1e280
_MATERN = {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1 / 3)}


@dataclass(frozen=True)
class ExponentialSum:
    """The kernel ``sum_t p_t(rate_t |y - z|) exp(-rate_t |y - z|) + delta [y = z]``.

    Attributes
    ----------
    terms : tuple of (float, tuple of float)
        The rate of each term and the coefficients of its polynomial, the constant first.
    delta : float
        Value that is added at equal outputs.
    """

    terms: tuple[tuple[float, tuple[float, ...]], ...]
    delta: float = 0.0

    @staticmethod
    def of(kernel: Kernel, columns: int) -> ExponentialSum | None:
        """Return a resolved kernel of outputs (u, columns) in this form, or None if it has another form."""
        parts = _parts(kernel, columns)
        if parts is None or len(parts.terms) > _MOST_TERMS:
            return None
        rates = [rate for rate, _ in parts.terms if rate]
        return parts if all(1 / _RANGE < rate < _RANGE for rate in rates) else None

    @property
    def at_zero(self) -> float:
        """The smooth part at equal outputs."""
        return math.fsum(coefficients[0] for _, coefficients in self.terms)

    def quadratic_forms(self, y: Array, c: Array) -> Array:
        """Return ``c' K c`` (q,) for columns c (u, q) over distinct outputs y (u, columns)."""
        out = self.delta * np.einsum("ij,ij->j", c, c) if self.delta else np.zeros(c.shape[1])
        constants = sum(coefficients[0] for rate, coefficients in self.terms if rate == 0)
        if constants:
            out += constants * c.sum(axis=0) ** 2
        if any(rate for rate, _ in self.terms):
            order = np.argsort(y[:, 0], kind="stable")
            if (np.diff(order) != 1).any():
                y, c = y[order], c[order]
            line, c = np.ascontiguousarray(y[:, 0]), np.ascontiguousarray(c)
            for rate, coefficients in self.terms:
                if rate:
                    _add_quadratic_forms(line, c, rate, np.array(coefficients), out)
        return np.asarray(out)

    @staticmethod
    def rounding(count: int) -> float:
        """Return the error of `quadratic_forms` in units of rounding of ``max k (sum |c|)^2``.

        Sums run over blocks of 256 outputs, and then over the blocks; each step between blocks has eight
        roundings. The rest of the bound is for exponentials and polynomials.
        """
        return 1024.0 + count / 16


def _parts(kernel: Kernel, columns: int) -> ExponentialSum | None:
    match kernel:
        case Constant(value=value):
            return ExponentialSum(((0.0, (value,)),))
        case Delta():
            return ExponentialSum((), 1.0)
        case Laplacian(gamma=float() as gamma) if columns == 1:
            return ExponentialSum(((gamma, (1.0,)),))
        case Matern(nu=nu, length_scale=length) if columns == 1:
            return ExponentialSum(((math.sqrt(2 * nu) / length, _MATERN[nu]),))
        case Sum(left=left, right=right) | Product(left=left, right=right):
            one, other = _parts(left, columns), _parts(right, columns)
            if one is None or other is None:
                return None
            if isinstance(kernel, Sum):
                return ExponentialSum(one.terms + other.terms, one.delta + other.delta)
            terms = tuple(_product(a, b) for a in one.terms for b in other.terms)
            equal = one.delta * (other.at_zero + other.delta) + other.delta * one.at_zero
            return ExponentialSum(terms, equal)
    return None


def _product(
    one: tuple[float, tuple[float, ...]], other: tuple[float, tuple[float, ...]]
) -> tuple[float, tuple[float, ...]]:
    """Return the product of two terms: rates add up, and polynomials are multiplied."""
    rate = one[0] + other[0]
    product = [0.0] * (len(one[1]) + len(other[1]) - 1)
    for i, a in enumerate(one[1]):
        for j, b in enumerate(other[1]):
            # In powers of the distance times the common rate.
            product[i + j] += (
                a * b * ((one[0] / rate) ** i * (other[0] / rate) ** j if rate else 1.0)
            )
    return rate, tuple(product)


def split_delta(kernel: Kernel) -> tuple[Kernel | None, bool]:
    """Return a kernel without its `Delta` parts (None if nothing is left), and whether it had any.

    The result is the kernel at different outputs; at equal outputs the kernel itself is larger.
    """
    match kernel:
        case Delta():
            return None, True
        case Sum(left=left, right=right):
            (one, has), (other, has_too) = split_delta(left), split_delta(right)
            if not (has or has_too):
                return kernel, False
            if one is None or other is None:
                return other if one is None else one, True
            return Sum(one, other), True
        case Product(left=left, right=right):
            (one, has), (other, has_too) = split_delta(left), split_delta(right)
            if not (has or has_too):
                return kernel, False
            return (None if one is None or other is None else Product(one, other)), True
    return kernel, False


def densities_kernel(kernel: Kernel) -> ExponentialSum | None:
    """Return a kernel of numbers as densities see it, without `Delta`; None if it has another form."""
    smooth = split_delta(kernel)[0]
    parts = None if smooth is None else ExponentialSum.of(smooth, 1)
    return parts if parts is not None and any(rate for rate, _ in parts.terms) else None


def _add_quadratic_forms(y: Array, c: Array, rate: float, polynomial: Array, out: Array) -> None:
    """Add ``c_j' K c_j`` to ``out[j]`` for ``k = p(s) exp(-s)`` with ``s = rate |y - z|``, y ascending."""
    degree, columns = len(polynomial), c.shape[1]
    states = np.zeros((2, degree, columns))
    choose = np.zeros((degree, degree))
    core().add_quadratic_forms(
        y, c, rate, polynomial, *states, np.zeros(columns), np.zeros(degree), choose, out
    )
