"""scikit-learn: metrics of probabilities and of point predictions, and calibration of classifiers.

Its functions of hard labels other than accuracy and the confusion matrix, and those of clusterings,
rankings and distances between rows, judge no probabilities; ours have none of them.
"""

from __future__ import annotations

import numpy as np

import fastmcmd as fm
import fastmcmd.classification as c
from benchmarks.peers.functions.pairs import Pair, classes, events, regression
from fastmcmd import metrics
from fastmcmd import recalibration as rc

PACKAGES = ("scikit-learn",)
NO_COUNTERPART = {
    "average_precision_score, precision_recall_curve, det_curve, auc": "only the ROC curve and its area",
    "d2_absolute_error_score, d2_pinball_score, d2_tweedie_score, d2_log_loss_score, d2_brier_score": (
        "skill relative to a constant prediction is that of fm.compare"
    ),
    "explained_variance_score, max_error, mean_absolute_percentage_error": "not measures here",
    "mean_squared_log_error, mean_poisson_deviance, mean_gamma_deviance, mean_tweedie_deviance": (
        "log scores of distributions instead"
    ),
    "hinge_loss, f1_score, precision_score, recall_score, jaccard_score, ...": "of hard labels",
}


def with_weights(name, ours, theirs, y, prediction, weights):
    """Return pairs of two functions of outcomes and predictions, without and with weights of rows."""
    return {
        name: Pair(lambda: ours(y, prediction), lambda: theirs(y, prediction)),
        f"{name}, weights": Pair(
            lambda: ours(y, prediction, sample_weight=weights),
            lambda: theirs(y, prediction, sample_weight=weights),
        ),
    }


