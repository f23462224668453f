// exp of vectors, by the constants and the polynomial of exp_constants.h.
#pragma once

#include "exp_constants.h"
#include "simd.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

// For x <= 0. Clamped at -127 ln 2 (or -1023), n is so low that the exponent bits of 2^n are 0,
// which makes the result 0 without a second selection. NaN stays NaN.
template <class T>
inline vec<T> exp_of_negative(vec<T> x) {
  using c = exp_constants<T>;
  const vec<T> lowest = broadcast<T>(c::lowest);
  const vec<T> y = select_less<T>(x, lowest, lowest, x);
  const vec<T> shifted = y * broadcast<T>(c::log2_e) + broadcast<T>(c::magic);
  const vec<T> n = shifted - broadcast<T>(c::magic);
  const vec<T> r = (y - n * broadcast<T>(c::ln2_high)) - n * broadcast<T>(c::ln2_low);
  vec<T> q = broadcast<T>(c::q[0]);
#pragma GCC unroll 16
  for (int i = 1; i < c::count; ++i) q = q * r + broadcast<T>(c::q[i]);
  const vec<T> p = (q * (r * r) + r) + broadcast<T>(1);
  return p * low_bits_as_exponent<T>(shifted);
}

template <class T>
inline vec<T> vector_exp(vec<T> x) {
  const vec<T> highest = broadcast<T>(exp_constants<T>::highest);
  return exp_of_negative<T>(select_less<T>(highest, x, highest, x));
}

template <class T>
void exp_array(index_t n, const T* x, T* out) {
  constexpr index_t width = lanes<T>;
  index_t i = 0;
  for (; i + width <= n; i += width) store(out + i, vector_exp<T>(load(x + i)));
  if (i < n) {
    T last[width] = {};
    for (index_t j = i; j < n; ++j) last[j - i] = x[j];
    store(last, vector_exp<T>(load(last)));
    for (index_t j = i; j < n; ++j) out[j] = last[j - i];
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
