"""Scores and calibration measures, as plain functions.

If the prediction is a CuPy array or a CUDA tensor, most metrics compute on its device; the others copy such
arrays to the host. The table "Arrays on a device" in ``docs/metrics.md`` lists which is which.
"""

# To add a metric, write it in the file of its family, and list it here.

from fastmcmd.metrics.accuracy import (
    bias,
    mae,
    marpd,
    median_absolute_error,
    pearson,
    r2,
    rmse,
)
from fastmcmd.metrics.by_level import (
    check_scores_by_level,
    interval_scores_by_level,
    threshold_brier_score,
)
from fastmcmd.metrics.censored_scores import (
    censored_likelihood_score,
    mean_censored_likelihood_score,
)
from fastmcmd.metrics.censoring import kaplan_meier
from fastmcmd.metrics.concordance import concordance_index
from fastmcmd.metrics.density_scores import (
    linearized_log_score,
    mean_linearized_log_score,
    mean_quadratic_score,
    quadratic_score,
)
from fastmcmd.metrics.ensembles import (
    ensemble_log_score,
    error_spread_score,
    kernel_density,
    mean_ensemble_log_score,
    mean_error_spread_score,
)
from fastmcmd.metrics.groups import GroupCalibration, adversarial_group_calibration
from fastmcmd.metrics.interval_scores import (
    interval_score,
    interval_score_from,
    mean_interval_score,
    mean_weighted_interval_score,
    weighted_interval_score,
)
from fastmcmd.metrics.intervals import coverage, mean_interval_width, sharpness, variance_variation
from fastmcmd.metrics.isotonic import IsotonicReliability, exceedance_reliability
from fastmcmd.metrics.kernel_scores import (
    gaussian_kernel_score,
    mean_gaussian_kernel_score,
    mean_weighted_gaussian_kernel_score,
    weighted_gaussian_kernel_score,
)
from fastmcmd.metrics.murphy import (
    MurphyCurve,
    MurphyDifference,
    murphy_curve,
    murphy_difference,
)
from fastmcmd.metrics.pit import PITHistogram, pit_histogram, pit_values
from fastmcmd.metrics.pit_ecdf import PITEcdf, pit_ecdf
from fastmcmd.metrics.quantile_calibration import qce
from fastmcmd.metrics.quantile_scores import check_score, mean_check_score
from fastmcmd.metrics.ranks import RankHistogram, rank_histogram
from fastmcmd.metrics.reliability import (
    mean_absolute_calibration_error,
    miscalibration_area,
    regression_ece,
    reliability_curve,
    rms_calibration_error,
)
from fastmcmd.metrics.reliability_sums import ReliabilityCurve
from fastmcmd.metrics.scores import (
    crps,
    dawid_sebastiani,
    log_score,
    mean_crps,
    mean_dawid_sebastiani,
    nll,
)
from fastmcmd.metrics.survival import (
    integrated_ipcw_brier_score,
    ipcw_brier_score,
    survival_crps,
    survival_log_score,
)
from fastmcmd.metrics.variance import ence, ence_curve, null_ence, uce
from fastmcmd.metrics.variance_curve import VarianceCurve
from fastmcmd.metrics.vector_scores import (
    energy_score,
    mean_energy_score,
    mean_variogram_score,
    variogram_score,
)
from fastmcmd.metrics.verification import (
    Discrimination,
    ROCCurve,
    discrimination,
    roc_curve,
)
from fastmcmd.metrics.weighted_scores import mean_weighted_crps, weighted_crps
from fastmcmd.metrics.weighted_vector_scores import (
    mean_weighted_energy_score,
    mean_weighted_variogram_score,
    weighted_energy_score,
    weighted_variogram_score,
)

__all__ = [
    "Discrimination",
    "GroupCalibration",
    "IsotonicReliability",
    "MurphyCurve",
    "MurphyDifference",
    "PITEcdf",
    "PITHistogram",
    "ROCCurve",
    "RankHistogram",
    "ReliabilityCurve",
    "VarianceCurve",
    "adversarial_group_calibration",
    "bias",
    "censored_likelihood_score",
    "check_score",
    "check_scores_by_level",
    "concordance_index",
    "coverage",
    "crps",
    "dawid_sebastiani",
    "discrimination",
    "ence",
    "ence_curve",
    "energy_score",
    "ensemble_log_score",
    "error_spread_score",
    "exceedance_reliability",
    "gaussian_kernel_score",
    "integrated_ipcw_brier_score",
    "interval_score",
    "interval_score_from",
    "interval_scores_by_level",
    "ipcw_brier_score",
    "kaplan_meier",
    "kernel_density",
    "linearized_log_score",
    "log_score",
    "mae",
    "marpd",
    "mean_absolute_calibration_error",
    "mean_censored_likelihood_score",
    "mean_check_score",
    "mean_crps",
    "mean_dawid_sebastiani",
    "mean_energy_score",
    "mean_ensemble_log_score",
    "mean_error_spread_score",
    "mean_gaussian_kernel_score",
    "mean_interval_score",
    "mean_interval_width",
    "mean_linearized_log_score",
    "mean_quadratic_score",
    "mean_variogram_score",
    "mean_weighted_crps",
    "mean_weighted_energy_score",
    "mean_weighted_gaussian_kernel_score",
    "mean_weighted_interval_score",
    "mean_weighted_variogram_score",
    "median_absolute_error",
    "miscalibration_area",
    "murphy_curve",
    "murphy_difference",
    "nll",
    "null_ence",
    "pearson",
    "pit_ecdf",
    "pit_histogram",
    "pit_values",
    "qce",
    "quadratic_score",
    "r2",
    "rank_histogram",
    "regression_ece",
    "reliability_curve",
    "rms_calibration_error",
    "rmse",
    "roc_curve",
    "sharpness",
    "survival_crps",
    "survival_log_score",
    "threshold_brier_score",
    "uce",
    "variance_variation",
    "variogram_score",
    "weighted_crps",
    "weighted_energy_score",
    "weighted_gaussian_kernel_score",
    "weighted_interval_score",
    "weighted_variogram_score",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
