// Copies with the bounds of their numbers.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Copies x, and writes its smallest and its largest number to `bounds` (2,): NaN if one is NaN or infinite.
inline void bounded_copy(in x, out copy, out bounds) {
  constexpr index_t lanes = 32;
  double low[lanes], high[lanes], missing[lanes];
  for (index_t k = 0; k < lanes; ++k) {
    low[k] = infinity;
    high[k] = -infinity;
    missing[k] = 0.0;
  }
  const index_t even = x.n - x.n % lanes;
  for (index_t i = 0; i < even; i += lanes) {
    for (index_t k = 0; k < lanes; ++k) {
      const double value = x.data[i + k];
      copy.data[i + k] = value;
      low[k] = least(low[k], value);
      high[k] = greatest(high[k], value);
      missing[k] += value - value;
    }
  }
  for (index_t i = even; i < x.n; ++i) {
    copy[i] = x[i];
    low[0] = least(low[0], x[i]);
    high[0] = greatest(high[0], x[i]);
    missing[0] += x[i] - x[i];
  }
  for (index_t k = 1; k < lanes; ++k) {
    low[0] = least(low[0], low[k]);
    high[0] = greatest(high[0], high[k]);
    missing[0] += missing[k];
  }
  const bool is_finite_all = missing[0] == 0.0;
  bounds[0] = is_finite_all ? low[0] : not_a_number();
  bounds[1] = is_finite_all ? high[0] : not_a_number();
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
