// Rows of double Poisson distributions. Masses are exp(h(k) - phi d(k, mu)), with h(k) = log(k^k e^-k / k!) and
// the unit deviance d(k, mu) = k log(k / mu) + mu - k. Factors that all counts share are left out. Masses are
// relative to the mass at the whole number nearest to mu, which keeps them in range for any phi.
#pragma once

#include "counts.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr double window_depth = 42.0;  // windows end where the mass is e^-42 = 6e-19 of that at mu
constexpr double deep = 1e-3;  // share of the mass at the mode; below it, the mass under the window may matter
constexpr double log_negligible = -39.14394658089878;

// Tables of log k and h(k) for the first counts.
inline void double_poisson_tables(out logs, out heads) {
  logs[0] = heads[0] = 0.0;
  for (index_t k = 1; k < logs.n; ++k) {
    logs[k] = log(static_cast<double>(k));
    heads[k] = -half_log_2pi - 0.5 * logs[k] - stirling_error(static_cast<double>(k));
  }
}

struct double_poisson_window {
  double mode, top;  // the count next to mu with the larger mass, and its log mass
  double low, high;  // counts beyond have masses below rounding
};

struct double_poisson_row {
  double mu, phi;
  in logs, heads;
  double log_mu;

  double_poisson_row(double mu, double phi, in logs, in heads)
      : mu(mu), phi(phi), logs(logs), heads(heads), log_mu(mu > 0.0 ? log(mu) : 0.0) {}

  // The log mass of a count k >= 0, mu > 0.
  double log_mass(double k) const {
    if (k == 0.0) return -phi * mu;
    if (k >= static_cast<double>(logs.n)) {
      return -half_log_2pi - 0.5 * log(k) - stirling_error(k) - phi * deviance(k, mu);
    }
    const index_t index = static_cast<index_t>(k);
    const double gap = k - mu;
    if (fabs(gap) < 0.1 * (k + mu)) return heads[index] - phi * deviance(k, mu);
    return heads[index] - phi * (k * (logs[index] - log_mu) - gap);
  }

  double_poisson_window window() const {
    if (mu == 0.0) return {0.0, 0.0, 0.0, 0.0};
    double mode = floor(mu), top = log_mass(mode);
    const double other = log_mass(mode + 1.0);
    if (other > top) {
      mode += 1.0;
      top = other;
    }
    const double depth = window_depth / phi + (mode > 0.0 ? deviance(mode, mu) : mu);
    // Below mean 1, scores depend on the mass above 0, so the depth is relative to the mass at 1.
    const double above = mu < 1.0 ? window_depth / phi + deviance(1.0, mu) : depth;
    // d(k, mu) >= (k - mu)^2 / (2 mu + 2 (k - mu) / 3) gives an end too far out. Newton steps from there stay
    // outside, because d is convex.
    double high = mu + above / 3 + sqrt(above * above / 9 + 2 * above * mu);
    for (int i = 0; i < 50; ++i) {
      const double slope = log(high) - log_mu;
      if (!(slope > 0.0)) break;  // all mass is next to mu
      const double step = (deviance(high, mu) - above) / slope;
      high -= step;
      if (step < 0.5) break;
    }
    double low = 0.0;
    if (mu > 1.0 && deviance(1.0, mu) > depth) {
      low = greatest(1.0, mu - sqrt(2 * depth * mu));
      for (int i = 0; i < 50; ++i) {
        const double slope = log_mu - log(low);
        if (!(slope > 0.0)) break;
        const double step = (deviance(low, mu) - depth) / slope;
        low += step;
        if (step < 0.5) break;
      }
    }
    return {mode, top, floor(low), greatest(ceil(high), mode + 1.0)};
  }

  double mass(double k, double top) const { return exp(log_mass(k) - top); }

  // The mass from 0 to k, below the window.
  double lower_tail(double k, double top) const {
    double sum = 0.0;
    for (; k >= 0.0; k -= 1.0) {
      const double p = mass(k, top);
      sum += p;
      // Towards 0, masses grow at most like the square root of k.
      if (p * ((k + 1.0) * sqrt(k + 1.0)) <= negligible * sum) break;
    }
    return sum;
  }

  // The mass from k on, above the window.
  double upper_tail(double k, double top) const {
    double sum = 0.0;
    for (;;) {
      const double p = mass(k, top);
      sum += p;
      k += 1.0;
      // The remaining masses fall at least geometrically, by the slope of the deviance.
      if (p <= negligible * sum * -expm1(-phi * (log(k) - log_mu))) return sum;
    }
  }

