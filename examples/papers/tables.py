"""Seven output distributions and their ensembles on two tabular data sets."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import fastmcmd as fm
from examples.papers.claims import (
    Claim,
    Experiment,
    Rows,
    added,
    mean_cce,
    null_cce,
    over_seeds,
    spread,
    verdict,
)
from examples.papers.heads import HEADS
from examples.papers.pictures import axes_of, save
from examples.papers.tabular import DATA, MEMBERS, TRIALS, model, split
from fastmcmd.plots.style import COLOURS

_MEASURES = ("MAE", "CRPS", "ECE", "CCE", "chance", "p")
_SIZES = {"one": 1, "ensemble": MEMBERS}
_KERNEL = fm.Polynomial(3, None, 1.0)


def _measures(rows: Rows, predicted: fm.Predictive, trial: int) -> dict[str, float]:
    return {
        "MAE": float(np.abs(rows.y - predicted.mean).mean()),
        "CRPS": fm.metrics.mean_crps(rows.y, predicted),
        "ECE": fm.regression_ece(rows.y, predicted, random_state=trial),
        "CCE": mean_cce(rows, predicted, x_kernel=_KERNEL),
        "chance": null_cce(rows, predicted, trial, x_kernel=_KERNEL),
        "p": fm.congruence_test(rows.x, rows.y, predicted, simulations=99, alpha=0.05).p_value,
    }


def _numbers(trial: int) -> dict[str, float]:
    numbers = {}
    for name in DATA:
        rows = Rows(*split(name, trial).test)
        for head in HEADS:
            for size, members in _SIZES.items():
                predicted = model(name, head, trial, rows.x, members)
                measures = _measures(rows, predicted, trial)
                numbers |= {f"{name} {size} {head} {key}": one for key, one in measures.items()}
    return numbers


@lru_cache(maxsize=2)
def _values(seeds: int) -> dict[str, np.ndarray]:
    return over_seeds(_numbers, min(seeds, TRIALS))


def _rows(values: dict[str, np.ndarray], name: str, size: str, measure: str) -> np.ndarray:
    """Return a measure (heads, trials)."""
    return np.stack([values[f"{name} {size} {head} {measure}"] for head in HEADS])


def _rejected(values: dict[str, np.ndarray], name: str, size: str, head: str) -> str:
    """Return how often the test rejects a head."""
    return f"{np.mean(values[f'{name} {size} {head} p'] < 0.05):.0%}"


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims about tables 1 and 2."""
    values = _values(seeds)
    if picture is not None:
        _draw(picture, values)
    claims = []
    for name in DATA:
        cce, ece, chance = (_rows(values, name, "one", part) for part in ("CCE", "ECE", "chance"))
        best = [HEADS[place] for place in cce.mean(axis=1).argsort()]
        ensemble_cce = _rows(values, name, "ensemble", "CCE")
        order = [
            float(spearmanr(cce[:, trial], ece[:, trial]).statistic)
            for trial in range(cce.shape[1])
        ]
        claims += [
            Claim(
                "CCE tells heads apart: beyond chance the worst has more than twice that of the best "
                f"({name})",
                f"least: {best[0]} {spread(cce[HEADS.index(best[0])])}; largest: {best[-1]} "
                f"{spread(cce[HEADS.index(best[-1])])}",
                f"by chance: {best[0]} {spread(chance[HEADS.index(best[0])])}, {best[-1]} "
                f"{spread(chance[HEADS.index(best[-1])])}; the test rejects "
                f"{_rejected(values, name, 'one', best[0])} and {_rejected(values, name, 'one', best[-1])}",
                verdict((cce - chance).max(axis=0) > 2 * (cce - chance).min(axis=0)),
            ),
            Claim(
                f"CCE and ECE order heads differently ({name})",
                f"rank correlation {spread(order)}; first by ECE: {HEADS[ece.mean(axis=1).argmin()]}",
                "1 if they agreed", verdict(np.array(order) < 0.5),
            ),
            Claim(
                f"Ensembles have a smaller CCE than single networks ({name})",
                f"mean over heads {spread(ensemble_cce.mean(axis=0))} against {spread(cce.mean(axis=0))}; "
                f"smaller in {np.mean(ensemble_cce < cce):.0%} of heads and trials",
                f"by chance {_rows(values, name, 'ensemble', 'chance').mean():.3f}; the test rejects "
                f"{np.mean(_rows(values, name, 'ensemble', 'p') < 0.05):.0%} of ensembles, "
                f"{np.mean(_rows(values, name, 'one', 'p') < 0.05):.0%} of networks",
                verdict(ensemble_cce < cce),
            ),
        ]  # fmt: skip
    rows = Rows(*split("randhie", 0).test)
    claims.append(
        added(rows.x, rows.y, model("randhie", "poisson", 0, rows.x), "Poisson", x_kernel=_KERNEL)
    )
    return claims


def details(seeds: int) -> str:
    """Return both tables as Markdown."""
    values = _values(seeds)
    parts = []
    for name in DATA:
        lines = [
            f"**{name}**, {DATA[name].test} test rows, mean ± sd over {min(seeds, TRIALS)} trials:", "",
            "| head | MAE | CRPS | ECE | CCE | by chance | p < 0.05 |", "|---|---|---|---|---|---|---|",
        ]  # fmt: skip
        for size in _SIZES:
            for head in HEADS:
                cells = [spread(values[f"{name} {size} {head} {one}"]) for one in _MEASURES[:-1]]
                label = head if size == "one" else f"{MEMBERS} × {head}"
                cells.append(_rejected(values, name, size, head))
                lines.append(f"| {label} | " + " | ".join(cells) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _draw(path: Path, values: dict[str, np.ndarray]) -> None:
    figure, panels = axes_of(len(DATA))
    places = np.arange(len(HEADS))
    for panel, name in zip(panels, DATA, strict=True):
        for number, (size, label) in enumerate(
            (("one", "one network"), ("ensemble", f"ensemble of {MEMBERS}"))
        ):
            cce = _rows(values, name, size, "CCE")
            error = cce.std(axis=1, ddof=1) if cce.shape[1] > 1 else None
            panel.errorbar(
                cce.mean(axis=1), places + 0.2 * number - 0.1, xerr=error, fmt="os"[number], label=label,
                capsize=3, color=COLOURS[number],
            )  # fmt: skip
        chance = _rows(values, name, "one", "chance").mean(axis=1)
        panel.plot(chance, places, "|", color="0.4", markersize=12, label="by chance")
        panel.set(title=name, yticks=places, yticklabels=HEADS, xlabel="mean CCE", xlim=(0, None))
        panel.invert_yaxis()
    panels[1].set(yticklabels=[])
    save(figure, path, {1: "lower left"})


EXPERIMENT = Experiment(
    "tables", "Seven heads on tabular data",
    "Young et al., arXiv 2405.12412, tables 1 and 2 in kind (there: counting and ages in photographs); "
    "beta-NLL: "
    "Seitzer et al. (2022), faithful: Stirn et al. (2023), natural: Immer et al. "
    "(2023)", run, seeds=TRIALS,
    details=details,
    about=(
        "Networks with seven heads (output distributions, or ways to train a Gaussian), and ensembles "
        "of five of each. Outcomes are doctor visits (randhie, 600 test rows) and the progress of "
        "diabetes (100 test rows). Points are mean CCE over five trials, bars their standard deviation; "
        "a grey mark is the CCE by chance of the single network. The nearer a point is to its mark, the "
        "better the fit."
    ),
)  # fmt: skip
