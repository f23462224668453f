"""Tiles in C++: Gram matrices, fused products with them, blocked Cholesky. Loops over rows.

A kernel is a program in reverse Polish: ``codes`` (length,) int32 with the numbers of ``OPS``, and
``params`` (length, 4) float64. Leaves: ``rbf`` (gamma), ``laplacian`` (gamma), ``polynomial``
(gamma, coef0, degree), ``matern`` (length_scale, nu), ``linear``, ``cosine``, ``delta``,
``constant`` (value). ``add`` and ``mul`` combine the last two kernels.

All arrays are C-contiguous. T is the dtype of the points or tiles, float32 or float64; products
over more than a tile are summed in float64. No result depends on ``threads``. The GIL is released;
Ctrl-C is honoured within about a tenth of a second.

Loops over rows run on the calling thread and trust the shapes of their arguments. They convert inputs
that are not contiguous, and check only dtype and dimensions. Their results do not depend on the
instruction set.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T", np.float32, np.float64)
_Codes: TypeAlias = NDArray[np.int32]
_Params: TypeAlias = NDArray[np.float64]
_U16: TypeAlias = NDArray[np.uint16]
_F32: TypeAlias = NDArray[np.float32]
_F64: TypeAlias = NDArray[np.float64]
_I64: TypeAlias = NDArray[np.int64]

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
    *,
    differences: bool = False,
) -> None:
    """Write sums (n / group, p) of the features of ``group`` rows in turn, and squares (n,) of all.

    With ``differences``, and groups of two rows, the second is subtracted from the first.
    """

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

def group_sums(
    codes: NDArray[np.int32],
    params: _F64,
    x: PointsF64,
    starts: NDArray[np.int64],
    shares: _F64,
    first: int,
    stop: int,
    out: _F64,
    threads: int,
) -> None:
    """Add up kernel values over groups of successive points: group g is starts[g] to starts[g + 1].

    Writes S' K(x, x) S into out (stop - first, g - first), for the groups first to stop in rows and those
    from first on in columns; shares (n,) are the nonzeros of S, a column a group.
    """

def self_product(a: NDArray[_T], weight: _F64 | None, out: _F64, threads: int) -> None:
    """Add ``a diag(weight) a'`` to out (p, p); a is (p, n), weight (n,) or None.

    Sums over 256 columns are in the dtype of a, over those in float64.
    """

def tall_skinny_inner(
    a: _F64, b: _F64, out: _F64, threads: int, *, scale: _F64 | None = None
) -> None:
    """Write ``a' diag(scale) b`` into out (k, j); a is (n, k), b (n, j), scale (n,) or None for ones.

    Rows may lie apart (columns of a wider array), here and below.
    """

def tall_skinny_times(
    a: _F64, small: _F64, out: _F64, threads: int, *, base: _F64 | None = None, sign: float = 1.0
) -> None:
    """Write ``base + sign a small`` into out (n, j); a is (n, k), small (k, j), base (n, j) or None.

    ``out`` may be ``base``, or ``a`` where it is as wide.
    """

def tall_skinny_residual(
    rhs: _F64, shift: _F64, value: _F64, image: _F64, out: _F64, threads: int
) -> tuple[float, float, float, float]:
    """Write ``rhs - shift[:, None] * value - image`` into out (n, k), and return sums over the rows.

    They are those of ``1 / shift``, ``|value_i|``, ``(|rhs| + |shift value|)^2 / shift`` and
    ``out^2 / shift``. Rows may lie apart.
    """

def tall_skinny_spread(
    a: _F64,
    source: NDArray[np.int64],
    where: NDArray[np.int64],
    share: _F64,
    out: _F64,
    threads: int,
) -> None:
    """Add ``share[i] * a[source[i]]`` to ``out[where[i]]`` for all i; a is (n, k), out (u, k)."""

def row_hashes(
    x: _F32 | _F64, factors: NDArray[np.uint64], out: NDArray[np.uint64], threads: int
) -> None:
    """Write a 64-bit hash of each row of x (n, d) into out (n,); factors (d,) are odd."""

def all_finite(x: _F32 | _F64, threads: int) -> bool:
    """Tell whether x, float32 or float64 of any shape, has neither NaN nor infinity."""

def rbf_of_normals(
    gamma: float, gaps: Sequence[_F64], widers: Sequence[_F64], out: _F64, threads: int
) -> None:
    """Write ``exp(-gamma sum(gap^2 / wider)) / sqrt(prod(wider))`` into out (n, m), over components.

    ``gaps`` are arrays (n, m), ``widers`` (n, m) or (n, 1).
    """

def rbf_of_normal_pairs(
    gamma: float,
    means: Sequence[_F64],
    wides: Sequence[_F64],
    againsts: Sequence[_F64],
    spreads: Sequence[_F64],
    out: _F64,
    threads: int,
) -> None:
    """Write `rbf_of_normals` of all pairs into out (n, m).

    ``means`` and ``wides`` hold arrays (n,) of each component, ``againsts`` and ``spreads`` (m,). Gaps are
    ``mean_i - against_j``, and widers ``wide_i + spread_j``.
    """

def row_squares(x: NDArray[Any], out: _F64, threads: int, *, offset: _F64 | None = None) -> float:
    """Write ``|x_i - offset|^2`` into out (n,), and return the largest, NaN if there is any.

    x is (n, d) float32 or float64, offset (d,) or None.
    """

def tall_skinny_scale(
    scale: _F64, a: _F64, out: _F64, threads: int, *, base: _F64 | None = None
) -> None:
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
    """Fill the packed tiles and write K(x, x) v into out (n, k) float64 in one pass.

    Where tiles are fewer than (nb (nb + 1) / 2, tile, tile), the first are filled.
    """

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
def quantize_matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF32,
    tiles: _U16,
    scales: _F32,
    v: _F32,
    out: _F64,
    threads: int,
) -> None:
    """Write K(x, x) v into out (n, k) float64, and quantize K.

    Its lower tiles go into tiles (nb (nb + 1) / 2, tile, tile) uint16, and for each row of a tile its least
    value and its step into scales (nb (nb + 1) / 2, tile, 2) float32. The product is that of the values
    before. Where tiles are fewer, the first are filled.
    """

def quantized_matmul(tiles: _U16, scales: _F32, n: int, v: _F32, out: _F64, threads: int) -> None:
    """Write K v into out (n, k) float64 from quantized tiles; v is (n, k) float32."""

def partly_quantized_matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF32,
    tiles: _U16,
    scales: _F32,
    v: _F32,
    out: _F64,
    threads: int,
) -> None:
    """Write K(x, x) v into out (n, k) float64 from the first quantized tiles, others from x."""

@overload
def partly_packed_matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF32,
    tiles: _F32,
    v: _F32,
    out: _F64,
    threads: int,
) -> None:
    """Write K(x, x) v into out (n, k) float64 from the first packed tiles, others from x."""

@overload
def partly_packed_matmul(
    codes: _Codes,
    params: _Params,
    x: PointsF64,
    tiles: _F64,
    v: _F64,
    out: _F64,
    threads: int,
) -> None: ...
@overload
def dense_matmul(
    a: _F32, v: _F32, out: _F64, threads: int, *, tile: int = 256, transposed: bool = False
) -> None:
    """Write a v into out (n, k) float64; a is (n, m) and v (m, k), of the same dtype.

    With ``transposed``, a is (m, n) and stands for its transpose.
    """

@overload
def dense_matmul(
    a: _F64, v: _F64, out: _F64, threads: int, *, tile: int = 256, transposed: bool = False
) -> None: ...
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

def row_array(n: int) -> _F64:
    """Return an array (n,) of arbitrary float64 numbers, in memory that an array of this size has left."""

def exp(x: NDArray[_T]) -> NDArray[_T]:
    """Return exp of a vector (n,), as used inside the kernels."""

def crps_of_sorted(draws: NDArray[Any], y: _F64, factor: _F64, out: _F64) -> None:
    """Write ``mean_j (|x_j - y| - factor_j (x_j - y))`` of rows x of ascending draws (n, m)."""

def count_draws(draws: NDArray[Any], y: _F64, below: bool, out: NDArray[np.int64]) -> None:
    """Write the number of draws of each row (n, m) that are <= y, or with ``below`` < y."""

def count_draws_both(
    draws: NDArray[Any], y: _F64, below: NDArray[np.int64], up_to: NDArray[np.int64]
) -> None:
    """Write the numbers of draws of each row (n, m) that are < y, and that are <= y."""

def count_sorted_draws(draws: NDArray[Any], y: _F64, below: bool, out: NDArray[np.int64]) -> None:
    """Write what `count_draws` does, of rows of ascending draws."""

def cdf_of_quantiles(
    levels: _F64,
    values: _F64,
    left: _F64,
    right: _F64,
    y: _F64,
    below: bool,
    above: bool,
    out: _F64,
) -> None:
    """Write P(Y <= y), with ``below`` P(Y < y), of interpolated quantiles.

    With ``above``, 1 minus that. ``left`` and ``right`` (n,) are the scales of exponential
    tails, 0 for none.
    """

def crps_of_quantiles(
    levels: _F64, values: _F64, left: _F64, right: _F64, y: _F64, scratch: _F64, out: _F64
) -> None:
    """Write the CRPS of interpolated quantiles (n, j) with exponential tails; ``scratch`` is (66, j)."""

def check_losses(levels: _F64, factors: _F64, values: _F64, y: _F64, out: _F64) -> None:
    """Write sums of check losses, ``factor_j max(p_j u, (p_j - 1) u)`` with ``u = y - q_j``."""

def interval_scores(y: _F64, lower: _F64, upper: _F64, factor: float, out: _F64) -> int:
    """Write ``u - l + factor (max(l - y, 0) + max(y - u, 0))``; return the number of rows with l > u."""

def gamma_log_densities(y: _F64, shape: _F64, rate: _F64, out: _F64) -> None:
    """Write log densities of gamma distributions with shapes in (0, 6) at y > 0."""

def symmetric_scores(family: int, y: _F64, loc: _F64, scale: _F64, out: _F64) -> None:
    """Write the CRPS of normal (0), logistic (1) or Laplace distributions (2)."""

def two_piece_scores(family: int, y: _F64, loc: _F64, lower: _F64, upper: _F64, out: _F64) -> None:
    """Write the CRPS of distributions with a scale for each side of the mode."""

def exponential_scores(y: _F64, rate: _F64, mass: _F64, out: _F64) -> None:
    """Write the CRPS of exponential distributions; ``mass`` at 0 may be empty."""

def linear_scores(
    y: _F64, low: _F64, high: _F64, below: _F64, rise: _F64, above: _F64, out: _F64
) -> None:
    """Write integrals of ``(F(t) - 1{t >= y})^2`` from low to high, where F is linear.

    F rises from ``below`` by ``rise`` to ``1 - above``. Without these three, F is the uniform cdf, and the
    distance of y to the interval is added.
    """

def pareto_scores(y: _F64, shape: _F64, scale: _F64, loc: _F64, out: _F64) -> None:
    """Write the CRPS of generalised Pareto distributions."""

def log_laplace_scores(y: _F64, scale: _F64, shape: _F64, out: _F64) -> None:
    """Write the CRPS of log-Laplace distributions: infinite for shapes up to 1, NaN for infinite y."""

def log_densities(family: int, y: _F64, a: _F64, b: _F64, c: _F64, out: _F64) -> None:
    """Write log densities of a family, by its number; parameters that it lacks are empty."""

def normal_mixture_logs(y: _F64, means: _F64, stds: _F64, weights: _F64, out: _F64) -> None:
    """Write log densities of normal mixtures, from means and stds (K, n) and weights (n, K)."""

def bounded_copy(x: _F64, copy: _F64, bounds: _F64) -> None:
    """Copy x, and write its least and largest number to ``bounds`` (2,): NaN if one is not finite."""

def gap_bounds(a: _F64, b: _F64, bounds: _F64) -> None:
    """Write the least and the largest of ``b - a`` to ``bounds`` (2,): NaN if one is not finite."""

def gaussian_rows(draws: _F64, shares: _F64, y: _F64, bandwidth: float, sums: _F64) -> None:
    """Write sums of kernel distances over pairs of draws, and over draws and the outcome (n, 2).

    Of draws (n, k, m) with shares (n, m), and outcomes (n, k). The distance is ``1 - exp(-|x - z|^2 / (2
    bandwidth^2))``; each pair counts twice.
    """

def interval_rows(draws: _F64, y: _F64, low: _F64, high: _F64, parts: _F64) -> None:
    """Write shares, scores at y, integrals of ``F (1 - F)`` and mean sizes (n, 4).

    Of those of the sorted draws (n, m) that lie between ``low`` and ``high`` (n,).
    """

def central_sums(draws: _F64, sums: _F64) -> None:
    """Write units, means and the sums of squares and cubes of the differences from them (n, 4).

    Of draws (n, m). The last three are in units, with which cubes are normal numbers.
    """

def dispersion_rows(draws: _F64, y: _F64, scratch: _F64, values: _F64) -> None:
    """Write ``log det S`` and ``g' S^-1 g`` (n, 2) of draws (n, k, m) and outcomes (n, k).

    S is the sum of the outer products of the draws' differences from their mean, and g the outcome's
    difference. NaN where S is nearly singular. ``scratch`` holds k (m + 2) numbers.
    """

def half_ratios(x: _F64, ratios: _F64) -> None:
    """Write ``Gamma(x + 1/2) / Gamma(x)`` for x >= 0."""

def weight_shares(weights: _F64, shares: _F64, bounds: _F64) -> None:
    """Divide rows of weights (n, K) by their sums; write the bounds of weights and of sums (4,).

    Two of these are NaN if a weight, or a sum, is not finite.
    """

def interval_masses(
    family: int,
    low: _F64,
    high: _F64,
    loc: _F64,
    scale: _F64,
    below: _F64,
    at_least: _F64,
    upto: _F64,
    above: _F64,
    inside: _F64,
) -> None:
    """Write P(Y < low), P(Y >= low), P(Y <= high), P(Y > high) and P(low <= Y <= high)."""

def symmetric_tails(family: int, y: _F64, loc: _F64, scale: _F64, below: _F64, above: _F64) -> None:
    """Write P(Y <= y) and P(Y > y) of normal (0), logistic (1) or Laplace distributions (2)."""

def piece_scores(
    family: int,
    y: _F64,
    loc: _F64,
    scale: _F64,
    low: _F64,
    high: _F64,
    below: _F64,
    rise: _F64,
    above: _F64,
    out: _F64,
) -> None:
    """Write integrals of ``(F(t) - 1{t >= y})^2`` from ``low`` to ``high``; NaN where digits are lost.

    F rises from ``below`` by ``rise`` to ``1 - above`` in proportion to the cdf of a distribution. It is
    that cdf if the three are empty.
    """

def piece_sums(
    z: _F64,
    gaps: _F64,
    tails: _F64,
    means: _F64,
    squares: _F64,
    total: _F64,
    below: _F64,
    rise: _F64,
    above: _F64,
    out: _F64,
) -> None:
    """Write `piece_scores` of a distribution symmetric around 0, from its tails at (n, 3) numbers."""

def check_rows(p: NDArray[Any], tolerance: float) -> int:
    """Return the first row with a value outside [0, 1], NaN, or a sum other than one; -1 if none."""

def summarize_rows(
    p: NDArray[Any],
    labels: NDArray[np.int64],
    tolerance: float,
    predicted: NDArray[Any],
    confidence: NDArray[Any],
    chosen: NDArray[Any],
    squares: _F64,
    above: NDArray[Any],
    before: NDArray[Any],
    after: NDArray[Any],
) -> int:
    """Fill the arrays of `RowSummary` and return the first invalid row, or -1."""

def summarize_pairs(
    p: _F64,
    labels: NDArray[np.int64],
    predicted: NDArray[np.int32],
    confidence: _F64,
    chosen: _F64,
    squares: _F64,
    above: NDArray[np.int32],
    before: NDArray[np.int32],
    after: NDArray[np.int32],
) -> int:
    """Fill the same arrays from the probabilities (m,) of class 1 of two."""

def cumulative_squares(p: NDArray[Any], labels: NDArray[np.int64], out: _F64) -> None:
    """Write ``sum_k (F_k - 1{label <= k})^2`` of each row, over all classes but the last."""

def bin_values(
    values: NDArray[Any],
    hits: NDArray[np.int64],
    weights: _F64,
    edges: NDArray[Any],
    middles: _F64,
    even: bool,
    right: bool,
    sums: _F64,
    other: _F64,
) -> int:
    """Add (weight, weight * d, 1) of each value to ``sums[2 * bin + hit]``, which must start at zero.

    ``d`` is the distance from ``middles[bin]``; ``other`` holds zeros in the shape of ``sums``.
    Returns the first value that is outside [0, 1] or whose hit is neither 0 nor 1, or -1.
    """

def bin_classes(
    p: NDArray[Any],
    labels: NDArray[np.int64],
    weights: _F64,
    edges: NDArray[Any],
    middles: _F64,
    even: bool,
    right: bool,
    threshold: float,
    scratch: NDArray[Any],
    sums: _F64,
    hits: _F64,
) -> None:
    """Add (weight, weight * d, weight * d^2, 1) of each p to ``sums[class, bin]``.

    For the class of the label, (weight, weight * d) are also added to ``hits[class, bin]``; a
    label below 0 belongs to no column. ``d`` is the distance from the middle of the bin.
    Probabilities at or below ``threshold`` are left out. ``scratch`` (classes,) is int32.
    """

def rank_sum(scores: NDArray[Any], positive: NDArray[Any]) -> int:
    """Return the sum over positives of the number of scores below them and of scores not above them.

    Both are sorted, and the positives are among the scores.
    """

def concordance(
    scores: NDArray[Any], positive: NDArray[np.bool_], weights: _F64, out: _F64
) -> None:
    """Write the weight of correctly ordered pairs (ties count half), of positives and of negatives.

    Scores are sorted.
    """

def fine_bins(values: _F64, octaves: int, steps: int, out: NDArray[np.int64]) -> None:
    """Write the fine bin of each value in [0, 1], from 0 to ``2 * octaves * steps - 1``."""

def sketch_rows(
    p: NDArray[Any],
    labels: NDArray[np.int64],
    weights: _F64,
    octaves: int,
    steps: int,
    hits: _F64,
    misses: _F64,
) -> None:
    """Add the weight of each p to ``hits[class, bin]`` for the label's class, else to ``misses``."""

