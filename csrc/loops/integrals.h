// Scores, quantiles and moments of rows whose densities are sums of terms: row by row, so that panels stay in a cache.
#pragma once

#include "densities.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Terms of densities: their families (k,), and the constants (k, n, 5) and weights (k, n) of all rows.
struct term_table {
  vec<const int64_t> families;
  cube<const double> constants;
  ins weights;

  // Writes the densities of row i at the nodes of a panel.
  void at(index_t i, double left, double half, in nodes, double* density) const {
    node_values y;
    double sum[panel_nodes] = {};  // local, so that the compiler knows that nothing overlaps
    for (index_t k = 0; k < panel_nodes; ++k) y.at[k] = left + half * (1.0 + nodes[k]);
    for (index_t term = 0; term < families.n; ++term) {
      add_density(static_cast<int>(families[term]), constants[term][i], weights[term][i], y, sum);
    }
    for (index_t k = 0; k < panel_nodes; ++k) density[k] = sum[k];
  }
};

// The errors of the cdf that are allowed in a panel, as an array holds them.
struct panel_limits {
  double enough;          // relative to the smaller tail to which the panel belongs; absolute where scores are the aim
  double quantile_error;  // relative, where quantiles are an aim beside scores:
  double least_level;     // in tails of at least this mass
  double noise;           // multiple of the error allowed that rounding of densities may cause
  double gain;            // factor by which a halving at least reduces the error, if it helps
  double most_halvings;
  double apart;    // ratio of the ends of a panel from which it is cut at their geometric mean
  double slowest;  // decay of a series, above which a peak may lie between the nodes

  explicit panel_limits(in values)
      : enough(values[0]), quantile_error(values[1]), least_level(values[2]), noise(values[3]), gain(values[4]),
        most_halvings(values[5]), apart(values[6]), slowest(values[7]) {}
};

// Whether the ends of a panel are so far apart, relative to the nearer one, that it is cut at their geometric mean.
inline bool is_apart(double left, double right, double apart) {
  const double near = least(fabs(left), fabs(right)), far = greatest(fabs(left), fabs(right));
  return (left > 0.0) == (right > 0.0) && near > 0.0 && far > apart * near;
}

// The point at which a panel is cut.
inline double panel_middle(double left, double right, double apart) {
  const double near = least(fabs(left), fabs(right)), far = greatest(fabs(left), fabs(right));
  if (!is_apart(left, right, apart)) return left + (right - left) / 2;
  const double between = sqrt(near) * sqrt(far);
  return right > 0.0 ? between : -between;
}

// The panels of one row, in scratch memory. At first they lie between edges that rise; one on which no polynomial
// through the densities is exact to rounding is halved.
class row_panels {
  static constexpr index_t m = panel_nodes;

  struct panel {
    double left, right, mass, error, decay;
  };

 public:
  // `scratch` (p, m + 8) and `places` (p,) have room for 2^(most_halvings + 1) panels per pair of edges.
  row_panels(const term_table& terms, const panel_limits& limits, in rule, ins series, outs scratch,
             vec<int64_t> places)
      : terms_(terms), limits_(limits), weights_{rule.data, m}, nodes_{rule.data + m, m}, capacity_(scratch.n),
        left_(scratch.data), half_(left_ + capacity_), first_left_(half_ + capacity_), first_right_(first_left_ + capacity_),
        first_mass_(first_right_ + capacity_), first_error_(first_mass_ + capacity_), first_decay_(first_error_ + capacity_),
        density_(first_decay_ + capacity_), places_(places.data) {
    constexpr index_t orders[4] = {m - 2, m - 1, m / 2 - 2, m / 2 - 1};
    for (index_t k = 0; k < m; ++k) {
      for (index_t c = 0; c < 4; ++c) some_[4 * k + c] = series[k][orders[c]];
    }
  }

