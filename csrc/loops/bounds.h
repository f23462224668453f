// Copies with the bounds of their numbers.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// The smallest and the largest of numbers that are taken in, and whether all are finite: in lanes, which become
// vectors.
class running_bounds {
 public:
  static constexpr index_t lanes = 32;

  running_bounds() {
    for (index_t k = 0; k < lanes; ++k) {
      low_[k] = infinity;
      high_[k] = -infinity;
      missing_[k] = 0.0;
    }
  }

  // Takes in a number for each lane. A loop for each bound: the compiler keeps all lanes of one in registers.
  void take(const double (&values)[lanes]) {
    for (index_t k = 0; k < lanes; ++k) low_[k] = least(low_[k], values[k]);
    for (index_t k = 0; k < lanes; ++k) high_[k] = greatest(high_[k], values[k]);
    for (index_t k = 0; k < lanes; ++k) missing_[k] += values[k] - values[k];
  }

  // Writes the smallest and the largest number to `bounds`: NaN if one is NaN or infinite.
  void write(double* bounds) const {
    double low = low_[0], high = high_[0], missing = missing_[0];
    for (index_t k = 1; k < lanes; ++k) {
      low = least(low, low_[k]);
      high = greatest(high, high_[k]);
      missing += missing_[k];
    }
    bounds[0] = missing == 0.0 ? low : not_a_number();
    bounds[1] = missing == 0.0 ? high : not_a_number();
  }

 private:
  double low_[lanes], high_[lanes], missing_[lanes];
};

// Takes in value(i) for the indices i < n; some are asked for again.
template <class Value>
inline void take_all(running_bounds& bounds, index_t n, Value value) {
  constexpr index_t lanes = running_bounds::lanes;
  const index_t even = n - n % lanes;
  double values[lanes];
  for (index_t i = 0; i < even; i += lanes) {
    for (index_t k = 0; k < lanes; ++k) values[k] = value(i + k);
    bounds.take(values);
  }
  if (even == n) return;
  for (index_t k = 0; k < lanes; ++k) values[k] = value(even + k < n ? even + k : even);
  bounds.take(values);
}

// Copies x, and writes the bounds (2,) of its numbers.
inline void bounded_copy(in x, out copy, out bounds) {
  running_bounds seen;
  take_all(seen, x.n, [&](index_t i) { return copy.data[i] = x.data[i]; });
  seen.write(bounds.data);
}

// Writes the bounds (2,) of the differences of b and a.
inline void gap_bounds(in a, in b, out bounds) {
  running_bounds seen;
  take_all(seen, a.n, [&](index_t i) { return b.data[i] - a.data[i]; });
  seen.write(bounds.data);
}

// Divides rows of weights (n, K) by their sums, and writes the bounds of the weights and of the sums (4,).
inline void weight_shares(ins weights, outs shares, out bounds) {
  running_bounds of_weights, of_sums;
  take_all(of_sums, weights.n, [&](index_t i) {
    double sum = 0.0;
    for (index_t j = 0; j < weights.m; ++j) sum += weights[i][j];
    for (index_t j = 0; j < weights.m; ++j) shares[i][j] = weights[i][j] / sum;
    return sum;
  });
  take_all(of_weights, weights.n * weights.m, [&](index_t i) { return weights.data[i]; });
  of_weights.write(bounds.data);
  of_sums.write(bounds.data + 2);
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
