// Log probabilities of single counts. Blocks of rows of negative binomial counts become vector instructions.
#pragma once

#include "counts.h"
#include "row_values.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// (1 + 12 x) times `stirling_error` in u = (x - 3) / (x + 1) for x >= 1, from the highest power down: a Chebyshev fit at
// 60 digits. With these coefficients the error of `stirling_error` is below 2e-17.
constexpr index_t stirling_terms = 20;
constexpr double scaled_stirling[stirling_terms] = {
    -2.0771262538468763e-11, 6.590188097871387e-11,  -8.68477016500877e-11,  2.631892595209158e-10,
    -1.0636749021166731e-09, 3.000268074262625e-09,  -8.79920484313559e-09,  2.6122397177115762e-08,
    -7.051049795536279e-08,  2.0064121428452516e-07, -5.216442966195092e-07, 1.02625134020377e-06,
    -1.7059996118526139e-06, -1.6045643785792242e-06, 4.973874288071555e-05, -0.0002589297872795988,
    0.0003830639729079939,   0.0030755618320359264,  -0.027330028760510747,  1.0240832503449386};
constexpr double least_vector = 1e-75, most_vector = 1e75;  // of numbers whose products and ratios stay in range

// Adds `factor` times `stirling_error` of x >= 1.
inline void add_stirling_errors(const row_values& x, double factor, row_values& sum) {
  row_values u, series;
  for (index_t k = 0; k < block_rows; ++k) {
    u.at[k] = (x.at[k] - 3.0) / (x.at[k] + 1.0);
    series.at[k] = scaled_stirling[0];
  }
  for (index_t j = 1; j < stirling_terms; ++j) {
    for (index_t k = 0; k < block_rows; ++k) series.at[k] = series.at[k] * u.at[k] + scaled_stirling[j];
  }
  for (index_t k = 0; k < block_rows; ++k) sum.at[k] += factor * (series.at[k] / (1.0 + 12.0 * x.at[k]));
}

// Subtracts the deviances of x > 0 from means m > 0, as `deviance` does.
inline void subtract_deviances(const row_values& x, const row_values& m, const row_values& gap, row_values& sum) {
  row_values logs;
  for (index_t k = 0; k < block_rows; ++k) logs.at[k] = x.at[k] / m.at[k];
  row_logarithms(logs);
  for (index_t k = 0; k < block_rows; ++k) {
    const double v = gap.at[k] / (x.at[k] + m.at[k]), s = v * v;
    double odd = s * (1 / 11.0 + s * (1 / 13.0 + s * (1 / 15.0 + s / 17)));
    odd = s * (1 / 3.0 + s * (1 / 5.0 + s * (1 / 7.0 + s * (1 / 9.0 + odd))));
    const double near = gap.at[k] * v + 2.0 * x.at[k] * v * odd, far = x.at[k] * logs.at[k] - gap.at[k];
    sum.at[k] -= fabs(v) < 0.1 ? near : far;
  }
}

// `log_mass` of counts k >= 1, for moderate numbers and dispersions up to 1.
inline void negative_binomial_logs(const row_values& y, const row_values& mean, const row_values& alpha,
                                   row_values& logs) {
  row_values size, total, product, gap, back, size_mean, count_mean;
  for (index_t k = 0; k < block_rows; ++k) {
    const double odds = alpha.at[k] * mean.at[k], growth = 1.0 + alpha.at[k] * y.at[k];
    size.at[k] = 1.0 / alpha.at[k];
    total.at[k] = size.at[k] + y.at[k];
    product.at[k] = growth * y.at[k];
    gap.at[k] = (y.at[k] - mean.at[k]) / (1.0 + odds);
    back.at[k] = -gap.at[k];
    size_mean.at[k] = total.at[k] / (1.0 + odds);
    count_mean.at[k] = growth * (mean.at[k] / (1.0 + odds));
  }
  row_logarithms(product);
  for (index_t k = 0; k < block_rows; ++k) logs.at[k] = -half_log_2pi - 0.5 * product.at[k];
  add_stirling_errors(total, 1.0, logs);
  add_stirling_errors(size, -1.0, logs);
  add_stirling_errors(y, -1.0, logs);
  subtract_deviances(size, size_mean, back, logs);
  subtract_deviances(y, count_mean, gap, logs);
}

inline void log_masses(in y, in mean, in alpha, out masses) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    row_values k = rows_from(y, start, n), mu = rows_from(mean, start, n), a = rows_from(alpha, start, n), logs;
    row_marks is_usual;
    uint64_t usual = 0;
    for (index_t j = 0; j < m; ++j) {
      const bool is_moderate = (k.at[j] < most_vector) & (mu.at[j] > least_vector) & (mu.at[j] < most_vector);
      is_usual.at[j] = (k.at[j] >= 1.0) & (k.at[j] == floor(k.at[j])) & (a.at[j] > least_vector) & (a.at[j] <= 1.0) &
                    is_moderate;
      usual += is_usual.at[j];
      k.at[j] = is_usual.at[j] ? k.at[j] : 1.0;
      mu.at[j] = is_usual.at[j] ? mu.at[j] : 1.0;
      a.at[j] = is_usual.at[j] ? a.at[j] : 1.0;
    }
    if (usual) {
      negative_binomial_logs(k, mu, a, logs);
      write_rows(logs, masses, start, n);
    }
    if (usual == static_cast<uint64_t>(m)) continue;
    for (index_t j = 0; j < n; ++j) {
      if (is_usual.at[j]) continue;
      const index_t i = start + j;
      masses[i] = is_nan(y[i]) ? y[i] : is_count(y[i]) ? log_mass_anywhere(y[i], mean[i], alpha[i]) : -infinity;
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
