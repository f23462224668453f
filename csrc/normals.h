// Expectations of kernels of normally distributed differences.
#pragma once

#include <cmath>
#include <vector>

#include "products.h"

namespace fastmcmd {

// A component of differences (n, m): their means, and 1 + 2 gamma times their variances, which may be the
// same in each row (`width` 1).
struct normal_component {
  const double* gap;
  const double* wider;
  index_t width;
};

// Calls work(i, cols, exponents, products) for row i of a matrix (n, m) and some of its columns, with zeros in
// as many exponents and room for as many products.
template <class Work>
void over_normals(size_t components, index_t n, index_t m, const execution& how, const Work& work) {
  constexpr index_t together = 512;  // columns
  const index_t chunks = divide_up(m, together), rows = std::max<index_t>(1, together / m);
  const index_t tasks = divide_up(n, rows) * chunks;
  const double operations = area(n, m) * (30.0 + 10.0 * static_cast<double>(components));
  parallel_for(tasks, with_threads(how, operations, tasks), [&](index_t task, int, const loop_control&) {
    double exponents[together], products[together];
    const block_range some(task / chunks, rows, n), cols(task % chunks, together, m);
    for (index_t i = some.start; i < some.start + some.count; ++i) {
      std::fill_n(exponents, cols.count, 0.0);
      work(i, cols, exponents, products);
    }
  });
}

// out (n, m) = E exp(-gamma |D|^2) = exp(-gamma sum_c gap_c^2 / wider_c) / sqrt(prod_c wider_c).
inline void rbf_of_normals(const kernel_table<double>& table, double gamma,
                           const std::vector<normal_component>& components, index_t n, index_t m,
                           double* out, const execution& how) {
  const auto row = [&](index_t i, const block_range& cols, double* exponents, double* products) {
    double common = 1;  // product of what is the same in the whole row
    bool varies = false;
    for (const normal_component& c : components) {
      const double* gap = c.gap + i * m + cols.start;
      if (c.width == 1) {
        const double wider = c.wider[i];
        common *= wider;
        for (index_t j = 0; j < cols.count; ++j) exponents[j] += gap[j] * gap[j] / wider;
        continue;
      }
      const double* wider = c.wider + i * m + cols.start;
      for (index_t j = 0; j < cols.count; ++j) {
        exponents[j] += gap[j] * gap[j] / wider[j];
        products[j] = varies ? products[j] * wider[j] : wider[j];
      }
      varies = true;
    }
    for (index_t j = 0; j < cols.count; ++j) exponents[j] *= -gamma;
    double* to = out + i * m + cols.start;
    table.exp(cols.count, exponents, to);
    if (varies) {
      for (index_t j = 0; j < cols.count; ++j) to[j] /= std::sqrt(common * products[j]);
    } else {
      const double root = std::sqrt(common);
      for (index_t j = 0; j < cols.count; ++j) to[j] /= root;
    }
  };
  over_normals(components.size(), n, m, how, row);
}

// A component of normal vectors, n of one set and m of another: their means, 1 + 2 gamma times the variances
// of the one set, and 2 gamma times those of the other.
struct paired_component {
  const double* mean;
  const double* wide;
  const double* against;
  const double* spread;
};

// The same for all pairs of two sets of independent normal vectors, from their means and variances.
inline void rbf_of_normal_pairs(const kernel_table<double>& table, double gamma,
                                const std::vector<paired_component>& components, index_t n, index_t m,
                                double* out, const execution& how) {
  const auto row = [&](index_t i, const block_range& cols, double* exponents, double* products) {
    std::fill_n(products, cols.count, 1.0);
    for (const paired_component& c : components) {
      const double mean = c.mean[i], wide = c.wide[i];
      const double* against = c.against + cols.start;
      const double* spread = c.spread + cols.start;
      for (index_t j = 0; j < cols.count; ++j) {
        const double gap = mean - against[j], wider = wide + spread[j];
        exponents[j] += gap * gap / wider;
        products[j] *= wider;
      }
    }
    for (index_t j = 0; j < cols.count; ++j) exponents[j] *= -gamma;
    double* to = out + i * m + cols.start;
    table.exp(cols.count, exponents, to);
    for (index_t j = 0; j < cols.count; ++j) to[j] /= std::sqrt(products[j]);
  };
  over_normals(components.size(), n, m, how, row);
}

}  // namespace fastmcmd
