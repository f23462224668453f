// Points packed once into panels, with their norms.
#pragma once

#include <cmath>

#include "buffer.h"
#include "parallel.h"

namespace fastmcmd {

template <class T>
class points {
 public:
  // Rows of a row-major (n, d) array minus `offset` (or nothing, where null), rounded to T.
  template <class Source>
  points(const Source* rows, index_t n, index_t d, const double* offset, index_t panel_width,
         const execution& how)
      : n_(n),
        d_(d),
        panels_(round_up(n, panel_width) * d),
        squared_norms_(round_up(n, panel_width)),
        inverse_norms_(round_up(n, panel_width)) {
    parallel_for(divide_up(n, panel_width), how, [&](index_t panel, int, const loop_control&) {
      T* to = panels_.data() + panel * panel_width * d;
      T* squared = squared_norms_.data() + panel * panel_width;
      T* inverse = inverse_norms_.data() + panel * panel_width;
      const index_t count = std::min(panel_width, n - panel * panel_width);
      double sums[tile_unit] = {};
      // A few coordinates of all rows at a time: what is written stays in the first-level cache.
      for (index_t start = 0; start < d; start += together) {
        const index_t stop = std::min(d, start + together);
        if (count < panel_width) {
          std::fill_n(to + start * panel_width, (stop - start) * panel_width, T(0));
        }
        const Source* some = rows + panel * panel_width * d;
        index_t r = 0;
        for (; r + 4 <= count; r += 4) {
          pack<4>(some + r * d, d, start, stop, offset, panel_width, to + r, sums + r);
        }
        for (; r < count; ++r) {
          pack<1>(some + r * d, d, start, stop, offset, panel_width, to + r, sums + r);
        }
      }
      for (index_t r = 0; r < panel_width; ++r) {
        squared[r] = static_cast<T>(sums[r]);
        inverse[r] = static_cast<T>(sums[r] > 0 ? 1 / std::sqrt(sums[r]) : 0);
      }
    });
  }

  index_t n() const { return n_; }
  index_t d() const { return d_; }
  index_t nbytes() const {
    return (panels_.size() + squared_norms_.size() + inverse_norms_.size()) *
           static_cast<index_t>(sizeof(T));
  }
  points_view<T> view() const {
    return {panels_.data(), squared_norms_.data(), inverse_norms_.data(), n_, d_};
  }

 private:
  static constexpr index_t together = 16;  // coordinates

  // Some coordinates of a few rows, and the sums of their squares, which do not wait for each other.
  template <int Rows, class Source>
  static void pack(const Source* rows, index_t d, index_t start, index_t stop, const double* offset,
                   index_t panel_width, T* to, double* sums) {
    double sum[Rows];
    for (int r = 0; r < Rows; ++r) sum[r] = sums[r];
    for (index_t c = start; c < stop; ++c) {
      for (int r = 0; r < Rows; ++r) {
        const Source value = rows[r * d + c];
        const T x = static_cast<T>(offset ? static_cast<double>(value) - offset[c] : value);
        to[c * panel_width + r] = x;
        sum[r] += static_cast<double>(x) * static_cast<double>(x);
      }
    }
    for (int r = 0; r < Rows; ++r) sums[r] = sum[r];
  }

  index_t n_;
  index_t d_;
  aligned_buffer<T> panels_;
  aligned_buffer<T> squared_norms_;
  aligned_buffer<T> inverse_norms_;
};

}  // namespace fastmcmd
