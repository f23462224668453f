// Ends of panels of rows whose densities are sums, from the ends of panels of their components.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr double least_panel = 0.05;  // share of a panel below which the rest before a stop is joined to it

// Lowers `to` to the number up to which a panel from x on spans as much of a component as one of the component's own
// panels, between ends (E,) that rise, and `most` to that up to which it spans little more. Equal ends count as one.
// Before the first end and after the last one lies one more panel, as long as its neighbour; beyond, nothing is lowered
// but to the first end: a long panel that held an outermost one, too, would miss its mass.
// `place` holds the last end up to x, and moves on with x.
inline void one_panel_on(in ends, double x, int64_t& place, double& to, double& most) {
  while (place + 1 < ends.n && ends[place + 1] <= x) ++place;
  const bool before = !(ends[0] <= x);
  index_t next = before ? 0 : place + 1;
  if (next >= ends.n || !is_finite(ends[next])) return;
  const double end = ends[next];
  while (next < ends.n && ends[next] == end) ++next;
  const double last_length = !before && is_finite(ends[place]) ? end - ends[place] : 0.0;
  const double length = next < ends.n ? ends[next] - end : last_length;
  if (!is_finite(length)) {
    if (before) to = least(to, end), most = least(most, end);
    return;
  }
  double share = 0.0;
  if (before) {
    share = length > 0.0 ? greatest(0.0, 1.0 - (end - x) / length) : 0.0;
  } else if (is_finite(ends[place])) {
    share = (x - ends[place]) / last_length;
  }
  to = least(to, end + share * length);
  most = least(most, end + least(share + least_panel, 1.0) * length);
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
