"""Standard deviations drawn at random: recalibrated distributions look calibrated and say nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import Claim, Experiment, added, over_seeds, spread, verdict
from examples.papers.heads import parameters, prediction
from examples.papers.pictures import axes_of, diagonal, plain_logarithms, save
from examples.papers.stored import stacks_of

_N, _SECOND = 50_000, 6_000  # rows in all, and for recalibration
_TESTED = 1_000  # rows of the test and the CCE given the forecast
_HEAVY = 20_000  # rows with Cauchy outcomes


def _models(seed: int) -> tuple[np.ndarray, dict[str, fm.Predictive]]:
    """Return outcomes and predictions of the test rows."""
    data = fm.datasets.proportional_noise(_N, seed)
    std = np.random.default_rng(seed + 10_000).uniform(1, 10, _N)  # independent of x
    first, second = np.arange(_SECOND), np.arange(_SECOND, _N)
    random = fm.Gaussian(data.x, std)
    y, calibration = data.y, random.take(first)
    models = {"true stds": data.truth.take(second), "random stds": random.take(second)}
    models["trained stds"] = _trained(seed, data.x[second])
    for name, method in (
        ("isotonic cdf", fm.recalibration.IsotonicCDF()),
        ("std scaling", fm.recalibration.StdScaling()),
    ):
        fitted = method.fit(calibration, y[first])
        models[name] = fitted.transform(models["random stds"])
    return y[second], models


def _trained(trial: int, x: np.ndarray) -> fm.Predictive:
    """Return what the network of `train_uncertainties` predicts."""
    out = stacks_of("noise")["gaussian"](trial, (x[:, None] - 0.55) / 0.26)
    return prediction("gaussian", *parameters("gaussian", out, 0.0, 1.0))


def _given_forecast(y: np.ndarray, model: fm.Predictive) -> fm.CongruenceTest:
    rows = np.arange(_TESTED)
    return fm.congruence_test(model.mean[rows], y[rows], model.take(rows), condition_on="forecast")


def _cauchy(seed: int) -> dict[str, float]:
    """Return the measures of right predictions whose outcomes have no variance."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(1, 10, _HEAVY)
    truth = fm.StudentT(1.0, np.zeros(_HEAVY), scale)
    y = scale * rng.standard_cauchy(_HEAVY)
    gaussian = fm.Gaussian(np.zeros(_HEAVY), scale)
    rows = np.arange(_TESTED)
    test = fm.congruence_test(scale[rows], y[rows], truth.take(rows), random_state=seed)
    return {
        "cauchy ece": fm.regression_ece(y, truth), "cauchy p": test.p_value,
        "cauchy ence": fm.ence(y, gaussian), "cauchy null": fm.metrics.null_ence(y, gaussian),
        "cauchy cce": test.cce, "cauchy cce null": test.null_cce,
    }  # fmt: skip


