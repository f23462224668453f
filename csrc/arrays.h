// Checked views of NumPy arrays: a wrong pointer would crash, so dtype, layout and shape are looked
// at once more here, shortly; the messages for people are written in Python.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <initializer_list>
#include <string>

#include "error.h"
#include "plain_types.h"

namespace fastmcmd {

namespace py = pybind11;

constexpr index_t any_size = -1;

template <class T>
void check_array(const py::array& a, const char* name, std::initializer_list<index_t> shape) {
  const std::string label(name);
  FASTMCMD_CHECK(py::isinstance<py::array_t<T>>(a), label + " has the wrong dtype");
  FASTMCMD_CHECK(a.flags() & py::array::c_style, label + " must be C-contiguous");
  FASTMCMD_CHECK(reinterpret_cast<uintptr_t>(a.data()) % alignof(T) == 0,
                 label + " must be aligned");
  bool fits = a.ndim() == static_cast<index_t>(shape.size());
  index_t axis = 0;
  for (const index_t size : shape) {
    fits = fits && (size == any_size || a.shape(axis) == size);
    ++axis;
  }
  FASTMCMD_CHECK(fits, label + " has the wrong shape");
}

template <class T>
const T* read(const py::array& a, const char* name, std::initializer_list<index_t> shape) {
  check_array<T>(a, name, shape);
  return static_cast<const T*>(a.data());
}

template <class T>
T* write(py::array& a, const char* name, std::initializer_list<index_t> shape) {
  check_array<T>(a, name, shape);
  FASTMCMD_CHECK(a.writeable(), std::string(name) + " must be writeable");
  return static_cast<T*>(a.mutable_data());
}

// The distance of rows, in elements, of a matrix (n, k) whose rows alone need be contiguous: columns of
// a wider one.
template <class T>
index_t row_distance(const py::array& a, const char* name, index_t n, index_t k) {
  const std::string label(name);
  FASTMCMD_CHECK(py::isinstance<py::array_t<T>>(a), label + " has the wrong dtype");
  FASTMCMD_CHECK(a.ndim() == 2 && a.shape(0) == n && a.shape(1) == k, label + " has the wrong shape");
  FASTMCMD_CHECK(reinterpret_cast<uintptr_t>(a.data()) % alignof(T) == 0,
                 label + " must be aligned");
  const index_t size = static_cast<index_t>(sizeof(T)), row = a.strides(0), column = a.strides(1);
  FASTMCMD_CHECK((k <= 1 || column == size) && (n <= 1 || (row >= k * size && row % size == 0)),
                 label + " must have contiguous rows");
  return n <= 1 ? k : row / size;
}

inline index_t length(const py::array& a, const char* name, index_t axis) {
  FASTMCMD_CHECK(axis < a.ndim(), std::string(name) + " has too few dimensions");
  return a.shape(axis);
}

// The number of right-hand sides, at least one: the products are not made for none.
inline index_t columns(const py::array& a, const char* name) {
  const index_t count = length(a, name, 1);
  FASTMCMD_CHECK(count >= 1, std::string(name) + " must have at least one column");
  return count;
}

// The tile size of packed tiles for n points; of some of them if they may be `partial`.
inline index_t packed_tile(const py::array& tiles, index_t n, bool partial = false) {
  const index_t tile = length(tiles, "tiles", 1);
  FASTMCMD_CHECK(tile > 0 && tile % tile_unit == 0, "the tile size must be a multiple of 32");
  FASTMCMD_CHECK(n >= 1, "n must be at least 1");
  const index_t blocks = (n + tile - 1) / tile, count = blocks * (blocks + 1) / 2;
  FASTMCMD_CHECK(tiles.ndim() == 3 && tiles.shape(2) == tile &&
                     (partial ? tiles.shape(0) <= count : tiles.shape(0) == count),
                 "tiles has the wrong shape");
  return tile;
}

}  // namespace fastmcmd
