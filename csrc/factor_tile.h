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

// Unknowns solved together; the rest of the work is the micro-kernel's.
constexpr index_t solve_block = 8;

// The unknowns of a whole block, vector by vector: each is loaded and stored once.
template <class T>
inline void solve_lower_block(const T* factor, index_t ldl, vector_rows<T> x, index_t nv) {
  T inverse[solve_block];
  for (index_t i = 0; i < solve_block; ++i) inverse[i] = 1 / factor[i * ldl + i];
  for (index_t v = 0; v < nv; ++v) {
    vec<T> unknown[solve_block];
#pragma GCC unroll 16
    for (index_t i = 0; i < solve_block; ++i) {
      vec<T> sum = load(x.at(i, v));
#pragma GCC unroll 16
      for (index_t j = 0; j < i; ++j) sum = sum - broadcast(factor[i * ldl + j]) * unknown[j];
      unknown[i] = sum * broadcast(inverse[i]);
      store(x.at(i, v), unknown[i]);
    }
  }
}

template <class T>
inline void solve_lower_rows(index_t m, const T* factor, index_t ldl, vector_rows<T> x,
                             index_t nv) {
  for (index_t start = 0; start < m; start += solve_block) {
    const index_t end = start + solve_block < m ? start + solve_block : m;
    if (start > 0) {
      multiply_rows<T>(end - start, start, nv, factor + start * ldl, ldl, 1, as_right(x),
                       x.from(start, 0), update::subtract);
    }
    if (end - start == solve_block) {
      solve_lower_block<T>(factor + start * ldl + start, ldl, x.from(start, 0), nv);
      continue;
    }
    for (index_t i = start; i < end; ++i) {
      const T* row = factor + i * ldl;
      for (index_t j = start; j < i; ++j) subtract_row(x, i, row[j], j, nv);
      scale_row(x, i, 1 / row[i], nv);
    }
  }
}

template <class T>
inline void solve_upper_rows(index_t m, const T* factor, index_t ldl, vector_rows<T> x,
                             index_t nv) {
  for (index_t end = m; end > 0;) {
    const index_t start = end > solve_block ? end - solve_block : 0;
    if (end < m) {
      multiply_rows<T>(end - start, m - end, nv, factor + end * ldl + start, 1, ldl,
                       as_right(x.from(end, 0)), x.from(start, 0), update::subtract);
    }
    for (index_t i = end - 1; i >= start; --i) {
      for (index_t j = i + 1; j < end; ++j) subtract_row(x, i, factor[j * ldl + i], j, nv);
      scale_row(x, i, 1 / factor[i * ldl + i], nv);
    }
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
