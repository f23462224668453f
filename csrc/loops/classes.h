// Loops over rows of probabilities of classes. They trust their arguments: labels below the number of classes. A
// loop that also checks returns the first row that does not hold probabilities, or -1. An empty array means no
// labels or no weights.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// Sums, least and largest value of a row in eight lanes, because additions to a single sum wait for each other.
template <class T>
struct row_range {
  static constexpr index_t lanes = 8;
  T low, high;
  double total;

  explicit row_range(vec<const T> row) {
    T least_of[lanes], most_of[lanes];
    double sum[lanes] = {};
    for (index_t l = 0; l < lanes; ++l) least_of[l] = most_of[l] = row[0];
    const index_t even = row.n - row.n % lanes;
    for (index_t j = 0; j < even; j += lanes) {
      for (index_t l = 0; l < lanes; ++l) {
        const T x = row[j + l];
        sum[l] += static_cast<double>(x);
        least_of[l] = x < least_of[l] ? x : least_of[l];
        most_of[l] = x > most_of[l] ? x : most_of[l];
      }
    }
    for (index_t j = even; j < row.n; ++j) {
      const T x = row[j];
      sum[j - even] += static_cast<double>(x);
      least_of[0] = least(least_of[0], x);
      most_of[0] = greatest(most_of[0], x);
    }
    low = least_of[0];
    high = most_of[0];
    for (index_t l = 1; l < lanes; ++l) {
      low = least(low, least_of[l]);
      high = greatest(high, most_of[l]);
    }
    total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  }

  // A NaN makes the total NaN.
  bool holds_probabilities(double tolerance) const {
    return low >= 0 && high <= 1 && fabs(total - 1.0) <= tolerance;
  }
};

template <class T>
index_t check_rows(mat<const T> p, double tolerance) {
  for (index_t i = 0; i < p.n; ++i) {
    if (!row_range<T>(p.row(i)).holds_probabilities(tolerance)) return i;
  }
  return -1;
}

// Rows that are read side by side, a class at a time: one vector instruction serves several rows of few classes.
constexpr index_t row_lanes = 8;

// Writes the first most probable class and its probability for `row_lanes` rows from row i on, which are
// added up in the order of `row_range`. Returns false if any of them does not hold probabilities.
template <class T>
bool top_classes_in_lanes(mat<const T> p, index_t i, double tolerance, int32_t* predicted, T* confidence) {
  constexpr index_t lanes = row_range<T>::lanes, rows = row_lanes;
  const T* row[rows];
  T low[rows], high[rows];
  int32_t first[rows] = {};
  double sum[lanes][rows] = {};
  for (index_t r = 0; r < rows; ++r) {
    row[r] = p[i + r];
    low[r] = high[r] = row[r][0];
  }
  for (index_t j = 0; j < p.m; ++j) {
    double* to = sum[j % lanes];
    const int32_t here = static_cast<int32_t>(j);
    for (index_t r = 0; r < rows; ++r) {
      const T x = row[r][j];
      to[r] += static_cast<double>(x);
      low[r] = x < low[r] ? x : low[r];
      first[r] = x > high[r] ? here : first[r];
      high[r] = x > high[r] ? x : high[r];
    }
  }
  bool valid = true;
  for (index_t r = 0; r < rows; ++r) {
    const double total = ((sum[0][r] + sum[1][r]) + (sum[2][r] + sum[3][r])) +
                         ((sum[4][r] + sum[5][r]) + (sum[6][r] + sum[7][r]));
    valid &= (low[r] >= 0) & (high[r] <= 1) & (fabs(total - 1.0) <= tolerance);
    predicted[r] = first[r];
    confidence[r] = high[r];
  }
  return valid;
}

