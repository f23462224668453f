"""Kernels that depend on a distance: RBF, Laplacian, Matern, Delta."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.cached import cached_property
from fastmcmd.kernels.base import (
    Array,
    Instruction,
    Kernel,
    check_number,
    fits,
    in_range,
    power_of_two,
    relative_error,
    underflow,
)
from fastmcmd.kernels.gamma import Gamma, check_gamma, resolve_gamma

__all__ = [
    "RBF",
    "ROUNDED_ROWS",
    "STATISTICS",
    "Delta",
    "Laplacian",
    "Matern",
    "Stationary",
    "local_reach",
    "variation_length",
]

ROUNDED_ROWS = (
    2.0**-49
)  # unit, 16 times that of float64, that tells that rows of float64 are rounded
_FAR = 1e4  # beyond, every exponential is 0 in float64
_COMMON = 2.0**-20  # lengths up to the inverse of it are no reason to scale
_UNDERFLOW = 1e-6  # margin above the smallest number, where squares underflow without effect


def squared_distances(x: Array, z: Array, scale: float = 1.0) -> Array:
    """Return ``|scale (x_i - z_j)|_2^2`` from differences, one column at a time."""
    out = np.zeros((len(x), len(z)), dtype=np.result_type(x, z))
    for column in range(x.shape[1]):
        difference = _scaled(np.subtract.outer(x[:, column], z[:, column]), scale)
        out += difference * difference
    return out


def l1_distances(x: Array, z: Array, scale: float = 1.0) -> Array:
    """Return ``|scale (x_i - z_j)|_1``, one column at a time."""
    out = np.zeros((len(x), len(z)), dtype=np.result_type(x, z))
    for column in range(x.shape[1]):
        out += np.abs(_scaled(np.subtract.outer(x[:, column], z[:, column]), scale))
    return out


def unequal_columns(x: Array, z: Array, scale: float = 1.0) -> Array:
    """Return the number of columns in which x_i and z_j differ; the scale does not matter."""
    del scale
    out = np.zeros((len(x), len(z)), dtype=np.result_type(x, z))
    for column in range(x.shape[1]):
        out += np.not_equal.outer(x[:, column], z[:, column])
    return out


def _scaled(difference: Array, scale: float) -> Array:
    """Multiply by a power of two in the precision of the array, even if the power overflows in float32."""
    return difference if scale == 1.0 else np.ldexp(difference, round(math.log2(scale)))


def _square_error(unit: float, dim: int, max_norm2: float) -> float:
    """Return a bound on the absolute error of ``|x|^2 + |z|^2 - 2 x.z``.

    Rows of squared norm M. Rounding the rows moves a distance of at most ``2 sqrt(M)`` by
    ``2 u sqrt(M)``: 8 u M in the square. The norms are off by d u M each, twice the product by
    2 d u M, and the two additions, of sizes 2 M and 4 M, round once each: 6 u M. The 4 d products may
    underflow, and so may the coordinates themselves.
    """
    tiny = underflow(unit)
    underflow_error = 4 * dim * tiny + 8 * tiny * math.sqrt(dim * max_norm2)
    return relative_error(4 * dim + 16, unit) * max_norm2 + underflow_error


def _row_error(unit: float, max_norm2: float) -> float:
    """Return a bound on the change of a distance, computed as a direct sum, by rounding of the rows.

    In float64 the rows are exact: they are not centred (`fastmcmd.gram.offset_of`), or without rounding
    (`fastmcmd.gram.exact_offset_of`). For other rows the unit is at least `ROUNDED_ROWS`.
    """
    return 2 * unit * math.sqrt(max_norm2) if unit >= ROUNDED_ROWS else 0.0


class Stationary(Kernel):
    """A function of a distance between rows: ``value(statistic(x, z))``, which is 1 at distance 0.

    Each backend may compute the statistic differently.
    """

    translation_invariant: ClassVar[bool] = True
    statistic: ClassVar[str]

    @abstractmethod
    def value(self, s: Array) -> Array:
        """Return the kernel values for an array of statistics, in its precision."""

    def rescaled(self, scale: float) -> Stationary:
        """Return the kernel k' with ``k'(scale x, scale z) = k(x, z)``."""
        del scale
        return self

    def length(self) -> float:
        """Return approximately the distance over which the kernel decays; 1 if there is none."""
        return 1.0

    @cached_property
    def _scale(self) -> float:
        """The power of two that brings distances near 1."""
        return power_of_two(self.length())

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix.

        Distances are scaled by the power of two nearest to the length of the kernel. This changes no bit
        unless squares of distances would underflow or overflow.
        """
        scale = self._scale
        if _COMMON < scale < 1 / _COMMON:
            return self.value(STATISTICS[self.statistic](x, z))
        with np.errstate(over="ignore"):  # infinitely far
            near = STATISTICS[self.statistic](x, z, scale)
            return self.rescaled(scale).value(near)

    def of_squares(self, squares: Array) -> Array:
        """Return ones (n,)."""
        return np.ones(len(squares))

    def max_value(self, max_norm2: float) -> float:
        """Return 1."""
        del max_norm2
        return 1.0


