"""Log score and CCE of each image on a map of the images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import spearmanr

import fastmcmd as fm
from examples.papers.claims import (
    Claim,
    Experiment,
    Rows,
    added,
    of_forecast,
    over_seeds,
    published_cce,
    spread,
    verdict,
)
from examples.papers.count_digits import MAPS, model, rows_of, split
from examples.papers.pictures import axes_of, save
from examples.papers.stored import arrays_of

_NEIGHBOURS = 10
_KERNEL = fm.Polynomial(3, None, 1.0)


def _explained(places: np.ndarray, values: np.ndarray) -> float:
    """Return the share of the variance of values that the mean of the nearest neighbours explains."""
    near = cKDTree(places).query(places, _NEIGHBOURS + 1)[1][:, 1:]
    return float(1 - np.var(values - values[near].mean(axis=1)) / np.var(values))


def _scores(trial: int) -> tuple[Rows, np.ndarray, np.ndarray, np.ndarray]:
    """Return test rows, their log scores, these for outcomes drawn from the model, and their CCE."""
    x, y = rows_of(split(trial)[2])
    predicted = model("gaussian", trial, x)
    draws = predicted.sample(1, trial)[:, 0]
    cce = published_cce(x, y, predicted, x_kernel=_KERNEL).values
    return Rows(x, y), -predicted.log_prob(y), -predicted.log_prob(draws), cce


def _numbers(trial: int) -> dict[str, float]:
    rows, score, draw_score, cce = _scores(trial)
    places = arrays_of("score_map")["places"][trial]
    predicted = model("gaussian", trial, rows.x)
    null = published_cce(rows.x, predicted.sample(1, trial)[:, 0], predicted, x_kernel=_KERNEL)
    return {
        "score": _explained(places, score), "cce": _explained(places, cce),
        "rank": float(spearmanr(score, cce).statistic),
        "entropy": float(spearmanr(score, predicted.std).statistic),
        "drawn": float(spearmanr(draw_score, predicted.std).statistic),
        "cce of spread": float(spearmanr(cce, predicted.std).statistic),
        "mean": float(cce.mean()), "null": float(null.mean),
        "p": fm.congruence_test(rows.x, rows.y, predicted, alpha=0.05).p_value,
    }  # fmt: skip


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of figure 14."""
    values = over_seeds(_numbers, min(seeds, MAPS))
    rows, *_ = _scores(0)
    predicted = model("gaussian", 0, rows.x)
    if picture is not None:
        _draw(picture)
    return [
        Claim(
            "CCE varies smoothly over the map, the log score from point to point",
            f"share of the variance that {_NEIGHBOURS} neighbours explain: CCE {spread(values['cce'])}, "
            "log "
            f"score {spread(values['score'])}; mean CCE {spread(values['mean'])}, p < 0.05 in "
            f"{np.mean(values['p'] < 0.05):.0%}",
            f"by chance CCE {spread(values['null'])}",
            verdict(values["cce"] > values["score"], values["cce"] > 0.5),
        ),
        Claim(
            "CCE and log score rank images differently",
            f"rank correlation {spread(values['rank'])}", "1 if they agreed", verdict(values["rank"] < 0.5),
        ),
        Claim(
            "The log score follows the predicted spread even for a right model, CCE need not (not in "
            "the paper)",
            f"rank correlation with the predicted spread: log score {spread(values['entropy'])}, CCE "
            f"{spread(values['cce of spread'])}",
            f"log score of outcomes drawn from the model {spread(values['drawn'])}",
            verdict(values["drawn"] > 0.3),
        ),
        added(
            rows.x, rows.y, predicted, "Gaussian", x_kernel=_KERNEL, by_columns=True,
            method=fm.recalibration.WitnessTilting(), columns=of_forecast(predicted),
            note="The correction depends on the predicted mean and spread: 200 images are too few for one "
            "that depends on pixels.",
        ),
    ]  # fmt: skip


def _draw(path: Path) -> None:
    rows, score, _, cce = _scores(0)
    places = arrays_of("score_map")["places"][0]
    figure, panels = axes_of(3)
    for panel, title, values in zip(
        panels, ("digit", "CCE", "log score"), (rows.y, cce, score), strict=True
    ):
        limits = np.quantile(values, [0.02, 0.98])
        points = panel.scatter(*places.T, c=values, s=10, vmin=limits[0], vmax=limits[1])
        panel.set(title=title, xticks=[], yticks=[])
        figure.colorbar(points, ax=panel)
    panels[0].set(xlabel="t-SNE map of the test images")
    save(figure, path)


EXPERIMENT = Experiment(
    "score_map", "Log score and CCE of single images",
    "Young et al., arXiv 2405.12412, figure 14 (there: faces), on digits as counts with a Gaussian head",
    run, seeds=MAPS,
)  # fmt: skip
