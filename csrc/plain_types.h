// Types that cross the border between the common code and the code compiled once per instruction
// set. Only plain data lives here: an inline function in a shared header could be compiled for
// AVX-512 in one object and chosen by the linker for all of them.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fastmcmd {

using index_t = ptrdiff_t;

// The codes of a kernel program (reverse Polish): leaves push a tile, `add` and `mul` pop two.
// Python sees them by the same names, as `_core.OPS`.
#define FASTMCMD_OPS(code) \
  code(rbf)                \
  code(laplacian)          \
  code(polynomial)         \
  code(matern)             \
  code(linear)             \
  code(cosine)             \
  code(delta)              \
  code(constant)           \
  code(add)                \
  code(mul)

enum op_code : int32_t {
#define FASTMCMD_OP(name) op_##name,
  FASTMCMD_OPS(FASTMCMD_OP)
#undef FASTMCMD_OP
  op_count,
};

constexpr int params_per_op = 4;
constexpr int max_exponentials = 3;

// The statistics of a pair of points from which all leaves are computed.
enum statistic : unsigned { stat_dot = 1, stat_squared = 2, stat_l1 = 4, stat_unequal = 8 };
constexpr int statistic_count = 4;

// Up to this dimension squared distances are summed directly, which loses no digits; above it they
// come from |x|^2 + |z|^2 - 2 x.z, which costs one instruction per coordinate instead of two.
// Measured (AVX-512, products with 30 right-hand sides): direct costs 4 % more at d = 16 and, in
// both dtypes, 11 % more at 32.
constexpr index_t direct_distance_limit = 32;

// Every panel width divides this, so tiles of a multiple of it fit every instruction set.
constexpr index_t tile_unit = 32;

// Up to this many right-hand sides the padding to whole vectors would cost more than half.
constexpr index_t few_columns_limit = 4;

struct program_view {
  const int32_t* codes;
  const double* params;  // params_per_op per code
  index_t length;
  unsigned statistics;  // bit set of what the leaves need at this dimension
  index_t depth;        // largest height of the stack
  int exponentials;     // number of RBFs if the program is their sum times `factor`, else 0
  double gammas[max_exponentials];
  bool powers;  // whether each of these is four times the one before
  double factor;
};

// Points in panels of `panel_width` rows, k-major ([panel][coordinate][row]), zero padded.
template <class T>
struct points_view {
  const T* panels;
  const T* squared_norms;
  const T* inverse_norms;  // 0 where the norm is 0
  index_t n;
  index_t d;
};

// One tile K(x[row : row + rows], z[col : col + cols]); row and col are multiples of the panel
// width; `out` and `scratch` have space for whole panels, which are filled whole.
template <class T>
struct tile_job {
  points_view<T> x;
  points_view<T> z;
  program_view program;
  index_t row, rows, col, cols;
  T* out;
  index_t ld;
  T* scratch;      // (statistics - 1) tiles, then `depth` blocks of panel_width^2
  bool symmetric;  // x and z are the same points: squared distances of i to i are exactly 0
};

enum class update : int { store, add, subtract };

// Numbers that will be read soon, to be brought into the cache beside other work.
template <class T>
struct soon_read {
  const T* data;
  index_t size;
};

// What one instruction set offers for one scalar type.
template <class T>
struct kernel_table {
  index_t vector_width;
  index_t panel_width;

  void (*gram_tile)(const tile_job<T>& job);
  void (*gram_row)(const tile_job<T>& job);  // a single row, at any place in its panel; null in float

  // c (m x nv vectors) = / += / -= a (m x k, any strides) b (k x nv vectors, rows ldb apart)
  void (*multiply)(index_t m, index_t k, index_t nv, const T* a, index_t a_row, index_t a_col,
                   const T* b, index_t ldb, T* c, index_t ldc, update mode, soon_read<T> next);

  // For at most few_columns_limit right-hand sides, stored as rows: ut[s, i] = sum_j a[i, j] vt[s, j] and,
  // where zt is given, zt[s, j] = sum_i a[i, j] wt[s, i]. Rows and columns in whole panels; the
  // rows of vt and ut, wt and zt lie ld_in and ld_out apart.
  void (*multiply_few_columns)(index_t rows, index_t cols, index_t k, const T* a, index_t lda, const T* vt,
                        const T* wt, index_t ld_in, T* ut, T* zt, index_t ld_out);

  void (*add_to_double)(index_t rows, index_t cols, const T* u, index_t ldu, double* out,
                        index_t ldo);

  // out[j] += sum_i tile[i, j]^2
  void (*add_squares)(index_t rows, index_t cols, const T* tile, index_t ld, double* out);

  // out[j] = sum_i weights[i] tile[i, j]; null in float
  void (*sum_rows)(index_t rows, index_t cols, const T* tile, index_t ld, const T* weights, T* out);

  void (*exp)(index_t n, const T* x, T* out);

  // Between a row-major tile and the panels of its rows ([panel][column][row]).
  void (*tile_to_panels)(index_t tile, const T* rows, T* panels);
  void (*panels_to_tile)(index_t tile, const T* panels, T* rows);

  // c -= a b' for three tiles; c and a in panels of the rows of c, b in panels of its own rows.
  void (*update_panels)(index_t tile, index_t rows, index_t cols, const T* a, const T* b, T* c,
                        bool lower);

  // Factors the leading m rows of a tile in panels; `factor` receives L by rows, zeros above.
  // Returns -1 or the first pivot that is not positive.
  index_t (*factor_tile)(index_t tile, index_t m, T* panels, T* factor);

  // a := a L^-T for `rows` rows of a tile in panels and a row-major triangular tile of order m.
  void (*solve_panels)(index_t tile, index_t rows, index_t m, const T* factor, T* panels);

  // x := L^-1 x and x := L^-T x for a row-major lower triangular tile.
  void (*solve_lower)(index_t m, const T* factor, index_t ldl, T* x, index_t ldx, index_t nv);
  void (*solve_upper)(index_t m, const T* factor, index_t ldl, T* x, index_t ldx, index_t nv);

  // Between rows of a tile and their form in 16 bits: `tile` rows of codes, and for each row its least
  // value and its step. Null in double.
  void (*quantize)(index_t rows, index_t cols, const T* values, index_t ld, index_t tile,
                   uint16_t* codes, T* scales);
  void (*dequantize)(index_t rows, index_t cols, const uint16_t* codes, const T* scales, index_t tile,
                     T* values, index_t ld);
};

struct loop_table;  // see loops/table.h

struct isa_tables {
  const char* name;
  const kernel_table<float>* f32;
  const kernel_table<double>* f64;
  const loop_table* loops;
};

}  // namespace fastmcmd
