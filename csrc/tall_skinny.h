// Products of tall and narrow blocks in double: what block CG does between two passes over K. All of
// them are bound by memory where blocks are large, so they write each number once, and threads share
// the rows.
#pragma once

#include <cmath>
#include <cstdint>

#include "products.h"

namespace fastmcmd {

// A block (rows x cols) whose rows lie `ld` apart; null where there is none.
template <class T>
struct tall_skinny_block {
  T* data;
  index_t rows, cols, ld;

  T* row(index_t i) const { return data ? data + i * ld : nullptr; }
};

// Rows worked on together: with some thirty columns they stay in the second-level cache.
constexpr index_t tall_skinny_rows = 128;

// A copy of a small matrix whose rows are whole vectors.
class padded_matrix {
 public:
  padded_matrix(const kernel_table<double>& table, index_t rows, index_t cols)
      : nv(divide_up(cols, table.vector_width)), ld(nv * table.vector_width), values(rows * ld) {}
  // Copies rows, times `scale` of each where there is one.
  void copy(const tall_skinny_block<const double>& from, index_t first, index_t count,
            const double* scale = nullptr) {
    for (index_t i = 0; i < count; ++i) {
      const double* row = from.row(first + i);
      double* to = values.data() + i * ld;
      std::fill(std::copy_n(row, from.cols, to), to + ld, 0.0);
      if (scale) {
        for (index_t c = 0; c < from.cols; ++c) to[c] *= scale[first + i];
      }
    }
  }

