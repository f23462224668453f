// Sums over rows with the weights of bootstrap samples. Values are not checked.
#pragma once

#include "metrics.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Weights w = count factor and w factor of rows of one block; no factors: both are the counts.
struct block_weights {
  double once[sum_rows], twice[sum_rows];

  block_weights(const double* counts, const double* factors, index_t n) {
    for (index_t j = 0; j < n; ++j) once[j] = factors ? counts[j] * factors[j] : counts[j];
    for (index_t j = 0; j < n; ++j) twice[j] = factors ? once[j] * factors[j] : counts[j];
  }
};

inline const double* from_row(in factors, index_t start) { return factors.n > 0 ? factors.data + start : nullptr; }

// Writes sums of samples (s, 3, k + 1) over rows (k, n) r: of w r, of v r and of v r^2, where w = count factor and
// v = w factor. The last of k + 1 are those of r = 1. Without factors (0,) they are 1. A block of rows serves all samples.
inline void resampled_sums(ins rows, ins counts, in factors, cube<double> sums) {
  const index_t columns = rows.n;
  for (index_t s = 0; s < counts.n; ++s) {
    for (index_t i = 0; i < 3 * (columns + 1); ++i) sums[s][0][i] = 0.0;
  }
  for (index_t start = 0; start < counts.m; start += sum_rows) {
    const index_t n = least(sum_rows, counts.m - start);
    const double* of_rows = from_row(factors, start);
    for (index_t s = 0; s < counts.n; ++s) {
      const block_weights weights(counts[s] + start, of_rows, n);
      const double *w = weights.once, *v = weights.twice;
      double *first = sums[s][0], *second = sums[s][1], *square = sums[s][2];
      for (index_t k = 0; k < columns; ++k) {
        const double* r = rows[k] + start;
        const double sum = sum_of_products(w, r, n);
        first[k] += sum;
        second[k] += of_rows ? sum_of_products(v, r, n) : sum;
        square[k] += lane_sum(n, [=](index_t j) { return v[j] * (r[j] * r[j]); });
      }
      first[columns] += lane_sum(n, [=](index_t j) { return w[j]; });
      const double total = lane_sum(n, [=](index_t j) { return v[j]; });
      second[columns] += total;
      square[columns] += total;
    }
  }
}

// Writes sum_i v_i (sum_k slope_k rows_ki - away)^2 of samples, each with its v = count factor^2, slopes and away.
inline void linear_squares(ins rows, ins slopes, in away, ins counts, in factors, out squares) {
  for (index_t s = 0; s < counts.n; ++s) squares[s] = 0.0;
  for (index_t start = 0; start < counts.m; start += sum_rows) {
    const index_t n = least(sum_rows, counts.m - start);
    for (index_t s = 0; s < counts.n; ++s) {
      const block_weights weights(counts[s] + start, from_row(factors, start), n);
      const double* v = weights.twice;
      double values[sum_rows];
      for (index_t j = 0; j < n; ++j) values[j] = -away[s];
      for (index_t k = 0; k < rows.n; ++k) {
        const double *row = rows[k] + start, factor = slopes[s][k];
        for (index_t j = 0; j < n; ++j) values[j] += factor * row[j];
      }
      squares[s] += lane_sum(n, [&](index_t j) { return v[j] * (values[j] * values[j]); });
    }
  }
}

// Writes cumulative weights (n + 1,), beginning with 0, of rows in an order; returns the sum of squared weights.
inline double running_weights(in weights, vec<const int64_t> order, out cumulative) {
  double sum = 0.0;
  pairwise_sum squares;
  cumulative[0] = 0.0;
  for (index_t start = 0; start < order.n; start += sum_rows) {
    const index_t n = least(sum_rows, order.n - start);
    const int64_t* place = order.data + start;
    double* to = cumulative.data + start + 1;
    double w[sum_rows];
    for (index_t j = 0; j < n; ++j) w[j] = weights[place[j]];
    for (index_t j = 0; j < n; ++j) to[j] = sum += w[j];
    squares.add(sum_of_products(w, w, n));
  }
  return squares.total();
}

// Writes sums (p, 4) over pieces of rows in an order: of weights w, w variance, w square and (w variance)^2. Piece b
// has places ends[b] to ends[b + 1]; variances and squares are in that order already.
inline void spread_pieces(in weights, vec<const int64_t> order, in variance, in squares, vec<const int64_t> ends,
                          outs sums) {
  for (index_t b = 0; b + 1 < ends.n; ++b) {
    pairwise_sum totals[4];
    for (index_t start = ends[b]; start < ends[b + 1]; start += sum_rows) {
      const index_t n = least(sum_rows, static_cast<index_t>(ends[b + 1]) - start);
      const int64_t* place = order.data + start;
      const double *v = variance.data + start, *e = squares.data + start;
      double w[sum_rows], u[sum_rows];
      for (index_t j = 0; j < n; ++j) w[j] = weights[place[j]];
      for (index_t j = 0; j < n; ++j) u[j] = w[j] * v[j];
      totals[0].add(lane_sum(n, [&](index_t j) { return w[j]; }));
      totals[1].add(lane_sum(n, [&](index_t j) { return u[j]; }));
      totals[2].add(sum_of_products(w, e, n));
      totals[3].add(sum_of_products(u, u, n));
    }
    for (int k = 0; k < 4; ++k) sums[b][k] = totals[k].total();
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