STATISTICS: dict[str, Callable[..., Array]] = {
    "squared": squared_distances,
    "l1": l1_distances,
    "unequal": unequal_columns,
}


@dataclass(frozen=True)
class ExponentialDecay(Stationary):
    """``exp(-gamma s)`` of a statistic s of two rows, with gamma a number or a rule."""

    gamma: Gamma = None
    metric: ClassVar[str]
    leaf: ClassVar[str]
    power: ClassVar[int] = 1  # of a distance in the statistic

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_gamma(self.gamma))

    def resolve(self, data: ArrayLike) -> ExponentialDecay:
        """Return the kernel with a numeric gamma."""
        if self.is_resolved:
            return self
        return replace(self, gamma=resolve_gamma(self.gamma, data, self.metric))

    @property
    def is_resolved(self) -> bool:
        """Whether gamma is a number."""
        return isinstance(self.gamma, float)

    def rescaled(self, scale: float) -> ExponentialDecay:
        """Return the kernel of rows in another unit."""
        gamma = number(self.gamma)
        for _ in range(self.power):  # not its power, which may overflow
            gamma /= scale
        return replace(self, gamma=gamma)

    def length(self) -> float:
        """Return ``gamma^(-1 / power)``."""
        return float(number(self.gamma) ** (-1 / self.power))

    def value(self, s: Array) -> Array:
        """Return ``exp(-gamma s)``."""
        return np.asarray(np.exp(-number(self.gamma, s) * s))

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield self.leaf, (number(self.gamma), 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class RBF(ExponentialDecay):
    """Gaussian kernel ``exp(-gamma |x - z|_2^2)``, as in scikit-learn.

    Parameters
    ----------
    gamma : float, "variance", "median" or None
        A positive number; "variance": ``1 / (2 var)`` of the data (var summed over columns, ddof=1);
        "median": ``1 / (2 median distance^2)`` of the data; None: 1/d.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> fm.RBF(0.5)(np.array([[0.0], [1.0]])).round(4).tolist()
    [[1.0, 0.6065], [0.6065, 1.0]]
    >>> fm.RBF("median").resolve(np.array([[0.0], [2.0]]))  # from the data
    RBF(gamma=0.125)
    """

    statistic: ClassVar[str] = "squared"
    metric: ClassVar[str] = "euclidean"
    leaf: ClassVar[str] = "rbf"
    power: ClassVar[int] = 2

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return a bound on the error: the slope of exp(-t) is at most 1, and at most 1/e relative to t.

        Direct sums have d + 2 roundings, gamma and its product two more. Rounding the rows changes a
        distance r by at most ``2 u sqrt(M)``, at a slope of at most ``sqrt(2 gamma / e)``. The bound is at
        most 1, because values lie in [0, 1].
        """
        gamma = number(self.gamma)
        if not (in_range(unit, gamma, _UNDERFLOW / gamma) and fits(unit, 4 * max_norm2)):
            return math.inf
        if direct:
            row_rounding = math.sqrt(2 * gamma / math.e) * _row_error(unit, max_norm2)
            return min(relative_error(dim + 5, unit) / math.e + row_rounding, 1.0) + 4 * unit
        return min(gamma * _square_error(unit, dim, max_norm2), 1.0) + 5 * unit


@dataclass(frozen=True)
class Laplacian(ExponentialDecay):
    """Laplacian kernel ``exp(-gamma |x - z|_1)``, as in scikit-learn.

    Parameters
    ----------
    gamma : float, "variance", "median" or None
        A positive number; "variance": ``1 / (2 var)`` of the data (var summed over columns, ddof=1);
        "median": ``1 / median L1 distance`` of the data; None: 1/d.
    """

    statistic: ClassVar[str] = "l1"
    metric: ClassVar[str] = "cityblock"
    leaf: ClassVar[str] = "laplacian"

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return a bound on the error as for `RBF`, with a slope of gamma per unit of distance.

        Rounding changes an L1 distance by at most ``2 u |x|_1 <= 2 u sqrt(d M)``.
        """
        del direct
        gamma = number(self.gamma)
        if not (in_range(unit, gamma, _UNDERFLOW / gamma) and fits(unit, 4 * dim * max_norm2)):
            return math.inf
        row_rounding = gamma * 2 * unit * math.sqrt(dim * max_norm2)
        return min(relative_error(dim + 5, unit) / math.e + row_rounding, 1.0) + 4 * unit


@dataclass(frozen=True)
class Matern(Stationary):
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
    statistic: ClassVar[str] = "squared"

    def __post_init__(self) -> None:
        nu = check_number(self.nu, "nu")
        if nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu is {nu:g}; 0.5, 1.5 or 2.5 is needed")
        object.__setattr__(self, "nu", nu)
        object.__setattr__(self, "length_scale", check_number(self.length_scale, "length_scale"))

    def value(self, s: Array) -> Array:
        """Return the kernel values for squared distances, in closed form."""
        r = np.sqrt(s) * s.dtype.type(math.sqrt(2 * self.nu) / self.length_scale)
        r = np.minimum(r, r.dtype.type(_FAR))  # not infinity times zero
        factor = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r * r / 3.0}[self.nu]
        return np.asarray(factor * np.exp(-r), dtype=r.dtype)

    def rescaled(self, scale: float) -> Matern:
        """Return the kernel of rows in another unit."""
        return replace(self, length_scale=self.length_scale * scale)

    def length(self) -> float:
        """Return the length scale."""
        return self.length_scale

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "matern", (self.length_scale, self.nu, 0.0, 0.0)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return a bound on the error, with r = sqrt(2 nu) distance / length_scale.

        ``|dk/dr| <= 1`` and ``|r dk/dr| <= 0.605`` (nu = 5/2, at r = 1 + sqrt(3); 0.541 for 3/2, 1/e
        for 1/2). The root halves the d + 2 roundings of a direct sum and adds one, the scale two; squares
        that underflow move it by at most the root of their sum. The polynomial, the exponential and their
        product have 12. From expanded squares s the kernel has
        a slope in s of at most ``1 / (2 L^2)``, L = length_scale / sqrt(2 nu), for nu > 1/2; for
        nu = 1/2 the root magnifies the error e of s near zero distance: at most ``sqrt(e)``.
        """
        length = self.length_scale / math.sqrt(2 * self.nu)
        if not (in_range(unit, length, 1 / length) and fits(unit, 4 * max_norm2)):
            return math.inf
        if direct:
            row_rounding = _row_error(unit, max_norm2) / length
            row_rounding += 2 * math.sqrt(dim * underflow(unit)) / length
            return min(0.61 * relative_error(dim / 2 + 4, unit) + row_rounding, 1.0) + 12 * unit
        square = _square_error(unit, dim, max_norm2)
        if self.nu == 0.5:
            return min(math.sqrt(square) / length, 1.0) + 14 * unit
        return min(square / length / (2 * length), 1.0) + 14 * unit


@dataclass(frozen=True)
class Delta(Stationary):
    """Equality kernel for labels and counts: 1 if all columns are equal, else 0.

    Rows are compared in their original precision: float64 rows are compared in float64 tiles.
    """

    compares_rows: ClassVar[bool] = True
    statistic: ClassVar[str] = "unequal"

    def value(self, s: Array) -> Array:
        """Return 1 where no column differs, else 0."""
        return (s == 0).astype(s.dtype)

    def instructions(self) -> Iterator[Instruction]:
        """Yield the leaf."""
        yield "delta", (0.0, 0.0, 0.0, 0.0)

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return 0, because tiles keep the precision of the rows (`Kernel.compares_rows`)."""
        del unit, dim, max_norm2, direct
        return 0.0


