// Isotonic regression.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Replaces each row by its non-decreasing least-squares fit with positive weights, by pooling adjacent
// violators: blocks of equal fit form a stack, whose means lie at the front of the row.
inline void isotonic_rows(outs values, in weights, vec<int64_t> ends, out masses) {
  for (index_t i = 0; i < values.n; ++i) {
    double* row = values[i];
    index_t count = 0;
    for (index_t j = 0; j < values.m; ++j) {
      double mean = row[j], mass = weights[j];
      for (; count > 0 && row[count - 1] >= mean; --count) {
        const double both = masses[count - 1] + mass;
        mean = (masses[count - 1] * row[count - 1] + mass * mean) / both;
        mass = both;
      }
      row[count] = mean;
      masses[count] = mass;
      ends[count++] = j + 1;
    }
    // From the last block: block b begins at place b or later, so that no mean is overwritten before its use.
    index_t place = values.m;
    while (count-- > 0) {
      const double mean = row[count];
      const index_t start = count > 0 ? ends[count - 1] : 0;
      while (place > start) row[--place] = mean;
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
