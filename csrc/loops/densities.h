// Densities of continuous families at the nodes of panels.
#pragma once

#include <string.h>

#include "panels.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// One number at each node of a panel. Loops over the nodes become vector instructions.
struct node_values {
  double at[panel_nodes];
};

// Replaces numbers by their exponentials: 0 below -709.09, and about 1e308 beyond 709. With x = n ln 2 + r, the last
// bits of `shifted` hold n, and those of 0 for numbers that are clamped below. exp(r) is the polynomial of
// vector_exp.h, off by 1.7e-17, summed in pairs: a chain of products and sums would wait for each of its links.
inline void exponentials(node_values& x) {
  constexpr index_t m = panel_nodes;
  constexpr double magic = 6755399441056767.0;  // 1.5 * 2^52 + 1023
  constexpr double log2_e = 1.44269504088896340736, lowest = -709.08956571282405, highest = 709.0;
  constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  constexpr double c[] = {0.5,
                          1.66666666666666675e-1,
                          4.16666666666241279e-2,
                          8.33333333333006183e-3,
                          1.38888889172137169e-3,
                          1.98412698630536169e-4,
                          2.48015212959543751e-5,
                          2.75572684599970648e-6,
                          2.76200884454097482e-7,
                          2.51003854955103191e-8};
  double shifted[m], power[m], scale[m];
  uint64_t bits[m];
  for (index_t k = 0; k < m; ++k) {
    const double y = x.at[k] < lowest ? lowest : x.at[k] > highest ? highest : x.at[k];
    shifted[k] = y * log2_e + magic;
    const double n = shifted[k] - magic;
    const double r = (y - n * ln2_high) - n * ln2_low, r2 = r * r, r4 = r2 * r2;
    const double low = (c[0] + c[1] * r) + r2 * (c[2] + c[3] * r);
    const double high = (c[4] + c[5] * r) + r2 * (c[6] + c[7] * r);
    const double q = low + r4 * (high + r4 * (c[8] + c[9] * r));
    power[k] = (q * r2 + r) + 1.0;
  }
  memcpy(bits, shifted, sizeof bits);
  for (index_t k = 0; k < m; ++k) bits[k] <<= 52;
  memcpy(scale, bits, sizeof bits);
  for (index_t k = 0; k < m; ++k) x.at[k] = power[k] * scale[k];
}

// Replaces numbers by their logarithms. With x = 2^n (1 + f) and s = f / (2 + f), log(1 + f) is 2 atanh(s), by the
// polynomial of FreeBSD's e_log.c; the error is below a unit in the last place. `smallest` and `largest` bound the
// numbers.
inline void logarithms(node_values& x, double smallest, double largest) {
  constexpr index_t m = panel_nodes;
  if (!(smallest >= 2.3e-308 && largest < infinity)) {
    for (index_t k = 0; k < m; ++k) x.at[k] = log(x.at[k]);
    return;
  }
  constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  constexpr uint64_t one = 0x3ff0000000000000, root_half = 0x3fe6a09e00000000, fraction = 0x000fffffffffffff;
  constexpr uint64_t whole = 0x4330000000000000;  // of 2^52: its last bits hold an integer
  uint64_t bits[m], exponent[m];
  double f[m], n[m];
  memcpy(bits, x.at, sizeof bits);
  for (index_t k = 0; k < m; ++k) {
    const uint64_t moved = bits[k] + (one - root_half);
    exponent[k] = (moved >> 52) | whole;
    bits[k] = (moved & fraction) + root_half;
  }
  memcpy(f, bits, sizeof bits);
  memcpy(n, exponent, sizeof exponent);
  for (index_t k = 0; k < m; ++k) {
    const double g = f[k] - 1.0, order = n[k] - (4503599627370496.0 + 1023.0);
    const double s = g / (2.0 + g), z = s * s, w = z * z, half_square = 0.5 * g * g;
    const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const double odd = z * (6.666666666666735130e-01 +
                            w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    x.at[k] = order * ln2_high - ((half_square - (s * (half_square + (even + odd)) + order * ln2_low)) - g);
  }
}

// The families, by the constants c of a row; h is the logarithm of a height. Numbers outside the support do not occur,
// except by rounding at its ends, where the density is 0.
enum density_family : int {
  family_normal,      // exp(h - z^2 / 2), z = (y - c0) / c1
  family_laplace,     // exp(h - |z|)
  family_logistic,    // exp(h - |z|) / (1 + exp(-|z|))^2
  family_student,     // exp(h - c3 log(1 + z^2 / c2))
  family_log_normal,  // exp(h - z^2 / 2) / y, z = (log y - c0) / c1
  family_gamma,       // exp(h + (c0 - 1) log x - c0 (x - 1)), x = c1 y
  family_beta,        // exp(h + (c0 - 1) log(y / c2) + (c1 - 1) log((1 - y) / (1 - c2)))
  family_weibull      // exp(h + (c0 - 1) log x - x^c0), x = y / c1
};
constexpr double most_ratio = 1e300;  // ratios beyond it have a density of 0, and no infinity appears
constexpr double few_freedoms = 10.5;  // c3 below which a rounding of the argument of log is one of the density

// Adds the weighted densities at numbers that rise.
inline void add_density(int family, const double* c, double weight, const node_values& y, double* sum) {
  constexpr index_t m = panel_nodes;
  const double c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], height = c[4];
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
      exponentials(other);
      for (index_t k = 0; k < m; ++k) value.at[k] += height;
      break;
    }
    case family_student: {
      const double unit = 1.0 / (c1 * sqrt(c2));
      for (index_t k = 0; k < m; ++k) {
        const double z = (y.at[k] - c0) * unit;
        other.at[k] = least(z * z, most_ratio);
        value.at[k] = 1.0 + other.at[k];
      }
      if (c3 < few_freedoms) {
        logarithms(value, 1.0, most_ratio);
        for (index_t k = 0; k < m; ++k) value.at[k] = height - c3 * value.at[k];
        break;
      }
      // What rounding has taken from the argument.
      for (index_t k = 0; k < m; ++k) other.at[k] = (other.at[k] - (value.at[k] - 1.0)) / value.at[k];
      logarithms(value, 1.0, most_ratio);
      for (index_t k = 0; k < m; ++k) value.at[k] = height - c3 * (value.at[k] + other.at[k]);
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
      exponentials(other);
      for (index_t k = 0; k < m; ++k) value.at[k] = (c0 - 1.0) * value.at[k] - other.at[k] + height;
      break;
    }
  }
  exponentials(value);
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

// Adds to densities (p, m) on panels of rows (p,) those of one family, whose constants (n, 5) and weights (n,) differ
// by row.
inline void add_densities(vec<const int64_t> rows, in left, in half, in nodes, int family, ins constants, in weights,
                          outs densities) {
  for (index_t i = 0; i < rows.n; ++i) {
    node_values y;
    for (index_t k = 0; k < panel_nodes; ++k) y.at[k] = left[i] + half[i] * (1.0 + nodes[k]);
    add_density(family, constants[rows[i]], weights[rows[i]], y, densities[i]);
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
