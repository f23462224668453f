// Densities of continuous families at the nodes of panels.
#pragma once

#include <string.h>

#include "../exp_constants.h"
#include "exponentials.h"
#include "panels.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Numbers of constant count. Loops over them become vector instructions.
template <index_t m>
struct several {
  double at[m];
};

// One number at each node of a panel.
using node_values = several<panel_nodes>;

// Replaces numbers by their logarithms. With x = 2^n (1 + f) and s = f / (2 + f), log(1 + f) is 2 atanh(s), by the
// polynomial of FreeBSD's e_log.c; the error is below a unit in the last place. `smallest` and `largest` bound the
// numbers.
template <index_t m>
inline void logarithms(several<m>& x, double smallest, double largest) {
  if (!(smallest >= 2.3e-308 && largest < infinity)) {
    for (index_t k = 0; k < m; ++k) x.at[k] = log(x.at[k]);
    return;
  }
  constexpr double ln2_high = exp_constants<double>::ln2_high, ln2_low = exp_constants<double>::ln2_low;
  constexpr uint64_t one = 0x3ff0000000000000, root_half = 0x3fe6a09e00000000, fraction = 0x000fffffffffffff;
  constexpr uint64_t whole = 0x4330000000000000;  // of 2^52: its last bits hold an integer
  double f[m], order[m], share[m], series[m];
  for (index_t k = 0; k < m; ++k) {
    uint64_t bits;
    memcpy(&bits, &x.at[k], sizeof bits);
    const uint64_t moved = bits + (one - root_half);
    const uint64_t exponent = (moved >> 52) | whole;
    bits = (moved & fraction) + root_half;
    double significand, n;
    memcpy(&significand, &bits, sizeof bits);
    memcpy(&n, &exponent, sizeof exponent);
    f[k] = significand - 1.0;
    order[k] = n - (4503599627370496.0 + 1023.0);
  }
  for (index_t k = 0; k < m; ++k) share[k] = f[k] / (2.0 + f[k]);
  for (index_t k = 0; k < m; ++k) {
    const double z = share[k] * share[k], w = z * z;
    const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const double odd = z * (6.666666666666735130e-01 +
                            w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    series[k] = even + odd;
  }
  for (index_t k = 0; k < m; ++k) {
    const double half_square = 0.5 * f[k] * f[k];
    const double log_f = share[k] * (half_square + series[k]) + order[k] * ln2_low;
    x.at[k] = order[k] * ln2_high - ((half_square - log_f) - f[k]);
  }
}

// The families, by the constants c of a row; h is the logarithm of a height. Numbers outside the support do not occur,
// except by rounding at its ends, where the density is 0.
enum density_family : int {
  family_normal,      // exp(h - z^2 / 2), z = (y - c0) / c1
  family_laplace,     // exp(h - |z|)
  family_logistic,    // exp(h - |z|) / (1 + exp(-|z|))^2
  family_student,     // exp(h - c2 log(1 + z^2)), z = c1 (y - c0), c3 = exp(h)
  family_log_normal,  // exp(h - z^2 / 2) / y, z = (log y - c0) / c1
  family_gamma,       // exp(h + (c0 - 1) log x - c0 (x - 1)), x = c1 y
  family_beta,        // exp(h + (c0 - 1) log(y / c2) + (c1 - 1) log((1 - y) / (1 - c2)))
  family_weibull      // exp(h + (c0 - 1) log x - x^c0), x = y / c1
};
constexpr double most_ratio = 1e300;  // ratios beyond it have a density of 0, and no infinity appears
constexpr double few_freedoms = 10.5;  // c2 below which a rounding of the argument of log is one of the density

// Writes densities of Student's t at few whole degrees of freedom: exp(h) (1 + z^2)^(-c2) needs products and a root.
inline void student_powers(const double* c, const node_values& y, node_values& value) {
  constexpr index_t m = panel_nodes;
  const double c0 = c[0], c1 = c[1], height = c[3];
  const int twice = static_cast<int>(2.0 * c[2]);
  node_values factor;
  for (index_t k = 0; k < m; ++k) {
    const double z = (y.at[k] - c0) * c1;
    factor.at[k] = 1.0 / (1.0 + least(z * z, most_ratio));
  }
  for (index_t k = 0; k < m; ++k) value.at[k] = twice % 2 ? height * sqrt(factor.at[k]) : height;
  for (int power = twice / 2; power; power /= 2) {
    if (power % 2) {
      for (index_t k = 0; k < m; ++k) value.at[k] *= factor.at[k];
    }
    if (power > 1) {
      for (index_t k = 0; k < m; ++k) factor.at[k] *= factor.at[k];
    }
  }
}

// Adds the weighted densities at numbers that rise.
inline void add_density(int family, const double* c, double weight, const node_values& y, double* sum) {
  constexpr index_t m = panel_nodes;
  const double c0 = c[0], c1 = c[1], c2 = c[2], height = c[4];
  const double first = y.at[0], last = y.at[m - 1];
  node_values value, other;
  bool inside = true;
  switch (family) {
    case family_normal: {
      const double unit = 1.0 / c1;
      for (index_t k = 0; k < m; ++k) {
        const double z = (y.at[k] - c0) * unit;
        value.at[k] = height - 0.5 * z * z;
      }
      break;
    }
    case family_laplace: {
      const double unit = 1.0 / c1;
      for (index_t k = 0; k < m; ++k) value.at[k] = height - fabs(y.at[k] - c0) * unit;
      break;
    }
    case family_logistic: {
      const double unit = 1.0 / c1;
      for (index_t k = 0; k < m; ++k) other.at[k] = -fabs(y.at[k] - c0) * unit;
      value = other;
      exponentials(other.at);
      for (index_t k = 0; k < m; ++k) value.at[k] += height;
      break;
    }
    case family_student: {
      if (c2 < few_freedoms && 2.0 * c2 == floor(2.0 * c2)) {
        student_powers(c, y, value);
        for (index_t k = 0; k < m; ++k) sum[k] += weight * value.at[k];
        return;
      }
      for (index_t k = 0; k < m; ++k) {
        const double z = (y.at[k] - c0) * c1;
        other.at[k] = least(z * z, most_ratio);
        value.at[k] = 1.0 + other.at[k];
      }
      if (c2 < few_freedoms) {
        logarithms(value, 1.0, most_ratio);
        for (index_t k = 0; k < m; ++k) value.at[k] = height - c2 * value.at[k];
        break;
      }
      // What rounding has taken from the argument.
      for (index_t k = 0; k < m; ++k) other.at[k] = (other.at[k] - (value.at[k] - 1.0)) / value.at[k];
      logarithms(value, 1.0, most_ratio);
      for (index_t k = 0; k < m; ++k) value.at[k] = height - c2 * (value.at[k] + other.at[k]);
      break;
    }
    case family_log_normal: {
      const double unit = 1.0 / c1;
      inside = first > 0.0;
      other = y;
      logarithms(other, first, last);
      for (index_t k = 0; k < m; ++k) {
        const double z = (other.at[k] - c0) * unit;
        value.at[k] = height - other.at[k] - 0.5 * z * z;
      }
      break;
    }
    case family_gamma:
      inside = first > 0.0;
      for (index_t k = 0; k < m; ++k) value.at[k] = c1 * y.at[k];
      other = value;
      logarithms(other, value.at[0], value.at[m - 1]);
      for (index_t k = 0; k < m; ++k) value.at[k] = (c0 - 1.0) * other.at[k] - c0 * (value.at[k] - 1.0) + height;
      break;
    case family_beta: {
      const double unit = 1.0 / c2, other_unit = 1.0 / (1.0 - c2);
      inside = first > 0.0 && last < 1.0;
      for (index_t k = 0; k < m; ++k) {
        value.at[k] = y.at[k] * unit;
        other.at[k] = (1.0 - y.at[k]) * other_unit;
      }
      logarithms(value, value.at[0], value.at[m - 1]);
      logarithms(other, other.at[m - 1], other.at[0]);
      for (index_t k = 0; k < m; ++k) value.at[k] = (c0 - 1.0) * value.at[k] + (c1 - 1.0) * other.at[k] + height;
      break;
    }
    case family_weibull: {
      const double unit = 1.0 / c1;
      inside = first > 0.0;
      for (index_t k = 0; k < m; ++k) value.at[k] = least(y.at[k] * unit, most_ratio);
      logarithms(value, value.at[0], value.at[m - 1]);
      for (index_t k = 0; k < m; ++k) other.at[k] = c0 * value.at[k];
      exponentials(other.at);
      for (index_t k = 0; k < m; ++k) value.at[k] = (c0 - 1.0) * value.at[k] - other.at[k] + height;
      break;
    }
  }
  exponentials(value.at);
  if (family == family_logistic) {
    for (index_t k = 0; k < m; ++k) value.at[k] /= (1.0 + other.at[k]) * (1.0 + other.at[k]);
  }
  if (inside) {
    for (index_t k = 0; k < m; ++k) sum[k] += weight * value.at[k];
    return;
  }
  for (index_t k = 0; k < m; ++k) {
    const bool zero = !(y.at[k] > 0.0) || (family == family_beta && !(y.at[k] < 1.0));
    if (!zero) sum[k] += weight * value.at[k];
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