  // Cuts row i. Returns whether the polynomials are exact. `spread` is the width of the distribution if scores are the
  // aim, else negative.
  bool cut(index_t i, in edges, double below, double above, double spread) {
    count_ = 0;
    used_ = 0;
    for (index_t e = 0; e < edges.n; ++e) {
      if (!is_finite(edges[e])) return false;
    }
    double inner = 0.0;
    for (index_t e = 0; e + 1 < edges.n; ++e) {
      if (!(edges[e + 1] > edges[e])) continue;
      const panel one = measured(i, edges[e], edges[e + 1]);
      const index_t p = used_ - 1;
      first_left_[p] = one.left, first_right_[p] = one.right, first_mass_[p] = one.mass;
      first_error_[p] = one.error, first_decay_[p] = one.decay;
      inner += one.mass;
    }
    const index_t first_count = used_;
    double upto = below, from = above + inner;
    for (index_t p = 0; p < first_count; ++p) {
      const double mass = first_mass_[p];
      upto += mass;
      const double tail = greatest(least(upto, from), mass);
      from -= mass;
      const panel one = {first_left_[p], first_right_[p], mass, first_error_[p], first_decay_[p]};
      if (!add(i, one, p, tail, spread, infinity, 0)) return false;
    }
    return true;
  }

  index_t count() const { return count_; }
  in left() const { return {left_, count_}; }
  in half() const { return {half_, count_}; }
  ins density() const { return {density_, used_, m}; }
  vec<const int64_t> places() const { return {places_, count_}; }

 private:
  // Computes the densities on a panel, in the next row of the table, and what they tell.
  panel measured(index_t i, double left, double right) {
    const double half = (right - left) / 2;
    double* density = density_ + m * used_++;
    terms_.at(i, left, half, nodes_, density);
    double sizes[5];
    sizes_of_panel(density, weights_, {some_, m, 4}, sizes);
    const double last = sizes[1] + sizes[2];
    return {left, right, half * sizes[0], half * last / static_cast<double>(m), last / (sizes[3] + sizes[4])};
  }

  // Appends a panel, or its halves; returns false if halving does not help.
  bool add(index_t i, const panel& one, index_t place, double tail, double spread, double error_before, int halvings) {
    const double half = (one.right - one.left) / 2;
    double most = limits_.enough * tail;
    if (spread >= 0.0) {
      // The error of the mass counts fully, that of the integral by the width of the panel. The decay of the series
      // tells its coefficient of order 2 m, the error of the mass.
      most = limits_.enough;
      if (one.error * (one.decay * one.decay) <= limits_.enough && one.decay <= limits_.slowest) {
        most = greatest(limits_.enough * spread / (2 * half * tail), limits_.enough);
      }
      if (tail >= limits_.least_level) most = least(most, limits_.quantile_error * tail);
    }
    if (!(one.error <= most)) {
      // Halving does not help against rounding of densities, nor against poles, except where it is one of ratios.
      const bool closes_in = !(one.error <= limits_.noise * most) && is_apart(one.left, one.right, limits_.apart);
      bool rough = halvings > 1 && !(one.error < error_before / limits_.gain) && !closes_in;
      rough |= !is_finite(one.error) || halvings >= static_cast<int>(limits_.most_halvings);
      if (!rough) {
        const double middle = panel_middle(one.left, one.right, limits_.apart);
        const double ends[3] = {one.left, middle, one.right};
        for (int side = 0; side < 2; ++side) {
          if (used_ >= capacity_) return false;
          const index_t next = used_;
          const panel part = measured(i, ends[side], ends[side + 1]);
          if (!add(i, part, next, tail, spread, one.error, halvings + 1)) return false;
        }
        return true;
      }
      if (!(one.error <= limits_.noise * most)) return false;
    }
    left_[count_] = one.left;
    half_[count_] = half;
    places_[count_++] = place;
    return true;
  }

  const term_table& terms_;
  const panel_limits& limits_;
  in weights_, nodes_;
  index_t capacity_, count_ = 0, used_ = 0;
  double *left_, *half_, *first_left_, *first_right_, *first_mass_, *first_error_, *first_decay_, *density_;
  int64_t* places_;
  double some_[4 * m];
};

