// Log densities at one outcome of each row, for families without special functions. Blocks of rows become vector
// instructions; rows with extreme numbers take the functions of the C library.
#pragma once

#include "closed_scores.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr double log_2 = 0.6931471805599453;

// Outcomes, and parameters in the order of each family.
struct density_rows {
  row_values y, a, b, c;
};

// Writes log(1 + exp(-x)) for x >= 0, NaN for NaN.
inline void soft_logarithms(const row_values& x, row_values& value) {
  row_values small, whole;
  for (index_t k = 0; k < block_rows; ++k) small.at[k] = -x.at[k];
  exponentials(small.at);
  for (index_t k = 0; k < block_rows; ++k) value.at[k] = whole.at[k] = 1.0 + small.at[k];
  logarithms(value, 1.0, 2.0);
  for (index_t k = 0; k < block_rows; ++k) {
    value.at[k] += (small.at[k] - (whole.at[k] - 1.0)) / whole.at[k];
  }
}

struct normal_density {  // mean, standard deviation
  static void write(const density_rows& of, row_values& logs) {
    logs = of.b;
    row_logarithms(logs);
    for (index_t k = 0; k < block_rows; ++k) {
      const double z = (of.y.at[k] - of.a.at[k]) / of.b.at[k];
      logs.at[k] = -(0.5 * z) * z - logs.at[k] - half_log_2pi;
    }
  }
};

struct laplace_density {  // location, scale
  static void write(const density_rows& of, row_values& logs) {
    for (index_t k = 0; k < block_rows; ++k) logs.at[k] = 2.0 * of.b.at[k];
    row_logarithms(logs);
    for (index_t k = 0; k < block_rows; ++k) logs.at[k] = -fabs((of.y.at[k] - of.a.at[k]) / of.b.at[k]) - logs.at[k];
  }
};

struct logistic_density {  // location, scale
  static void write(const density_rows& of, row_values& logs) {
    row_values size, soft;
    logs = of.b;
    row_logarithms(logs);
    for (index_t k = 0; k < block_rows; ++k) size.at[k] = fabs(of.y.at[k] - of.a.at[k]) / of.b.at[k];
    soft_logarithms(size, soft);
    for (index_t k = 0; k < block_rows; ++k) logs.at[k] = -size.at[k] - 2.0 * soft.at[k] - logs.at[k];
  }
};

struct uniform_density {  // ends
  static void write(const density_rows& of, row_values& logs) {
    for (index_t k = 0; k < block_rows; ++k) logs.at[k] = of.b.at[k] - of.a.at[k];
    row_logarithms(logs);
    for (index_t k = 0; k < block_rows; ++k) {
      const double y = of.y.at[k];
      const bool is_outside = (y < of.a.at[k]) | (y > of.b.at[k]);
      logs.at[k] = is_nan(y) ? y : is_outside ? -infinity : -logs.at[k];
    }
  }
};

struct exponential_density {  // rate
  static void write(const density_rows& of, row_values& logs) {
    logs = of.a;
    row_logarithms(logs);
    for (index_t k = 0; k < block_rows; ++k) {
      const double value = logs.at[k] - of.y.at[k] * of.a.at[k];
      logs.at[k] = of.y.at[k] < 0.0 ? -infinity : value;
    }
  }
};

struct log_normal_density {  // mean and standard deviation of the logarithm
  static void write(const density_rows& of, row_values& logs) {
    row_values log_y;
    logs = of.b;
    row_logarithms(logs);
    for (index_t k = 0; k < block_rows; ++k) log_y.at[k] = of.y.at[k] > 0.0 ? of.y.at[k] : 1.0;
    row_logarithms(log_y);
    for (index_t k = 0; k < block_rows; ++k) {
      const double y = of.y.at[k], z = (log_y.at[k] - of.a.at[k]) / of.b.at[k];
      const double value = -0.5 * (z * z) - log_y.at[k] - logs.at[k] - half_log_2pi;
      logs.at[k] = is_nan(y) ? y : (y > 0.0) & (y < infinity) ? value : -infinity;
    }
  }
};

// Writes log(y / scale), the logarithm of z^(c - 1) below 1 and of z^(-c - 1) above, and log(factor c / scale).
inline void log_powers(const density_rows& of, double factor, row_values& log_z, row_values& power, row_values& height) {
  row_values peak;
  for (index_t k = 0; k < block_rows; ++k) peak.at[k] = factor * of.b.at[k];
  ratio_logarithms(of.y, of.a, log_z);  // NaN for negative numbers
  ratio_logarithms(peak, of.a, height);
  for (index_t k = 0; k < block_rows; ++k) {
    const double exponent = (log_z.at[k] > 0.0 ? -of.b.at[k] : of.b.at[k]) - 1.0;
    power.at[k] = exponent == 0.0 ? 0.0 : exponent * log_z.at[k];  // also where log_z is infinite
  }
}

