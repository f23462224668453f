// Sums over nodes on the line: moments on panels, and quadratic forms of kernels with exponential tails.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr index_t most_terms = 32, node_lanes = 8;

// Adds w_ij T_k(u_ij) to moments[i, p, k], k below moments.k <= most_terms, and |w_ij| most[p, cell of u_ij] to
// residual[i]. Here p = slot[place_ij] is the panel of node z_ij, and u = 2 (z / length - number[p]) - 1 the place of
// the node there; nodes with a negative p are skipped. Panels have most.m cells each. Neighbours on one panel are
// summed in lanes: the steps of a single recurrence wait for each other.
inline void chebyshev_moments(mat<const int64_t> place, vec<const int64_t> slot, ins z, ins weights, in number,
                              double length, ins most, cube<double> moments, out residual) {
  const index_t terms = moments.k, cells = most.m;
  for (index_t i = 0; i < place.n; ++i) {
    const int64_t* places = place[i];
    double rest = 0.0;
    for (index_t first = 0, last = 0; first < place.m; first = last) {
      for (last = first + 1; last < place.m && places[last] == places[first];) ++last;
      const int64_t panel = slot[places[first]];
      if (panel < 0) continue;
      double sums[most_terms][node_lanes] = {};
      for (index_t start = first; start < last; start += node_lanes) {
        double twice[node_lanes] = {}, before[node_lanes] = {}, now[node_lanes] = {};
        for (index_t l = 0; l < node_lanes && start + l < last; ++l) {
          const double weight = weights[i][start + l];
          const double u = 2.0 * (z[i][start + l] / length - number[panel]) - 1.0;
          const index_t cell = static_cast<index_t>((u + 1.0) / 2.0 * static_cast<double>(cells));
          rest += fabs(weight) * most[panel][least<index_t>(greatest<index_t>(cell, 0), cells - 1)];
          before[l] = weight;
          now[l] = weight * u;
          twice[l] = 2.0 * u;
        }
        for (index_t k = 0; k < terms; ++k) {
          for (index_t l = 0; l < node_lanes; ++l) {
            sums[k][l] += before[l];
            const double next = twice[l] * now[l] - before[l];
            before[l] = now[l];
            now[l] = next;
          }
        }
      }
      double* to = moments[i][panel];
      for (index_t k = 0; k < terms; ++k) {
        const double* s = sums[k];
        to[k] += ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
      }
    }
    residual[i] += rest;
  }
}

constexpr index_t outputs_of_block = 256;  // with separate sums: rounding grows with the number of blocks only
constexpr double longest_block = 1.0;      // in 1 / rate: no exponential in a block exceeds e

// Adds c_j' K c_j to out[j] for k = p(s) exp(-s) with s = rate |y - z|, y ascending, c (n, q), p `polynomial` (d,).
//
// The state at the start b of a block is before[m] = sum c_l (rate (b - y_l))^m exp(-rate (b - y_l)) over all earlier
// outputs. inside[m] = sum c_l t_l^m exp(t_l), with t = rate (y - b), sums over the outputs of the block. Both are
// (d, q); `partial` (1, q), `weight` (1, d) and `choose` (d, d) are scratch, and all scratch is zero.
inline void add_quadratic_forms(in y, ins c, double rate, in polynomial, outs before, outs inside, out partial,
                                out weight, outs choose, out forms) {
  const index_t degree = polynomial.n, columns = c.m;
  for (index_t k = 0; k < degree; ++k) {
    choose[k][0] = 1.0;
    for (index_t m = 1; m <= k; ++m) {
      choose[k][m] = choose[k][m - 1] * static_cast<double>(k - m + 1) / static_cast<double>(m);
    }
  }
  index_t start = 0;
  double place = y.n ? y[0] : 0.0;
  for (index_t i = 0; i < y.n; ++i) {
    double t = rate * (y[i] - place);
    if (i - start >= outputs_of_block || t > longest_block) {
      const double decay = exp(-t);
      for (index_t m = 0; m < degree; ++m) {
        for (index_t j = 0; j < columns; ++j) {
          before[m][j] += m % 2 ? -inside[m][j] : inside[m][j];
          inside[m][j] = 0.0;
        }
      }
      for (index_t m = degree - 1; m >= 0; --m) {
        for (index_t j = 0; j < columns; ++j) {
          double shifted = 0.0, power = 1.0;
          for (index_t r = m; decay > 0.0 && r >= 0; --r) {
            shifted += choose[m][r] * power * before[r][j];
            power *= t;
          }
          before[m][j] = decay * shifted;
        }
      }
      for (index_t j = 0; j < columns; ++j) {
        forms[j] += partial[j];
        partial[j] = 0.0;
      }
      start = i;
      place = y[i];
      t = 0.0;
    }
    const double decay = exp(-t);
    double power = 1.0;
    for (index_t m = 0; m < degree; ++m) {
      double total = 0.0;
      power = 1.0;
      for (index_t k = m; k < degree; ++k) {
        total += polynomial[k] * choose[k][m] * power;
        power *= t;
      }
      weight[m] = decay * total;
    }
    for (index_t j = 0; j < columns; ++j) {
      double left = 0.0;
      for (index_t m = 0; m < degree; ++m) {
        left += weight[m] * (m % 2 ? before[m][j] - inside[m][j] : before[m][j] + inside[m][j]);
      }
      partial[j] += c[i][j] * (2.0 * left + polynomial[0] * c[i][j]);
    }
    power = exp(t);
    for (index_t m = 0; m < degree; ++m) {
      for (index_t j = 0; j < columns; ++j) inside[m][j] += power * c[i][j];
      power *= t;
    }
  }
  for (index_t j = 0; j < columns; ++j) forms[j] += partial[j];
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
