"""Standard deviations drawn at random: recalibrated distributions look calibrated and say nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import Claim, Experiment, over_seeds, spread, verdict
from examples.papers.pictures import axes_of, save

_N, _SECOND = 20_000, 6_000  # rows in all, and for recalibration


def _models(seed: int) -> tuple[np.ndarray, dict[str, fm.Predictive]]:
    """Return outcomes and predictions of the test rows."""
    data = fm.datasets.proportional_noise(_N, seed)
    std = np.random.default_rng(seed + 10_000).uniform(1, 10, _N)  # independent of x
    first, second = np.arange(_SECOND), np.arange(_SECOND, _N)
    random = fm.Gaussian(data.x, std)
    y, calibration = data.y, random.take(first)
    models = {"true stds": data.truth.take(second), "random stds": random.take(second)}
    for name, method in (
        ("isotonic cdf", fm.recalibration.IsotonicCDF()),
        ("std scaling", fm.recalibration.StdScaling()),
    ):
        fitted = method.fit(calibration, y[first])
        models[name] = fitted.transform(models["random stds"])
    return y[second], models


def _numbers(seed: int) -> dict[str, float]:
    y, models = _models(seed)
    numbers = {}
    for name, model in models.items():
        numbers[f"ece {name}"] = fm.regression_ece(y, model)
        numbers[f"ence {name}"] = fm.ence(y, model)
        numbers[f"cv {name}"] = float(model.std.std() / model.std.mean())
    numbers["null"] = float(fm.metrics.null_ence(y, models["isotonic cdf"]))
    return numbers


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of section 3."""
    runs = over_seeds(_numbers, seeds)
    if picture is not None:
        _draw(picture)
    return [
        Claim(
            "Isotonic recalibration of the cdf makes random uncertainties look calibrated",
            f"ECE {spread(runs['ece random stds'])} before, {spread(runs['ece isotonic cdf'])} after",
            f"ECE {spread(runs['ece true stds'])}",
            verdict(runs["ece isotonic cdf"] < 0.02),
        ),
        Claim(
            "ENCE shows that they still say nothing about the error",
            f"ENCE {spread(runs['ence isotonic cdf'])} after; by chance {spread(runs['null'])}",
            f"ENCE {spread(runs['ence true stds'])}",
            verdict(runs["ence isotonic cdf"] > 5 * runs["null"]),
        ),
        Claim(
            "Scaling the standard deviations does not mend them either: their dispersion c_v stays",
            f"ENCE {spread(runs['ence std scaling'])}, c_v {spread(runs['cv std scaling'])} "
            f"(before: {spread(runs['cv random stds'])})",
            f"c_v {spread(runs['cv true stds'])}",
            verdict(
                runs["ence std scaling"] > 5 * runs["null"],
                np.abs(runs["cv std scaling"] - runs["cv random stds"]) < 1e-6,
            ),
        ),
    ]


def _draw(path: Path) -> None:
    y, models = _models(0)
    figure, (left, right) = axes_of(2)
    for name, model in models.items():
        curve = fm.metrics.reliability_curve(y, model)
        left.plot(curve.expected, curve.observed, label=name)
        variances = fm.metrics.ence_curve(y, model)
        right.loglog(variances.rmv, variances.rmse, marker="o", label=name)
    left.set(xlabel="predicted probability", ylabel="observed frequency", title="quantiles")
    right.set(
        xlabel="root mean variance of a bin",
        ylabel="root mean squared error",
        title="uncertainties",
    )
    save(figure, path)


EXPERIMENT = Experiment(
    "random_uncertainty", "Calibrated quantiles from random uncertainties",
    "Levi et al., arXiv 1905.11659, section 3", run, seeds=5,
)  # fmt: skip
