// Python functions of the loops over rows. A conversion of arguments to views checks dtype, dimensions and
// layout; inputs that are not contiguous are copied.
#include "bind_loops.h"

#include <pybind11/numpy.h>

#include "plain_types.h"
#include "loops/table.h"

namespace pybind11::detail {

template <class View, class T, int Dimensions>
struct view_caster {
  PYBIND11_TYPE_CASTER(View, const_name("array"));

  bool load(handle from, bool) {
    using plain = std::remove_const_t<T>;
    if (!isinstance<array_t<plain>>(from)) return false;
    held_ = reinterpret_borrow<array>(from);
    if (held_.ndim() != Dimensions) return false;
    const bool fits = (held_.flags() & array::c_style) &&
                      reinterpret_cast<uintptr_t>(held_.data()) % alignof(plain) == 0;
    if constexpr (std::is_const_v<T>) {
      if (!fits) held_ = array_t<plain, array::c_style | array::forcecast>(held_).attr("copy")();
    } else if (!fits || !held_.writeable()) {
      return false;
    }
    T* data = const_cast<plain*>(static_cast<const plain*>(held_.data()));
    if constexpr (Dimensions == 1) {
      value = {data, held_.shape(0)};
    } else if constexpr (Dimensions == 2) {
      value = {data, held_.shape(0), held_.shape(1)};
    } else {
      value = {data, held_.shape(0), held_.shape(1), held_.shape(2)};
    }
    return true;
  }

 private:
  array held_;
};

template <class T>
struct type_caster<fastmcmd::vec<T>> : view_caster<fastmcmd::vec<T>, T, 1> {};
template <class T>
struct type_caster<fastmcmd::mat<T>> : view_caster<fastmcmd::mat<T>, T, 2> {};
template <class T>
struct type_caster<fastmcmd::cube<T>> : view_caster<fastmcmd::cube<T>, T, 3> {};

}  // namespace pybind11::detail

