"""Drop-in replacement for Uncertainty Toolbox 0.1.1.

Change ``import uncertainty_toolbox as uct`` to ``import fastmcmd.compat.uncertainty_toolbox as uct``, or
``from uncertainty_toolbox.metrics_calibration import ...`` to ``from
fastmcmd.compat.uncertainty_toolbox.metrics_calibration import ...``, and nothing else: modules, names,
arguments, defaults and results of ``data``, ``metrics``, ``metrics_accuracy``, ``metrics_calibration``,
``metrics_scoring_rule``, ``recalibration``, ``utils`` and ``viz`` are the same. Pictures show the same
numbers in the colours of this package.

Differences, where the original is wrong:

- ``prop_type="quantile"`` counts outcomes below the predicted quantile. The original compares the quantile
  with prediction minus outcome, which reverses the sign, and so counts outcomes above the opposite
  quantile. The recalibrators of its `get_quantile_recalibrator` therefore moved quantiles of shifted models
  away from the outcomes.
- NaN and infinity raise an error that names the argument; the original counts NaN targets as misses.
- Invalid arguments raise a ValueError or TypeError that says what is needed; the original fails with an
  assertion without a message, or with an unbound variable (``cali_type``).
- The "marpd" of a row in which outcome and prediction are 0 is 0; in the original 0/0 makes the whole
  result NaN.
- `optimize_recalibration_ratio` searches the whole range of ratios; the original may stop at a local
  minimum of the criterion, which is a step function.
- `iso_recal` warns if observed proportions do not reach from 0 to 1; the original prints a message in some
  of these cases.
- `get_proportion_lists` returns two arrays, as documented, instead of an array and a list. ``vectorized``
  has no effect: the only implementation is fast and needs little memory.
- Pictures: `plot_xy` names its band by the number of standard deviations, instead of "95%" for any number;
  `plot_intervals` and `plot_intervals_ordered` fit their axes to the data, not to whole numbers;
  `plot_calibration` says "Below Quantile" for quantiles; `set_style` does not need LaTeX.

Preserved although the names suggest otherwise: ``score_stderr`` of `adversarial_group_calibration` is the
standard deviation over trials, and ``scaled`` of `check_score` and `interval_score` divides by the number
of levels (scores are means over rows in both cases). Groups are drawn from ``numpy.random`` as in the
original, so that a seed set there gives the same groups.
"""

from fastmcmd.compat.uncertainty_toolbox import (
    data,
    metrics,
    metrics_accuracy,
    metrics_calibration,
    metrics_scoring_rule,
    recalibration,
    utils,
    viz,
)
from fastmcmd.compat.uncertainty_toolbox.data import (
    synthetic_arange_random,
    synthetic_sine_heteroscedastic,
)
from fastmcmd.compat.uncertainty_toolbox.metrics import (
    get_all_accuracy_metrics,
    get_all_adversarial_group_calibration,
    get_all_average_calibration,
    get_all_metrics,
    get_all_scoring_rule_metrics,
    get_all_sharpness_metrics,
)
from fastmcmd.compat.uncertainty_toolbox.metrics_accuracy import prediction_error_metrics
from fastmcmd.compat.uncertainty_toolbox.metrics_calibration import (
    adversarial_group_calibration,
    get_prediction_interval,
    get_proportion_in_interval,
    get_proportion_lists,
    get_proportion_lists_vectorized,
    mean_absolute_calibration_error,
    miscalibration_area,
    root_mean_squared_calibration_error,
    sharpness,
)
from fastmcmd.compat.uncertainty_toolbox.metrics_scoring_rule import (
    check_score,
    crps_gaussian,
    interval_score,
    nll_gaussian,
)
from fastmcmd.compat.uncertainty_toolbox.recalibration import (
    iso_recal,
    optimize_recalibration_ratio,
)
from fastmcmd.compat.uncertainty_toolbox.viz import (
    plot_adversarial_group_calibration,
    plot_calibration,
    plot_intervals,
    plot_intervals_ordered,
    plot_residuals_vs_stds,
    plot_sharpness,
    plot_xy,
)

__all__ = [
    "adversarial_group_calibration",
    "check_score",
    "crps_gaussian",
    "data",
    "get_all_accuracy_metrics",
    "get_all_adversarial_group_calibration",
    "get_all_average_calibration",
    "get_all_metrics",
    "get_all_scoring_rule_metrics",
    "get_all_sharpness_metrics",
    "get_prediction_interval",
    "get_proportion_in_interval",
    "get_proportion_lists",
    "get_proportion_lists_vectorized",
    "interval_score",
    "iso_recal",
    "mean_absolute_calibration_error",
    "metrics",
    "metrics_accuracy",
    "metrics_calibration",
    "metrics_scoring_rule",
    "miscalibration_area",
    "nll_gaussian",
    "optimize_recalibration_ratio",
    "plot_adversarial_group_calibration",
    "plot_calibration",
    "plot_intervals",
    "plot_intervals_ordered",
    "plot_residuals_vs_stds",
    "plot_sharpness",
    "plot_xy",
    "prediction_error_metrics",
    "recalibration",
    "root_mean_squared_calibration_error",
    "sharpness",
    "synthetic_arange_random",
    "synthetic_sine_heteroscedastic",
    "utils",
    "viz",
]
