// Quantiles and scores of continuous distributions whose densities are polynomials on panels.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr index_t panel_nodes = 20;  // a constant, so that products with small matrices stay in registers
constexpr double mass_gap = 1e-12;     // largest difference of all masses from 1, and relative to a tail's level
constexpr int most_newton_steps = 12;  // two or three are needed
constexpr double newton_settled = 1e-8;  // step whose square is below rounding, relative to half a panel
constexpr double steepest = 2.0;         // slopes up to 1 more than this times the mean one keep a cubic monotone
constexpr double panel_flat = 1e-9;      // shift of a quantile by rounding of the cdf, relative to half a panel

// Of the recurrence of the Legendre polynomials, P_(k+1) = turn x P_k + back P_(k-1), in Clenshaw's order, and of
// their integrals.
struct legendre_factors {
  double turn[panel_nodes + 1], back[panel_nodes + 1], share[panel_nodes + 1];
  legendre_factors() {
    for (index_t k = 0; k <= panel_nodes; ++k) {
      const double order = static_cast<double>(k);
      turn[k] = (2.0 * order + 1.0) / (order + 1.0);
      back[k] = -(order + 1.0) / (order + 2.0);
      share[k] = 1.0 / (2.0 * order + 1.0);
    }
  }
};

// The density of one row on consecutive panels, read from left to right or, `mirrored`, from right to left.
// Column k of `series` maps densities at the nodes of [-1, 1] to the coefficient of the Legendre polynomial P_k.
class panel_row {
 public:
  panel_row(index_t first, index_t last, in left, in half, ins density, vec<const int64_t> places, ins series,
            bool mirrored)
      : first_(first), last_(last), left_(left), half_(half), density_(density), places_(places), series_(series),
        mirrored_(mirrored) {}

  index_t count() const { return last_ - first_; }
  index_t place(index_t j) const { return mirrored_ ? last_ - 1 - j : first_ + j; }
  double half(index_t j) const { return half_[place(j)]; }

  // Copies the densities of panel j, in the direction of the reading, and returns its mass.
  double read(index_t j, in weights) {
    const double* from = density_[places_[place(j)]];
    constexpr index_t m = panel_nodes;
    if (mirrored_) {
      for (index_t k = 0; k < m; ++k) value_[k] = from[m - 1 - k];
    } else {
      for (index_t k = 0; k < m; ++k) value_[k] = from[k];
    }
    double mass[4] = {};
    for (index_t k = 0; k < m; k += 4) {
      for (index_t l = 0; l < 4; ++l) mass[l] += weights.data[k + l] * value_[k + l];
    }
    return half_[place(j)] * ((mass[0] + mass[1]) + (mass[2] + mass[3]));
  }

  // The coefficients of the density, and of its integral from the end at which the panel begins.
  void expand(const legendre_factors& factors) {
    constexpr index_t m = panel_nodes;
    apply(series_, slope_);
    // The integral of P_k is (P_(k+1) - P_(k-1)) / (2 k + 1), and P_1 + P_0 for k = 0.
    for (index_t k = 0; k <= m; ++k) {
      const double before = k > 0 ? slope_[k - 1] * factors.share[k - 1] : 0.0;
      const double after = k + 1 < m ? slope_[k + 1] * factors.share[k + 1] : 0.0;
      integral_[k] = before - after;
    }
    integral_[0] += slope_[0];
  }

  // Writes the product of the densities with a matrix.
  void apply(ins matrix, double* out) const {
    constexpr index_t m = panel_nodes;
    double sum[panel_nodes] = {};
    for (index_t l = 0; l < m; ++l) {
      const double value = value_[l], *from = matrix[l];
      for (index_t k = 0; k < m; ++k) sum[k] += from[k] * value;
    }
    for (index_t k = 0; k < m; ++k) out[k] = sum[k];
  }

  // The number at share t in [-1, 1] of panel j.
  double at(index_t j, double t) const {
    const index_t p = place(j);
    const double from_left = mirrored_ ? -t : t;
    return left_[p] + half_[p] * (1.0 + from_left);
  }

  const double* value() const { return value_; }
  const double* slope() const { return slope_; }
  const double* integral() const { return integral_; }

 private:
  index_t first_, last_;
  in left_, half_;
  ins density_;
  vec<const int64_t> places_;
  ins series_;
  bool mirrored_;
  double value_[panel_nodes], slope_[panel_nodes], integral_[panel_nodes + 1];
};

