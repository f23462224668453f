// One micro-kernel for everything: MR x NV vector accumulators, the left operand broadcast element
// by element, the right operand read as vectors.
#pragma once

#include "vector_math.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

constexpr int vectors_per_panel = 2;
template <class T>
constexpr index_t panel_width = vectors_per_panel * lanes<T>;
static_assert(tile_unit % panel_width<float> == 0);

// Rows of the largest micro-kernel for NV vectors: its accumulators leave registers for the right
// operand and one broadcast. Few loads per multiplication matter more than anything else here: at
// 6 x 4 there are 34 instructions for 24 of them, at 8 x 2 already 26 for 16, which a core that
// issues four a cycle cannot feed (measured with a busy neighbour: 0.80 against 0.59 of the peak).
template <int NV>
constexpr int micro_rows = vector_registers == 32 ? (NV == 1   ? 14
                                                     : NV == 2 ? 12
                                                     : NV == 3 ? 8
                                                               : 6)
                                                  : (NV == 1   ? 8
                                                     : NV == 2 ? 6
                                                               : 4);
constexpr int max_vectors = vector_registers == 32 ? 4 : 2;
constexpr int max_panels = max_vectors / vectors_per_panel;

// Coordinates per block. Each block of a panel product reads and writes the result once more, but from 192
// on the right operand (4 vectors x 192 x 64 bytes) exceeds the first-level cache: on an Intel core with a
// busy neighbour blocks of 128 run at 1.06 of sgemm's rate and blocks of 256 at 0.96, on a quiet AMD core
// blocks of 256 at 0.97 and blocks of 64 at 0.90.
constexpr index_t coordinate_block = 128;

struct dot_op {
  template <class T, class V = vec<T>>
  static V apply(V sum, V a, V b) {
    return add_dot<vector_math<T>>(sum, a, b);
  }
};
struct squared_op {
  template <class T, class V = vec<T>>
  static V apply(V sum, V a, V b) {
    return add_squared<vector_math<T>>(sum, a, b);
  }
};
struct l1_op {
  template <class T, class V = vec<T>>
  static V apply(V sum, V a, V b) {
    return add_l1<vector_math<T>>(sum, a, b);
  }
};
struct unequal_op {
  template <class T, class V = vec<T>>
  static V apply(V sum, V a, V b) {
    return add_unequal<vector_math<T>>(sum, a, b);
  }
};

// The right operand and the result, in vectors: row p begins at data + p * row, and its vectors lie
// in groups of vectors_per_panel, `panel` apart. Panels of points are of this kind, and, with
// panel = panel_width, so are the rows of a plain matrix.
template <class T>
struct vector_rows {
  T* data;
  index_t row;
  index_t panel;

  T* at(index_t p, index_t v) const {
    return data + p * row + (v / vectors_per_panel) * panel + (v % vectors_per_panel) * lanes<T>;
  }
  vector_rows from(index_t p, index_t v) const { return {at(p, v), row, panel}; }
};

// Asks for memory that will be read soon, a few bytes with each coordinate of a product: all at once
// would fill the buffers that the product itself loads through.
struct fetcher {
  const char* next;
  index_t bytes;

  void step(index_t p) const { fetch(next + p * bytes); }
  void skip(index_t k) { next += k * bytes; }
};
struct no_fetcher {
  void step(index_t) const {}
  void skip(index_t) {}
};

// A_ROW is the distance of the left operand's rows where it is known (1 in panels), else 0.
template <class Op, class T, int MR, int NV, int A_ROW, class Fetch = no_fetcher>
inline void micro(index_t k, const T* a, index_t a_row, index_t a_col, vector_rows<const T> b,
                  vector_rows<T> c, update mode, Fetch ahead = {}) {
  const index_t row = A_ROW ? A_ROW : a_row;
  vec<T> acc[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) acc[r][v] = broadcast<T>(0);
  }
