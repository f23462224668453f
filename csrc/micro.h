// One micro-kernel for everything: MR x NV vector accumulators, the left operand broadcast element
// by element, the right operand read as vectors.
#pragma once

#include "simd.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

// Accumulators must leave registers for the right operand and one broadcast.
constexpr int vectors_per_panel = 2;
constexpr int micro_rows = vector_registers == 32 ? 8 : 4;
template <class T>
constexpr index_t panel_width = vectors_per_panel * lanes<T>;
static_assert(tile_unit % panel_width<float> == 0 && panel_width<float> % micro_rows == 0);

// Coordinates per block: one panel of the right operand (2 vectors x 128 x 64 bytes = 16 KiB) and
// the rows broadcast against it stay in a first-level cache of 32 KiB.
constexpr index_t k_block = 128;

struct dot_op {
  template <class T, class V = vec<T>>
  static V apply(V acc, V a, V b) {
    return acc + a * b;
  }
};
struct squared_op {
  template <class T, class V = vec<T>>
  static V apply(V acc, V a, V b) {
    const V diff = a - b;
    return acc + diff * diff;
  }
};
struct l1_op {
  template <class T, class V = vec<T>>
  static V apply(V acc, V a, V b) {
    return acc + absolute<T>(a - b);
  }
};
struct unequal_op {
  template <class T, class V = vec<T>>
  static V apply(V acc, V a, V b) {
    return select_unequal<T>(a, b, broadcast<T>(1), acc);
  }
};

// A_ROW is the distance of the left operand's rows where it is known (1 in panels), else 0.
template <class Op, class T, int MR, int NV, int A_ROW>
inline void micro(index_t k, const T* a, index_t a_row, index_t a_col, const T* b, index_t ldb,
                  T* c, index_t ldc, update mode) {
  constexpr int width = lanes<T>;
  const index_t row = A_ROW ? A_ROW : a_row;
  vec<T> acc[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) acc[r][v] = broadcast<T>(0);
  }
  for (index_t p = 0; p < k; ++p) {
    vec<T> right[NV];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) right[v] = load(b + v * width);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const vec<T> left = broadcast(a[r * row]);
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) acc[r][v] = Op::template apply<T>(acc[r][v], left, right[v]);
    }
    a += a_col;
    b += ldb;
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) {
      T* to = c + r * ldc + v * width;
      if (mode == update::add) {
        store(to, load(to) + acc[r][v]);
      } else if (mode == update::subtract) {
        store(to, load(to) - acc[r][v]);
      } else {
        store(to, acc[r][v]);
      }
    }
  }
}

// All pairs of a left and a right panel. Element (i, j) of the result lies at
// c + (j / width) * c_panel + i * c_row + j % width. After its last block of coordinates each pair
// of panels is handed to finish(left panel, right panel), while it is still in the cache. With
// `lower` only left panels up to the right one's index are computed.
template <class Op, class T, class Finish>
inline void panel_product(index_t k, index_t a_panels, const T* a, index_t a_panel,
                          index_t b_panels, const T* b, index_t b_panel, T* c, index_t c_row,
                          index_t c_panel, update mode, bool lower, Finish finish) {
  constexpr index_t width = panel_width<T>;
  for (index_t start = 0; start < k; start += k_block) {
    const index_t kc = k - start < k_block ? k - start : k_block;
    const bool last = start + kc == k;
    const update how = start > 0 && mode == update::store ? update::add : mode;
    for (index_t j = 0; j < b_panels; ++j) {
      const T* right = b + j * b_panel + start * width;
      const index_t end = lower && j + 1 < a_panels ? j + 1 : a_panels;
      for (index_t i = 0; i < end; ++i) {
        const T* left = a + i * a_panel + start * width;
        T* to = c + j * c_panel + i * width * c_row;
        for (index_t r = 0; r < width; r += micro_rows) {
          micro<Op, T, micro_rows, vectors_per_panel, 1>(kc, left + r, 1, width, right, width,
                                                         to + r * c_row, c_row, how);
        }
        if (last) finish(i, j);
      }
    }
  }
}

struct do_nothing {
  void operator()(index_t, index_t) const {}
};

// The last m % micro_rows rows, with a kernel of exactly that height.
template <class T, int MR, int NV, int A_ROW>
inline void micro_tail(index_t m, index_t k, const T* a, index_t a_row, index_t a_col, const T* b,
                       index_t ldb, T* c, index_t ldc, update mode) {
  if constexpr (MR > 0) {
    if (m == MR) {
      micro<dot_op, T, MR, NV, A_ROW>(k, a, a_row, a_col, b, ldb, c, ldc, mode);
    } else {
      micro_tail<T, MR - 1, NV, A_ROW>(m, k, a, a_row, a_col, b, ldb, c, ldc, mode);
    }
  }
}

template <class T, int NV, int A_ROW>
inline void multiply_strip(index_t m, index_t k, const T* a, index_t a_row, index_t a_col,
                           const T* b, index_t ldb, T* c, index_t ldc, update mode) {
  index_t i = 0;
  for (; i + micro_rows <= m; i += micro_rows) {
    micro<dot_op, T, micro_rows, NV, A_ROW>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc,
                                            ldc, mode);
  }
  micro_tail<T, micro_rows - 1, NV, A_ROW>(m - i, k, a + i * a_row, a_row, a_col, b, ldb,
                                           c + i * ldc, ldc, mode);
}

template <class T, int A_ROW>
inline void multiply_with(index_t m, index_t k, index_t nv, const T* a, index_t a_row,
                          index_t a_col, const T* b, index_t ldb, T* c, index_t ldc, update mode) {
  constexpr int width = lanes<T>;
  for (index_t start = 0; start < k; start += k_block) {
    const index_t kc = k - start < k_block ? k - start : k_block;
    const update how = start > 0 && mode == update::store ? update::add : mode;
    const T* left = a + start * a_col;
    const T* right = b + start * ldb;
    for (index_t v = 0; v < nv;) {
      const index_t rest = nv - v;
      const T* from = right + v * width;
      T* to = c + v * width;
      if (rest == 1) {
        multiply_strip<T, 1, A_ROW>(m, kc, left, a_row, a_col, from, ldb, to, ldc, how);
        v += 1;
      } else {
        multiply_strip<T, 2, A_ROW>(m, kc, left, a_row, a_col, from, ldb, to, ldc, how);
        v += 2;
      }
    }
  }
}

template <class T>
void multiply(index_t m, index_t k, index_t nv, const T* a, index_t a_row, index_t a_col,
              const T* b, index_t ldb, T* c, index_t ldc, update mode) {
  if (a_row == 1) {
    multiply_with<T, 1>(m, k, nv, a, 1, a_col, b, ldb, c, ldc, mode);
  } else {
    multiply_with<T, 0>(m, k, nv, a, a_row, a_col, b, ldb, c, ldc, mode);
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
