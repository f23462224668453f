// Uninitialised memory on cache lines.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "plain_types.h"

namespace fastmcmd {

constexpr std::align_val_t cache_line{64};

// Asks for large pages where a buffer fills some: the system hands them out 512 times less often. As numpy
// does for its arrays; a system without them ignores it.
inline void use_large_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr size_t least = size_t(1) << 22, page = 4096;
  if (bytes < least) return;
  const size_t before = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
  madvise(static_cast<char*>(data) + before, bytes - before, MADV_HUGEPAGE);
#endif
}

template <class T>
class aligned_buffer {
 public:
  aligned_buffer() = default;
  explicit aligned_buffer(index_t size)
      : data_(static_cast<T*>(::operator new(static_cast<size_t>(size) * sizeof(T), cache_line))),
        size_(size) {
    use_large_pages(data_.get(), static_cast<size_t>(size) * sizeof(T));
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  index_t size() const { return size_; }
  void zero() {
    std::memset(static_cast<void*>(data()), 0, static_cast<size_t>(size_) * sizeof(T));
  }

 private:
  struct release {
    void operator()(T* p) const { ::operator delete(p, cache_line); }
  };
  std::unique_ptr<T, release> data_;
  index_t size_ = 0;
};

inline index_t divide_up(index_t n, index_t by) { return (n + by - 1) / by; }
inline index_t round_up(index_t n, index_t to) { return divide_up(n, to) * to; }

}  // namespace fastmcmd
