// Eigenvalues and eigenvectors of small symmetric matrices, on the calling thread: a threaded LAPACK wakes
// its threads for each of them, which takes longer than the work and depends on how busy they are.
//
// Householder reflections to tridiagonal form, then implicit QL steps (Golub & Van Loan, *Matrix
// Computations*, algorithms 8.3.1 and 8.3.3; Wilkinson's shift).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "plain_types.h"

namespace fastmcmd {

class symmetric_eigen {
 public:
  // `a` (n, n), symmetric, is overwritten by the eigenvectors as rows, where they are wanted.
  symmetric_eigen(double* a, index_t n, bool vectors) : a_(a), n_(n), vectors_(vectors) {}

  // Writes eigenvalues (n) in ascending order; false where the iteration does not converge (NaN).
  bool run(double* values) {
    tridiagonalise(values);
    if (!implicit_ql(values)) return false;
    sort(values);
    return true;
  }

 private:
  double* row(index_t i) const { return a_ + i * n_; }

  static double inner(const double* x, const double* y, index_t n) {
    constexpr index_t together = 8;
    double parts[together] = {};
    index_t i = 0;
    for (; i + together <= n; i += together) {
      for (index_t lane = 0; lane < together; ++lane) parts[lane] += x[i + lane] * y[i + lane];
    }
    for (; i < n; ++i) parts[0] += x[i] * y[i];
    double sum = 0;
    for (const double part : parts) sum += part;
    return sum;
  }

  void tridiagonalise(double* diagonal) {
    off_.assign(static_cast<size_t>(n_) + 1, 0.0);
    std::vector<double> work(static_cast<size_t>(n_));
    std::vector<double> reflections(vectors_ ? static_cast<size_t>(n_ * n_) : 0);
    double* w = work.data();
    std::vector<double> direction(static_cast<size_t>(n_));
    double* v = direction.data();
    for (index_t k = 0; k + 1 < n_; ++k) {
      const index_t first = k + 1, count = n_ - first;
      double largest = 0;
      for (index_t i = 0; i < count; ++i) {
        v[i] = row(first + i)[k];
        largest = std::max(largest, std::fabs(v[i]));
      }
      double below = 0;
      for (index_t i = 1; i < count; ++i) below = std::max(below, std::fabs(v[i]));
      if (!(below > 0)) {  // nothing to reflect
        off_[static_cast<size_t>(k)] = v[0];
        continue;
      }
      for (index_t i = 0; i < count; ++i) v[i] /= largest;
      const double norm = std::sqrt(inner(v, v, count)), alpha = v[0] > 0 ? -norm : norm;
      off_[static_cast<size_t>(k)] = alpha * largest;
      v[0] -= alpha;
      const double scale = std::sqrt(2 / inner(v, v, count));  // H = I - v v'
      for (index_t i = 0; i < count; ++i) v[i] *= scale;
      for (index_t i = 0; i < count; ++i) w[i] = inner(row(first + i) + first, v, count);
      const double half = inner(w, v, count) / 2;
      for (index_t i = 0; i < count; ++i) w[i] -= half * v[i];
      for (index_t i = 0; i < count; ++i) {
        double* to = row(first + i) + first;
        const double vi = v[i], wi = w[i];
        for (index_t j = 0; j < count; ++j) to[j] -= vi * w[j] + wi * v[j];
      }
      if (vectors_) std::copy_n(v, count, reflections.data() + k * n_);
    }
    for (index_t i = 0; i < n_; ++i) diagonal[i] = row(i)[i];
    if (!vectors_) return;
    // Rows of a become those of Q' = ... H_1 H_0, from the last reflection on: it changes fewest entries.
    std::fill_n(a_, n_ * n_, 0.0);
    for (index_t i = 0; i < n_; ++i) row(i)[i] = 1.0;
    for (index_t k = n_ - 2; k >= 0; --k) {
      const index_t first = k + 1, count = n_ - first;
      const double* u = reflections.data() + k * n_;
      for (index_t i = first; i < n_; ++i) {
        double* to = row(i) + first;
        const double along = inner(to, u, count);
        for (index_t j = 0; j < count; ++j) to[j] -= along * u[j];
      }
    }
  }

  bool implicit_ql(double* d) {
    constexpr int most = 60;
    constexpr double unit = std::numeric_limits<double>::epsilon();
    double* e = off_.data();
    double norm = 0;  // of the matrix; entries below its rounding are zero
    for (index_t i = 0; i < n_; ++i) norm = std::max(norm, std::fabs(d[i]) + std::fabs(e[i]));
    const auto negligible = [&](index_t m) {
      return std::fabs(e[m]) <= unit / 2 * std::max(std::fabs(d[m]) + std::fabs(d[m + 1]), norm / 8);
    };
    for (index_t l = 0; l < n_; ++l) {
      for (int steps = 0;; ++steps) {
        index_t m = l;
        while (m + 1 < n_ && !negligible(m)) ++m;
        if (m == l) break;
        if (steps == most) return false;
        double g = (d[l + 1] - d[l]) / (2 * e[l]), r = std::hypot(g, 1.0);
        g = d[m] - d[l] + e[l] / (g + std::copysign(r, g));
        double s = 1, c = 1, p = 0;
        index_t i = m - 1;
        for (; i >= l; --i) {
          const double f = s * e[i], b = c * e[i];
          e[i + 1] = r = std::hypot(f, g);
          if (r == 0) {  // the matrix splits
            d[i + 1] -= p;
            e[m] = 0;
            break;
          }
          s = f / r;
          c = g / r;
          g = d[i + 1] - p;
          r = (d[i] - g) * s + 2 * c * b;
          p = s * r;
          d[i + 1] = g + p;
          g = c * r - b;
          if (vectors_) rotate(i, s, c);
        }
        if (r == 0 && i >= l) continue;
        d[l] -= p;
        e[l] = g;
        e[m] = 0;
      }
      if (!std::isfinite(d[l])) return false;
    }
    return true;
  }

  void rotate(index_t i, double s, double c) {
    double *x = row(i), *y = row(i + 1);
    for (index_t j = 0; j < n_; ++j) {
      const double before = x[j], after = y[j];
      y[j] = s * before + c * after;
      x[j] = c * before - s * after;
    }
  }

  void sort(double* d) {
    for (index_t i = 0; i + 1 < n_; ++i) {
      const index_t least = std::min_element(d + i, d + n_) - d;
      if (least == i) continue;
      std::swap(d[i], d[least]);
      if (vectors_) std::swap_ranges(row(i), row(i) + n_, row(least));
    }
  }

  double* a_;
  index_t n_;
  bool vectors_;
  std::vector<double> off_;
};

}  // namespace fastmcmd
