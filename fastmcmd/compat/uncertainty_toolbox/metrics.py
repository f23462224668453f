"""All metrics in one call, as in ``uncertainty_toolbox.metrics``."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Json
from fastmcmd._base.tables import aligned
from fastmcmd.compat.uncertainty_toolbox.inputs import documented
from fastmcmd.compat.uncertainty_toolbox.metrics_accuracy import prediction_error_metrics
from fastmcmd.compat.uncertainty_toolbox.metrics_calibration import (
    adversarial_group_calibration,
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

__all__ = [
    "METRIC_NAMES",
    "adversarial_group_calibration",
    "check_score",
    "crps_gaussian",
    "get_all_accuracy_metrics",
    "get_all_adversarial_group_calibration",
    "get_all_average_calibration",
    "get_all_metrics",
    "get_all_scoring_rule_metrics",
    "get_all_sharpness_metrics",
    "interval_score",
    "mean_absolute_calibration_error",
    "miscalibration_area",
    "nll_gaussian",
    "prediction_error_metrics",
    "root_mean_squared_calibration_error",
    "sharpness",
]

METRIC_NAMES = {
    "mae": "MAE",
    "rmse": "RMSE",
    "mdae": "MDAE",
    "marpd": "MARPD",
    "r2": "R2",
    "corr": "Correlation",
    "rms_cal": "Root-mean-squared Calibration Error",
    "ma_cal": "Mean-absolute Calibration Error",
    "miscal_area": "Miscalibration Area",
    "sharp": "Sharpness",
    "nll": "Negative-log-likelihood",
    "crps": "CRPS",
    "check": "Check Score",
    "interval": "Interval Score",
    "rms_adv_group_cal": "Root-mean-squared Adversarial Group Calibration Error",
    "ma_adv_group_cal": "Mean-absolute Adversarial Group Calibration Error",
}
_SHOWN_GROUPS = 3  # group sizes printed of each error


@documented
def get_all_accuracy_metrics(
    y_pred: ArrayLike, y_true: ArrayLike, verbose: bool = True
) -> dict[str, float]:
    """Return all metrics of accuracy: those of `prediction_error_metrics`.

    Returns
    -------
    dict
    """
    _tell(verbose, "accuracy")
    return prediction_error_metrics(y_pred, y_true)


@documented
def get_all_average_calibration(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike, num_bins: int, verbose: bool = True
) -> dict[str, float]:
    """Return all metrics of average calibration: "rms_cal", "ma_cal" and "miscal_area".

    Returns
    -------
    dict
    """
    _tell(verbose, "average calibration")
    arguments = (y_pred, y_std, y_true, num_bins)
    return {
        "rms_cal": root_mean_squared_calibration_error(*arguments),
        "ma_cal": mean_absolute_calibration_error(*arguments),
        "miscal_area": miscalibration_area(*arguments),
    }


@documented
def get_all_adversarial_group_calibration(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike, num_bins: int, verbose: bool = True
) -> dict[str, dict[str, Any]]:
    """Return both errors of adversarial group calibration: "ma_adv_group_cal" and "rms_adv_group_cal".

    Returns
    -------
    dict
        For each error, "group_sizes", "adv_group_cali_mean" and "adv_group_cali_stderr".
    """
    _tell(verbose, "adversarial group calibration")
    results = {}
    for name, kind in (("ma_adv_group_cal", "mean_abs"), ("rms_adv_group_cal", "root_mean_sq")):
        one = adversarial_group_calibration(
            y_pred, y_std, y_true, kind, num_bins=num_bins, verbose=verbose
        )
        results[name] = {
            "group_sizes": one.group_size,
            "adv_group_cali_mean": one.score_mean,
            "adv_group_cali_stderr": one.score_stderr,
        }
    return results


@documented
def get_all_sharpness_metrics(y_std: ArrayLike, verbose: bool = True) -> dict[str, float]:
    """Return all metrics of sharpness: "sharp".

    Returns
    -------
    dict
    """
    _tell(verbose, "sharpness")
    return {"sharp": sharpness(y_std)}


@documented
def get_all_scoring_rule_metrics(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    resolution: int,
    scaled: bool,
    verbose: bool = True,
) -> dict[str, float]:
    """Return all proper scores: "nll", "crps", "check" and "interval".

    Parameters
    ----------
    scaled : bool
        Whether to return means rather than sums; see each score.

    Returns
    -------
    dict
    """
    _tell(verbose, "proper scores")
    arguments = (y_pred, y_std, y_true, scaled)
    return {
        "nll": nll_gaussian(*arguments),
        "crps": crps_gaussian(*arguments),
        "check": check_score(*arguments, resolution=resolution),
        "interval": interval_score(*arguments, resolution=resolution),
    }


@documented
def get_all_metrics(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    num_bins: int = 100,
    resolution: int = 99,
    scaled: bool = True,
    verbose: bool = True,
) -> dict[str, Any]:
    """Return all metrics of Gaussian predictions, by family.

    Parameters
    ----------
    scaled : bool
        Whether to return means of scores rather than sums.
    verbose : bool
        Whether to print what is computed, and all numbers.

    Returns
    -------
    dict
        A dictionary for each of "accuracy", "avg_calibration", "adv_group_calibration", "sharpness" and
        "scoring_rule".

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.compat import uncertainty_toolbox as uct
    >>> y = np.random.default_rng(0).normal(size=200)
    >>> result = uct.get_all_metrics(np.zeros(200), np.ones(200), y, verbose=False)
    >>> result["sharpness"]
    {'sharp': 1.0}
    """
    results: dict[str, object] = {
        "accuracy": get_all_accuracy_metrics(y_pred, y_true, verbose),
        "avg_calibration": get_all_average_calibration(y_pred, y_std, y_true, num_bins, verbose),
        "adv_group_calibration": get_all_adversarial_group_calibration(
            y_pred, y_std, y_true, num_bins, verbose
        ),
        "sharpness": get_all_sharpness_metrics(y_std, verbose),
        "scoring_rule": get_all_scoring_rule_metrics(
            y_pred, y_std, y_true, resolution, scaled, verbose
        ),
    }
    if verbose:
        _show(results)
    return results


def _tell(verbose: bool, family: str) -> None:
    if verbose:
        print(f"computing {family}")


def _show(results: Json) -> None:
    """Print all numbers; for group calibration, only some sizes, without the smallest."""
    rows = [["metric", "value"]]
    for family in results.values():
        for name, value in family.items():
            if not isinstance(value, dict):
                rows.append([METRIC_NAMES[name], f"{value:.4g}"])
                continue
            last = len(value["group_sizes"]) - 1
            for index in sorted({1, (last + 1) // 2, last})[-_SHOWN_GROUPS:]:
                size = value["group_sizes"][index]
                error = value["adv_group_cali_mean"][index]
                rows.append([f"{METRIC_NAMES[name]}, {size:.0%} of rows", f"{error:.4g}"])
    print(aligned(rows))
