// Sums in lanes, which compilers make vectors of. Their order depends on the number of terms alone.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr index_t loop_lanes = 8;

// Calls work(k, x) for the numbers x of a row, each with a lane k.
template <class Work>
inline void in_lanes(const double* x, index_t m, Work work) {
  const index_t even = m - m % loop_lanes;
  for (index_t start = 0; start < even; start += loop_lanes) {
    for (index_t k = 0; k < loop_lanes; ++k) work(k, x[start + k]);
  }
  for (index_t k = 0; k < m - even; ++k) work(k, x[even + k]);
}

inline double sum_of(const double (&lanes)[loop_lanes]) {
  double sum = 0.0;
  for (const double one : lanes) sum += one;
  return sum;
}

// The inner product of columns of n numbers.
inline double inner_product(const double* a, const double* b, index_t n) {
  double sums[loop_lanes] = {};
  const index_t even = n - n % loop_lanes;
  for (index_t l = 0; l < even; l += loop_lanes) {
    for (index_t k = 0; k < loop_lanes; ++k) sums[k] += a[l + k] * b[l + k];
  }
  for (index_t l = even; l < n; ++l) sums[l - even] += a[l] * b[l];
  return sum_of(sums);
}

// Adds scale times a row to another, both of n numbers.
inline void add_scaled(double* to, double scale, const double* from, index_t n) {
  for (index_t l = 0; l < n; ++l) to[l] += scale * from[l];
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
