// The march from quantile to quantile for Pearson's system.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Writes the points (n, j) at which the mass between them and x (n,) has reached each of `masses`, (n, j) or
// (1, j), whose absolute values rise; their common sign is the direction of the march. x and the density there
// are overwritten by those of the last point. A row of `slope` (n or 1, 8) holds p0, p1, q0, q1, q2 of
// f' / f = (p0 + p1 x) / (q0 + q1 x + q2 x^2), the real parts of the roots of the denominator and their
// imaginary part, infinite if it has no roots. Points are NaN where the march fails.
//
// The differential equation gives the Taylor coefficients of the density by a three-term recurrence, so a step
// needs only sums. Halley's method inverts the integral of the series. Errors are of the size of rounding,
// relative to the mass covered. The rows of a block all take the same share of the way to their next level, so
// that the loops over rows are vectorised.
class marching_block {
  static constexpr index_t width = 32;  // rows: their coefficients, 8 kB, stay in the L1 cache
  static constexpr index_t terms = 30;
  static constexpr double radius = 0.2;  // longest step, as a share of the radius of convergence: 0.2^24 is
                                         // below rounding
  static constexpr double small = 1e-17;     // relative size of terms that are left out
  static constexpr double most_bend = 0.8;   // change of the log density over a step above which the first
                                             // guess is poor
  static constexpr double finest = 1 / 64.0;  // least step, as a share of the way to a level; rows that need
                                              // shorter ones are given up
  static constexpr int most_steps = 100;      // per level; rows that need more are given up
  static constexpr int most_halvings = 6;     // of a step whose series is too long; one usually suffices
  static constexpr double settled = 1e-8;     // correction whose square, the size of the next, is below rounding

 public:
  marching_block(out x, out density, ins masses, ins slope, outs points, index_t start)
      : start_(start), count_(least(width, x.n - start)) {
    for (index_t r = 0; r < width; ++r) {  // a last block that is not full repeats its last row
      const index_t i = row(r);
      at_[r] = x[i];
      f_[r] = density[i];
      gone_[r] = 0.0;
      for (index_t c = 0; c < 8; ++c) own_[c][r] = slope[slope.n > 1 ? i : 0][c];
    }
    for (index_t j = 0; j < masses.m; ++j) {
      for (index_t r = 0; r < width; ++r) {
        const double mass = masses[masses.n > 1 ? row(r) : 0][j];
        rest_[r] = mass - gone_[r];
        gone_[r] = mass;
      }
      double left = 1.0;  // share of the way to this level that remains
      for (int steps = 1; left > 0.0; ++steps) {
        const double part = step(left, steps < most_steps ? finest : 1.0);
        left = part >= left ? 0.0 : left - part;
      }
      for (index_t r = 0; r < count_; ++r) {
        points[start + r][j] = f_[r] > 0.0 ? at_[r] : not_a_number();
      }
    }
    for (index_t r = 0; r < count_; ++r) {
      x[start + r] = at_[r];
      density[start + r] = f_[r];
    }
  }

  static constexpr index_t rows = width;

 private:
  index_t row(index_t r) const { return start_ + least(r, count_ - 1); }

  // Moves all rows a part of the remaining way, and returns that part.
  double step(double left, double shortest) {
    for (index_t r = 0; r < width; ++r) {
      const double x = at_[r];
      const double scale = 1.0 / (own_[2][r] + x * (own_[3][r] + x * own_[4][r]));
      first_[r] = (own_[0][r] + own_[1][r] * x) * scale;
      second_[r] = own_[1][r] * scale;
      bend_[r] = (own_[3][r] + 2.0 * own_[4][r] * x) * scale;
      curve_[r] = own_[4][r] * scale;
    }
    double share = 1.0;
    for (index_t r = 0; r < width; ++r) {
      const double near = fabs(at_[r] - own_[5][r]), other = fabs(at_[r] - own_[6][r]);
      const double reach = radius * greatest(least(near, other), own_[7][r]);
      const double size = fabs(rest_[r]) * left;
      const double most = f_[r] * least(reach, most_bend / (fabs(first_[r]) + 1e-300));
      if (size * shortest > most) {
        f_[r] = not_a_number();
      } else if (size * share > most) {
        share = most / size;
      }
    }
    if (share < 1.0) share = 1.0 / ceil(1.0 / share);  // even steps
    double part = left * share;
    const index_t count = series(part);
    invert(count);
    return part;
  }

