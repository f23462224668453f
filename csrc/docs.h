// Docstrings of the Python module; the stub _core.pyi holds the same with types.
#pragma once

namespace fastmcmd::docs {

constexpr const char* points =
    "Points packed for the micro-kernels.\n\n"
    "Parameters: data (n, d) float32 or float64, C-contiguous; offset (d,) float64 or None,\n"
    "subtracted before rounding; threads.";
constexpr const char* gram =
    "Write K(x, z) into out (n, m), the dtype of the points.\n\n"
    "With symmetric=True x and z are the same points: squared distances of i to i are exactly 0.";
constexpr const char* matmul =
    "Write K(x, z) v into out (n, k) float64; v is (m, k), the dtype of the points.";
constexpr const char* symmetric_matmul =
    "Write K(x, x) v into out (n, k) float64, each pair of blocks computed once.";
constexpr const char* quadratic_forms =
    "Write the diagonal of c' K(x, x) c into out (k,) float64; c is (n, k).";
constexpr const char* features =
    "Features L^-1 k(landmarks, x) of n rows at p landmarks; factor is L (p, p), the dtype of the\n"
    "points. Writes them into out (p, n), column j for row j (None: not stored), their squared norms\n"
    "into squares (n,) float64 and |L^-T f| into sizes (n,) float64 (or None).";
constexpr const char* feature_sums =
    "Sums (n / group, p) of the features of group rows in turn, and squares (n,) of all; float64.\n\n"
    "With differences, and groups of two rows, the second is subtracted from the first.";
constexpr const char* eliminate =
    "Overwrite fresh (k, n) with L^-1 (fresh - at' rows); rows (r, n), at (r, k), factor L (k, k).";
constexpr const char* symmetric_eigen =
    "Eigenvalues of the symmetric a (n, n) into values (n,), ascending, and, if vectors, the\n"
    "eigenvectors as rows of a, which is overwritten. False if the iteration does not converge.";
constexpr const char* triangular_solve =
    "Overwrite b (p, n) with L^-1 b, or L^-T b if transposed; factor is L (p, p) of the same dtype.";
constexpr const char* pivoted_columns =
    "Steps of the pivoted Cholesky factorisation of K(x, x), from rank pivots up to stop of them.\n\n"
    "Updates residual (n,); writes columns (most, n rounded up to 16) and pivots (most,) int64 and\n"
    "returns the number of pivots: fewer than stop if worth times residual is at most limit everywhere,\n"
    "or the residual of the next one at most noise times its diagonal.";
constexpr const char* group_sums =
    "Add up kernel values over groups of successive points: group g is starts[g] to starts[g + 1].\n\n"
    "Writes S' K(x, x) S into out (stop - first, g - first) float64, for the groups first to stop in\n"
    "rows and those from first on in columns; shares (n,) are the nonzeros of S, a column a group.";
constexpr const char* self_product =
    "Add a diag(weight) a' to out (p, p) float64; a is (p, n), weight (n,) float64 or None.\n\n"
    "Sums over 256 columns are in the dtype of a, over those in float64.";
constexpr const char* tall_skinny_inner =
    "Write a' diag(scale) b into out (k, j); a is (n, k), b (n, j), scale (n,) or None.\n\n"
    "All float64; rows may lie apart.";
constexpr const char* tall_skinny_times =
    "Write base + sign a small into out (n, j); a is (n, k), small (k, j), base (n, j) or None.\n\n"
    "All float64; rows may lie apart. out may be base, or a where it is as wide.";
constexpr const char* tall_skinny_scale =
    "Write base + scale[:, None] * a into out (n, k); base is (n, k) or None, scale (n,).\n\n"
    "All float64; rows may lie apart. out may be base or a.";
constexpr const char* tall_skinny_residual =
    "Write rhs - shift[:, None] * value - image into out (n, k), and return the sums over rows of\n"
    "1 / shift, |value_i|, (|rhs| + |shift value|)^2 / shift and out^2 / shift.\n\n"
    "All float64; rows may lie apart.";
constexpr const char* tall_skinny_spread =
    "Add share[i] * a[source[i]] to out[where[i]] for all i; a is (n, k), out (u, k), and source, where\n"
    "(int64) and share are (m,).";
constexpr const char* row_hashes =
    "Write a 64-bit hash of each row into out (n,) uint64; x is (n, d) float32 or float64, whose rows\n"
    "may lie apart, factors (d,) uint64, all odd.";
constexpr const char* all_finite = "Whether x, float32 or float64 of any shape, has neither NaN nor infinity.";
constexpr const char* row_squares =
    "Write |x_i - offset|^2 into out (n,) float64, and return the largest; x is (n, d) float32 or float64,\n"
    "offset (d,) float64 or None.";
constexpr const char* pack =
    "Write the lower tiles of K(x, x) into tiles (nb (nb + 1) / 2, tile, tile).\n\n"
    "Tile (i, j), i >= j, lies at i (i + 1) / 2 + j; diagonal tiles are full; padding is 0.";
constexpr const char* packed_matmul =
    "Write K v into out (n, k) float64 from packed tiles; v is (n, k), the dtype of the tiles.";
constexpr const char* pack_matmul =
    "pack and packed_matmul in one pass. Where tiles are fewer, the first are filled.";
constexpr const char* partly_packed_matmul =
    "packed_matmul from the first tiles; the others are computed from x.";
constexpr const char* quantize_matmul =
    "Write K(x, x) v into out (n, k) float64, and quantize K: its lower tiles into tiles\n"
    "(nb (nb + 1) / 2, tile, tile) uint16, and for each row of a tile its least value and its step into scales\n"
    "(nb (nb + 1) / 2, tile, 2) float32. The product is that of the values before. Where tiles are fewer, the\n"
    "first are filled.";
constexpr const char* partly_quantized_matmul =
    "quantized_matmul from the first tiles; the others are computed from x.";
constexpr const char* quantized_matmul =
    "Write K v into out (n, k) float64 from quantized tiles; v is (n, k) float32.";
constexpr const char* dense_matmul =
    "Write a v into out (n, k) float64; a is (n, m), v is (m, k) of the same dtype.\n\n"
    "With transposed, a is (m, n) and stands for its transpose.";
constexpr const char* packed_add_diagonal = "Add diagonal (n,) float64 to a packed matrix.";
constexpr const char* packed_cholesky =
    "Replace a packed matrix by its Cholesky factor L (zeros above the diagonal).\n\n"
    "Returns -1, or the index of the first pivot that is not positive; the tiles are then of no\n"
    "use.";
constexpr const char* packed_solve =
    "Overwrite b (n, k) with L^-T L^-1 b; tiles hold the factor of packed_cholesky.";
constexpr const char* packed_solve_lower = "Overwrite b (n, k) with L^-1 b.";
constexpr const char* rbf_of_normals =
    "Write exp(-gamma sum(gap^2 / wider)) / sqrt(prod(wider)) into out (n, m), over the components: gaps\n"
    "are arrays (n, m), widers (n, m) or (n, 1). All float64.";
constexpr const char* rbf_of_normal_pairs =
    "Write rbf_of_normals of all pairs into out (n, m): means and wides hold arrays (n,) of each component,\n"
    "againsts and spreads (m,); gaps are mean_i - against_j, and widers wide_i + spread_j. All float64.";
constexpr const char* row_array =
    "Return an array (n,) of arbitrary float64 numbers, in memory that an array of this size has left.";
constexpr const char* exp = "exp of a vector (n,), as used inside the kernels.";

}  // namespace fastmcmd::docs
