// Compiled once per instruction set, with its flags and FASTMCMD_ISA_NAMESPACE. Nothing here may
// instantiate an inline function that another object could share: no std::, only own headers.
#include "factor_tile.h"
#include "gram_tile.h"
#include "few_columns.h"
#include "quantize.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T, int N>
inline void add_piece(const T* u, double* out) {
  double sum[N];
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) sum[i] = out[i] + static_cast<double>(u[i]);
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) out[i] = sum[i];
}

// The last columns in pieces of fixed length: short rows are all remainder to a vectorised loop.
template <class T, int N>
inline void add_remainder(index_t count, const T* u, double* out) {
  if constexpr (N > 0) {
    if (count & N) {
      add_piece<T, N>(u, out);
      u += N;
      out += N;
    }
    add_remainder<T, N / 2>(count, u, out);
  }
}

template <class T>
void add_to_double(index_t rows, index_t cols, const T* u, index_t ldu, double* out, index_t ldo) {
  constexpr index_t piece = 16;
  for (index_t r = 0; r < rows; ++r) {
    index_t c = 0;
    for (; c + piece <= cols; c += piece) add_piece<T, piece>(u + c, out + c);
    add_remainder<T, piece / 2>(cols, u + c, out + c);
    u += ldu;
    out += ldo;
  }
}

template <class T, int N>
inline void add_squares_of(index_t rows, const T* tile, index_t ld, double* out) {
  double sum[N];
#pragma GCC unroll 16
  for (int j = 0; j < N; ++j) sum[j] = out[j];
  for (index_t i = 0; i < rows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < N; ++j) {
      const double value = static_cast<double>(tile[i * ld + j]);
      sum[j] += value * value;
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < N; ++j) out[j] = sum[j];
}

template <class T>
void add_squares(index_t rows, index_t cols, const T* tile, index_t ld, double* out) {
  constexpr index_t piece = 16;  // the sums stay in registers
  index_t c = 0;
  for (; c + piece <= cols; c += piece) add_squares_of<T, piece>(rows, tile + c, ld, out + c);
  for (; c < cols; ++c) add_squares_of<T, 1>(rows, tile + c, ld, out + c);
}

template <int N>
inline void sum_rows_of(index_t rows, const double* tile, index_t ld, const double* weights,
                        double* out) {
  double sum[N] = {};
  for (index_t i = 0; i < rows; ++i) {
#pragma GCC unroll 32
    for (int j = 0; j < N; ++j) sum[j] += weights[i] * tile[i * ld + j];
  }
#pragma GCC unroll 32
  for (int j = 0; j < N; ++j) out[j] = sum[j];
}

void sum_rows_in_double(index_t rows, index_t cols, const double* tile, index_t ld,
                        const double* weights, double* out) {
  constexpr index_t piece = 32;  // the sums stay in registers
  index_t c = 0;
  for (; c + piece <= cols; c += piece) sum_rows_of<piece>(rows, tile + c, ld, weights, out + c);
  for (; c < cols; ++c) sum_rows_of<1>(rows, tile + c, ld, weights, out + c);
}

// Only Gram matrices of differences are summed over rows, in double.
template <class T>
constexpr void (*sum_rows)(index_t, index_t, const T*, index_t, const T*, T*) = nullptr;
template <>
constexpr void (*sum_rows<double>)(index_t, index_t, const double*, index_t, const double*,
                                   double*) = sum_rows_in_double;

// Only pivots of output features need single rows, in double. A second instantiation in float keeps the
// compiler from inlining the kernels of gram_tile<float>, which then take up to 10 % longer.
template <class T>
constexpr void (*gram_row)(const tile_job<T>& job) = nullptr;
template <>
constexpr void (*gram_row<double>)(const tile_job<double>& job) = gram_tile<double, 1>;

// Only float32 tiles have a form in 16 bits.
template <class T>
constexpr void (*quantize)(index_t, index_t, const T*, index_t, index_t, uint16_t*, T*) = nullptr;
template <>
constexpr void (*quantize<float>)(index_t, index_t, const float*, index_t, index_t, uint16_t*,
                                  float*) = quantize_tile;
template <class T>
constexpr void (*dequantize)(index_t, index_t, const uint16_t*, const T*, index_t, T*, index_t) = nullptr;
template <>
constexpr void (*dequantize<float>)(index_t, index_t, const uint16_t*, const float*, index_t, float*,
                                    index_t) = dequantize_tile;

template <class T>
constexpr kernel_table<T> table = {
    lanes<T>,          panel_width<T>,  gram_tile<T>,    gram_row<T>,       multiply<T>,
    multiply_few_columns<T>,  add_to_double<T>, add_squares<T>, sum_rows<T>,   exp_array<T>,
    tile_to_panels<T>, panels_to_tile<T>, update_panels<T>, factor_tile<T>,  solve_panels<T>,
    solve_lower<T>,    solve_upper<T>,    quantize<T>,      dequantize<T>,
};

#ifdef FASTMCMD_WITHOUT_LOOPS  // builds under sanitizers, whose tests call none
constexpr const loop_table* row_loops = nullptr;
#else
extern const loop_table loops;  // of loops.cpp
constexpr const loop_table* row_loops = &loops;
#endif
extern const isa_tables tables;
const isa_tables tables = {FASTMCMD_ISA_NAME, &table<float>, &table<double>, row_loops};

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
