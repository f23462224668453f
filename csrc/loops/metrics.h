// Sums over outcomes and point predictions, and losses of quantiles. Values are not checked: a value that is not
// finite makes a sum not finite.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr index_t sum_lanes = 8;  // partial sums, so that additions do not wait for each other
constexpr index_t sum_rows = 512;  // per block: its rows are in the cache at the second look

inline double sum_of(const double* s) {
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// Sums of blocks in pairs, so that rounding grows with the logarithm of their number.
struct pairwise_sum {
  double parts[64];
  index_t count = 0;

  void add(double value) {
    for (index_t bits = count++; bits & 1; bits >>= 1) value += parts[--depth_];
    parts[depth_++] = value;
  }
  double total() const {
    double sum = 0.0;
    for (index_t i = depth_ - 1; i >= 0; --i) sum += parts[i];
    return sum;
  }

 private:
  index_t depth_ = 0;
};

// The sum of terms j < n. One sum per loop: for several, compilers transpose the values, which takes four times as long.
template <class Term>
double lane_sum(index_t n, Term term) {
  const index_t even = n - n % sum_lanes;
  double sum[sum_lanes] = {};
  for (index_t j = 0; j < even; j += sum_lanes) {
    for (index_t l = 0; l < sum_lanes; ++l) sum[l] += term(j + l);
  }
  for (index_t j = even; j < n; ++j) sum[j - even] += term(j);
  return sum_of(sum);
}

inline double sum_of_products(const double* a, const double* b, index_t n) {
  return lane_sum(n, [=](index_t j) { return a[j] * b[j]; });
}

// Writes the sums of errors, point - y, of their sizes and of their squares.
inline void error_sums(in y, in point, out sums) {
  pairwise_sum totals[3];
  for (index_t start = 0; start < y.n; start += sum_rows) {
    const index_t n = least(sum_rows, y.n - start);
    const double *a = y.data + start, *b = point.data + start;
    double e[sum_rows];
    for (index_t j = 0; j < n; ++j) e[j] = b[j] - a[j];
    totals[0].add(lane_sum(n, [&](index_t j) { return e[j]; }));
    totals[1].add(lane_sum(n, [&](index_t j) { return fabs(e[j]); }));
    totals[2].add(sum_of_products(e, e, n));
  }
  for (int k = 0; k < 3; ++k) sums[k] = totals[k].total();
}

// Writes the sums of |point - y| / (|point| + |y|), 0 where both are 0, and of the denominators.
inline void relative_sums(in y, in point, out sums) {
  pairwise_sum totals[2];
  for (index_t start = 0; start < y.n; start += sum_rows) {
    const index_t n = least(sum_rows, y.n - start);
    const double *a = y.data + start, *b = point.data + start;
    double share[sum_rows], size[sum_rows];
    for (index_t j = 0; j < n; ++j) {
      size[j] = fabs(b[j]) + fabs(a[j]);
      share[j] = fabs(b[j] - a[j]) / (size[j] == 0.0 ? 1.0 : size[j]);
    }
    totals[0].add(lane_sum(n, [&](index_t j) { return share[j]; }));
    totals[1].add(lane_sum(n, [&](index_t j) { return size[j]; }));
  }
  for (int k = 0; k < 2; ++k) sums[k] = totals[k].total();
}

// The sum of values, counted from `from`.
inline double sum_from(const double* x, index_t n, double from) {
  return lane_sum(n, [=](index_t j) { return x[j] - from; });
}

// The least and the greatest of n > 0 values.
inline void range_of(const double* x, index_t n, double& low, double& high) {
  constexpr index_t lanes = 64;  // so many that compilers vectorise the inner loops instead of unrolling them
  const index_t even = n - n % lanes;
  double lows[lanes], highs[lanes];
  for (index_t l = 0; l < lanes; ++l) lows[l] = highs[l] = x[0];
  for (index_t j = 0; j < even; j += lanes) {
    for (index_t l = 0; l < lanes; ++l) {
      lows[l] = x[j + l] < lows[l] ? x[j + l] : lows[l];
    }
  }
  for (index_t j = 0; j < even; j += lanes) {
    for (index_t l = 0; l < lanes; ++l) {
      highs[l] = x[j + l] > highs[l] ? x[j + l] : highs[l];
    }
  }
  for (index_t j = even; j < n; ++j) {
    lows[0] = least(lows[0], x[j]);
    highs[0] = greatest(highs[0], x[j]);
  }
  low = lows[0];
  high = highs[0];
  for (index_t l = 1; l < lanes; ++l) {
    low = least(low, lows[l]);
    high = greatest(high, highs[l]);
  }
}

struct comoment_block {
  double n, mean[2], squares[2], products, errors, low[2], high[2];

  comoment_block() = default;
  // Values count from `shift`, a point among them: a large common offset would cost digits of means.
  comoment_block(const double* y, const double* point, index_t rows, const double* shift)
      : n(static_cast<double>(rows)), products(0.0), errors(0.0) {
    const double* of[2] = {y, point};
    for (int k = 0; k < 2; ++k) {
      mean[k] = sum_from(of[k], rows, shift[k]) / n;
      range_of(of[k], rows, low[k], high[k]);
    }
    const double middle = mean[0], centre = mean[1], from = shift[0], of_point = shift[1];
    double a[sum_rows], b[sum_rows], e[sum_rows];
    for (index_t j = 0; j < rows; ++j) a[j] = (y[j] - from) - middle;
    for (index_t j = 0; j < rows; ++j) b[j] = (point[j] - of_point) - centre;
    for (index_t j = 0; j < rows; ++j) e[j] = y[j] - point[j];
    squares[0] = sum_of_products(a, a, rows);
    squares[1] = sum_of_products(b, b, rows);
    products = sum_of_products(a, b, rows);
    errors = sum_of_products(e, e, rows);
  }

  // As in Chan, Golub & LeVeque, "Algorithms for Computing the Sample Variance" (1983).
  void add(const comoment_block& other) {
    const double total = n + other.n, share = other.n / total, between = n * share;
    const double gap[2] = {other.mean[0] - mean[0], other.mean[1] - mean[1]};
    for (int k = 0; k < 2; ++k) {
      mean[k] += share * gap[k];
      squares[k] += other.squares[k] + between * gap[k] * gap[k];
      low[k] = least(low[k], other.low[k]);
      high[k] = greatest(high[k], other.high[k]);
    }
    products += other.products + between * gap[0] * gap[1];
    errors += other.errors;
    n = total;
  }
};

// Writes the means of y and of the point, their sums of squares about these means, the sum of products, the sum of
// squared errors, and the ranges of y and of the point. Blocks are added in pairs.
inline void comoments(in y, in point, out values) {
  const double shift[2] = {y[0], point[0]};
  comoment_block stack[64];  // enough for any n
  index_t depth = 0, count = 0;
  for (index_t start = 0; start < y.n; start += sum_rows) {
    comoment_block block(y.data + start, point.data + start, least(sum_rows, y.n - start), shift);
    for (index_t bits = count++; bits & 1; bits >>= 1) {
      comoment_block before = stack[--depth];
      before.add(block);
      block = before;
    }
    stack[depth++] = block;
  }
  comoment_block all = stack[--depth];
  while (depth > 0) {
    comoment_block before = stack[--depth];
    before.add(all);
    all = before;
  }
  const double moments[] = {shift[0] + all.mean[0], shift[1] + all.mean[1], all.squares[0], all.squares[1], all.products,
                          all.errors,  all.low[0],  all.high[0],    all.low[1],     all.high[1]};
  for (index_t k = 0; k < values.n; ++k) values[k] = moments[k];
}

// Adds the number of rows, their variances, squared errors and squared variances to the sums (2 c + 1, 4) of groups:
// row 2 b + 1 for variances that equal cut b of c ascending ones, row 2 b for those between its neighbours.
inline void spread_sums(in y, in mean, in variance, in cuts, outs scratch, outs sums) {
  const index_t groups = sums.n;
  for (index_t start = 0; start < y.n; start += sum_rows) {
    const index_t n = least(sum_rows, y.n - start);
    int32_t group[sum_rows];
    const double *of_y = y.data + start, *of_mean = mean.data + start, *v = variance.data + start;
    for (index_t j = 0; j < n; ++j) group[j] = 0;
    for (index_t b = 0; b < cuts.n; ++b) {
      const double cut = cuts[b];
      for (index_t j = 0; j < n; ++j) group[j] += (v[j] >= cut) + (v[j] > cut);
    }
    for (index_t g = 0; g < groups; ++g) {
      for (index_t k = 0; k < 4; ++k) scratch[g][k] = 0.0;
    }
    for (index_t j = 0; j < n; ++j) {
      const double gap = of_y[j] - of_mean[j];
      double* to = scratch[group[j]];
      to[0] += 1.0;
      to[1] += v[j];
      to[2] += gap * gap;
      to[3] += v[j] * v[j];
    }
    for (index_t g = 0; g < groups; ++g) {
      for (index_t k = 0; k < 4; ++k) sums[g][k] += scratch[g][k];
    }
  }
}

// sum_j factor_j max(p_j u, (p_j - 1) u) of u = y - q_j, for rows of quantiles q at levels p.
inline void check_losses(in levels, in factors, ins quantiles, in y, out losses) {
  const index_t count = quantiles.m, even = count - count % sum_lanes;
  for (index_t i = 0; i < quantiles.n; ++i) {
    const double* row = quantiles[i];
    const double at = y[i];
    double sum[sum_lanes] = {};
    for (index_t j = 0; j < even; j += sum_lanes) {
      for (index_t l = 0; l < sum_lanes; ++l) {
        const double gap = at - row[j + l], slope = levels[j + l] - (gap < 0.0 ? 1.0 : 0.0);
        sum[l] += factors[j + l] * (slope * gap);
      }
    }
    for (index_t j = even; j < count; ++j) {
      const double gap = at - row[j], slope = levels[j] - (gap < 0.0 ? 1.0 : 0.0);
      sum[j - even] += factors[j] * (slope * gap);
    }
    losses[i] = sum_of(sum);
  }
}

// Writes u - l + factor (max(l - y, 0) + max(y - u, 0)) of intervals [l, u]; returns how many have l > u.
inline index_t interval_scores(in y, in lower, in upper, double factor, out scores) {
  double crossed[sum_lanes] = {};
  const index_t even = y.n - y.n % sum_lanes;
  const auto score = [=](index_t i) {
    const double low = lower[i], high = upper[i], under = low - y[i], over = y[i] - high;
    return (high - low) + factor * ((under > 0.0 ? under : 0.0) + (over > 0.0 ? over : 0.0));
  };
  for (index_t i = 0; i < even; i += sum_lanes) {
    for (index_t l = 0; l < sum_lanes; ++l) {
      scores[i + l] = score(i + l);
      crossed[l] += lower[i + l] > upper[i + l] ? 1.0 : 0.0;
    }
  }
  for (index_t i = even; i < y.n; ++i) {
    scores[i] = score(i);
    crossed[i - even] += lower[i] > upper[i] ? 1.0 : 0.0;
  }
  return static_cast<index_t>(sum_of(crossed));
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
