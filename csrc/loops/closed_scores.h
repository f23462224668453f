// Scores and tails of normal, logistic and Laplace distributions, and of parts of them on intervals, in closed form.
#pragma once

#include "row_values.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// (1 + 2 x) exp(x^2) erfc(x) in t = (x - 3.75) / (x + 3.75) for x >= 0, from the highest power down: a Chebyshev fit at
// 50 digits, whose error is below 6e-17. The variable is that of Shepherd & Laframboise, Mathematics of Computation
// 36 (1981).
constexpr index_t erfc_terms = 24;
constexpr double erfc_middle = 3.75;
constexpr double scaled_erfc[erfc_terms] = {
    3.1114333810630716e-10, -2.6231073471292246e-09, -3.744210081007657e-09, 3.197926671664577e-08,
    2.3263508708967815e-08, -2.4857126248011715e-07, -5.72182306033713e-08, 1.7419821586224177e-06,
    -9.7355989673665e-07, -1.1438048033346843e-05, 2.238423915508216e-05, 5.1646529741774135e-05,
    -0.00029015408054084167, 0.00029371437804495806, 0.0017556258528952954, -0.009746579683265262,
    0.028362277418956406, -0.05869339857664934, 0.09230432116037748, -0.10880393014244462, 0.0822767384901452,
    0.0035854154854790257, -0.14024059858554697, 1.2375126308378275};
constexpr double root_2 = 1.4142135623730951, inverse_root_pi = 0.5641895835477563;
constexpr double farthest = 1000.0;       // standardised distance beyond which all tails are 0
constexpr double small_exponent = 0.34;   // up to which exp(-x) needs no power of 2
constexpr double most_lost_share = 300.0;  // ratio of the terms of a sum to the sum beyond which digits are lost

// Of a distribution that is symmetric around 0, with density f, at numbers -x <= 0: the mass T below, the integral M
// of -t f(t) up to -x, and the integral Q of 2 M(t) f(t) up to -x. 'total' is that of Q over the line, and 'at_centre'
// the continuous ranked probability score at 0.
struct tail_values {
  row_values tail, mean, square;
};

// Replaces x >= 0 by exp(x^2) erfc(x).
inline void scaled_complements(row_values& x) {
  constexpr index_t m = block_rows;
  row_values t, series;
  for (index_t k = 0; k < m; ++k) {
    t.at[k] = (x.at[k] - erfc_middle) / (x.at[k] + erfc_middle);
    series.at[k] = scaled_erfc[0];
  }
  for (index_t j = 1; j < erfc_terms; ++j) {
    for (index_t k = 0; k < m; ++k) series.at[k] = series.at[k] * t.at[k] + scaled_erfc[j];
  }
  for (index_t k = 0; k < m; ++k) x.at[k] = series.at[k] / (1.0 + 2.0 * x.at[k]);
}

// Replaces x >= 0 by 1 - exp(-x), whose digits all count where x is small, too.
inline void exponential_masses(row_values& x) {
  constexpr index_t m = block_rows;
  constexpr const double* q = exp_constants<double>::q;
  row_values power, small;
  for (index_t k = 0; k < m; ++k) power.at[k] = -x.at[k];
  exponentials(power.at);
  for (index_t k = 0; k < m; ++k) {
    const double r = x.at[k] < small_exponent ? -x.at[k] : 0.0, r2 = r * r, r4 = r2 * r2;
    const double low = (q[9] + q[8] * r) + r2 * (q[7] + q[6] * r);
    const double high = (q[5] + q[4] * r) + r2 * (q[3] + q[2] * r);
    small.at[k] = -((low + r4 * (high + r4 * (q[1] + q[0] * r))) * r2 + r);
  }
  for (index_t k = 0; k < m; ++k) x.at[k] = x.at[k] < small_exponent ? small.at[k] : 1.0 - power.at[k];
}

