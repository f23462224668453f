// Memory of numbers of rows, which later arrays of the same size use again.
//
// Parameters are copied, so that a prediction never changes. An array of 100,000 numbers fills 200 pages,
// whose first touch takes longer than a light formula of these numbers; `malloc` gives such arrays back to
// the system soon. Some blocks wait here instead. All functions are called with the GIL held.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <mutex>
#include <vector>

#include "buffer.h"
#include "plain_types.h"

namespace fastmcmd {

namespace py = pybind11;

class row_memory {
 public:
  // Bytes of the smallest and the largest block that waits: the system gives larger ones large pages.
  static constexpr size_t least = size_t(1) << 17, most = size_t(1) << 22;
  // Bytes of all blocks that wait, at most.
  static constexpr size_t capacity = size_t(1) << 24;

  // The only one. It is never destroyed: arrays may outlive all that is.
  static row_memory& instance() {
    static row_memory* const memory = new row_memory;
    return *memory;
  }

  // An array of n numbers, whose values are arbitrary.
  py::array_t<double> array(index_t n) {
    const size_t bytes = static_cast<size_t>(n) * sizeof(double);
    if (bytes < least || bytes > most) return py::array_t<double>(n);
    auto* const piece = new block{take(bytes), bytes};
    const py::capsule owner(piece, [](void* pointer) {
      const auto* const left = static_cast<block*>(pointer);
      instance().give(*left);
      delete left;
    });
    return py::array_t<double>(n, static_cast<const double*>(piece->data), owner);
  }

 private:
  struct block {
    void* data;
    size_t bytes;
  };

  void* take(size_t bytes) {
    const std::lock_guard<std::mutex> guard(lock_);
    for (size_t k = waiting_.size(); k-- > 0;) {  // the last one may still be in a cache
      if (waiting_[k].bytes != bytes) continue;
      void* const data = waiting_[k].data;
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(k));
      total_ -= bytes;
      return data;
    }
    return ::operator new(bytes, cache_line);
  }

  void give(const block& left) {
    const std::lock_guard<std::mutex> guard(lock_);
    waiting_.push_back(left);
    total_ += left.bytes;
    size_t oldest = 0;
    for (; total_ > capacity; ++oldest) {
      total_ -= waiting_[oldest].bytes;
      ::operator delete(waiting_[oldest].data, cache_line);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(oldest));
  }

  std::mutex lock_;
  std::vector<block> waiting_;
  size_t total_ = 0;
};

}  // namespace fastmcmd
