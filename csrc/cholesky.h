// Cholesky factor of a packed matrix, and solves with it.
//
// Left-looking, tile by tile in column order: task (i, k) subtracts L_ij L_kj' for all j < k as
// soon as these are finished, then factors (i = k) or solves with L_kk. Every task depends on
// earlier ones only and threads take tasks in order, so there are no barriers, no deadlock, and the
// next column starts while the last one ends. Each tile is summed by one thread in a fixed order:
// the result does not depend on the number of threads. While the factorisation runs, finished
// off-diagonal tiles are in panels (see factor_tile.h); a last pass puts them back into rows.
#pragma once

#include "products.h"

namespace fastmcmd {

// Marks what is finished, for threads that wait for it.
class finished_flags {
 public:
  explicit finished_flags(index_t count) : flags_(static_cast<size_t>(count)) {}

  void set(index_t i) { flags_[static_cast<size_t>(i)].store(true, std::memory_order_release); }
  bool wait(index_t i, const loop_control& control) const {
    const std::atomic<bool>& flag = flags_[static_cast<size_t>(i)];
    return control.wait([&] { return flag.load(std::memory_order_acquire); });
  }

 private:
  std::vector<std::atomic<bool>> flags_;
};

template <class T>
void packed_add_diagonal(T* tiles, index_t n, index_t tile, const double* diagonal) {
  for (index_t i = 0; i < n; ++i) {
    const index_t block = i / tile, r = i % tile;
    T& entry = tiles[pair_index(block, block) * tile * tile + r * tile + r];
    entry = static_cast<T>(static_cast<double>(entry) + diagonal[i]);
  }
}

template <class T>
class packed_factorisation {
 public:
  packed_factorisation(const kernel_table<T>& table, T* tiles, index_t n, index_t tile)
      : table_(table),
        tiles_(tiles),
        n_(n),
        tile_(tile),
        blocks_(divide_up(n, tile)),
        finished_(pair_count(blocks_)) {}

  // -1, or the first pivot that is not positive (the tiles are then of no use).
  index_t run(const execution& how) {
    const double operations = area(n_, n_) * static_cast<double>(n_) / 3;
    const execution run = with_threads(how, operations, pair_count(blocks_));
    workspace<T> memory(run.threads, tile_ * tile_, 0, 0);
    std::vector<std::pair<index_t, index_t>> order;
    order.reserve(static_cast<size_t>(pair_count(blocks_)));
    for (index_t k = 0; k < blocks_; ++k) {
      for (index_t i = k; i < blocks_; ++i) order.emplace_back(i, k);
    }
    parallel_for(pair_count(blocks_), run, [&](index_t task, int thread, loop_control& control) {
      const auto [i, k] = order[static_cast<size_t>(task)];
      compute(i, k, memory.tile(thread), control);
    });
    if (bad_pivot_ >= 0) return bad_pivot_;
    parallel_for(pair_count(blocks_), run, [&](index_t task, int thread, loop_control&) {
      const auto [i, k] = order[static_cast<size_t>(task)];
      if (i == k) return;
      T* rows = memory.tile(thread);
      table_.panels_to_tile(tile_, at(i, k), rows);
      std::memcpy(at(i, k), rows, static_cast<size_t>(tile_ * tile_) * sizeof(T));
    });
    return -1;
  }

 private:
  T* at(index_t i, index_t j) { return tiles_ + pair_index(i, j) * tile_ * tile_; }

