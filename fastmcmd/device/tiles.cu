// Values of one kernel for all pairs of two blocks of rows. What the kernel is made of stands before this
// text (source.py writes it): FASTMCMD_DOT, _EXPANDED, _SQUARED, _L1, _UNEQUAL say which statistics it needs,
// and kernel_value() is its program.
//
// Rows lie by columns: coordinate k of row i at x[k * ldx + i], so that neighbouring threads read
// neighbouring numbers.

using namespace fastmcmd::device;

// Each thread makes 4 x 4 pairs: 8 loads a coordinate for 16 of them.
#define FASTMCMD_EACH 4

// `tile` (rows x cols, ld apart) holds the inner products where the kernel needs them, and receives the
// values. Those of split rows are still to be multiplied by 2^(x_exponents[r] + z_exponents[c]): one power of
// two, because either of the two may take a product out of range. Row r and column c are the same point where
// r + shift == c.
extern "C" __global__ void pairs(real* tile, index_t ld, index_t rows, index_t cols, const real* x,
                                 index_t ldx, const real* z, index_t ldz, index_t d,
                                 const real* x_norms, const real* z_norms, const real* x_inverse,
                                 const real* z_inverse, const int* x_exponents, const int* z_exponents,
                                 index_t shift, const double* parameters) {
  const index_t r0 = static_cast<index_t>(blockIdx.y) * blockDim.y * FASTMCMD_EACH + threadIdx.y;
  const index_t c0 = static_cast<index_t>(blockIdx.x) * blockDim.x * FASTMCMD_EACH + threadIdx.x;
  if (r0 >= rows || c0 >= cols) return;
#if FASTMCMD_SQUARED || FASTMCMD_L1 || FASTMCMD_UNEQUAL
  real squared[FASTMCMD_EACH][FASTMCMD_EACH] = {};
  real l1[FASTMCMD_EACH][FASTMCMD_EACH] = {};
  real unequal[FASTMCMD_EACH][FASTMCMD_EACH] = {};
  index_t row[FASTMCMD_EACH], col[FASTMCMD_EACH];  // those beyond the edge repeat the last
  for (int q = 0; q < FASTMCMD_EACH; ++q) {
    row[q] = r0 + q * blockDim.y < rows ? r0 + q * blockDim.y : rows - 1;
    col[q] = c0 + q * blockDim.x < cols ? c0 + q * blockDim.x : cols - 1;
  }
  for (index_t k = 0; k < d; ++k) {
    real left[FASTMCMD_EACH], right[FASTMCMD_EACH];
    for (int q = 0; q < FASTMCMD_EACH; ++q) {
      left[q] = x[k * ldx + row[q]];
      right[q] = z[k * ldz + col[q]];
    }
    for (int i = 0; i < FASTMCMD_EACH; ++i) {
      for (int j = 0; j < FASTMCMD_EACH; ++j) {
        if (FASTMCMD_SQUARED) squared[i][j] = add_squared<number_math>(squared[i][j], left[i], right[j]);
        if (FASTMCMD_L1) l1[i][j] = add_l1<number_math>(l1[i][j], left[i], right[j]);
        if (FASTMCMD_UNEQUAL) unequal[i][j] = add_unequal<number_math>(unequal[i][j], left[i], right[j]);
      }
    }
  }
#else
  (void)x, (void)ldx, (void)z, (void)ldz, (void)d;
#endif
  for (int i = 0; i < FASTMCMD_EACH; ++i) {
    const index_t r = r0 + i * blockDim.y;
    if (r >= rows) break;
    for (int j = 0; j < FASTMCMD_EACH; ++j) {
      const index_t c = c0 + j * blockDim.x;
      if (c >= cols) break;
      statistics s = {};
#if FASTMCMD_DOT
      s.dot = tile[r * ld + c];
      if (x_exponents) s.dot = number_math::scaled(s.dot, x_exponents[r] + z_exponents[c]);
#endif
#if FASTMCMD_EXPANDED
      s.expanded = r + shift == c ? 0 : squared_of_dot<number_math>(s.dot, x_norms[r], z_norms[c]);
#endif
#if FASTMCMD_SQUARED
      s.squared = squared[i][j];
#endif
#if FASTMCMD_L1
      s.l1 = l1[i][j];
#endif
#if FASTMCMD_UNEQUAL
      s.unequal = unequal[i][j];
#endif
      s.x_inverse = x_inverse[r];
      s.z_inverse = z_inverse[c];
      tile[r * ld + c] = kernel_value(s, parameters);
    }
  }
}