def _numbers(seed: int) -> dict[str, float]:
    y, models = _models(seed)
    numbers = {}
    for name, model in models.items():
        numbers[f"ece {name}"] = fm.regression_ece(y, model)
        numbers[f"ence {name}"] = fm.ence(y, model)
        numbers[f"cv {name}"] = float(model.std.std() / model.std.mean())
        if name != "random stds":
            numbers[f"null {name}"] = fm.metrics.null_ence(y, model, repetitions=3)
    for name in ("true stds", "isotonic cdf"):
        test = _given_forecast(y, models[name])
        numbers |= {
            f"cce {name}": test.cce,
            f"cce null {name}": test.null_cce,
            f"p {name}": test.p_value,
        }
    return numbers | _cauchy(seed)


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of section 3."""
    runs = over_seeds(_numbers, seeds)
    if picture is not None:
        _draw(picture)
    data = fm.datasets.proportional_noise(_TESTED, 0)
    random = fm.Gaussian(data.x, np.random.default_rng(0).uniform(1, 10, _TESTED))
    return [
        Claim(
            "Isotonic recalibration of the cdf makes random uncertainties look calibrated",
            f"ECE {spread(runs['ece random stds'])} before, {spread(runs['ece isotonic cdf'])} after",
            f"true stds: ECE {spread(runs['ece true stds'])}",
            verdict(runs["ece isotonic cdf"] < 0.02),
        ),
        Claim(
            "ENCE shows that the recalibrated uncertainties still say nothing about the error",
            f"ENCE {spread(runs['ence isotonic cdf'])} after; by chance "
            f"{spread(runs['null isotonic cdf'])}",
            f"true stds: ENCE {spread(runs['ence true stds'])}, by chance {spread(runs['null true stds'])}",
            verdict(runs["ence isotonic cdf"] > 5 * runs["null isotonic cdf"]),
        ),
        Claim(
            "Std scaling does not mend them either: it leaves their dispersion c_v as it was",
            f"ENCE {spread(runs['ence std scaling'])}, by chance "
            f"{spread(runs['null std scaling'])}; c_v {spread(runs['cv std scaling'])} "
            f"(before: {spread(runs['cv random stds'])})",
            f"true stds: ENCE {spread(runs['ence true stds'])}, c_v {spread(runs['cv true stds'])}",
            verdict(
                runs["ence std scaling"] > 5 * runs["null std scaling"],
                np.abs(runs["cv std scaling"] - runs["cv random stds"]) < 1e-6,
            ),
        ),
        Claim(
            "Stds that a network was trained for have a small ENCE",
            f"ENCE {spread(runs['ence trained stds'])}, c_v {spread(runs['cv trained stds'])}",
            f"by chance {spread(runs['null trained stds'])}; true stds: ENCE "
            f"{spread(runs['ence true stds'])}, c_v {spread(runs['cv true stds'])}",
            verdict(runs["ence trained stds"] < 0.5 * runs["ence isotonic cdf"]),
        ),
        Claim(
            "The CCE given the forecast shows the same, and has an exact test (not in the paper)",
            f"CCE {spread(runs['cce isotonic cdf'])} of the recalibrated random stds, by chance "
            f"{spread(runs['cce null isotonic cdf'])}, p < 0.05 in "
            f"{np.mean(runs['p isotonic cdf'] < 0.05):.0%}",
            f"true stds: CCE {spread(runs['cce true stds'])}, by chance "
            f"{spread(runs['cce null true stds'])}, p < 0.05 in "
            f"{np.mean(runs['p true stds'] < 0.05):.0%}",
            verdict(runs["p isotonic cdf"] < 0.05, runs["cce isotonic cdf"] > 2 * runs["cce true stds"]),
        ),
        Claim(
            "ENCE needs a variance: it blames right Cauchy predictions of random scale (the scale serves "
            "as predicted std)",
            f"ENCE {runs['cauchy ence'].min():.1f} to {runs['cauchy ence'].max():.1f}",
            f"by chance if Gaussian {spread(runs['cauchy null'])}", verdict(runs["cauchy ence"] > 1),
        ),
        Claim(
            "ECE and CCE need no variance: they find nothing wrong with these predictions (not in the "
            "paper)",
            f"ECE {spread(runs['cauchy ece'])}; CCE {spread(runs['cauchy cce'])}, p < 0.05 in "
            f"{np.mean(runs['cauchy p'] < 0.05):.0%}",
            f"CCE by chance {spread(runs['cauchy cce null'])}",
            verdict(
                runs["cauchy ece"] < 0.02,
                np.mean(runs["cauchy p"] < 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / seeds),
            ),
        ),
        added(data.x, data.y, random, "random"),
    ]  # fmt: skip


def _draw(path: Path) -> None:
    y, models = _models(0)
    figure, (left, right) = axes_of(2)
    for name, model in models.items():
        curve = fm.metrics.reliability_curve(y, model)
        left.plot(curve.expected, curve.observed, label=name)
        variances = fm.metrics.ence_curve(y, model)
        right.plot(variances.rmv, variances.rmse, marker="o", label=name)
    diagonal(left)
    right.plot([0.15, 1], [0.15, 1], color="0.6", lw=1, zorder=0)  # errors as predicted
    plain_logarithms(right)
    left.set(xlabel="predicted probability", ylabel="observed frequency", title="quantiles")
    right.set(
        xlabel="root mean variance of a bin",
        ylabel="root mean squared error",
        title="uncertainties",
    )
    save(figure, path, {0: "upper left"})


EXPERIMENT = Experiment(
    "random_uncertainty", "Calibrated quantiles from random uncertainties",
    "Levi et al., arXiv 1905.11659, section 3", run, seeds=5,
    about=(
        "Means are right, but the predicted standard deviations (stds) are drawn at random from [1, "
        "10], so they say nothing about the error. Left: after the isotonic map (\"isotonic cdf\") their "
        "quantiles look calibrated. Right: rows binned by predicted std. True and trained stds follow "
        "the errors, on the diagonal; those of the three other models are on a flat line: errors are "
        "equally large, whatever they predict."
    ),
)  # fmt: skip
