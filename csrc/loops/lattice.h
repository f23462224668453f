// Weighted sums of Gaussian bumps on tiles of a lattice in one or two dimensions.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr index_t lattice_tile = 32;  // nodes of a tile along a dimension
constexpr index_t lattice_reach = 14;  // nodes of a bump on either side of the nearest

// Part of a bump within a tile: `values` are zero outside the nodes from `first` to before `last`.
struct tile_bump {
  double values[lattice_tile];
  index_t first, last;

  // Sets node j to exp(-(u - origin - j)^2 / 8) within the reach of u; `decay` holds exp(-j^2 / 8) from -reach to reach.
  // It proceeds outwards by a constant ratio: two exponentials for each bump. Returns whether any node is in the tile.
  bool set(double u, double origin, in decay) {
    constexpr double reach = static_cast<double>(lattice_reach);
    const double nearest = floor(u + 0.5), place = nearest - origin;
    if (!(place + reach >= 0.0 && place - reach <= static_cast<double>(lattice_tile - 1))) return false;
    const double gap = u - nearest;
    const double value = exp(-0.125 * gap * gap), ratio = exp(0.25 * gap), inverse = 1.0 / ratio;
    double bump[2 * lattice_reach + 1], up = value, down = value;
    bump[lattice_reach] = value;
    for (index_t j = 1; j <= lattice_reach; ++j) {
      up *= ratio;
      down *= inverse;
      bump[lattice_reach + j] = up;
      bump[lattice_reach - j] = down;
    }
    for (index_t j = 0; j <= 2 * lattice_reach; ++j) bump[j] *= decay[j];
    const index_t start = static_cast<index_t>(place) - lattice_reach;
    first = greatest(start, index_t(0));
    last = least(start + 2 * lattice_reach + 1, lattice_tile);
    for (index_t j = 0; j < lattice_tile; ++j) values[j] = 0.0;
    for (index_t j = first; j < last; ++j) values[j] = bump[j - start];
    return true;
  }
};

// Adds, for each of some rows, the bumps around its places (m, 1 or 2), times their shares, to a tile of `sums`
// (rows, 1 or tile, tile). The entries of row i are from starts[i] to before starts[i + 1].
inline void lattice_sums(ins places, in share, vec<const int64_t> starts, vec<const int64_t> rows, in origin, in decay,
                         cube<double> sums) {
  tile_bump one, other;
  const bool two = places.m == 2;
  if (!two) {
    one.values[0] = 1.0;
    one.first = 0;
    one.last = 1;
  }
  for (index_t i = 0; i < rows.n; ++i) {
    double* tile = sums[i].data;
    for (int64_t entry = starts[rows[i]]; entry < starts[rows[i] + 1]; ++entry) {
      const double* at = places[entry];
      if (two && !one.set(at[0], origin[0], decay)) continue;
      if (!other.set(at[two ? 1 : 0], origin[two ? 1 : 0], decay)) continue;
      for (index_t j = one.first; j < one.last; ++j) {
        const double factor = share[entry] * one.values[j];
        double* to = tile + j * lattice_tile;
        for (index_t k = 0; k < lattice_tile; ++k) to[k] += factor * other.values[k];
      }
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