def number(value: Gamma, like: Array | None = None) -> Any:
    """Return a resolved parameter as a number, in the precision of ``like`` if it is passed."""
    if not isinstance(value, float):
        raise ValueError(f"gamma={value!r} depends on the data: call kernel.resolve(data) first")
    return value if like is None else like.dtype.type(value)


_GROWTH = 1e6  # of k(y, y) far out: polynomials
_BELOW_ROUNDING = 1e-18  # of k(y, y)
_CHANGE = 0.02  # squared distance of features, relative to k(y, y), that is a first change


def variation_length(kernel: Kernel, at: float) -> float:
    """Return a panel length over which polynomials of the order of the nodes approximate the kernel.

    It is forty times the distance at which the features of two numbers begin to differ: 4 / sqrt(gamma) for
    an RBF kernel, for which 12 nodes are exact to 1e-10. It is infinite for kernels without such a length,
    such as polynomials.
    """
    gap = 2.0 ** np.arange(-60, 61, 0.5) * max(1.0, 1e-8 * abs(at))
    origin, points = np.full((1, 1), at), (at + gap)[:, None]
    with np.errstate(all="ignore"):
        diagonal, other = kernel.diagonal(origin)[0], kernel.diagonal(points)
        if not other[-1] <= _GROWTH * max(float(diagonal), float(other[0])):
            return np.inf  # a polynomial
        distance2 = diagonal + other - 2 * kernel(origin, points)[0]
        changed = np.flatnonzero(distance2 > _CHANGE * max(float(diagonal), 1e-300))
    return float(40 * gap[changed[0]]) if len(changed) else np.inf


def local_reach(kernel: Kernel) -> float:
    """Return a distance of numbers beyond which a kernel is below rounding; infinite if there is none.

    Only translation-invariant kernels have one. It is a power of two, found by evaluating the kernel at a
    few distances from zero.
    """
    if not (kernel.translation_invariant and kernel.compiled):
        return np.inf
    gaps = 2.0 ** np.arange(-300, 301)
    with np.errstate(all="ignore"):
        values = np.abs(kernel(np.zeros((1, 1)), gaps[:, None])[0])
    large = np.flatnonzero(
        ~(values <= _BELOW_ROUNDING * float(kernel.diagonal(np.zeros((1, 1)))[0]))
    )
    if not len(large):
        return float(gaps[0])
    return np.inf if large[-1] == len(gaps) - 1 else float(gaps[large[-1] + 1])
