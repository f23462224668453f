// Products with Gram matrices that are computed tile by tile, stored in full, or stored packed.
//
// A packed matrix holds its lower tiles row block by row block, tile (i, j), i >= j, at
// i (i + 1) / 2 + j; diagonal tiles are full; what lies beyond n is 0. Its tiles may be quantized: in 16 bits
// each value, with the least value and the step of each row.
#pragma once

#include <vector>

#include "program.h"
#include "right_side.h"
#include "tile_pairs.h"

namespace fastmcmd {

template <class T>
struct gram_source {
  const kernel_table<T>& table;
  points_view<T> x;
  points_view<T> z;
  program_view program;
  bool symmetric;

  index_t scratch_size(index_t rows, index_t ld) const {
    const index_t width = table.panel_width;
    const index_t extra = statistics_in(program) > 1 ? statistics_in(program) - 1 : 0;
    return extra * round_up(rows, width) * ld + program.depth * width * width;
  }
  void make(index_t row, index_t rows, index_t col, index_t cols, T* out, index_t ld,
            T* scratch) const {
    FASTMCMD_ASSERT(row % table.panel_width == 0 && col % table.panel_width == 0);
    FASTMCMD_ASSERT(row + rows <= x.n && col + cols <= z.n);
    table.gram_tile({x, z, program, row, rows, col, cols, out, ld, scratch, symmetric});
  }
  // Row `row` of the matrix, at any place in its panel, into whole panels of `out`.
  void make_row(index_t row, T* out, T* scratch) const {
    FASTMCMD_ASSERT(table.gram_row != nullptr);
    const index_t ld = round_up(z.n, table.panel_width);
    table.gram_row({x, z, program, row, 1, 0, z.n, out, ld, scratch, symmetric});
  }
  // A rough count of operations per pair of points, to choose the number of threads.
  double cost() const {
    return operation<T> * (2.0 * static_cast<double>(x.d * statistics_in(program)) +
                           20.0 * static_cast<double>(program.length));
  }
};

// Rows and columns of one block of n.
struct block_range {
  index_t start, count;
  block_range(index_t block, index_t size, index_t n)
      : start(block * size), count(n - start < size ? n - start : size) {}
};

// Small problems get smaller tiles, so that there is work for all threads; the choice depends on n
// alone, as the order of the sums, and so the last bits of a result, depend on the tiles.
inline index_t streaming_tile(index_t n, index_t tile) {
  const index_t small = std::max<index_t>(2 * tile_unit, round_up(divide_up(n, 8), tile_unit));
  return std::min(round_up(tile, tile_unit), small);
}

// Rows of a scratch tile are this much longer than the tile: a power of two would put one column's
// elements into few sets of the cache.
constexpr index_t row_padding = 16;

// Each thread's own memory: a tile with what its making needs, and results for both its blocks.
template <class T>
class workspace {
 public:
  workspace(int threads, index_t tile_size, index_t scratch_size, index_t result_size)
      : tile_size_(round_up(tile_size, row_padding)),
        scratch_size_(round_up(scratch_size, row_padding)),
        result_size_(round_up(result_size, row_padding)) {
    for (int i = 0; i < threads; ++i) {
      buffers_.emplace_back(tile_size_ + scratch_size_ + 2 * result_size_);
    }
  }
  T* tile(int thread) { return buffers_[static_cast<size_t>(thread)].data(); }
  T* scratch(int thread) { return tile(thread) + tile_size_; }
  T* first(int thread) { return scratch(thread) + scratch_size_; }
  T* second(int thread) { return first(thread) + result_size_; }

