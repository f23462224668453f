// Exponentials of several numbers at once.
#pragma once

#include <string.h>

#include "../exp_constants.h"
#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Replaces numbers by their exponentials: 0 below -709.09, and about 1e308 beyond 709. The last bits of `shifted` hold
// the exponent of the result, and those of 0 for numbers that are clamped below. The polynomial is summed in pairs, and
// each loop is short: a processor would wait for each link of a long chain, because it looks ahead some hundred
// instructions.
template <index_t m>
inline void exponentials(double (&x)[m]) {
  using c = exp_constants<double>;
  constexpr const double* q = c::q;  // from the highest order down
  constexpr double highest = 709.0;  // the power of 2 is finite
  double rest[m], scale[m];
  for (index_t k = 0; k < m; ++k) {
    const double y = x[k] < c::lowest ? c::lowest : x[k] > highest ? highest : x[k];
    const double shifted = y * c::log2_e + c::magic;
    const double n = shifted - c::magic;
    rest[k] = (y - n * c::ln2_high) - n * c::ln2_low;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    memcpy(&scale[k], &bits, sizeof bits);
  }
  for (index_t k = 0; k < m; ++k) {
    const double r = rest[k], r2 = r * r, r4 = r2 * r2;
    const double low = (q[9] + q[8] * r) + r2 * (q[7] + q[6] * r);
    const double high = (q[5] + q[4] * r) + r2 * (q[3] + q[2] * r);
    const double sum = low + r4 * (high + r4 * (q[1] + q[0] * r));
    x[k] = ((sum * r2 + r) + 1.0) * scale[k];
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