  // The mass below the window, or 0 if it is negligible relative to the mass from there to k.
  double below_window(double k, const double_poisson_window& w) const {
    if (w.low == 0.0) return 0.0;
    // As in lower_tail: towards 0, the masses below grow at most like the square root of k.
    if (log_mass(w.low) + 1.5 * log(w.low + 1.0) < log_mass(k) + log_negligible) return 0.0;
    return lower_tail(w.low - 1.0, w.top);
  }

  // The mass above the window, or 0 if it is negligible relative to the mass from k to there.
  double above_window(double k, const double_poisson_window& w) const {
    // bound by a geometric series
    const double end = log_mass(w.high) - log(-expm1(-phi * (log(w.high) - log_mu)));
    if (end < log_mass(k + 1.0) + log_negligible) return 0.0;
    return upper_tail(w.high + 1.0, w.top);
  }
};

inline void double_poisson_windows(in mu, in phi, in logs, in heads, out low, out high) {
  for (index_t i = 0; i < mu.n; ++i) {
    const double_poisson_window w = double_poisson_row(mu[i], phi[i], logs, heads).window();
    low[i] = w.low;
    high[i] = w.high;
  }
}

// Sums are centred at the count next to mu.
inline void double_poisson_moments(in mu, in phi, in logs, in heads, out total, out mean,
                                   out variance) {
  for (index_t i = 0; i < mu.n; ++i) {
    if (mu[i] == 0.0) {
      total[i] = 1.0;
      mean[i] = variance[i] = 0.0;
      continue;
    }
    const double_poisson_row row(mu[i], phi[i], logs, heads);
    const double_poisson_window w = row.window();
    double mass = 0.0, first = 0.0, second = 0.0;
    const index_t count = static_cast<index_t>(w.high - w.low) + 1;
    for (index_t j = 0; j < count; ++j) {
      const double k = w.low + static_cast<double>(j), p = row.mass(k, w.top), gap = k - w.mode;
      mass += p;
      first += p * gap;
      second += p * gap * gap;
    }
    const double shift = first / mass;
    total[i] = mass;
    mean[i] = w.mode + shift;
    variance[i] = second / mass - shift * shift;
  }
}

inline void double_poisson_log_masses(in y, in mu, in phi, in logs, in heads, in total, out masses) {
  for (index_t i = 0; i < y.n; ++i) {
    const double k = y[i];
    if (is_nan(k)) {
      masses[i] = k;
    } else if (!is_count(k)) {
      masses[i] = -infinity;
    } else if (mu[i] == 0.0) {
      masses[i] = k == 0.0 ? 0.0 : -infinity;
    } else {
      const double_poisson_row row(mu[i], phi[i], logs, heads);
      masses[i] = row.log_mass(k) - row.window().top - log(total[i]);
    }
  }
}

// The sum runs from the end of the mass inwards, so that small probabilities keep their digits.
inline void double_poisson_tails(in y, in mu, in phi, in logs, in heads, bool upper, in total,
                                 out tails) {
  for (index_t i = 0; i < y.n; ++i) {
    const double k = y[i];
    double share = 0.0;
    bool above = false;  // whether the share is that of the upper tail
    if (is_nan(k)) {
      share = k;
    } else if (k >= 0.0 && (mu[i] == 0.0 || k == infinity)) {
      above = true;
    } else if (k >= 0.0) {
      const double_poisson_row row(mu[i], phi[i], logs, heads);
      const double_poisson_window w = row.window();
      double mass = 0.0;
      if (k < w.low) {
        mass = row.lower_tail(k, w.top);
      } else if (k < w.mode) {
        mass = row.below_window(k, w);
        const index_t count = static_cast<index_t>(k - w.low) + 1;
        for (index_t j = 0; j < count; ++j) mass += row.mass(w.low + static_cast<double>(j), w.top);
      } else if (k < w.high) {
        mass = row.above_window(k, w);
        const index_t count = static_cast<index_t>(w.high - k);
        for (index_t j = 0; j < count; ++j) mass += row.mass(w.high - static_cast<double>(j), w.top);
      } else {
        mass = row.upper_tail(k + 1.0, w.top);
      }
      share = mass / total[i];
      above = k >= w.mode;
    }
    tails[i] = above == upper ? share : 1.0 - share;
  }
}