def log_masses(y: _F64, mean: _F64, alpha: _F64, out: _F64) -> None:
    """Write log probabilities of y (n,) under negative binomials (dispersion 0: Poisson).

    NaN where y is NaN.
    """

def consecutive_log_masses(first: _F64, mean: _F64, alpha: _F64, out: _F64) -> None:
    """Write log probabilities (n, L) of the counts ``first``, ``first + 1``, ..."""

def crps_by_sums(y: _F64, mean: _F64, alpha: _F64, out: _F64) -> None:
    """Write the CRPS of real y (n,), summed over the masses on either side of y."""

def half_gini(mean: _F64, alpha: _F64, out: _F64) -> None:
    """Write ``E|Y - Y'| / 2`` (n,) of negative binomial rows with positive mean and dispersion."""

def count_quantiles(levels: _F64, order: NDArray[Any], mean: _F64, alpha: _F64, out: _F64) -> None:
    """Write the smallest counts (n, j) whose cdf is at least a level; NaN where a walk cannot decide.

    ``levels`` and ``order``, the indices that sort them, are (n, j), or (1, j) for all rows.
    """

def poisson_tails(k: _F64, mean: _F64, upper: bool, out: _F64) -> None:
    """Write P(Y <= k), or P(Y > k), for whole k >= 0 (n,) and means from 3e5."""

