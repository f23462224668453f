// The kernel's value from the statistics of a pair of points, on one block of panel_width^2 pairs.
#pragma once

#include "micro.h"
#include "vector_exp.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T>
struct block {
  T* data;
  index_t ld;
};

template <class T, class F>
inline void map_block(block<const T> in, block<T> out, F f) {
  for (index_t r = 0; r < panel_width<T>; ++r) {
    const T* from = in.data + r * in.ld;
    T* to = out.data + r * out.ld;
#pragma GCC unroll 16
    for (int v = 0; v < vectors_per_panel; ++v) {
      store(to + v * lanes<T>, f(load(from + v * lanes<T>)));
    }
  }
}

template <class T>
struct rbf_value {
  vec<T> minus_gamma;
  vec<T> operator()(vec<T> s) const { return exp_of_negative<T>(s * minus_gamma); }
};

// The statistic counts the blocks of coordinates in which a pair differs.
template <class T>
struct delta_value {
  vec<T> operator()(vec<T> s) const {
    const vec<T> zero = broadcast<T>(0);
    return select_less<T>(zero, s, zero, broadcast<T>(1));
  }
};

// scikit-learn's three closed forms, u = sqrt(2 nu) r / length_scale.
template <class T, int TwoNu>
struct matern_value {
  vec<T> scale;
  vec<T> operator()(vec<T> s) const {
    const vec<T> one = broadcast<T>(1);
    const vec<T> u = square_root<T>(s) * scale;
    const vec<T> decay = exp_of_negative<T>(broadcast<T>(0) - u);
    if constexpr (TwoNu == 1) {
      return decay;
    } else if constexpr (TwoNu == 3) {
      return (one + u) * decay;
    } else {
      return (one + u + u * u * broadcast<T>(static_cast<T>(1.0 / 3.0))) * decay;
    }
  }
};

template <class T, int N>
inline vec<T> power(vec<T> u) {
  if constexpr (N == 1) {
    return u;
  } else if constexpr (N % 2 == 0) {
    const vec<T> half = power<T, N / 2>(u);
    return half * half;
  } else {
    return power<T, N - 1>(u) * u;
  }
}

template <class T, int N>
struct polynomial_value {
  vec<T> gamma, coef0;
  vec<T> operator()(vec<T> s) const { return power<T, N>(s * gamma + coef0); }
};

template <class T>
struct real_polynomial_value {
  vec<T> gamma, coef0;
  double degree;
  vec<T> operator()(vec<T> s) const {
    T u[lanes<T>];
    store(u, s * gamma + coef0);
    for (int i = 0; i < lanes<T>; ++i) u[i] = static_cast<T>(scalar_pow(u[i], degree));
    return load(u);
  }
};

template <class T>
inline void polynomial_block(const double* p, block<const T> in, block<T> out) {
  const vec<T> gamma = broadcast(static_cast<T>(p[0]));
  const vec<T> coef0 = broadcast(static_cast<T>(p[1]));
  const int degree = p[2] >= 1 && p[2] <= 8 ? static_cast<int>(p[2]) : 0;
  switch (degree == p[2] ? degree : 0) {
    case 1: return map_block(in, out, polynomial_value<T, 1>{gamma, coef0});
    case 2: return map_block(in, out, polynomial_value<T, 2>{gamma, coef0});
    case 3: return map_block(in, out, polynomial_value<T, 3>{gamma, coef0});
    case 4: return map_block(in, out, polynomial_value<T, 4>{gamma, coef0});
    case 5: return map_block(in, out, polynomial_value<T, 5>{gamma, coef0});
    case 6: return map_block(in, out, polynomial_value<T, 6>{gamma, coef0});
    case 7: return map_block(in, out, polynomial_value<T, 7>{gamma, coef0});
    case 8: return map_block(in, out, polynomial_value<T, 8>{gamma, coef0});
    default: return map_block(in, out, real_polynomial_value<T>{gamma, coef0, p[2]});
  }
}

