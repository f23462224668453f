// Pivoted Cholesky factorisations: of proposed rows, chosen at random, and of a matrix, for a basis of its columns.
#pragma once

#include "lanes.h"

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

// Writes an orthonormal basis (rows of `basis`, at most `basis.n`) of columns of a positive semidefinite matrix
// (m, m), each in turn the one whose diagonal entry is the least explained. Ends when these omit at most `omissible`
// of the trace, and returns how many there are, or -1 if there would be more. What remains of an entry below
// `rounding` times the entry counts as zero. `residual` (m,) and `columns` (basis.n, m) are scratch.
inline index_t pivoted_basis(ins gram, double omissible, double rounding, out residual, outs columns, outs basis) {
  const index_t m = gram.n;
  for (index_t j = 0; j < m; ++j) residual[j] = gram[j][j];
  for (index_t rank = 0; rank <= basis.n; ++rank) {
    double rest = 0.0;
    index_t pivot = 0;
    for (index_t j = 0; j < m; ++j) {
      if (residual[j] <= rounding * gram[j][j]) residual[j] = 0.0;
      rest += residual[j];
      if (residual[j] > residual[pivot]) pivot = j;
    }
    if (rest <= omissible && rank) return rank;
    if (rank == basis.n) break;
    double *column = columns[rank], *axis = basis[rank];
    if (rest <= omissible) {  // the matrix is zero: any direction serves
      for (index_t j = 0; j < m; ++j) axis[j] = j ? 0.0 : 1.0;
      return 1;
    }
    for (index_t j = 0; j < m; ++j) column[j] = gram[pivot][j];
    for (index_t k = 0; k < rank; ++k) add_scaled(column, -columns[k][pivot], columns[k], m);
    const double root = sqrt(residual[pivot]);
    for (index_t j = 0; j < m; ++j) {
      column[j] /= root;
      residual[j] -= column[j] * column[j];
      axis[j] = column[j];
    }
    residual[pivot] = 0.0;
    for (int time = 0; time < 2; ++time) {  // Gram-Schmidt, twice for what the first loses to rounding
      for (index_t k = 0; k < rank; ++k) add_scaled(axis, -inner_product(basis[k], axis, m), basis[k], m);
    }
    const double norm = sqrt(inner_product(axis, axis, m));
    if (!(norm > 0.0)) return -1;
    for (index_t j = 0; j < m; ++j) axis[j] /= norm;
  }
  return -1;
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
