// The kernel's value from the statistics of pairs of points, on one block of pairs: Rows points, a
// panel of them or a single one, against a panel. Its formulas are those of formulas.h.
#pragma once

#include "micro.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T, int Rows = panel_width<T>>
struct block {
  T* data;
  index_t ld;
};

template <class T, int Rows, class F>
inline void map_block(block<const T, Rows> in, block<T, Rows> out, F f) {
  for (index_t r = 0; r < Rows; ++r) {
    const T* from = in.data + r * in.ld;
    T* to = out.data + r * out.ld;
#pragma GCC unroll 16
    for (int v = 0; v < vectors_per_panel; ++v) {
      store(to + v * lanes<T>, f(load(from + v * lanes<T>)));
    }
  }
}

template <class T, int N, int Rows>
inline void polynomial_blocks(vec<T> gamma, vec<T> coef0, block<const T, Rows> in, block<T, Rows> out) {
  map_block(in, out, [gamma, coef0](vec<T> s) {
    return polynomial<vector_math<T>, N>(s, gamma, coef0);
  });
}

template <class T, int TwoNu, int Rows>
inline void matern_blocks(vec<T> scale, block<const T, Rows> in, block<T, Rows> out) {
  map_block(in, out, [scale](vec<T> s) { return matern<vector_math<T>, TwoNu>(s, scale); });
}

template <class T, int Rows>
inline void polynomial_block(const double* p, block<const T, Rows> in, block<T, Rows> out) {
  const vec<T> gamma = broadcast(static_cast<T>(p[0]));
  const vec<T> coef0 = broadcast(static_cast<T>(p[1]));
  const int degree = p[2] >= 1 && p[2] <= 8 ? static_cast<int>(p[2]) : 0;
  switch (degree == p[2] ? degree : 0) {
    case 1: return polynomial_blocks<T, 1>(gamma, coef0, in, out);
    case 2: return polynomial_blocks<T, 2>(gamma, coef0, in, out);
    case 3: return polynomial_blocks<T, 3>(gamma, coef0, in, out);
    case 4: return polynomial_blocks<T, 4>(gamma, coef0, in, out);
    case 5: return polynomial_blocks<T, 5>(gamma, coef0, in, out);
    case 6: return polynomial_blocks<T, 6>(gamma, coef0, in, out);
    case 7: return polynomial_blocks<T, 7>(gamma, coef0, in, out);
    case 8: return polynomial_blocks<T, 8>(gamma, coef0, in, out);
    default:
      return map_block(in, out, [gamma, coef0, p](vec<T> s) {
        return real_polynomial<vector_math<T>>(s, gamma, coef0, p[2]);
      });
  }
}

template <class T, int Rows>
inline void matern_block(const double* p, block<const T, Rows> in, block<T, Rows> out) {
  const double two_nu = 2 * p[1];
  const vec<T> scale = broadcast(static_cast<T>(scalar_sqrt(two_nu) / p[0]));
  if (two_nu == 1) return matern_blocks<T, 1>(scale, in, out);
  if (two_nu == 3) return matern_blocks<T, 3>(scale, in, out);
  return matern_blocks<T, 5>(scale, in, out);
}

// max(0, |x|^2 + |z|^2 - 2 x.z), and 0 on the diagonal of a block of pairs (i, i).
template <class T, int Rows>
inline void squared_from_dot(block<const T, Rows> in, block<T, Rows> out, const T* x_norms, const T* z_norms,
                             bool diagonal) {
  for (index_t r = 0; r < Rows; ++r) {
    const vec<T> norm = broadcast(x_norms[r]);
    for (index_t c = 0; c < panel_width<T>; c += lanes<T>) {
      const vec<T> dot = load(in.data + r * in.ld + c);
      store(out.data + r * out.ld + c,
            squared_of_dot<vector_math<T>>(dot, norm, load(z_norms + c)));
    }
    if (diagonal) out.data[r * out.ld + r] = 0;
  }
}

template <class T, int Rows>
inline void cosine_block(block<const T, Rows> in, block<T, Rows> out, const T* x_inverse, const T* z_inverse) {
  for (index_t r = 0; r < Rows; ++r) {
    const vec<T> left = broadcast(x_inverse[r]);
    for (index_t c = 0; c < panel_width<T>; c += lanes<T>) {
      const vec<T> dot = load(in.data + r * in.ld + c);
      store(out.data + r * out.ld + c, cosine<vector_math<T>>(dot, left, load(z_inverse + c)));
    }
  }
}