struct log_laplace_density {  // scale, shape
  static void write(const density_rows& of, row_values& logs) {
    row_values log_z, power, height;
    log_powers(of, 0.5, log_z, power, height);
    for (index_t k = 0; k < block_rows; ++k) {
      const double y = of.y.at[k];
      logs.at[k] = is_nan(y) ? y : y < 0.0 ? -infinity : power.at[k] + height.at[k];
    }
  }
};

struct log_logistic_density {  // scale, shape
  static void write(const density_rows& of, row_values& logs) {
    row_values log_z, power, height, size, soft;
    log_powers(of, 1.0, log_z, power, height);
    for (index_t k = 0; k < block_rows; ++k) size.at[k] = fabs(of.b.at[k] * log_z.at[k]);
    soft_logarithms(size, soft);
    for (index_t k = 0; k < block_rows; ++k) {
      const double y = of.y.at[k], value = power.at[k] - 2.0 * soft.at[k] + height.at[k];
      logs.at[k] = is_nan(y) ? y : y < 0.0 ? -infinity : value;
    }
  }
};

struct pareto_density {  // shape, scale, location
  static void write(const density_rows& of, row_values& logs) {
    row_values gap, hazard;
    for (index_t k = 0; k < block_rows; ++k) {
      gap.at[k] = of.y.at[k] - of.c.at[k];
      hazard.at[k] = greatest(gap.at[k], 0.0);
    }
    pareto_hazards(hazard, of.a, of.b);
    logs = of.b;
    row_logarithms(logs);
    for (index_t k = 0; k < block_rows; ++k) {
      const double xi = of.a.at[k], z = gap.at[k] / of.b.at[k];
      // At the upper end the density is 0 for xi > -1, 1 / scale at -1, infinite below.
      const double value = (xi == -1.0 ? 0.0 : -(1.0 + xi) * hazard.at[k]) - logs.at[k];
      const bool is_beyond = (xi < 0.0) & (z > -1.0 / xi);
      const bool is_outside = (gap.at[k] < 0.0) | (gap.at[k] == infinity) | is_beyond;
      logs.at[k] = is_nan(gap.at[k]) ? gap.at[k] : is_outside ? -infinity : value;
    }
  }
};

// Of generalised extreme values with the shape -s. They follow from Gumbel's, of which log(1 + s z) / s is an outcome.
struct extreme_density {  // shape, location, scale
  static void write(const density_rows& of, row_values& logs) {
    constexpr double least_growth = -0.999999, most_growth = 1e300, farthest_outcome = -700.0;
    row_values z, growth, gumbel, power;
    row_marks is_usual;
    for (index_t k = 0; k < block_rows; ++k) {
      z.at[k] = (of.y.at[k] - of.b.at[k]) / of.c.at[k];
      growth.at[k] = -of.a.at[k] * z.at[k];
      is_usual.at[k] = (growth.at[k] > least_growth) & (growth.at[k] < most_growth);
      gumbel.at[k] = is_usual.at[k] ? growth.at[k] : 0.0;
    }
    logarithms_of_growth(gumbel);
    for_unusual(is_usual, [&](index_t k) { gumbel.at[k] = growth.at[k] <= -1.0 ? 0.0 : log1p(growth.at[k]); });
    for (index_t k = 0; k < block_rows; ++k) {
      gumbel.at[k] = of.a.at[k] == 0.0 ? z.at[k] : gumbel.at[k] / -of.a.at[k];
      is_usual.at[k] = gumbel.at[k] > farthest_outcome;
      power.at[k] = is_usual.at[k] ? -gumbel.at[k] : 0.0;
    }
    exponentials(power.at);
    for_unusual(is_usual, [&](index_t k) { power.at[k] = exp(-gumbel.at[k]); });
    logs = of.c;
    row_logarithms(logs);
    for (index_t k = 0; k < block_rows; ++k) {
      const double value = -(1.0 - of.a.at[k]) * gumbel.at[k] - power.at[k] - logs.at[k];
      const bool is_peak = (growth.at[k] == -1.0) & (of.a.at[k] == 1.0);
      const bool is_outside = (growth.at[k] <= -1.0) | (fabs(z.at[k]) == infinity);
      logs.at[k] = is_nan(z.at[k]) ? z.at[k] : is_peak ? -logs.at[k] : is_outside ? -infinity : value;
    }
  }
};

// Writes z, of which the sign tells the side, and the logarithm of the mean scale.
inline void two_piece_places(const density_rows& of, row_values& z, row_values& height) {
  for (index_t k = 0; k < block_rows; ++k) {
    const double gap = of.y.at[k] - of.a.at[k];
    z.at[k] = gap / (gap > 0.0 ? of.c.at[k] : of.b.at[k]);
    height.at[k] = 0.5 * of.b.at[k] + 0.5 * of.c.at[k];
  }
  row_logarithms(height);
}

