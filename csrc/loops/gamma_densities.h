// Log densities of gamma distributions.
#pragma once

#include "densities.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

// 1 / Gamma(3/2 + u) for u in [-1/2, 1/2], from the highest power of u down: a Chebyshev fit at 60 digits. With these
// coefficients the relative error is below 2e-17.
constexpr index_t gamma_terms = 16;
constexpr double reciprocal_gamma[gamma_terms] = {
    1.6830710938973937e-08, -9.002261834603835e-08, 5.80540732549556e-08,   2.1565577829270528e-06,
    -1.3896829354060864e-05, 2.5355130539175535e-05, 0.00015235762354157663, -0.001110730245918119,
    0.002120731442396242,    0.006612897826273515,   -0.042155169368530074,  0.050966860247723254,
    0.1751020260439345,      -0.5266544355255447,    -0.0411745264452831,    1.1283791670955126};
constexpr int gamma_steps = 5;  // shapes are below 1 more

// Writes (a - 1) log(x) - x + log(rate / Gamma(a)) with x = rate y > 0, for shapes a in (0, 6). With a = m + t and
// m = floor(a), Gamma(a) is Gamma(1 + t) (1 + t) ... (m - 1 + t), or Gamma(1 + t) / t if m = 0.
inline void gamma_log_densities(in y, in shape, in rate, out densities) {
  constexpr index_t m = panel_nodes;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    node_values x, height, a;
    for (index_t k = 0; k < m; ++k) {
      const index_t i = start + (k < n ? k : 0);
      a.at[k] = shape[i];
      height.at[k] = rate[i];
      x.at[k] = y[i] * rate[i];
    }
    for (index_t k = 0; k < m; ++k) {
      double whole = 0.0, product = 1.0;
      for (int j = 1; j <= gamma_steps; ++j) whole += a.at[k] >= j ? 1.0 : 0.0;
      const double t = a.at[k] - whole;
      for (int j = 1; j < gamma_steps; ++j) product *= a.at[k] >= j + 1 ? t + j : 1.0;
      const double u = t - 0.5;
      double series = reciprocal_gamma[0];
      for (index_t j = 1; j < gamma_terms; ++j) series = series * u + reciprocal_gamma[j];
      height.at[k] *= (a.at[k] < 1.0 ? t : 1.0) * series / product;
    }
    double low = x.at[0], high = x.at[0], least_height = height.at[0], most_height = height.at[0];
    for (index_t k = 1; k < m; ++k) {
      low = least(low, x.at[k]);
      high = greatest(high, x.at[k]);
      least_height = least(least_height, height.at[k]);
      most_height = greatest(most_height, height.at[k]);
    }
    node_values log_x = x;
    logarithms(log_x, low, high);
    logarithms(height, least_height, most_height);
    for (index_t k = 0; k < n; ++k) {
      densities[start + k] = ((a.at[k] - 1.0) * log_x.at[k] - x.at[k]) + height.at[k];
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