// exp(-x^2 / 2). The square is split: rounding it would cost digits of small values.
inline void normal_heights(const row_values& x, row_values& height) {
  constexpr index_t m = block_rows;
  row_values rest;
  for (index_t k = 0; k < m; ++k) {
    uint64_t bits;
    memcpy(&bits, &x.at[k], sizeof bits);
    bits &= 0xfffffffff8000000;  // 26 digits, whose square is exact
    double high;
    memcpy(&high, &bits, sizeof bits);
    height.at[k] = -0.5 * (high * high);
    rest.at[k] = -0.5 * ((x.at[k] - high) * (x.at[k] + high));  // below 1e-5 where the height is not 0
  }
  exponentials(height.at);
  for (index_t k = 0; k < m; ++k) {
    const double r = rest.at[k];
    height.at[k] *= 1.0 + r * (1.0 + r * (0.5 + r / 6.0));
  }
}

struct standard_normal {
  static constexpr double total = inverse_root_pi, at_centre = (root_2 - 1.0) * inverse_root_pi;
  static void tails(const row_values& size, tail_values& of, bool squares) {
    constexpr index_t m = block_rows;
    constexpr double peak = 0.3989422804014327;
    row_values height, scaled;
    normal_heights(size, height);
    for (index_t k = 0; k < m; ++k) scaled.at[k] = size.at[k] / root_2;
    scaled_complements(scaled);
    for (index_t k = 0; k < m; ++k) {
      of.tail.at[k] = 0.5 * height.at[k] * scaled.at[k];
      of.mean.at[k] = peak * height.at[k];
    }
    if (!squares) return;
    scaled = size;
    scaled_complements(scaled);
    for (index_t k = 0; k < m; ++k) {
      of.square.at[k] = 0.5 * inverse_root_pi * height.at[k] * height.at[k] * scaled.at[k];
    }
  }
};

struct standard_logistic {
  static constexpr double total = 1.0, at_centre = 0.3862943611198906;  // 2 log 2 - 1
  static void tails(const row_values& size, tail_values& of, bool) {
    constexpr index_t m = block_rows;
    row_values small, logs;
    for (index_t k = 0; k < m; ++k) small.at[k] = -size.at[k];
    exponentials(small.at);
    for (index_t k = 0; k < m; ++k) logs.at[k] = 1.0 + small.at[k];
    logarithms(logs, 1.0, 2.0);
    for (index_t k = 0; k < m; ++k) {
      const double e = small.at[k], whole = 1.0 + e, p = e / whole, q = 1.0 / whole;
      const double log_whole = logs.at[k] + (e - (whole - 1.0)) / whole;
      of.tail.at[k] = p;
      of.mean.at[k] = size.at[k] * p + log_whole;
      of.square.at[k] = p * p * (size.at[k] + log_whole) + (p - q * q * log_whole);
    }
  }
};

struct standard_laplace {
  static constexpr double total = 0.75, at_centre = 0.25;
  static void tails(const row_values& size, tail_values& of, bool) {
    constexpr index_t m = block_rows;
    row_values small;
    for (index_t k = 0; k < m; ++k) small.at[k] = -size.at[k];
    exponentials(small.at);
    for (index_t k = 0; k < m; ++k) {
      const double e = small.at[k];
      of.tail.at[k] = 0.5 * e;
      of.mean.at[k] = 0.5 * (1.0 + size.at[k]) * e;
      of.square.at[k] = e * e * (0.375 + 0.25 * size.at[k]);
    }
  }
};

inline double within_reach(double size) { return size < farthest ? size : farthest; }

// Writes continuous ranked probability scores at y: |y - loc| + scale (2 M - 2 x T - total), x = |y - loc| / scale.
template <class Family>
void symmetric_scores_of(in y, in loc, in scale, out scores) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values at = rows_from(y, start, n), centre = rows_from(loc, start, n), unit = rows_from(scale, start, n);
    row_values gap, size, score;
    tail_values of;
    for (index_t k = 0; k < m; ++k) gap.at[k] = fabs(at.at[k] - centre.at[k]);
    for (index_t k = 0; k < m; ++k) size.at[k] = within_reach(gap.at[k] / unit.at[k]);
    Family::tails(size, of, false);
    for (index_t k = 0; k < m; ++k) {
      const double part = 2.0 * (of.mean.at[k] - size.at[k] * of.tail.at[k]) - Family::total;
      score.at[k] = gap.at[k] + unit.at[k] * part;
    }
    write_rows(score, scores, start, n);
  }
}

