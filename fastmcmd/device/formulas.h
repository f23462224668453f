// The formula of each kernel, written once: the CPU's core compiles it for vectors (csrc/leaves.h), CUDA for
// numbers (tiles.cu). M says what arithmetic is: M::value is a number or a vector of numbers, and
//
//   M::constant(double)   M::absolute(v)   M::root(v)   M::exp_of_negative(v), v <= 0
//   M::raised(v, double)
//   M::if_less(a, b, yes, no)              M::if_unequal(a, b, yes, no)
//
// Nothing is included here: both compilers set the stage before.
#ifndef FASTMCMD_FORMULAS_H
#define FASTMCMD_FORMULAS_H

#ifndef FASTMCMD_FORMULA
#define FASTMCMD_FORMULA inline
#endif

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

// What a pair of points adds to a statistic, coordinate by coordinate.

template <class M, class V = typename M::value>
FASTMCMD_FORMULA V add_dot(V sum, V a, V b) {
  return sum + a * b;
}

template <class M, class V = typename M::value>
FASTMCMD_FORMULA V add_squared(V sum, V a, V b) {
  const V difference = a - b;
  return sum + difference * difference;
}

template <class M, class V = typename M::value>
FASTMCMD_FORMULA V add_l1(V sum, V a, V b) {
  return sum + M::absolute(a - b);
}

// Not a count: 1 once any coordinate differs.
template <class M, class V = typename M::value>
FASTMCMD_FORMULA V add_unequal(V sum, V a, V b) {
  return M::if_unequal(a, b, M::constant(1), sum);
}

// |x - z|^2 = |x|^2 + |z|^2 - 2 x.z, not below 0.
template <class M, class V = typename M::value>
FASTMCMD_FORMULA V squared_of_dot(V dot, V x_norm, V z_norm) {
  const V zero = M::constant(0);
  const V squared = (x_norm + z_norm) - (dot + dot);
  return M::if_less(squared, zero, zero, squared);
}

// Kernels of a statistic.

// exp(-gamma s): RBF of squared distances, Laplacian of L1 distances.
template <class M, class V = typename M::value>
FASTMCMD_FORMULA V exponential(V s, V minus_gamma) {
  return M::exp_of_negative(s * minus_gamma);
}

// scikit-learn's three closed forms, u = sqrt(2 nu) r / length_scale, scale = sqrt(2 nu) / length_scale.
template <class M, int TwoNu, class V = typename M::value>
FASTMCMD_FORMULA V matern(V squared, V scale) {
  const V one = M::constant(1);
  const V u = M::root(squared) * scale;
  const V decay = M::exp_of_negative(M::constant(0) - u);
  if constexpr (TwoNu == 1) {
    return decay;
  } else if constexpr (TwoNu == 3) {
    return (one + u) * decay;
  } else {
    return (one + u + u * u * M::constant(1.0 / 3.0)) * decay;
  }
}

template <class M, int N, class V = typename M::value>
FASTMCMD_FORMULA V power(V u) {
  if constexpr (N == 1) {
    return u;
  } else if constexpr (N % 2 == 0) {
    const V half = power<M, N / 2>(u);
    return half * half;
  } else {
    return power<M, N - 1>(u) * u;
  }
}

template <class M, class V = typename M::value>
FASTMCMD_FORMULA V affine(V dot, V gamma, V coef0) {
  return dot * gamma + coef0;
}

template <class M, int N, class V = typename M::value>
FASTMCMD_FORMULA V polynomial(V dot, V gamma, V coef0) {
  return power<M, N>(affine<M>(dot, gamma, coef0));
}

// For degrees that are not small whole numbers.
template <class M, class V = typename M::value>
FASTMCMD_FORMULA V real_polynomial(V dot, V gamma, V coef0, double degree) {
  return M::raised(affine<M>(dot, gamma, coef0), degree);
}

template <class M, class V = typename M::value>
FASTMCMD_FORMULA V cosine(V dot, V x_inverse, V z_inverse) {
  return dot * x_inverse * z_inverse;
}

template <class M, class V = typename M::value>
FASTMCMD_FORMULA V delta(V unequal) {
  const V zero = M::constant(0);
  return M::if_less(zero, unequal, zero, M::constant(1));
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd

#endif
