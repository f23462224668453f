"""Products of tall and skinny blocks in float64: the work of solvers between two passes over K.

They are compiled, use the threads of `get_num_threads`, and take one pass each without temporary arrays. At
n = 1,000,000 a block of 30 columns is 240 MB; with K on a device, everything else waits for this work.
The bits of results do not depend on the number of threads.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, Array, HostArray
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.cpu import core

__all__ = [
    "HostBlocks",
    "beside",
    "cholesky_factor",
    "eigh",
    "eliminated",
    "inner",
    "pivoted_basis",
    "product",
    "residual",
    "roots_of_forms",
    "row_squares",
    "scaled",
    "spread",
    "squares_and_largest",
    "substituted",
    "times",
]

_COPIED = 1 << 16  # rows copied at once
_TILE = 256  # rows of a tile of a factor
# Rows of a matrix up to which LAPACK's threads cost more than they bring, with and without eigenvectors.
# Beside other work they wait for each other, which takes seconds.
_SMALL, _SMALL_FOR_VALUES = 640, 800


def inner(a: Array, b: Array, *, scale: Array | None = None) -> Array:
    """Return ``a' b`` (k, j) for blocks (n, k) and (n, j), or ``a' diag(scale) b``."""
    a, b = _rows(a), _rows(b)
    out = np.zeros((a.shape[1], b.shape[1]))
    if a.size and b.size:
        factors = None if scale is None else np.ascontiguousarray(scale)
        core().tall_skinny_inner(a, b, out, get_num_threads(), scale=factors)
    return out


def times(
    a: Array,
    small: Array,
    *,
    base: Array | None = None,
    sign: float = 1.0,
    out: Array | None = None,
) -> Array:
    """Return ``base + sign a small`` (n, j), or ``sign a small`` without a base.

    Parameters
    ----------
    a : ndarray (n, k)
    small : ndarray (k, j)
    base : ndarray (n, j), optional
    sign : float
    out : ndarray (n, j), optional
        Array for the result: a new one by default; it may be ``base``, or ``a`` if that is as wide.
    """
    if out is None:
        out = np.empty((len(a), small.shape[1]))
    if not out.size:
        return out
    if not a.size:
        out[...] = 0.0 if base is None else base
        return out
    under = None if base is None else _rows(base)
    core().tall_skinny_times(_rows(a), _rows(small), out, get_num_threads(), base=under, sign=sign)
    return out


def scaled(scale: Array, a: Array, *, base: Array | None = None, out: Array | None = None) -> Array:
    """Return ``base + scale[:, None] * a`` (n, k), or without the base; ``out`` may be either input."""
    if out is None:
        out = np.empty(a.shape)
    if out.size:
        under = None if base is None else _rows(base)
        core().tall_skinny_scale(
            np.ascontiguousarray(scale), _rows(a), out, get_num_threads(), base=under
        )
    return out


@dataclass(frozen=True)
class ResidualSums:
    """Sums over the rows of ``R = P - D B - image``, from the pass that computes R.

    Attributes
    ----------
    shifts : float
        ``sum_i 1 / D_i``.
    values : float
        ``sum_i |B_i|``.
    operands : float
        ``sum_ij (|P_ij| + |D_i B_ij|)^2 / D_i``.
    residuals : float
        ``sum_ij R_ij^2 / D_i``.
    """

    shifts: float
    values: float
    operands: float
    residuals: float


def residual(rhs: Array, shift: Array, value: Array, image: Array) -> tuple[Array, ResidualSums]:
    """Return ``rhs - shift[:, None] * value - image`` (n, r), and its sums."""
    out = np.empty(value.shape)
    if not out.size:
        return out, ResidualSums(float((1.0 / shift).sum()), 0.0, 0.0, 0.0)
    sums = core().tall_skinny_residual(
        _rows(rhs), np.ascontiguousarray(shift), _rows(value), _rows(image), out, get_num_threads()
    )
    return out, ResidualSums(*sums)


def spread(
    a: Array, source: NDArray[np.intp], where: NDArray[np.intp], share: Array, out: Array
) -> None:
    """Add ``share[i] * a[source[i]]`` to ``out[where[i]]`` for all i (m,); a is (n, k), out (u, k)."""
    if share.size and out.size:
        core().tall_skinny_spread(_rows(a), source, where, share, out, get_num_threads())


def pivoted_basis(gram: Array, omissible_trace: float, most: int, rounding: float) -> Array | None:
    """Return an orthonormal basis (r, c) of pivoted columns of a positive semidefinite matrix (r, r).

    They omit at most ``omissible_trace`` of its trace. What remains of a diagonal entry counts as zero
    below ``rounding`` times the entry. Returns None if more than ``most`` columns would be needed.

    Examples
    --------
    >>> import numpy as np
    >>> pivoted_basis(np.diag([1.0, 4.0, 1e-9]), 1e-6, 3, 1e-14)
    array([[0., 1.],
           [1., 0.],
           [0., 0.]])
    """
    size = len(gram)
    basis, scratch = np.empty((most, size)), np.empty((most, size))
    rank = core().pivoted_basis(
        np.ascontiguousarray(gram), omissible_trace, rounding, np.empty(size), scratch, basis
    )
    return np.ascontiguousarray(basis[:rank].T) if rank > 0 else None


def roots_of_forms(
    coefficients: Array, forms: Array, unit: float, tiny: float
) -> tuple[Array, Array]:
    """Return the roots (q,) of quadratic forms of the columns c of (u, q), and bounds (q,) on their errors.

    A form may be off by ``unit |c|_1^2``, plus ``tiny`` unless c is 0.
    """
    roots, errors = np.empty(len(forms)), np.empty(len(forms))
    core().roots_of_forms(coefficients, forms, unit, tiny, roots, errors)
    return roots, errors


def product(a: Array, b: Array, *, transposed: bool = False) -> Array:
    """Return ``a b``, or ``a' b``, in float64, with the same bits for any number of threads.

    BLAS would wake threads, which then compete with those of the core.
    """
    out = np.empty((a.shape[1 if transposed else 0], b.shape[1]))
    if out.size:
        a, b = (np.ascontiguousarray(m, dtype=np.float64) for m in (a, b))
        core().dense_matmul(a, b, out, threads=get_num_threads(), transposed=transposed)
    return out


def substituted(factor: Array, b: Array, *, transposed: bool = False) -> Array:
    """Return ``L^-1 b``, or ``L^-T b``, for a lower triangular L (p, p) and b (p, n) in float64.

    BLAS wakes its threads even for a few hundred numbers, and they then spin for milliseconds.
    """
    out = np.array(b, dtype=np.float64, order="C")
    if out.size:
        factor = np.ascontiguousarray(factor, dtype=np.float64)
        core().triangular_solve(factor, out, transposed, get_num_threads())
    return out


def eliminated(fresh: Array, rows: Array, at: Array, factor: Array) -> Array:
    """Return ``L^-1 (fresh - at' rows)`` (k, n), in place of ``fresh``, for rows (r, n) and at (r, k)."""
    core().eliminate(rows, np.ascontiguousarray(at), factor, fresh, get_num_threads())
    return fresh


def cholesky_factor(a: Array) -> Array:
    """Return the lower Cholesky factor L (p, p) of a symmetric matrix, of which the lower half is read.

    Like `substituted`, it wakes no threads of BLAS.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not numerically positive definite.
    """
    size, unit = len(a), core().TILE_UNIT
    tile = min(_TILE, -(-size // unit) * unit)
    blocks = [
        (slice(i, i + tile), slice(j, j + tile))
        for i in range(0, size, tile)
        for j in range(0, i + 1, tile)
    ]
    tiles, out = np.zeros((len(blocks), tile, tile)), np.zeros((size, size))
    for packed, block in zip(tiles, blocks, strict=True):
        part = a[block]
        packed[: part.shape[0], : part.shape[1]] = part
    if core().packed_cholesky(tiles, size, get_num_threads()) >= 0:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    for packed, block in zip(tiles, blocks, strict=True):
        part = out[block]
        part[...] = packed[: part.shape[0], : part.shape[1]]
    return out


def eigh(a: Array, *, vectors: bool = True) -> tuple[Array, Array]:
    """Return the eigenvalues (k,), ascending, and eigenvectors (k, k) of a symmetric matrix.

    Without ``vectors``, which takes less time, the second item is not defined.
    """
    if len(a) > (_SMALL if vectors else _SMALL_FOR_VALUES):
        if not vectors:
            return np.asarray(np.linalg.eigvalsh(a)), np.empty((0, 0))
        values, columns = np.linalg.eigh(a)
        return np.asarray(values), np.asarray(columns)
    rows, values = np.array(a, dtype=np.float64, order="C"), np.empty(len(a))
    if not core().symmetric_eigen(rows, values, vectors):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")
    return values, rows.T


def row_squares(x: HostArray, offset: Array | None = None) -> Array:
    """Return ``|x_i - offset|^2`` (n,) in float64 for rows (n, d) in float32 or float64."""
    return squares_and_largest(x, offset)[0]


def squares_and_largest(x: HostArray, offset: Array | None = None) -> tuple[Array, float]:
    """Return `row_squares` and the largest of them, NaN if there is any; 0 without rows."""
    out = np.empty(len(x))
    if x.flags.c_contiguous:
        return out, core().row_squares(x, out, get_num_threads(), offset=offset)
    for start in range(0, len(x), _COPIED):
        rows = slice(start, start + _COPIED)
        some = np.ascontiguousarray(x[rows])
        core().row_squares(some, out[rows], get_num_threads(), offset=offset)
    return out, float(out.max(initial=0.0))


def beside(blocks: list[Array]) -> Array:
    """Return blocks (n, k) side by side as one array; a single block is returned unchanged."""
    if len(blocks) == 1:
        return blocks[0]
    ends = np.cumsum([block.shape[1] for block in blocks])
    out = np.empty((len(blocks[0]), ends[-1]))

    def work(rows: slice) -> None:
        for end, block in zip(ends, blocks, strict=True):
            out[rows, end - block.shape[1] : end] = block[rows]

    over_rows(work, len(out), _COPIED)
    return out


def _rows(a: Any) -> Array:
    """Return a float64 matrix with contiguous rows; columns of a wider matrix qualify without a copy."""
    a = np.asarray(a, dtype=np.float64)
    if a.flags.c_contiguous:
        return a
    inside = a.shape[1] <= 1 or a.strides[1] == a.itemsize
    apart = len(a) <= 1 or (
        a.strides[0] >= a.shape[1] * a.itemsize and not a.strides[0] % a.itemsize
    )
    return a if inside and apart else np.ascontiguousarray(a)


class HostBlocks:
    """Blocks in host memory, as `ColumnBlocks` describes them."""

    def active(self) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return nullcontext()

    def take(self, host: Array) -> Array:
        """Return the array itself."""
        return np.asarray(host, dtype=np.float64)

    def host(self, block: AnyArray) -> Array:
        """Return the block itself."""
        return np.asarray(block)

    def zeros(self, rows: int, columns: int) -> Array:
        """Return a block of zeros."""
        return np.zeros((rows, columns))

    inner = staticmethod(inner)
    times = staticmethod(times)
    scaled = staticmethod(scaled)
    beside = staticmethod(beside)