// Solves for the places t in a panel at which the integral equals targets, by Newton's method; `height` becomes
// the density before the last step.
template <index_t width>
inline bool solve_panel(const panel_row& row, const legendre_factors& factors, const double* targets,
                        double* places, double* heights) {
  constexpr index_t m = panel_nodes;
  double target[width], t[width], height[width];  // local, so that the compiler knows that nothing overlaps
  for (index_t i = 0; i < width; ++i) target[i] = targets[i], t[i] = places[i];
  for (int steps = 0; steps < most_newton_steps; ++steps) {
    double below[width] = {}, below2[width] = {}, height2[width] = {};
    for (index_t i = 0; i < width; ++i) height[i] = 0.0;
    for (index_t k = m; k >= 0; --k) {
      const double alpha = factors.turn[k], beta = factors.back[k];
      const double integral = row.integral()[k], slope = k < m ? row.slope()[k] : 0.0;
#pragma GCC unroll 1  // unrolled, it would not be vectorised
      for (index_t i = 0; i < width; ++i) {
        const double turn = alpha * t[i];
        const double b = (integral + beta * below2[i]) + turn * below[i];
        below2[i] = below[i];
        below[i] = b;
        const double h = (slope + beta * height2[i]) + turn * height[i];
        height2[i] = height[i];
        height[i] = h;
      }
    }
    int open = 0;
#pragma GCC unroll 1
    for (index_t i = 0; i < width; ++i) {
      const double to = least(greatest(t[i] - (below[i] - target[i]) / height[i], -1.0), 1.0);
      open |= !(fabs(to - t[i]) <= newton_settled);
      t[i] = to;
    }
    if (!open) {
      for (index_t i = 0; i < width; ++i) places[i] = t[i], heights[i] = height[i];
      return true;
    }
  }
  return false;
}

// Writes the quantiles at the levels (j,) that rise, in (0, 1), and lie on this side of the middle; complements
// of levels if the row is read from the right. Returns the mass of all panels.
inline double one_side(panel_row row, const legendre_factors& factors, in weights, ins nodes, double before, bool upper, const double* levels,
                       index_t count, double* values) {
  constexpr index_t width = 16;  // levels solved together: two vectors hide the latency of each other
  constexpr index_t m = panel_nodes;
  double reached = before, total = 0.0;
  index_t done = 0;  // levels solved, from this side
  for (index_t j = 0; j < row.count(); ++j) {
    const double mass = row.read(j, weights);
    total += mass;
    const double end = reached + mass;
    bool expanded = false;
    double share[panel_nodes];  // integrals up to the nodes
    while (done < count) {
      double target[width], t[width];
      index_t some = 0;
      while (some < width && done + some < count) {
        const double level = upper ? 1.0 - levels[count - 1 - done - some] : levels[done + some];
        if (level > end || level > 0.5) break;
        target[some++] = level;
      }
      if (!some) break;
      if (!expanded) {
        row.expand(factors);
        row.apply(nodes, share);
        expanded = true;
      }
      double level[width];
      const double half = row.half(j);
      index_t k = 0;
      for (index_t i = 0; i < width; ++i) {
        if (i >= some) {
          level[i] = level[some - 1], target[i] = target[some - 1], t[i] = t[some - 1];
          continue;
        }
        level[i] = target[i];
        target[i] = (target[i] - reached) / half;
        // Interpolate between the nodes around the target, between two nodes by a cubic with the right slopes.
        while (k < m && share[k] < target[i]) ++k;
        const double low = k ? share[k - 1] : 0.0, high = k < m ? share[k] : mass / half;
        const double from = k ? weights.data[m + k - 1] : -1.0, to = k < m ? weights.data[m + k] : 1.0;
        if (!(high > low)) {
          t[i] = from;
          continue;
        }
        double part = (target[i] - low) / (high - low);
        if (k && k < m) {
          const double even = (high - low) / (to - from);
          const double first = even / row.value()[k - 1] - 1.0, second = even / row.value()[k] - 1.0;
          if (fabs(first) < steepest && fabs(second) < steepest) {
            part += part * (1.0 - part) * (first * (1.0 - part) - second * part);
          }
        }
        t[i] = from + (to - from) * part;
      }
      double height[width];
      const bool solved = 2 * some <= width ? solve_panel<width / 2>(row, factors, target, t, height)
                                            : solve_panel<width>(row, factors, target, t, height);
      for (index_t i = 0; i < some; ++i) {
        const bool flat = !(2.3e-16 * level[i] <= panel_flat * half * height[i]);
        const index_t place = upper ? count - 1 - done - i : done + i;
        values[place] = solved && !flat && reached < level[i] ? row.at(j, t[i]) : not_a_number();
      }
      done += some;
    }
    reached = end;
  }
  return total;
}

