// Loops over the bits of numbers: hashes of rows (equal rows have equal hashes), and finite values.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "products.h"

namespace fastmcmd {

// The bits of a number, with -0.0 replaced by 0.0.
inline uint64_t bits_of(float value) {
  const float clean = value + 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &clean, sizeof bits);
  return bits;
}
inline uint64_t bits_of(double value) {
  const double clean = value + 0.0;
  uint64_t bits;
  std::memcpy(&bits, &clean, sizeof bits);
  return bits;
}

// out (n) = hashes of the first d coordinates of rows that lie ld apart; factors (d) are odd. One
// coordinate is its own hash.
template <class T>
void row_hashes(const T* x, index_t n, index_t d, index_t ld, const uint64_t* factors,
                uint64_t* out, const execution& how) {
  constexpr index_t together = 4096;  // rows
  const execution run = with_threads(how, nanosecond * area(n, d), divide_up(n, together));
  parallel_for(divide_up(n, together), run, [&](index_t task, int, const loop_control&) {
    const block_range rows(task, together, n);
    for (index_t i = rows.start; i < rows.start + rows.count; ++i) {
      const T* row = x + i * ld;
      if (d == 1) {
        out[i] = bits_of(row[0]);
        continue;
      }
      uint64_t sum = 0;
      for (index_t c = 0; c < d; ++c) {
        uint64_t bits = bits_of(row[c]);
        bits ^= bits >> 15;  // low mantissa bits of round numbers are zero: spread them
        bits *= factors[c];
        bits ^= bits >> 29;
        sum += bits * factors[d - 1 - c];
      }
      out[i] = sum;
    }
  });
}

// Whether all n numbers are finite: the difference of such a number and itself is 0, of another one NaN.
template <class T>
bool all_finite(const T* x, index_t n, const execution& how) {
  constexpr index_t together = 1024, task_size = 32 * together;
  const index_t tasks = divide_up(n, task_size);
  const execution run = with_threads(how, 0.25 * nanosecond * static_cast<double>(n), tasks);
  std::atomic<bool> finite{true};
  parallel_for(tasks, run, [&](index_t task, int, loop_control& control) {
    const block_range numbers(task, task_size, n);
    const index_t end = numbers.start + numbers.count;
    for (index_t start = numbers.start; start < end; start += together) {
      const index_t stop = std::min(end, start + together);
      constexpr index_t lanes = 16;
      T differences[lanes] = {};
      index_t i = start;
      for (; i + lanes <= stop; i += lanes) {
        for (index_t k = 0; k < lanes; ++k) differences[k] += x[i + k] - x[i + k];
      }
      for (; i < stop; ++i) differences[0] += x[i] - x[i];
      T sum = 0;
      for (const T one : differences) sum += one;
      if (sum == 0) continue;
      finite = false;
      return control.stop();
    }
  });
  return finite;
}

}  // namespace fastmcmd