// The mean and the standard deviation of the mass in the panels of a row; NaN if the masses do not sum to 1. Places
// relative to the first panel let the mean of a narrow distribution far from 0 keep its digits.
inline void moments_of_row(const row_panels& panels, double outside, in rule, double* moments) {
  constexpr index_t m = panel_nodes;
  const in left = panels.left(), half = panels.half();
  const index_t count = panels.count();
  moments[0] = moments[1] = not_a_number();
  if (!count) return;
  const double first = left[0], unit = left[count - 1] + 2 * half[count - 1] - first;
  double mass = 0.0, sum = 0.0, square = 0.0;
  for (int turn = 0; turn < 2; ++turn) {
    const double mean = turn ? sum / mass : 0.0;
    for (index_t p = 0; p < count; ++p) {
      const double* density = panels.density()[panels.places()[p]];
      const double place = (left[p] - first) / unit, width = half[p] / unit;
      double part = 0.0, moment = 0.0;
      for (index_t k = 0; k < m; ++k) {
        const double share = density[k] * rule[k], at = place + width * (1.0 + rule[m + k]);
        part += share;
        moment += share * (turn ? (at - mean) * (at - mean) : at);
      }
      if (turn) {
        square += half[p] * moment;
      } else {
        mass += half[p] * part;
        sum += half[p] * moment;
      }
    }
  }
  if (!(fabs(mass + outside - 1.0) <= mass_gap)) return;
  moments[0] = first + unit * (sum / mass);
  moments[1] = unit * sqrt(square / mass);
}

// Of rows whose densities are sums of terms, on panels between edges (n, E) that rise, which are halved where needed:
// scores (n, k), the integrals of (F - 1{y <= t})^2 between the first and the last edge, for y (n, k) that are edges or
// outside; quantiles (n, j) at levels (n or 1, j) in (0, 1) that rise; and means with standard deviations (n, 2). Each
// may have no rows, and is then not computed. NaN where a result is unsafe. `below` and `above` are masses (n,) outside
// the edges; `spread` (n or 0,) widths of the distributions if scores are the aim. `limits` is as in `panel_limits`,
// the other arguments as for `panel_quantiles` and `row_panels`.
inline void integrate_densities(ins edges, in below, in above, vec<const int64_t> families,
                                cube<const double> constants, ins weights, in limits, in spread, ins y, ins levels,
                                in rule, ins nodes, ins series, outs scratch, vec<int64_t> places, outs scores,
                                outs quantiles, outs moments) {
  const term_table terms = {families, constants, weights};
  const panel_limits errors(limits);
  const legendre_factors factors;
  row_panels panels(terms, errors, rule, series, scratch, places);
  for (index_t i = 0; i < edges.n; ++i) {
    const bool resolved = panels.cut(i, edges.row(i), below[i], above[i], spread.n ? spread[i] : -1.0);
    const in left = panels.left(), half = panels.half();
    const index_t last = panels.count();
    for (index_t k = 0; scores.n && k < scores.m; ++k) {
      index_t split = 0;
      while (resolved && split < last && left[split] + half[split] < y[i][k]) ++split;
      scores[i][k] = resolved ? score_of_row(0, last, split, left, half, panels.density(), panels.places(), below[i],
                                             above[i], rule, nodes, series)
                              : not_a_number();
    }
    if (quantiles.n) {
      if (resolved) {
        quantiles_of_row(0, last, left, half, panels.density(), panels.places(), below[i], above[i],
                         levels.row(levels.n > 1 ? i : 0), rule, nodes, series, factors, quantiles[i]);
      } else {
        for (index_t c = 0; c < quantiles.m; ++c) quantiles[i][c] = not_a_number();
      }
    }
    if (moments.n) {
      moments[i][0] = moments[i][1] = not_a_number();
      if (resolved) moments_of_row(panels, below[i] + above[i], rule, moments[i]);
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
