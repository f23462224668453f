"""A model that ignores the input is calibrated, and wrong almost everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import (
    Claim,
    Experiment,
    added,
    mean_cce,
    null_cce,
    over_seeds,
    published_cce,
    spread,
    verdict,
)
from examples.papers.pictures import axes_of, diagonal, save

_N = 500
_SLOPE = 3.0


def _models(data: fm.datasets.Simulated) -> dict[str, fm.Predictive]:
    return {
        "right": data.truth,
        "marginal": fm.Gaussian(np.zeros(len(data)), np.sqrt(1 + _SLOPE**2)),
    }


def _numbers(seed: int) -> dict[str, float]:
    data = fm.datasets.linear(_N, _SLOPE, seed)
    numbers = {}
    for name, model in _models(data).items():
        numbers[f"ece {name}"] = fm.regression_ece(data.y, model)
        numbers[f"cce {name}"] = mean_cce(data, model, x_kernel=fm.RBF(1.0))
        numbers[f"null {name}"] = null_cce(data, model, seed, x_kernel=fm.RBF(1.0))
        numbers[f"p {name}"] = fm.congruence_test(data.x, data.y, model, random_state=seed).p_value
    return numbers


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of figure 1."""
    runs = over_seeds(_numbers, seeds)
    if picture is not None:
        _draw(picture)
    data = fm.datasets.linear(_N, _SLOPE, 0)
    return [
        Claim(
            "The marginal model looks calibrated: its ECE is near that of the right model",
            f"ECE {spread(runs['ece marginal'])}",
            f"right model: ECE {spread(runs['ece right'])}",
            verdict(np.abs(runs["ece marginal"] - runs["ece right"]) < 0.03),
        ),
        Claim(
            "CCE shows that the marginal model is wrong",
            f"CCE {spread(runs['cce marginal'])}, by chance {spread(runs['null marginal'])}; "
            f"test p {spread(runs['p marginal'])}",
            f"right model: CCE {spread(runs['cce right'])}, by chance {spread(runs['null right'])}; "
            f"p < 0.05 in {np.mean(runs['p right'] < 0.05):.0%}",
            verdict(runs["cce marginal"] > 5 * runs["cce right"], runs["p marginal"] < 0.05),
        ),
        added(data.x, data.y, _models(data)["marginal"], "marginal", x_kernel=fm.RBF(1.0)),
    ]


def _draw(path: Path) -> None:
    data = fm.datasets.linear(_N, _SLOPE, 0)
    models = _models(data)
    figure, (left, middle, right) = axes_of(3)
    left.scatter(data.x, data.y, s=6, label="outcomes")
    draws = models["marginal"].sample(1, np.random.default_rng(1))[:, 0]
    left.scatter(data.x, draws, s=6, label="drawn from the marginal model")
    left.set(xlabel="x", ylabel="y", ylim=(-10, 15))
    for name, model in models.items():
        curve = fm.metrics.reliability_curve(data.y, model)
        middle.plot(curve.expected, curve.observed, label=f"{name} model")
        order = np.argsort(data.x)
        result = published_cce(data.x, data.y, model, x_kernel=fm.RBF(1.0))
        right.plot(data.x[order], result.values[order], label=f"{name} model")
    diagonal(middle)
    middle.set(xlabel="predicted probability", ylabel="observed frequency")
    right.set(xlabel="x", ylabel="CCE", ylim=(0, 0.65))
    save(figure, path, {0: "upper left", 1: "upper left", 2: "upper right"})


EXPERIMENT = Experiment(
    "marginal", "Calibrated on average, wrong at nearly every input",
    "Young et al., arXiv 2405.12412, figure 1", run,
    about=(
        "x ~ N(0, 1) and y | x ~ N(3 x, 1), 500 rows. The marginal model predicts N(0, 10), of variance "
        "10, at every x: the right distribution of y, but it ignores x. Left: the outcomes, and draws "
        "from the marginal model. Centre: both models lie near the diagonal, so both look calibrated. "
        "Right: the CCE at each x tells them apart."
    ),
)  # fmt: skip
