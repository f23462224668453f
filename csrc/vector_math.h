// The formulas for vectors of lanes.
#pragma once

#include "vector_exp.h"

#include "formulas.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T>
struct vector_math {
  using value = vec<T>;
  static value constant(double c) { return broadcast(static_cast<T>(c)); }
  static value absolute(value v) { return fastmcmd::FASTMCMD_ISA_NAMESPACE::absolute<T>(v); }
  static value root(value v) { return square_root<T>(v); }
  static value exp_of_negative(value v) {
    return fastmcmd::FASTMCMD_ISA_NAMESPACE::exp_of_negative<T>(v);
  }
  static value raised(value v, double degree) {
    T u[lanes<T>];
    store(u, v);
    for (int i = 0; i < lanes<T>; ++i) u[i] = static_cast<T>(scalar_pow(u[i], degree));
    return load(u);
  }
  static value if_less(value a, value b, value yes, value no) {
    return select_less<T>(a, b, yes, no);
  }
  static value if_unequal(value a, value b, value yes, value no) {
    return select_unequal<T>(a, b, yes, no);
  }
};

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
