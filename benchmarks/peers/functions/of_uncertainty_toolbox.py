"""Uncertainty Toolbox: our functions, and our drop-in module where it takes the same arguments."""

from __future__ import annotations

from functools import partial

import numpy as np

import fastmcmd as fm
from benchmarks.peers.functions.pairs import Pair, regression
from fastmcmd import metrics
from fastmcmd import recalibration as rc
from fastmcmd.compat import uncertainty_toolbox as drop_in

PACKAGES = ("uncertainty-toolbox",)
NO_COUNTERPART = {
    "trapezoid_area": "a helper of its miscalibration area",
    "get_q_idx": "a helper of its recalibrators",
}
REVERSED = "its sign of residuals is reversed"
LEVELS = np.linspace(0, 1, 100)
SCORE_LEVELS = np.linspace(0.01, 0.99, 99)


def _errors(y, mean):
    return [
        f(y, mean)
        for f in (
            metrics.mae,
            metrics.rmse,
            metrics.median_absolute_error,
            metrics.marpd,
            metrics.r2,
            metrics.pearson,
        )
    ]


def pairs(rng, n):
    """Return pairs by name."""
    import uncertainty_toolbox.metrics_accuracy as accuracy
    import uncertainty_toolbox.metrics_calibration as calibration
    import uncertainty_toolbox.metrics_scoring_rule as scoring
    import uncertainty_toolbox.recalibration as recalibration

    y, mean, std = regression(rng, n)
    three = mean, std, y
    table = {
        "prediction_error_metrics": Pair(
            lambda: _errors(y, mean),
            lambda: accuracy.prediction_error_metrics(mean, y),
            value=lambda v: list(v.values()) if isinstance(v, dict) else v,
        ),
        "get_proportion_in_interval": Pair(
            lambda: metrics.coverage(y, (mean, std), 0.8),
            lambda: calibration.get_proportion_in_interval(*three, 0.8),
            atol=2 / n,
        ),
        "get_proportion_under_quantile": Pair(
            lambda: metrics.reliability_curve(y, (mean, std), [0.8]).observed[0],
            lambda: calibration.get_proportion_under_quantile(*three, 0.8),
            rtol=None,
            note=REVERSED,
        ),
        "get_quantile": Pair(
            lambda: fm.Gaussian(mean, std).quantile(0.8),
            lambda: calibration.get_quantile(mean, std, 0.8),
        ),
        "sharpness": Pair(
            lambda: metrics.sharpness(y, (mean, std)),
            lambda: calibration.sharpness(std),
            note="it reads and checks only std",
        ),
        "nll_gaussian": Pair(
            lambda: metrics.nll(y, (mean, std)), lambda: scoring.nll_gaussian(*three)
        ),
        "crps_gaussian": Pair(
            lambda: metrics.mean_crps(y, (mean, std)), lambda: scoring.crps_gaussian(*three)
        ),
        "check_score": Pair(
            lambda: metrics.mean_check_score(y, (mean, std), levels=SCORE_LEVELS),
            lambda: scoring.check_score(*three),
        ),
        "interval_score": Pair(
            lambda: metrics.mean_interval_score(y, (mean, std), level=SCORE_LEVELS),
            lambda: scoring.interval_score(*three),
        ),
        "optimize_recalibration_ratio": Pair(
            lambda: rc.StdRatio().fit((mean, std), y).ratio_,
            lambda: recalibration.optimize_recalibration_ratio(*three),
            rtol=None,
            note="ours finds the best ratio, theirs a local one",
            largest=1_000,
        ),
        "adversarial_group_calibration": Pair(
            lambda: metrics.adversarial_group_calibration(y, (mean, std)),
            lambda: calibration.adversarial_group_calibration(*three, "mean_abs"),
            rtol=None,
            note="random groups",
            largest=1_000,
        ),
        "get_quantile_recalibrator": Pair(
            lambda: rc.QuantileRecalibrator().fit((mean, std), y),
            lambda: recalibration.get_quantile_recalibrator(*three),
            rtol=None,
            note="compared in the drop-in module",
        ),
        "get_interval_recalibrator": Pair(
            lambda: rc.IntervalRecalibrator().fit((mean, std), y),
            lambda: recalibration.get_interval_recalibrator(*three),
            rtol=None,
            note="compared in the drop-in module",
        ),
    }
    for theirs, ours in (
        ("root_mean_squared_calibration_error", metrics.rms_calibration_error),
        ("mean_absolute_calibration_error", metrics.mean_absolute_calibration_error),
        ("miscalibration_area", metrics.miscalibration_area),
    ):
        for vectorized in (False, True):
            table[f"{theirs}{', vectorized' if vectorized else ''}"] = Pair(
                lambda ours=ours: ours(y, (mean, std), LEVELS),
                partial(getattr(calibration, theirs), *three, vectorized=vectorized),
                rtol=1e-6,
                atol=2 / n,
            )
    for kind in ("interval", "quantile"):
        table[f"get_proportion_lists_vectorized, {kind}"] = Pair(
            lambda kind=kind: metrics.reliability_curve(y, (mean, std), LEVELS, kind=kind).observed,
            lambda kind=kind: calibration.get_proportion_lists_vectorized(*three, prop_type=kind)[
                1
            ],
            rtol=1e-9 if kind == "interval" else None,
            atol=2 / n,
            note="" if kind == "interval" else REVERSED,
        )
    return table | _drop_in(mean, std, y)


