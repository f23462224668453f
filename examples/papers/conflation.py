"""Networks with four output distributions on underdispersed counts: two of the families cannot be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import (
    Claim,
    Experiment,
    mean_cce,
    null_cce,
    published_cce,
    verdict,
)
from examples.papers.pictures import axes_of, save

_STORED = Path(__file__).parent / "predictions" / "conflation.npz"
HEADS = ("poisson", "negative binomial", "gaussian", "double poisson")
WRONG = HEADS[:2]  # their variance is at least the mean


def models_of_the_test_rows() -> tuple[fm.datasets.Simulated, dict[str, fm.Predictive]]:
    """Return the test sample, and what the networks of `train_conflation` predict there."""
    data = fm.datasets.conflated_poissons(500, 1)
    with np.load(_STORED, allow_pickle=False) as stored:
        if not np.array_equal(stored["y"], data.y):
            raise ValueError(
                f"{_STORED.name} is of other data; run examples.papers.train_conflation again"
            )
        first = {head: stored[f"{head.replace(' ', '_')}_mean"] for head in HEADS}
        second = {head: stored[f"{head.replace(' ', '_')}_second"] for head in HEADS[1:]}
    return data, {
        "poisson": fm.Poisson(first["poisson"]),
        "negative binomial": fm.NegativeBinomial(
            first["negative binomial"], second["negative binomial"]
        ),
        "gaussian": fm.Gaussian(first["gaussian"], np.sqrt(second["gaussian"])),
        "double poisson": fm.DoublePoisson(first["double poisson"], second["double poisson"]),
    }


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of figure 2; the networks were trained once, whatever ``seeds`` is."""
    data, models = models_of_the_test_rows()
    cce = {name: mean_cce(data, model) for name, model in models.items()}
    null = {name: null_cce(data, model, 2) for name, model in models.items()}
    truth = mean_cce(data, data.truth)
    p = {name: fm.congruence_test(data.x, data.y, one).p_value for name, one in models.items()}
    low = data.x > np.pi  # where counts are few
    halves = {}
    for name in WRONG:
        values = published_cce(data.x, data.y, models[name]).values
        halves[name] = (values[~low].mean(), values[low].mean())
    if picture is not None:
        _draw(picture, data, models)
    listed = "; ".join(
        f"{name} {cce[name]:.3f} (chance {null[name]:.3f}, p {p[name]:.3f})" for name in HEADS
    )
    return [
        Claim(
            "Heads that cannot be underdispersed have a large CCE, the others a small one",
            listed, f"{truth:.3f}",
            verdict(min(cce[one] for one in WRONG) > 3 * max(cce[one] for one in HEADS[2:])),
        ),
        Claim(
            "The first two are worst on [pi, 2 pi]",
            "; ".join(f"{name} {one[1]:.3f} there, {one[0]:.3f} elsewhere" for name, one in halves.items()),
            "", verdict(*(one[1] > one[0] for one in halves.values())),
        ),
        Claim(
            "The double Poisson head is best",
            f"{cce['double poisson']:.3f} against {cce['gaussian']:.3f} of the gaussian",
            f"{truth:.3f}", verdict(cce["double poisson"] == min(cce.values())),
        ),
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
    "Young et al., arXiv 2405.12412, figure 2", run, seeds=1,
)  # fmt: skip