def double_poisson_tables(logs: _F64, heads: _F64) -> None:
    """Write ``log k`` and ``log(k^k e^-k / k!)`` of the first counts."""

def double_poisson_windows(
    mu: _F64, phi: _F64, logs: _F64, heads: _F64, low: _F64, high: _F64
) -> None:
    """Write the first and last counts (n,) whose mass is not below rounding."""

def double_poisson_moments(
    mu: _F64, phi: _F64, logs: _F64, heads: _F64, total: _F64, mean: _F64, variance: _F64
) -> None:
    """Write the sums of the masses (n,), means and variances."""

def double_poisson_log_masses(
    y: _F64, mu: _F64, phi: _F64, logs: _F64, heads: _F64, total: _F64, out: _F64
) -> None:
    """Write log probabilities of y (n,): -inf where y is not a count, NaN where y is NaN."""

def double_poisson_tails(
    y: _F64, mu: _F64, phi: _F64, logs: _F64, heads: _F64, upper: bool, total: _F64, out: _F64
) -> None:
    """Write P(Y <= y), or P(Y > y), for whole y (n,)."""

def double_poisson_crps(y: _F64, mu: _F64, phi: _F64, logs: _F64, heads: _F64, out: _F64) -> None:
    """Write the CRPS of real y (n,)."""

