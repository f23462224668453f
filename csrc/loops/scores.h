// Scores of draws of vectors, and counts of random groups of rows.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Adds the weight of rows to the counts of their places; empty weights mean weights of 1.
template <class P>
void count_rows(vec<const int64_t> rows, vec<const P> place, in weights, out counts) {
  for (index_t i = 0; i < rows.n; ++i) {
    counts[place[rows[i]]] += weights.n ? weights[rows[i]] : 1.0;
  }
}

// Draws rows with replacement, one per uniform number, and counts them by place.
template <class P>
void count_drawn(in uniform, vec<const P> place, in weights, out counts) {
  for (index_t i = 0; i < uniform.n; ++i) {
    const index_t row = static_cast<index_t>(uniform[i] * static_cast<double>(place.n));
    counts[place[row]] += weights.n ? weights[row] : 1.0;
  }
}

// Draws rows without replacement. These are the first steps of a Fisher-Yates shuffle. It may start from any
// order, such as that left by the previous group.
template <class P>
void count_undrawn(in uniform, vec<int32_t> order, vec<const P> place, in weights, out counts) {
  for (index_t i = 0; i < uniform.n; ++i) {
    const index_t j = i + static_cast<index_t>(uniform[i] * static_cast<double>(order.n - i));
    const int32_t row = order[j];
    order[j] = order[i];
    order[i] = row;
    counts[place[row]] += weights.n ? weights[row] : 1.0;
  }
}

// The sum of squares^(beta / 2), from eight independent partial sums.
inline double sum_of_powers(double* squares, index_t n, double beta) {
  constexpr index_t lanes = 8;
  if (beta == 1.0) {
    for (index_t j = 0; j < n; ++j) squares[j] = sqrt(squares[j]);
  } else {
    for (index_t j = 0; j < n; ++j) squares[j] = pow(squares[j], 0.5 * beta);
  }
  double sum[lanes] = {};
  const index_t even = n - n % lanes;
  for (index_t j = 0; j < even; j += lanes) {
    for (index_t l = 0; l < lanes; ++l) sum[l] += squares[j + l];
  }
  for (index_t j = even; j < n; ++j) sum[j - even] += squares[j];
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

struct energy {
  double score, largest;  // and the largest squared distance from y

  // Of one row of draws (k, m), over `unit`.
  energy(mat<const double> draws, const double* y, double unit, double beta, double pairs, out scratch)
      : score(0.0), largest(0.0) {
    const index_t m = draws.m;
    double* squares = scratch.data;
    for (index_t j = 0; j < m; ++j) squares[j] = 0.0;
    for (index_t c = 0; c < draws.n; ++c) {
      for (index_t j = 0; j < m; ++j) {
        const double gap = (draws[c][j] - y[c]) / unit;
        squares[j] += gap * gap;
      }
    }
    for (index_t j = 0; j < m; ++j) {
      if (squares[j] > largest || is_nan(squares[j])) largest = squares[j];
    }
    const double near = sum_of_powers(squares, m, beta);
    double far = 0.0;
    for (index_t i = 0; i + 1 < m; ++i) {
      const index_t others = m - i - 1;
      for (index_t j = 0; j < others; ++j) squares[j] = 0.0;
      for (index_t c = 0; c < draws.n; ++c) {
        const double at = draws[c][i];
        const double* row = draws[c] + i + 1;
        if (unit == 1.0) {
          for (index_t j = 0; j < others; ++j) {
            const double gap = row[j] - at;
            squares[j] += gap * gap;
          }
        } else {
          for (index_t j = 0; j < others; ++j) {
            const double gap = (row[j] - y[c]) / unit - (at - y[c]) / unit;
            squares[j] += gap * gap;
          }
        }
      }
      far += sum_of_powers(squares, others, beta);
    }
    score = near / static_cast<double>(m) - far / pairs;
  }
};

// mean_i |x_i - y|^beta - sum_{i<j} |x_i - x_j|^beta / pairs of rows of draws; `scratch` holds m numbers.
inline void energy_rows(cube<const double> draws, ins y, double beta, double pairs, out scratch,
                        out scores) {
  for (index_t row = 0; row < draws.n; ++row) {
    const mat<const double> own = draws[row];
    const energy plain(own, y[row], 1.0, beta, pairs, scratch);
    scores[row] = plain.score;
    if (plain.largest > 1e-280 && plain.largest < 1e290) continue;
    double unit = 0.0;  // scaled by it, squares keep all their digits
    for (index_t c = 0; c < own.n; ++c) {
      for (index_t j = 0; j < own.m; ++j) unit = greatest(unit, fabs(own[c][j] - y[row][c]));
    }
    if (unit > 0.0 && unit < infinity) {
      scores[row] = energy(own, y[row], unit, beta, pairs, scratch).score * pow(unit, beta);
    }
  }
}

// |gap|^p, by a square root if p = 1/2.
inline double power_of(double gap, double p) {
  return p == 0.5 ? sqrt(fabs(gap)) : p == 1.0 ? fabs(gap) : pow(fabs(gap), p);
}

// sum_ij w_ij (|y_i - y_j|^p - mean |x_i - x_j|^p)^2 of rows of draws. If unbiased, the variance of each mean (with
// m - 1 degrees of freedom) is subtracted from its square. `scratch` holds m numbers.
inline void variogram_rows(cube<const double> draws, ins y, double p, ins weights, bool unbiased,
                           out scratch, out scores) {
  const index_t m = draws.k;
  const double count = static_cast<double>(m);
  for (index_t row = 0; row < draws.n; ++row) {
    const mat<const double> own = draws[row];
    double total = 0.0;
    for (index_t i = 0; i < own.n; ++i) {
      for (index_t j = 0; j < i; ++j) {
        const double weight = weights[i][j] + weights[j][i];
        if (weight == 0.0) continue;
        const double *one = own[i], *other = own[j];
        if (p == 0.5) {  // apart, because roots are vectorised
          for (index_t l = 0; l < m; ++l) scratch[l] = sqrt(fabs(one[l] - other[l]));
        } else {
          for (index_t l = 0; l < m; ++l) scratch[l] = power_of(one[l] - other[l], p);
        }
        double mean = 0.0;
        for (index_t l = 0; l < m; ++l) mean += scratch[l];
        mean /= count;
        const double gap = power_of(y[row][i] - y[row][j], p) - mean;
        double square = gap * gap;
        if (unbiased) {
          double spread = 0.0;
          for (index_t l = 0; l < m; ++l) spread += (scratch[l] - mean) * (scratch[l] - mean);
          square -= spread / (count - 1) / count;
        }
        total += weight * square;
      }
    }
    scores[row] = total;
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