def _drop_in(mean, std, y):
    import uncertainty_toolbox.metrics_accuracy as accuracy
    import uncertainty_toolbox.metrics_calibration as calibration
    import uncertainty_toolbox.metrics_scoring_rule as scoring
    import uncertainty_toolbox.recalibration as recalibration

    n, three = len(y), (mean, std, y)
    expected, observed = calibration.get_proportion_lists_vectorized(
        mean[:1000], std[:1000], y[:1000]
    )
    calls = [
        (accuracy, "metrics_accuracy", "prediction_error_metrics", (mean, y)),
        (calibration, "metrics_calibration", "sharpness", (std,)),
        (calibration, "metrics_calibration", "root_mean_squared_calibration_error", three),
        (calibration, "metrics_calibration", "mean_absolute_calibration_error", three),
        (calibration, "metrics_calibration", "miscalibration_area", three),
        (
            calibration,
            "metrics_calibration",
            "miscalibration_area_from_proportions",
            (expected, observed),
        ),
        (calibration, "metrics_calibration", "get_proportion_lists", three),
        (calibration, "metrics_calibration", "get_proportion_lists_vectorized", three),
        (calibration, "metrics_calibration", "get_proportion_in_interval", (*three, 0.8)),
        (calibration, "metrics_calibration", "get_proportion_under_quantile", (*three, 0.8)),
        (calibration, "metrics_calibration", "get_prediction_interval", (mean, std, 0.8)),
        (calibration, "metrics_calibration", "get_quantile", (mean, std, 0.8)),
        (scoring, "metrics_scoring_rule", "nll_gaussian", three),
        (scoring, "metrics_scoring_rule", "crps_gaussian", three),
        (scoring, "metrics_scoring_rule", "check_score", three),
        (scoring, "metrics_scoring_rule", "interval_score", three),
        (recalibration, "recalibration", "iso_recal", (expected, observed)),
        (recalibration, "recalibration", "get_quantile_recalibrator", three),
        (recalibration, "recalibration", "get_interval_recalibrator", three),
    ]

    def value(result):
        if isinstance(result, dict):
            return list(result.values())
        if hasattr(result, "lower"):
            return [result.lower, result.upper]
        if hasattr(result, "predict"):
            return result.predict(LEVELS)
        if callable(result):
            bounds = result(mean, std, 0.8)
            return [bounds.lower, bounds.upper] if hasattr(bounds, "lower") else bounds
        return result

    return {
        f"drop-in: {name}": Pair(
            partial(getattr(getattr(drop_in, module), name), *arguments),
            partial(getattr(theirs, name), *arguments),
            rtol=None
            if name in ("get_proportion_under_quantile", "get_quantile_recalibrator")
            else 1e-6,
            atol=2 / n,
            value=value,
            note=REVERSED
            if name in ("get_proportion_under_quantile", "get_quantile_recalibrator")
            else "",
        )
        for theirs, module, name, arguments in calls
    }