def double_poisson_masses(
    first: _F64, mu: _F64, phi: _F64, logs: _F64, heads: _F64, out: _F64
) -> None:
    """Write the probabilities (n, L) of the counts from ``first`` (n,), which sum to 1."""

def double_poisson_quantiles(
    levels: _F64,
    mu: _F64,
    phi: _F64,
    logs: _F64,
    heads: _F64,
    total: _F64,
    scratch: _F64,
    out: _F64,
) -> None:
    """Write the smallest counts (n, j) whose cdf is at least a level (n, j), or (1, j) for all rows.

    ``scratch`` holds as many numbers as the longest window has counts.
    """

def march(x: _F64, density: _F64, masses: _F64, slope: _F64, out: _F64) -> None:
    """Write the points (n, j) at which the mass from x (n,) on has reached each of ``masses``.

    x and the density there are overwritten by those of the last point. ``masses`` (n or 1, j)
    have rising absolute values; their common sign is the direction. A row of ``slope`` (n or 1,
    8) holds ``p0, p1, q0, q1, q2`` of ``f' / f = (p0 + p1 x) / (q0 + q1 x + q2 x^2)``, the real
    parts of the roots of the denominator and their imaginary part, infinite if it has no roots.
    Points are NaN where the march fails.
    """

def mixture_quantiles(
    levels: _F64, z: _F64, mean: _F64, std: _F64, weights: _F64, out: _F64
) -> None:
    """Write the quantiles (n, j) of mixtures of K Gaussians (n, K); NaN where the cdf is nearly flat.

    Levels (n or 1, j) ascend along each row; z are the standard normal quantiles at them.
    """

