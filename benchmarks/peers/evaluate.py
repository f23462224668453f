"""Everything about Gaussian predictions, beside Uncertainty Toolbox: seconds, memory, differences.

``python -m benchmarks.peers.evaluate [FILE.json]``; the toolbox takes about a minute at n = 100,000.
"""

from __future__ import annotations

import contextlib
import io
import time

import numpy as np

import fastmcmd as fm
from benchmarks.peers.timing import best, peak_bytes, report

# Their numbers by ours; the interval and check scores are averaged over 99 levels there.
_LEVELS = np.linspace(0.01, 0.99, 99)


def _problem(n):
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=n), rng.lognormal(0, 0.3, n)
    return mean + std * rng.normal(size=n), mean, std


def _toolbox(y, mean, std):
    """Return the toolbox's seconds without and with adversarial groups, and its numbers."""
    from uncertainty_toolbox import metrics as uct

    parts = {
        "accuracy": lambda: uct.get_all_accuracy_metrics(mean, y, verbose=False),
        "avg_calibration": lambda: uct.get_all_average_calibration(
            mean, std, y, num_bins=100, verbose=False
        ),
        "sharpness": lambda: uct.get_all_sharpness_metrics(std, verbose=False),
        "scoring_rule": lambda: uct.get_all_scoring_rule_metrics(
            mean, std, y, resolution=99, scaled=True, verbose=False
        ),
    }
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        results = {name: part() for name, part in parts.items()}
        plain = time.perf_counter() - start
        uct.get_all_adversarial_group_calibration(mean, std, y, num_bins=100, verbose=False)
    return plain, time.perf_counter() - start, results


def _differences(evaluation, theirs, y, prediction):
    """Return the largest relative difference of the numbers that both have."""
    mine = {
        ("accuracy", "mae"): evaluation["mae"],
        ("accuracy", "rmse"): evaluation["rmse"],
        ("accuracy", "mdae"): evaluation["median_absolute_error"],
        ("accuracy", "marpd"): evaluation["marpd"],
        ("accuracy", "r2"): evaluation["r2"],
        ("accuracy", "corr"): evaluation["pearson"],
        ("avg_calibration", "rms_cal"): evaluation["rms_calibration_error"],
        ("avg_calibration", "ma_cal"): evaluation["mean_absolute_calibration_error"],
        ("avg_calibration", "miscal_area"): evaluation["miscalibration_area"],
        ("sharpness", "sharp"): evaluation["sharpness"],
        ("scoring_rule", "nll"): evaluation["nll"],
        ("scoring_rule", "crps"): evaluation["mean_crps"],
        ("scoring_rule", "check"): fm.metrics.mean_check_score(y, prediction, levels=_LEVELS),
        ("scoring_rule", "interval"): fm.metrics.mean_interval_score(y, prediction, level=_LEVELS),
    }
    return max(
        abs(value - theirs[group][name]) / abs(theirs[group][name])
        for (group, name), value in mine.items()
    )


def main():
    rows = []
    for n in (100_000, 1_000_000):
        y, mean, std = _problem(n)
        prediction = fm.Gaussian(mean, std)

        def all_of_ours(y=y, prediction=prediction):
            # The toolbox averages interval scores over 99 levels: so do we, beside everything else.
            evaluation = fm.evaluate(y, prediction)
            fm.metrics.mean_interval_score(y, prediction, level=_LEVELS)
            return evaluation

        seconds, evaluation = best(all_of_ours, repeats=5)
        row = {"n": n, "what": "everything but groups", "seconds": seconds}
        row["MB"] = peak_bytes(all_of_ours) / 1e6
        rows.append(row)
        groups, _ = best(
            lambda y=y, p=prediction: [
                fm.metrics.adversarial_group_calibration(y, p, norm=norm)
                for norm in ("mean_absolute", "rms")
            ],
            repeats=2,
        )
        rows.append({"n": n, "what": "adversarial groups, both norms", "seconds": groups})
        if n == 100_000:
            plain, seconds_whole, numbers = _toolbox(y, mean, std)
            row |= {
                "toolbox": plain,
                "ratio": plain / seconds,
                "toolbox with groups": seconds_whole,
                "ratio of groups": (seconds_whole - plain) / groups,
                "ratio of all": seconds_whole / (seconds + groups),
                "largest difference": _differences(evaluation, numbers, y, prediction),
            }
    report(rows, ("uncertainty-toolbox",))


if __name__ == "__main__":
    main()