#pragma GCC unroll 2
  for (index_t p = 0; p < k; ++p) {
    ahead.step(p);
    vec<T> right[NV];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) right[v] = load(b.at(0, v));
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const vec<T> left = broadcast(a[r * row]);
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) acc[r][v] = Op::template apply<T>(acc[r][v], left, right[v]);
    }
    a += a_col;
    b.data += b.row;
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) {
      T* to = c.at(r, v);
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

// The rows of one left panel in micro-kernels of about the same height: 32 rows by 6 at most are
// 6, 6, 6, 6, 4, 4.
template <class Op, class T, int NV, int ROWS>
inline void panel_row_groups(index_t k, const T* a, vector_rows<const T> b, vector_rows<T> c,
                         update mode) {
  if constexpr (ROWS > 0) {
    constexpr int most = micro_rows<NV>;
    constexpr int rows = ROWS <= most ? ROWS : ROWS >= most + 4 ? most : ROWS / 2;
    micro<Op, T, rows, NV, 1>(k, a, 1, panel_width<T>, b, c, mode);
    panel_row_groups<Op, T, NV, ROWS - rows>(k, a + rows, b, c.from(rows, 0), mode);
  }
}

// All pairs of a left and a right panel. Element (i, j) of the result lies at
// c + (j / width) * c_panel + i * c_row + j % width. After its last block of coordinates each pair
// of panels is handed to finish(left panel, right panel), while it is still in the cache. With
// `lower` only left panels up to the right one's index are needed. Rows of each left panel are computed.
template <class Op, class T, int Rows = panel_width<T>, class Finish>
inline void panel_product(index_t k, index_t a_panels, const T* a, index_t a_panel,
                          index_t b_panels, const T* b, index_t b_panel, T* c, index_t c_row,
                          index_t c_panel, update mode, bool lower, Finish finish) {
  constexpr int width = static_cast<int>(panel_width<T>);
  for (index_t start = 0; start < k; start += coordinate_block) {
    const index_t kc = k - start < coordinate_block ? k - start : coordinate_block;
    const bool last = start + kc == k;
    const update how = start > 0 && mode == update::store ? update::add : mode;
    for (index_t j = 0; j < b_panels;) {
      const index_t group = b_panels - j < max_panels ? b_panels - j : max_panels;
      const vector_rows<const T> right = {b + j * b_panel + start * width, width, b_panel};
      const index_t end = lower && j + group < a_panels ? j + group : a_panels;
      for (index_t i = 0; i < end; ++i) {
        const T* left = a + i * a_panel + start * width;
        const vector_rows<T> to = {c + j * c_panel + i * width * c_row, c_row, c_panel};
        if (group == max_panels) {
          panel_row_groups<Op, T, max_vectors, Rows>(kc, left, right, to, how);
        } else {
          panel_row_groups<Op, T, vectors_per_panel, Rows>(kc, left, right, to, how);
        }
        if (last) {
          for (index_t q = 0; q < group; ++q) finish(i, j + q);
        }
      }
      j += group;
    }
  }
}

struct do_nothing {
  void operator()(index_t, index_t) const {}
};

// m rows: the largest micro-kernel as often as it fits, then smaller ones.
template <class T, int NV, int A_ROW, int MR, class Fetch>
inline void multiply_row_groups(index_t m, index_t k, const T* a, index_t a_row, index_t a_col,
                            vector_rows<const T> b, vector_rows<T> c, update mode, Fetch& ahead) {
  index_t i = 0;
  for (; i + MR <= m; i += MR) {
    micro<dot_op, T, MR, NV, A_ROW>(k, a + i * a_row, a_row, a_col, b, c.from(i, 0), mode, ahead);
    ahead.skip(k);
  }
  if constexpr (MR > 1) {
    constexpr int next = MR > 8 ? 8 : MR > 4 ? 4 : MR / 2;
    if (i < m) {
      multiply_row_groups<T, NV, A_ROW, next>(m - i, k, a + i * a_row, a_row, a_col, b, c.from(i, 0),
                                          mode, ahead);
    }
  }
}

template <class T, int NV, int A_ROW, class Fetch>
inline index_t multiply_vectors(index_t m, index_t k, const T* a, index_t a_row, index_t a_col,
                                vector_rows<const T> b, vector_rows<T> c, update mode,
                                Fetch& ahead) {
  multiply_row_groups<T, NV, A_ROW, micro_rows<NV>>(m, k, a, a_row, a_col, b, c, mode, ahead);
  return NV;
}

// As many vectors at once as there are registers for; groups start at an even vector.
template <class T, int A_ROW, class Fetch>
inline void multiply_with(index_t m, index_t k, index_t nv, const T* a, index_t a_row,
                          index_t a_col, vector_rows<const T> b, vector_rows<T> c, update mode,
                          Fetch ahead) {
  for (index_t start = 0; start < k; start += coordinate_block) {
    const index_t kc = k - start < coordinate_block ? k - start : coordinate_block;
    const update how = start > 0 && mode == update::store ? update::add : mode;
    const T* left = a + start * a_col;
    for (index_t v = 0; v < nv;) {
      const vector_rows<const T> from = b.from(start, v);
      const vector_rows<T> to = c.from(0, v);
      const index_t rest = nv - v;
      if (rest >= max_vectors) {
        v += multiply_vectors<T, max_vectors, A_ROW>(m, kc, left, a_row, a_col, from, to, how,
                                                     ahead);
      } else if (max_vectors > 3 && rest == 3) {
        v += multiply_vectors<T, 3, A_ROW>(m, kc, left, a_row, a_col, from, to, how, ahead);
      } else if (rest >= 2) {
        v += multiply_vectors<T, 2, A_ROW>(m, kc, left, a_row, a_col, from, to, how, ahead);
      } else {
        v += multiply_vectors<T, 1, A_ROW>(m, kc, left, a_row, a_col, from, to, how, ahead);
      }
    }
  }
}

template <class T, class Fetch = no_fetcher>
void multiply_rows(index_t m, index_t k, index_t nv, const T* a, index_t a_row, index_t a_col,
                   vector_rows<const T> b, vector_rows<T> c, update mode, Fetch ahead = {}) {
  if (a_row == 1) {
    multiply_with<T, 1>(m, k, nv, a, 1, a_col, b, c, mode, ahead);
  } else {
    multiply_with<T, 0>(m, k, nv, a, a_row, a_col, b, c, mode, ahead);
  }
}

// How often a product of m rows passes over its coordinates: once a group of rows and group of vectors.
constexpr index_t passes(index_t m, index_t nv) {
  const index_t rows = nv == 1   ? micro_rows<1>
                       : nv == 2 ? micro_rows<2>
                       : nv == 3 ? micro_rows<3>
                                 : micro_rows<max_vectors>;
  return ((m + rows - 1) / rows) * ((nv + max_vectors - 1) / max_vectors);
}

// The same for plain matrices.
template <class T>
void multiply(index_t m, index_t k, index_t nv, const T* a, index_t a_row, index_t a_col,
              const T* b, index_t ldb, T* c, index_t ldc, update mode, soon_read<T> next) {
  const vector_rows<const T> from = {b, ldb, panel_width<T>};
  const vector_rows<T> to = {c, ldc, panel_width<T>};
  const index_t bytes = next.size * static_cast<index_t>(sizeof(T));
  const index_t each = m * k * nv > 0 ? bytes / (passes(m, nv) * k) : 0;
  if (each > 0) {
    const fetcher ahead = {reinterpret_cast<const char*>(next.data), each};
    multiply_rows<T>(m, k, nv, a, a_row, a_col, from, to, mode, ahead);
  } else {
    multiply_rows<T>(m, k, nv, a, a_row, a_col, from, to, mode);
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