def mid_ranks(values: _F64, reference: _F64, out: _F64) -> None:
    """Write the share of each row's ascending reference (m, j) below values (m, l), plus half of ties."""

def outcome_bumps(places: _F64, step: float, factor: float, decay: _F64, out: _F32) -> None:
    """Set column j of ``out`` (m, l, r) to ``factor exp(-(t - j step)^2)``, only near t.

    ``decay`` holds ``exp(-(step j)^2)`` for as many columns as are set on either side.
    """

def lattice_sums(
    places: _F64,
    share: _F64,
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    origin: _F64,
    decay: _F64,
    out: _F64,
) -> None:
    """Add bumps ``share exp(-|j - place|^2 / 8)`` of some rows to a tile of a lattice.

    The tile is ``out`` (rows, 1 or 32, 32), and ``origin`` (1 or 2,) its first node. ``starts`` (n + 1,)
    says where the entries of each row begin. ``decay`` holds ``exp(-j^2 / 8)`` for j from -14 to 14.
    """

def centre_rows(features: _F32, means: _F32, squares: _F64) -> None:
    """Subtract means (m, r) from features (m, l, r), and write squared norms (m, l)."""

def interpolate(places: _F64, table: _F32, out: _F32) -> None:
    """Write cubic polynomials (n, r) through the four rows of a table around each place."""

def count_rows(rows: NDArray[np.int64], place: NDArray[Any], weights: _F64, counts: _F64) -> None:
    """Add the weight of rows to the counts of their places (uint8 or int32); empty weights are 1."""

def count_drawn(uniform: _F64, place: NDArray[Any], weights: _F64, counts: _F64) -> None:
    """Draw rows with replacement, one per uniform number, and count them by place."""

def count_undrawn(
    uniform: _F64, order: NDArray[np.int32], place: NDArray[Any], weights: _F64, counts: _F64
) -> None:
    """Draw rows without replacement by steps of a shuffle of ``order``; count them by place."""

def energy_rows(draws: _F64, y: _F64, beta: float, pairs: float, scratch: _F64, out: _F64) -> None:
    """Write ``mean_i |x_i - y|^beta - sum_{i<j} |x_i - x_j|^beta / pairs`` of draws (n, k, m)."""

