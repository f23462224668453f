// Scores of ensembles, row by row.
#pragma once

#include "exponentials.h"
#include "lanes.h"
#include "row_values.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// A weighted sum of the distances 1 - exp(x), whose exponents x come in pieces of any length.
class kernel_distances {
 public:
  kernel_distances() { lanes_ = {}; }

  // The number of those of n exponents and their weights that fit in.
  index_t capacity_for(index_t n) {
    if (count_ == capacity) flush();
    return least(n, capacity - count_);
  }
  double* exponents() { return exponents_ + count_; }
  double* weights() { return weights_ + count_; }
  void add(index_t n) { count_ += n; }

  double total() {
    flush();
    double sum = 0.0;
    for (const double one : lanes_.at) sum += one;
    return sum;
  }

 private:
  static constexpr index_t capacity = 8 * block_rows;

  void flush() {
    for (; count_ % block_rows; ++count_) exponents_[count_] = weights_[count_] = 0.0;
    for (index_t start = 0; start < count_; start += block_rows) {
      row_values powers;
      for (index_t k = 0; k < block_rows; ++k) powers.at[k] = exponents_[start + k];
      exponentials(powers.at);
      for (index_t k = 0; k < block_rows; ++k) lanes_.at[k] += weights_[start + k] * (1.0 - powers.at[k]);
    }
    count_ = 0;
  }

  double exponents_[capacity], weights_[capacity];
  row_values lanes_;
  index_t count_ = 0;
};

// Adds share_j (1 - exp(-|x_j - at|^2 / (2 bandwidth^2))), times a weight, for the draws j from `first` on.
inline void add_distances(kernel_distances& sum, mat<const double> draws, const double* shares, index_t first,
                          const double* at, index_t stride, double bandwidth, double weight) {
  for (index_t j = first; j < draws.m;) {
    const index_t n = sum.capacity_for(draws.m - j);
    double *exponents = sum.exponents(), *weights = sum.weights();
    for (index_t l = 0; l < n; ++l) {
      exponents[l] = 0.0;
      weights[l] = weight * shares[j + l];
    }
    for (index_t c = 0; c < draws.n; ++c) {
      const double* column = draws[c] + j;
      const double place = at[c * stride];
      for (index_t l = 0; l < n; ++l) {
        const double gap = (column[l] - place) / bandwidth;
        exponents[l] += gap * gap;
      }
    }
    for (index_t l = 0; l < n; ++l) exponents[l] *= -0.5;
    sum.add(n);
    j += n;
  }
}

// Writes, for rows of draws (n, k, m) with shares (n, m) and outcomes (n, k), the sums (n, 2) of the distances of the
// Gaussian kernel, 1 - exp(-|x - z|^2 / (2 bandwidth^2)): over all pairs of draws, each twice, and over the draws and
// the outcome.
inline void gaussian_rows(cube<const double> draws, ins shares, ins y, double bandwidth, outs sums) {
  const index_t m = draws.k;
  for (index_t row = 0; row < draws.n; ++row) {
    const double* share = shares[row];
    kernel_distances pairs, near;
    for (index_t i = 0; i < m; ++i) {
      if (share[i] == 0.0) continue;
      add_distances(pairs, draws[row], share, i + 1, draws[row].data + i, m, bandwidth, share[i]);
    }
    add_distances(near, draws[row], share, 0, y[row], 1, bandwidth, 1.0);
    sums[row][0] = 2.0 * pairs.total();
    sums[row][1] = near.total();
  }
}

// A unit of numbers up to this size: 1 where cubes of their differences are normal, else a power of two next to it.
inline double unit_for(double size) {
  if ((size > 1e-60 && size < 1e60) || size == 0.0) return 1.0;
  int exponent = 0;
  frexp(size, &exponent);
  constexpr int most_exponent = 1021;  // of powers whose inverses are normal
  return ldexp(1.0, least(greatest(exponent - 1, -most_exponent), most_exponent));
}

