// Quantiles of mixtures of Gaussians.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Halley's steps converge cubically: after a step this small relative to the narrowest component, the error is
// below rounding.
constexpr double last_step = 1e-6;
constexpr double flattest = 1e-9;  // of the narrowest component: largest shift of a quantile by rounding of the cdf
constexpr int most_halley_steps = 100;  // about 3 are needed; bisection alone gains a digit in 3 steps

// The quantiles (n, j) of mixtures of K Gaussians with parameters (n, K); NaN where the cdf is nearly flat.
// Levels (n or 1, j) ascend along each row; z holds the standard normal quantiles at them. Halley's iteration
// starts from the Taylor series of the quantile function at the previous level. The iterates stay between the
// quantiles of the components. Bisection takes over if a step is not at most half as long as the one before, as
// in tails.
inline void mixture_quantiles(ins levels, ins z, ins means, ins stds, ins all_weights, outs values) {
  constexpr double root_half = 0.7071067811865476, root_2pi = 2.5066282746310002;
  constexpr double eps = 2.220446049250313e-16;
  const index_t parts = means.m;
  for (index_t i = 0; i < means.n; ++i) {
    const index_t row = least(i, levels.n - 1);
    const double *mean = means[i], *std = stds[i], *weights = all_weights[i];
    double centre = 0.0, second = 0.0, narrowest = infinity;
    for (index_t c = 0; c < parts; ++c) {
      if (weights[c] > 0.0) {
        centre += weights[c] * mean[c];
        narrowest = least(narrowest, std[c]);
      }
    }
    for (index_t c = 0; c < parts; ++c) {
      const double gap = mean[c] - centre;
      second += weights[c] * (std[c] * std[c] + gap * gap);
    }
    const double spread = sqrt(second);
    double before = 0.0, x = -infinity;  // the previous level and its quantile
    double density = 0.0, slope = 0.0, step = 0.0;
    for (index_t column = 0; column < levels.m; ++column) {
      const double level = levels[row][column];
      double& value = values[i][column];
      if (level <= 0.0 || level >= 1.0) {
        value = level <= 0.0 ? -infinity : infinity;
        continue;
      }
      double low = infinity, high = -infinity;
      for (index_t c = 0; c < parts; ++c) {
        if (weights[c] > 0.0) {
          const double end = mean[c] + std[c] * z[row][column];
          low = least(low, end);
          high = greatest(high, end);
        }
      }
      if (low == high) {
        x = low;
        density = 0.0;  // the next level does not use the Taylor series
        value = x;
        continue;
      }
      low = greatest(low, least(x, high));  // quantiles ascend, to the last digit
      if (density > 0.0) {
        const double move = (level - before) / density;
        x += move * (1.0 - 0.5 * slope * move / density);
      } else {
        x = centre + spread * z[row][column];
      }
      if (!(low <= x && x <= high)) x = low + 0.5 * (high - low);
      bool converged = false;
      double moved = infinity;
      // Above level 0.5, compare complements, which are accurate near 1.
      const double sign = level <= 0.5 ? 1.0 : -1.0;
      for (int steps = 0; steps < most_halley_steps; ++steps) {
        double gap = sign > 0.0 ? -level : 1.0 - level;
        density = slope = 0.0;
        for (index_t c = 0; c < parts; ++c) {
          if (!(weights[c] > 0.0)) continue;
          const double inverse = 1.0 / std[c], t = (x - mean[c]) * inverse;
          const double part = weights[c] * inverse / root_2pi * exp(-0.5 * t * t);
          gap += 0.5 * sign * weights[c] * erfc(-sign * t * root_half);
          density += part;
          slope -= part * t * inverse;
        }
        (gap >= 0.0 ? high : low) = x;
        step = infinity;
        if (density > 0.0) {
          step = gap / density;
          step /= greatest(1.0 - 0.5 * slope * step / density, 0.5);
        }
        if (fabs(step) <= greatest(last_step * narrowest, 4.0 * eps * fabs(x))) {
          converged = true;
          break;
        }
        const bool cubic = fabs(step) <= 0.5 * moved && low < x - step && x - step < high;
        const double to = cubic ? x - step : low + 0.5 * (high - low);
        moved = fabs(to - x);
        x = to;
      }
      const bool flat = eps * least(level, 1.0 - level) > flattest * narrowest * density;
      if (converged && !flat) {
        x = least(greatest(x - step, low), high);
        value = x;
        before = level;
      } else {
        value = not_a_number();
        x = -infinity;
        density = 0.0;
      }
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
