// Features of rows at landmarks, L^-1 K(landmarks, rows), and sums of their products over rows.
// Column j of a matrix of features belongs to row j of the data: the lanes of the micro-kernels are
// rows of the data, and a triangular solve is a forward substitution for all of them at once.
#pragma once

#include <cmath>

#include "products.h"

namespace fastmcmd {

// Rows of the data worked on together: with some hundred landmarks they stay in the second-level
// cache while the substitution goes over them.
constexpr index_t feature_columns = 128;

// What is wanted of each row; null where it is not.
template <class T>
struct feature_outputs {
  T* features;      // (p, n)
  double* squares;  // (n): |f|^2
  double* sizes;    // (n): |L^-T f|, the size of the coefficients of interpolation
};

// source.x are the landmarks, source.z the rows of the data; `factor` is L (p, p) by rows.
template <class T>
void features(const gram_source<T>& source, const T* factor, const feature_outputs<T>& out,
              const execution& how) {
  const kernel_table<T>& table = source.table;
  const index_t p = source.x.n, n = source.z.n, ld = feature_columns + row_padding;
  const index_t blocks = divide_up(n, feature_columns), rows = round_up(p, table.panel_width);
  const double substitution = area(p, p) * (out.sizes ? 2.0 : 1.0);
  const double operations =
      static_cast<double>(n) * (operation<T> * substitution + source.cost() * p);
  const execution run = with_threads(how, operations, blocks);
  workspace<T> memory(run.threads, rows * ld, source.scratch_size(p, ld), 0);
  parallel_for(blocks, run, [&](index_t task, int thread, const loop_control&) {
    const block_range cols(task, feature_columns, n);
    T* tile = memory.tile(thread);
    source.make(0, p, cols.start, cols.count, tile, ld, memory.scratch(thread));
    const index_t nv = round_up(cols.count, table.panel_width) / table.vector_width;
    table.solve_lower(p, factor, p, tile, ld, nv);
    std::fill_n(out.squares + cols.start, cols.count, 0.0);
    table.add_squares(p, cols.count, tile, ld, out.squares + cols.start);
    if (out.features) {
      for (index_t i = 0; i < p; ++i) {
        std::copy_n(tile + i * ld, cols.count, out.features + i * n + cols.start);
      }
    }
    if (out.sizes) {
      double* sizes = out.sizes + cols.start;
      table.solve_upper(p, factor, p, tile, ld, nv);
      std::fill_n(sizes, cols.count, 0.0);
      table.add_squares(p, cols.count, tile, ld, sizes);
      for (index_t j = 0; j < cols.count; ++j) sizes[j] = std::sqrt(sizes[j]);
    }
  });
}

// Writes the features (p, cols) in a tile as rows (cols, p), and their squares (cols), in one pass; or only
// the differences (cols / 2, p) of the features of columns 2 j and 2 j + 1.
template <bool Differences>
void transpose_features(index_t p, index_t cols, const double* tile, index_t ld, double* out,
                        double* squares) {
  constexpr index_t together = 8, share = Differences ? 2 : 1;  // one line of the cache
  for (index_t start = 0; start < cols; start += together) {
    const index_t count = std::min(together, cols - start);
    double sums[together] = {};
    const auto copy = [&](index_t width) {
      // The last features are the smallest: sums that begin with them round less.
      for (index_t i = p - 1; i >= 0; --i) {
        const double* from = tile + i * ld + start;
        double* to = out + start / share * p + i;
        for (index_t j = 0; j < width; ++j) sums[j] += from[j] * from[j];
        for (index_t j = 0; j < width / share; ++j) {
          to[j * p] = Differences ? from[2 * j] - from[2 * j + 1] : from[j];
        }
      }
    };
    if (count == together) {
      copy(together);
    } else {
      copy(count);
    }
    std::copy_n(sums, count, squares + start);
  }
}

// sums (n / group, p): sums of the features of `group` rows in turn, and squares (n). A task has whole
// groups, so that one thread sums each, always in the same order. With `differences`, and groups of two rows,
// the features of the second are subtracted from those of the first.
inline void feature_sums(const gram_source<double>& source, const double* factor, index_t group,
                         bool differences, double* squares, double* sums, const execution& how) {
  constexpr index_t together = 8, least = 16 * feature_columns;  // partial sums; columns of a task
  const kernel_table<double>& table = source.table;
  const index_t p = source.x.n, n = source.z.n, ld = feature_columns + row_padding;
  const index_t task_groups = round_up(divide_up(least, group), table.panel_width);
  const index_t tasks = divide_up(n, task_groups * group);
  const double operations =
      static_cast<double>(n) * (operation<double> * area(p, p) + source.cost() * p);
  const execution run = with_threads(how, operations, tasks);
  workspace<double> memory(run.threads, round_up(p, table.panel_width) * ld,
                           source.scratch_size(p, ld), 0);
  parallel_for(tasks, run, [&](index_t task, int thread, const loop_control& control) {
    const block_range mine(task, task_groups * group, n);
    double* tile = memory.tile(thread);
    if (group > 1 && !differences) {
      std::fill_n(sums + mine.start / group * p, mine.count / group * p, 0.0);
      std::fill_n(squares + mine.start, mine.count, 0.0);
    }
    for (index_t at = 0; at < mine.count && !control.stopped(); at += feature_columns) {
      const index_t start = mine.start + at, count = std::min(feature_columns, mine.count - at);
      source.make(0, p, start, count, tile, ld, memory.scratch(thread));
      table.solve_lower(p, factor, p, tile, ld, round_up(count, table.panel_width) / table.vector_width);
      if (group == 1) {
        transpose_features<false>(p, count, tile, ld, sums + start * p, squares + start);
        continue;
      }
      if (differences) {
        transpose_features<true>(p, count, tile, ld, sums + start / 2 * p, squares + start);
        continue;
      }
      table.add_squares(p, count, tile, ld, squares + start);
      for (index_t j = 0; j < count;) {
        const index_t which = (start + j) / group;
        const index_t end = std::min(count, (which + 1) * group - start);
        for (index_t i = 0; i < p; ++i) {
          const double* row = tile + i * ld;
          double parts[together] = {};
          index_t c = j;
          for (; c + together <= end; c += together) {
            for (index_t lane = 0; lane < together; ++lane) parts[lane] += row[c + lane];
          }
          for (; c < end; ++c) parts[0] += row[c];
          double sum = 0;
          for (const double part : parts) sum += part;
          sums[which * p + i] += sum;
        }
        j = end;
      }
    }
  });
}

// b (p, n) := L^-1 b, or L^-T b, for a row-major L (p, p): block of columns by block of columns, so the
// result does not depend on the number of threads.
template <class T>
void triangular_solve(const kernel_table<T>& table, const T* factor, index_t p, T* b, index_t n,
                      bool transposed, const execution& how) {
  const index_t ld = feature_columns + row_padding, blocks = divide_up(n, feature_columns);
  const double operations = area(p, p) * operation<T> + area(p, 1) * nanosecond;
  const execution run = with_threads(how, static_cast<double>(n) * operations, blocks);
  workspace<T> memory(run.threads, p * ld, 0, 0);
  parallel_for(blocks, run, [&](index_t task, int thread, const loop_control&) {
    const block_range cols(task, feature_columns, n);
    const index_t nv = round_up(cols.count, table.panel_width) / table.vector_width;
    T* tile = memory.tile(thread);
    for (index_t i = 0; i < p; ++i) {
      std::fill(std::copy_n(b + i * n + cols.start, cols.count, tile + i * ld),
                tile + i * ld + nv * table.vector_width, T(0));
    }
    (transposed ? table.solve_upper : table.solve_lower)(p, factor, p, tile, ld, nv);
    for (index_t i = 0; i < p; ++i) std::copy_n(tile + i * ld, cols.count, b + i * n + cols.start);
  });
}

// fresh (k, n) := L^-1 (fresh - at' rows) for rows (r, n), at (r, k) and a row-major L (k, k): features of
// k further landmarks from their kernel values, with the features of earlier ones. In place.
inline void eliminate(const kernel_table<double>& table, const double* rows, const double* at,
                      index_t r, const double* factor, index_t k, double* fresh, index_t n,
                      const execution& how) {
  constexpr index_t together = 256;  // earlier features whose copies stay in the cache
  const index_t ld = feature_columns + row_padding, blocks = divide_up(n, feature_columns);
  const double operations =
      static_cast<double>(n) * (2 * operation<double> * area(k, r + k) + nanosecond * area(r + k, 1));
  const execution run = with_threads(how, operations, blocks);
  workspace<double> memory(run.threads, (k + std::min(r, together)) * ld, 0, 0);
  parallel_for(blocks, run, [&](index_t task, int thread, const loop_control&) {
    const block_range cols(task, feature_columns, n);
    const index_t padded = round_up(cols.count, table.panel_width);
    const index_t nv = padded / table.vector_width;
    double* tile = memory.tile(thread);
    double* copy = tile + k * ld;
    const auto take = [&](const double* from, index_t count, double* to) {
      for (index_t i = 0; i < count; ++i) {
        std::fill(std::copy_n(from + i * n + cols.start, cols.count, to + i * ld),
                  to + i * ld + padded, 0.0);
      }
    };
    take(fresh, k, tile);
    for (index_t i = 0; i < r; i += together) {
      const index_t count = std::min(together, r - i);
      take(rows + i * n, count, copy);
      table.multiply(k, count, nv, at + i * k, 1, k, copy, ld, tile, ld, update::subtract, {});
    }
    table.solve_lower(k, factor, k, tile, ld, nv);
    for (index_t i = 0; i < k; ++i) {
      std::copy_n(tile + i * ld, cols.count, fresh + i * n + cols.start);
    }
  });
}

// Steps of a pivoted Cholesky factorisation of K(x, x), from `rank` pivots up to `stop` of them.
struct pivoting {
  const double* diagonal;  // (n)
  const double* worth;     // (n): the pivot has the largest worth times residual
  double limit;            // of worth times residual, at which it ends
  double noise;            // of the residual, relative to the diagonal: no pivots below
  double* residual;        // (n), updated
  double* columns;         // (most, ld), ld whole panels: columns of the factor as rows
  index_t ld;
  int64_t* pivots;  // (most)
};

// Returns the number of pivots; fewer than `stop` where all residuals are small.
inline index_t pivoted_columns(const gram_source<double>& source, const pivoting& to,
                               index_t rank, index_t stop) {
  const kernel_table<double>& table = source.table;
  const index_t n = source.x.n;
  workspace<double> memory(1, 0, source.scratch_size(1, round_up(n, table.panel_width)), stop);
  double* at_pivot = memory.first(0);
  for (; rank < stop; ++rank) {
    index_t pivot = 0;
    for (index_t i = 1; i < n; ++i) {
      if (to.worth[i] * to.residual[i] > to.worth[pivot] * to.residual[pivot]) pivot = i;
    }
    const double rest = to.residual[pivot];
    if (rank && to.worth[pivot] * rest <= to.limit) break;
    if (!(rest > to.noise * to.diagonal[pivot])) break;
    double* column = to.columns + rank * to.ld;
    source.make_row(pivot, column, memory.scratch(0));
    std::fill(column + n, column + to.ld, 0.0);
    for (index_t r = 0; r < rank; ++r) at_pivot[r] = to.columns[r * to.ld + pivot];
    if (rank) {
      table.multiply(1, rank, to.ld / table.vector_width, at_pivot, rank, 1, to.columns, to.ld,
                     column, to.ld, update::subtract, {});
    }
    const double scale = std::sqrt(rest);
    for (index_t i = 0; i < n; ++i) column[i] /= scale;
    for (index_t r = 0; r < rank; ++r) column[to.pivots[r]] = 0.0;
    column[pivot] = scale;  // the quotient is rounding, and may be 0, if the residual is all rounding
    for (index_t i = 0; i < n; ++i) to.residual[i] -= column[i] * column[i];
    to.residual[pivot] = 0.0;
    to.pivots[rank] = pivot;
  }
  return rank;
}

// One block of columns of a symmetric product with a few of its blocks of rows, which share the
// transposed copy that is the right operand.
struct product_task {
  index_t col, first, last;
};

// How the lower triangle of a product (p, p) over n columns is split: by p and n alone, so that no sum
// depends on the number of threads.
struct product_split {
  static constexpr index_t chunk = 256;  // columns whose products are summed in T
  static constexpr index_t together = 6;
  index_t block;    // rows and columns of a block
  index_t segment;  // columns of the data that all tasks read, from the third-level cache
  std::vector<product_task> tasks;

