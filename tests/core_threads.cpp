// Runs all that the core does on several threads, for the thread sanitizer, which can watch a
// program but hardly an interpreter; and checks that no thread count changes a bit of the results.
#define FASTMCMD_ISA_NAMESPACE isa_here
#define FASTMCMD_ISA_NAME "here"
#include <cstdio>
#include <cstring>
#include <random>

#include "../csrc/bits.h"
#include "../csrc/cholesky.h"
#include "../csrc/kernels.cpp"
#include "../csrc/landmarks.h"
#include "../csrc/tall_skinny.h"

using namespace fastmcmd;

namespace {

constexpr index_t n = 425, d = 9, k = 11, tile = 64, landmarks = 150;
constexpr int repeats = 3;  // other interleavings of the threads

template <class T>
std::vector<T> numbers(index_t count) {
  std::mt19937 generator(0);
  std::normal_distribution<double> normal;
  std::vector<T> out(static_cast<size_t>(count));
  for (T& x : out) x = static_cast<T>(normal(generator));
  return out;
}

// Random points in the layout of `points_view`, with their norms.
template <class T>
struct some_points {
  std::vector<T> panels, squared, inverse;

  explicit some_points(const kernel_table<T>& table) {
    const index_t padded = round_up(n, tile_unit), width = table.panel_width;
    panels.resize(static_cast<size_t>(padded * d));
    squared.resize(static_cast<size_t>(padded));
    inverse.resize(static_cast<size_t>(padded));
    const std::vector<T> x = numbers<T>(n * d);
    for (index_t i = 0; i < n; ++i) {
      T sum = 0;
      for (index_t c = 0; c < d; ++c) {
        const T value = x[static_cast<size_t>(i * d + c)];
        panels[static_cast<size_t>((i / width) * width * d + c * width + i % width)] = value;
        sum += value * value;
      }
      squared[static_cast<size_t>(i)] = sum;
      inverse[static_cast<size_t>(i)] = 1 / scalar_sqrt(sum);
    }
  }

