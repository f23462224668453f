// Cholesky on tiles. Tiles are worked on in panels of their rows ([panel][column][row]): the same
// tile is then a right operand (vectors over rows) and a left one (broadcasts), and a triangular
// solve is a forward substitution whose lanes are rows. Substitution goes by blocks of eight
// unknowns, so no inverse of more than a single pivot is ever formed.
#pragma once

#include "micro.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T>
void tile_to_panels(index_t tile, const T* rows, T* panels) {
  constexpr index_t width = panel_width<T>;
  for (index_t q = 0; q < tile; q += width) {
    const T* from = rows + q * tile;
    T* to = panels + q * tile;
    for (index_t c = 0; c < tile; ++c) {
      for (index_t r = 0; r < width; ++r) to[c * width + r] = from[r * tile + c];
    }
  }
}

template <class T>
void panels_to_tile(index_t tile, const T* panels, T* rows) {
  constexpr index_t width = panel_width<T>;
  for (index_t q = 0; q < tile; q += width) {
    const T* from = panels + q * tile;
    T* to = rows + q * tile;
    for (index_t r = 0; r < width; ++r) {
      for (index_t c = 0; c < tile; ++c) to[r * tile + c] = from[c * width + r];
    }
  }
}

template <class T>
void update_panels(index_t tile, index_t rows, index_t cols, const T* a, const T* b, T* c,
                   bool lower) {
  constexpr index_t width = panel_width<T>;
  panel_product<dot_op, T>(tile, (cols + width - 1) / width, b, width * tile,
                           (rows + width - 1) / width, a, width * tile, c, width, width * tile,
                           update::subtract, lower, do_nothing{});
}

template <class T>
inline void scale_row(vector_rows<T> x, index_t i, T factor, index_t nv) {
  for (index_t v = 0; v < nv; ++v) store(x.at(i, v), load(x.at(i, v)) * broadcast(factor));
}

// Row i of x loses `factor` times row j.
template <class T>
inline void subtract_row(vector_rows<T> x, index_t i, T factor, index_t j, index_t nv) {
  for (index_t v = 0; v < nv; ++v) {
    store(x.at(i, v), load(x.at(i, v)) - broadcast(factor) * load(x.at(j, v)));
  }
}

template <class T>
inline vector_rows<const T> as_right(vector_rows<T> x) {
  return {x.data, x.row, x.panel};
}

// A triangular system T x = b whose unknowns are solved in their order: element (i, j), j < i, of T lies at
// data + i * row + j * col, and `inverse` holds 1 / T_ii. An upper triangle is one in the opposite order.
template <class T>
struct triangle {
  const T* data;
  index_t row, col;
  const T* inverse;
};

// Unknowns i to i + MR, after the i before them: what those add up to never leaves the registers.
template <class T, int MR, int NV, int ROW>
inline void solve_micro(index_t i, triangle<T> t, vector_rows<T> x) {
  const index_t row = ROW ? ROW : t.row;
  const T* a = t.data + i * row;
  vector_rows<T> b = x;
  vec<T> acc[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) acc[r][v] = broadcast<T>(0);
  }
#pragma GCC unroll 2
  for (index_t p = 0; p < i; ++p) {
    vec<T> right[NV];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) right[v] = load<T>(b.at(0, v));
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const vec<T> left = broadcast(a[r * row]);
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) acc[r][v] = acc[r][v] + left * right[v];
    }
    a += t.col;
    b.data += b.row;
  }
  // The vectors one after the other: more chains would need more registers than there are.
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) acc[r][v] = load<T>(b.at(r, v)) - acc[r][v];
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    const vec<T> inverse = broadcast(t.inverse[i + r]);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) {
      acc[r][v] = acc[r][v] * inverse;
      store(b.at(r, v), acc[r][v]);
    }
#pragma GCC unroll 16
    for (int s = r + 1; s < MR; ++s) {
      const vec<T> left = broadcast(a[s * row + r * t.col]);
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) acc[s][v] = acc[s][v] - left * acc[r][v];
    }
  }
}

template <class T, int NV, int ROW, int MR>
inline void solve_row_groups(index_t i, index_t m, triangle<T> t, vector_rows<T> x) {
  for (; i + MR <= m; i += MR) solve_micro<T, MR, NV, ROW>(i, t, x);
  if constexpr (MR > 1) {
    if (i < m) solve_row_groups<T, NV, ROW, (MR > 4 ? 4 : MR / 2)>(i, m, t, x);
  }
}

// All unknowns of a small triangle, some vectors at a time: these stay in the first-level cache. The last
// vectors are solved in the same groups of unknowns: equal columns have equal bits wherever they are.
template <class T, int ROW>
inline void solve_block(index_t m, triangle<T> t, vector_rows<T> x, index_t nv) {
  constexpr int rows = micro_rows<max_vectors>;
  index_t v = 0;
  for (; v + max_vectors <= nv; v += max_vectors) {
    solve_row_groups<T, max_vectors, ROW, rows>(0, m, t, x.from(0, v));
  }
  for (; v + 2 <= nv; v += 2) solve_row_groups<T, 2, ROW, rows>(0, m, t, x.from(0, v));
  if (v < nv) solve_row_groups<T, 1, ROW, rows>(0, m, t, x.from(0, v));
}

