// Quantiles and scores of distributions over few values, and their mixtures on whole numbers.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Quantiles (n, j): the first of the ascending values (n, l) at which the mass up to it has reached a level (n or 1,
// j); above 0.5, at which the mass beyond it is at most its complement. NaN where a mass is so near to the level that
// rounding decides, or no value has reached it. `scratch` is (2, l).
inline void step_quantiles(ins values, ins masses, ins levels, double close, outs scratch, outs quantiles) {
  const index_t l = values.m;
  double *low = scratch[0], *high = scratch[1];
  for (index_t i = 0; i < quantiles.n; ++i) {
    const double *level = levels[levels.n > 1 ? i : 0], *mass = masses[i];
    double sum = 0.0;
    for (index_t j = 0; j < l; ++j) low[j] = sum += mass[j];
    sum = 0.0;
    for (index_t j = l - 1; j >= 0; --j) high[j] = sum, sum += mass[j];
    for (index_t c = 0; c < quantiles.m; ++c) {
      const double p = level[c], rest = 1.0 - p;
      const bool upper = p > 0.5;
      index_t from = 0, to = l;  // the first that has reached the level is in [from, to]
      while (from < to) {
        const index_t middle = from + (to - from) / 2;
        if (upper ? high[middle] <= rest : low[middle] >= p) {
          to = middle;
        } else {
          from = middle + 1;
        }
      }
      bool sure = from < l && p > 0.0 && p < 1.0;
      if (sure) sure = fabs(upper ? high[from] - rest : low[from] - p) > close;
      if (sure && from > 0) sure = fabs(upper ? high[from - 1] - rest : low[from - 1] - p) > close;
      quantiles[i][c] = sure ? values[i][from] : not_a_number();
    }
  }
}

// The integrals (n,) of F^2 below y and of (1 - F)^2 above it. Masses are summed from both ends towards y.
inline void step_scores(ins values, ins masses, in y, out scores) {
  const index_t l = values.m;
  for (index_t i = 0; i < scores.n; ++i) {
    const double *value = values[i], *mass = masses[i], at = y[i];
    double score = 0.0;
    for (int side = 0; side < 2; ++side) {
      double sum = 0.0;
      for (index_t j = 0; j < l; ++j) {
        const index_t here = side ? l - 1 - j : j;
        if (side ? value[here] <= at : value[here] >= at) break;
        sum += mass[here];
        double end = at;
        if (j + 1 < l) {
          const double next = value[side ? here - 1 : here + 1];
          end = side ? greatest(next, at) : least(next, at);
        }
        score += sum * sum * fabs(end - value[here]);
      }
    }
    scores[i] = score;
  }
}

// Adds weighted masses (n, l) to totals (n, L) of which they begin at places `offset` (n,).
inline void add_masses(ins masses, vec<const int64_t> offset, in weights, outs totals) {
  for (index_t i = 0; i < masses.n; ++i) {
    double* total = totals[i] + offset[i];
    const double *mass = masses[i], weight = weights[i];
    for (index_t j = 0; j < masses.m; ++j) total[j] += weight * mass[j];
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