  index_t nv, ld;
  aligned_buffer<double> values;
};

// Rows of one sum: few enough sums that they take little memory, whatever the number of threads.
inline index_t tall_skinny_segment(index_t n, index_t products) {
  constexpr index_t most = 256, budget = index_t(1) << 22;
  const index_t count = std::max<index_t>(1, std::min(most, budget / std::max<index_t>(1, products)));
  return std::max<index_t>(4 * tall_skinny_rows, round_up(divide_up(n, count), tall_skinny_rows));
}

// The cost of a product of n rows with k and j columns, and of reading or writing both.
inline double tall_skinny_cost(index_t n, index_t k, index_t j) {
  return 2 * operation<double> * area(n, k) * static_cast<double>(j) +
         0.2 * nanosecond * area(n, k + j);
}

// out (k, j) = a' diag(scale) b; scale may be null
inline void tall_skinny_inner(const kernel_table<double>& table, tall_skinny_block<const double> a,
                       tall_skinny_block<const double> b, const double* scale, double* out,
                       const execution& how) {
  const index_t segment = tall_skinny_segment(a.rows, a.cols * b.cols);
  const index_t segments = divide_up(a.rows, segment);
  const index_t ld = padded_matrix(table, 1, b.cols).ld;
  const double operations = tall_skinny_cost(a.rows, a.cols, ld);
  const execution run = with_threads(how, operations, segments);
  std::vector<padded_matrix> right;
  for (int i = 0; i < run.threads; ++i) right.emplace_back(table, tall_skinny_rows, b.cols);
  aligned_buffer<double> sums(segments * a.cols * ld);
  parallel_for(segments, run, [&](index_t task, int thread, const loop_control& control) {
    const block_range rows(task, segment, a.rows);
    padded_matrix& mine = right[static_cast<size_t>(thread)];
    double* sum = sums.data() + task * a.cols * ld;
    update mode = update::store;
    for (index_t i = 0; i < rows.count && !control.stopped(); i += tall_skinny_rows) {
      const index_t count = std::min(tall_skinny_rows, rows.count - i);
      mine.copy(b, rows.start + i, count, scale);
      table.multiply(a.cols, count, mine.nv, a.row(rows.start + i), 1, a.ld, mine.values.data(),
                     mine.ld, sum, ld, mode, {});
      mode = update::add;
    }
  });
  std::fill_n(out, a.cols * b.cols, 0.0);
  for (index_t s = 0; s < segments; ++s) {
    table.add_to_double(a.cols, b.cols, sums.data() + s * a.cols * ld, ld, out, b.cols);
  }
}

// out (n, j) = sign a small, on top of `base` where there is one; out may be base, or a where it is as wide.
inline void tall_skinny_times(const kernel_table<double>& table, tall_skinny_block<const double> a,
                       tall_skinny_block<const double> small, tall_skinny_block<const double> base,
                       double sign, tall_skinny_block<double> out, const execution& how) {
  padded_matrix right(table, small.rows, small.cols);
  right.copy(small, 0, small.rows);
  const index_t chunks = divide_up(a.rows, tall_skinny_rows);
  const double operations = tall_skinny_cost(a.rows, a.cols, right.ld);
  const execution run = with_threads(how, operations, chunks);
  workspace<double> memory(run.threads, tall_skinny_rows * right.ld, 0, 0);
  parallel_for(chunks, run, [&](index_t task, int thread, const loop_control&) {
    const block_range rows(task, tall_skinny_rows, a.rows);
    double* product = memory.tile(thread);
    table.multiply(rows.count, a.cols, right.nv, a.row(rows.start), a.ld, 1, right.values.data(),
                   right.ld, product, right.ld, update::store, {});
    for (index_t i = 0; i < rows.count; ++i) {
      const double* from = product + i * right.ld;
      double* to = out.row(rows.start + i);
      const double* under = base.row(rows.start + i);
      for (index_t c = 0; c < out.cols; ++c) to[c] = (under ? under[c] : 0.0) + sign * from[c];
    }
  });
}

// out (n, k) = diag(scale) a, on top of `base` where there is one; out may be one of them.
inline void tall_skinny_scale(const double* scale, tall_skinny_block<const double> a,
                       tall_skinny_block<const double> base, tall_skinny_block<double> out,
                       const execution& how) {
  const index_t chunks = divide_up(a.rows, tall_skinny_rows);
  const execution run = with_threads(how, 0.5 * nanosecond * area(a.rows, a.cols), chunks);
  parallel_for(chunks, run, [&](index_t task, int, const loop_control&) {
    const block_range rows(task, tall_skinny_rows, a.rows);
    for (index_t i = rows.start; i < rows.start + rows.count; ++i) {
      const double* from = a.row(i);
      const double* under = base.row(i);
      double* to = out.row(i);
      for (index_t c = 0; c < out.cols; ++c) to[c] = (under ? under[c] : 0.0) + scale[i] * from[c];
    }
  });
}

// What a certificate needs beside the residual R = P - D B - image: with one pass over all of them.
struct residual_sums {
  double shifts = 0;     // sum of 1 / D_i
  double values = 0;     // sum of |B_i|
  double operands = 0;   // sum of (|P_ij| + |D_i B_ij|)^2 / D_i
  double residuals = 0;  // sum of R_ij^2 / D_i

