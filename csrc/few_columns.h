// Products of a tile with one to four right-hand sides, both ways in one pass over the tile. The
// micro-kernel would fill its vectors with padding here; this runs at the rate of the cache.
#pragma once

#include "micro.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T>
inline T sum_of_lanes(vec<T> a) {
  T sum = 0;
  for (int i = 0; i < lanes<T>; ++i) sum += lane<T>(a, i);
  return sum;
}

// Rows come in whole panels, so in groups of four.
template <class T, int K, bool Both>
inline void few_columns_rows(index_t rows, index_t cols, const T* a, index_t lda, const T* vt,
                        const T* wt, index_t ld_in, T* ut, T* zt, index_t ld_out) {
  constexpr int row_group = 4;
  static_assert(panel_width<T> % row_group == 0);
  for (index_t i = 0; i < rows; i += row_group) {
    vec<T> acc[row_group][K];
    vec<T> left[row_group][K];
#pragma GCC unroll 16
    for (int r = 0; r < row_group; ++r) {
#pragma GCC unroll 16
      for (int s = 0; s < K; ++s) {
        acc[r][s] = broadcast<T>(0);
        left[r][s] = broadcast<T>(Both ? wt[s * ld_in + i + r] : 0);
      }
    }
    for (index_t j = 0; j < cols; j += lanes<T>) {
      vec<T> row[row_group];
#pragma GCC unroll 16
      for (int r = 0; r < row_group; ++r) row[r] = load(a + (i + r) * lda + j);
#pragma GCC unroll 16
      for (int s = 0; s < K; ++s) {
        const vec<T> right = load(vt + s * ld_in + j);
#pragma GCC unroll 16
        for (int r = 0; r < row_group; ++r) acc[r][s] = acc[r][s] + row[r] * right;
        if constexpr (Both) {
          vec<T> sum = load(zt + s * ld_out + j);
#pragma GCC unroll 16
          for (int r = 0; r < row_group; ++r) sum = sum + row[r] * left[r][s];
          store(zt + s * ld_out + j, sum);
        }
      }
    }
    for (int r = 0; r < row_group; ++r) {
      for (int s = 0; s < K; ++s) ut[s * ld_out + i + r] = sum_of_lanes<T>(acc[r][s]);
    }
  }
}

template <class T, int K>
inline void few_columns_product(index_t rows, index_t cols, const T* a, index_t lda, const T* vt,
                         const T* wt, index_t ld_in, T* ut, T* zt, index_t ld_out) {
  if (!zt) return few_columns_rows<T, K, false>(rows, cols, a, lda, vt, wt, ld_in, ut, zt, ld_out);
  for (int s = 0; s < K; ++s) {
    for (index_t j = 0; j < cols; ++j) zt[s * ld_out + j] = 0;
  }
  few_columns_rows<T, K, true>(rows, cols, a, lda, vt, wt, ld_in, ut, zt, ld_out);
}

template <class T>
void multiply_few_columns(index_t rows, index_t cols, index_t k, const T* a, index_t lda, const T* vt,
                   const T* wt, index_t ld_in, T* ut, T* zt, index_t ld_out) {
  switch (k) {
    case 1: return few_columns_product<T, 1>(rows, cols, a, lda, vt, wt, ld_in, ut, zt, ld_out);
    case 2: return few_columns_product<T, 2>(rows, cols, a, lda, vt, wt, ld_in, ut, zt, ld_out);
    case 3: return few_columns_product<T, 3>(rows, cols, a, lda, vt, wt, ld_in, ut, zt, ld_out);
    default: return few_columns_product<T, 4>(rows, cols, a, lda, vt, wt, ld_in, ut, zt, ld_out);
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
