// Loops over rows, compiled once per instruction set like kernels.cpp and under its rule: nothing here may
// instantiate an inline function that another object could share. Products and sums are not contracted, so
// results do not depend on the instruction set.
#include "loops/bounds.h"
#include "loops/bumps.h"
#include "loops/classes.h"
#include "loops/closed_scores.h"
#include "loops/comparable_pairs.h"
#include "loops/corrections.h"
#include "loops/count_log_masses.h"
#include "loops/counts.h"
#include "loops/densities.h"
#include "loops/distances.h"
#include "loops/double_poisson.h"
#include "loops/draws.h"
#include "loops/edges.h"
#include "loops/ensembles.h"
#include "loops/forms.h"
#include "loops/gamma_densities.h"
#include "loops/gamma_ratios.h"
#include "loops/half_lines.h"
#include "loops/integrals.h"
#include "loops/isotonic.h"
#include "loops/lanes.h"
#include "loops/lattice.h"
#include "loops/log_densities.h"
#include "loops/metrics.h"
#include "loops/mixtures.h"
#include "loops/nodes.h"
#include "loops/outcomes.h"
#include "loops/panels.h"
#include "loops/pearson.h"
#include "loops/pivots.h"
#include "loops/resamples.h"
#include "loops/scores.h"
#include "loops/steps.h"
#include "loops/table.h"

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T>
constexpr typed_loops<T> typed = {
    crps_of_sorted<T>, count_draws<T>, count_draws_both<T>, count_sorted_draws<T>, check_rows<T>,
    summarize_rows<T>, cumulative_squares<T>, bin_values<T>, bin_classes<T>, rank_sum<T>, concordance<T>, sketch_rows<T>,
};

template <class P>
constexpr group_loops<P> groups = {count_rows<P>, count_drawn<P>, count_undrawn<P>};

extern const loop_table loops;
const loop_table loops = {
    typed<float>, typed<double>, groups<uint8_t>, groups<int32_t>, cdf_of_quantiles, crps_of_quantiles, fine_bins, log_masses,
    consecutive_log_masses, crps_by_sums, half_gini, count_quantiles, poisson_tails,
    double_poisson_tables, double_poisson_windows, double_poisson_moments, double_poisson_log_masses,
    double_poisson_tails, double_poisson_crps, double_poisson_masses, double_poisson_quantiles, march,
    mixture_quantiles, mid_ranks, outcome_bumps, lattice_sums, centre_rows, interpolate, energy_rows, variogram_rows, lattice_means, weighted_lattice_sums, solve_moments,
    correction_weights, error_sums, relative_sums, resampled_sums, linear_squares, running_weights, spread_pieces, comoments, spread_sums, check_losses, interval_scores, gamma_log_densities,
    symmetric_scores, two_piece_scores, exponential_scores, linear_scores, pareto_scores, log_laplace_scores, log_densities,
    normal_mixture_logs, bounded_copy, gap_bounds, weight_shares, half_ratios, gaussian_rows, interval_rows, central_sums, dispersion_rows, symmetric_tails, interval_masses, piece_scores, piece_sums, isotonic_rows, events_first, isotonic_bits, summarize_pairs, count_pairs, panel_quantiles, panel_scores, panel_sizes, step_quantiles,
    step_scores, add_masses, join_edges, integrate_densities, count_ranges, count_masses, accept_pivots, pivoted_basis, roots_of_forms,
    chebyshev_moments, add_quadratic_forms, smooth_panels, project_bumps, row_distances,
    matern_of_normals, matern_of_normal_pairs,
};

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
