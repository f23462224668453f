"""Tiles in C++: Gram matrices, fused products with them, blocked Cholesky.

A kernel is a program in reverse Polish: ``codes`` (length,) int32 with the numbers of ``OPS``, and
``params`` (length, 4) float64. Leaves: ``rbf`` (gamma), ``laplacian`` (gamma), ``polynomial``
(gamma, coef0, degree), ``matern`` (length_scale, nu), ``linear``, ``cosine``, ``delta``,
``constant`` (value). ``add`` and ``mul`` combine the last two kernels.

All arrays are C-contiguous. T is the dtype of the points or tiles, float32 or float64; products
over more than a tile are summed in float64. No result depends on ``threads``. The GIL is released;
Ctrl-C is honoured within about a tenth of a second.
"""

from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T", np.float32, np.float64)
_Codes: TypeAlias = NDArray[np.int32]
_Params: TypeAlias = NDArray[np.float64]
_F32: TypeAlias = NDArray[np.float32]
_F64: TypeAlias = NDArray[np.float64]

NDEBUG: bool
"""False in builds with assertions."""

OPS: dict[str, int]
"""Numbers of the kernel program's codes."""

TILE_UNIT: int
"""The tile size of a packed matrix is a multiple of this."""
DIRECT_DISTANCE_LIMIT: int
"""Columns up to which squared distances are sums of squared differences."""

class PointsF32:
    """Points packed once for the micro-kernels, in float32.

    Parameters
    ----------
    data : array of shape (n, d), float32 or float64
    offset : array of shape (d,), float64, optional
        Subtracted before rounding to float32.
    threads : int
    """

    def __init__(
        self, data: NDArray[Any], offset: _F64 | None = None, threads: int = 1
    ) -> None: ...
    @property
    def n(self) -> int:
        """Number of points."""
    @property
    def d(self) -> int:
        """Number of coordinates."""
    @property
    def nbytes(self) -> int:
        """Bytes held."""

class PointsF64:
    """Points packed once for the micro-kernels, in float64.

    Parameters
    ----------
    data : array of shape (n, d), float32 or float64
    offset : array of shape (d,), float64, optional
        Subtracted before rounding to float64.
    threads : int
    """

    def __init__(
        self, data: NDArray[Any], offset: _F64 | None = None, threads: int = 1
    ) -> None: ...
    @property
    def n(self) -> int:
        """Number of points."""
    @property
    def d(self) -> int:
        """Number of coordinates."""
    @property
    def nbytes(self) -> int:
        """Bytes held."""

@overload
def gram(
    codes: _Codes,
    params: _Params,
    x: PointsF32,
    z: PointsF32,
    out: _F32,
    threads: int,
    *,
    tile: int = 256,
    symmetric: bool = False,
) -> None:
    """Write K(x, z) into out (n, m) of dtype T.

    With ``symmetric`` x and z are the same points: squared distances of i to i are exactly 0.
    """

@overload
def gram(
    codes: _Codes,
    params: _Params,
    x: PointsF64,
    z: PointsF64,
    out: _F64,
    threads: int,
    *,
    tile: int = 256,
    symmetric: bool = False,
) -> None: ...
@overload
def matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF32,
    z: PointsF32,
    v: _F32,
    out: _F64,
    threads: int,
    *,
    tile: int = 256,
) -> None:
    """Write K(x, z) v into out (n, k) float64; v is (m, k) of dtype T."""

@overload
def matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF64,
    z: PointsF64,
    v: _F64,
    out: _F64,
    threads: int,
    *,
    tile: int = 256,
) -> None: ...
@overload
def features(
    codes: _Codes,
    params: _Params,
    landmarks: PointsF32,
    x: PointsF32,
    factor: _F32,
    out: _F32 | None,
    squares: _F64,
    sizes: _F64 | None,
    threads: int,
) -> None:
    """Features ``f = L^-1 k(landmarks, x)`` of n rows at p landmarks.

    ``factor`` is L (p, p) of dtype T. They go into ``out`` (p, n), column j for row j (None: not kept),
    their squared norms into ``squares`` (n,), and ``|L^-T f|`` into ``sizes`` (n,) or nowhere.
    """

@overload
def features(
    codes: _Codes,
    params: _Params,
    landmarks: PointsF64,
    x: PointsF64,
    factor: _F64,
    out: _F64 | None,
    squares: _F64,
    sizes: _F64 | None,
    threads: int,
) -> None: ...
def feature_sums(
    codes: _Codes,
    params: _Params,
    landmarks: PointsF64,
    x: PointsF64,
    factor: _F64,
    group: int,
    squares: _F64,
    sums: _F64,
    threads: int,
) -> None:
    """Write sums (n / group, p) of the features of ``group`` rows in turn, and squares (n,) of all."""

def eliminate(rows: _F64, at: _F64, factor: _F64, fresh: _F64, threads: int) -> None:
    """Overwrite fresh (k, n) with ``L^-1 (fresh - at' rows)``; rows (r, n), at (r, k), L (k, k)."""

def symmetric_eigen(a: _F64, values: _F64, vectors: bool) -> bool:
    """Write the eigenvalues of the symmetric a (n, n) into values (n,), ascending.

    If ``vectors``, the eigenvectors become the rows of a, which is overwritten in any case. False if the
    iteration does not converge.
    """

def triangular_solve(factor: NDArray[_T], b: NDArray[_T], transposed: bool, threads: int) -> None:
    """Overwrite b (p, n) with ``L^-1 b``, or ``L^-T b`` if transposed; factor is L (p, p)."""

