// Compiled once per instruction set, with its flags and FASTMCMD_ISA_NAMESPACE. Nothing here may
// instantiate an inline function that another object could share: no std::, only own headers.
#include "factor_tile.h"
#include "gram_tile.h"
#include "thin.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

// Adds pieces of fixed length, halving it: short rows are all remainder to a vectorised loop.
template <class T, int N>
inline void add_row(index_t count, const T* u, double* out) {
  index_t c = 0;
  for (; c + N <= count; c += N) {
    double sum[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) sum[i] = out[c + i] + static_cast<double>(u[c + i]);
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) out[c + i] = sum[i];
  }
  if constexpr (N > 1) add_row<T, N / 2>(count - c, u + c, out + c);
}

template <class T>
void add_to_double(index_t rows, index_t cols, const T* u, index_t ldu, double* out, index_t ldo) {
  for (index_t r = 0; r < rows; ++r) add_row<T, 16>(cols, u + r * ldu, out + r * ldo);
}

template <class T>
constexpr kernel_table<T> table = {
    lanes<T>,          panel_width<T>, gram_tile<T>,      multiply<T>,      multiply_thin<T>,
    add_to_double<T>,  exp_array<T>,   tile_to_panels<T>, panels_to_tile<T>, update_panels<T>,
    factor_tile<T>,    solve_panels<T>, solve_lower<T>, solve_upper<T>,
};

extern const isa_tables tables;
const isa_tables tables = {FASTMCMD_ISA_NAME, &table<float>, &table<double>};

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