template <class T>
index_t summarize_rows(mat<const T> p, vec<const int64_t> labels, double tolerance,
                       vec<int32_t> predicted, vec<T> confidence, vec<T> chosen, out squares,
                       vec<int32_t> above, vec<int32_t> before, vec<int32_t> after) {
  constexpr index_t lanes = 8;
  const index_t classes = p.m, even = classes - classes % lanes;
  const bool narrow = classes <= 2 * lanes;  // a wrong guess of a branch costs as much as the row
  index_t filled = 0;  // rows whose most probable class is known
  for (index_t i = 0; i < p.n; ++i) {
    const T* row = p[i];
    if (i == filled && narrow && i + row_lanes <= p.n &&
        top_classes_in_lanes<T>(p, i, tolerance, &predicted[i], &confidence[i])) {
      filled = i + row_lanes;
      if (labels.n == 0) i = filled - 1;
    }
    if (i >= filled) {  // also finds the first bad row among rows side by side
      const row_range<T> range(p.row(i));
      if (!range.holds_probabilities(tolerance)) return i;
      index_t first = 0;
      while (row[first] != range.high) ++first;
      predicted[i] = static_cast<int32_t>(first);
      confidence[i] = range.high;
      filled = i + 1;
    }
    if (labels.n == 0) continue;
    const index_t label = labels[i];
    const T own = row[label];
    int32_t greater = 0, equal = 0, equal_before = 0;
    double sum[lanes] = {};
    for (index_t j = 0; j < classes; ++j) greater += row[j] > own;
    for (index_t j = 0; j < classes; ++j) equal += row[j] == own;
    if (equal > 1) {
      for (index_t j = 0; j < label; ++j) equal_before += row[j] == own;
    }
    // The square of the label's probability is left out, not subtracted: the difference would cancel.
    const index_t home = label / lanes * lanes;
    for (index_t j = 0; j < even; j += lanes) {
      if (narrow || j == home) {
        for (index_t l = 0; l < lanes; ++l) {
          const double x = j + l == label ? 0.0 : static_cast<double>(row[j + l]);
          sum[l] += x * x;
        }
      } else {
        for (index_t l = 0; l < lanes; ++l) {
          const double x = static_cast<double>(row[j + l]);
          sum[l] += x * x;
        }
      }
    }
    for (index_t j = even; j < classes; ++j) {
      const double x = j == label ? 0.0 : static_cast<double>(row[j]);
      sum[j - even] += x * x;
    }
    chosen[i] = own;
    squares[i] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    above[i] = greater;
    before[i] = equal_before;
    after[i] = equal - 1 - equal_before;
  }
  return -1;
}

// `summarize_rows` of two classes, from the probabilities p of class 1; the other has 1 - p. Without branches, so that
// labels that nobody can guess cost no more than others.
inline index_t summarize_pairs(in p, vec<const int64_t> labels, vec<int32_t> predicted, out confidence, out chosen,
                               out squares, vec<int32_t> above, vec<int32_t> before, vec<int32_t> after) {
  bool valid = true;
  for (index_t i = 0; i < p.n; ++i) valid &= (p[i] >= 0.0) & (p[i] <= 1.0);
  if (!valid) {
    index_t i = 0;
    while (p[i] >= 0.0 && p[i] <= 1.0) ++i;
    return i;
  }
  for (index_t i = 0; i < p.n; ++i) {
    const double rest = 1.0 - p[i];
    predicted[i] = p[i] > rest;
    confidence[i] = greatest(rest, p[i]);
  }
  for (index_t i = 0; i < labels.n; ++i) {
    const double rest = 1.0 - p[i];
    const double own = labels[i] ? p[i] : rest, other = labels[i] ? rest : p[i];
    const int32_t tied = other == own, second = labels[i] != 0;
    chosen[i] = own;
    squares[i] = other * other;
    above[i] = other > own;
    before[i] = tied & second;
    after[i] = tied & (1 - second);
  }
  return -1;
}