 private:
  index_t tile_size_, scratch_size_, result_size_;
  std::vector<aligned_buffer<T>> buffers_;
};

inline execution with_threads(const execution& how, double operations, index_t tasks) {
  return {useful_threads(operations, tasks, how.threads), how.poll};
}

inline double area(index_t n, index_t m) { return static_cast<double>(n) * static_cast<double>(m); }

template <class T>
void gram(const gram_source<T>& source, T* out, index_t max_tile, const execution& how) {
  const index_t n = source.x.n, m = source.z.n;
  const index_t row_tile = streaming_tile(n, max_tile), col_tile = streaming_tile(m, max_tile);
  const index_t row_blocks = divide_up(n, row_tile), col_blocks = divide_up(m, col_tile);
  const index_t ld = col_tile + row_padding;
  const execution run = with_threads(how, area(n, m) * source.cost(), row_blocks * col_blocks);
  workspace<T> memory(run.threads, row_tile * ld, source.scratch_size(row_tile, ld), 0);
  parallel_for(row_blocks * col_blocks, run, [&](index_t task, int thread, const loop_control&) {
    const block_range rows(task / col_blocks, row_tile, n), cols(task % col_blocks, col_tile, m);
    T* tile = memory.tile(thread);
    source.make(rows.start, rows.count, cols.start, cols.count, tile, ld, memory.scratch(thread));
    for (index_t i = 0; i < rows.count; ++i) {
      std::memcpy(out + (rows.start + i) * m + cols.start, tile + i * ld,
                  static_cast<size_t>(cols.count) * sizeof(T));
    }
  });
}

// out = K(x, z) v
template <class T>
void matmul(const gram_source<T>& source, const T* v, index_t k, double* out, index_t max_tile,
            const execution& how) {
  const index_t n = source.x.n, m = source.z.n;
  const index_t row_tile = streaming_tile(n, max_tile), col_tile = streaming_tile(m, max_tile);
  const index_t row_blocks = divide_up(n, row_tile), col_blocks = divide_up(m, col_tile);
  const index_t ld = col_tile + row_padding;
  const right_side<T> right(source.table, v, m, k);
  const double operations = area(n, m) * (source.cost() + 2.0 * static_cast<double>(k));
  const execution run = with_threads(how, operations, row_blocks * col_blocks);
  workspace<T> memory(run.threads, row_tile * ld, source.scratch_size(row_tile, ld),
                      right.result_size(row_tile));
  std::fill(out, out + n * k, 0.0);
  for_each_product(
      row_blocks, col_blocks, run,
      [&](index_t i, index_t j, int thread) {
        const block_range rows(i, row_tile, n), cols(j, col_tile, m);
        T* tile = memory.tile(thread);
        source.make(rows.start, rows.count, cols.start, cols.count, tile, ld,
                    memory.scratch(thread));
        right.multiply(row_tile, tile, ld, 0, rows.count, cols.start, cols.count,
                       memory.first(thread), nullptr);
      },
      [&](index_t i, index_t, int thread) {
        const block_range rows(i, row_tile, n);
        right.add(row_tile, memory.first(thread), rows.count, out + rows.start * k);
      });
}

// A stored matrix (n, m): element (i, j) is data[i * row + j * col].
template <class T>
struct strided_matrix {
  const T* data;
  index_t n, m, row, col;
};

// out = A v
template <class T>
void dense_matmul(const kernel_table<T>& table, const strided_matrix<T>& a, const T* v, index_t k,
                  double* out, index_t max_tile, const execution& how) {
  const index_t n = a.n, m = a.m;
  const index_t row_tile = streaming_tile(n, max_tile), col_tile = streaming_tile(m, max_tile);
  const index_t row_blocks = divide_up(n, row_tile), col_blocks = divide_up(m, col_tile);
  const index_t ld = round_up(k, table.vector_width);
  aligned_buffer<T> right(m * ld);
  right.zero();
  for (index_t i = 0; i < m; ++i) std::copy(v + i * k, v + (i + 1) * k, right.data() + i * ld);
  const double operations = area(n, m) * (2.0 * static_cast<double>(k) + 2);
  const execution run = with_threads(how, operations, row_blocks * col_blocks);
  workspace<T> memory(run.threads, 0, 0, row_tile * ld);
  std::fill(out, out + n * k, 0.0);
  for_each_product(
      row_blocks, col_blocks, run,
      [&](index_t i, index_t j, int thread) {
        const block_range rows(i, row_tile, n), cols(j, col_tile, m);
        table.multiply(rows.count, cols.count, ld / table.vector_width,
                       a.data + rows.start * a.row + cols.start * a.col, a.row, a.col,
                       right.data() + cols.start * ld, ld, memory.first(thread), ld, update::store, {});
      },
      [&](index_t i, index_t, int thread) {
        const block_range rows(i, row_tile, n);
        table.add_to_double(rows.count, k, memory.first(thread), ld, out + rows.start * k, k);
      });
}

// A tile of a matrix, and its row length.
template <class T>
struct tile_view {
  const T* data;
  index_t ld;
};

struct no_tiles_ahead {
  template <class T>
  soon_read<T> of(index_t) const {
    return {};
  }
};

// out = K v for a symmetric matrix whose tiles come from tile_at(rows, cols, pair, thread). What `stored`
// has in memory of the next pair is asked for beside the work.
template <class T, class Tile, class Stored = no_tiles_ahead>
void symmetric_product(const right_side<T>& right, index_t n, index_t tile, double* out,
                       workspace<T>& memory, const execution& run, const Tile& tile_at,
                       const Stored& stored = {}) {
  const index_t k = right.count();
  std::fill(out, out + n * k, 0.0);
  for_each_pair(
      divide_up(n, tile), run,
      [&](index_t i, index_t j, int thread, index_t soon) {
        const block_range rows(i, tile, n), cols(j, tile, n);
        const tile_view<T> values = tile_at(rows, cols, pair_index(i, j), thread);
        right.multiply(tile, values.data, values.ld, rows.start, rows.count, cols.start, cols.count,
                       memory.first(thread), i == j ? nullptr : memory.second(thread),
                       stored.template of<T>(soon));
      },
      [&](index_t i, index_t j, int thread) {
        const block_range rows(i, tile, n), cols(j, tile, n);
        right.add(tile, memory.first(thread), rows.count, out + rows.start * k);
        if (i != j) right.add(tile, memory.second(thread), cols.count, out + cols.start * k);
      });
}

// out = K v from tiles that are computed in each thread's own memory, and handed to
// use(rows, cols, pair, tile, its row length).
template <class T, class Use>
void streamed_product(const gram_source<T>& source, index_t tile, const T* v, index_t k, double* out,
                      const execution& how, const Use& use) {
  const index_t n = source.x.n, ld = tile + row_padding;
  const right_side<T> right(source.table, v, n, k);
  const double operations = area(n, n) / 2 * (source.cost() + 4.0 * static_cast<double>(k));
  const execution run = with_threads(how, operations, pair_count(divide_up(n, tile)));
  workspace<T> memory(run.threads, tile * ld, source.scratch_size(tile, ld),
                      right.result_size(tile));
  symmetric_product(right, n, tile, out, memory, run,
                    [&](block_range rows, block_range cols, index_t pair, int thread) {
                      T* values = memory.tile(thread);
                      source.make(rows.start, rows.count, cols.start, cols.count, values, ld,
                                  memory.scratch(thread));
                      use(rows, cols, pair, values, ld);
                      return tile_view<T>{values, ld};
                    });
}

template <class T>
void symmetric_matmul(const gram_source<T>& source, const T* v, index_t k, double* out,
                      index_t max_tile, const execution& how) {
  streamed_product(source, streaming_tile(source.x.n, max_tile), v, k, out, how,
                   [](block_range, block_range, index_t, const T*, index_t) {});
}

// out[s] = c[:, s]' K(x, x) c[:, s]
template <class T>
void quadratic_forms(const gram_source<T>& source, const T* c, index_t k, double* out,
                     index_t max_tile, const execution& how) {
  const index_t n = source.x.n;
  const index_t tile = streaming_tile(n, max_tile), ld = tile + row_padding;
  const index_t blocks = divide_up(n, tile);
  const right_side<T> right(source.table, c, n, k);
  const double operations = area(n, n) / 2 * (source.cost() + 2.0 * static_cast<double>(k));
  const execution run = with_threads(how, operations, pair_count(blocks));
  workspace<T> memory(run.threads, tile * ld, source.scratch_size(tile, ld),
                      right.result_size(tile));
  std::vector<double> sums(static_cast<size_t>(blocks * k), 0.0);  // one row per row block
  for_each_pair(
      blocks, run,
      [&](index_t i, index_t j, int thread, index_t) {
        const block_range rows(i, tile, n), cols(j, tile, n);
        source.make(rows.start, rows.count, cols.start, cols.count, memory.tile(thread), ld,
                    memory.scratch(thread));
        right.multiply(tile, memory.tile(thread), ld, rows.start, rows.count, cols.start,
                       cols.count, memory.first(thread), nullptr);
      },
      [&](index_t i, index_t j, int thread) {
        const block_range rows(i, tile, n);
        right.add_inner(tile, memory.first(thread), rows.start, rows.count, i == j ? 1 : 2,
                        sums.data() + i * k);
      });
  std::fill(out, out + k, 0.0);
  for (index_t i = 0; i < blocks; ++i) {
    for (index_t s = 0; s < k; ++s) out[s] += sums[static_cast<size_t>(i * k + s)];
  }
}

// Fills one packed tile, zeros beyond its rows and columns.
template <class T>
void make_packed(const gram_source<T>& source, block_range rows, block_range cols, index_t tile,
                 T* out, T* scratch) {
  source.make(rows.start, rows.count, cols.start, cols.count, out, tile, scratch);
  for (index_t i = 0; i < tile; ++i) {
    std::fill(out + i * tile + (i < rows.count ? cols.count : 0), out + (i + 1) * tile, T(0));
  }
}

template <class T>
void pack(const gram_source<T>& source, index_t tile, T* tiles, const execution& how) {
  const index_t n = source.x.n, blocks = divide_up(n, tile);
  const execution run = with_threads(how, area(n, n) / 2 * source.cost(), pair_count(blocks));
  workspace<T> memory(run.threads, 0, source.scratch_size(tile, tile), 0);
  std::vector<index_t> row_of(static_cast<size_t>(pair_count(blocks)));
  for (index_t i = 0; i < blocks; ++i) {
    std::fill_n(row_of.begin() + pair_index(i, 0), i + 1, i);
  }
  parallel_for(pair_count(blocks), run, [&](index_t task, int thread, const loop_control&) {
    const index_t i = row_of[static_cast<size_t>(task)], j = task - pair_index(i, 0);
    make_packed(source, block_range(i, tile, n), block_range(j, tile, n), tile,
                tiles + task * tile * tile, memory.scratch(thread));
  });
}

// The first tiles of a packed matrix, in memory, as elements of any type.
template <class U>
struct packed_tiles {
  U* data;
  index_t tile, count;
  static constexpr bool converted = false;

