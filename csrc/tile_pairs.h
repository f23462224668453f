// Loops over pairs of blocks whose results are added in an order that no thread count changes.
#pragma once

#include <atomic>
#include <vector>

#include "buffer.h"
#include "parallel.h"

namespace fastmcmd {

// A counter per row block: whose turn it is to add to its rows.
class turns {
 public:
  explicit turns(index_t blocks) : count_(static_cast<size_t>(blocks)) {}

  bool wait(index_t block, index_t turn, const loop_control& control) const {
    const std::atomic<index_t>& count = count_[static_cast<size_t>(block)];
    return control.wait([&] { return count.load(std::memory_order_acquire) == turn; });
  }
  void pass(index_t block, index_t turn) {
    count_[static_cast<size_t>(block)].store(turn + 1, std::memory_order_release);
  }

 private:
  std::vector<std::atomic<index_t>> count_;
};

// Every pair of blocks once, diagonal included, as a round-robin tournament: with m odd, round q
// holds the pairs {q + s, q - s} mod m, so each block plays exactly once per round and its turn is
// the number of the round. (An even count gets one more block, whose pairs are empty.) A thread
// takes tasks in this order, computes at once and waits only to commit; the earliest unfinished
// task never waits, so there is no deadlock. A round starts far from the blocks at which the last
// one ended (near q + m / 2), so waits are rare.
//
// compute(i, j, thread) and commit(i, j, thread) are called with i >= j.
template <class Compute, class Commit>
void for_each_pair(index_t blocks, const execution& how, const Compute& compute,
                   const Commit& commit) {
  const index_t m = blocks | 1;
  const index_t per_round = (m + 1) / 2;
  turns order(m);
  parallel_for(m * per_round, how, [&](index_t task, int thread, const loop_control& control) {
    const index_t round = task / per_round;
    const index_t step = task % per_round;
    const index_t a = (round + step) % m;
    const index_t b = (round - step + m) % m;
    const index_t i = a > b ? a : b;
    const index_t j = a > b ? b : a;
    if (i < blocks) compute(i, j, thread);
    if (!order.wait(i, round, control) || !order.wait(j, round, control)) return;
    if (i < blocks) commit(i, j, thread);
    order.pass(i, round);
    order.pass(j, round);
  });
}

// Every pair of a row block and a column block; each row block is committed in column order.
template <class Compute, class Commit>
void for_each_product(index_t row_blocks, index_t col_blocks, const execution& how,
                      const Compute& compute, const Commit& commit) {
  turns order(row_blocks);
  parallel_for(row_blocks * col_blocks, how,
               [&](index_t task, int thread, const loop_control& control) {
                 const index_t i = task % row_blocks;
                 const index_t j = task / row_blocks;
                 compute(i, j, thread);
                 if (!order.wait(i, j, control)) return;
                 commit(i, j, thread);
                 order.pass(i, j);
               });
}

inline index_t pair_count(index_t blocks) { return blocks * (blocks + 1) / 2; }
inline index_t pair_index(index_t i, index_t j) { return i * (i + 1) / 2 + j; }

}  // namespace fastmcmd
