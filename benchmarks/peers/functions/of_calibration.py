"""relplot and uncertainty-calibration: binned calibration errors of probabilities, and Platt scaling."""

from __future__ import annotations

import numpy as np

import fastmcmd.classification as c
from benchmarks.peers.functions.pairs import Pair, classes, events
from fastmcmd import recalibration as rc

PACKAGES = ("relplot", "uncertainty-calibration")
NO_COUNTERPART = {
    "relplot.smECE, smECE_sigma, smooth_ece": "smoothed by a kernel; cce has no bins either",
    "relplot.intCE_rand, laplace_calibration_approx": "other distances to calibration",
    "calibration.get_calibration_error(debias=True), bootstrap_*": "no debiased squared error here",
    "calibration.get_accuracy": "raises NameError in version 0.1.4",
    "calibration.HistogramCalibrator, PlattBinnerCalibrator": "BayesianBinning averages such binnings",
}


def pairs(rng, n):
    """Return pairs by name."""
    import calibration
    import relplot

    event, p = events(rng, n)
    labels, many = classes(rng, n)
    scores = np.log(p / (1 - p))
    return {
        "relplot.binnedECE": Pair(
            lambda: c.ece(event, p, bins=10, of="positive"),
            lambda: relplot.metrics.binnedECE(p, event, 10),
            rtol=1e-6,
            atol=1e-6,
            note="it does not check its input",
        ),
        "calibration.get_ece": Pair(
            lambda: c.ece(labels, many, bins=15),
            lambda: calibration.get_ece(many, labels, num_bins=15),
        ),
        "calibration.get_ece_em": Pair(
            lambda: c.ece(labels, many, bins=15, binning="mass"),
            lambda: calibration.get_ece_em(many, labels, num_bins=15),
            rtol=5e-2,
            note="rows at edges of bins",
        ),
        "calibration.get_calibration_error, marginal": Pair(
            lambda: c.classwise_ece(labels, many, bins=15, binning="mass", norm="l2"),
            lambda: calibration.get_calibration_error(many, labels, debias=False),
            rtol=None,
            note="another mean over classes",
        ),
        "calibration.get_platt_scaler": Pair(
            lambda: rc.PlattScaling(smooth=False).fit(scores, event),
            lambda: calibration.get_platt_scaler(p, event),
            rtol=None,
            note="a regularised fit there",
        ),
    }