  bool has(index_t pair) const { return pair < count; }
  U* at(index_t pair) const { return data + pair * tile * tile; }
  // To be fetched: T is the type in which products count.
  template <class T>
  soon_read<T> of(index_t pair) const {
    if (!has(pair)) return {};
    const index_t each = static_cast<index_t>(sizeof(T) / sizeof(U));
    return {reinterpret_cast<const T*>(at(pair)), tile * tile / each};
  }
  template <class T>
  tile_view<T> values(const kernel_table<T>&, block_range, block_range, index_t pair, T*,
                      index_t) const {
    return {at(pair), tile};
  }
};

// Quantized tiles in memory: codes, and two numbers for each of their rows.
template <class Code, class Scale>
struct quantized_tiles {
  packed_tiles<Code> codes;
  Scale* scales;
  static constexpr bool converted = true;

  Scale* scales_at(index_t pair) const { return scales + pair * 2 * codes.tile; }
  tile_view<float> values(const kernel_table<float>& table, block_range rows, block_range cols,
                          index_t pair, float* scratch, index_t ld) const {
    // Products with few columns read whole panels.
    const index_t panel = table.panel_width;
    table.dequantize(round_up(rows.count, panel), round_up(cols.count, panel), codes.at(pair),
                     scales_at(pair), codes.tile, scratch, ld);
    return {scratch, ld};
  }
};

template <class U>
const packed_tiles<U>& in_memory(const packed_tiles<U>& tiles) {
  return tiles;
}
template <class Code, class Scale>
const packed_tiles<Code>& in_memory(const quantized_tiles<Code, Scale>& tiles) {
  return tiles.codes;
}

// out = K v from tiles in memory, and from `source` where memory lacks a tile.
template <class T, class Tiles>
void packed_matmul(const kernel_table<T>& table, const Tiles& tiles, const gram_source<T>* source,
                   index_t n, const T* v, index_t k, double* out, const execution& how) {
  const auto& stored = in_memory(tiles);
  const index_t tile = stored.tile, ld = tile + row_padding, pairs = pair_count(divide_up(n, tile));
  FASTMCMD_ASSERT(source || stored.count == pairs);
  const right_side<T> right(table, v, n, k);
  double operations = area(n, n) * (2.0 * static_cast<double>(k) + 4);
  if (source) operations += static_cast<double>(pairs - stored.count) * area(tile, tile) * source->cost();
  const execution run = with_threads(how, operations, pairs);
  workspace<T> memory(run.threads, source || Tiles::converted ? tile * ld : 0,
                      source ? source->scratch_size(tile, ld) : 0, right.result_size(tile));
  symmetric_product(
      right, n, tile, out, memory, run,
      [&](block_range rows, block_range cols, index_t pair, int thread) {
        T* scratch = memory.tile(thread);
        if (stored.has(pair)) return tiles.values(table, rows, cols, pair, scratch, ld);
        source->make(rows.start, rows.count, cols.start, cols.count, scratch, ld,
                     memory.scratch(thread));
        return tile_view<T>{scratch, ld};
      },
      stored);
}

// Fills the tiles in memory, and computes the first product in one pass.
template <class T>
void pack_matmul(const gram_source<T>& source, const packed_tiles<T>& tiles, const T* v, index_t k,
                 double* out, const execution& how) {
  const index_t n = source.x.n, tile = tiles.tile, ld = tile + row_padding;
  const right_side<T> right(source.table, v, n, k);
  const double operations = area(n, n) / 2 * (source.cost() + 4.0 * static_cast<double>(k));
  const index_t pairs = pair_count(divide_up(n, tile));
  const execution run = with_threads(how, operations, pairs);
  workspace<T> memory(run.threads, tiles.count < pairs ? tile * ld : 0, source.scratch_size(tile, ld),
                      right.result_size(tile));
  symmetric_product(right, n, tile, out, memory, run,
                    [&](block_range rows, block_range cols, index_t pair, int thread) {
                      T* scratch = memory.scratch(thread);
                      if (tiles.has(pair)) {
                        make_packed(source, rows, cols, tile, tiles.at(pair), scratch);
                        return tile_view<T>{tiles.at(pair), tile};
                      }
                      T* values = memory.tile(thread);
                      source.make(rows.start, rows.count, cols.start, cols.count, values, ld, scratch);
                      return tile_view<T>{values, ld};
                    });
}

// The product of the matrix before it is quantized, which fills the tiles in memory.
inline void quantize_matmul(const gram_source<float>& source,
                            const quantized_tiles<uint16_t, float>& tiles, const float* v, index_t k,
                            double* out, const execution& how) {
  const index_t tile = tiles.codes.tile;
  streamed_product(
      source, tile, v, k, out, how,
      [&](block_range rows, block_range cols, index_t pair, const float* values, index_t ld) {
        if (!tiles.codes.has(pair)) return;
        source.table.quantize(rows.count, cols.count, values, ld, tile, tiles.codes.at(pair),
                              tiles.scales_at(pair));
      });
}

}  // namespace fastmcmd