  explicit product_split(index_t p) {
    // Two operands and a product of this size stay in the second-level cache: 96 are a multiple of the rows
    // of all micro-kernels.
    constexpr index_t most = 96, shared = index_t(1) << 20;
    block = round_up(divide_up(p, divide_up(p, most)), tile_unit / 2);
    segment = std::clamp(shared / p / chunk * chunk, chunk, 6 * chunk);
    const index_t blocks = divide_up(p, block);
    for (index_t j = 0; j < blocks; ++j) {
      for (index_t i = j; i < blocks; i += together) {
        tasks.push_back({j, i, std::min(i + together, blocks)});
      }
    }
  }
};

// to (length, ld) := transposed (rows, length) from `from`, times the weight of each column, and zeros up to
// `padded` rows. A few rows at a time are read on and on, and whole lines of the cache are written.
template <class T>
void transpose_weighted(const T* from, index_t n, index_t rows, index_t padded, index_t length,
                        const double* weight, T* to, index_t ld) {
  constexpr index_t together = 8;
  index_t c = 0;
  for (; c + together <= rows; c += together) {
    for (index_t k = 0; k < length; ++k) {
      const T* column = from + c * n + k;
      T* out = to + k * ld + c;
      if (weight) {
        for (index_t e = 0; e < together; ++e) {
          out[e] = static_cast<T>(static_cast<double>(column[e * n]) * weight[k]);
        }
      } else {
        for (index_t e = 0; e < together; ++e) out[e] = column[e * n];
      }
    }
  }
  for (; c < padded; ++c) {
    for (index_t k = 0; k < length; ++k) {
      const double value = c < rows ? static_cast<double>(from[c * n + k]) : 0.0;
      to[k * ld + c] = static_cast<T>(weight ? value * weight[k] : value);
    }
  }
}

// sums (rows, lds) += a' right over a chunk of columns: rows of the block from `first` on, for columns
// [col, col + cols) of the right operand. Products are summed in T.
template <class T>
void add_product(const kernel_table<T>& table, index_t rows, index_t cols, index_t length, const T* a,
                 index_t n, const T* right, index_t ld, T* product, double* sums) {
  const index_t nv = divide_up(cols, table.vector_width);
  if constexpr (sizeof(T) == sizeof(double)) {
    table.multiply(rows, length, nv, a, n, 1, right, ld, sums, ld, update::add, {});
  } else {
    table.multiply(rows, length, nv, a, n, 1, right, ld, product, ld, update::store, {});
    table.add_to_double(rows, cols, product, ld, sums, ld);
  }
}

using sum_function = decltype(kernel_table<double>::add_to_double);

// out (p, p) += a diag(w) a' for a (p, n); w may be null. Sums over a chunk of columns are in T,
// over chunks in double, always in the same order: each task adds its part of a segment after those of
// the segments before.
template <class T>
void self_product(const kernel_table<T>& table, const sum_function add_sums, const T* a,
                  const double* weight, index_t p, index_t n, double* out, const execution& how) {
  constexpr index_t chunk = product_split::chunk, step = 6;  // rows of a micro-kernel
  const product_split split(p);
  const index_t block = split.block, ld = round_up(block, table.panel_width) + row_padding;
  const index_t count = static_cast<index_t>(split.tasks.size());
  const index_t segments = divide_up(n, split.segment);
  const execution run = with_threads(how, area(p, p) * static_cast<double>(n), count * segments);
  workspace<T> memory(run.threads, chunk * ld, 0, sizeof(T) == sizeof(double) ? 0 : block * ld);
  workspace<double> local(run.threads, product_split::together * block * ld, 0, 0);
  turns order(count);
  parallel_for(count * segments, run, [&](index_t task, int thread, const loop_control& control) {
    const product_task& mine = split.tasks[static_cast<size_t>(task % count)];
    const block_range cols(mine.col, block, p), data(task / count, split.segment, n);
    T* right = memory.tile(thread);
    double* sums = local.tile(thread);
    std::fill_n(sums, (mine.last - mine.first) * block * ld, 0.0);
    for (index_t at = 0; at < data.count && !control.stopped(); at += chunk) {
      const index_t start = data.start + at, length = std::min(chunk, data.count - at);
      transpose_weighted(a + cols.start * n + start, n, cols.count,
                         round_up(cols.count, table.panel_width), length,
                         weight ? weight + start : nullptr, right, ld);
      for (index_t i = mine.first; i < mine.last; ++i) {
        const block_range rows(i, block, p);
        const T* left = a + rows.start * n + start;
        double* to = sums + (i - mine.first) * block * ld;
        if (i > mine.col) {
          add_product(table, rows.count, cols.count, length, left, n, right, ld,
                      memory.first(thread), to);
          continue;
        }
        // Of a block on the diagonal, each panel of columns with the rows from about its own on.
        for (index_t c = 0; c < cols.count; c += table.panel_width) {
          const index_t above = c / step * step;
          add_product(table, rows.count - above, std::min(table.panel_width, cols.count - c), length,
                      left + above * n, n, right + c, ld, memory.first(thread), to + above * ld + c);
        }
      }
    }
    if (!order.wait(task % count, task / count, control)) return;
    for (index_t i = mine.first; i < mine.last; ++i) {
      const block_range rows(i, block, p);
      const double* from = sums + (i - mine.first) * block * ld;
      double* to = out + rows.start * p + cols.start;
      if (i > mine.col) {
        add_sums(rows.count, cols.count, from, ld, to, p);
        continue;
      }
      for (index_t r = 0; r < rows.count; ++r) add_sums(1, r + 1, from + r * ld, ld, to + r * p, p);
    }
    order.pass(task % count, task / count);
  });
  const index_t blocks = divide_up(p, block);
  const execution copying = with_threads(how, nanosecond * area(p, p), blocks);
  parallel_for(blocks, copying, [&](index_t task, int, const loop_control&) {
    const block_range rows(task, block, p);
    for (index_t j = 0; j <= task; ++j) {
      const block_range cols(j, block, p);
      for (index_t r = rows.start; r < rows.start + rows.count; ++r) {
        const index_t end = std::min(r, cols.start + cols.count);
        for (index_t c = cols.start; c < end; ++c) out[c * p + r] = out[r * p + c];
      }
    }
  });
}

}  // namespace fastmcmd
