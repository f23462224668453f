"""Float64 rounding of the features of rows, as the certificate of the low-rank solver bounds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.sums import size_of
from fastmcmd.backends.tall_skinny import row_squares, times
from fastmcmd.gram import EXACT, KernelFeatures
from fastmcmd.kernels.base import UNIT, relative_error

__all__ = ["Rounding", "bounded_residuals", "factor_error"]

_TYPICAL = 8.0  # size of coefficients of interpolation: s in `bounded_residuals`


@dataclass(frozen=True)
class Rounding:
    """Bounds on the float64 rounding of the features of rows.

    Substitution is backward stable: ``|L f - k(Z, x)| <= gamma |L||f|`` (Higham, *Accuracy and Stability of
    Numerical Algorithms*, theorem 8.5), and rows of L have the norm sqrt(k(z, z)). The same holds for the
    substitution that gives the interpolation coefficients c: ``|L' c - f| <= gamma |L'||c|``.

    With ``g = L f - k(Z, x)``, ``h = L' c - f`` and ``S = K(Z, Z) - L L'``, all as computed,

        k(x, y) - f(x)'f(y) = e(x, y) - c(x)'g(y) - g(x)'c(y) - h(x)'h(y) - c(x)'S c(y)

    where e, the inner product of ``phi(x) - sum c_j(x) phi(z_j)`` with that of y, is positive semi-definite
    for any c. So rounding enters through the norms of the computed c. These are measured; they are moderate
    even if ``||L^-1||`` is not.

    Attributes
    ----------
    row : float
        Largest ``|g|``.
    upper : float
        Largest ``|h| / |c|``.
    pivots : float
        Bound on ``||S||``, see `factor_error`.
    size : float
        Root of the weighted mean of ``|c|^2`` over the rows.
    diagonal : float
        Rounding of ``k(x, x) - |f(x)|^2``, relative to k(x, x).
    product : float
        Error of a product ``k(x, Z) c``, relative to ``sum |c_j|``.
    """

    row: float
    upper: float
    pivots: float
    size: float
    diagonal: float
    product: float

    def of_residual_diagonal(self, sizes: Array) -> Array:
        """Bound the part of e(x, x) that rounding hides, for ``|c(x)|`` equal to ``sizes`` (n,)."""
        return np.asarray((2 * self.row + (self.pivots + self.upper**2) * sizes) * sizes)

    @staticmethod
    def of(
        features: KernelFeatures,
        entry: float,
        largest: float,
        size: float,
        pivot_error: float | None = None,
    ) -> Rounding:
        """Return the bounds for kernel entries of at most ``largest``, with errors up to ``entry``.

        ``measured`` is the `factor_error` of exact entries, if it is known.
        """
        rank, sums = features.rank, relative_error(features.rank + 2, UNIT)
        row = np.sqrt(rank) * (entry + sums * largest)
        upper = sums * np.sqrt(rank * largest)
        if pivot_error is None:
            pivot_error = factor_error(features, 0.0)
        pivots = pivot_error + rank * entry
        size *= 1 + relative_error(rank + 8, UNIT)
        product = entry + relative_error(rank + 8, UNIT) * largest
        return Rounding(
            row=float(row),
            upper=float(upper),
            pivots=float(pivots),
            size=float(size),
            diagonal=features.noise,
            product=float(product),
        )


def bounded_residuals(
    features: KernelFeatures, rows: HostArray, p: HostArray, pivot_error: float
) -> Array:
    """Return bounds e (n,) on the truncation of the kernel by features, and its rounding, at rows (n, d).

    ``|k(x, y) - p(x).p(y)|^2 <= e(x) e(y)``, and the matrix of these differences has at most the norm
    ``sum e``. In the notation of `Rounding`, besides the residual they have the parts

        |c(x)'g(y) + g(x)'c(y) + h(x)'h(y) + c(x)'S c(y)| <= sqrt(eta(x) eta(y)),
        eta = row (s + |c|^2 / s) + (pivots + upper^2) |c|^2

    for any s (Cauchy-Schwarz), and the residual of k(x, x) is ``k(x, x) - |p(x)|^2``, up to eta.

    Parameters
    ----------
    features : KernelFeatures
        The map.
    rows : ndarray (n, d)
        Rows, in the coordinates of the pivots.
    p : ndarray (n, r)
        Their features.
    measured : float
        `factor_error` of exact entries.
    """
    kernel, pivots, dim = features.kernel, features.pivots, rows.shape[1]
    direct = features.backend.direct_distances(dim, kernel)
    squares = np.einsum("ij,ij->j", *2 * (features.coefficients(p.T),))
    diagonal = features.diagonal(rows)
    of_pivots = float(features.diagonal(pivots).max(initial=0.0))
    rounding_change = np.empty(len(rows))
    for norm2, group in _by_size(rows, pivots, features.offset):
        largest = max(of_pivots, float(diagonal[group].max(initial=0.0)))
        entry = kernel.rounding(UNIT, dim, norm2, direct, largest)
        entry = min(entry, 2 * largest) if entry >= 0 else 2 * largest  # NaN where squares overflow
        rounding = Rounding.of(features, entry, largest, 1.0, pivot_error)
        with np.errstate(over="ignore", invalid="ignore"):
            rounding_change[group] = rounding.row * (_TYPICAL + squares[group] / _TYPICAL)
            rounding_change[group] += (rounding.pivots + rounding.upper**2) * squares[group]
    with np.errstate(over="ignore", invalid="ignore"):  # of kernels whose values overflow
        total = features.residuals(rows, p) + 2 * rounding_change
    return np.where(np.isnan(total), np.inf, total)


def _by_size(
    rows: HostArray, pivots: HostArray, offset: Array | None
) -> Iterator[tuple[float, NDArray[np.intp]]]:
    """Yield bounds on squared norms, of rows and of the pivots, and the rows to which each applies.

    The kernel values of a row far from the origin are rounded more; those of the others are not.
    """
    least = max(float(row_squares(pivots, offset).max(initial=0.0)), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = row_squares(rows, offset) / least
        ratio = np.where(
            np.isnan(ratio), np.inf, np.maximum(ratio, 1.0)
        )  # pivots beyond float64, too
        step = np.ceil(np.log2(ratio) / 2)
        for exponent in np.unique(step):
            yield (
                float(least * np.exp2(2 * exponent) * (1 + 1e-5)),
                np.flatnonzero(step == exponent),
            )


def factor_error(features: KernelFeatures, entry: float) -> float:
    """Bound ``||K(Z, Z) - L L'||`` for kernel entries that each have an error up to ``entry``.

    The bound is measured. L is split into a part with so few bits that sums of its products are exact in
    float64, and a rest, whose rounding is about a millionth of the rounding of L. A theoretical bound,
    ``rank^2`` roundings, would be some ten times as large.
    """
    rank, factor = features.rank, features.factor
    points = features.backend.points(features.pivots, EXACT, features.offset)
    difference = np.array(features.backend.gram(features.kernel, points), dtype=np.float64)
    largest = float(max(difference.diagonal().max(), np.einsum("ij,ij->i", factor, factor).max()))
    bits = (53 - int(np.ceil(np.log2(rank)))) // 2
    step = 2.0 ** (np.ceil(np.log2(np.abs(factor).max())) - bits)
    high = np.rint(factor / step) * step
    low = factor - high
    low_columns = np.ascontiguousarray(low.T)
    difference -= times(high, high.T)
    mixed = times(high, low_columns)
    difference -= mixed
    difference -= mixed.T
    difference -= times(low, low_columns)
    product_rounding = relative_error(rank + 2, UNIT) * (
        np.sqrt(rank * largest) * step + rank * step**2
    )
    rounding = entry + product_rounding + 8 * UNIT * largest  # of the differences
    return float(size_of(difference) * (1 + 1e-6) + rank * rounding)