template <class T>
inline void matern_block(const double* p, block<const T> in, block<T> out) {
  const double two_nu = 2 * p[1];
  const vec<T> scale = broadcast(static_cast<T>(scalar_sqrt(two_nu) / p[0]));
  if (two_nu == 1) return map_block(in, out, matern_value<T, 1>{scale});
  if (two_nu == 3) return map_block(in, out, matern_value<T, 3>{scale});
  return map_block(in, out, matern_value<T, 5>{scale});
}

// max(0, |x|^2 + |z|^2 - 2 x.z), and 0 on the diagonal of a block of pairs (i, i).
template <class T>
inline void squared_from_dot(block<const T> in, block<T> out, const T* x_norms, const T* z_norms,
                             bool diagonal) {
  const vec<T> zero = broadcast<T>(0);
  for (index_t r = 0; r < panel_width<T>; ++r) {
    const vec<T> norm = broadcast(x_norms[r]);
    for (index_t c = 0; c < panel_width<T>; c += lanes<T>) {
      const vec<T> dot = load(in.data + r * in.ld + c);
      const vec<T> s = (norm + load(z_norms + c)) - (dot + dot);
      store(out.data + r * out.ld + c, select_less<T>(s, zero, zero, s));
    }
    if (diagonal) out.data[r * out.ld + r] = 0;
  }
}

template <class T>
inline void cosine_block(block<const T> in, block<T> out, const T* x_inverse, const T* z_inverse) {
  for (index_t r = 0; r < panel_width<T>; ++r) {
    const vec<T> left = broadcast(x_inverse[r]);
    for (index_t c = 0; c < panel_width<T>; c += lanes<T>) {
      store(out.data + r * out.ld + c, load(in.data + r * in.ld + c) * left * load(z_inverse + c));
    }
  }
}

// out := (b + out) or (b * out): the top of the stack into the one below it.
template <class T>
inline void combine_block(int32_t code, block<const T> b, block<T> out) {
  for (index_t r = 0; r < panel_width<T>; ++r) {
    for (index_t c = 0; c < panel_width<T>; c += lanes<T>) {
      T* to = out.data + r * out.ld + c;
      const vec<T> top = load(b.data + r * b.ld + c);
      store(to, code == op_add ? load(to) + top : load(to) * top);
    }
  }
}

// Everything a leaf may need of one block of pairs.
template <class T>
struct pair_block {
  block<const T> statistic[statistic_count];  // dot, squared, l1, unequal; null where not computed
  const T *x_norms, *z_norms, *x_inverse, *z_inverse;
  bool diagonal;
};

template <class T>
inline void leaf_block(int32_t code, const double* p, const pair_block<T>& pairs, block<T> out) {
  block<const T> squared = pairs.statistic[1];
  if (!squared.data && (code == op_rbf || code == op_matern)) {
    squared_from_dot<T>(pairs.statistic[0], out, pairs.x_norms, pairs.z_norms, pairs.diagonal);
    squared = {out.data, out.ld};
  }
  switch (code) {
    case op_rbf:
      return map_block(squared, out, rbf_value<T>{broadcast(static_cast<T>(-p[0]))});
    case op_matern:
      return matern_block(p, squared, out);
    case op_laplacian:
      return map_block(pairs.statistic[2], out, rbf_value<T>{broadcast(static_cast<T>(-p[0]))});
    case op_polynomial:
      return polynomial_block(p, pairs.statistic[0], out);
    case op_linear:
      return map_block(pairs.statistic[0], out, [](vec<T> s) { return s; });
    case op_cosine:
      return cosine_block<T>(pairs.statistic[0], out, pairs.x_inverse, pairs.z_inverse);
    case op_delta:
      return map_block(pairs.statistic[3], out, delta_value<T>{});
    default: {
      const vec<T> value = broadcast(static_cast<T>(p[0]));
      return map_block(block<const T>{out.data, out.ld}, out, [value](vec<T>) { return value; });
    }
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