// Writes scores of distributions whose halves have scales of their own, and masses in proportion to them. With the share
// w of the half that holds y, that w' of the other and the scores d and d' at the mode of both symmetric distributions,
// the score is |y - loc| + 2 w (D(y) - d - |y - loc|) + 2 (w^2 d + w'^2 d').
template <class Family>
void two_piece_scores_of(in y, in loc, in lower, in upper, out scores) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values at = rows_from(y, start, n), centre = rows_from(loc, start, n);
    const row_values left = rows_from(lower, start, n), right = rows_from(upper, start, n);
    row_values gap, size, score;
    tail_values of;
    for (index_t k = 0; k < m; ++k) {
      gap.at[k] = fabs(at.at[k] - centre.at[k]);
      size.at[k] = within_reach(gap.at[k] / (at.at[k] > centre.at[k] ? right.at[k] : left.at[k]));
    }
    Family::tails(size, of, false);
    for (index_t k = 0; k < m; ++k) {
      const double low = left.at[k], high = right.at[k];
      const double below = 1.0 / (1.0 + high / low), above = 1.0 / (1.0 + low / high);
      const double weighted = at.at[k] > centre.at[k] ? above * high : below * low;
      const double part = 2.0 * (of.mean.at[k] - size.at[k] * of.tail.at[k]) - Family::total - Family::at_centre;
      const double both = below * below * low + above * above * high;
      score.at[k] = gap.at[k] + 2.0 * (weighted * part + Family::at_centre * both);
    }
    write_rows(score, scores, start, n);
  }
}

// Writes scores of exponential distributions, with further masses p at 0 if there are any. With a = 1 - p, the score is
// |y| - a (2 (1 - exp(-rate y)) - a / 2) / rate, whose exponential is 1 for y < 0.
inline void exponential_scores(in y, in rate, in mass, out scores) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values at = rows_from(y, start, n), speed = rows_from(rate, start, n);
    row_values cdf, share, score;
    for (index_t k = 0; k < m; ++k) cdf.at[k] = greatest(at.at[k], 0.0) * speed.at[k];
    exponential_masses(cdf);
    if (mass.n) {
      share = rows_from(mass, start, n);
      for (index_t k = 0; k < m; ++k) share.at[k] = 1.0 - share.at[k];
    } else {
      for (index_t k = 0; k < m; ++k) share.at[k] = 1.0;
    }
    for (index_t k = 0; k < m; ++k) {
      score.at[k] = fabs(at.at[k]) - share.at[k] * (2.0 * cdf.at[k] - 0.5 * share.at[k]) / speed.at[k];
    }
    write_rows(score, scores, start, n);
  }
}

// Writes integrals of (F(t) - 1{t >= y})^2 from low to high, where F rises in a straight line from 'below' by 'rise' to
// 1 - 'above'. Without masses, F is the uniform cdf, and the distance of y to the interval is added.
inline void linear_scores(in y, in low, in high, in below, in rise, in above, out scores) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values at = rows_from(y, start, n), left = rows_from(low, start, n), right = rows_from(high, start, n);
    row_values length, share, score;
    for (index_t k = 0; k < m; ++k) {
      // NaN, which greatest and least take for a number, passes through the difference.
      const double place = least(greatest(at.at[k], left.at[k]), right.at[k]);
      length.at[k] = right.at[k] - left.at[k];
      share.at[k] = (place - left.at[k]) / length.at[k];
      score.at[k] = fabs(at.at[k] - place);
    }
    if (rise.n) {
      const row_values first = rows_from(below, start, n), w = rows_from(rise, start, n);
      const row_values last = rows_from(above, start, n);
      for (index_t k = 0; k < m; ++k) {
        const double s = share.at[k], risen = w.at[k] * s, rest = w.at[k] * (1.0 - s);
        const double a = first.at[k] * first.at[k] + risen * (first.at[k] + risen / 3.0);
        const double b = last.at[k] * last.at[k] + rest * (last.at[k] + rest / 3.0);
        score.at[k] = length.at[k] * (s * a + (1.0 - s) * b);
      }
    } else {
      for (index_t k = 0; k < m; ++k) {
        const double s = share.at[k];
        score.at[k] += length.at[k] * (s * s - s + 1.0 / 3.0);
      }
    }
    write_rows(score, scores, start, n);
  }
}