  // Fills the coefficients of the density over its value, times h^k, and halves the part while they are too many.
  index_t series(double& part) {
    for (int halvings = 1;; ++halvings) {
      for (index_t r = 0; r < width; ++r) {
        const double tau = rest_[r] * part / f_[r];
        // The inverse series to third order, from the first two coefficients.
        const double one = 0.5 * first_[r];
        const double two = ((first_[r] - bend_[r]) * first_[r] + second_[r]) / 6.0;
        const double size = 1.0 - tau * (one - tau * (2.0 * one * one - two));
        h_[r] = tau * size;
        aim_[r] = 1.0 / size;
        b_[0][r] = 1.0;
        b_[1][r] = first_[r] * h_[r];
        s_[r] = 1.0;
      }
      index_t count = 1;
      bool large = true;
      while (large && count < terms) {
        const double order = static_cast<double>(count), inverse = 1.0 / (order + 1.0);
        int wide = 0;
        for (index_t r = 0; r < width; ++r) {
          const double move = h_[r] * inverse;
          b_[count + 1][r] = move * ((first_[r] - bend_[r] * order) * b_[count][r] +
                                     h_[r] * (second_[r] - curve_[r] * (order - 1.0)) * b_[count - 1][r]);
          wide |= fabs(b_[count + 1][r]) + fabs(b_[count][r]) > small;
        }
        large = wide;
        ++count;
      }
      if (!large) return count;
      part *= 0.5;  // the series needs too many terms
      if (halvings > most_halvings) {
        for (index_t r = 0; r < width; ++r) {
          if (fabs(b_[count][r]) + fabs(b_[count - 1][r]) > small) f_[r] = not_a_number();
        }
      }
    }
  }

  void invert(index_t count) {
    for (int i = 0; i < 8; ++i) {
      const double inverse = 1.0 / (static_cast<double>(count) + 1.0);
      for (index_t r = 0; r < width; ++r) {
        total_[r] = b_[count][r] * inverse;
        value_[r] = b_[count][r];
      }
      for (index_t k = count - 1; k >= 0; --k) {
        const double of = 1.0 / (static_cast<double>(k) + 1.0);
        for (index_t r = 0; r < width; ++r) {
          total_[r] = total_[r] * s_[r] + b_[k][r] * of;
          value_[r] = value_[r] * s_[r] + b_[k][r];
        }
      }
      int moving = 0;
      for (index_t r = 0; r < width; ++r) {
        const double x = at_[r] + h_[r] * s_[r];
        double change = h_[r] * (own_[0][r] + own_[1][r] * x);
        change /= own_[2][r] + x * (own_[3][r] + x * own_[4][r]);
        double move = (total_[r] * s_[r] - aim_[r]) / value_[r];
        move /= 1.0 - 0.5 * move * change;
        s_[r] -= move;
        total_[r] = 1.0 - move * change;  // factor by which the density changes
        moving |= fabs(move) > settled;
      }
      if (!moving) break;
    }
    for (index_t r = 0; r < width; ++r) {
      at_[r] += h_[r] * s_[r];
      f_[r] *= value_[r] * total_[r];
    }
  }

  index_t start_, count_;
  double b_[terms + 2][width], own_[8][width];
  double at_[width], f_[width], rest_[width], gone_[width], first_[width], second_[width];
  double bend_[width], curve_[width], h_[width], aim_[width], s_[width];
  double total_[width], value_[width];
};

inline void march(out x, out density, ins masses, ins slope, outs points) {
  for (index_t start = 0; start < x.n; start += marching_block::rows) {
    marching_block(x, density, masses, slope, points, start);
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