  void add(const residual_sums& more) {
    shifts += more.shifts;
    values += more.values;
    operands += more.operands;
    residuals += more.residuals;
  }
};

// out (n, k) = rhs - diag(shift) value - image, and its sums.
inline residual_sums tall_skinny_residual(tall_skinny_block<const double> rhs, const double* shift,
                                          tall_skinny_block<const double> value,
                                          tall_skinny_block<const double> image,
                                          tall_skinny_block<double> out, const execution& how) {
  const index_t chunks = divide_up(out.rows, tall_skinny_rows);
  const execution run = with_threads(how, 2 * nanosecond * area(out.rows, out.cols), chunks);
  std::vector<residual_sums> parts(static_cast<size_t>(chunks));
  parallel_for(chunks, run, [&](index_t task, int, const loop_control&) {
    const block_range rows(task, tall_skinny_rows, out.rows);
    residual_sums& part = parts[static_cast<size_t>(task)];
    for (index_t i = rows.start; i < rows.start + rows.count; ++i) {
      constexpr index_t together = 4;  // sums that do not wait for each other
      double values[together] = {}, operands[together] = {}, residuals[together] = {};
      const double *p = rhs.row(i), *b = value.row(i), *kb = image.row(i);
      double* r = out.row(i);
      const auto entry = [&](index_t c, index_t lane) {
        const double product = shift[i] * b[c], size = std::abs(p[c]) + std::abs(product);
        const double residual = p[c] - product - kb[c];
        r[c] = residual;
        values[lane] += b[c] * b[c];
        operands[lane] += size * size;
        residuals[lane] += residual * residual;
      };
      index_t c = 0;
      for (; c + together <= out.cols; c += together) {
        for (index_t lane = 0; lane < together; ++lane) entry(c + lane, lane);
      }
      for (; c < out.cols; ++c) entry(c, 0);
      const auto total = [](const double* sums) { return (sums[0] + sums[1]) + (sums[2] + sums[3]); };
      part.add({1 / shift[i], std::sqrt(total(values)), total(operands) / shift[i],
                total(residuals) / shift[i]});
    }
  });
  residual_sums sums;
  for (const residual_sums& part : parts) sums.add(part);  // in the order of the rows
  return sums;
}

// out[where[i]] += share[i] * a[source[i]] for all i (m,), with sources (rows of a) and places (rows of
// out) within range. Threads share the columns, so each sum has one order.
inline void tall_skinny_spread(tall_skinny_block<const double> a, const int64_t* source,
                               const int64_t* where, const double* share, index_t m,
                               tall_skinny_block<double> out, const execution& how) {
  constexpr index_t columns = 256;
  const index_t chunks = divide_up(out.cols, columns);
  const execution run = with_threads(how, 0.5 * nanosecond * area(m, out.cols), chunks);
  parallel_for(chunks, run, [&](index_t task, int, const loop_control&) {
    const block_range cols(task, columns, out.cols);
    for (index_t i = 0; i < m; ++i) {
      const double* from = a.row(source[i]) + cols.start;
      double* to = out.row(where[i]) + cols.start;
      const double factor = share[i];
      for (index_t c = 0; c < cols.count; ++c) to[c] += factor * from[c];
    }
  });
}

// |row - offset|^2 (d,) in double; without `Centred` there is no offset.
template <bool Centred, class T>
double row_square(const T* row, index_t d, const double* offset) {
  constexpr index_t together = 8;  // sums that do not wait for each other
  double sums[together] = {};
  const auto add = [&](index_t c, index_t lane) {
    double value = static_cast<double>(row[c]);
    if constexpr (Centred) value -= offset[c];
    sums[lane] += value * value;
  };
  index_t c = 0;
  for (; c + together <= d; c += together) {
    for (index_t lane = 0; lane < together; ++lane) add(c + lane, lane);
  }
  for (index_t lane = 0; c + lane < d; ++lane) add(c + lane, lane);
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

// out (n) = |x_i - offset|^2 in double for x (n, d), and the largest of them, NaN if there is any; offset
// may be null.
template <class T>
double row_squares(const T* x, index_t n, index_t d, const double* offset, double* out,
                 const execution& how) {
  const index_t chunks = divide_up(n, tall_skinny_rows);
  const execution run = with_threads(how, 0.3 * nanosecond * area(n, d), chunks);
  parallel_for(chunks, run, [&](index_t task, int, const loop_control&) {
    const block_range rows(task, tall_skinny_rows, n);
    for (index_t i = rows.start; i < rows.start + rows.count; ++i) {
      const T* row = x + i * d;
      out[i] = offset ? row_square<true>(row, d, offset) : row_square<false>(row, d, offset);
    }
  });
  double largest = 0;
  for (index_t i = 0; i < n; ++i) {
    if (!(out[i] <= largest)) largest = out[i];
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace fastmcmd
