// Checks a kernel program and finds what it needs.
#pragma once

#include "error.h"
#include "plain_types.h"

namespace fastmcmd {

constexpr index_t max_program_depth = 64;

// Cancellation in |x|^2 + |z|^2 - 2 x.z leaves an error of about eps |x|^2 in a squared distance;
// exp(-r) turns it into its square root where points coincide, so it always gets the direct sum.
inline unsigned needed_statistic(int32_t code, const double* p, bool direct) {
  switch (code) {
    case op_rbf: return direct ? stat_squared : stat_dot;
    case op_matern:
      return direct || p[1] == 0.5 ? stat_squared : stat_dot;
    case op_laplacian: return stat_l1;
    case op_polynomial:
    case op_linear:
    case op_cosine: return stat_dot;
    case op_delta: return stat_unequal;
    default: return 0;
  }
}

// The number of RBFs if a checked program is their sum, perhaps times a constant; else 0. The default
// input kernel is of this form.
inline int count_exponentials(const int32_t* codes, index_t length) {
  if (length < 3 || codes[0] != op_rbf) return 0;
  index_t i = 1;
  while (i + 1 < length && codes[i] == op_rbf && codes[i + 1] == op_add) i += 2;
  const bool scaled = i + 2 == length && codes[i] == op_constant && codes[i + 1] == op_mul;
  const index_t count = (i + 1) / 2;
  return (i == length || scaled) && count >= 2 && count <= max_exponentials ? static_cast<int>(count) : 0;
}

// Fills in how the program sums RBFs, if it does. The program is leaf, leaf, add, leaf, add, ...
inline void set_exponentials(program_view& program) {
  program.exponentials = count_exponentials(program.codes, program.length);
  program.powers = program.exponentials > 0;
  for (int t = 0; t < program.exponentials; ++t) {
    program.gammas[t] = program.params[(t == 0 ? 0 : 2 * t - 1) * params_per_op];
    if (t > 0 && program.gammas[t] != 4 * program.gammas[t - 1]) program.powers = false;
  }
  if (program.exponentials && program.codes[program.length - 1] == op_mul) {
    program.factor = program.params[(program.length - 2) * params_per_op];
  }
}

inline program_view make_program(const int32_t* codes, const double* params, index_t length,
                                 index_t d) {
  program_view program = {codes, params, length, 0, 0, 0, {}, false, 1.0};
  // Rows that are compared cannot be centred, and without that the expanded form loses digits.
  // The last parameter of a leaf asks for direct distances whatever the dimension.
  bool direct = d <= direct_distance_limit;
  for (index_t i = 0; i < length; ++i) {
    direct = direct || codes[i] == op_delta || params[i * params_per_op + params_per_op - 1] != 0;
  }
  index_t height = 0;
  for (index_t i = 0; i < length; ++i) {
    const int32_t code = codes[i];
    FASTMCMD_CHECK(code >= 0 && code < op_count, "unknown code in the kernel program");
    if (code == op_add || code == op_mul) {
      FASTMCMD_CHECK(height >= 2, "the kernel program combines more kernels than it has");
      --height;
    } else {
      const double* p = params + i * params_per_op;
      FASTMCMD_CHECK(code != op_matern || p[1] == 0.5 || p[1] == 1.5 || p[1] == 2.5,
                     "nu of a matern kernel must be 0.5, 1.5 or 2.5");
      program.statistics |= needed_statistic(code, p, direct);
      ++height;
      if (height > program.depth) program.depth = height;
    }
  }
  FASTMCMD_CHECK(height == 1, "the kernel program must leave exactly one kernel");
  FASTMCMD_CHECK(program.depth <= max_program_depth, "the kernel program is nested too deeply");
  set_exponentials(program);
  return program;
}

inline index_t statistics_in(const program_view& program) {
  index_t count = 0;
  for (unsigned bits = program.statistics; bits; bits &= bits - 1) ++count;
  return count;
}

}  // namespace fastmcmd
