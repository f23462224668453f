// Features of simulated outcomes.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Numbers of ascending values that are below a value, or, with `equal`, at most equal to it.
inline index_t count_below(const double* ascending, index_t count, double value, bool equal) {
  index_t first = 0;
  while (count > 0) {
    const index_t half = count / 2;
    const double middle = ascending[first + half];
    const bool below = equal ? middle <= value : middle < value;
    first += below ? half + 1 : 0;
    count = below ? count - half - 1 : half;
  }
  return first;
}

// Share of the ascending `reference` of each row below each value; half of those that equal it count.
inline void mid_ranks(ins values, ins reference, outs ranks) {
  constexpr index_t few = 64;  // numbers that are compared sooner than searched
  const index_t count = reference.m;
  const double scale = 0.5 / static_cast<double>(count);
  for (index_t i = 0; i < values.n; ++i) {
    const double* row = reference[i];
    if (count <= few) {
      const double* from = values[i];
      double* to = ranks[i];
      for (index_t b = 0; b < values.m; ++b) to[b] = 0.0;
      for (index_t j = 0; j < count; ++j) {
        for (index_t b = 0; b < values.m; ++b) {
          to[b] += (row[j] < from[b] ? scale : 0.0) + (row[j] <= from[b] ? scale : 0.0);
        }
      }
      continue;
    }
    for (index_t b = 0; b < values.m; ++b) {
      const index_t below = count_below(row, count, values[i][b], false);
      const bool tied = below < count && row[below] == values[i][b];
      const index_t upto = tied ? count_below(row, count, values[i][b], true) : below;
      ranks[i][b] = static_cast<double>(below + upto) * scale;
    }
  }
}

// Sets column j of `features` (m, l, r) to factor exp(-(t - j step)^2), at most `most` columns from t, where `decay`
// (most + 1,) holds exp(-(step j)^2). It proceeds from the nearest bump outwards by a constant ratio of ratios: two
// exponentials for each number.
inline void outcome_bumps(ins places, double step, double factor, in decay, cube<float> features) {
  const index_t most = decay.n - 1, rank = features.k;
  for (index_t i = 0; i < features.n; ++i) {
    for (index_t b = 0; b < features.m; ++b) {
      const double t = places[i][b];
      float* to = features[i][b];
      const index_t nearest =
          least(greatest(static_cast<index_t>(t / step + 0.5), index_t(0)), rank - 1);
      const double gap = t - static_cast<double>(nearest) * step;
      const double value = factor * exp(-gap * gap), ratio = exp(2 * gap * step);
      to[nearest] = static_cast<float>(value);
      double power = 1.0;
      const index_t above = least(most, rank - 1 - nearest), below = least(most, nearest);
      for (index_t j = 1; j <= above; ++j) {
        power *= ratio;
        to[nearest + j] = static_cast<float>(value * power * decay[j]);
      }
      power = 1.0;
      for (index_t j = 1; j <= below; ++j) {
        power /= ratio;
        to[nearest - j] = static_cast<float>(value * power * decay[j]);
      }
    }
  }
}

// Subtracts the means (m, r) from features (m, l, r), and fills `squares` (m, l) with squared norms.
inline void centre_rows(cube<float> features, mat<const float> means, outs squares) {
  constexpr index_t lanes = 8;  // partial sums, so that additions do not wait for each other
  const index_t rank = features.k, even = rank - rank % lanes;
  for (index_t i = 0; i < features.n; ++i) {
    const float* mean = means[i];
    for (index_t b = 0; b < features.m; ++b) {
      float* row = features[i][b];
      float sum[lanes] = {};
      for (index_t j = 0; j < even; j += lanes) {
        for (index_t l = 0; l < lanes; ++l) {
          const float value = row[j + l] - mean[j + l];
          row[j + l] = value;
          sum[l] += value * value;
        }
      }
      for (index_t j = even; j < rank; ++j) {
        const float value = row[j] - mean[j];
        row[j] = value;
        sum[j - even] += value * value;
      }
      squares[i][b] = static_cast<double>(((sum[0] + sum[1]) + (sum[2] + sum[3])) +
                                          ((sum[4] + sum[5]) + (sum[6] + sum[7])));
    }
  }
}

// The cubic polynomial through the four rows of a table around each place; places are in units of the table's
// step, in [1, rows - 2].
inline void interpolate(in places, mat<const float> table, mat<float> values) {
  const index_t last = table.n - 3;
  for (index_t i = 0; i < places.n; ++i) {
    const index_t j = least(static_cast<index_t>(places[i]), last);
    const double t = places[i] - static_cast<double>(j);
    const float before = static_cast<float>(-t * (t - 1) * (t - 2) / 6);
    const float here = static_cast<float>((t + 1) * (t - 1) * (t - 2) / 2);
    const float after = static_cast<float>(-(t + 1) * t * (t - 2) / 2);
    const float beyond = static_cast<float>((t + 1) * t * (t - 1) / 6);
    const float *a = table[j - 1], *b = table[j], *c = table[j + 1], *d = table[j + 2];
    float* to = values[i];
    for (index_t k = 0; k < table.m; ++k) {
      to[k] = before * a[k] + here * b[k] + after * c[k] + beyond * d[k];
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
