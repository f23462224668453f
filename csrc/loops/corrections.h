// Expected features of corrected predictions, and the corrections of counts.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Features height exp(-rate (z - j step)^2), j from -most to most.
struct bump_lattice {
  double step, rate, height;
};

constexpr double least_bump = 1e-12;  // relative to its height; the lattice has an error of 1e-6

// One node among the bumps: factors between neighbouring features are a geometric sequence, so each node takes two
// exponentials. `add(j, term, distance)` is called from the nearest feature outwards, where all terms decay, until
// they are below `end`.
template <class Add>
inline void from_nearest(const bump_lattice& lattice, double z, double weight, index_t size, double end,
                         const Add& add) {
  const index_t most = (size - 1) / 2;
  const double step = lattice.step, rate = lattice.rate, reach = static_cast<double>(most);
  const index_t nearest = static_cast<index_t>(rint(least(greatest(z / step, -reach), reach)));
  const double gap = z - static_cast<double>(nearest) * step;
  const double top = weight * lattice.height * exp(-rate * gap * gap);
  if (top == 0.0) return;
  const double square = exp(-2.0 * rate * step * step);
  const double growth = exp(2.0 * rate * gap * step - rate * step * step);
  double term = top, ratio = growth, distance = gap;
  for (index_t j = nearest + most; j < size && term >= end; ++j) {
    add(j, term, distance);
    term *= ratio;
    ratio *= square;
    distance -= step;
  }
  ratio = square / growth;
  term = top * ratio;
  ratio *= square;
  distance = gap + step;
  for (index_t j = nearest + most - 1; j >= 0 && term >= end; --j) {
    add(j, term, distance);
    term *= ratio;
    ratio *= square;
    distance += step;
  }
}

// Adds the features at nodes z (n, L) to their means (n, 2 m + 1). With `slopes`, `slope` receives sum_l w_l p'(z_l)
// and `stretched` sum_l w_l p'(z_l) stretch_l. `weight` is (1, L) or (n, L).
inline void lattice_means(ins z, ins weight, ins stretch, double step, double rate, double height,
                          bool slopes, outs mean, outs slope, outs stretched) {
  const bump_lattice lattice{step, rate, height};
  const double end = least_bump * height;
  for (index_t i = 0; i < z.n; ++i) {
    double *m = mean[i], *s = slope[i], *t = stretched[i];
    for (index_t node = 0; node < z.m; ++node) {
      const double w = weight[weight.n > 1 ? i : 0][node], value = z[i][node], by = stretch[i][node];
      if (w < least_bump || !is_finite(value)) continue;
      if (slopes) {
        from_nearest(lattice, value, w, mean.m, end, [&](index_t j, double term, double distance) {
          const double change = -2.0 * rate * distance * term;
          m[j] += term;
          s[j] += change;
          t[j] += change * by;
        });
      } else {
        from_nearest(lattice, value, w, mean.m, end, [&](index_t j, double term, double) { m[j] += term; });
      }
    }
  }
}

// Adds features at nodes z (n, L) to sums (3, n, 2 m + 1) with the weights (3, n, L) of the nodes. Nodes whose first
// weight, their probability, is below 1e-14 are skipped.
inline void weighted_lattice_sums(ins z, cube<const double> weights, double step, double rate,
                                  double height, cube<double> sums) {
  const bump_lattice lattice{step, rate, height};
  for (index_t i = 0; i < z.n; ++i) {
    double *a = sums[0][i], *b = sums[1][i], *c = sums[2][i];
    for (index_t node = 0; node < z.m; ++node) {
      const double w0 = weights[0][i][node], w1 = weights[1][i][node], w2 = weights[2][i][node];
      if (w0 < 1e-14) continue;
      from_nearest(lattice, z[i][node], 1.0, sums.k, 1e-17, [&](index_t j, double term, double) {
        a[j] += w0 * term;
        b[j] += w1 * term;
        c[j] += w2 * term;
      });
    }
  }
}

// Masses f(k) exp(a r(k) + b k), normalised, and their moments: d = k - mean and e = r - mean of r.
struct tilted_masses {
  double first, mean_r, second, cross, third, mixed;  // means; sums of p d^2, p d e, p d^3, p d^2 e