namespace fastmcmd {
namespace {

template <class Loop>
void def(py::module_& m, const char* name, Loop loop) {
  m.def(name, loop, py::call_guard<py::gil_scoped_release>());
}

template <class T>
void bind_typed(py::module_& m, const typed_loops<T>& loops) {
  def(m, "crps_of_sorted", loops.crps_of_sorted);
  def(m, "count_draws", loops.count_draws);
  def(m, "count_draws_both", loops.count_draws_both);
  def(m, "count_sorted_draws", loops.count_sorted_draws);
  def(m, "check_rows", loops.check_rows);
  def(m, "summarize_rows", loops.summarize_rows);
  def(m, "cumulative_squares", loops.cumulative_squares);
  def(m, "bin_values", loops.bin_values);
  def(m, "bin_classes", loops.bin_classes);
  def(m, "rank_sum", loops.rank_sum);
  def(m, "concordance", loops.concordance);
  def(m, "sketch_rows", loops.sketch_rows);
}

template <class P>
void bind_groups(py::module_& m, const group_loops<P>& loops) {
  def(m, "count_rows", loops.count_rows);
  def(m, "count_drawn", loops.count_drawn);
  def(m, "count_undrawn", loops.count_undrawn);
}

}  // namespace

void bind_loops(py::module_& m, const loop_table& loops) {
  bind_typed(m, loops.f32);
  bind_typed(m, loops.f64);
  bind_groups(m, loops.few_places);
  bind_groups(m, loops.many_places);
  def(m, "cdf_of_quantiles", loops.cdf_of_quantiles);
  def(m, "crps_of_quantiles", loops.crps_of_quantiles);
  def(m, "fine_bins", loops.fine_bins);
  def(m, "log_masses", loops.log_masses);
  def(m, "consecutive_log_masses", loops.consecutive_log_masses);
  def(m, "crps_by_sums", loops.crps_by_sums);
  def(m, "half_gini", loops.half_gini);
  def(m, "count_quantiles", loops.count_quantiles);
  def(m, "poisson_tails", loops.poisson_tails);
  def(m, "double_poisson_tables", loops.double_poisson_tables);
  def(m, "double_poisson_windows", loops.double_poisson_windows);
  def(m, "double_poisson_moments", loops.double_poisson_moments);
  def(m, "double_poisson_log_masses", loops.double_poisson_log_masses);
  def(m, "double_poisson_tails", loops.double_poisson_tails);
  def(m, "double_poisson_crps", loops.double_poisson_crps);
  def(m, "double_poisson_masses", loops.double_poisson_masses);
  def(m, "double_poisson_quantiles", loops.double_poisson_quantiles);
  def(m, "march", loops.march);
  def(m, "mixture_quantiles", loops.mixture_quantiles);
  def(m, "mid_ranks", loops.mid_ranks);
  def(m, "outcome_bumps", loops.outcome_bumps);
  def(m, "lattice_sums", loops.lattice_sums);
  def(m, "centre_rows", loops.centre_rows);
  def(m, "interpolate", loops.interpolate);
  def(m, "energy_rows", loops.energy_rows);
  def(m, "variogram_rows", loops.variogram_rows);
  def(m, "lattice_means", loops.lattice_means);
  def(m, "weighted_lattice_sums", loops.weighted_lattice_sums);
  def(m, "solve_moments", loops.solve_moments);
  def(m, "correction_weights", loops.correction_weights);
  def(m, "error_sums", loops.error_sums);
  def(m, "relative_sums", loops.relative_sums);
  def(m, "resampled_sums", loops.resampled_sums);
  def(m, "linear_squares", loops.linear_squares);
  def(m, "running_weights", loops.running_weights);
  def(m, "spread_pieces", loops.spread_pieces);
  def(m, "comoments", loops.comoments);
  def(m, "spread_sums", loops.spread_sums);
  def(m, "check_losses", loops.check_losses);
  def(m, "interval_scores", loops.interval_scores);
  def(m, "gamma_log_densities", loops.gamma_log_densities);
  def(m, "symmetric_scores", loops.symmetric_scores);
  def(m, "two_piece_scores", loops.two_piece_scores);
  def(m, "exponential_scores", loops.exponential_scores);
  def(m, "linear_scores", loops.linear_scores);
  def(m, "pareto_scores", loops.pareto_scores);
  def(m, "log_laplace_scores", loops.log_laplace_scores);
  def(m, "log_densities", loops.log_densities);
  def(m, "normal_mixture_logs", loops.normal_mixture_logs);
  def(m, "bounded_copy", loops.bounded_copy);
  def(m, "gap_bounds", loops.gap_bounds);
  def(m, "weight_shares", loops.weight_shares);
  def(m, "half_ratios", loops.half_ratios);
  def(m, "gaussian_rows", loops.gaussian_rows);
  def(m, "interval_rows", loops.interval_rows);
  def(m, "central_sums", loops.central_sums);
  def(m, "dispersion_rows", loops.dispersion_rows);
  def(m, "interval_masses", loops.interval_masses);
  def(m, "symmetric_tails", loops.symmetric_tails);
  def(m, "piece_scores", loops.piece_scores);
  def(m, "piece_sums", loops.piece_sums);
  def(m, "isotonic_rows", loops.isotonic_rows);
  def(m, "events_first", loops.events_first);
  def(m, "isotonic_bits", loops.isotonic_bits);
  def(m, "summarize_pairs", loops.summarize_pairs);
  def(m, "count_pairs", loops.count_pairs);
  def(m, "panel_quantiles", loops.panel_quantiles);
  def(m, "panel_scores", loops.panel_scores);
  def(m, "panel_sizes", loops.panel_sizes);
  def(m, "step_quantiles", loops.step_quantiles);
  def(m, "step_scores", loops.step_scores);
  def(m, "add_masses", loops.add_masses);
  def(m, "join_edges", loops.join_edges);
  def(m, "integrate_densities", loops.integrate_densities);
  def(m, "count_ranges", loops.count_ranges);
  def(m, "count_masses", loops.count_masses);
  def(m, "accept_pivots", loops.accept_pivots);
  def(m, "pivoted_basis", loops.pivoted_basis);
  def(m, "roots_of_forms", loops.roots_of_forms);
  def(m, "chebyshev_moments", loops.chebyshev_moments);
  def(m, "add_quadratic_forms", loops.add_quadratic_forms);
  def(m, "smooth_panels", loops.smooth_panels);
  def(m, "project_bumps", loops.project_bumps);
  def(m, "row_distances", loops.row_distances);
  def(m, "matern_of_normals", loops.matern_of_normals);
  def(m, "matern_of_normal_pairs", loops.matern_of_normal_pairs);
}

}  // namespace fastmcmd
