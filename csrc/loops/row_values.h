// Blocks of rows, over which loops become vector instructions.
#pragma once

#include "densities.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr index_t block_rows = 32;

// One number of each row of a block.
using row_values = several<block_rows>;

// Returns the n numbers from `start` on, up to a block of them; the first one fills the rest of a block. An index that
// depends on n would be a gather for each number.
inline row_values rows_from(in x, index_t start, index_t n) {
  row_values rows;
  if (n == block_rows) {
    for (index_t k = 0; k < block_rows; ++k) rows.at[k] = x.data[start + k];
  } else {
    for (index_t k = 0; k < block_rows; ++k) rows.at[k] = x.data[start + (k < n ? k : 0)];
  }
  return rows;
}

// Writes the first n numbers of a block.
inline void write_rows(const row_values& rows, out to, index_t start, index_t n) {
  if (n == block_rows) {
    for (index_t k = 0; k < block_rows; ++k) to.data[start + k] = rows.at[k];
  } else {
    for (index_t k = 0; k < n; ++k) to.data[start + k] = rows.at[k];
  }
}

// 1 for the rows of a block for which something holds, else 0. As wide as numbers: to pack what comparisons give into
// bytes, and to unpack it, takes as long as a logarithm.
struct row_marks {
  uint64_t at[block_rows];
};

// Calls work(k) for the rows of a block that are not usual: those beside them keep the results of vectors.
template <class Work>
inline void for_unusual(const row_marks& is_usual, Work work) {
  uint64_t is_all = 1;
  for (index_t k = 0; k < block_rows; ++k) is_all &= is_usual.at[k];
  if (is_all) return;
  for (index_t k = 0; k < block_rows; ++k) {
    if (!is_usual.at[k]) work(k);
  }
}

// Replaces numbers by their logarithms, as log does.
inline void row_logarithms(row_values& x) {
  constexpr double least_normal = 2.3e-308;
  const row_values given = x;
  row_marks is_usual;
  for (index_t k = 0; k < block_rows; ++k) is_usual.at[k] = (x.at[k] >= least_normal) & (x.at[k] < infinity);
  logarithms(x, 1.0, 1.0);
  for_unusual(is_usual, [&](index_t k) { x.at[k] = log(given.at[k]); });
}

// Writes logarithms of ratios of positive numbers, which may leave the range of doubles.
inline void ratio_logarithms(const row_values& a, const row_values& b, row_values& logs) {
  constexpr double least_ratio = 1e-300, most_ratio = 1e300;
  row_marks is_usual;
  for (index_t k = 0; k < block_rows; ++k) {
    logs.at[k] = a.at[k] / b.at[k];
    is_usual.at[k] = (logs.at[k] > least_ratio) & (logs.at[k] < most_ratio);
  }
  row_logarithms(logs);
  for_unusual(is_usual, [&](index_t k) { logs.at[k] = log(a.at[k]) - log(b.at[k]); });
}

// Replaces x > -1 by log(1 + x), whose digits all count where x is small, too: to the logarithm of the rounded sum is
// added what rounding took.
inline void logarithms_of_growth(row_values& x) {
  row_values whole, logs;
  for (index_t k = 0; k < block_rows; ++k) logs.at[k] = whole.at[k] = 1.0 + x.at[k];
  row_logarithms(logs);
  for (index_t k = 0; k < block_rows; ++k) {
    x.at[k] = logs.at[k] + (x.at[k] - (whole.at[k] - 1.0)) / whole.at[k];
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
