// Counts of pairs of rows that agree in two orders.
#pragma once

#include "views.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

// Rows come in one order, and have ranks 0 <= rank < tree.n - 1 in the other. Writes, for each row i, the number of
// the first `until[i]` rows of greater rank twice, plus the number of those of equal rank once. `until` does not
// decrease. The tree (Fenwick 1994) and `equal` hold the counts of ranks, and begin with zeros.
inline void count_pairs(vec<const int64_t> rank, vec<const int64_t> until, vec<int64_t> tree, vec<int64_t> equal,
                        vec<int64_t> counts) {
  index_t inserted = 0;
  for (index_t i = 0; i < rank.n; ++i) {
    for (; inserted < until[i]; ++inserted) {
      const int64_t r = rank[inserted];
      ++equal[r];
      for (int64_t node = r + 1; node < tree.n; node += node & -node) ++tree[node];
    }
    int64_t below_or_equal = 0;
    for (int64_t node = rank[i] + 1; node > 0; node -= node & -node) below_or_equal += tree[node];
    counts[i] = 2 * (inserted - below_or_equal) + equal[rank[i]];
  }
}

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
