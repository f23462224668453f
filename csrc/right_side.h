// The right-hand sides of a product, in the layout in which tiles are multiplied with them: rows
// padded to whole vectors, or, where there are at most few_columns_limit, one padded row for each.
#pragma once

#include "buffer.h"
#include "plain_types.h"

namespace fastmcmd {

template <class T>
class right_side {
 public:
  right_side(const kernel_table<T>& table, const T* v, index_t n, index_t k)
      : table_(table),
        k_(k),
        few_columns_(k <= few_columns_limit),
        ld_(few_columns_ ? round_up(n, tile_unit) : round_up(k, table.vector_width)),
        data_(few_columns_ ? ld_ * k : ld_ * n) {
    if (few_columns_ || ld_ != k) data_.zero();
    for (index_t i = 0; i < n; ++i) {
      for (index_t s = 0; s < k; ++s) *at(data_.data(), ld_, i, s) = v[i * k + s];
    }
  }

  index_t count() const { return k_; }
  // Elements of a product of one tile.
  index_t result_size(index_t tile) const { return tile * (few_columns_ ? k_ : ld_); }

  // u = a v[col : col + cols] and, where z is given, z = a' v[row : row + rows]. Both results have
  // space for `tile` rows; `a` may be read up to whole panels. `next`, where given, will be
  // read soon.
  void multiply(index_t tile, const T* a, index_t lda, index_t row, index_t rows, index_t col,
                index_t cols, T* u, T* z, soon_read<T> next = {}) const {
    if (few_columns_) {
      table_.multiply_few_columns(round_up(rows, table_.panel_width), round_up(cols, table_.panel_width),
                           k_, a, lda, data_.data() + col, data_.data() + row, ld_, u, z, tile);
      return;
    }
    const index_t nv = ld_ / table_.vector_width;
    const index_t size = next.size / (z ? 2 : 1);  // asked for in each direction
    table_.multiply(rows, cols, nv, a, lda, 1, data_.data() + col * ld_, ld_, u, ld_,
                    update::store, {next.data, size});
    if (z) {
      table_.multiply(cols, rows, nv, a, 1, lda, data_.data() + row * ld_, ld_, z, ld_,
                      update::store, {next.data + size, size});
    }
  }

  // out[0 : rows] += u
  void add(index_t tile, const T* u, index_t rows, double* out) const {
    if (!few_columns_) {
      table_.add_to_double(rows, k_, u, ld_, out, k_);
      return;
    }
    for (index_t s = 0; s < k_; ++s) {
      for (index_t i = 0; i < rows; ++i) out[i * k_ + s] += static_cast<double>(u[s * tile + i]);
    }
  }

  // out[s] += factor * sum_i u[i, s] v[row + i, s]
  void add_inner(index_t tile, const T* u, index_t row, index_t rows, double factor,
                 double* out) const {
    const index_t ldu = few_columns_ ? tile : ld_;
    for (index_t i = 0; i < rows; ++i) {
      for (index_t s = 0; s < k_; ++s) {
        out[s] += factor * static_cast<double>(*at(u, ldu, i, s)) *
                  static_cast<double>(*at(data_.data(), ld_, row + i, s));
      }
    }
  }

 private:
  template <class U>
  U* at(U* data, index_t ld, index_t i, index_t s) const {
    return few_columns_ ? data + s * ld + i : data + i * ld + s;
  }

  const kernel_table<T>& table_;
  index_t k_;
  bool few_columns_;
  index_t ld_;
  aligned_buffer<T> data_;
};

}  // namespace fastmcmd
