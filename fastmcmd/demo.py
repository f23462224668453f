"""The main job on real data: two models of doctor visits, judged at every held-out person.

6,190 people of the RAND Health Insurance Experiment; ``examples/make_randhie.py`` makes the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastmcmd as fm

__all__ = ["Judged", "draw", "load", "run", "table"]

_SEED = 0


@dataclass(frozen=True, eq=False)
class Judged:
    """A model, its result with exact expectations and with one draw, and its scores."""

    name: str
    exact: fm.Result
    drawn: fm.Result
    nll: float
    ece: float
    fitted: fm.ConditionalCongruence


def load() -> dict[str, NDArray[Any]]:
    """Return the arrays of the held-out part."""
    source = resources.files("fastmcmd") / "data" / "randhie.npz"
    with resources.as_file(source) as path, np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def run(data: dict[str, NDArray[Any]], progress: bool = False) -> list[Judged]:
    """Judge both models: RBF kernel of gamma 1/(2d) on standardised inputs, the paper's on outputs."""
    x, y = data["x"], data["y"]
    x_kernel = fm.RBF(1 / (2 * x.shape[1]))
    judged = []
    for name, prediction in (
        ("Poisson", fm.Poisson(data["poisson_mean"])),
        ("negative binomial", fm.NegativeBinomial(data["negbin_mean"], data["negbin_dispersion"])),
    ):
        fitted = fm.ConditionalCongruence(x_kernel=x_kernel, progress=progress)
        fitted.fit(x, y, prediction)
        drawn = fm.cce(x, y, prediction, x_kernel=x_kernel, draws=1, random_state=_SEED)
        nll, ece = fm.nll(y, prediction), fm.regression_ece(y, prediction, random_state=_SEED)
        judged.append(Judged(name, fitted.result_, drawn, nll, ece, fitted))
    return judged


def table(judged: list[Judged]) -> list[list[str]]:
    """Return the table as rows of text, the head first."""
    rows = [
        [
            "model",
            "n",
            "CCE mean",
            "5 %",
            "50 %",
            "95 %",
            "1 draw",
            "NLL",
            "ECE",
            "seconds",
            "error <=",
        ]
    ]
    for one in judged:
        low, middle, high = one.exact.quantile([0.05, 0.5, 0.95])
        rows.append(
            [one.name, f"{len(one.exact):,}", f"{one.exact.mean:.4f}"]
            + [f"{value:.4f}" for value in (low, middle, high, one.drawn.mean, one.nll, one.ece)]
            + [f"{one.exact.info.seconds:.2f}", f"{one.exact.error_bound:.0e}"]
        )
    return rows


def draw(data: dict[str, NDArray[Any]], judged: list[Judged], target: Path) -> None:
    """Draw CCE over an input and the witness of a typical person where Poisson fails most."""
    from fastmcmd import plots
    from fastmcmd.plots.style import COLOURS, matplotlib
    from fastmcmd.storage import write_atomically

    plt = matplotlib()
    names = [str(name) for name in data["names"]]
    column = names.index("disea")
    chronic = data["x"][:, column] * data["scale"][column] + data["centre"][column]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for one, colour in zip(judged, (COLOURS[1], COLOURS[0]), strict=True):
        label = f"{one.name} (mean {one.exact.mean:.3f})"
        plots.cce_over_inputs(chronic, one.exact, ax=left, label=label, colour=colour)
    left.set(
        xlabel="number of chronic diseases",
        title="CCE over the inputs: points, median, middle 80 %",
    )
    left.set_ylim(0, 1.4 * max(float(one.exact.values.max()) for one in judged))
    left.legend(frameon=False, loc="upper right")

    worst = np.argsort(judged[0].exact.values)
    person = int(worst[int(0.9 * len(worst))])
    visits = np.arange(0, 26)
    for one, colour in zip(judged, (COLOURS[1], COLOURS[0]), strict=True):
        h = one.fitted.witness(data["x"][person : person + 1], visits)[0]
        plots.witness(visits, h, ax=right, label=one.name, colour=colour)
    mean = float(data["poisson_mean"][person])
    right.set(
        xlabel="doctor visits y",
        title=f"Why: witness at one person (expected visits {mean:.1f})",
    )
    right.legend(frameon=False)
    try:
        write_atomically(target, lambda stream: figure.savefig(stream, format="png", dpi=130))
    finally:
        plt.close(figure)