def variogram_rows(
    draws: _F64, y: _F64, p: float, weights: _F64, unbiased: bool, scratch: _F64, out: _F64
) -> None:
    """Write ``sum_ij w_ij (|y_i - y_j|^p - mean |x_i - x_j|^p)^2`` of rows of draws (n, k, m).

    If ``unbiased``, the variance of each mean is subtracted from its square.
    """

def lattice_means(
    z: _F64,
    weight: _F64,
    stretch: _F64,
    step: float,
    rate: float,
    height: float,
    slopes: bool,
    mean: _F64,
    slope: _F64,
    stretched: _F64,
) -> None:
    """Add features ``height exp(-rate (z - j step)^2)`` at nodes z (n, L) to means (n, 2 m + 1).

    With ``slopes``, ``slope`` receives ``sum_l w_l p'(z_l)`` and ``stretched`` ``sum_l w_l
    p'(z_l) stretch_l``. ``weight`` is (1, L) or (n, L).
    """

def weighted_lattice_sums(
    z: _F64, weights: _F64, step: float, rate: float, height: float, sums: _F64
) -> None:
    """Add features at nodes z (n, L) to sums (3, n, 2 m + 1) with the weights (3, n, L) of the nodes."""

def solve_moments(
    values: _F64,
    logs: _F64,
    statistic: _F64,
    mean: _F64,
    std: _F64,
    low: float,
    high: float,
    scratch: _F64,
    power: _F64,
    tilt: _F64,
) -> None:
    """Solve for a and b that give ``f(k) exp(a r(k) + b k)``, normalised, the wanted moments.

    ``values``, ``logs`` and ``statistic`` (n, L) are k, log f(k) and r(k). ``power`` (a, in
    [low, high]) and ``tilt`` (b) hold the start and receive the result.
    """

def correction_weights(
    values: _F64, logs: _F64, statistic: _F64, power: _F64, tilt: _F64, out: _F64
) -> None:
    """Write the masses ``f(k) exp(a r(k) + b k)``, normalised, and two derivatives (3, n, L).

    They are those by the log mean, and by the log standard deviation minus half the log mean.
    """

def error_sums(y: _F64, point: _F64, out: _F64) -> None:
    """Write the sums of ``point - y``, of its size and of its square."""

def relative_sums(y: _F64, point: _F64, out: _F64) -> None:
    """Write the sums of ``|point - y| / (|point| + |y|)``, 0 for 0 / 0, and of ``|point| + |y|``."""

def resampled_sums(rows: _F64, counts: _F64, factors: _F64, sums: _F64) -> None:
    """Write sums of samples (s, 3, k + 1) over rows (k, n) r: of ``w r``, of ``v r`` and of ``v r^2``.

    Of a sample with counts (n,), ``w = count factor`` and ``v = w factor``; factors (0,) are all 1.
    The last of the k + 1 sums are those of r = 1.
    """

def linear_squares(
    rows: _F64, slopes: _F64, away: _F64, counts: _F64, factors: _F64, out: _F64
) -> None:
    """Write ``sum_i count_i factor_i^2 (sum_k slope_k rows_ki - away)^2`` of each sample.

    ``rows`` are (k, n), ``slopes`` (s, k), ``away`` (s,), ``counts`` (s, n); factors (0,) are all 1.
    """

def running_weights(weights: _F64, order: _I64, cumulative: _F64) -> float:
    """Write cumulative weights (n + 1,) of rows in an order; return the sum of squared weights."""

def spread_pieces(
    weights: _F64, order: _I64, variance: _F64, squares: _F64, ends: _I64, sums: _F64
) -> None:
    """Write sums (p, 4) of ``w``, ``w variance``, ``w square`` and ``(w variance)^2`` over pieces.

    Piece b has the places ``ends[b]`` to ``ends[b + 1]`` of the order, in which variances and squares
    are sorted already.
    """

def comoments(y: _F64, point: _F64, out: _F64) -> None:
    """Write means, central sums of squares and products, that of squared errors, and ranges."""

def spread_sums(y: _F64, mean: _F64, variance: _F64, cuts: _F64, scratch: _F64, sums: _F64) -> None:
    """Add counts, variances, squared errors and squared variances to the sums (2 c + 1, 4) of groups.

    Group 2 b + 1 holds the rows whose variance equals the ascending cut b, group 2 b those
    before it. ``scratch`` has the shape of ``sums``.
    """

def isotonic_rows(values: _F64, weights: _F64, ends: NDArray[np.int64], masses: _F64) -> None:
    """Replace each row (b, k) by its isotonic regression with positive weights (k,).

    ``ends`` and ``masses`` (k,) are scratch.
    """

def events_first(
    events: NDArray[np.uint8], starts: NDArray[np.int64], counts: NDArray[np.int64]
) -> None:
    """Order events (n,), each 0 or 1, within ranges of rows, so that those that happened come first."""

def isotonic_bits(
    bits: NDArray[np.uint64],
    n: int,
    places: NDArray[np.int64],
    rows: NDArray[np.int64],
    sums: NDArray[np.int64],
    fits: _F64,
) -> None:
    """Write the isotonic regression of n > 0 events of equal weight at ascending places (g,).

    Event i is bit ``i % 64`` of word ``i // 64``; further bits are 0. ``rows`` and ``sums`` (n // 2 + 2,)
    are scratch.
    """