// Unknowns solved together, a multiple of the rows of all micro-kernels; the rest of the work is the
// product's. The triangle is in the second-level cache while all vectors pass by.
constexpr index_t solve_rows = 96;

template <class T>
inline void solve_lower_rows(index_t m, const T* factor, index_t ldl, vector_rows<T> x,
                             index_t nv) {
  T inverse[solve_rows];
  for (index_t start = 0; start < m; start += solve_rows) {
    const index_t count = m - start < solve_rows ? m - start : solve_rows;
    const T* rows = factor + start * ldl;
    if (start > 0) {
      multiply_rows<T>(count, start, nv, rows, ldl, 1, as_right(x), x.from(start, 0),
                       update::subtract);
    }
    for (index_t i = 0; i < count; ++i) inverse[i] = 1 / rows[i * ldl + start + i];
    solve_block<T, 0>(count, {rows + start, ldl, 1, inverse}, x.from(start, 0), nv);
  }
}

template <class T>
inline void solve_upper_rows(index_t m, const T* factor, index_t ldl, vector_rows<T> x,
                             index_t nv) {
  constexpr index_t copied_rows = 64;  // 48 KiB in double: threads may have small stacks
  T inverse[solve_rows], copy[copied_rows * solve_rows];
  for (index_t end = m; end > 0;) {
    const index_t start = end > solve_rows ? end - solve_rows : 0;
    const index_t count = end - start;
    // Columns of the factor are copied first: they lie in as many pages as there are rows.
    for (index_t row = end; row < m; row += copied_rows) {
      const index_t k = m - row < copied_rows ? m - row : copied_rows;
      for (index_t r = 0; r < k; ++r) {
        const T* from = factor + (row + r) * ldl + start;
        for (index_t c = 0; c < count; ++c) copy[r * solve_rows + c] = from[c];
      }
      multiply_rows<T>(count, k, nv, copy, 1, solve_rows, as_right(x.from(row, 0)),
                       x.from(start, 0), update::subtract);
    }
    // The last unknown is the first to be solved.
    const T* last = factor + (end - 1) * ldl + end - 1;
    for (index_t i = 0; i < count; ++i) inverse[i] = 1 / last[-i * (ldl + 1)];
    const vector_rows<T> backwards = {x.at(end - 1, 0), -x.row, x.panel};
    solve_block<T, -1>(count, {last, -1, -ldl, inverse}, backwards, nv);
    end = start;
  }
}

// x := L^-1 x and x := L^-T x for the rows of a plain matrix.
template <class T>
void solve_lower(index_t m, const T* factor, index_t ldl, T* x, index_t ldx, index_t nv) {
  solve_lower_rows<T>(m, factor, ldl, {x, ldx, panel_width<T>}, nv);
}
template <class T>
void solve_upper(index_t m, const T* factor, index_t ldl, T* x, index_t ldx, index_t nv) {
  solve_upper_rows<T>(m, factor, ldl, {x, ldx, panel_width<T>}, nv);
}

// a := a L^-T for a tile in panels, m columns: forward substitution with its rows as lanes.
template <class T>
void solve_panels(index_t tile, index_t rows, index_t m, const T* factor, T* panels) {
  constexpr index_t width = panel_width<T>;
  for (index_t q = 0; q < rows; q += max_panels * width) {
    const index_t rest = (rows - q + width - 1) / width;
    const index_t count = rest < max_panels ? rest : max_panels;
    solve_lower_rows<T>(m, factor, tile, {panels + q * tile, width, width * tile},
                        count * vectors_per_panel);
  }
}

template <class T>
index_t factor_tile(index_t tile, index_t m, T* panels, T* factor) {
  constexpr index_t width = panel_width<T>;
  constexpr index_t nv = vectors_per_panel;
  for (index_t i = 0; i < tile * tile; ++i) factor[i] = 0;
  for (index_t first = 0; first < m; first += width) {
    T* x = panels + first * tile;
    const vector_rows<T> columns = {x, width, width};
    const vector_rows<T> corner = columns.from(first, 0);  // [column][row] of the diagonal block
    if (first > 0) {
      solve_lower_rows<T>(first, factor, tile, columns, nv);
      multiply_rows<T>(width, first, nv, x, 1, width, as_right(columns), corner, update::subtract);
    }
    const index_t count = m - first < width ? m - first : width;
    for (index_t c = 0; c < count; ++c) {
      T* column = corner.at(c, 0);
      const T pivot = column[c];
      if (!(pivot > 0)) return first + c;
      const T root = scalar_sqrt(pivot);
      scale_row(corner, c, 1 / root, nv);
      column[c] = root;
      for (index_t e = c + 1; e < count; ++e) subtract_row(corner, e, column[e], c, nv);
    }
    for (index_t r = 0; r < count; ++r) {
      for (index_t c = 0; c <= first + r; ++c) factor[(first + r) * tile + c] = x[c * width + r];
    }
  }
  return -1;
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
