// Sums of kernel values over groups of points: the Gram matrix of differences of embeddings, tile by tile.
#pragma once

#include <vector>

#include "products.h"

namespace fastmcmd {

// Groups of successive points, each point with a share: group g holds the points starts[g] to
// starts[g + 1], of which there are none where these are equal.
struct point_groups {
  const int64_t* starts;
  const double* shares;
};

struct group_range {
  index_t first, stop;
};

// Parts of a range of groups, each with at least so many points, except the last.
inline std::vector<group_range> split_groups(const int64_t* starts, group_range range, index_t points) {
  std::vector<group_range> parts;
  index_t first = range.first;
  for (index_t g = range.first; g < range.stop; ++g) {
    if (g + 1 < range.stop && starts[g + 1] - starts[first] < points) continue;
    parts.push_back({first, g + 1});
    first = g + 1;
  }
  return parts;
}

// The first group that ends after `point`, from group `g` on.
inline index_t group_at(const int64_t* starts, index_t g, index_t point) {
  while (starts[g + 1] <= point) ++g;
  return g;
}

// out[a, b] = sum of s_i s_j k(x_i, x_j) over the points i of row group a and j of column group b, for
// some groups as rows, and as columns all from the first of them on.
//
// A task takes whole groups of rows and every column in turn: no two threads add to the same sum, whose
// order depends on nothing but the groups. Tiles begin at panels, so a task may compute a few values of
// the group before its first, which are left out.
inline void group_sums(const gram_source<double>& source, const point_groups& groups, group_range rows,
                       index_t group_count, double* out, const execution& how) {
  constexpr index_t row_tile = 2 * tile_unit, column_tile = 8 * tile_unit;  // in the second-level cache
  constexpr index_t rows_per_task = 3 * row_tile;
  constexpr index_t ld = column_tile + row_padding;
  const int64_t* starts = groups.starts;
  const index_t width = source.table.panel_width, ldo = group_count - rows.first;
  const index_t column_stop = starts[group_count];
  std::fill(out, out + (rows.stop - rows.first) * ldo, 0.0);
  const std::vector<group_range> parts = split_groups(starts, rows, rows_per_task);
  const index_t tasks = static_cast<index_t>(parts.size());
  const double pairs = area(starts[rows.stop] - starts[rows.first], column_stop - starts[rows.first]);
  const execution run = with_threads(how, pairs * source.cost(), tasks);
  workspace<double> memory(run.threads, row_tile * ld, source.scratch_size(row_tile, ld), column_tile);
  parallel_for(tasks, run, [&](index_t task, int thread, const loop_control& control) {
    double *tile = memory.tile(thread), *sums = memory.first(thread);
    const group_range part = parts[static_cast<size_t>(task)];
    const index_t start = starts[part.first], row_stop = starts[part.stop];
    if (start == row_stop) return;
    index_t first_column = part.first;  // the group of the first point of a tile
    for (index_t col = start / width * width; col < column_stop; col += column_tile) {
      if (control.stopped()) return;
      const index_t cols = std::min(column_tile, column_stop - col);
      const index_t from = std::max(col, start);
      first_column = group_at(starts, first_column, from);
      index_t a = part.first;
      for (index_t row = start / width * width; row < row_stop; row += row_tile) {
        const index_t count = std::min(row_tile, row_stop - row);
        source.make(row, count, col, cols, tile, ld, memory.scratch(thread));
        index_t i = std::max(row, start);
        while (i < row + count) {
          a = group_at(starts, a, i);
          const index_t stop = std::min<index_t>(row + count, starts[a + 1]);
          source.table.sum_rows(stop - i, cols, tile + (i - row) * ld, ld, groups.shares + i, sums);
          i = stop;
          double* to = out + (a - rows.first) * ldo - rows.first;
          index_t b = first_column;
          for (index_t j = from; j < col + cols;) {
            b = group_at(starts, b, j);
            const index_t end = std::min<index_t>(col + cols, starts[b + 1]);
            double sum = 0;
            for (; j < end; ++j) sum += groups.shares[j] * sums[j - col];
            to[b] += sum;
          }
        }
      }
    }
  });
  for (const group_range part : parts) {
    for (index_t a = part.first - rows.first; a < part.stop - rows.first; ++a) {
      for (index_t b = 0; b < part.first - rows.first; ++b) out[a * ldo + b] = out[b * ldo + a];
    }
  }
}

}  // namespace fastmcmd
