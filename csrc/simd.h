// A vector of lanes: GCC/Clang vector extensions, elsewhere a struct with plain loops.
#pragma once

#include "plain_types.h"

#ifdef _MSC_VER
#include <math.h>
#endif

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
constexpr int vector_registers = 32;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
constexpr int vector_registers = 16;
#elif defined(__aarch64__) || defined(_M_ARM64)
constexpr int vector_bytes = 16;
constexpr int vector_registers = 32;
#else
constexpr int vector_bytes = 16;
constexpr int vector_registers = 16;
#endif

template <class T>
constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

template <class T>
struct bits_of;
template <>
struct bits_of<float> {
  using type = uint32_t;
  static constexpr int mantissa = 23;
};
template <>
struct bits_of<double> {
  using type = uint64_t;
  static constexpr int mantissa = 52;
};

#if defined(__GNUC__)

template <class T>
struct vector_types {
  using bits = typename bits_of<T>::type;
  typedef T vec __attribute__((vector_size(vector_bytes)));
  typedef T loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
  typedef bits mask __attribute__((vector_size(vector_bytes)));
};
template <class T>
using vec = typename vector_types<T>::vec;

inline void fetch(const char* p) { __builtin_prefetch(p, 0, 2); }
template <class T>
inline vec<T> load(const T* p) {
  return *reinterpret_cast<const typename vector_types<T>::loose*>(p);
}
template <class T>
inline void store(T* p, vec<T> v) {
  *reinterpret_cast<typename vector_types<T>::loose*>(p) = v;
}
// x - 0 is x for every x, signed zeros too, so the compiler keeps the broadcast alone.
template <class T>
inline vec<T> broadcast(T x) {
  return x - vec<T>{};
}
// a < b ? yes : no, lane by lane; false where a or b is NaN.
template <class T, class V = vec<T>>
inline V select_less(V a, V b, V yes, V no) {
  return a < b ? yes : no;
}
template <class T, class V = vec<T>>
inline V select_unequal(V a, V b, V yes, V no) {
  return a != b ? yes : no;
}
template <class T, class V = vec<T>>
inline V absolute(V a) {
  using mask = typename vector_types<T>::mask;
  using bits = typename vector_types<T>::bits;
  const mask magnitude = mask{} + static_cast<bits>(~bits{} >> 1);
  return reinterpret_cast<V>(reinterpret_cast<mask>(a) & magnitude);
}
// The low bits of t, moved into the exponent field.
template <class T, class V = vec<T>>
inline V low_bits_as_exponent(V t) {
  using mask = typename vector_types<T>::mask;
  return reinterpret_cast<V>(reinterpret_cast<mask>(t) << bits_of<T>::mantissa);
}
inline float scalar_sqrt(float x) { return __builtin_sqrtf(x); }
inline double scalar_sqrt(double x) { return __builtin_sqrt(x); }
inline double scalar_pow(double x, double y) { return __builtin_pow(x, y); }
template <class T>
inline T lane(vec<T> a, int i) {
  return a[i];
}
template <class T, class V = vec<T>>
inline V square_root(V a) {
  V out;
  for (int i = 0; i < lanes<T>; ++i) out[i] = scalar_sqrt(a[i]);
  return out;
}

#else

template <class T>
struct vec {
  T at[lanes<T>];

  template <class F>
  static vec each(F f) {
    vec out;
    for (int i = 0; i < lanes<T>; ++i) out.at[i] = f(i);
    return out;
  }
  friend vec operator+(vec a, vec b) {
    return each([&](int i) { return a.at[i] + b.at[i]; });
  }
  friend vec operator-(vec a, vec b) {
    return each([&](int i) { return a.at[i] - b.at[i]; });
  }
  friend vec operator*(vec a, vec b) {
    return each([&](int i) { return a.at[i] * b.at[i]; });
  }
  vec& operator+=(vec b) { return *this = *this + b; }
};

inline void fetch(const char*) {}
template <class T>
inline vec<T> load(const T* p) {
  return vec<T>::each([&](int i) { return p[i]; });
}
template <class T>
inline void store(T* p, vec<T> v) {
  for (int i = 0; i < lanes<T>; ++i) p[i] = v.at[i];
}
template <class T>
inline vec<T> broadcast(T x) {
  return vec<T>::each([&](int) { return x; });
}
template <class T, class V = vec<T>>
inline V select_less(V a, V b, V yes, V no) {
  return V::each([&](int i) { return a.at[i] < b.at[i] ? yes.at[i] : no.at[i]; });
}
template <class T, class V = vec<T>>
inline V select_unequal(V a, V b, V yes, V no) {
  return V::each([&](int i) { return a.at[i] != b.at[i] ? yes.at[i] : no.at[i]; });
}
template <class T, class V = vec<T>>
inline V absolute(V a) {
  return V::each([&](int i) { return a.at[i] < 0 ? -a.at[i] : a.at[i]; });
}
template <class T, class V = vec<T>>
inline V low_bits_as_exponent(V t) {
  union pun {
    T value;
    typename bits_of<T>::type bits;
  };
  return V::each([&](int i) {
    pun p;
    p.value = t.at[i];
    p.bits <<= bits_of<T>::mantissa;
    return p.value;
  });
}
// The C functions by their C names: the C++ overloads for float are shared inline functions.
inline float scalar_sqrt(float x) { return static_cast<float>(::sqrt(static_cast<double>(x))); }
inline double scalar_sqrt(double x) { return ::sqrt(x); }
inline double scalar_pow(double x, double y) { return ::pow(x, y); }
template <class T>
inline T lane(vec<T> a, int i) {
  return a.at[i];
}
template <class T, class V = vec<T>>
inline V square_root(V a) {
  return V::each([&](int i) { return scalar_sqrt(a.at[i]); });
}

#endif

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