struct two_piece_normal_density {  // mode, scales below and above
  static void write(const density_rows& of, row_values& logs) {
    row_values z;
    two_piece_places(of, z, logs);
    for (index_t k = 0; k < block_rows; ++k) {
      logs.at[k] = -(0.5 * z.at[k]) * z.at[k] - half_log_2pi - logs.at[k];
    }
  }
};

struct two_piece_laplace_density {  // mode, scales below and above
  static void write(const density_rows& of, row_values& logs) {
    row_values z;
    two_piece_places(of, z, logs);
    for (index_t k = 0; k < block_rows; ++k) logs.at[k] = -fabs(z.at[k]) - log_2 - logs.at[k];
  }
};

template <class Family>
void log_densities_of(in y, in a, in b, in c, out logs) {
  density_rows of = {};
  for (index_t start = 0; start < y.n; start += block_rows) {
    const index_t n = least(block_rows, y.n - start);
    row_values value;
    of.y = rows_from(y, start, n);
    of.a = rows_from(a, start, n);
    if (b.n) of.b = rows_from(b, start, n);
    if (c.n) of.c = rows_from(c, start, n);
    Family::write(of, value);
    write_rows(value, logs, start, n);
  }
}

// LogDensity in Python.
enum log_density : int {
  log_of_laplace, log_of_logistic, log_of_uniform, log_of_exponential, log_of_log_normal, log_of_log_laplace,
  log_of_log_logistic, log_of_pareto, log_of_extreme, log_of_two_piece_normal, log_of_two_piece_laplace,
  log_of_normal
};

// Writes log densities at y; parameters that a family lacks are empty.
inline void log_densities(int64_t family, in y, in a, in b, in c, out logs) {
  switch (static_cast<log_density>(family)) {
    case log_of_laplace: return log_densities_of<laplace_density>(y, a, b, c, logs);
    case log_of_logistic: return log_densities_of<logistic_density>(y, a, b, c, logs);
    case log_of_uniform: return log_densities_of<uniform_density>(y, a, b, c, logs);
    case log_of_exponential: return log_densities_of<exponential_density>(y, a, b, c, logs);
    case log_of_log_normal: return log_densities_of<log_normal_density>(y, a, b, c, logs);
    case log_of_log_laplace: return log_densities_of<log_laplace_density>(y, a, b, c, logs);
    case log_of_log_logistic: return log_densities_of<log_logistic_density>(y, a, b, c, logs);
    case log_of_pareto: return log_densities_of<pareto_density>(y, a, b, c, logs);
    case log_of_extreme: return log_densities_of<extreme_density>(y, a, b, c, logs);
    case log_of_two_piece_normal: return log_densities_of<two_piece_normal_density>(y, a, b, c, logs);
    case log_of_two_piece_laplace: return log_densities_of<two_piece_laplace_density>(y, a, b, c, logs);
    case log_of_normal: return log_densities_of<normal_density>(y, a, b, c, logs);
  }
}

// Writes the logarithms of densities of mixtures of normal distributions: from means and standard deviations (K, n)
// and weights (n, K).
inline void normal_mixture_logs(in y, ins means, ins stds, ins weights, out logs) {
  constexpr index_t m = block_rows;
  for (index_t start = 0; start < y.n; start += m) {
    const index_t n = least(m, y.n - start);
    const row_values at = rows_from(y, start, n);
    row_values largest, total;
    for (index_t k = 0; k < m; ++k) {
      largest.at[k] = -infinity;
      total.at[k] = 0.0;
    }
    for (index_t j = 0; j < means.n; ++j) {
      const row_values mean = rows_from({means[j], y.n}, start, n), std = rows_from({stds[j], y.n}, start, n);
      row_values weight, height, term, smaller;
      for (index_t k = 0; k < m; ++k) weight.at[k] = weights[start + (k < n ? k : 0)][j];
      for (index_t k = 0; k < m; ++k) {
        const double z = (at.at[k] - mean.at[k]) / std.at[k];
        term.at[k] = -(0.5 * z) * z;
      }
      ratio_logarithms(weight, std, height);
      // A component of weight 0 contributes nothing.
      for (index_t k = 0; k < m; ++k) {
        term.at[k] = height.at[k] == -infinity ? -infinity : term.at[k] + (height.at[k] - half_log_2pi);
        const double more = greatest(largest.at[k], term.at[k]), less = least(largest.at[k], term.at[k]);
        smaller.at[k] = less == -infinity ? -infinity : less - more;
        // The sum is in units of the largest term so far.
        height.at[k] = term.at[k] > largest.at[k] ? 1.0 : 0.0;
        largest.at[k] = is_nan(at.at[k]) ? at.at[k] : more;
      }
      exponentials(smaller.at);
      for (index_t k = 0; k < m; ++k) {
        const double share = smaller.at[k];
        total.at[k] = height.at[k] == 1.0 ? total.at[k] * share + share : total.at[k] + share;
      }
    }
    logarithms_of_growth(total);
    for (index_t k = 0; k < m; ++k) total.at[k] += largest.at[k];
    write_rows(total, logs, start, n);
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