// out := (b + out) or (b * out): the top of the stack into the one below it.
template <class T, int Rows>
inline void combine_block(int32_t code, block<const T, Rows> b, block<T, Rows> out) {
  for (index_t r = 0; r < Rows; ++r) {
    for (index_t c = 0; c < panel_width<T>; c += lanes<T>) {
      T* to = out.data + r * out.ld + c;
      const vec<T> top = load(b.data + r * b.ld + c);
      store(to, code == op_add ? load(to) + top : load(to) * top);
    }
  }
}

// Everything a leaf may need of one block of pairs.
template <class T, int Rows>
struct pair_block {
  block<const T, Rows> statistic[statistic_count];  // dot, squared, l1, unequal; null where not computed
  const T *x_norms, *z_norms, *x_inverse, *z_inverse;
  bool diagonal;
};

// Numbers whose fourth power is normal, with a margin.
template <class T>
constexpr T least_with_fourth_power = sizeof(T) == 4 ? T(1e-9) : T(1e-75);

template <class T, int Rows>
inline void exponential_block(double gamma, block<const T, Rows> in, block<T, Rows> out) {
  const vec<T> minus_gamma = broadcast(static_cast<T>(-gamma));
  map_block(in, out, [minus_gamma](vec<T> s) {
    return exponential<vector_math<T>>(s, minus_gamma);
  });
}

// v^4, and 0 instead of a number too small for its format, which would take some processors long.
template <class T>
inline vec<T> fourth_power(vec<T> v) {
  const vec<T> least = broadcast(least_with_fourth_power<T>);
  const vec<T> base = select_less<T>(v, least, broadcast<T>(0), v);
  const vec<T> square = base * base;
  return square * square;
}

// out := factor * sum of exp(-gamma s) over Count gammas, in registers from load to store. With Powers each
// gamma is four times the one before, and one exponential gives them all; `in` may be `out`.
template <class T, int Count, bool Powers, int Rows>
inline void exponentials_block(const program_view& program, block<const T, Rows> in, block<T, Rows> out) {
  vec<T> minus_gamma[Count];
  for (int t = 0; t < Count; ++t) {
    minus_gamma[t] = broadcast(static_cast<T>(-program.gammas[t]));
  }
  const vec<T> scale = broadcast(static_cast<T>(program.factor));
  map_block(in, out, [&](vec<T> s) {
    vec<T> value = exponential<vector_math<T>>(s, minus_gamma[0]);
    vec<T> sum = value;
#pragma GCC unroll 4
    for (int t = 1; t < Count; ++t) {
      value = Powers ? fourth_power<T>(value) : exponential<vector_math<T>>(s, minus_gamma[t]);
      sum = sum + value;
    }
    return sum * scale;
  });
}

template <class T, int Rows>
inline block<const T, Rows> squared_distances(const pair_block<T, Rows>& pairs, block<T, Rows> out) {
  if (pairs.statistic[1].data) return pairs.statistic[1];
  squared_from_dot<T>(pairs.statistic[0], out, pairs.x_norms, pairs.z_norms, pairs.diagonal);
  return {out.data, out.ld};
}

template <class T, int Rows>
inline void sum_of_exponentials(const program_view& program, const pair_block<T, Rows>& pairs,
                                block<T, Rows> out) {
  const block<const T, Rows> squared = squared_distances(pairs, out);
  if (program.exponentials == 2) {
    return program.powers ? exponentials_block<T, 2, true>(program, squared, out)
                          : exponentials_block<T, 2, false>(program, squared, out);
  }
  return program.powers ? exponentials_block<T, 3, true>(program, squared, out)
                        : exponentials_block<T, 3, false>(program, squared, out);
}

template <class T, int Rows>
inline void leaf_block(int32_t code, const double* p, const pair_block<T, Rows>& pairs, block<T, Rows> out) {
  switch (code) {
    case op_rbf:
      return exponential_block(p[0], squared_distances(pairs, out), out);
    case op_matern:
      return matern_block(p, squared_distances(pairs, out), out);
    case op_laplacian:
      return exponential_block(p[0], pairs.statistic[2], out);
    case op_polynomial:
      return polynomial_block(p, pairs.statistic[0], out);
    case op_linear:
      return map_block(pairs.statistic[0], out, [](vec<T> s) { return s; });
    case op_cosine:
      return cosine_block<T>(pairs.statistic[0], out, pairs.x_inverse, pairs.z_inverse);
    case op_delta:
      return map_block(pairs.statistic[3], out, [](vec<T> s) { return delta<vector_math<T>>(s); });
    default: {
      const vec<T> value = broadcast(static_cast<T>(p[0]));
      return map_block(block<const T, Rows>{out.data, out.ld}, out, [value](vec<T>) { return value; });
    }
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