def pivoted_columns(
    codes: _Codes,
    params: _Params,
    x: PointsF64,
    diagonal: _F64,
    worth: _F64,
    limit: float,
    noise: float,
    residual: _F64,
    columns: _F64,
    pivots: NDArray[np.int64],
    rank: int,
    stop: int,
) -> int:
    """Factorise ``K(x, x)`` with pivots, from ``rank`` of them up to ``stop``.

    Updates residual (n,); writes columns (most, n rounded up to 16) and pivots (most,) and returns the
    number of pivots: fewer than ``stop`` if worth times residual is at most ``limit`` everywhere, or the
    residual of the next one at most ``noise`` times its diagonal.
    """

def self_product(a: NDArray[_T], weight: _F64 | None, out: _F64, threads: int) -> None:
    """Add ``a diag(weight) a'`` to out (p, p); a is (p, n), weight (n,) or None.

    Sums over 256 columns are in the dtype of a, over those in float64.
    """

def tall_inner(a: _F64, b: _F64, out: _F64, threads: int) -> None:
    """Write ``a' b`` into out (k, j); a is (n, k), b (n, j).

    Rows may lie apart (columns of a wider array), here and below.
    """

def tall_times(
    a: _F64, small: _F64, out: _F64, threads: int, *, base: _F64 | None = None, sign: float = 1.0
) -> None:
    """Write ``base + sign a small`` into out (n, j); a is (n, k), small (k, j), base (n, j) or None.

    ``out`` may be ``base``, or ``a`` where it is as wide.
    """

def row_squares(x: NDArray[Any], out: _F64, threads: int, *, offset: _F64 | None = None) -> None:
    """Write ``|x_i - offset|^2`` into out (n,); x is (n, d) float32 or float64, offset (d,) or None."""

def tall_scale(scale: _F64, a: _F64, out: _F64, threads: int, *, base: _F64 | None = None) -> None:
    """Write ``base + scale[:, None] * a`` into out (n, k); base is (n, k) or None, scale (n,).

    ``out`` may be ``base`` or ``a``.
    """

@overload
def symmetric_matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF32,
    v: _F32,
    out: _F64,
    threads: int,
    *,
    tile: int = 256,
) -> None:
    """Write K(x, x) v into out (n, k) float64, each pair of blocks computed once."""

@overload
def symmetric_matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF64,
    v: _F64,
    out: _F64,
    threads: int,
    *,
    tile: int = 256,
) -> None: ...
@overload
def quadratic_forms(
    codes: _Codes,
    params: _Params,
    x: PointsF32,
    c: _F32,
    out: _F64,
    threads: int,
    *,
    tile: int = 256,
) -> None:
    """Write the diagonal of c' K(x, x) c into out (k,) float64; c is (n, k) of dtype T."""

@overload
def quadratic_forms(
    codes: _Codes,
    params: _Params,
    x: PointsF64,
    c: _F64,
    out: _F64,
    threads: int,
    *,
    tile: int = 256,
) -> None: ...
@overload
def pack(codes: _Codes, params: _Params, x: PointsF32, tiles: _F32, threads: int) -> None:
    """Write the lower tiles of K(x, x) into tiles (nb (nb + 1) / 2, tile, tile) of dtype T.

    Tile (i, j), i >= j, lies at i (i + 1) / 2 + j; diagonal tiles are full; padding is 0.
    """

@overload
def pack(codes: _Codes, params: _Params, x: PointsF64, tiles: _F64, threads: int) -> None: ...
@overload
def pack_matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF32,
    tiles: _F32,
    v: _F32,
    out: _F64,
    threads: int,
) -> None:
    """Fill the packed tiles and write K(x, x) v into out (n, k) float64 in one pass."""

@overload
def pack_matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF64,
    tiles: _F64,
    v: _F64,
    out: _F64,
    threads: int,
) -> None: ...
@overload
def packed_matmul(tiles: _F32, n: int, v: _F32, out: _F64, threads: int) -> None:
    """Write K v into out (n, k) float64 from packed tiles; v is (n, k) of dtype T."""

@overload
def packed_matmul(tiles: _F64, n: int, v: _F64, out: _F64, threads: int) -> None: ...
@overload
def dense_matmul(a: _F32, v: _F32, out: _F64, threads: int, *, tile: int = 256) -> None:
    """Write a v into out (n, k) float64; a is (n, m) and v (m, k), of the same dtype."""

@overload
def dense_matmul(a: _F64, v: _F64, out: _F64, threads: int, *, tile: int = 256) -> None: ...
def packed_add_diagonal(tiles: _F32 | _F64, n: int, diagonal: _F64) -> None:
    """Add diagonal (n,) float64 to a packed matrix."""

def packed_cholesky(tiles: _F32 | _F64, n: int, threads: int) -> int:
    """Replace a packed matrix by its Cholesky factor L, zeros above the diagonal.

    Returns -1, or the index of the first pivot that is not positive; the tiles are then of no use.
    """

def packed_solve(tiles: _F32 | _F64, n: int, b: _F32 | _F64, threads: int) -> None:
    """Overwrite b (n, k) of dtype T with L^-T L^-1 b; tiles hold the factor."""

def packed_solve_lower(tiles: _F32 | _F64, n: int, b: _F32 | _F64, threads: int) -> None:
    """Overwrite b (n, k) of dtype T with L^-1 b; tiles hold the factor."""

def exp(x: NDArray[_T]) -> NDArray[_T]:
    """Return exp of a vector (n,), as used inside the kernels."""

def isa() -> str:
    """Name of the instruction set in use."""

def available_isas() -> list[str]:
    """Names of the instruction sets this machine can run, slowest first."""
