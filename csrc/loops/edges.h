// Ends of panels of rows whose densities are sums, from the ends of panels of their components.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr double least_panel = 0.05;  // share of a panel below which the rest before a stop is joined to it

// Lowers `to` to the number up to which a panel from x on spans as much of a component as one of the component's own
// panels, between ends (E,) that rise, and `most` to that up to which it spans little more. Equal ends count as one.
// `place` holds the last end up to x, and moves on with x.
inline void one_panel_on(in ends, double x, int64_t& place, double& to, double& most) {
  while (place + 1 < ends.n && ends[place + 1] <= x) ++place;
  double share = 0.0;
  index_t next = place + 1;
  if (!(ends[0] <= x)) {
    next = 0, share = 1.0;  // up to the second end
  } else if (next < ends.n && is_finite(ends[place])) {
    share = (x - ends[place]) / (ends[next] - ends[place]);
  }
  if (next >= ends.n) return;
  const double end = ends[next];
  while (next < ends.n && ends[next] == end) ++next;
  if (next >= ends.n || !is_finite(ends[next])) return;
  to = least(to, end + share * (ends[next] - end));
  most = least(most, end + least(share + least_panel, 1.0) * (ends[next] - end));
}

// Writes ends of panels (n, E) from `first` to `last` (n,), which rise; the last one is repeated. No panel spans more of
// a component than 1.05 of the component's own panels, whose ends are the columns starts[c] to starts[c + 1] of `edges`.
// Stops (n, k) between first and last are ends, too. NaN where an edge is NaN, or the first or last end not finite. E is
// the number of columns of edges and stops, and 2 more: every panel ends at a stop or takes one panel of a component.
// `places` (c,) is scratch memory.
inline void join_edges(ins edges, vec<const int64_t> starts, ins stops, in first, in last, vec<int64_t> places,
                       outs ends) {
  const index_t parts = starts.n - 1;
  for (index_t i = 0; i < ends.n; ++i) {
    double* out = ends[i];
    bool valid = is_finite(first[i]) && is_finite(last[i]);
    for (index_t e = 0; e < edges.m; ++e) valid &= !is_nan(edges[i][e]);
    if (!valid) {
      for (index_t e = 0; e < ends.m; ++e) out[e] = not_a_number();
      continue;
    }
    for (index_t c = 0; c < parts; ++c) places[c] = 0;
    index_t count = 0;
    double x = first[i];
    out[count++] = x;
    while (x < last[i]) {
      double stop = last[i];
      for (index_t k = 0; k < stops.m; ++k) {
        if (stops[i][k] > x && stops[i][k] < stop) stop = stops[i][k];
      }
      while (x < stop) {
        double to = infinity, most = infinity;
        for (index_t c = 0; c < parts; ++c) {
          const in part = {edges[i] + starts[c], starts[c + 1] - starts[c]};
          one_panel_on(part, x, places[c], to, most);
        }
        const bool ends_here = stop <= most || !(to > x) || count + stops.m + 2 > ends.m;
        x = ends_here ? stop : to;
        out[count++] = x;
      }
    }
    while (count < ends.m) out[count++] = x;
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