// One pass over the window computes the sums of count_crps and the normalisation.
inline void double_poisson_crps(in y, in mu, in phi, in logs, in heads, out scores) {
  for (index_t i = 0; i < y.n; ++i) {
    double x = y[i];
    if (mu[i] == 0.0 || !is_finite(x)) {
      scores[i] = fabs(x);
      continue;
    }
    const double_poisson_row row(mu[i], phi[i], logs, heads);
    const double_poisson_window w = row.window();
    x = least(greatest(x, w.low - 1.0), w.high + 1.0);  // beyond, the score grows by the distance
    const double start = greatest(least(floor(x), w.high), w.low - 1.0);
    double score = 0.0, mass = 0.0, moment = 0.0;
    const index_t below = static_cast<index_t>(start - w.low) + 1;
    for (index_t j = 0; j < below; ++j) {
      const double k = start - static_cast<double>(j), p = row.mass(k, w.top), part = p * (x - k);
      score += p * (2.0 * moment + part);
      moment += part;
      mass += p;
    }
    moment = 0.0;
    const index_t above = static_cast<index_t>(w.high - start);
    for (index_t j = 0; j < above; ++j) {
      const double k = start + 1.0 + static_cast<double>(j), p = row.mass(k, w.top);
      const double part = p * (k - x);
      score += p * (2.0 * moment + part);
      moment += part;
      mass += p;
    }
    scores[i] = score / (mass * mass) + fabs(y[i] - x);
  }
}

inline void double_poisson_masses(in first, in mu, in phi, in logs, in heads, outs masses) {
  for (index_t i = 0; i < mu.n; ++i) {
    double* own = masses[i];
    if (mu[i] == 0.0) {
      for (index_t j = 0; j < masses.m; ++j) own[j] = first[i] + static_cast<double>(j) == 0.0;
      continue;
    }
    const double_poisson_row row(mu[i], phi[i], logs, heads);
    const double top = row.window().top;
    double total = 0.0;
    for (index_t j = 0; j < masses.m; ++j) {
      own[j] = row.mass(first[i] + static_cast<double>(j), top);
      total += own[j];
    }
    for (index_t j = 0; j < masses.m; ++j) own[j] /= total;
  }
}

// The cdf is summed in the order of double_poisson_tails, so that both agree to the last digit. `scratch` holds the
// masses of the longest window.
inline void double_poisson_quantiles(ins levels, in mu, in phi, in logs, in heads, in total,
                                     out scratch, outs values) {
  for (index_t i = 0; i < mu.n; ++i) {
    const vec<const double> own = levels.row(least(i, levels.n - 1));
    if (mu[i] == 0.0) {
      for (index_t column = 0; column < own.n; ++column) values[i][column] = 0.0;
      continue;
    }
    const double_poisson_row row(mu[i], phi[i], logs, heads);
    const double_poisson_window w = row.window();
    const index_t count = static_cast<index_t>(w.high - w.low) + 1;
    double* cdf = scratch.data;
    for (index_t j = 0; j < count; ++j) cdf[j] = row.mass(w.low + static_cast<double>(j), w.top);
    const index_t middle = static_cast<index_t>(w.mode - w.low);
    double lowest = own[0], mass = 0.0;
    for (index_t column = 1; column < own.n; ++column) lowest = least(lowest, own[column]);
    if (middle > 0 && lowest * total[i] < deep * cdf[middle]) mass = row.below_window(w.low, w);
    for (index_t j = 0; j < middle; ++j) {
      mass += cdf[j];
      cdf[j] = mass / total[i];
    }
    mass = 0.0;
    for (index_t j = count - 1; j >= middle; --j) {
      const double p = cdf[j];
      cdf[j] = 1.0 - mass / total[i];
      mass += p;
    }
    for (index_t column = 0; column < own.n; ++column) {
      const double level = own[column];
      if (level <= 0.0 || level >= 1.0) {
        values[i][column] = level <= 0.0 ? 0.0 : infinity;
        continue;
      }
      index_t first = 0, last = count;
      while (first < last) {
        const index_t between = (first + last) / 2;
        if (cdf[between] < level) {
          first = between + 1;
        } else {
          last = between;
        }
      }
      double k = w.low + static_cast<double>(first);
      if (first == 0) {
        while (k > 0.0 && level * total[i] <= row.lower_tail(k - 1.0, w.top)) k -= 1.0;
      }
      values[i][column] = k;
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
