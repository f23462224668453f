"""The numbers of an evaluation, one `Measure` each. To add one, add a line to `MEASURES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from fastmcmd import classification, metrics
from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.nulls import null_expectations
from fastmcmd.evaluation.result import NO_CLASSES, NO_ORDER
from fastmcmd.metrics.reliability_sums import ECE_LEVELS

__all__ = [
    "ALL_MEASURES",
    "CONGRUENCE",
    "MEAN_SCORES",
    "MEASURES",
    "ON_REQUEST",
    "SCORES",
    "Measure",
]

Reason = str | None
Number = Callable[[Context], float]


@dataclass(frozen=True)
class Measure:
    """One number of an evaluation.

    Attributes
    ----------
    name : str
        Name of the function of `fastmcmd.metrics` that returns the same number.
    section, label, best : str
        As in `Measured`.
    compute : callable (Context) -> float
        Returns the number.
    missing : callable (Context) -> str or None
        Returns the reason why the measure does not apply, or None.
    """

    name: str
    section: str
    label: str
    best: str
    compute: Number
    missing: Callable[[Context], Reason]

    def titled(self, level: float) -> str:
        """Return the label, with the level of the interval if the number depends on it."""
        return f"{self.label} ({100 * level:g} %)" if self.name in AT_LEVEL else self.label


# Functions that return why a measure does not apply, or None.


def _classes(context: Context) -> Reason:
    return None if context.nominal else NO_CLASSES


def _two_classes(context: Context) -> Reason:
    reason = _classes(context)
    if reason is None and not (context.y != context.y[0]).any():
        return "all outcomes are of one class"
    return reason


def _unless_ordered(context: Context) -> Reason:
    return NO_ORDER if context.nominal else None


def _numbers(context: Context) -> Reason:
    return _unless_ordered(context) or (None if context.numbers else "outputs are vectors")


def _drawn_vectors(context: Context) -> Reason:
    if context.numbers:
        return "outputs are numbers"
    return _unless_ordered(context) or (None if context.has_draws else "it needs draws")


def _density(context: Context) -> Reason:
    return None if context.base.has_density else "the prediction has no density"


def _means(context: Context) -> Reason:
    if (reason := _unless_ordered(context)) is not None:
        return reason
    return None if context.finite_means else "a predicted mean is not finite"


def _variances(context: Context) -> Reason:
    if (reason := _numbers(context)) is not None:
        return reason
    return None if context.finite_deviations else "a predicted variance is not finite"


def _spread(context: Context) -> Reason:
    return _numbers(context) or _means(context) or context.spread


def _width(context: Context) -> Reason:
    return _numbers(context) or _means(context) or context.width


def _several(context: Context) -> Reason:
    total = len(context.y) if context.weights is None else context.weights.sum()
    return _width(context) or (None if total > 1 else "there is one row")


def _varied(context: Context) -> Reason:
    constant = bool((np.ptp(context.y, axis=0) == 0).any())
    return _means(context) or ("y is constant" if constant else None)


def _correlated(context: Context) -> Reason:
    reason = _varied(context)
    if reason is None and (np.ptp(context.prediction.mean, axis=0) == 0).any():
        return "the predicted mean is constant"
    return reason


def _inputs(context: Context) -> Reason:
    return None if context.cce is not None else "no inputs x were given"


def _answers(score: str, *conditions: Callable[[Context], Reason]) -> Callable[[Context], Reason]:
    """Return a function that also returns the message of an error of a score."""

    def reason(context: Context) -> Reason:
        for condition in conditions:
            if (missing := condition(context)) is not None:
                return missing
        try:
            SCORES[score](context)
        except ValueError as error:
            return str(error)
        return None

    return reason


# Functions that compute a number.


def _of(function: Callable[..., Any]) -> Number:
    """Return a function that applies a metric to the cached prediction."""
    return lambda context: float(function(context.rows, None))


def _at_level(function: Callable[..., Any]) -> Number:
    """Return a function that applies a metric of central intervals at the requested level."""

    def compute(context: Context) -> float:
        context.quantile_scores()
        return float(function(context.rows, None, level=context.settings.level))

    return compute


def _of_classes(function: Callable[..., Any]) -> Number:
    """Return a measure of a classification."""
    return lambda context: float(function(cast(Any, context.labelled), context.labelled.p))


def _area(context: Context) -> float:
    """Return the area under the ROC curve, averaged over the classes that some rows have and others not."""
    rows = context.labelled
    return float(classification.auroc(cast(Any, rows), rows.p, absent="omit"))


def _class_mean(name: str) -> Number:
    """Return the mean of a value that each row of a classification has."""
    return lambda context: context.mean(context.of_classes(name))


def _mean(name: str) -> Number:
    """Return a function that averages a per-row score."""
    return lambda context: context.mean(SCORES[name](context))


def _curve(attribute: str) -> Number:
    """Return a function for a number of the reliability curve of central intervals, as the Toolbox does."""
    return lambda context: float(getattr(context.reliability("interval"), attribute))


def _congruence(summary: Callable[[Context, Any], Any]) -> Number:
    return lambda context: float(summary(context, context.cce))


SCORES: dict[str, Callable[[Context], Any]] = {
    "log_score": lambda c: c.score("log_score", metrics.log_score),
    "crps": lambda c: c.crps(),
    "check_score": lambda c: c.quantile_scores()["check_score"],
    "interval_score": lambda c: c.quantile_scores()["interval_score"],
    "weighted_interval_score": lambda c: c.quantile_scores()["weighted_interval_score"],
    "dawid_sebastiani": lambda c: c.score("dawid_sebastiani", metrics.dawid_sebastiani),
    "energy_score": lambda c: c.score("energy_score", metrics.energy_score),
    "variogram_score": lambda c: c.score("variogram_score", metrics.variogram_score),
    "brier_score": lambda c: c.of_classes("brier_score"),
    "gaussian_kernel_score": lambda c: c.score(
        "gaussian_kernel_score", metrics.gaussian_kernel_score
    ),
    "quadratic_score": lambda c: c.score("quadratic_score", metrics.quadratic_score),
    "linearized_log_score": lambda c: c.score("linearized_log_score", metrics.linearized_log_score),
    "error_spread_score": lambda c: c.score("error_spread_score", metrics.error_spread_score),
    "ensemble_log_score": lambda c: c.score("ensemble_log_score", metrics.ensemble_log_score),
}

# Measures that are means of a per-row score.
MEAN_SCORES = {"nll": "log_score"} | {
    f"mean_{name}": name for name in SCORES if name != "log_score"
}

_ACCURACY, _SCORES, _CALIBRATION = "accuracy", "scores", "calibration"
_SHARPNESS, _CONGRUENCE = "sharpness", "congruence"
_MAE50, _AREA = "median_absolute_error", "miscalibration_area"

# fmt: off
MEASURES = (
    Measure("mae", _ACCURACY, "mean absolute error", "low", _of(metrics.mae), _means),
    Measure("rmse", _ACCURACY, "root mean squared error", "low", _of(metrics.rmse), _means),
    Measure(_MAE50, _ACCURACY, "median absolute error", "low", lambda c: c.median_error(), _means),
    Measure("marpd", _ACCURACY, "MARPD, %", "low", _of(metrics.marpd), _means),
    Measure("bias", _ACCURACY, "bias", "zero", _of(metrics.bias), _means),
    Measure("r2", _ACCURACY, "R²", "high", _of(metrics.r2), _varied),
    Measure("pearson", _ACCURACY, "Pearson correlation", "high", _of(metrics.pearson), _correlated),
    Measure("accuracy", _ACCURACY, "accuracy", "high", _class_mean("hit"), _classes),
    Measure("auroc", _ACCURACY, "area under the ROC curve", "high",
            _area, _two_classes),
    Measure("nll", _SCORES, "negative log-likelihood", "low", _mean("log_score"), _density),
    Measure("mean_crps", _SCORES, "CRPS", "low", _mean("crps"), _numbers),
    Measure("mean_check_score", _SCORES, "check score", "low", _mean("check_score"), _numbers),
    Measure("mean_interval_score", _SCORES, "interval score", "low", _mean("interval_score"), _numbers),
    Measure("mean_weighted_interval_score", _SCORES, "weighted interval score", "low",
            _mean("weighted_interval_score"), _numbers),
    Measure("mean_dawid_sebastiani", _SCORES, "Dawid-Sebastiani score", "low",
            _mean("dawid_sebastiani"), _width),
    Measure("mean_energy_score", _SCORES, "energy score", "low", _mean("energy_score"), _drawn_vectors),
    Measure("mean_variogram_score", _SCORES, "variogram score", "low",
            _mean("variogram_score"), _drawn_vectors),
    Measure("mean_brier_score", _SCORES, "Brier score", "low", _mean("brier_score"), _classes),
    Measure("ece", _CALIBRATION, "calibration error of the likeliest class", "zero",
            _of_classes(classification.ece), _classes),
    Measure("classwise_ece", _CALIBRATION, "calibration error, mean over classes", "zero",
            _of_classes(classification.classwise_ece), _classes),
    Measure("regression_ece", _CALIBRATION, "expected calibration error", "zero",
            lambda c: c.reliability("quantile", ECE_LEVELS).ece(), _numbers),
    Measure("rms_calibration_error", _CALIBRATION, "RMS calibration error", "zero",
            _curve("rms_calibration_error"), _numbers),
    Measure("mean_absolute_calibration_error", _CALIBRATION, "mean absolute calibration error", "zero",
            _curve("mean_absolute_calibration_error"), _numbers),
    Measure(_AREA, _CALIBRATION, "miscalibration area", "zero", _curve(_AREA), _numbers),
    Measure("coverage", _CALIBRATION, "coverage of the central interval", "",
            _at_level(metrics.coverage), _numbers),
    Measure("ence", _CALIBRATION, "ENCE", "zero", lambda c: c.variance_curve.ence, _spread),
    Measure("null_ence", _CALIBRATION, "ENCE expected if calibrated", "",
            lambda c: null_expectations(c, ["ence"])["ence"], _spread),
    Measure("uce", _CALIBRATION, "uncertainty calibration error", "zero",
            lambda c: c.variance_curve.uce, _spread),
    Measure("sharpness", _SHARPNESS, "root mean variance", "", _of(metrics.sharpness), _variances),
    Measure("confidence", _SHARPNESS, "mean confidence", "", _class_mean("confidence"), _classes),
    Measure("entropy", _SHARPNESS, "mean entropy, nats", "", _class_mean("entropy"), _classes),
    Measure("mean_interval_width", _SHARPNESS, "mean width of the central interval", "",
            _at_level(metrics.mean_interval_width), _numbers),
    Measure("variance_variation", _SHARPNESS, "variation of predicted std (c_v)", "",
            _of(metrics.variance_variation), _several),
    Measure("mean_cce", _CONGRUENCE, "CCE, mean", "zero", _congruence(lambda c, v: c.mean(v)), _inputs),
    Measure("max_cce", _CONGRUENCE, "CCE, largest", "zero", _congruence(lambda c, v: v.max()), _inputs),
)

# Measures that `fastmcmd.evaluate` computes only if ``measures`` names them.
ON_REQUEST = (
    Measure("mean_gaussian_kernel_score", _SCORES, "Gaussian kernel score", "low",
            _mean("gaussian_kernel_score"), _answers("gaussian_kernel_score", _unless_ordered)),
    Measure("mean_quadratic_score", _SCORES, "quadratic score", "low",
            _mean("quadratic_score"), _answers("quadratic_score", _numbers, _density)),
    Measure("mean_linearized_log_score", _SCORES, "linearized log score", "low",
            _mean("linearized_log_score"), _answers("linearized_log_score", _unless_ordered, _density)),
    Measure("mean_error_spread_score", _SCORES, "error-spread score", "low",
            _mean("error_spread_score"), _answers("error_spread_score", _numbers)),
    Measure("mean_ensemble_log_score", _SCORES, "log score of the ensemble", "low",
            _mean("ensemble_log_score"), _answers("ensemble_log_score", _numbers)),
)
# fmt: on
_SECTIONS = tuple(dict.fromkeys(one.section for one in MEASURES))
ALL_MEASURES = tuple(sorted((*MEASURES, *ON_REQUEST), key=lambda one: _SECTIONS.index(one.section)))
AT_LEVEL = ("mean_interval_score", "coverage", "mean_interval_width")  # depend on ``level``
CONGRUENCE = tuple(one.name for one in MEASURES if one.section == _CONGRUENCE)
