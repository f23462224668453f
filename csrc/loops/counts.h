// Probabilities, scores and quantiles of Poisson rows (dispersion 0) and negative binomial rows.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr double pi = 3.141592653589793;
constexpr double negligible = 1e-17;         // share of a total that is below its rounding
constexpr double least_log = -690.0;      // least logarithm of a mass that a double holds with all digits
constexpr double in_range = 1e300;  // the dispersion times a count up to which formulas stay in range
constexpr index_t fresh_after = 512;      // counts after which the mass is computed anew, so that
                                          // rounding stays near 1e-13

inline double log_gamma(double x) {
#ifdef _MSC_VER
  return lgamma(x);
#else
  int sign;
  return lgamma_r(x, &sign);  // without the global sign
#endif
}

// log Gamma(x + 1) - log(sqrt(2 pi x) (x / e)^x) for x > 0, by Stirling's series from x = 16 on, where
// the first term left out is below 1e-16.
inline double stirling_error(double x) {
  if (x < 16.0) return log_gamma(x + 1.0) - (x + 0.5) * log(x) + x - half_log_2pi;
  const double s = 1.0 / (x * x);
  return (1 / 12.0 - s * (1 / 360.0 - s * (1 / 1260.0 - s * (1 / 1680.0 - s / 1188)))) / x;
}

// x log(x / m) + m - x for x, m > 0, from their difference, which may be more accurate than x - m.
// With v = (x - m) / (x + m), log(x / m) = 2 atanh(v). The series stops when a term is below 1e-16 of the
// sum.
inline double deviance(double x, double m, double gap) {
  const double v = gap / (x + m);
  if (fabs(v) < 0.1) {
    const double s = v * v;
    double odd = s * (1 / 11.0 + s * (1 / 13.0 + s * (1 / 15.0 + s / 17)));
    odd = s * (1 / 3.0 + s * (1 / 5.0 + s * (1 / 7.0 + s * (1 / 9.0 + odd))));
    return gap * v + 2.0 * x * v * odd;
  }
  if (x < 1e300 * m) return x * log(x / m) - gap;
  return x * (log(x) - log(m)) - gap;  // x / m overflows
}

inline double deviance(double x, double m) { return deviance(x, m, x - m); }

// The log probability of a count k >= 0, in the saddle-point form of Loader, "Fast and Accurate Computation
// of Binomial Probabilities", 2000. It adds small terms; differences of log-gamma functions lose five digits
// at 1e5.
inline double log_mass(double k, double mean, double alpha) {
  if (mean == 0.0) return k == 0.0 ? 0.0 : -infinity;
  if (alpha == 0.0) {
    if (k == 0.0) return -mean;
    return -half_log_2pi - 0.5 * log(k) - stirling_error(k) - deviance(k, mean);
  }
  const double odds = alpha * mean, size = 1.0 / alpha;
  if (k == 0.0) return -size * log1p(odds);
  const double total = size + k;
  double head = -half_log_2pi - 0.5 * (log1p(alpha * k) + log(k));
  head += stirling_error(total) - stirling_error(size) - stirling_error(k);
  const double gap = (k - mean) / (1.0 + odds);  // of k, and of the size, to its mean given k + size
  const double shrunk = (1.0 + alpha * k) * (mean / (1.0 + odds));
  return head - deviance(size, total / (1.0 + odds), -gap) - deviance(k, shrunk, gap);
}

inline bool is_count(double k) { return k >= 0.0 && k < infinity && k == floor(k); }

// The log probability of any count, also where alpha k overflows: far out, masses are a power and an
// exponential of the count.
inline double log_mass_anywhere(double k, double mean, double alpha) {
  const double far = alpha > 0.0 ? in_range / greatest(alpha, 1.0) : infinity;
  if (k <= far || mean <= 0.0) return log_mass(least(k, far), mean, alpha);
  const double odds = greatest(alpha * mean, 1e-300);
  return log_mass(far, mean, alpha) + (1.0 / alpha - 1.0) * log(k / far) - (k - far) * log1p(1.0 / odds);
}

// Each adds the logarithm of a ratio to the one before.
inline void consecutive_log_masses(in first, in mean, in alpha, outs masses) {
  for (index_t i = 0; i < first.n; ++i) {
    const double step = mean[i] / (1.0 + alpha[i] * mean[i]);
    double k = first[i], value = log_mass(k, mean[i], alpha[i]);
    for (index_t j = 0; j < masses.m; ++j) {
      masses[i][j] = value;
      k += 1.0;
      if (mean[i] > 0.0 && (j + 1) % fresh_after) {
        value += log(step * (1.0 + alpha[i] * (k - 1.0)) / k);
      } else {
        value = log_mass(k, mean[i], alpha[i]);
      }
    }
  }
}

