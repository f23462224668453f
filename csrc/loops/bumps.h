// Integrals of densities on panels under bumps exp(-(rate (y - t))^2), and of bumps under polynomials.
#pragma once

#include "exponentials.h"
#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Half-width of a bump: exp(-x^2) is 2e-16 there. REACH of the module densities.
constexpr double bump_reach = 6.0;
constexpr double short_panel = 1.5;  // panels up to this length are integrated at their own nodes
constexpr double piece_length = 3.0;  // of a longer panel, for the first rule
constexpr index_t most_series = 32, most_table = 6 * 16;  // nodes of a stretch of length 2 bump_reach in such pieces
constexpr index_t many_places = 24;  // from which a smoothed series saves work
constexpr index_t lanes = 8;  // values computed side by side; they do not mix, so their digits fit every instruction set
using lane = double[lanes];

// Gauss-Legendre rules for windows of length 3, 6 and 12, exact to rounding under exp(-x^2), as (3, 40), of which
// 16, 24 and 40 columns count; and a Gauss-Hermite rule (2, `lanes`), nodes and weights.
struct bump_rules {
  ins z, w, hermite;
};

inline index_t rule_size(index_t rule) { return rule == 0 ? 16 : rule == 1 ? 24 : 40; }

// The first place in ascending t that is not below x.
inline index_t place_of(const double* t, index_t count, double x) {
  index_t low = 0;
  while (count > 0) {
    const index_t half = count / 2;
    if (t[low + half] < x) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

// Legendre series at s, by Clenshaw's recurrence.
inline void legendre_series(const double* c, index_t terms, const lane& s, lane& values) {
  lane after = {}, beyond = {};
  for (index_t k = terms - 1; k > 0; --k) {
    const double m = static_cast<double>(k);
    const double rise = (2.0 * m + 1.0) / (m + 1.0), fall = (m + 1.0) / (m + 2.0);
    for (index_t l = 0; l < lanes; ++l) {
      const double now = c[k] + rise * s[l] * after[l] - fall * beyond[l];
      beyond[l] = after[l];
      after[l] = now;
    }
  }
  for (index_t l = 0; l < lanes; ++l) values[l] = c[0] + s[l] * after[l] - 0.5 * beyond[l];
}

// The density on a panel from a to b: a Legendre series.
struct panel_density {
  const double* series;
  index_t terms;
  double a, b;

  void at(const lane& y, lane& values) const {
    lane s;
    for (index_t l = 0; l < lanes; ++l) s[l] = (y[l] - 0.5 * (a + b)) / (0.5 * (b - a));
    legendre_series(series, terms, s, values);
  }
};

// Nodes, ascending, and their masses.
struct mass_table {
  double node[most_table], mass[most_table];
  index_t count = 0;

  void add(double y, double weight) {
    node[count] = y;
    mass[count++] = weight;
  }

  void fill(const panel_density& density, double start, double end, double rate, const bump_rules& rules) {
    count = 0;
    const index_t pieces = greatest<index_t>(1, static_cast<index_t>(ceil((end - start) * rate / piece_length)));
    const double length = (end - start) / static_cast<double>(pieces);
    for (index_t piece = 0; piece < pieces && count + rule_size(0) <= most_table; ++piece) {
      for (index_t k = 0; k < rule_size(0); k += lanes) {
        lane y, values;
        for (index_t l = 0; l < lanes; ++l) {
          y[l] = start + length * (static_cast<double>(piece) + 0.5 * (1.0 + rules.z[0][k + l]));
        }
        density.at(y, values);
        for (index_t l = 0; l < lanes; ++l) add(y[l], 0.5 * length * rules.w[0][k + l] * values[l]);
      }
    }
  }

  // Adds the sums of the masses under bumps around t[first..last), ascending, to `values` at these places.
  void add_bumps(double rate, in t, index_t first, index_t last, double* values) const {
    index_t begin = 0, end = 0;
    for (index_t j = first; j < last; j += lanes) {
      const index_t size = least(lanes, last - j);
      lane place, total = {};
      for (index_t l = 0; l < lanes; ++l) place[l] = t[j + least(l, size - 1)];
      while (begin < count && rate * (node[begin] - place[0]) < -bump_reach) ++begin;
      while (end < count && rate * (node[end] - place[lanes - 1]) <= bump_reach) ++end;
      for (index_t k = begin; k < end; ++k) {
        lane bump;
        for (index_t l = 0; l < lanes; ++l) {
          const double u = rate * (node[k] - place[l]);
          bump[l] = -u * u;
        }
        exponentials(bump);
        for (index_t l = 0; l < lanes; ++l) total[l] += mass[k] * bump[l];
      }
      for (index_t l = 0; l < size; ++l) values[j + l] += total[l];
    }
  }
};

inline double smoothed_at(const panel_density& density, double rate, double t, const bump_rules& rules) {
  lane y, values;
  for (index_t l = 0; l < lanes; ++l) y[l] = t + rules.hermite[0][l] / rate;
  density.at(y, values);
  double total = 0.0;
  for (index_t l = 0; l < lanes; ++l) total += rules.hermite[1][l] / rate * values[l];
  return total;
}

// Adds smoothed values at places farther from both ends of the panel than a bump reaches. There a smoothed polynomial
// is a polynomial of the same degree.
inline void add_inside(const panel_density& density, in places, ins to_series, double rate, in t, index_t first,
                       index_t last, const bump_rules& rules, double* values) {
  if (last - first < many_places) {
    for (index_t j = first; j < last; ++j) values[j] += smoothed_at(density, rate, t[j], rules);
    return;
  }
  const double middle = 0.5 * (density.a + density.b);
  const double half = 0.5 * (density.b - density.a) - bump_reach / rate;
  double smoothed[most_series] = {};
  for (index_t k = 0; k < places.n; ++k) {
    const double value = smoothed_at(density, rate, middle + half * places[k], rules);
    for (index_t m = 0; m < places.n; ++m) smoothed[m] += to_series[m][k] * value;
  }
  for (index_t j = first; j < last; j += lanes) {
    const index_t size = least(lanes, last - j);
    lane s, part;
    for (index_t l = 0; l < lanes; ++l) s[l] = (t[j + least(l, size - 1)] - middle) / half;
    legendre_series(smoothed, places.n, s, part);
    for (index_t l = 0; l < size; ++l) values[j + l] += part[l];
  }
}

// Adds the integral of f_i(y) exp(-(rate (y - t_j))^2) to values[i, j], t ascending. f_i is the Legendre series
// series[i, p] on the panel from low[i, p] to high[i, p]. Its masses at the panel's nodes `places` in (-1, 1), at most
// most_series, are weights[i, p]; `to_series` maps values at the nodes to coefficients.
inline void smooth_panels(ins low, ins high, cube<const double> series, cube<const double> weights, in places,
                          ins to_series, double rate, in t, ins z, ins w, ins hermite, outs values) {
  const bump_rules rules{z, w, hermite};
  const double reach = bump_reach / rate;
  mass_table table;
  const auto at = [&](double x) { return place_of(t.data, t.n, x); };
  for (index_t i = 0; i < low.n; ++i) {
    double* to = values[i];
    for (index_t p = 0; p < low.m; ++p) {
      const double a = low[i][p], b = high[i][p];
      const panel_density density{series[i][p], series.k, a, b};
      const index_t first = at(a - reach), last = at(b + reach);
      if (first == last) continue;
      if ((b - a) * rate <= short_panel) {
        table.count = 0;
        for (index_t k = 0; k < places.n; ++k) {
          table.add(0.5 * (a + b) + 0.5 * (b - a) * places[k], weights[i][p][k]);
        }
        table.add_bumps(rate, t, first, last, to);
      } else if ((b - a) * rate <= 2.0 * bump_reach) {
        table.fill(density, a, b, rate, rules);
        table.add_bumps(rate, t, first, last, to);
      } else {
        const index_t begin = at(a + reach), end = at(b - reach);
        if (begin > first) {
          table.fill(density, a, a + 2.0 * reach, rate, rules);
          table.add_bumps(rate, t, first, begin, to);
        }
        if (last > end) {
          table.fill(density, b - 2.0 * reach, b, rate, rules);
          table.add_bumps(rate, t, end, last, to);
        }
        add_inside(density, places, to_series, rate, t, begin, end, rules, to);
      }
    }
  }
}

// Fills coefficients (n, p, l) with the first Legendre coefficients of exp(-(rate (t - y_i))^2) where it is not
// negligible. The polynomials are orthonormal on panels p from low[p] to high[p], ascending and disjoint.
inline void project_bumps(in y, in low, in high, double rate, ins z, ins w, cube<double> coefficients) {
  const index_t terms = coefficients.k;
  const double reach = bump_reach / rate;
  for (index_t i = 0; i < y.n; ++i) {
    const index_t first = place_of(high.data, high.n, y[i] - reach);
    const index_t last = place_of(low.data, low.n, y[i] + reach);
    for (index_t p = first; p < last; ++p) {
      double* to = coefficients[i][p];
      const double start = greatest(low[p], y[i] - reach), end = least(high[p], y[i] + reach);
      const double length = high[p] - low[p], window = (end - start) * rate;
      const index_t rule = window <= 3.0 ? 0 : window <= 6.0 ? 1 : 2;
      for (index_t k = 0; k < rule_size(rule); ++k) {
        const double t = 0.5 * (start + end) + 0.5 * (end - start) * z[rule][k];
        const double u = rate * (t - y[i]);
        const double value = 0.5 * (end - start) * w[rule][k] * exp(-u * u) / sqrt(length);
        const double s = 2.0 * (t - low[p]) / length - 1.0;
        double before = 0.0, now = 1.0;
        for (index_t m = 0; m < terms; ++m) {
          const double degree = static_cast<double>(m);
          to[m] += value * sqrt(2.0 * degree + 1.0) * now;
          const double next = ((2.0 * degree + 1.0) * s * now - degree * before) / (degree + 1.0);
          before = now;
          now = next;
        }
      }
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
