// Cholesky on tiles. Tiles are worked on in panels of their rows ([panel][column][row]): the same
// tile is then a right operand (vectors over rows) and a left one (broadcasts), and a triangular
// solve is a forward substitution whose lanes are rows. Substitution goes by blocks of micro_rows
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
inline void scale_row(T* x, T factor, index_t nv) {
  for (index_t v = 0; v < nv; ++v) {
    store(x + v * lanes<T>, load(x + v * lanes<T>) * broadcast(factor));
  }
}

template <class T>
inline void subtract_row(T* x, T factor, const T* y, index_t nv) {
  for (index_t v = 0; v < nv; ++v) {
    T* to = x + v * lanes<T>;
    store(to, load(to) - broadcast(factor) * load(y + v * lanes<T>));
  }
}

template <class T>
void solve_lower(index_t m, const T* factor, index_t ldl, T* x, index_t ldx, index_t nv) {
  for (index_t start = 0; start < m; start += micro_rows) {
    const index_t end = start + micro_rows < m ? start + micro_rows : m;
    if (start > 0) {
      multiply<T>(end - start, start, nv, factor + start * ldl, ldl, 1, x, ldx, x + start * ldx,
                  ldx, update::subtract);
    }
    for (index_t i = start; i < end; ++i) {
      const T* row = factor + i * ldl;
      for (index_t j = start; j < i; ++j) subtract_row(x + i * ldx, row[j], x + j * ldx, nv);
      scale_row(x + i * ldx, 1 / row[i], nv);
    }
  }
}

template <class T>
void solve_upper(index_t m, const T* factor, index_t ldl, T* x, index_t ldx, index_t nv) {
  for (index_t end = m; end > 0;) {
    const index_t start = end > micro_rows ? end - micro_rows : 0;
    if (end < m) {
      multiply<T>(end - start, m - end, nv, factor + end * ldl + start, 1, ldl, x + end * ldx, ldx,
                  x + start * ldx, ldx, update::subtract);
    }
    for (index_t i = end - 1; i >= start; --i) {
      for (index_t j = i + 1; j < end; ++j) {
        subtract_row(x + i * ldx, factor[j * ldl + i], x + j * ldx, nv);
      }
      scale_row(x + i * ldx, 1 / factor[i * ldl + i], nv);
    }
    end = start;
  }
}

template <class T>
index_t factor_tile(index_t tile, index_t m, T* panels, T* factor) {
  constexpr index_t width = panel_width<T>;
  constexpr index_t nv = vectors_per_panel;
  for (index_t i = 0; i < tile * tile; ++i) factor[i] = 0;
  for (index_t first = 0; first < m; first += width) {
    T* x = panels + first * tile;
    T* corner = x + first * width;  // [column][row] of the diagonal block
    if (first > 0) {
      solve_lower<T>(first, factor, tile, x, width, nv);
      multiply<T>(width, first, nv, x, 1, width, x, width, corner, width, update::subtract);
    }
    const index_t count = m - first < width ? m - first : width;
    for (index_t c = 0; c < count; ++c) {
      T* column = corner + c * width;
      const T pivot = column[c];
      if (!(pivot > 0)) return first + c;
      const T root = scalar_sqrt(pivot);
      scale_row(column, 1 / root, nv);
      column[c] = root;
      for (index_t e = c + 1; e < count; ++e) {
        subtract_row(corner + e * width, column[e], column, nv);
      }
    }
    for (index_t r = 0; r < count; ++r) {
      for (index_t c = 0; c <= first + r; ++c) factor[(first + r) * tile + c] = x[c * width + r];
    }
  }
  return -1;
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
