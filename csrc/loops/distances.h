// Distances of rows.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Sets distances[i, j] to the Euclidean distance of rows[i] from row j of the transposed `columns` (d, m). Squares are
// summed in order of the columns, as by SciPy's pdist.
inline void row_distances(ins rows, ins columns, outs distances) {
  for (index_t i = 0; i < rows.n; ++i) {
    double* to = distances[i];
    for (index_t j = 0; j < columns.m; ++j) to[j] = 0.0;
    for (index_t c = 0; c < columns.n; ++c) {
      const double at = rows[i][c];
      const double* column = columns[c];
      for (index_t j = 0; j < columns.m; ++j) {
        const double gap = at - column[j];
        to[j] += gap * gap;
      }
    }
    for (index_t j = 0; j < columns.m; ++j) to[j] = sqrt(to[j]);
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
