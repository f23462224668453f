"""Accuracy and calibration against Uncertainty Toolbox: ``python -m benchmarks.peers.regression``.

Gaussian predictions with log-normal spreads. The same numbers of both at 100,000 rows, with their largest
difference; then everything of ours at a million rows, with how far memory rises. One thread, with
OMP_NUM_THREADS=1.
"""

import numpy as np

import fastmcmd as fm
from benchmarks.peers.timing import best, peak_bytes, report
from fastmcmd import metrics
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.pit import pit_of_rows, sort_pit
from fastmcmd.metrics.reliability_sums import (
    TOOLBOX_LEVELS,
    conclude_reliability,
    reliability_sums,
)

PEER, MILLION = 100_000, 1_000_000
OTHER = "uncertainty-toolbox s"
ACCURACY = {
    "mae": metrics.mae,
    "rmse": metrics.rmse,
    "mdae": metrics.median_absolute_error,
    "marpd": metrics.marpd,
    "r2": metrics.r2,
    "corr": metrics.pearson,
}
ALL = (
    "mae",
    "rmse",
    "median_absolute_error",
    "bias",
    "marpd",
    "r2",
    "pearson",
    "pit_histogram",
    "reliability_curve",
    "regression_ece",
    "rms_calibration_error",
    "mean_absolute_calibration_error",
    "miscalibration_area",
    "coverage",
    "mean_interval_width",
    "sharpness",
    "ence_curve",
    "uce",
    "variance_variation",
    "qce",
)


def problem(n):
    """Return outcomes, means and standard deviations."""
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    return mean + 1.1 * std * rng.normal(size=n), mean, std


def accuracy(y, prediction):
    return {name: function(y, prediction) for name, function in ACCURACY.items()}


def calibration(y, prediction):
    """Return the three numbers of one curve: PIT and sort once."""
    rows = read(y, prediction)
    pit = sort_pit(pit_of_rows(rows.y, rows.prediction, "plain", 0))
    curve = conclude_reliability(reliability_sums(pit, TOOLBOX_LEVELS, "interval"), "interval")
    return {
        "rms_cal": curve.rms_calibration_error,
        "ma_cal": curve.mean_absolute_calibration_error,
        "miscal_area": curve.miscalibration_area,
    }


def all_metrics(y, prediction):
    """Call every function by itself: nothing is shared."""
    return {name: getattr(metrics, name)(y, prediction) for name in ALL}


def main():
    """Print the table."""
    from uncertainty_toolbox import metrics as toolbox

    fm.set_num_threads(1)
    rows = []

    def against(measure, ours, theirs, repeats=20):
        seconds, result = best(ours, repeats=repeats)
        other, expected = best(theirs, repeats=1, warm=0)
        gap = max(abs(result[name] - value) for name, value in expected.items()) if expected else ""
        rows.append(
            {
                "what": measure,
                "n": PEER,
                "fastmcmd s": seconds,
                OTHER: other,
                "ratio": other / seconds,
                "difference": gap,
            }
        )

    y, mean, std = problem(PEER)
    gaussian = fm.Gaussian(mean, std)
    against(
        "accuracy",
        lambda: accuracy(y, gaussian),
        lambda: toolbox.get_all_accuracy_metrics(mean, y, verbose=False),
    )
    against(
        "average calibration",
        lambda: calibration(y, gaussian),
        lambda: toolbox.get_all_average_calibration(mean, std, y, 100, verbose=False),
    )
    against(
        "sharpness",
        lambda: {"sharp": metrics.sharpness(y, gaussian)},
        lambda: toolbox.get_all_sharpness_metrics(std, verbose=False),
    )
    total = {name: sum(row[name] for row in rows) for name in ("fastmcmd s", OTHER)}
    rows.append(
        {"what": "sum of these", "n": PEER, **total, "ratio": total[OTHER] / total["fastmcmd s"]}
    )
    # Random groups: the same distribution of results, not the same numbers.
    against(
        "adversarial groups",
        lambda: metrics.adversarial_group_calibration(y, gaussian),
        lambda: toolbox.adversarial_group_calibration(mean, std, y, "mean_abs") and None,
        repeats=3,
    )

    y, mean, std = problem(MILLION)
    gaussian = fm.Gaussian(mean, std)
    for name in ALL:
        seconds, _ = best(lambda name=name: getattr(metrics, name)(y, gaussian), repeats=3)
        rows.append({"what": name, "n": MILLION, "fastmcmd s": seconds})
    seconds, _ = best(lambda: all_metrics(y, gaussian), repeats=3)
    peak = peak_bytes(lambda: all_metrics(y, gaussian))
    rows.append(
        {"what": "all of these", "n": MILLION, "fastmcmd s": seconds, "peak MB": peak / 1e6}
    )
    report(rows, packages=("uncertainty-toolbox",))


if __name__ == "__main__":
    main()
