// Choice of pivots among proposed rows, for randomly pivoted Cholesky factorisations.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Eliminates proposals (c,), indices of rows of `residual` (m, m), one after the other, and returns how many become
// pivots: at most `most`. A proposal does if its remaining residual exceeds `least` (m,) and, with `uniform` (c,),
// the next uniform number times its residual before the call; without (0,) every one that exceeds `least` does.
// Writes the pivots (c,), their Cholesky factor (k, k) into `factor` (c c,), and the number of uniform numbers into
// `draws` (1,). `residual` is overwritten; `columns` (c, m) and `before` (m,) are scratch.
inline index_t accept_pivots(outs residual, vec<const int64_t> proposals, in least, in uniform, int64_t most, out before,
                             outs columns, vec<int64_t> pivots, out factor, vec<int64_t> draws) {
  const index_t m = residual.n;
  index_t k = 0;
  int64_t used = 0;
  for (index_t i = 0; i < m; ++i) before[i] = residual[i][i];
  for (index_t p = 0; p < proposals.n && k < most; ++p) {
    const int64_t at = proposals[p];
    const double rest = residual[at][at];
    if (rest <= least[at]) continue;
    if (uniform.n && uniform[used++] * before[at] > rest) continue;
    double* column = columns[k];
    const double root = sqrt(rest);
    for (index_t i = 0; i < m; ++i) column[i] = residual[i][at] / root;
    for (index_t i = 0; i < m; ++i) {
      double* row = residual[i];
      const double scale = column[i];
      for (index_t j = 0; j < m; ++j) row[j] -= scale * column[j];
    }
    pivots[k++] = at;
  }
  for (index_t i = 0; i < k; ++i) {
    for (index_t j = 0; j < k; ++j) factor[i * k + j] = j <= i ? columns[j][pivots[i]] : 0.0;
  }
  draws[0] = used;
  return k;
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
