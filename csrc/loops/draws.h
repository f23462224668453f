// Loops over rows of draws and of quantiles.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Draws enter as distances to y, so that a common offset costs no accuracy.
template <class T>
void crps_of_sorted(mat<const T> draws, in y, in factor, out scores) {
  constexpr index_t lanes = 8;  // partial sums, so that additions do not wait for each other
  const index_t m = draws.m, body = m - m % lanes;
  for (index_t i = 0; i < draws.n; ++i) {
    const double at = y[i];
    if (!is_finite(at)) {  // NaN stays NaN; infinity is infinitely far from any draw
      scores[i] = fabs(at);
      continue;
    }
    const T* row = draws[i];
    double sum[lanes] = {};
    for (index_t j = 0; j < body; j += lanes) {
      for (index_t l = 0; l < lanes; ++l) {
        const double gap = static_cast<double>(row[j + l]) - at;
        sum[l] += fabs(gap) - factor[j + l] * gap;
      }
    }
    double total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    for (index_t j = body; j < m; ++j) {
      const double gap = static_cast<double>(row[j]) - at;
      total += fabs(gap) - factor[j] * gap;
    }
    scores[i] = total / static_cast<double>(m);
  }
}

template <class T>
void count_draws(mat<const T> draws, in y, bool below, vec<int64_t> counts) {
  for (index_t i = 0; i < draws.n; ++i) {
    const T* row = draws[i];
    const double at = y[i];
    int32_t count = 0;
    if (below) {
      for (index_t j = 0; j < draws.m; ++j) count += row[j] < at;
    } else {
      for (index_t j = 0; j < draws.m; ++j) count += row[j] <= at;
    }
    counts[i] = count;
  }
}

// Both counts in one pass over the draws, whose reading takes longer than the comparisons.
template <class T>
void count_draws_both(mat<const T> draws, in y, vec<int64_t> below, vec<int64_t> up_to) {
  for (index_t i = 0; i < draws.n; ++i) {
    const T* row = draws[i];
    const double at = y[i];
    int32_t less = 0, equal = 0;
    for (index_t j = 0; j < draws.m; ++j) {
      less += row[j] < at;
      equal += row[j] == at;
    }
    below[i] = less;
    up_to[i] = less + equal;
  }
}

// The number of values that are <= at, or with `below` < at, of an ascending row.
template <class T>
inline index_t rank_of(const T* row, index_t m, double at, bool below) {
  index_t low = 0, high = m;
  while (low < high) {
    const index_t middle = (low + high) / 2;
    if (row[middle] < at || (!below && row[middle] == at)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class T>
void count_sorted_draws(mat<const T> draws, in y, bool below, vec<int64_t> counts) {
  for (index_t i = 0; i < draws.n; ++i) counts[i] = rank_of(draws[i], draws.m, y[i], below);
}

inline void cdf_of_quantiles(in levels, ins values, in left, in right, in y, bool below, bool above,
                             out shares) {
  const index_t count = values.m;
  for (index_t i = 0; i < values.n; ++i) {
    const double at = y[i];
    if (is_nan(at)) {
      shares[i] = at;
      continue;
    }
    const double* row = values[i];
    const index_t low = rank_of(row, count, at, below);
    double share = 0.0;
    if (low == 0) {
      if (left[i] > 0) share = levels[0] * exp((at - row[0]) / left[i]);
    } else if (low == count) {
      double rest = 0.0;
      if (right[i] > 0) rest = (1 - levels[count - 1]) * exp((row[count - 1] - at) / right[i]);
      shares[i] = above ? rest : 1 - rest;
      continue;
    } else {
      const double start = row[low - 1], end = row[low];
      share = levels[low - 1] + (levels[low] - levels[low - 1]) * ((at - start) / (end - start));
    }
    shares[i] = above ? 1 - share : share;
  }
}

// The integral of the square of a linear function from a to b over a width.
inline double squares(double a, double b, double width) {
  return width * (a * a + a * b + b * b) / 3;
}

// The integral over a tail, where y lies `beyond` its start (outside the tail if negative). From y
// outwards the integrand is the square of the remaining mass, mass exp(-t / scale); from the start to y
// it is the square of 1 minus that.
inline double tail_squares(double mass, double scale, double beyond) {
  if (beyond <= 0) return mass * mass * scale / 2;
  const double rest = scale > 0 ? mass * exp(-beyond / scale) : 0.0;
  const double inside =
      beyond - 2 * scale * (mass - rest) + scale * (mass * mass - rest * rest) / 2;
  return inside + rest * rest * scale / 2;
}

// `scratch` (66, j) receives the factors of pieces on either side of y, and the values of 64 rows by level. Loops over
// so many rows become vector instructions, and have no branches whose outcomes a processor could not foresee.
inline void crps_of_quantiles(in levels, ins values, in left, in right, in y, outs scratch, out scores) {
  constexpr index_t lanes = 64;
  const index_t count = values.m, last = count - 1;
  double *below = scratch[0], *above = scratch[1], *block = scratch[2];
  for (index_t k = 0; k < last; ++k) {
    below[k] = squares(levels[k], levels[k + 1], 1.0);
    above[k] = squares(1 - levels[k], 1 - levels[k + 1], 1.0);
  }
  for (index_t first = 0; first < values.n; first += lanes) {
    const index_t rows = least(lanes, values.n - first);
    double at[lanes], total[lanes], rank[lanes];
    for (index_t l = 0; l < lanes; ++l) {
      const index_t i = first + least(l, rows - 1);
      const double* row = values[i];
      for (index_t k = 0; k < count; ++k) block[lanes * k + l] = row[k];
      at[l] = y[i];
      total[l] = rank[l] = 0.0;
    }
    for (index_t k = 0; k < last; ++k) {
      const double *from = block + lanes * k, *to = from + lanes, under = below[k], over = above[k];
      for (index_t l = 0; l < lanes; ++l) {
        const double factor = at[l] >= to[l] ? under : at[l] <= from[l] ? over : 0.0;
        total[l] += (to[l] - from[l]) * factor;
        rank[l] += from[l] < at[l] ? 1.0 : 0.0;
      }
    }
    double start[lanes], end[lanes], low[lanes], high[lanes];  // of the piece with y inside, if any
    for (index_t l = 0; l < lanes && last > 0; ++l) {
      const index_t k = greatest<index_t>(static_cast<index_t>(rank[l]) - 1, 0);
      start[l] = block[lanes * k + l];
      end[l] = block[lanes * (k + 1) + l];
      low[l] = levels[k];
      high[l] = levels[k + 1];
    }
    for (index_t l = 0; l < lanes && last > 0; ++l) {
      const bool inside = (start[l] < at[l]) & (at[l] < end[l]);
      const double width = inside ? end[l] - start[l] : 1.0, before = at[l] - start[l], after = end[l] - at[l];
      const double middle = low[l] + (high[l] - low[l]) * (before / width);
      const double piece = squares(low[l], middle, before) + squares(1 - middle, 1 - high[l], after);
      total[l] += inside ? piece : 0.0;
    }
    for (index_t l = 0; l < rows; ++l) {
      const index_t i = first + l;
      double tails = tail_squares(levels[0], left[i], block[l] - at[l]);
      tails += tail_squares(1 - levels[last], right[i], at[l] - block[lanes * last + l]);
      scores[i] = is_finite(at[l]) ? total[l] + tails : fabs(at[l]);
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
