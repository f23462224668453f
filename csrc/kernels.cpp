// Compiled once per instruction set, with its flags and FASTMCMD_ISA_NAMESPACE. Nothing here may
// instantiate an inline function that another object could share: no std::, only own headers.
#include "factor_tile.h"
#include "gram_tile.h"
#include "thin.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T>
void add_to_double(index_t rows, index_t cols, const T* u, index_t ldu, double* out, index_t ldo) {
  for (index_t r = 0; r < rows; ++r) {
    const T* from = u + r * ldu;
    double* to = out + r * ldo;
    for (index_t c = 0; c < cols; ++c) to[c] += static_cast<double>(from[c]);
  }
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
