"""Networks with four output distributions on underdispersed counts: two of the families cannot be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import (
    Claim,
    Experiment,
    added,
    mean_cce,
    over_seeds,
    per_name,
    published_cce,
    rejections,
    spread,
    verdict,
)
from examples.papers.heads import prediction
from examples.papers.pictures import axes_of, save
from examples.papers.stored import arrays_of

TRIALS = 5  # networks of each head, each with training and test rows of its own
HEADS = ("poisson", "negative binomial", "gaussian", "double poisson")
WRONG = HEADS[:2]  # their variance is at least the mean
_N = 500


def test_sample(trial: int) -> fm.datasets.Simulated:
    """Return the test rows of a trial."""
    return fm.datasets.conflated_poissons(_N, 100 + trial)


def models_of_the_test_rows(trial: int) -> tuple[fm.datasets.Simulated, dict[str, fm.Predictive]]:
    """Return the test rows of a trial, and what the networks of `train_conflation` predict there."""
    data, arrays = test_sample(trial), arrays_of("conflation")
    if not np.array_equal(arrays["y"][trial], data.y):
        raise ValueError("conflation.npz is of other data; run examples.papers.train_conflation")
    models = {}
    for head in HEADS:
        second = arrays.get(f"{head}/second")
        models[head] = prediction(
            head,
            arrays[f"{head}/mean"][trial].astype(np.float64),
            None if second is None else second[trial].astype(np.float64),
        )
    return data, models


def _numbers(trial: int) -> dict[str, float]:
    data, models = models_of_the_test_rows(trial)
    numbers = {"cce truth": mean_cce(data, data.truth)}
    low = data.x > np.pi  # where counts are few
    for name, model in models.items():
        values = published_cce(data.x, data.y, model).values
        numbers[f"cce {name}"] = float(values.mean())
        null_values = published_cce(data.x, model.sample(1, trial)[:, 0], model).values
        numbers[f"null {name}"] = float(null_values.mean())
        numbers[f"p {name}"] = fm.congruence_test(data.x, data.y, model).p_value
        for place, rows in (("there", low), ("elsewhere", ~low)):
            numbers[f"{place} {name}"] = float(values[rows].mean())
            numbers[f"null {place} {name}"] = float(null_values[rows].mean())
    return numbers


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of figure 2."""
    values = over_seeds(_numbers, min(seeds, TRIALS))
    data, models = models_of_the_test_rows(0)
    if picture is not None:
        _draw(picture, data, models)
    cce = {name: values[f"cce {name}"] for name in HEADS}
    wrong, right = (np.stack([cce[one] for one in heads]) for heads in (WRONG, HEADS[2:]))
    return [
        Claim(
            "Heads that cannot be underdispersed have a large CCE, the others a small one",
            f"{per_name(HEADS, cce)}; {rejections(HEADS, values)}",
            f"truth {spread(values['cce truth'])}; by chance: {per_name(HEADS, values, 'null {}')}",
            verdict(wrong.min(axis=0) > 3 * right.max(axis=0)),
        ),
        Claim(
            "Poisson and negative binomial are worst on [pi, 2 pi]",
            f"there: {per_name(WRONG, values, 'there {}')}; elsewhere: "
            f"{per_name(WRONG, values, 'elsewhere {}')}",
            f"by chance there: {per_name(WRONG, values, 'null there {}')}; elsewhere: "
            f"{per_name(WRONG, values, 'null elsewhere {}')}",
            verdict(*(values[f"there {one}"] > values[f"elsewhere {one}"] for one in WRONG)),
        ),
        Claim(
            "The double Poisson head is best",
            f"{spread(cce['double poisson'])} against {spread(cce['gaussian'])} of the gaussian; "
            + rejections(HEADS[2:], values),
            f"truth {spread(values['cce truth'])}; by chance: {per_name(HEADS[2:], values, 'null {}')}",
            verdict(cce["double poisson"] < cce["gaussian"]),
        ),
        added(data.x, data.y, models["poisson"], "Poisson"),
    ]  # fmt: skip


def _draw(path: Path, data: fm.datasets.Simulated, models: dict[str, fm.Predictive]) -> None:
    figure, panels = axes_of(len(HEADS), 2)
    order = np.argsort(data.x)
    for place, (name, model) in enumerate(models.items()):
        top, bottom = panels[place], panels[place + len(HEADS)]
        top.scatter(data.x, data.y, s=4)
        top.fill_between(
            data.x[order],
            model.quantile(0.025)[order],
            model.quantile(0.975)[order],
            alpha=0.3,
            lw=0,
        )
        top.plot(data.x[order], model.mean[order])
        top.set(title=name, ylim=(0, 45))
        bottom.plot(data.x[order], published_cce(data.x, data.y, model).values[order])
        bottom.set(xlabel="x", ylim=(0, 0.4))
    panels[0].set(ylabel="y and 95 % interval")
    panels[len(HEADS)].set(ylabel="CCE")
    save(figure, path)


EXPERIMENT = Experiment(
    "conflation", "Four output distributions on underdispersed counts",
    "Young et al., arXiv 2405.12412, figure 2", run, seeds=TRIALS,
    about=(
        "Outcomes are whole numbers that vary less than Poisson counts do: 500 rows, x uniform on [0, 2 "
        "pi]. One network is trained with each of four output distributions. A Poisson and a negative "
        "binomial cannot have a variance below their mean; a Gaussian and a double Poisson can. Top: "
        "outcomes, predicted mean and 95 % interval. Bottom: the CCE at each x."
    ),
)  # fmt: skip