// -log P(Y > gap) of generalised Pareto distributions from 0 on, log(1 + xi z) / xi with z = gap / scale >= 0.
inline double pareto_hazard(double gap, double xi, double scale) {
  constexpr double slight = 1e-16;  // product below which log(1 + x) is x to rounding
  const double z = gap / scale, product = xi * z;
  if (fabs(product) < slight || xi == 0.0) return z;
  if (xi > 0.0 && !is_finite(product) && is_finite(gap)) return (log(xi) + log(gap) - log(scale)) / xi;
  return log1p(greatest(product, -1.0)) / xi;
}

// Replaces gaps >= 0 by their hazards.
inline void pareto_hazards(row_values& gap, const row_values& xi, const row_values& scale) {
  constexpr index_t m = block_rows;
  constexpr double slight = 1e-16, least_product = -0.999999, most_product = 1e300;
  row_values z, product, growth;
  row_marks is_usual;
  for (index_t k = 0; k < m; ++k) {
    z.at[k] = gap.at[k] / scale.at[k];
    product.at[k] = xi.at[k] * z.at[k];
    is_usual.at[k] = (product.at[k] > least_product) & (product.at[k] < most_product);
    growth.at[k] = is_usual.at[k] ? product.at[k] : 0.0;
  }
  logarithms_of_growth(growth);
  for (index_t k = 0; k < m; ++k) {
    const bool is_slight = fabs(product.at[k]) < slight;
    z.at[k] = is_slight ? z.at[k] : growth.at[k] / (is_slight ? 1.0 : xi.at[k]);
  }
  for_unusual(is_usual, [&](index_t k) {
    // At and beyond the upper end there is no mass.
    z.at[k] = product.at[k] <= -1.0 ? infinity : pareto_hazard(gap.at[k], xi.at[k], scale.at[k]);
  });
  gap = z;
}

// Writes scores of generalised Pareto distributions. With z = (y - loc) / scale, the hazard h at y and a = 1 - xi, the
// score is scale (|z| - 2 (1 - exp(-a h)) / a + 1 / (2 - xi)), with h for the fraction at a = 0; infinite for xi >= 2.
inline void pareto_scores(in y, in shape, in scale, in loc, out scores) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values at = rows_from(y, start, n), xi = rows_from(shape, start, n), unit = rows_from(scale, start, n);
    const row_values origin = rows_from(loc, start, n);
    row_values gap, hazard, share, score;
    for (index_t k = 0; k < m; ++k) {
      gap.at[k] = at.at[k] - origin.at[k];
      hazard.at[k] = greatest(gap.at[k], 0.0);
    }
    pareto_hazards(hazard, xi, unit);
    row_marks is_usual;
    for (index_t k = 0; k < m; ++k) {
      is_usual.at[k] = (xi.at[k] < 1.0) & is_finite(gap.at[k]);
      share.at[k] = is_usual.at[k] ? (1.0 - xi.at[k]) * hazard.at[k] : 1.0;
    }
    exponential_masses(share);
    for (index_t k = 0; k < m; ++k) {
      const double part = 1.0 / (2.0 - xi.at[k]) - 2.0 * (share.at[k] / (1.0 - xi.at[k]));
      score.at[k] = fabs(gap.at[k]) + unit.at[k] * part;
    }
    for_unusual(is_usual, [&](index_t k) {
      const double a = 1.0 - xi.at[k], h = hazard.at[k], part = a == 0.0 ? h : -expm1(-a * h) / a;
      const double sum = fabs(gap.at[k]) + unit.at[k] * (1.0 / greatest(2.0 - xi.at[k], 0.0) - 2.0 * part);
      const bool is_infinite = xi.at[k] >= 2.0 || fabs(gap.at[k]) == infinity;
      score.at[k] = is_nan(gap.at[k]) ? gap.at[k] : is_infinite ? infinity : sum;
    });
    write_rows(score, scores, start, n);
  }
}