// The largest count in [low, high] whose mass a double holds with all its digits. The sums below an outcome
// start at a mass and derive each mass from the one above it. Started at a mass that underflows to 0, all
// would be 0. Masses above the count returned are too small to affect a score.
inline double last_mass(double low, double high, double mean, double alpha) {
  if (log_mass(high, mean, alpha) > least_log) return high;
  while (high - low > 1.0) {
    const double middle = floor(0.5 * (low + high));
    if (log_mass(middle, mean, alpha) > least_log) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// E|Y - y| - E|Y - Y'| / 2 is the sum of p_i p_j min(|i - y|, |j - y|) over pairs on one side of y. All terms
// are positive and are added from y outwards, so scores near 0 keep their digits. If y is far out, the sum
// starts where the mass ends, at no extra cost.
template <bool poisson>
double count_crps(double outcome, double mean, double dispersion) {
  const double alpha = poisson ? 0.0 : dispersion, spread = 1.0 + alpha * mean;
  const double step = mean / spread;  // p(k + 1) / p(k) = step (1 + alpha k) / (k + 1), towards `limit`
  const double limit = alpha * step, sd = sqrt(mean * spread);
  // Less than e^-40 of the mass lies outside.
  const double low = greatest(floor(mean - 9.0 * sd), 0.0);
  const double high = last_mass(low, ceil(mean + 12.0 * sd + 60.0 * spread), mean, alpha);
  // Beyond the mass the score grows by the distance, which is added at the end: products would overflow.
  const double y = least(greatest(outcome, low - 1.0), high + 1.0);
  const double start = greatest(least(floor(y), high), low - 1.0);

  double score = 0.0, moment = 0.0;  // moment: sum of the masses so far times their distance from y
  double k = start, p = k >= low ? exp(log_mass(k, mean, alpha)) : 0.0;
  while (k >= low) {
    const double part = p * (y - k);
    score += p * (2.0 * moment + part);
    moment += part;
    if (k == 0.0) break;
    const double ratio = k / (poisson ? step : step * (1.0 + alpha * (k - 1.0)));
    p *= ratio;
    k -= 1.0;
    // The remaining masses fall at least geometrically.
    if (ratio < 1.0 && p * (2.0 * moment + p * (y - k)) <= negligible * (1.0 - ratio) * score) break;
  }

  moment = 0.0;
  k = start + 1.0;
  p = exp(log_mass(k, mean, alpha));
  for (;;) {
    const double part = p * (k - y);
    score += p * (2.0 * moment + part);
    moment += part;
    const double ratio = (poisson ? step : step * (1.0 + alpha * k)) / (k + 1.0);
    p *= ratio;
    k += 1.0;
    const double bound = greatest(ratio, limit);
    if (bound < 1.0 && p * (2.0 * moment + p * (k - y)) <= negligible * (1.0 - bound) * score) {
      return score + fabs(outcome - y);
    }
  }
}

inline void crps_by_sums(in y, in mean, in alpha, out scores) {
  for (index_t i = 0; i < y.n; ++i) {
    const bool plain = mean[i] == 0.0 || !is_finite(y[i]);
    scores[i] = plain              ? fabs(y[i])
                : alpha[i] == 0.0 ? count_crps<true>(y[i], mean[i], 0.0)
                                  : count_crps<false>(y[i], mean[i], alpha[i]);
  }
}

// E|Y - Y'| / 2 of a negative binomial row with positive mean and dispersion. For whole d,
// |d| = (1 / 2 pi) int (1 - cos(d t)) / (1 - cos t) dt over a period. This turns the mean difference into an
// integral of the squared modulus of the characteristic function, (1 + 2 b (1 + b) (1 - cos t))^(-1/a), with
// a the dispersion and b = a mean. Substituting z = tan(t/2), integrating by parts, and substituting
// z = sinh(x) / (1 + 2 b) gives
//     4 mean (1 + b) / (pi (1 + 2 b)) int_0^inf g(z)^(-1/a) / ((1 + z^2) cosh x) dx,
//     g(z) = 1 + 4 b (1 + b) z^2 / (1 + z^2)
// The integrand is positive, even, and analytic within pi/2 of the real line, so the trapezoidal rule
// converges exponentially (Trefethen & Weideman, SIAM Review 2014). Near 0 it resembles a normal density with
// standard deviation (1 + 2 b) / sqrt(8 mean (1 + b)). With a step of half of that, or 0.2, the error is
// 1e-13.
inline double half_gini_of(double mean, double alpha) {
  const double b = alpha * mean, wide = 1.0 + 2.0 * b, odd = 4.0 * b * (1.0 + b);
  const double step = least(0.2, 0.5 * wide / sqrt(8.0 * mean * (1.0 + b))), growth = exp(step);
  double total = 0.5, up = 1.0;
  for (;;) {
    up *= growth;
    const double z = (up - 1.0 / up) / (2.0 * wide), square = z * z;
    const double share = square / (1.0 + square), cosine = 0.5 * (up + 1.0 / up);
    const double term = exp(-log1p(odd * share) / alpha) / ((1.0 + square) * cosine);
    total += term;
    // Beyond the first standard deviations, each term is at most exp(-step) times the one before.
    if (term <= negligible * step * total) return 4.0 * mean * (1.0 + b) / (pi * wide) * step * total;
  }
}

inline void half_gini(in mean, in alpha, out values) {
  for (index_t i = 0; i < mean.n; ++i) values[i] = half_gini_of(mean[i], alpha[i]);
}

// Walks handle levels at least this far from 0 and 1. The others are rare, and far out.
constexpr double least_level = 1e-8;
// A level this close to a step of the cdf, relatively or absolutely, is decided by the public cdf instead. That
// rounds to 1e-13, or as a difference from 1 to 1e-16. Only one level in 1e7 is affected.
constexpr double near_step = 1e-9, close_to_step = 1e-15;
// The mass below this many standard deviations is e^-55, negligible relative to the least level. (The lower
// tail is no heavier than a normal one, because the third cumulant of tilted rows is positive.)
constexpr double walk_depth = 10.5;
constexpr index_t walk_per_level = 256;  // takes a tenth of one quantile and two cdfs of SciPy
constexpr index_t longest_walk = 1 << 15;  // in counts: 0.1 ms

// One walk upwards from the lower tail; each mass is the one before times a ratio.
template <bool poisson>
void walk_to_quantiles(const double* levels, const int64_t* order, index_t count, double mu,
                       double dispersion, double* values) {
  const double limit = static_cast<double>(least(walk_per_level * count, longest_walk));
  const double a = poisson ? 0.0 : dispersion, spread = 1.0 + a * mu, step = mu / spread;
  double k = floor(greatest(mu - walk_depth * sqrt(mu * spread), 0.0));
  bool walks = mu > 0.0 && mu - k <= limit;
  const double log_p = walks ? log_mass(k, mu, a) : 0.0;
  walks = walks && log_p > least_log;
  double p = exp(log_p), cdf = p, below = 0.0;
  const double last = k + limit;
  double fresh = k + static_cast<double>(fresh_after);
  for (index_t column = 0; column < count; ++column) {
    const index_t place = order[column];
    const double level = levels[place];
    double& value = values[place];
    if (level <= 0.0 || mu == 0.0) {
      value = 0.0;
      continue;
    }
    if (level >= 1.0) {
      value = infinity;
      continue;
    }
    if (!walks || level < least_level || level > 1.0 - least_level) {
      value = not_a_number();
      continue;
    }
    while (cdf < level && k < last) {
      p *= (poisson ? step : step * (1.0 + a * k)) / (k + 1.0);
      k += 1.0;
      if (k == fresh) {
        p = exp(log_mass(k, mu, a));
        fresh += static_cast<double>(fresh_after);
      }
      below = cdf;
      cdf += p;
    }
    const double near = near_step * level + close_to_step;
    value = cdf - level > near && level - below > near ? k : not_a_number();
  }
}

inline void count_quantiles(ins levels, mat<const int64_t> order, in mean, in alpha, outs values) {
  for (index_t i = 0; i < mean.n; ++i) {
    const index_t row = least(i, levels.n - 1);
    const auto walk = alpha[i] == 0.0 ? walk_to_quantiles<true> : walk_to_quantiles<false>;
    walk(levels[row], order[row], levels.m, mean[i], alpha[i], values[i]);
  }
}

// The logarithm of a bound on P(Y > k), for k from the mode on: there masses fall at least geometrically.
inline double log_above(double k, double mean, double alpha) {
  const double step = mean / (1.0 + alpha * mean);
  const double ratio = greatest(step * (1.0 + alpha * (k + 1.0)) / (k + 2.0), alpha * step);
  return ratio < 1.0 ? log_mass(k + 1.0, mean, alpha) - log1p(-ratio) : infinity;
}

// The same for P(Y < k), for k up to the mode.
inline double log_below(double k, double mean, double alpha) {
  if (k <= 0.0) return -infinity;
  const double ratio = (k - 1.0) / (mean / (1.0 + alpha * mean) * (1.0 + alpha * (k - 2.0)));
  if (k > 1.0 && !(ratio < 1.0 && alpha <= 1.0)) return infinity;
  return log_mass(k - 1.0, mean, alpha) - (k > 1.0 ? log1p(-ratio) : 0.0);
}

// The first and the last count of each row, with at most `tail` of the mass below and above. They may be a few counts
// too far out, because the masses are bounds, and because bisection stops where that costs little.
inline void count_ranges(in mean, in alpha, double tail, out first, out last) {
  constexpr double enough = 0.02;  // of the range, by which it may be too long
  const double level = log(tail);
  for (index_t i = 0; i < mean.n; ++i) {
    const double m = mean[i], a = alpha[i], middle = floor(m);
    first[i] = last[i] = 0.0;
    if (m == 0.0) continue;
    double step = 8.0 * ceil(sqrt(m * (1.0 + a * m))) + 8.0;
    double low = middle, high = middle + step;
    while (log_above(high, m, a) > level) low = high, high += step, step *= 2.0;
    while (high - low > greatest(1.0, enough * (high - middle))) {
      const double between = floor(0.5 * (low + high));
      (log_above(between, m, a) > level ? low : high) = between;
    }
    last[i] = high;
    low = greatest(middle - 9.0 * ceil(sqrt(m * (1.0 + a * m))), 0.0);
    while (log_below(low, m, a) > level) low = greatest(low - step, 0.0);
    high = middle;
    while (high - low > greatest(1.0, enough * (middle - low))) {
      const double between = floor(0.5 * (low + high));
      (log_below(between, m, a) > level ? high : low) = between;
    }
    first[i] = low;
  }
}

// The masses (n, L) of consecutive counts k from `first` (n,) on, divided by their sum: products of the ratios step
// (base + slope k) / (k + 1), or 0 where they are negative. Rounding errors grow with the square root of L.
inline void count_masses(in first, in step, in base, in slope, outs masses) {
  constexpr index_t summed_together = 128;  // sums of sums round less
  const index_t count = masses.m;
  for (index_t i = 0; i < first.n; ++i) {
    double* mass = masses[i];
    const double factor = step[i], from = base[i], rise = slope[i], before = first[i] - 1.0;
    for (index_t j = 0; j < count; ++j) {
      const double k = before + static_cast<double>(j);
      mass[j] = greatest(factor * (from + rise * k) / (k + 1.0), 0.0);
    }
    double product = 1.0, sum = 0.0, part = 1.0;
    mass[0] = 1.0;
    for (index_t j = 1; j < count; ++j) {
      product *= mass[j];
      mass[j] = product;
      part += product;
      if (j % summed_together == 0) sum += part, part = 0.0;
    }
    sum += part;
    for (index_t j = 0; j < count; ++j) mass[j] /= sum;
  }
}

// Temme's uniform expansion of the incomplete gamma functions, with a = k + 1 and eta^2 / 2 = m/a - 1 - log(m/a)
// (NIST Digital Library of Mathematical Functions, 8.12.3 to 8.12.11):
//     P(Y <= k) = erfc(eta sqrt(a/2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) sum_i c_i(eta) a^-i
// If the tail does not underflow, eta is below 0.07 and the terms left out are below 1e-15 of the tail.
inline void poisson_tails(in k, in mean, bool upper, out tails) {
  constexpr double underflows = 800.0;  // exponent beyond which the series would overflow
  for (index_t i = 0; i < k.n; ++i) {
    const double a = k[i] + 1.0, half = deviance(a, mean[i]);  // a eta^2 / 2
    if (half > underflows) {
      tails[i] = (mean[i] < a) == upper ? 0.0 : 1.0;
      continue;
    }
    const double root = copysign(sqrt(half), mean[i] - a), eta = root * sqrt(2.0 / a);
    double c = -281 / 151559100.0;
    c = -571 / 261273600.0 + eta * c;
    c = 1 / 25515.0 + eta * c;
    c = -139 / 777600.0 + eta * c;
    c = 1 / 2835.0 + eta * c;
    c = 1 / 864.0 + eta * c;
    c = -2 / 135.0 + eta * c;
    c = 1 / 12.0 + eta * c;
    c = -1 / 3.0 + eta * c;
    c += (-1 / 540.0 + eta * (-1 / 288.0 + eta * (1 / 378.0 - eta * 77 / 77760))) / a;
    c += 25 / 6048.0 / (a * a);
    const double rest = exp(-half) * c / sqrt(2.0 * pi * a);
    tails[i] = upper ? 0.5 * erfc(-root) - rest : 0.5 * erfc(root) + rest;
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