  tilted_masses(const double* k, const double* logs, const double* r, double a, double b, index_t count,
                double* masses)
      : first(0.0), mean_r(0.0), second(0.0), cross(0.0), third(0.0), mixed(0.0) {
    double top = -infinity, total = 0.0;
    for (index_t j = 0; j < count; ++j) {
      masses[j] = logs[j] + a * r[j] + b * k[j];
      top = greatest(top, masses[j]);
    }
    for (index_t j = 0; j < count; ++j) {
      const double p = masses[j] > top - 60.0 ? exp(masses[j] - top) : 0.0;
      masses[j] = p;
      total += p;
      first += p * k[j];
      mean_r += p * r[j];
    }
    first /= total;
    mean_r /= total;
    for (index_t j = 0; j < count; ++j) {
      const double p = masses[j] / total;
      masses[j] = p;
      if (p > 0.0) {
        const double d = k[j] - first, e = r[j] - mean_r;
        second += p * d * d;
        cross += p * d * e;
        third += p * d * d * d;
        mixed += p * d * d * e;
      }
    }
  }
};

// Solves, for each row, for a and b that give f(k) exp(a r(k) + b k), normalised, wanted moments, by Newton's method
// from `power` (a) and `tilt` (b), which receive the result. The Jacobian of an exponential family is a covariance
// matrix. a stays within [low, high]. If no a in these bounds reaches the standard deviation, the nearest one is
// returned, with the right mean. `scratch` holds L numbers.
inline void solve_moments(ins values, ins logs, ins statistic, in mean, in std, double low, double high,
                          out scratch, out power, out tilt) {
  for (index_t i = 0; i < values.n; ++i) {
    double a = power[i], b = tilt[i];
    for (int steps = 0; steps < 50; ++steps) {
      const tilted_masses m(values[i], logs[i], statistic[i], a, b, values.m, scratch.data);
      if (m.second <= 0.0) break;
      const double gap_mean = mean[i] - m.first, gap_variance = std[i] * std[i] - m.second;
      const bool right = fabs(gap_mean) <= 1e-9 * (1 + fabs(mean[i]));
      if (right && fabs(gap_variance) <= 1e-8 * std[i] * std[i]) break;
      // d mean = second db + cross da; d variance = third db + mixed da.
      const double det = m.second * m.mixed - m.cross * m.third;
      const double change = det != 0.0 ? (m.second * gap_variance - m.third * gap_mean) / det : 0.0;
      double following = a + least(greatest(change, -0.5 * (1 + a)), 1 + a);
      following = least(greatest(following, low), high);
      if (right && following == a) break;
      const double step = (gap_mean - m.cross * (following - a)) / m.second;
      const double limit = 3.0 / sqrt(m.second);
      a = following;
      b += least(greatest(step, -limit), limit);
    }
    power[i] = a;
    tilt[i] = b;
  }
}

// Fills `weights` (3, n, L) with the masses p, and their derivatives by the log mean and by the log standard deviation
// minus half the log mean. For rows corrected to a point the derivatives are 0. p has the derivative p d in b and
// p e in a. The derivatives of the moments follow, and the inverse of their Jacobian gives derivatives by the
// moments.
inline void correction_weights(ins values, ins logs, ins statistic, in power, in tilt,
                               cube<double> weights) {
  for (index_t i = 0; i < values.n; ++i) {
    const double *k = values[i], *r = statistic[i];
    double *p = weights[0][i], *shift = weights[1][i], *factor = weights[2][i];
    const tilted_masses m(k, logs[i], r, power[i], tilt[i], values.m, p);
    double det = 0.0, mean_b = 0.0, mean_a = 0.0, std_b = 0.0, std_a = 0.0;
    if (m.second > 0.0 && m.first > 0.0) {
      mean_b = m.second / m.first;
      mean_a = m.cross / m.first;
      std_b = m.third / (2 * m.second) - mean_b / 2;
      std_a = m.mixed / (2 * m.second) - mean_a / 2;
      det = mean_b * std_a - mean_a * std_b;
    }
    const bool solvable = det != 0.0 && is_finite(det);
    for (index_t j = 0; j < values.m; ++j) {
      shift[j] = factor[j] = 0.0;
      if (solvable && p[j] > 0.0) {
        const double d = k[j] - m.first, e = r[j] - m.mean_r;
        shift[j] = p[j] * (std_a * d - std_b * e) / det;
        factor[j] = p[j] * (mean_b * e - mean_a * d) / det;
      }
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
