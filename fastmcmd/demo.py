"""Demonstration on real data: the CCE of two models of doctor visits at every held-out person.

The data are 6,190 people of the RAND Health Insurance Experiment; ``examples/make_randhie.py`` creates the
file.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import fastmcmd as fm
from fastmcmd._base.annotations import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EvaluatedModel", "draw", "load", "probabilities", "run", "table"]

_SEED = 0
_MOST_VISITS = 18  # the last bar includes all larger counts


@dataclass(frozen=True, eq=False)
class EvaluatedModel:
    """A model with its CCE from exact expectations and from one draw, and its scores."""

    name: str
    prediction: fm.Predictive
    exact: fm.Result
    one_draw: fm.Result
    nll: float
    ece: float
    fitted: fm.ConditionalCongruence


def load() -> dict[str, Array]:
    """Return the arrays of the held-out rows."""
    source = resources.files("fastmcmd") / "data" / "randhie.npz"
    with resources.as_file(source) as path, np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def run(data: dict[str, Array], progress: bool = False) -> list[EvaluatedModel]:
    """Return both evaluated models: RBF of gamma 1/(2d) on standardised inputs, otherwise as published."""
    x, y = data["x"], data["y"]
    kernels: dict[str, Any] = {
        "x_kernel": fm.RBF(1 / (2 * x.shape[1])), "y_kernel": "paper", "lam": 0.1,
    }  # fmt: skip
    models = []
    for name, prediction in (
        ("Poisson", fm.Poisson(data["poisson_mean"])),
        ("negative binomial", fm.NegativeBinomial(data["negbin_mean"], data["negbin_dispersion"])),
    ):
        fitted = fm.ConditionalCongruence(**kernels, progress=progress)
        fitted.fit(x, y, prediction)
        one_draw = fm.cce(x, y, prediction, **kernels, draws=1, random_state=_SEED)
        nll, ece = fm.nll(y, prediction), fm.regression_ece(y, prediction, random_state=_SEED)
        models.append(EvaluatedModel(name, prediction, fitted.result_, one_draw, nll, ece, fitted))
    return models


def table(models: list[EvaluatedModel]) -> list[list[str]]:
    """Return the table as rows of text, with the header first."""
    head = "model,n,CCE mean,5 %,50 %,95 %,1 draw,NLL,ECE,seconds,error <="
    rows = [head.split(",")]
    for one in models:
        low, middle, high = one.exact.quantile([0.05, 0.5, 0.95])
        rows.append(
            [one.name, f"{len(one.exact):,}", f"{one.exact.mean:.4f}"]
            + [f"{value:.4f}" for value in (low, middle, high, one.one_draw.mean, one.nll, one.ece)]
            + [f"{one.exact.info.seconds:.2f}", f"{one.exact.error_bound:.0e}"]
        )
    return rows


def draw(data: dict[str, Array], models: list[EvaluatedModel], target: Path) -> None:
    """Plot where the models are wrong, what people did there, and the missing mass near one person."""
    from fastmcmd.io import write_atomically
    from fastmcmd.plots.style import matplotlib

    # Margins that a constrained layout finds, which measures every text first.
    figure = matplotlib("figure").Figure(figsize=(15, 4.6))
    margins = {"left": 0.048, "right": 0.997, "bottom": 0.102, "top": 0.896, "wspace": 0.17}
    left, middle, right = figure.subplots(1, 3, gridspec_kw=margins)
    _draw_over_inputs(left, data, models)
    # The quarter of people with the largest CCE under the Poisson model, and the median of these people.
    worst = np.argsort(models[0].exact.values)[-len(data["y"]) // 4 :]
    _draw_visits(middle, data["y"][worst], [probabilities(one, worst) for one in models], models)
    _draw_missing_mass(right, data, models, int(worst[len(worst) // 2]))
    write_atomically(target, lambda stream: figure.savefig(stream, format="png", dpi=130))


def _draw_over_inputs(ax: Axes, data: dict[str, Array], models: list[EvaluatedModel]) -> None:
    from fastmcmd import plots

    column = [str(name) for name in data["names"]].index("disea")
    disease = data["x"][:, column] * data["scale"][column] + data["centre"][column]
    for one, colour in zip(models, _colours(), strict=True):
        label = f"{one.name} (mean {one.exact.mean:.3f})"
        plots.cce_over_inputs(disease, one.exact, ax=ax, label=label, colour=colour)
    ax.set(
        xlabel="index of chronic diseases",
        title="Where: CCE at each person\n(dots; median and middle 80 %)",
        ylim=(0, 1.35 * max(float(one.exact.values.max()) for one in models)),
    )


def _draw_visits(ax: Axes, y: Array, shares: list[Array], models: list[EvaluatedModel]) -> None:
    from fastmcmd.plots.style import tidy

    visits = np.arange(_MOST_VISITS + 1)
    observed = np.bincount(np.minimum(y, _MOST_VISITS), minlength=len(visits)) / len(y)
    ax.bar(visits, observed, color="0.8", label="observed")
    for one, share, marker, colour in zip(models, shares, "os", _colours(), strict=True):
        ax.plot(visits, share, marker, color=colour, markersize=5, linestyle="-", label=one.name)
    ticks = list(range(0, _MOST_VISITS, 3))
    ax.set_xticks([*ticks, _MOST_VISITS], [*map(str, ticks), f"{_MOST_VISITS}+"])
    ax.set(
        xlabel="doctor visits",
        ylabel="share of people",
        title="What: the quarter of people\nwhere Poisson is worst",
    )
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], frameon=False)
    tidy(ax)


def _draw_missing_mass(
    ax: Axes, data: dict[str, Array], models: list[EvaluatedModel], person: int
) -> None:
    from fastmcmd import plots
    from fastmcmd.inference.missing_mass import missing_mass

    visits = np.arange(0, 19)
    for one, colour in zip(models, _colours(), strict=True):
        mass = missing_mass(data["x"], data["y"], one.prediction, data["x"][person], visits)
        plots.missing_mass(mass, ax=ax, label=one.name, colour=colour)
    mean = float(data["poisson_mean"][person])
    ax.set(
        xlabel="doctor visits",
        title=f"Why: people like one of them\n(expected visits {mean:.1f})",
    )
    ax.legend(frameon=False, loc="center right")


def probabilities(one: EvaluatedModel, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the mean probability of each number of visits; the last includes all larger numbers."""
    some = one.prediction.take(rows)
    below = [some.cdf_below(np.full(len(rows), float(k))).mean() for k in range(_MOST_VISITS + 1)]
    return np.diff([*below, 1.0])


def _colours() -> tuple[str, str]:
    from fastmcmd.plots.style import COLOURS

    return COLOURS[1], COLOURS[0]
