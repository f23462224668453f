// A dynamic parallel loop. Threads live for one call: nothing survives to be broken by a fork, and
// starting one costs 10 to 20 us, and up to 1 ms where an idle core has to wake up (virtual machines), so
// `useful_threads` asks for enough work per thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "plain_types.h"

namespace fastmcmd {

// Returns true when the call should be abandoned; called by the calling thread only.
using poll_function = bool (*)();

struct interrupted {};

// How a call is to be run.
struct execution {
  int threads = 1;
  poll_function poll = nullptr;
};

// The unit of work is an operation of a float32 matrix product, of which a core does 150 a nanosecond.
// Other loops are slower by far. They count what they take: one in float64 has half of the lanes, and
// the products that work in it have few columns; loops bound by memory take a time for each number.
constexpr double nanosecond = 150;
template <class T>
constexpr double operation = sizeof(T) == sizeof(float) ? 1.0 : 4.0;

// 1 ms of one core: below, a second thread may cost more than it brings.
#ifdef FASTMCMD_DEBUG
constexpr double operations_per_thread = 1e5;  // several threads for the small problems of tests, too
#else
constexpr double operations_per_thread = 1e6 * nanosecond;
#endif

inline int useful_threads(double operations, index_t tasks, int requested) {
  const double most = std::min(1 + operations / operations_per_thread, static_cast<double>(tasks));
  return static_cast<int>(std::max(1.0, std::min(most, static_cast<double>(requested))));
}

class loop_control {
 public:
  explicit loop_control(poll_function poll) : poll_(poll) {}

  bool stopped() const { return stop_.load(std::memory_order_relaxed); }
  void stop() { stop_.store(true, std::memory_order_relaxed); }

  void fail(std::exception_ptr error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = error;
    stop();
  }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }
  void poll() {
    if (!poll_) return;
    const auto now = clock::now();
    if (now < next_poll_) return;
    next_poll_ = now + interval;
    if (poll_()) throw interrupted{};
  }

  // Waits until ready() or the end of the loop; false in the second case.
  template <class Ready>
  bool wait(Ready ready) const {
    for (int spins = 0; !ready(); ++spins) {
      if (stopped()) return false;
      if (spins > 200) std::this_thread::yield();
    }
    return true;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds interval{50};

  poll_function poll_;
  clock::time_point next_poll_ = clock::now() + interval;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

// Calls work(thread) for `count` threads from `first` on, the first of which is the caller. A thread starts
// others before it works, and these the rest, so the last of many begins after a few starts.
template <class Work>
void run_team(int first, int count, const Work& work) {
  constexpr size_t halvings = 31;  // of an int
  std::array<std::thread, halvings> others;
  size_t started = 0;
  try {
    for (; count > 1; ++started) {
      const int half = count / 2;
      count -= half;
      others[started] = std::thread([&work, start = first + count, half] { run_team(start, half, work); });
    }
  } catch (const std::exception&) {
    // The system gives no more threads: those there are do the work.
  }
  work(first);
  for (size_t i = 0; i < started; ++i) others[i].join();
}

// Calls body(task, thread, control) for every task; tasks are taken in their order, so a task may
// wait for the results of earlier ones. Exceptions end the loop and are thrown in the caller.
template <class Body>
void parallel_for(index_t tasks, const execution& how, const Body& body) {
  loop_control control(how.poll);
  std::atomic<index_t> next{0};
  const auto work = [&](int thread) {
    try {
      while (!control.stopped()) {
        const index_t task = next.fetch_add(1, std::memory_order_relaxed);
        if (task >= tasks) return;
        body(task, thread, control);
        if (thread == 0) control.poll();
      }
    } catch (...) {
      control.fail(std::current_exception());
    }
  };
  run_team(0, std::max(1, how.threads), work);
  control.rethrow();
}

}  // namespace fastmcmd