  static T scalar_sqrt(T x) { return isa_here::scalar_sqrt(x); }
  points_view<T> view() const { return {panels.data(), squared.data(), inverse.data(), n, d}; }
};

// All results, one after the other.
template <class T>
std::vector<double> results(int threads) {
  const kernel_table<T>& table = isa_here::table<T>;
  const some_points<T> points(table);
  const points_view<T> x = points.view();
  const int32_t code = op_rbf;
  const double params[params_per_op] = {0.1};
  const program_view program = {&code, params, 1, stat_squared, 1};
  const gram_source<T> symmetric = {table, x, x, program, true}, cross = {table, x, x, program, false};
  const std::vector<T> v = numbers<T>(n * k);
  const execution how = {threads, nullptr};
  std::vector<double> out(static_cast<size_t>(n * k)), all;
  const auto keep = [&](const auto& values) { all.insert(all.end(), values.begin(), values.end()); };

  symmetric_matmul(symmetric, v.data(), k, out.data(), tile, how);
  keep(out);
  matmul(cross, v.data(), k, out.data(), tile, how);
  keep(out);
  std::vector<double> forms(static_cast<size_t>(k));
  quadratic_forms(symmetric, v.data(), k, forms.data(), tile, how);
  keep(forms);
  std::vector<T> full(static_cast<size_t>(n * n));
  gram(symmetric, full.data(), tile, how);
  keep(full);
  dense_matmul(table, {full.data(), n, n, n, 1}, v.data(), k, out.data(), tile, how);
  keep(out);

  std::vector<T> factor(static_cast<size_t>(landmarks * landmarks)), f(static_cast<size_t>(landmarks * n));
  for (index_t i = 0; i < landmarks; ++i) factor[static_cast<size_t>(i * landmarks + i)] = 2;
  std::vector<double> squares(static_cast<size_t>(n)), sizes(static_cast<size_t>(n));
  points_view<T> few = x;
  few.n = landmarks;
  const gram_source<T> at_landmarks = {table, few, x, program, false};
  features(at_landmarks, factor.data(), {f.data(), squares.data(), sizes.data()}, how);
  keep(f), keep(squares), keep(sizes);
  std::vector<double> product(static_cast<size_t>(landmarks * landmarks));
  self_product(table, isa_here::table<double>.add_to_double, f.data(), nullptr, landmarks, n, product.data(),
               how);
  keep(product);

  const index_t blocks = divide_up(n, tile);
  aligned_buffer<T> tiles(pair_count(blocks) * tile * tile);
  const index_t pairs = pair_count(blocks), some = pair_count(blocks - 1);  // all tiles, and a part
  for (const index_t count : {some, pairs}) {
    pack_matmul(symmetric, {tiles.data(), tile, count}, v.data(), k, out.data(), how);
    keep(out);
    for (const index_t columns : {index_t(3), k}) {  // those without padding, and tiles asked for ahead
      packed_matmul(table, packed_tiles<const T>{tiles.data(), tile, count},
                    count < pairs ? &symmetric : nullptr, n, v.data(), columns, out.data(), how);
      keep(out);
    }
  }
  if constexpr (std::is_same_v<T, float>) {
    aligned_buffer<uint16_t> codes(pairs * tile * tile);
    aligned_buffer<float> scales(pairs * tile * 2);
    for (const index_t count : {some, pairs}) {
      quantize_matmul(symmetric, {{codes.data(), tile, count}, scales.data()}, v.data(), k, out.data(),
                      how);
      keep(out);
      for (const index_t columns : {index_t(3), k}) {
        const quantized_tiles<const uint16_t, const float> stored = {{codes.data(), tile, count},
                                                                     scales.data()};
        packed_matmul(table, stored, count < pairs ? &symmetric : nullptr, n, v.data(), columns,
                      out.data(), how);
        keep(out);
      }
    }
  }
  for (index_t i = 0; i < n; ++i) {
    const index_t block = i / tile, row = i % tile;
    tiles.data()[pair_index(block, block) * tile * tile + row * tile + row] += 5;
  }
  if (packed_factorisation<T>(table, tiles.data(), n, tile).run(how) >= 0) std::abort();
  std::vector<T> solved = v;
  packed_solve(table, tiles.data(), n, tile, solved.data(), k, false, how);
  keep(solved);
  return all;
}

// Blocks of enough rows for several sums.
std::vector<double> results_of_blocks(int threads) {
  constexpr index_t rows = 5000, width = 11;
  const kernel_table<double>& table = isa_here::table<double>;
  const execution how = {threads, nullptr};
  std::vector<double> a = numbers<double>(rows * width), small = numbers<double>(width * width);
  std::vector<double> all(small.size());
  tall_skinny_block<double> block = {a.data(), rows, width, width};
  const tall_skinny_block<const double> block_view = {a.data(), rows, width, width};
  const tall_skinny_block<const double> matrix = {small.data(), width, width, width};
  tall_skinny_times(table, block_view, matrix, block_view, 0.1, block, how);
  tall_skinny_scale(std::vector<double>(rows, 0.5).data(), block_view, block_view, block, how);
  tall_skinny_inner(table, block_view, block_view, small.data(), all.data(), how);
  all.insert(all.end(), a.begin(), a.end());
  std::vector<double> squares(rows);
  row_squares(a.data(), rows, width, small.data(), squares.data(), how);
  all.insert(all.end(), squares.begin(), squares.end());
  for (const double last : {1.0, HUGE_VAL}) {
    a.back() = last;
    all.push_back(all_finite(a.data(), rows * width, how) ? 1 : 0);
  }
  return all;
}

template <class T>
bool same_for_any_number_of_threads() {
  const auto made = [](int threads) {
    std::vector<double> all = results<T>(threads);
    const std::vector<double> more = results_of_blocks(threads);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<double> one = made(1);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (const int threads : {2, 3, 5}) {
      const std::vector<double> several = made(threads);
      if (one.size() != several.size() ||
          std::memcmp(one.data(), several.data(), one.size() * sizeof(double)) != 0) {
        std::fprintf(stderr, "%d threads give other bits than one\n", threads);
        return false;
      }
    }
  }
  return true;
}

}  // namespace

int main() {
  return same_for_any_number_of_threads<float>() && same_for_any_number_of_threads<double>() ? 0 : 1;
}
