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

// Replaces numbers by their logarithms, as log does.
inline void row_logarithms(row_values& x) {
  double low = x.at[0], high = x.at[0];
  for (index_t k = 1; k < block_rows; ++k) {
    low = least(low, x.at[k]);
    high = greatest(high, x.at[k]);
  }
  bool is_missing = false;
  for (index_t k = 0; k < block_rows; ++k) is_missing |= is_nan(x.at[k]);
  logarithms(x, is_missing ? 0.0 : low, high);
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