// The quantiles (j,) of one row at levels (j,) in (0, 1) that rise, from its panels `first` to `last`, which adjoin, and
// whose densities are at `places`; `below` and `above` are the masses outside them. NaN where a level is outside, the
// cdf is nearly flat, or the masses do not sum to 1. `rule` holds the weights of the nodes in [-1, 1], then the nodes;
// column k of `nodes` maps densities to the integral up to node k.
inline void quantiles_of_row(index_t first, index_t last, in left, in half, ins density, vec<const int64_t> places,
                             double below, double above, in levels, in rule, ins nodes, ins series,
                             const legendre_factors& factors, double* values) {
  const in weights = {rule.data, panel_nodes};
  const index_t count = levels.n;
  for (index_t c = 0; c < count; ++c) values[c] = not_a_number();
  const panel_row rising(first, last, left, half, density, places, series, false);
  const panel_row falling(first, last, left, half, density, places, series, true);
  const double total = one_side(rising, factors, weights, nodes, below, false, levels.data, count, values);
  one_side(falling, factors, weights, nodes, above, true, levels.data, count, values);
  if (!(fabs(below + total + above - 1.0) <= mass_gap)) {
    for (index_t c = 0; c < count; ++c) values[c] = not_a_number();
  }
}

// Quantiles (n, j) of rows at levels (n or 1, j). Row i has the panels from starts[i] to starts[i + 1].
inline void panel_quantiles(vec<const int64_t> starts, in left, in half, ins density, vec<const int64_t> places,
                            in below, in above, ins levels, in rule, ins nodes, ins series, outs values) {
  const legendre_factors factors;
  for (index_t i = 0; i < values.n; ++i) {
    quantiles_of_row(starts[i], starts[i + 1], left, half, density, places, below[i], above[i],
                     levels.row(levels.n > 1 ? i : 0), rule, nodes, series, factors, values[i]);
  }
}

// The integral of F^2 over the first `split` panels of one row, and of (1 - F)^2 over the others; NaN if the masses do
// not sum to 1. Arguments as for `quantiles_of_row`.
inline double score_of_row(index_t first, index_t last, index_t split, in left, in half, ins density,
                           vec<const int64_t> places, double below, double above, in rule, ins nodes, ins series) {
  constexpr index_t m = panel_nodes;
  const in weights = {rule.data, m};
  double score = 0.0, all = below + above;
  for (int side = 0; side < 2; ++side) {
    panel_row row(first, last, left, half, density, places, series, side == 1);
    double reached = side ? above : below;
    const index_t count = side ? row.count() - split : split;
    for (index_t j = 0; j < count; ++j) {
      const double mass = row.read(j, weights), h = row.half(j);
      double sum[4] = {}, inner[panel_nodes];
      row.apply(nodes, inner);
      for (index_t k = 0; k < m; k += 4) {
        for (index_t l = 0; l < 4; ++l) {
          const double here = reached + h * inner[k + l];
          sum[l] += weights.data[k + l] * here * here;
        }
      }
      score += h * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
      reached += mass;
      all += mass;
    }
  }
  return fabs(all - 1.0) <= mass_gap ? score : not_a_number();
}

// The scores (n,) of rows; arguments as for `panel_quantiles`.
inline void panel_scores(vec<const int64_t> starts, vec<const int64_t> splits, in left, in half, ins density,
                         vec<const int64_t> places, in below, in above, in rule, ins nodes, ins series, out scores) {
  for (index_t i = 0; i < scores.n; ++i) {
    scores[i] = score_of_row(starts[i], starts[i + 1], splits[i], left, half, density, places, below[i], above[i], rule,
                             nodes, series);
  }
}

// The integral of densities (m,) at the nodes over [-1, 1], and sizes of four of their Legendre coefficients, of which
// the columns of `series` (m, 4) are the maps.
inline void sizes_of_panel(const double* from, in weights, ins series, double* sizes) {
  constexpr index_t some = 4, m = panel_nodes;
  double sum[some] = {}, other_sum[some] = {}, mass[some] = {};  // two sums do not wait for each other
  for (index_t k = 0; k < m; k += 2) {
    for (index_t c = 0; c < some; ++c) {
      sum[c] += from[k] * series[k][c];
      other_sum[c] += from[k + 1] * series[k + 1][c];
    }
  }
  for (index_t k = 0; k < m; k += some) {
    for (index_t c = 0; c < some; ++c) mass[c] += weights[k + c] * from[k + c];
  }
  sizes[0] = (mass[0] + mass[1]) + (mass[2] + mass[3]);
  for (index_t c = 0; c < some; ++c) sizes[1 + c] = fabs(sum[c] + other_sum[c]);
}

// Writes the sizes (p, 5) of panels with densities (p, m).
inline void panel_sizes(ins density, in weights, ins series, outs sizes) {
  for (index_t i = 0; i < density.n; ++i) sizes_of_panel(density[i], weights, series, sizes[i]);
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