// Writes scores of log-Laplace distributions, whose logarithms have the median log(scale) and the scale s = 1 / shape.
// With z = y / scale and x = |log z| / s, the score is, in units of the scale,
//     |z - 1| - s (1 - exp(-p x)) / p + s / (4 - s^2), with p = 1 + s for z < 1 and 1 - s from there on,
// from the formulas of Jordan, Krueger & Lerch (JSS 2019), appendix A. It is infinite for shapes up to 1 and
// for infinite y.
inline void log_laplace_scores(in y, in scale, in shape, out scores) {
  constexpr index_t m = block_rows;
  constexpr double farthest_ratio = 1e300;  // from here on only the distance counts
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values at = rows_from(y, start, n), unit = rows_from(scale, start, n), c = rows_from(shape, start, n);
    row_values z, size, part, score;
    for (index_t k = 0; k < m; ++k) {
      z.at[k] = at.at[k] / unit.at[k];
      z.at[k] = z.at[k] > farthest_ratio ? farthest_ratio : z.at[k];
      size.at[k] = z.at[k] > 0.0 ? z.at[k] : 1.0;
    }
    row_logarithms(size);
    for (index_t k = 0; k < m; ++k) {
      const double s = 1.0 / c.at[k], x = z.at[k] > 0.0 ? fabs(c.at[k] * size.at[k]) : infinity;
      part.at[k] = x * fabs(z.at[k] < 1.0 ? 1.0 + s : s - 1.0);
    }
    exponential_masses(part);
    for (index_t k = 0; k < m; ++k) {
      const double s = 1.0 / c.at[k], power = fabs(z.at[k] < 1.0 ? 1.0 + s : 1.0 - s);
      const double sum = fabs(z.at[k] - 1.0) - s * (part.at[k] / power) + s / (4.0 - s * s);
      const bool is_far = fabs(z.at[k]) >= farthest_ratio;
      const double value = is_far ? fabs(at.at[k]) : unit.at[k] * sum;
      score.at[k] = !is_finite(at.at[k]) ? fabs(at.at[k]) : c.at[k] > 1.0 ? value : infinity;
    }
    write_rows(score, scores, start, n);
  }
}

// The smaller tails at z; exactly a half at the centre, which the series misses by a rounding.
template <class Family>
row_values tails_at(const row_values& z) {
  row_values size;
  tail_values of;
  for (index_t k = 0; k < block_rows; ++k) size.at[k] = within_reach(fabs(z.at[k]));
  Family::tails(size, of, false);
  for (index_t k = 0; k < block_rows; ++k) of.tail.at[k] = z.at[k] == 0.0 ? 0.5 : of.tail.at[k];
  return of.tail;
}

inline row_values standardised(in y, in loc, in scale, index_t start, index_t n) {
  const row_values at = rows_from(y, start, n), centre = rows_from(loc, start, n), unit = rows_from(scale, start, n);
  row_values z;
  for (index_t k = 0; k < block_rows; ++k) z.at[k] = (at.at[k] - centre.at[k]) / unit.at[k];
  return z;
}

// Writes P(Y <= y) and P(Y > y).
template <class Family>
void symmetric_tails_of(in y, in loc, in scale, out below, out above) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values z = standardised(y, loc, scale, start, n), tails = tails_at<Family>(z);
    row_values lower, upper;
    for (index_t k = 0; k < m; ++k) {
      const double tail = tails.at[k], other = 1.0 - tail, missing = z.at[k] - z.at[k];
      const bool is_missing = z.at[k] != z.at[k];
      lower.at[k] = is_missing ? missing : z.at[k] > 0.0 ? other : tail;
      upper.at[k] = is_missing ? missing : z.at[k] > 0.0 ? tail : other;
    }
    write_rows(lower, below, start, n);
    write_rows(upper, above, start, n);
  }
}

// Writes P(Y < low), P(Y >= low), P(Y <= high), P(Y > high) and P(low <= Y <= high), the last from the smaller tails.
template <class Family>
void interval_masses_of(in low, in high, in loc, in scale, out below, out from, out upto, out above, out inside) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < low.n; start += m) {
    const index_t n = least(m, low.n - start);
    const row_values a = standardised(low, loc, scale, start, n), b = standardised(high, loc, scale, start, n);
    const row_values first = tails_at<Family>(a), last = tails_at<Family>(b);
    row_values lower, from_low, to_high, upper, mass;
    for (index_t k = 0; k < m; ++k) {
      const double p = first.at[k], q = last.at[k], rest = 1.0 - p, other = 1.0 - q;
      lower.at[k] = a.at[k] > 0.0 ? rest : p;
      from_low.at[k] = a.at[k] > 0.0 ? p : rest;
      to_high.at[k] = b.at[k] > 0.0 ? other : q;
      upper.at[k] = b.at[k] > 0.0 ? q : other;
      mass.at[k] = lower.at[k] > 0.5 ? from_low.at[k] - upper.at[k] : to_high.at[k] - lower.at[k];
    }
    write_rows(lower, below, start, n);
    write_rows(from_low, from, start, n);
    write_rows(to_high, upto, start, n);
    write_rows(upper, above, start, n);
    write_rows(mass, inside, start, n);
  }
}