// sum_k (F_k - 1{label <= k})^2 over all classes but the last.
template <class T>
void cumulative_squares(mat<const T> p, vec<const int64_t> labels, out scores) {
  for (index_t i = 0; i < p.n; ++i) {
    const T* row = p[i];
    const index_t label = labels[i];
    double below = 0.0, beyond = 0.0, total = 0.0;
    for (index_t j = 0; j < label; ++j) {
      below += static_cast<double>(row[j]);
      total += below * below;
    }
    // From the other end, where 1 - F_k is small, to avoid cancellation.
    for (index_t j = p.m - 1; j > label; --j) {
      beyond += static_cast<double>(row[j]);
      total += beyond * beyond;
    }
    scores[i] = total;
  }
}

template <class T>
struct rounding {
  static constexpr double unit = sizeof(T) == 4 ? 1.1920928955078125e-07 : 2.220446049250313e-16;
};

// The bins of up to `most` values. Edges (bins + 1, k) have one column per value, or one for all, in the type of
// the values. If bins are even, edges are not read but computed as b * (1 / bins), as in numpy.linspace, and
// rounded to that type.
template <class T>
struct bin_places {
  mat<const T> edges;
  bool even, right;

  // Fills the bin of each value, and returns whether all values lie in [0, 1].
  bool fill(const T* values, index_t n, int32_t* index) const {
    const index_t bins = edges.n - 1;
    int32_t outside = 0;
    for (index_t i = 0; i < n; ++i) outside |= !(values[i] >= T(0)) | !(values[i] <= T(1));
    if (even) {
      // Products and edges are rounded, so only values this close to an edge can be one bin off.
      const double margin = 4.0 * static_cast<double>(bins) * rounding<T>::unit;
      const double width = static_cast<double>(bins);
      int32_t doubtful = 0;
      for (index_t i = 0; i < n; ++i) {
        const double place = static_cast<double>(values[i]) * width, down = floor(place);
        doubtful |= (place - down < margin) | (place - down > 1.0 - margin);
        // Values outside are refused later; here they must only be safe to convert.
        const double held = down >= 0.0 && down <= width ? down : 0.0;
        index[i] = static_cast<int32_t>(held);
      }
      if (doubtful) settle(values, n, index);
      return !outside;
    }
    const bool shared = edges.m == 1;
    for (index_t i = 0; i < n; ++i) index[i] = 0;
    if (bins >= search_bins) {
      search(values, n, index);
      return !outside;
    }
    for (index_t b = 1; b < bins; ++b) {  // vectorised over values
      const T* edge = edges[b];
      if (shared) {
        const T cut = edge[0];
        if (right) {
          for (index_t i = 0; i < n; ++i) index[i] += values[i] > cut;
        } else {
          for (index_t i = 0; i < n; ++i) index[i] += values[i] >= cut;
        }
      } else if (right) {
        for (index_t i = 0; i < n; ++i) index[i] += values[i] > edge[i];
      } else {
        for (index_t i = 0; i < n; ++i) index[i] += values[i] >= edge[i];
      }
    }
    return !outside;
  }

 private:
  static constexpr index_t search_bins = 64;  // from here on, a search is faster than all comparisons

  // Counts the inner edges below each value by halving, vectorised over values, without branches.
  void search(const T* values, index_t n, int32_t* index) const {
    const T* inner = edges[1];
    const index_t columns = edges.m;
    const auto halve = [&](auto is_above) {
      for (index_t left = edges.n - 2; left > 0;) {
        const index_t half = (left + 1) / 2;
        const int32_t add = static_cast<int32_t>(half);
        if (columns == 1) {
          for (index_t i = 0; i < n; ++i) {
            index[i] += add & -static_cast<int32_t>(is_above(values[i], inner[index[i] + add - 1]));
          }
        } else {
          for (index_t i = 0; i < n; ++i) {
            const index_t place = (index[i] + half - 1) * columns + i;
            index[i] += add & -static_cast<int32_t>(is_above(values[i], inner[place]));
          }
        }
        left -= half;
      }
    };
    if (right) {
      halve([](T x, T cut) { return x > cut; });
    } else {
      halve([](T x, T cut) { return x >= cut; });
    }
  }