// Writes of rows of draws (n, m) a unit, and in units the mean and the sums of squares and cubes of the differences from
// it (n, 4). Both sums are 0 where all draws are equal.
inline void central_sums(ins draws, outs sums) {
  for (index_t row = 0; row < draws.n; ++row) {
    const double* x = draws[row];
    double low[loop_lanes], high[loop_lanes], total[loop_lanes] = {};
    for (index_t k = 0; k < loop_lanes; ++k) low[k] = high[k] = x[0];
    in_lanes(x, draws.m, [&](index_t k, double value) {
      low[k] = least(low[k], value);
      high[k] = greatest(high[k], value);
      total[k] += value;
    });
    for (index_t k = 1; k < loop_lanes; ++k) {
      low[0] = least(low[0], low[k]);
      high[0] = greatest(high[0], high[k]);
    }
    const double unit = unit_for(greatest(fabs(low[0]), fabs(high[0]))), inverse = 1.0 / unit;
    if (unit != 1.0) {  // the sum may have overflowed
      for (double& lane : total) lane = 0.0;
      in_lanes(x, draws.m, [&](index_t k, double value) { total[k] += value * inverse; });
    }
    const double mean = sum_of(total) / static_cast<double>(draws.m);
    double square[loop_lanes] = {}, cube[loop_lanes] = {};
    in_lanes(x, draws.m, [&](index_t k, double value) {
      const double gap = value * inverse - mean, its_square = gap * gap;
      square[k] += its_square;
      cube[k] += its_square * gap;
    });
    const bool is_spread = low[0] < high[0];
    sums[row][0] = unit;
    sums[row][1] = mean;
    sums[row][2] = is_spread ? sum_of(square) : 0.0;
    sums[row][3] = is_spread ? sum_of(cube) : 0.0;
  }
}

// Writes of rows of sorted draws (n, m), for those between low and high, the share of the draws, their score at y (the
// integral of the squared difference of cdfs), the integral of F (1 - F), and the mean size (n, 4).
inline void interval_rows(ins draws, in y, in low, in high, outs parts) {
  for (index_t row = 0; row < draws.n; ++row) {
    const double* x = draws[row];
    index_t first = 0, end = draws.m;
    while (first < end && !(x[first] > low[row])) ++first;
    while (end > first && !(x[end - 1] < high[row])) --end;
    const index_t n = end - first;
    double *to = parts[row], score = 0.0, spread = 0.0, size = 0.0;
    to[0] = static_cast<double>(n) / static_cast<double>(draws.m);
    to[1] = to[2] = to[3] = 0.0;
    if (!n) continue;
    const double count = static_cast<double>(n), at = y[row];
    for (index_t l = 0; l < n; ++l) size += fabs(x[first + l]);
    score = greatest(x[first] - at, 0.0) + greatest(at - x[end - 1], 0.0);
    for (index_t l = 1; l < n; ++l) {
      const double below = static_cast<double>(l) / count, above = static_cast<double>(n - l) / count;
      const double a = x[first + l - 1], b = x[first + l], place = least(greatest(at, a), b);
      score += below * below * (place - a) + above * above * (b - place);
      spread += below * above * (b - a);
    }
    to[1] = score;
    to[2] = spread;
    to[3] = size / count;
  }
}

// Writes of rows of draws (n, k, m), m > k, with outcomes (n, k) the logarithm of the determinant of S, the sum of the
// outer products of what the draws differ from their mean by, and g' S^-1 g with the outcome's difference g (n, 2).
// By Householder's QR decomposition of these differences; NaN where the draws hardly span the components. `scratch`
// holds k (m + 2) numbers.
inline void dispersion_rows(cube<const double> draws, ins y, out scratch, outs values) {
  constexpr double least_share = 1e-7;  // of a column's size that is independent of those before
  const index_t k = draws.m, m = draws.k;
  double *gap = scratch.data + k * m, *root = gap + k;
  for (index_t row = 0; row < draws.n; ++row) {
    double log_det = 0.0, square = 0.0;
    bool is_usual = true;
    for (index_t c = 0; c < k && is_usual; ++c) {
      const double* x = draws[row][c];
      double* column = scratch.data + c * m;
      double total = 0.0;
      for (index_t l = 0; l < m; ++l) total += x[l];
      const double mean = total / static_cast<double>(m);
      for (index_t l = 0; l < m; ++l) column[l] = x[l] - mean;
      const double size = inner_product(column, column, m);
      gap[c] = y[row][c] - mean;
      // The reflections of the columns before; their vectors lie below the diagonal, with squares of 2.
      for (index_t b = 0; b < c; ++b) {
        const double* axis = scratch.data + b * m;
        const double along = inner_product(axis + b, column + b, m - b);
        // column[b] becomes R_bc; the diagonal of R is in `root`.
        for (index_t l = b; l < m; ++l) column[l] -= along * axis[l];
      }
      const double rest = inner_product(column + c, column + c, m - c);
      const double length = sqrt(rest);
      is_usual = rest > least_share * least_share * size && is_finite(size) && size > 1e-280;
      root[c] = column[c] > 0.0 ? -length : length;
      // Solves R' z = g, from the first component on.
      double left = gap[c];
      for (index_t b = 0; b < c; ++b) left -= column[b] * gap[b];
      gap[c] = left / root[c];
      square += gap[c] * gap[c];
      log_det += 2.0 * log(length);
      column[c] -= root[c];
      const double scale = sqrt(2.0 / inner_product(column + c, column + c, m - c));
      for (index_t l = c; l < m; ++l) column[l] *= scale;
    }
    values[row][0] = is_usual ? log_det : not_a_number();
    values[row][1] = is_usual ? square : not_a_number();
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
