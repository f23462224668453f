// The loops over rows that one instruction set offers; their arguments are described beside each.
#pragma once

#include "views.h"

namespace fastmcmd {

// For one type of probabilities, draws or scores.
template <class T>
struct typed_loops {
  void (*crps_of_sorted)(mat<const T> draws, in y, in factor, out scores);
  void (*count_draws)(mat<const T> draws, in y, bool below, vec<int64_t> counts);
  void (*count_draws_both)(mat<const T> draws, in y, vec<int64_t> below, vec<int64_t> up_to);
  void (*count_sorted_draws)(mat<const T> draws, in y, bool below, vec<int64_t> counts);
  index_t (*check_rows)(mat<const T> p, double tolerance);
  index_t (*summarize_rows)(mat<const T> p, vec<const int64_t> labels, double tolerance,
                            vec<int32_t> predicted, vec<T> confidence, vec<T> chosen, out squares,
                            vec<int32_t> above, vec<int32_t> before, vec<int32_t> after);
  void (*cumulative_squares)(mat<const T> p, vec<const int64_t> labels, out scores);
  index_t (*bin_values)(vec<const T> values, vec<const int64_t> hits, in weights,
                        mat<const T> edges, ins middles, bool even, bool right, outs sums,
                        outs other);
  void (*bin_classes)(mat<const T> p, vec<const int64_t> labels, in weights, mat<const T> edges,
                      ins middles, bool even, bool right, double threshold, vec<int32_t> scratch,
                      cube<double> sums, cube<double> hits);
  int64_t (*rank_sum)(vec<const T> scores, vec<const T> positive);
  void (*concordance)(vec<const T> scores, vec<const bool> positive, in weights, out totals);
  void (*sketch_rows)(mat<const T> p, vec<const int64_t> labels, in weights, int64_t octaves,
                      int64_t steps, outs hits, outs misses);
};

// For one type of places.
template <class P>
struct group_loops {
  void (*count_rows)(vec<const int64_t> rows, vec<const P> place, in weights, out counts);
  void (*count_drawn)(in uniform, vec<const P> place, in weights, out counts);
  void (*count_undrawn)(in uniform, vec<int32_t> order, vec<const P> place, in weights, out counts);
};

struct loop_table {
  typed_loops<float> f32;
  typed_loops<double> f64;
  group_loops<uint8_t> few_places;
  group_loops<int32_t> many_places;
  void (*cdf_of_quantiles)(in levels, ins values, in left, in right, in y, bool below, bool above,
                           out shares);
  void (*crps_of_quantiles)(in levels, ins values, in left, in right, in y, outs scratch,
                            out scores);
  void (*fine_bins)(in values, int64_t octaves, int64_t steps, vec<int64_t> bins);
  void (*log_masses)(in y, in mean, in alpha, out masses);
  void (*consecutive_log_masses)(in first, in mean, in alpha, outs masses);
  void (*crps_by_sums)(in y, in mean, in alpha, out scores);
  void (*half_gini)(in mean, in alpha, out values);
  void (*count_quantiles)(ins levels, mat<const int64_t> order, in mean, in alpha, outs values);
  void (*poisson_tails)(in k, in mean, bool upper, out tails);
  void (*double_poisson_tables)(out logs, out heads);
  void (*double_poisson_windows)(in mu, in phi, in logs, in heads, out low, out high);
  void (*double_poisson_moments)(in mu, in phi, in logs, in heads, out total, out mean,
                                 out variance);
  void (*double_poisson_log_masses)(in y, in mu, in phi, in logs, in heads, in total, out masses);
  void (*double_poisson_tails)(in y, in mu, in phi, in logs, in heads, bool upper, in total,
                               out tails);
  void (*double_poisson_crps)(in y, in mu, in phi, in logs, in heads, out scores);
  void (*double_poisson_masses)(in first, in mu, in phi, in logs, in heads, outs masses);
  void (*double_poisson_quantiles)(ins levels, in mu, in phi, in logs, in heads, in total,
                                   out scratch, outs values);
  void (*march)(out x, out density, ins masses, ins slope, outs points);
  void (*mixture_quantiles)(ins levels, ins z, ins means, ins stds, ins weights, outs values);
  void (*mid_ranks)(ins values, ins reference, outs ranks);
  void (*outcome_bumps)(ins places, double step, double factor, in decay, cube<float> features);
  void (*lattice_sums)(ins places, in share, vec<const int64_t> starts, vec<const int64_t> rows, in origin,
                       in decay, cube<double> sums);
  void (*centre_rows)(cube<float> features, mat<const float> means, outs squares);
  void (*interpolate)(in places, mat<const float> table, mat<float> values);
  void (*energy_rows)(cube<const double> draws, ins y, double beta, double pairs, out scratch,
                      out scores);
  void (*variogram_rows)(cube<const double> draws, ins y, double p, ins weights, bool unbiased,
                         out scratch, out scores);
  void (*lattice_means)(ins z, ins weight, ins stretch, double step, double rate, double height,
                        bool slopes, outs mean, outs slope, outs stretched);
  void (*weighted_lattice_sums)(ins z, cube<const double> weights, double step, double rate,
                                double height, cube<double> sums);
  void (*solve_moments)(ins values, ins logs, ins statistic, in mean, in std, double low,
                        double high, out scratch, out power, out tilt);
  void (*correction_weights)(ins values, ins logs, ins statistic, in power, in tilt,
                             cube<double> weights);
  void (*error_sums)(in y, in point, out sums);
  void (*relative_sums)(in y, in point, out sums);
  void (*resampled_sums)(ins rows, ins counts, in factors, cube<double> sums);
  void (*linear_squares)(ins rows, ins slopes, in away, ins counts, in factors, out squares);
  double (*running_weights)(in weights, vec<const int64_t> order, out cumulative);
  void (*spread_pieces)(in weights, vec<const int64_t> order, in variance, in squares,
                        vec<const int64_t> ends, outs sums);
  void (*comoments)(in y, in point, out values);
  void (*spread_sums)(in y, in mean, in variance, in cuts, outs scratch, outs sums);
  void (*check_losses)(in levels, in factors, ins quantiles, in y, out losses);
  index_t (*interval_scores)(in y, in lower, in upper, double factor, out scores);
  void (*gamma_log_densities)(in y, in shape, in rate, out densities);
  void (*symmetric_scores)(int64_t family, in y, in loc, in scale, out scores);
  void (*two_piece_scores)(int64_t family, in y, in loc, in lower, in upper, out scores);
  void (*exponential_scores)(in y, in rate, in mass, out scores);
  void (*linear_scores)(in y, in low, in high, in below, in rise, in above, out scores);
  void (*pareto_scores)(in y, in shape, in scale, in loc, out scores);
  void (*log_laplace_scores)(in y, in scale, in shape, out scores);
  void (*log_densities)(int64_t family, in y, in a, in b, in c, out logs);
  void (*normal_mixture_logs)(in y, ins means, ins stds, ins weights, out logs);
  void (*bounded_copy)(in x, out copy, out bounds);
  void (*gap_bounds)(in a, in b, out bounds);
  void (*weight_shares)(ins weights, outs shares, out bounds);
  void (*half_ratios)(in x, out ratios);
  void (*gaussian_rows)(cube<const double> draws, ins shares, ins y, double bandwidth, outs sums);
  void (*interval_rows)(ins draws, in y, in low, in high, outs parts);
  void (*central_sums)(ins draws, outs sums);
  void (*dispersion_rows)(cube<const double> draws, ins y, out scratch, outs values);
  void (*symmetric_tails)(int64_t family, in y, in loc, in scale, out below, out above);
  void (*interval_masses)(int64_t family, in low, in high, in loc, in scale, out below, out from,
                          out upto, out above, out inside);
  void (*piece_scores)(int64_t family, in y, in loc, in scale, in low, in high, in below, in rise,
                       in above, out scores);
  void (*piece_sums)(ins z, ins gaps, ins tails, ins means, ins squares, in total, in below,
                     in rise, in above, out sums);
  void (*isotonic_rows)(outs values, in weights, vec<int64_t> ends, out masses);
  void (*events_first)(vec<uint8_t> events, vec<const int64_t> starts, vec<const int64_t> counts);
  void (*isotonic_bits)(vec<const uint64_t> bits, index_t n, vec<const int64_t> places,
                        vec<int64_t> rows, vec<int64_t> sums, out fits);
  index_t (*summarize_pairs)(in p, vec<const int64_t> labels, vec<int32_t> predicted, out confidence, out chosen,
                             out squares, vec<int32_t> above, vec<int32_t> before, vec<int32_t> after);
  void (*count_pairs)(vec<const int64_t> rank, vec<const int64_t> until, vec<int64_t> tree, vec<int64_t> equal,
                      vec<int64_t> counts);
  void (*panel_quantiles)(vec<const int64_t> starts, in left, in half, ins density,
                          vec<const int64_t> places, in below, in above, ins levels, in rule,
                          ins nodes, ins series, outs values);
  void (*panel_scores)(vec<const int64_t> starts, vec<const int64_t> splits, in left, in half,
                       ins density, vec<const int64_t> places, in below, in above, in rule,
                       ins nodes, ins series, out scores);
  void (*panel_sizes)(ins density, in weights, ins series, outs sizes);
  void (*step_quantiles)(ins values, ins masses, ins levels, double close, outs scratch,
                         outs quantiles);
  void (*step_scores)(ins values, ins masses, in y, out scores);
  void (*add_masses)(ins masses, vec<const int64_t> offset, in weights, outs totals);
  void (*join_edges)(ins edges, vec<const int64_t> starts, ins stops, in first, in last,
                     vec<int64_t> places, outs ends);
  void (*integrate_densities)(ins edges, in below, in above, vec<const int64_t> families,
                              cube<const double> constants, ins weights, in limits, in spread,
                              ins y, ins levels, in rule, ins nodes, ins series, outs scratch,
                              vec<int64_t> places, outs scores, outs quantiles, outs moments);
  void (*count_ranges)(in mean, in alpha, double tail, out first, out last);
  void (*count_masses)(in first, in step, in base, in slope, outs masses);
  index_t (*accept_pivots)(outs residual, vec<const int64_t> proposals, in least, in uniform,
                           int64_t most, out before, outs columns, vec<int64_t> pivots, out factor,
                           vec<int64_t> draws);
  index_t (*pivoted_basis)(ins gram, double omissible, double rounding, out residual, outs columns, outs basis);
  void (*roots_of_forms)(ins coefficients, in forms, double unit, double tiny, out roots,
                         out errors);
  void (*chebyshev_moments)(mat<const int64_t> place, vec<const int64_t> slot, ins z, ins weights,
                            in number, double length, ins most, cube<double> moments,
                            out residual);
  void (*add_quadratic_forms)(in y, ins c, double rate, in polynomial, outs before, outs inside,
                              out partial, out weight, outs choose, out forms);
  void (*smooth_panels)(ins low, ins high, cube<const double> series, cube<const double> weights,
                        in places, ins to_series, double rate, in t, ins z, ins w, ins hermite,
                        outs values);
  void (*project_bumps)(in y, in low, in high, double rate, ins z, ins w,
                        cube<double> coefficients);
  void (*row_distances)(ins rows, ins columns, outs distances);
  void (*matern_of_normals)(in mean, in deviation, double rate, int64_t order, out values);
  void (*matern_of_normal_pairs)(in mean, in deviation, in against, in spread, double rate,
                                 int64_t order, outs values);
};

}  // namespace fastmcmd