def pairs(rng, n):
    """Return pairs by name."""
    from sklearn import calibration
    from sklearn import metrics as sk
    from sklearn.isotonic import IsotonicRegression

    y, mean, std = regression(rng, n)
    vectors, predicted = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    weights = rng.random(n)
    event, p = events(rng, n)
    labels, many = classes(rng, n)
    scores = np.log(p / (1 - p))

    def fitted_sigmoid():
        return calibration._SigmoidCalibration().fit(scores, event)

    table = {
        **with_weights(
            "mean_absolute_error", metrics.mae, sk.mean_absolute_error, y, mean, weights
        ),
        **with_weights(
            "root_mean_squared_error", metrics.rmse, sk.root_mean_squared_error, y, mean, weights
        ),
        **with_weights("r2_score", metrics.r2, sk.r2_score, y, mean, weights),
        **with_weights("log_loss", c.nll, sk.log_loss, labels, many, weights),
        **with_weights("roc_auc_score, two classes", c.auroc, sk.roc_auc_score, event, p, weights),
        "mean_absolute_error, vectors": Pair(
            lambda: metrics.mae(vectors, predicted),
            lambda: sk.mean_absolute_error(vectors, predicted),
        ),
        "mean_squared_error": Pair(
            lambda: metrics.rmse(y, mean) ** 2, lambda: sk.mean_squared_error(y, mean)
        ),
        "median_absolute_error": Pair(
            lambda: metrics.median_absolute_error(y, mean),
            lambda: sk.median_absolute_error(y, mean),
        ),
        "median_absolute_error, weights": Pair(
            lambda: metrics.median_absolute_error(y, mean, sample_weight=weights),
            lambda: sk.median_absolute_error(y, mean, sample_weight=weights),
            rtol=1e-3,
            note="midpoints of weighted medians differ",
        ),
        "mean_pinball_loss": Pair(
            lambda: metrics.mean_check_score(
                y, fm.Quantiles([0.8], mean[:, None], tails="flat"), levels=[0.8]
            ),
            lambda: sk.mean_pinball_loss(y, mean, alpha=0.8),
        ),
        "roc_curve": Pair(
            lambda: metrics.roc_curve(y, (mean, std), threshold=0.5).area,
            lambda: sk.auc(*sk.roc_curve(y > 0.5, fm.Gaussian(mean, std).sf(np.full(n, 0.5)))[:2]),
            rtol=1e-7,
        ),
        "accuracy_score, two classes": Pair(
            lambda: c.accuracy(event, p), lambda: sk.accuracy_score(event, p > 0.5)
        ),
        "accuracy_score": Pair(
            lambda: c.accuracy(labels, many), lambda: sk.accuracy_score(labels, many.argmax(1))
        ),
        "zero_one_loss": Pair(
            lambda: 1 - c.accuracy(labels, many), lambda: sk.zero_one_loss(labels, many.argmax(1))
        ),
        "top_k_accuracy_score": Pair(
            lambda: c.top_k_accuracy(labels, many, k=3),
            lambda: sk.top_k_accuracy_score(labels, many, k=3),
        ),
        "confusion_matrix": Pair(
            lambda: c.confusion_matrix(labels, many),
            lambda: sk.confusion_matrix(labels, many.argmax(1)),
        ),
        "confusion_matrix, two classes": Pair(
            lambda: c.confusion_matrix(event, p), lambda: sk.confusion_matrix(event, p > 0.5)
        ),
        "log_loss, two classes": Pair(lambda: c.nll(event, p), lambda: sk.log_loss(event, p)),
        "brier_score_loss, two classes": Pair(
            lambda: c.mean_brier_score(event, p), lambda: sk.brier_score_loss(event, p)
        ),
        "brier_score_loss": Pair(
            lambda: c.mean_brier_score(labels, many),
            lambda: sk.brier_score_loss(labels, many, labels=np.arange(10)),
        ),
        "roc_auc_score": Pair(
            lambda: c.auroc(labels, many),
            lambda: sk.roc_auc_score(labels, many, multi_class="ovr"),
        ),
        "calibration_curve": Pair(
            lambda: c.reliability_curve(event, p, bins=10, closed="left"),
            lambda: calibration.calibration_curve(event, p, n_bins=10),
            value=lambda v: np.asarray(v if isinstance(v, tuple) else (v.accuracy, v.confidence)),
        ),
        "calibration_curve, quantile": Pair(
            lambda: c.reliability_curve(event, p, bins=10, binning="mass"),
            lambda: calibration.calibration_curve(event, p, n_bins=10, strategy="quantile"),
            value=lambda v: np.asarray(v if isinstance(v, tuple) else (v.accuracy, v.confidence)),
            rtol=2e-2,
            atol=2e-2,
            note="rows at edges",
        ),
        "IsotonicRegression of events": Pair(
            lambda: c.isotonic_reliability(event, p, resamples=1),
            lambda: IsotonicRegression(y_min=0, y_max=1).fit(p, event).predict(p),
            rtol=None,
            note="ours adds a decomposition of the score and a band",
        ),
        "IsotonicRegression of squares": Pair(
            lambda: rc.IsotonicStd(bins=None).fit((mean, std), y).transform((mean, std)).variance,
            lambda: IsotonicRegression().fit(std**2, (y - mean) ** 2).predict(std**2),
            rtol=1e-6,
        ),
        "CalibratedClassifierCV, sigmoid": Pair(
            lambda: rc.PlattScaling().fit(scores, event),
            fitted_sigmoid,
            value=lambda v: (v.slope_, v.intercept_) if hasattr(v, "slope_") else (-v.a_, -v.b_),
            rtol=1e-3,
            atol=1e-3,
        ),
    }
    if hasattr(calibration, "_TemperatureScaling"):
        logits = np.log(many)
        table["CalibratedClassifierCV, temperature"] = Pair(
            lambda: rc.TemperatureScaling().fit(logits, labels).temperature_,
            lambda: 1 / calibration._TemperatureScaling().fit(logits, labels).beta_,
            rtol=1e-4,
        )
    return table
