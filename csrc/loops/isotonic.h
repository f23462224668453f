// Isotonic regression.
#pragma once

#include "views.h"

#ifdef _MSC_VER
#include <intrin.h>
#endif

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Replaces each row by its non-decreasing least-squares fit with positive weights, by pooling adjacent
// violators: blocks of equal fit form a stack, whose means lie at the front of the row.
inline void isotonic_rows(outs values, in weights, vec<int64_t> ends, out masses) {
  for (index_t i = 0; i < values.n; ++i) {
    double* row = values[i];
    index_t count = 0;
    for (index_t j = 0; j < values.m; ++j) {
      double mean = row[j], mass = weights[j];
      for (; count > 0 && row[count - 1] >= mean; --count) {
        const double both = masses[count - 1] + mass;
        mean = (masses[count - 1] * row[count - 1] + mass * mean) / both;
        mass = both;
      }
      row[count] = mean;
      masses[count] = mass;
      ends[count++] = j + 1;
    }
    // From the last block: block b begins at place b or later, so that no mean is overwritten before its use.
    index_t place = values.m;
    while (count-- > 0) {
      const double mean = row[count];
      const index_t start = count > 0 ? ends[count - 1] : 0;
      while (place > start) row[--place] = mean;
    }
  }
}

// Returns how many bits are set.
inline int set_bits(uint64_t word) {
#ifdef _MSC_VER
  return static_cast<int>(__popcnt64(word));
#else
  return __builtin_popcountll(word);
#endif
}

// Returns the place of the lowest bit that is set; there is one.
inline int lowest_bit(uint64_t word) {
#ifdef _MSC_VER
  unsigned long place;
  _BitScanForward64(&place, word);
  return static_cast<int>(place);
#else
  return __builtin_ctzll(word);
#endif
}

// Orders the events, 0 or 1, of each range of rows so that those that happened come first.
inline void events_first(vec<uint8_t> events, vec<const int64_t> starts, vec<const int64_t> counts) {
  for (index_t g = 0; g < starts.n; ++g) {
    uint8_t* range = events.data + starts[g];
    index_t happened = 0;
    for (index_t i = 0; i < counts[g]; ++i) happened += range[i];
    for (index_t i = 0; i < counts[g]; ++i) range[i] = i < happened;
  }
}

// Writes the isotonic regression of n events of equal weight, given as bits, at ascending places: the slopes of
// the greatest convex minorant of their running sums. A knot can only lie where an event follows a row without
// one. Knots form a stack of rows and sums.
inline void isotonic_bits(vec<const uint64_t> bits, index_t n, vec<const int64_t> places,
                          vec<int64_t> rows, vec<int64_t> sums, out fits) {
  index_t top = 0;
  rows[0] = sums[0] = 0;
  const auto add = [&](int64_t row, int64_t sum) {
    while (top > 0 && (sums[top] - sums[top - 1]) * (row - rows[top]) >=
                          (sum - sums[top]) * (rows[top] - rows[top - 1]))
      --top;
    ++top;
    rows[top] = row;
    sums[top] = sum;
  };
  int64_t before = 0;
  for (index_t w = 0; w < bits.n; ++w) {
    const uint64_t word = bits[w], next = w + 1 < bits.n ? bits[w + 1] : 0;
    for (uint64_t last = ~word & (word >> 1 | next << 63); last != 0; last &= last - 1) {
      const int bit = lowest_bit(last);
      const uint64_t below = (uint64_t(1) << bit) - 1;  // the bit itself is 0
      add(64 * w + bit + 1, before + set_bits(word & below));
    }
    before += set_bits(word);
  }
  add(n, before);
  index_t block = 1;
  for (index_t i = 0; i < places.n; ++i) {
    while (rows[block] <= places[i]) ++block;
    fits[i] = double(sums[block] - sums[block - 1]) / double(rows[block] - rows[block - 1]);
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