// The mass, or the integral of 2 M f, between a < b: tails there and the total of the line.
inline double between(double a, double b, double tail_a, double tail_b, double total) {
  if (a > 0.0) return tail_a - tail_b;
  return b > 0.0 ? total - tail_a - tail_b : tail_b - tail_a;
}

// The integral of (F(t) - 1{t >= x})^2 from l to u, where F rises from a to a + w = 1 - b in proportion to the cdf of a
// distribution that is symmetric around 0; NaN where digits are lost. The three z are l <= x <= u, with their tails;
// gaps are x - l and u - x before they were rounded, and squares those of l and u.
//
// With p and r the masses from l to x and from x to u, M(x) the integral of t f(t) beyond x, and c = w / (p + r), the
// integral is by parts
//     a^2 (x - l) + 2 a c (x p + M(x) - M(l)) + b^2 (u - x) + 2 b c (M(x) - M(u) - x r)
//         + c^2 (x (p^2 - r^2) + 2 M(x) (p + r) - Q(l, u)).
inline double piece_sum(const double (&z)[3], const double (&gaps)[2], const double (&tails)[3],
                        const double (&means)[3], const double (&squares)[2], double total, double a, double w,
                        double b) {
  const double l = z[0], x = z[1], u = z[2];
  const double p = between(l, x, tails[0], tails[1], 1.0), r = between(x, u, tails[1], tails[2], 1.0);
  const double mass = between(l, u, tails[0], tails[2], 1.0), c = w / mass;
  const double square = between(l, u, squares[0], squares[1], total), mean = means[1];
  const double left = a > 0.0 ? a * a * gaps[0] : 0.0, right = b > 0.0 ? b * b * gaps[1] : 0.0;
  // At an end the terms of its side vanish exactly, and no digits of theirs are lost.
  const bool is_inside = gaps[0] > 0.0, is_before = gaps[1] > 0.0;
  const double inner = is_inside ? x * p + (mean - means[0]) : 0.0, outer = is_before ? (mean - means[2]) - x * r : 0.0;
  const double both = x * ((p - r) * mass) + 2.0 * mean * mass - square;
  const double sum = left + right + 2.0 * c * (a * inner + b * outer) + c * c * both;
  const double size = fabs(x), masses = tails[0] + tails[2] + mass;
  const double lower = is_inside ? a * (size * p + mean + means[0]) : 0.0;
  const double ends = lower + (is_before ? b * (size * r + mean + means[2]) : 0.0);
  const double inside = size * (p * p + r * r) + 2.0 * mass * mean + squares[0] + squares[1] + square + masses * mass;
  const double terms = left + right + 2.0 * c * ends + c * c * inside;
  // The mass may be a difference of tails, which rounded ends change: those of a normal distribution the most.
  const double smaller = l > 0.0 ? (1.0 + l * l) * tails[0] : u < 0.0 ? (1.0 + u * u) * tails[2] : 0.0;
  const bool is_safe = terms * greatest(1.0, smaller / mass) <= most_lost_share * sum && sum < infinity;
  return is_safe ? sum : not_a_number();
}

// Writes the integrals of `piece_sum` for rows of numbers (n, 3) with their tails.
inline void piece_sums(ins z, ins gaps, ins tails, ins means, ins squares, in total, in below, in rise, in above,
                       out sums) {
  for (index_t i = 0; i < z.n; ++i) {
    const double points[3] = {z[i][0], z[i][1], z[i][2]}, steps[2] = {gaps[i][0], gaps[i][1]};
    const double masses[3] = {tails[i][0], tails[i][1], tails[i][2]};
    const double moments[3] = {means[i][0], means[i][1], means[i][2]};
    const double ends[2] = {squares[i][0], squares[i][1]};
    sums[i] = piece_sum(points, steps, masses, moments, ends, total[i], below[i], rise[i], above[i]);
  }
}

