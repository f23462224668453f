// Ratios of gamma functions.
#pragma once

#include <math.h>

#include "exponentials.h"
#include "row_values.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// E_2j / (j 4^(2j + 1)) of the Euler numbers E_2j, from j = 8 down.
constexpr index_t half_ratio_terms = 8;
constexpr double half_ratio_series[half_ratio_terms] = {
    19391512145.0 / 137438953472.0, -199360981.0 / 7516192768.0, 2702765.0 / 402653184.0, -50521.0 / 20971520.0,
    1385.0 / 1048576.0,             -61.0 / 49152.0,             5.0 / 2048.0,            -1.0 / 64.0};
constexpr index_t half_ratio_steps = 10;  // arguments below are moved by as many

// Writes Gamma(x + 1/2) / Gamma(x) for x >= 0. The expansion in w = x - 1/4 has only even powers: sqrt(w) exp(-sum of
// E_2j / (j 4^(2j + 1) w^(2j))) (from Abramowitz & Stegun, 6.1.47 and 23.1.7: Bernoulli polynomials at 1/4 are Euler
// numbers). For x below 10 it is evaluated at x + 10 and taken back by the recurrence.
inline void half_ratios(in x, out ratios) {
  constexpr index_t m = block_rows;
  constexpr double least_moved = static_cast<double>(half_ratio_steps);
  for (index_t start = 0; start < x.n; start += m) {
    const index_t n = least(m, x.n - start);
    const row_values at = rows_from(x, start, n);
    row_values w, series, back;
    for (index_t k = 0; k < m; ++k) {
      w.at[k] = (at.at[k] < least_moved ? at.at[k] + least_moved : at.at[k]) - 0.25;
      const double square = 1.0 / (w.at[k] * w.at[k]);
      double sum = 0.0;
      for (const double term : half_ratio_series) sum = (sum - term) * square;
      series.at[k] = sum;
    }
    exponentials(series.at);
    for (index_t k = 0; k < m; ++k) {
      const double from = at.at[k] < least_moved ? at.at[k] : 0.0;
      double steps = from, halves = from + 0.5;
      for (index_t j = 1; j < half_ratio_steps; ++j) {
        const double step = static_cast<double>(j);
        steps *= from + step;
        halves *= from + (step + 0.5);
      }
      back.at[k] = at.at[k] < least_moved ? steps / halves : 1.0;
    }
    for (index_t k = 0; k < m; ++k) w.at[k] = sqrt(w.at[k]) * series.at[k] * back.at[k];
    write_rows(w, ratios, start, n);
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
