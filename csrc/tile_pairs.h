// Loops over pairs of blocks whose results are added in an order that no thread count changes.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "buffer.h"
#include "error.h"
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
  // Once a turn: a second time would take back what another thread has passed on meanwhile.
  void pass(index_t block, index_t turn) {
    FASTMCMD_ASSERT(count_[static_cast<size_t>(block)].load(std::memory_order_relaxed) == turn);
    count_[static_cast<size_t>(block)].store(turn + 1, std::memory_order_release);
  }

 private:
  std::vector<std::atomic<index_t>> count_;
};

inline index_t pair_count(index_t blocks) { return blocks * (blocks + 1) / 2; }
inline index_t pair_index(index_t i, index_t j) { return i * (i + 1) / 2 + j; }

// Every pair of blocks once, diagonal included, as a round-robin tournament: with m odd, round q
// holds the pairs {q + s, q - s} mod m, so each block plays exactly once per round and its turn is
// the number of the round. (An even count gets one more block, whose pairs are empty.) A round
// starts far from the blocks at which the last one ended (near q + m / 2).
class tournament {
 public:
  struct meeting {
    index_t i, j, round;  // i >= j
  };

  explicit tournament(index_t blocks)
      : players_(blocks | 1), per_round_((players_ + 1) / 2) {}

  index_t players() const { return players_; }
  index_t tasks() const { return players_ * per_round_; }
  meeting at(index_t task) const {
    const index_t round = task / per_round_, step = task % per_round_;
    const index_t a = (round + step) % players_, b = (round - step + players_) % players_;
    return {std::max(a, b), std::min(a, b), round};
  }

 private:
  index_t players_, per_round_;
};

// A thread takes tasks in the order of the tournament, computes at once and waits only to commit;
// the earliest unfinished task never waits, so there is no deadlock, and waits are rare.
//
// compute(i, j, thread, soon) and commit(i, j, thread) are called with i >= j; `soon` is the index
// of a pair that this thread will probably take next.
template <class Compute, class Commit>
void for_each_pair(index_t blocks, const execution& how, const Compute& compute,
                   const Commit& commit) {
  const tournament games(blocks);
  turns order(games.players());
  parallel_for(games.tasks(), how, [&](index_t task, int thread, const loop_control& control) {
    const auto [i, j, round] = games.at(task);
    const bool there = i < blocks;
    if (there) {
      const auto next = games.at(std::min(task + how.threads, games.tasks() - 1));
      compute(i, j, thread, next.i < blocks ? pair_index(next.i, next.j) : pair_index(i, j));
    }
    if (!order.wait(i, round, control) || !order.wait(j, round, control)) return;
    if (there) commit(i, j, thread);
    order.pass(i, round);
    if (j != i) order.pass(j, round);
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

}  // namespace fastmcmd
