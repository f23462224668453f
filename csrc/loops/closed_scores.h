// Scores and tails of normal, logistic and Laplace distributions, and of parts of them on intervals, in closed form.
#pragma once

#include "densities.h"

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
  node_values tail, mean, square;
};

// Replaces x >= 0 by exp(x^2) erfc(x).
inline void scaled_complements(node_values& x) {
  constexpr index_t m = panel_nodes;
  node_values t, series;
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
inline void exponential_masses(node_values& x) {
  constexpr index_t m = panel_nodes;
  constexpr const double* q = exp_constants<double>::q;
  node_values power, small;
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
inline void normal_heights(const node_values& x, node_values& height) {
  constexpr index_t m = panel_nodes;
  node_values rest;
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
  static void tails(const node_values& size, tail_values& of, bool squares) {
    constexpr index_t m = panel_nodes;
    constexpr double peak = 0.3989422804014327;
    node_values height, scaled;
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
  static void tails(const node_values& size, tail_values& of, bool) {
    constexpr index_t m = panel_nodes;
    node_values small, logs;
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
  static void tails(const node_values& size, tail_values& of, bool) {
    constexpr index_t m = panel_nodes;
    node_values small;
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
  constexpr index_t m = panel_nodes;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    node_values size;
    tail_values of;
    for (index_t k = 0; k < m; ++k) {
      const index_t i = start + (k < n ? k : 0);
      size.at[k] = within_reach(fabs(y[i] - loc[i]) / scale[i]);
    }
    Family::tails(size, of, false);
    for (index_t k = 0; k < n; ++k) {
      const index_t i = start + k;
      const double part = 2.0 * (of.mean.at[k] - size.at[k] * of.tail.at[k]) - Family::total;
      scores[i] = fabs(y[i] - loc[i]) + scale[i] * part;
    }
  }
}

// Writes scores of distributions whose halves have scales of their own, and masses in proportion to them. With the share
// w of the half that holds y, that w' of the other and the scores d and d' at the mode of both symmetric distributions,
// the score is |y - loc| + 2 w (D(y) - d - |y - loc|) + 2 (w^2 d + w'^2 d').
template <class Family>
void two_piece_scores_of(in y, in loc, in lower, in upper, out scores) {
  constexpr index_t m = panel_nodes;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    node_values size;
    tail_values of;
    for (index_t k = 0; k < m; ++k) {
      const index_t i = start + (k < n ? k : 0);
      size.at[k] = within_reach(fabs(y[i] - loc[i]) / (y[i] > loc[i] ? upper[i] : lower[i]));
    }
    Family::tails(size, of, false);
    for (index_t k = 0; k < n; ++k) {
      const index_t i = start + k;
      const double below = 1.0 / (1.0 + upper[i] / lower[i]), above = 1.0 / (1.0 + lower[i] / upper[i]);
      const double weighted = y[i] > loc[i] ? above * upper[i] : below * lower[i];
      const double part = 2.0 * (of.mean.at[k] - size.at[k] * of.tail.at[k]) - Family::total - Family::at_centre;
      const double both = below * below * lower[i] + above * above * upper[i];
      scores[i] = fabs(y[i] - loc[i]) + 2.0 * (weighted * part + Family::at_centre * both);
    }
  }
}

// Writes scores of exponential distributions, with further masses p at 0 if there are any. With a = 1 - p, the score is
// |y| - a (2 (1 - exp(-rate y)) - a / 2) / rate, whose exponential is 1 for y < 0.
inline void exponential_scores(in y, in rate, in mass, out scores) {
  constexpr index_t m = panel_nodes;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    node_values cdf;
    for (index_t k = 0; k < m; ++k) {
      const index_t i = start + (k < n ? k : 0);
      cdf.at[k] = greatest(y[i], 0.0) * rate[i];
    }
    exponential_masses(cdf);
    for (index_t k = 0; k < n; ++k) {
      const index_t i = start + k;
      const double share = mass.n ? 1.0 - mass[i] : 1.0;
      scores[i] = fabs(y[i]) - share * (2.0 * cdf.at[k] - 0.5 * share) / rate[i];
    }
  }
}

// Writes P(Y <= y) and P(Y > y).
template <class Family>
void symmetric_tails_of(in y, in loc, in scale, out below, out above) {
  constexpr index_t m = panel_nodes;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    node_values z, size;
    tail_values of;
    for (index_t k = 0; k < m; ++k) {
      const index_t i = start + (k < n ? k : 0);
      z.at[k] = (y[i] - loc[i]) / scale[i];
      size.at[k] = within_reach(fabs(z.at[k]));
    }
    Family::tails(size, of, false);
    for (index_t k = 0; k < n; ++k) {
      // Exactly a half at the centre, which the series misses by a rounding.
      const double tail = z.at[k] == 0.0 ? 0.5 : of.tail.at[k], other = 1.0 - tail;
      const double missing = z.at[k] - z.at[k];
      const bool is_nan = z.at[k] != z.at[k];
      below[start + k] = is_nan ? missing : z.at[k] > 0.0 ? other : tail;
      above[start + k] = is_nan ? missing : z.at[k] > 0.0 ? tail : other;
    }
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
  constexpr index_t m = panel_nodes;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    node_values z[3], size[3], gaps[2];
    tail_values of[3];
    for (index_t k = 0; k < m; ++k) {
      const index_t i = start + (k < n ? k : 0);
      const double inside = least(greatest(y[i], low[i]), high[i]);
      const double points[3] = {low[i], inside, high[i]};
      for (int j = 0; j < 2; ++j) gaps[j].at[k] = (points[j + 1] - points[j]) / scale[i];
      for (int j = 0; j < 3; ++j) {
        z[j].at[k] = (points[j] - loc[i]) / scale[i];
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

inline void piece_scores(int64_t family, in y, in loc, in scale, in low, in high, in below, in rise, in above,
                         out scores) {
  with_family(family, [&](auto kind) {
    piece_scores_of<decltype(kind)>(y, loc, scale, low, high, below, rise, above, scores);
  });
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