  void compute(index_t i, index_t k, T* panels, loop_control& control) {
    const block_range rows(i, tile_, n_), cols(k, tile_, n_);
    table_.tile_to_panels(tile_, at(i, k), panels);
    for (index_t j = 0; j < k; ++j) {
      if (!finished_.wait(pair_index(i, j), control)) return;
      if (!finished_.wait(pair_index(k, j), control)) return;
      table_.update_panels(tile_, rows.count, cols.count, at(i, j), at(k, j), panels, i == k);
    }
    if (i == k) {
      const index_t bad = table_.factor_tile(tile_, cols.count, panels, at(k, k));
      if (bad >= 0) {
        bad_pivot_ = cols.start + bad;  // later diagonal tiles wait for this one: no race
        control.stop();
        return;
      }
    } else {
      if (!finished_.wait(pair_index(k, k), control)) return;
      table_.solve_panels(tile_, rows.count, cols.count, at(k, k), panels);
      std::memcpy(at(i, k), panels, static_cast<size_t>(tile_ * tile_) * sizeof(T));
    }
    finished_.set(pair_index(i, k));
  }

  const kernel_table<T>& table_;
  T* tiles_;
  index_t n_;
  index_t tile_;
  index_t blocks_;
  finished_flags finished_;
  index_t bad_pivot_ = -1;
};

// b (n x k) := L^-1 b, or L^-T b with `transposed`. Row block by row block, each waiting for the
// blocks it needs; products of a tile are summed in T, their sum over tiles in double.
template <class T>
void packed_triangular(const kernel_table<T>& table, const T* tiles, index_t n, index_t tile,
                       aligned_buffer<T>& b, index_t ld, bool transposed, const execution& how) {
  const index_t blocks = divide_up(n, tile);
  const execution run = with_threads(how, area(n, n) * static_cast<double>(ld + 2), blocks);
  workspace<T> memory(run.threads, 0, 0, tile * ld);
  std::vector<aligned_buffer<double>> sums;
  for (int i = 0; i < run.threads; ++i) sums.emplace_back(tile * ld);
  finished_flags finished(blocks);
  parallel_for(blocks, run, [&](index_t task, int thread, const loop_control& control) {
    const index_t i = transposed ? blocks - 1 - task : task;
    const block_range rows(i, tile, n);
    const index_t nv = ld / table.vector_width;
    double* sum = sums[static_cast<size_t>(thread)].data();
    T* product = memory.first(thread);
    T* own = b.data() + rows.start * ld;
    std::fill(sum, sum + rows.count * ld, 0.0);
    for (index_t step = 0; step < task; ++step) {
      const index_t j = transposed ? blocks - 1 - step : step;
      if (!finished.wait(j, control)) return;
      const block_range inner(j, tile, n);
      const T* a = tiles + (transposed ? pair_index(j, i) : pair_index(i, j)) * tile * tile;
      table.multiply(rows.count, inner.count, nv, a, transposed ? 1 : tile, transposed ? tile : 1,
                     b.data() + inner.start * ld, ld, product, ld, update::store, {});
      table.add_to_double(1, rows.count * ld, product, rows.count * ld, sum, rows.count * ld);
    }
    for (index_t e = 0; e < rows.count * ld; ++e) {
      own[e] = static_cast<T>(static_cast<double>(own[e]) - sum[e]);
    }
    const T* diagonal = tiles + pair_index(i, i) * tile * tile;
    (transposed ? table.solve_upper : table.solve_lower)(rows.count, diagonal, tile, own, ld, nv);
    finished.set(i);
  });
}

// b := L^-1 b and then, unless lower_only, L^-T of that.
template <class T>
void packed_solve(const kernel_table<T>& table, const T* tiles, index_t n, index_t tile, T* b,
                  index_t k, bool lower_only, const execution& how) {
  const index_t ld = round_up(k, table.vector_width);
  aligned_buffer<T> padded(n * ld);
  padded.zero();
  for (index_t i = 0; i < n; ++i) std::copy(b + i * k, b + (i + 1) * k, padded.data() + i * ld);
  packed_triangular(table, tiles, n, tile, padded, ld, false, how);
  if (!lower_only) packed_triangular(table, tiles, n, tile, padded, ld, true, how);
  for (index_t i = 0; i < n; ++i) {
    std::copy(padded.data() + i * ld, padded.data() + i * ld + k, b + i * k);
  }
}

}  // namespace fastmcmd
