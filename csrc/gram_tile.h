// One tile of a Gram matrix: its statistics by the micro-kernel, then the program block by block
// while the block is in the first-level cache.
#pragma once

#include "leaves.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T>
struct tile_statistics {
  T* tile[statistic_count];
};

// Runs the program on the block of left panel i and right panel j; with Rows = 1 there is one left row
// instead of panels.
template <class T, int Rows>
struct program_runner {
  const tile_job<T>& job;
  tile_statistics<T> statistics;
  T* stack;

  void operator()(index_t i, index_t j) const {
    constexpr index_t width = panel_width<T>;
    const index_t row = job.row + i * width;
    const index_t col = job.col + j * width;
    const index_t offset = i * width * job.ld + j * width;
    pair_block<T, Rows> pairs;
    for (int s = 0; s < statistic_count; ++s) {
      T* tile = statistics.tile[s];
      pairs.statistic[s] = {tile ? tile + offset : nullptr, job.ld};
    }
    pairs.x_norms = job.x.squared_norms + row;
    pairs.z_norms = job.z.squared_norms + col;
    pairs.x_inverse = job.x.inverse_norms + row;
    pairs.z_inverse = job.z.inverse_norms + col;
    pairs.diagonal = Rows == width && job.symmetric && row == col;

    const program_view& program = job.program;
    const block<T, Rows> out = {job.out + offset, job.ld};
    if (program.length == 1) {
      leaf_block<T, Rows>(program.codes[0], program.params, pairs, out);
      return;
    }
    if (program.exponentials) {
      sum_of_exponentials<T, Rows>(program, pairs, out);
      return;
    }
    T* top = stack;  // one past the highest block
    for (index_t op = 0; op < program.length; ++op) {
      const int32_t code = program.codes[op];
      if (code == op_add || code == op_mul) {
        top -= Rows * width;
        combine_block<T, Rows>(code, {top, width}, {top - Rows * width, width});
      } else {
        leaf_block<T, Rows>(code, program.params + op * params_per_op, pairs, {top, width});
        top += Rows * width;
      }
    }
    map_block(block<const T, Rows>{stack, width}, out, [](vec<T> s) { return s; });
  }
};

template <class T, int Rows, class Finish>
inline void compute_statistic(int which, const tile_job<T>& job, T* out, Finish finish) {
  constexpr index_t width = panel_width<T>;
  const index_t d = job.x.d;
  const T* a = job.x.panels + job.row / width * width * d + job.row % width;
  const T* b = job.z.panels + job.col * d;
  const index_t rows = (job.rows + width - 1) / width;
  const index_t cols = (job.cols + width - 1) / width;
  const auto run = [&](auto op) {
    panel_product<decltype(op), T, Rows>(d, rows, a, d * width, cols, b, d * width, out, job.ld,
                                         width, update::store, false, finish);
  };
  switch (which) {
    case 0: return run(dot_op{});
    case 1: return run(squared_op{});
    case 2: return run(l1_op{});
    default: return run(unequal_op{});
  }
}

// Rows is the panel width, or 1 for a single row that may lie anywhere in its panel.
template <class T, int Rows = panel_width<T>>
void gram_tile(const tile_job<T>& job) {
  constexpr index_t width = panel_width<T>;
  const index_t rows = (job.rows + width - 1) / width;
  const index_t cols = (job.cols + width - 1) / width;
  tile_statistics<T> statistics = {};
  T* scratch = job.scratch;
  int last = -1;
  for (int s = 0; s < statistic_count; ++s) {
    if (!(job.program.statistics & (1u << s))) continue;
    statistics.tile[s] = last < 0 ? job.out : scratch;
    if (last >= 0) scratch += rows * Rows * job.ld;
    last = s;
  }
  const program_runner<T, Rows> runner = {job, statistics, scratch};
  for (int s = 0; s < last; ++s) {
    if (statistics.tile[s]) compute_statistic<T, Rows>(s, job, statistics.tile[s], do_nothing{});
  }
  if (last >= 0) {
    compute_statistic<T, Rows>(last, job, statistics.tile[last], runner);
    return;
  }
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < cols; ++j) runner(i, j);
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
