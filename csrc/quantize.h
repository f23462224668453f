// Tiles in 16 bits: the values of each row of a tile in 65,535 equal steps, from its least to its largest.
#pragma once

#include "simd.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

struct row_range {
  float least, largest;
};

inline row_range range_of(index_t count, const float* values) {
  constexpr index_t width = lanes<float>;
  row_range range = {values[0], values[0]};
  index_t j = 0;
  if (count >= width) {
    vec<float> low = load(values), high = low;
    for (j = width; j + width <= count; j += width) {
      const vec<float> some = load(values + j);
      low = select_less<float>(some, low, some, low);
      high = select_less<float>(high, some, some, high);
    }
    range = {lane<float>(low, 0), lane<float>(high, 0)};
    for (int i = 1; i < lanes<float>; ++i) {
      const float least = lane<float>(low, i), largest = lane<float>(high, i);
      range.least = least < range.least ? least : range.least;
      range.largest = largest > range.largest ? largest : range.largest;
    }
  }
  for (; j < count; ++j) {
    range.least = values[j] < range.least ? values[j] : range.least;
    range.largest = values[j] > range.largest ? values[j] : range.largest;
  }
  return range;
}

// Fills a tile: codes by rows, and for each row its least value and its step. Rows beyond `rows` become 0.
inline void quantize_tile(index_t rows, index_t cols, const float* values, index_t ld, index_t tile,
                          uint16_t* codes, float* scales) {
  constexpr float steps = 65535, most = 3e38f;
  for (index_t r = 0; r < tile; ++r, values += ld, codes += tile, scales += 2) {
    scales[0] = scales[1] = 0;
    index_t filled = 0;
    if (r < rows) {
      const row_range range = range_of(cols, values);
      const float width = range.largest - range.least;
      const float inverse = steps / width;
      const bool usable = width > 0 && inverse < most;  // neither NaN nor a step that underflows
      const float scale = usable ? inverse : 0;
      scales[0] = range.least;
      scales[1] = usable ? width / steps : 0;
      for (index_t j = 0; j < cols; ++j) {
        const float code = (values[j] - range.least) * scale + 0.5f;
        codes[j] = static_cast<uint16_t>(static_cast<int32_t>(code));
      }
      filled = cols;
    }
    for (index_t j = filled; j < tile; ++j) codes[j] = 0;
  }
}

// The values of whole rows of the tile, up to `cols`.
inline void dequantize_tile(index_t rows, index_t cols, const uint16_t* codes, const float* scales,
                            index_t tile, float* values, index_t ld) {
  for (index_t r = 0; r < rows; ++r, values += ld, codes += tile, scales += 2) {
    const float least = scales[0], step = scales[1];
    for (index_t j = 0; j < cols; ++j) {
      values[j] = least + step * static_cast<float>(static_cast<int32_t>(codes[j]));
    }
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
