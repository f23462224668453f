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
      for (index_t r = 0; r < panel_width; ++r) {
        const index_t i = panel * panel_width + r;
        T* to = panels_.data() + panel * panel_width * d + r;
        double sum = 0;
        for (index_t c = 0; c < d; ++c) {
          T x = 0;
          if (i < n) {
            const Source value = rows[i * d + c];
            x = static_cast<T>(offset ? static_cast<double>(value) - offset[c] : value);
          }
          to[c * panel_width] = x;
          sum += static_cast<double>(x) * static_cast<double>(x);
        }
        squared_norms_.data()[i] = static_cast<T>(sum);
        inverse_norms_.data()[i] = static_cast<T>(sum > 0 ? 1 / std::sqrt(sum) : 0);
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
  index_t n_;
  index_t d_;
  aligned_buffer<T> panels_;
  aligned_buffer<T> squared_norms_;
  aligned_buffer<T> inverse_norms_;
};

}  // namespace fastmcmd