def count_pairs(
    rank: NDArray[np.int64],
    until: NDArray[np.int64],
    tree: NDArray[np.int64],
    equal: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Write how many of the first ``until[i]`` rows have a greater rank, twice, and an equal one, once.

    Ranks are from 0 to ``len(equal) - 1``, and ``until`` does not decrease. ``tree`` (one longer than
    ``equal``) and ``equal`` are scratch of zeros.
    """

def panel_quantiles(
    starts: NDArray[np.int64],
    left: _F64,
    half: _F64,
    density: _F64,
    places: NDArray[np.int64],
    below: _F64,
    above: _F64,
    levels: _F64,
    rule: _F64,
    nodes: _F64,
    series: _F64,
    out: _F64,
) -> None:
    """Write quantiles (n, j) of densities that are polynomials on panels; NaN where they are unsafe.

    Row i has the panels from ``starts[i]`` to ``starts[i + 1]``, which adjoin, with left ends, half
    widths and, in rows ``places`` of ``density`` (q, 20), densities at the nodes. ``below`` and
    ``above`` (n,) are the masses outside them. Levels (n or 1, j) in (0, 1) rise. ``rule`` (40,)
    holds weights and nodes in [-1, 1]; products of densities with ``nodes`` (20, 20) are integrals up
    to each node, those with ``series`` Legendre coefficients.
    """

def panel_scores(
    starts: NDArray[np.int64],
    splits: NDArray[np.int64],
    left: _F64,
    half: _F64,
    density: _F64,
    places: NDArray[np.int64],
    below: _F64,
    above: _F64,
    rule: _F64,
    nodes: _F64,
    series: _F64,
    out: _F64,
) -> None:
    """Write integrals (n,) of F^2 over ``splits`` panels of each row, and of (1 - F)^2 over the others.

    Arguments as for `panel_quantiles`. NaN if the masses do not sum to 1.
    """

def panel_sizes(density: _F64, weights: _F64, series: _F64, out: _F64) -> None:
    """Write integrals over [-1, 1] and absolute values of four coefficients (p, 5) of panels.

    The coefficients are products of densities (p, 20) with ``series`` (20, 4).
    """

def step_quantiles(
    values: _F64, masses: _F64, levels: _F64, close: float, scratch: _F64, out: _F64
) -> None:
    """Write the first of ascending values (n, l) up to which masses have reached levels (n or 1, j).

    Above 0.5, masses beyond them are compared with complements. NaN where a sum and a level are closer
    than ``close``. ``scratch`` is (2, l).
    """

def step_scores(values: _F64, masses: _F64, y: _F64, out: _F64) -> None:
    """Write the CRPS (n,) at finite y of masses (n, l) at ascending values."""

def add_masses(masses: _F64, offset: NDArray[np.int64], weights: _F64, totals: _F64) -> None:
    """Add weighted masses (n, l) to totals (n, L), from places ``offset`` (n,) on."""

def join_edges(
    edges: _F64,
    starts: NDArray[np.int64],
    stops: _F64,
    first: _F64,
    last: _F64,
    places: NDArray[np.int64],
    ends: _F64,
) -> None:
    """Write ends of panels (n, E) from ``first`` to ``last`` (n,), which rise; the last one is repeated.

    No panel spans more of a component than 1.05 of its own panels, whose ends are the columns ``starts[c]``
    to ``starts[c + 1]`` of ``edges``. ``stops`` (n, k) between first and last are ends, too. E is the
    number of columns of edges and stops, and 2 more. ``places`` has room for an integer a component.
    """

def integrate_densities(
    edges: _F64,
    below: _F64,
    above: _F64,
    families: NDArray[np.int64],
    constants: _F64,
    weights: _F64,
    limits: _F64,
    spread: _F64,
    y: _F64,
    levels: _F64,
    rule: _F64,
    nodes: _F64,
    series: _F64,
    scratch: _F64,
    places: NDArray[np.int64],
    scores: _F64,
    quantiles: _F64,
    moments: _F64,
) -> None:
    """Write scores (n, k), quantiles (n, j) and moments (n, 2) of densities that are sums of terms.

    Each has no rows if it is not needed. Rows are cut at edges (n, E), which rise, and panels halved within
    ``limits`` (8,), see ``csrc/loops/integrals.h``. ``families`` (k,), ``constants`` (k, n, 5) and
    ``weights`` (k, n) are those of the terms; ``csrc/loops/densities.h`` lists the families. ``scratch``
    (p, 28) and ``places`` (p,) hold the panels of a row: densities (20,) of each panel follow 7 p numbers.
    ``y`` (n, k) are edges, or outside. Other arguments as for `panel_quantiles`.
    """

def count_ranges(mean: _F64, alpha: _F64, tail: float, first: _F64, last: _F64) -> None:
    """Write counts (n,) that have at most a mass ``tail`` below and above them, close to the nearest."""

def count_masses(first: _F64, step: _F64, base: _F64, slope: _F64, out: _F64) -> None:
    """Write the probabilities (n, L) of the counts from ``first`` on, divided by their sums.

    The ratio of the probabilities of k + 1 and k is ``step (base + slope k) / (k + 1)``, and at least 0.
    """

def accept_pivots(
    residual: _F64,
    proposals: NDArray[np.int64],
    least: _F64,
    uniform: _F64,
    most: int,
    before: _F64,
    columns: _F64,
    pivots: NDArray[np.int64],
    factor: _F64,
    draws: NDArray[np.int64],
) -> int:
    """Choose pivots among proposals (c,), rows of residual (m, m); return how many: at most ``most``.

    Each proposal is eliminated in turn if its remaining residual exceeds ``least`` (m,) and, with uniform
    (c,), the next uniform number times its residual before the call; without (0,) in any case. Writes
    pivots (c,), their Cholesky factor (k, k) into factor (c c,), and the number of uniform numbers into
    draws (1,). Residual is overwritten; before (m,) and columns (c, m) are scratch.
    """

def pivoted_basis(
    gram: _F64, omissible: float, rounding: float, residual: _F64, columns: _F64, basis: _F64
) -> int:
    """Write an orthonormal basis of pivoted columns of gram (m, m) into rows of basis (most, m).

    Return their number, or -1 if more than ``most`` are needed to omit at most ``omissible`` of the trace.
    What remains of a diagonal entry counts as zero below ``rounding`` times the entry. Residual (m,) and
    columns (most, m) are scratch.
    """

def roots_of_forms(
    coefficients: _F64, forms: _F64, unit: float, tiny: float, roots: _F64, errors: _F64
) -> None:
    """Write the roots (q,) of quadratic forms of the columns c of coefficients (u, q), and their errors.

    A form may be off by ``unit |c|_1^2``, plus ``tiny`` unless c is 0.
    """

def chebyshev_moments(
    place: NDArray[np.int64],
    slot: NDArray[np.int64],
    values: _F64,
    weights: _F64,
    number: _F64,
    length: float,
    most: _F64,
    moments: _F64,
    residual: _F64,
) -> None:
    """Add the Chebyshev moments of weighted nodes (n, L) on panels to moments (n, p, k).

    The panel of a node is ``slot[place]``; a node with a negative panel is skipped. ``number`` (p,) are the
    lower ends of the panels, in units of ``length``. ``most`` (p, c) are bounds on cells of the panels;
    their sums, weighted by the sizes of the weights, are added to residual (n,).
    """

def add_quadratic_forms(
    y: _F64,
    c: _F64,
    rate: float,
    polynomial: _F64,
    before: _F64,
    inside: _F64,
    partial: _F64,
    weight: _F64,
    choose: _F64,
    out: _F64,
) -> None:
    """Add ``c_j' K c_j`` to out (q,), with ``k = p(s) exp(-s)``, ``s = rate |y - z|``, y (n,) ascending.

    ``polynomial`` (d,) are the coefficients of p. ``before`` and ``inside`` (d, q), ``partial`` (q,),
    ``weight`` (d,) and ``choose`` (d, d) are scratch, all zero.
    """

def smooth_panels(
    low: _F64,
    high: _F64,
    series: _F64,
    weights: _F64,
    places: _F64,
    to_series: _F64,
    rate: float,
    t: _F64,
    z: _F64,
    w: _F64,
    hermite: _F64,
    out: _F64,
) -> None:
    """Add the integrals of densities on panels under bumps around t (q,), ascending, to out (n, q).

    Densities are Legendre series (n, p, k) between low and high (n, p), with masses ``weights`` (n, p, k)
    at the nodes ``places`` (k,). Rules are those of `project_bumps`, and ``hermite`` (2, h) is one of
    Gauss-Hermite.
    """

def project_bumps(y: _F64, low: _F64, high: _F64, rate: float, z: _F64, w: _F64, out: _F64) -> None:
    """Write the Legendre coefficients (n, p, k) of bumps around y (n,) on panels between low and high (p,).

    ``z`` and ``w`` (3, 40) are the nodes and weights of Gauss-Legendre rules with 16, 24 and 40 nodes.
    """

def row_distances(rows: _F64, columns: _F64, out: _F64) -> None:
    """Write the Euclidean distances (k, m) of rows (k, d) from other rows, transposed (d, m)."""

def matern_of_normals(mean: _F64, deviation: _F64, rate: float, order: int, out: _F64) -> None:
    """Write ``E p(r) exp(-r)`` (n,) for ``r = rate |D|`` of normal D; mean and deviation are (n,).

    p(r) is 1, 1 + r or 1 + r + r^2 / 3 for ``order`` 0, 1 or 2.
    """

def matern_of_normal_pairs(
    mean: _F64, deviation: _F64, against: _F64, spread: _F64, rate: float, order: int, out: _F64
) -> None:
    """Write the same (n, m) for the differences of independent normal numbers.

    Means and standard deviations of the one set are (n,), those of the other (m,).
    """

def isa() -> str:
    """Name of the instruction set in use."""

def available_isas() -> list[str]:
    """Names of the instruction sets this machine can run, slowest first."""
