"""netcal: metrics, binning, scaling, and recalibration of regression."""

from __future__ import annotations

import numpy as np

import fastmcmd.classification as c
from benchmarks.peers.functions.pairs import Pair, classes, events, regression
from fastmcmd import metrics
from fastmcmd import recalibration as rc

PACKAGES = ("netcal",)
NO_COUNTERPART = {
    "MMCE": "the kernel error of confidences; cce is its conditional form",
    "NearIsotonicRegression": "a member of ENIR",
    "LogisticCalibrationDependent, BetaCalibrationDependent": "of detections",
    "regression.GPBeta, GPCauchy, GPNormal": "Gaussian processes; ConditionalRescaling instead",
}
LEVELS = np.linspace(0.05, 0.95, 19)


def pairs(rng, n):
    """Return pairs by name."""
    from netcal import binning, scaling
    from netcal import metrics as nm
    from netcal import regression as nr

    y, mean, std = regression(rng, n)
    event, p = events(rng, n)
    labels, many = classes(rng, n)
    other = "another definition of bins"

    def fitted(ours, theirs, largest=10**6, note="another prior or stopping rule"):
        return Pair(
            lambda: ours().fit(p, event),
            lambda: theirs().fit(p, event),
            rtol=None,
            note=note,
            largest=largest,
        )

    scores = np.log(p / (1 - p))
    return {
        "ECE, two classes": Pair(
            lambda: c.ece(event, p, bins=15, of="positive"), lambda: nm.ECE(15).measure(p, event)
        ),
        "ECE": Pair(lambda: c.ece(labels, many, bins=15), lambda: nm.ECE(15).measure(many, labels)),
        "MCE": Pair(lambda: c.mce(labels, many, bins=15), lambda: nm.MCE(15).measure(many, labels)),
        "ACE": Pair(
            lambda: c.ece(labels, many, bins=15, binning="mass"),
            lambda: nm.ACE(15).measure(many, labels),
            rtol=None,
            note="ACE has bins of even width and even weights",
        ),
        "ENCE": Pair(
            lambda: metrics.ence(y, (mean, std), 10, binning="width"),
            lambda: nm.ENCE(10).measure((mean, std), y),
            rtol=None,
            note=other,
        ),
        "UCE": Pair(
            lambda: metrics.uce(y, (mean, std), 10),
            lambda: nm.UCE(10).measure((mean, std), y),
            rtol=None,
            note=other,
        ),
        "QCE": Pair(
            lambda: metrics.qce(y, (mean, std), LEVELS, 10, binning="width"),
            lambda: nm.QCE(10).measure((mean, std), y, LEVELS),
            rtol=None,
            note=other,
        ),
        "NLL": Pair(lambda: metrics.nll(y, (mean, std)), lambda: nm.NLL().measure((mean, std), y)),
        "PinballLoss": Pair(
            lambda: metrics.mean_check_score(y, (mean, std), levels=LEVELS),
            lambda: nm.PinballLoss().measure((mean, std), y, LEVELS),
            rtol=None,
            note="its weights depend on central intervals",
        ),
        "PICP": Pair(
            lambda: (
                metrics.coverage(y, (mean, std), LEVELS),
                metrics.mean_interval_width(y, (mean, std), LEVELS),
            ),
            lambda: nm.PICP().measure((mean, std), y, LEVELS),
            rtol=None,
            note="means over levels there",
        ),
        "scaling.LogisticCalibration": Pair(
            lambda: rc.PlattScaling().fit(scores, event),
            lambda: scaling.LogisticCalibration().fit(p, event),
            rtol=None,
            note="logits there from probabilities",
        ),
        "scaling.BetaCalibration": fitted(rc.BetaCalibration, scaling.BetaCalibration),
        "scaling.TemperatureScaling": Pair(
            lambda: rc.TemperatureScaling().fit(np.log(many), labels),
            lambda: scaling.TemperatureScaling().fit(many, labels),
            rtol=None,
            note="theirs may return its start",
        ),
        "binning.BBQ": fitted(rc.BayesianBinning, binning.BBQ),
        "binning.ENIR": fitted(rc.NearIsotonicEnsemble, binning.ENIR, 1_000),
        "binning.HistogramBinning": Pair(
            lambda: c.reliability_curve(event, p, bins=10, of="positive").accuracy,
            lambda: binning.HistogramBinning(10).fit(p, event),
            rtol=None,
            note="the frequencies of bins are the map",
        ),
        "binning.IsotonicRegression": Pair(
            lambda: c.isotonic_reliability(event, p, resamples=1, of="positive"),
            lambda: binning.IsotonicRegression().fit(p, event),
            rtol=None,
            note="ours adds a decomposition of the score and a band",
        ),
        "regression.IsotonicRegression": Pair(
            lambda: rc.IsotonicCDF().fit((mean, std), y),
            lambda: nr.IsotonicRegression().fit((mean, std), y),
            rtol=None,
            largest=1_000,
            note="ours keeps fewer knots",
        ),
        "regression.VarianceScaling": Pair(
            lambda: rc.StdScaling().fit((mean, std), y),
            lambda: nr.VarianceScaling().fit((mean, std), y),
            rtol=None,
            note="the factor has a closed form; it does not check that values are finite",
        ),
    }