// Writes integrals of (F(t) - 1{t >= y})^2 from low to high, where F rises from 'below' by 'rise' to 1 - 'above' in
// proportion to the cdf; NaN where digits are lost. Without masses, F is the cdf itself.
template <class Family>
void piece_scores_of(in y, in loc, in scale, in low, in high, in below, in rise, in above, out scores) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values at = rows_from(y, start, n), centre = rows_from(loc, start, n), unit = rows_from(scale, start, n);
    const row_values left = rows_from(low, start, n), right = rows_from(high, start, n);
    row_values z[3], size[3], gaps[2];
    tail_values of[3];
    for (index_t k = 0; k < m; ++k) {
      const double inside = least(greatest(at.at[k], left.at[k]), right.at[k]);
      const double points[3] = {left.at[k], inside, right.at[k]};
      for (int j = 0; j < 2; ++j) gaps[j].at[k] = (points[j + 1] - points[j]) / unit.at[k];
      for (int j = 0; j < 3; ++j) {
        z[j].at[k] = (points[j] - centre.at[k]) / unit.at[k];
        size[j].at[k] = within_reach(fabs(z[j].at[k]));
      }
    }
    for (int j = 0; j < 3; ++j) Family::tails(size[j], of[j], j != 1);
    for (index_t k = 0; k < n; ++k) {
      const index_t i = start + k;
      const double points[3] = {z[0].at[k], z[1].at[k], z[2].at[k]};
      const double tails[3] = {of[0].tail.at[k], of[1].tail.at[k], of[2].tail.at[k]};
      const double means[3] = {of[0].mean.at[k], of[1].mean.at[k], of[2].mean.at[k]};
      const double squares[2] = {of[0].square.at[k], of[2].square.at[k]};
      const double steps[2] = {gaps[0].at[k], gaps[1].at[k]};
      double a, w, b;
      if (rise.n) {
        a = below[i], w = rise[i], b = above[i];
      } else {
        a = points[0] > 0.0 ? 1.0 - tails[0] : tails[0];
        w = between(points[0], points[2], tails[0], tails[2], 1.0);
        b = points[2] > 0.0 ? tails[2] : 1.0 - tails[2];
      }
      const double sum = piece_sum(points, steps, tails, means, squares, Family::total, a, w, b);
      scores[i] = scale[i] * sum;
    }
  }
}

enum symmetric_family : int { normal_family, logistic_family, laplace_family };  // SymmetricFamily in Python

template <class Work>
void with_family(int64_t family, Work work) {
  if (family == normal_family) work(standard_normal());
  if (family == logistic_family) work(standard_logistic());
  if (family == laplace_family) work(standard_laplace());
}

inline void symmetric_scores(int64_t family, in y, in loc, in scale, out scores) {
  with_family(family, [&](auto kind) { symmetric_scores_of<decltype(kind)>(y, loc, scale, scores); });
}

inline void two_piece_scores(int64_t family, in y, in loc, in lower, in upper, out scores) {
  with_family(family, [&](auto kind) { two_piece_scores_of<decltype(kind)>(y, loc, lower, upper, scores); });
}

inline void symmetric_tails(int64_t family, in y, in loc, in scale, out below, out above) {
  with_family(family, [&](auto kind) { symmetric_tails_of<decltype(kind)>(y, loc, scale, below, above); });
}

inline void interval_masses(int64_t family, in low, in high, in loc, in scale, out below, out from, out upto, out above,
                            out inside) {
  with_family(family, [&](auto kind) {
    interval_masses_of<decltype(kind)>(low, high, loc, scale, below, from, upto, above, inside);
  });
}

inline void piece_scores(int64_t family, in y, in loc, in scale, in low, in high, in below, in rise, in above,
                         out scores) {
  with_family(family, [&](auto kind) {
    piece_scores_of<decltype(kind)>(y, loc, scale, low, high, below, rise, above, scores);
  });
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
