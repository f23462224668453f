"""Recalibrators against scikit-learn, SciPy, Uncertainty Toolbox, torch and netcal.

``python -m benchmarks.peers.recalibration [file.json]``
"""

from __future__ import annotations

import numpy as np
from scipy import special

import fastmcmd as fm
from benchmarks.peers.timing import best, peak_bytes, report
from fastmcmd import recalibration as rc


def regression(n):
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=n), rng.lognormal(sigma=0.4, size=n)
    return fm.Gaussian(mean, std), mean + std * (2 * rng.normal(size=n) + 0.3)


def classification(n, classes):
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(n, classes)).astype(np.float32)
    noise = -np.log(-np.log(rng.uniform(1e-12, 1, (n, classes))))
    return logits, (logits / 2 + noise).argmax(axis=1)


def fits(n):
    """Return seconds and memory of our fits, and of the first use of each fit."""
    prediction, y = regression(n)
    for make in (
        rc.StdScaling,
        rc.StdRatio,
        rc.IsotonicCDF,
        lambda: rc.IsotonicCDF(knots=None),
        rc.QuantileRecalibrator,
        rc.IntervalRecalibrator,
        rc.HistogramBinningStd,
        rc.IsotonicStd,
        lambda: rc.ConformalIntervals(0.9, "cqr"),
    ):
        seconds, calibrator = best(lambda make=make: make().fit(prediction, y), 3)
        row = {
            "what": repr(calibrator).partition(",")[0].partition("(")[0],
            "n": n,
            "ours": seconds,
        }
        row["peak MB"] = peak_bytes(lambda make=make: make().fit(prediction, y)) / 2**20
        if isinstance(calibrator, rc.Recalibrator):
            mended = calibrator.transform(prediction)
            row["cdf"] = best(lambda mended=mended: mended.cdf(y), 3)[0]
            row["mean and std"] = best(
                lambda calibrator=calibrator: (lambda p: (p.mean, p.std))(
                    calibrator.transform(prediction)
                ),
                3,
            )[0]
        yield row


def isotonic(n):
    from sklearn.isotonic import IsotonicRegression

    prediction, y = regression(n)
    variance, square = prediction.variance, (y - prediction.mean) ** 2
    ours, calibrator = best(lambda: rc.IsotonicStd(bins=None).fit(prediction, y), 3)
    theirs, theirs_fitted = best(lambda: IsotonicRegression().fit(variance, square), 3)
    off = np.abs(calibrator.transform(prediction).variance - theirs_fitted.predict(variance)).max()
    yield {
        "what": "isotonic regression of squares",
        "n": n,
        "ours": ours,
        "peer": theirs,
        "of": "sklearn",
        "apart": off,
    }
    pit = prediction.cdf(y)
    share = (np.argsort(np.argsort(pit)) + 0.5) / n
    ours, _ = best(lambda: rc.IsotonicCDF(knots=None).fit(prediction, y), 3)
    theirs, _ = best(lambda: IsotonicRegression(out_of_bounds="clip").fit(pit, share), 3)
    yield {
        "what": "isotonic CDF, PIT included (peer: not)",
        "n": n,
        "ours": ours,
        "peer": theirs,
        "of": "sklearn",
    }


def toolbox(n):
    from uncertainty_toolbox import recalibration as uct

    prediction, y = regression(n)
    arrays = prediction.mean, prediction.std, y
    for ours, theirs in (
        (rc.QuantileRecalibrator, uct.get_quantile_recalibrator),
        (rc.IntervalRecalibrator, uct.get_interval_recalibrator),
        (rc.StdRatio, uct.optimize_recalibration_ratio),
    ):
        one = best(lambda ours=ours: ours().fit(prediction, y), 3)[0]
        two = best(lambda theirs=theirs: theirs(*arrays), 1, warm=0)[0]
        yield {"what": ours.__name__, "n": n, "ours": one, "peer": two, "of": "uct"}


def temperature(n, classes):
    import torch
    from netcal.scaling import TemperatureScaling

    logits, y = classification(n, classes)
    ours, calibrator = best(lambda: rc.TemperatureScaling().fit(logits, y), 3)

    def lbfgs():
        log_t = torch.zeros((), requires_grad=True)
        optimiser = torch.optim.LBFGS([log_t], max_iter=50, line_search_fn="strong_wolfe")
        inputs, labels = torch.tensor(logits), torch.tensor(y)

        def closure():
            optimiser.zero_grad()
            value = torch.nn.functional.cross_entropy(inputs / log_t.exp(), labels)
            value.backward()
            return value

        optimiser.step(closure)
        return float(log_t.detach().exp())

    theirs, peer_value = best(lbfgs, 2)
    label = f"temperature, {classes} classes"
    off = abs(peer_value - calibrator.temperature_)
    yield {"what": label, "n": n, "ours": ours, "peer": theirs, "of": "torch", "apart": off}
    p = special.softmax(logits, axis=1)
    theirs, fitted = best(lambda: TemperatureScaling().fit(p, y), 1, warm=0)
    # netcal 1.4.0 returns its starting point, T = 1: what it takes is no fit.
    off = abs(1 / float(np.ravel(fitted.weights)[0]) - calibrator.temperature_)
    yield {"what": label, "n": n, "ours": ours, "peer": theirs, "of": "netcal", "apart": off}


if __name__ == "__main__":
    rows = [*fits(10**6), *isotonic(10**6), *toolbox(10**4), *temperature(2 * 10**4, 100)]
    for row in rows:
        if "peer" in row:
            row["times"] = row["peer"] / row["ours"]
    report(rows, ("scikit-learn", "uncertainty-toolbox", "torch", "netcal"))