  // Corrects the bins of values, which are at most one off, for bins of equal width.
  void settle(const T* values, index_t n, int32_t* index) const {
    const int32_t last = static_cast<int32_t>(edges.n - 2);
    const double width = 1.0 / static_cast<double>(edges.n - 1);
    for (index_t i = 0; i < n; ++i) {
      const T x = values[i], low = static_cast<T>(index[i] * width);
      const T high = static_cast<T>((index[i] + 1.0) * width);
      const int32_t up = right ? x > high : x >= high, down = right ? x <= low : x < low;
      index[i] = least(greatest(index[i] + up - down, int32_t(0)), last);
    }
  }
};

// Adds (weight, weight * d, 1) of each value to sums[2 * bin + hit], which start at zero, and their second half
// (as many rows) too: values alternate between two tables, so that no addition waits for the one before. d is
// the distance from middles[bin]. Returns the first value that is outside [0, 1] or whose hit is neither 0 nor
// 1, or -1.
template <class T>
index_t bin_values(vec<const T> values, vec<const int64_t> hits, in weights, mat<const T> edges,
                   ins middles, bool even, bool right, outs sums, outs other) {
  constexpr index_t chunk = 512;  // values per vectorised loop, which stay in the cache
  const bin_places<T> places{edges, even, right};
  int32_t index[chunk];
  for (index_t start = 0; start < values.n; start += chunk) {
    const index_t n = least(chunk, values.n - start);
    const T* x = values.data + start;
    const int64_t* happened = hits.data + start;
    if (!places.fill(x, n, index)) {
      for (index_t i = 0; i < n; ++i) {
        if (!(x[i] >= T(0) && x[i] <= T(1))) return start + i;
      }
    }
    int64_t other_bits = 0;
    for (index_t i = 0; i < n; ++i) {
      other_bits |= happened[i] >> 1;
      index[i] = 2 * index[i] + static_cast<int32_t>(happened[i] & 1);
    }
    if (other_bits != 0) {
      for (index_t i = 0; i < n; ++i) {
        if (happened[i] != 0 && happened[i] != 1) return start + i;
      }
    }
    if (weights.n) {
      for (index_t i = 0; i < n; ++i) {
        double* to = sums[index[i]];
        const double weight = weights[start + i];
        to[0] += weight;
        to[1] += weight * static_cast<double>(x[i]);
        to[2] += 1.0;
      }
      continue;
    }
    index_t i = 0;
    for (; i + 2 <= n; i += 2) {
      double *one = sums[index[i]], *two = other[index[i + 1]];
      one[0] += 1.0;
      one[1] += static_cast<double>(x[i]);
      two[0] += 1.0;
      two[1] += static_cast<double>(x[i + 1]);
    }
    for (; i < n; ++i) {
      sums[index[i]][0] += 1.0;
      sums[index[i]][1] += static_cast<double>(x[i]);
    }
  }
  for (index_t cell = 0; cell < sums.n; ++cell) {
    double* to = sums[cell];
    for (index_t c = 0; c < 3; ++c) to[c] += other[cell][c];
    to[1] -= middles[cell >> 1][0] * to[0];
    if (!weights.n) to[2] = to[0];
  }
  return -1;
}

