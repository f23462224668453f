// Views of C-contiguous arrays, and the few functions that compiled loops over rows need. Objects of several
// instruction sets share the views, so their functions must not exist outside the loops.
#pragma once

#include <math.h>
#include <stdint.h>

#include "../plain_types.h"

namespace fastmcmd {

template <class T>
struct vec {
  T* data;
  index_t n;
  [[gnu::always_inline]] T& operator[](index_t i) const { return data[i]; }
};

template <class T>
struct mat {
  T* data;
  index_t n, m;
  [[gnu::always_inline]] T* operator[](index_t i) const { return data + i * m; }
  [[gnu::always_inline]] vec<T> row(index_t i) const { return {data + i * m, m}; }
};

template <class T>
struct cube {
  T* data;
  index_t n, m, k;
  [[gnu::always_inline]] mat<T> operator[](index_t i) const { return {data + i * m * k, m, k}; }
};

using in = vec<const double>;
using ins = mat<const double>;
using out = vec<double>;
using outs = mat<double>;

namespace FASTMCMD_ISA_NAMESPACE {

constexpr double infinity = HUGE_VAL;
constexpr double half_log_2pi = 0.9189385332046728;

inline double not_a_number() { return infinity - infinity; }
template <class T>
inline bool is_nan(T x) {
  return x != x;
}
template <class T>
inline bool is_finite(T x) {
  return x - x == T(0);
}
template <class T>
inline T least(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T greatest(T a, T b) {
  return b > a ? b : a;
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