// Adds (weight, weight * d, weight * d^2, 1) of each p to sums[class, bin]. For the class of the label,
// (weight, weight * d) are also added to hits[class, bin]; a label below 0 belongs to no column. d is the
// distance from the middle of the bin, so that variances lose no digits. Probabilities at or below the threshold
// are left out. `scratch` has one place per class.
template <class T>
void bin_classes(mat<const T> p, vec<const int64_t> labels, in weights, mat<const T> edges,
                 ins middles, bool even, bool right, double threshold, vec<int32_t> scratch,
                 cube<double> sums, cube<double> hits) {
  const index_t classes = p.m, bins = sums.m;
  const bool shared = middles.m == 1, weighted = weights.n > 0;
  const bin_places<T> places{edges, even, right};
  for (index_t i = 0; i < p.n; ++i) {
    const T* row = p[i];
    places.fill(row, classes, scratch.data);
    const double weight = weighted ? weights[i] : 1.0;
    for (index_t j = 0; j < classes; ++j) {
      const double x = static_cast<double>(row[j]);
      if (!(x > threshold)) continue;
      const index_t b = scratch[j];
      const double d = x - middles[b][shared ? 0 : j];
      double* to = sums.data + (j * bins + b) * 4;
      to[0] += weight;
      to[1] += weight * d;
      to[2] += weight * d * d;
      to[3] += 1.0;
    }
    const index_t label = labels[i];
    if (label >= 0 && static_cast<double>(row[label]) > threshold) {
      const index_t b = scratch[label];
      double* to = hits.data + (label * bins + b) * 2;
      to[0] += weight;
      to[1] += weight * (static_cast<double>(row[label]) - middles[b][shared ? 0 : label]);
    }
  }
}

// The sum over positives of the number of scores below them and of scores not above them. Both are sorted, and
// the positives are among the scores.
template <class T>
int64_t rank_sum(vec<const T> scores, vec<const T> positive) {
  int64_t below = 0, upto = 0, total = 0;
  for (index_t i = 0; i < positive.n; ++i) {
    while (scores[below] < positive[i]) ++below;
    upto = greatest(upto, below);
    while (upto < scores.n && scores[upto] <= positive[i]) ++upto;
    total += below + upto;
  }
  return total;
}

// Writes the weight of correctly ordered pairs (ties count half), of positives and of negatives. Scores are
// sorted.
template <class T>
void concordance(vec<const T> scores, vec<const bool> positive, in weights, out totals) {
  double pairs = 0.0, positives = 0.0, negatives = 0.0;
  index_t i = 0;
  while (i < scores.n) {
    const T value = scores[i];
    double tied_positives = 0.0, tied_negatives = 0.0;
    for (; i < scores.n && scores[i] == value; ++i) {
      (positive[i] ? tied_positives : tied_negatives) += weights[i];
    }
    pairs += tied_positives * (negatives + tied_negatives / 2);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  totals[0] = pairs;
  totals[1] = positives;
  totals[2] = negatives;
}

// The fine bin of a probability, from 0 to 2 * octaves * steps - 1. Bins increase with p. Each of `octaves`
// halvings of the distance to 0 (below one half) or to 1 (above) is divided into `steps` equal bins.
inline int64_t fine_bin(double x, int64_t octaves, int64_t steps) {
  const int64_t half = octaves * steps;
  const double distance = least(x, 1.0 - x);
  int exponent = 0;
  const double mantissa = frexp(distance, &exponent);  // in [0.5, 1), exponent <= 0
  // 0.5, which has exponent 0, joins the bin below it
  int64_t rank = half + exponent * steps +
                 static_cast<int64_t>((2.0 * mantissa - 1.0) * static_cast<double>(steps));
  rank = distance > 0.0 ? least(greatest(rank, int64_t(0)), half - 1) : 0;
  return x <= 0.5 ? rank : 2 * half - 1 - rank;
}

inline void fine_bins(in values, int64_t octaves, int64_t steps, vec<int64_t> bins) {
  for (index_t i = 0; i < values.n; ++i) bins[i] = fine_bin(values[i], octaves, steps);
}

// Adds the weight of each p to hits[class, bin] for the class of the label, and else to misses.
template <class T>
void sketch_rows(mat<const T> p, vec<const int64_t> labels, in weights, int64_t octaves,
                 int64_t steps, outs hits, outs misses) {
  for (index_t i = 0; i < p.n; ++i) {
    const double weight = weights.n ? weights[i] : 1.0;
    for (index_t j = 0; j < p.m; ++j) {
      const int64_t b = fine_bin(static_cast<double>(p[i][j]), octaves, steps);
      (j == labels[i] ? hits : misses)[j][b] += weight;
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
