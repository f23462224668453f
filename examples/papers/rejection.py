"""Rows held out because their CCE is high: against random rows, and against the predicted spread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fastmcmd as fm
from examples.papers import count_digits
from examples.papers.claims import (
    Claim,
    Experiment,
    added,
    over_seeds,
    published_cce,
    spread,
    verdict,
)
from examples.papers.pictures import STYLES, axes_of, save

_N = 1_000
_LOSSES = ("absolute error", "log score")
_KERNEL = fm.Polynomial(3, None, 1.0)


class _Case(NamedTuple):
    """Scores and losses of test rows; the CCE was estimated from other rows."""

    cce: np.ndarray
    std: np.ndarray
    losses: dict[str, np.ndarray]


def _losses(y: np.ndarray, model: fm.Predictive) -> dict[str, np.ndarray]:
    return {"absolute error": np.abs(y - model.mean), "log score": -model.log_prob(y)}


def _wrong_mean(n: int, seed: int) -> tuple[fm.datasets.Simulated, fm.Predictive]:
    """Return a wave, and a model whose mean stops following it at x = 4."""
    data = fm.datasets.cosine(n, seed)
    return data, fm.Gaussian(np.cos(np.minimum(data.x, 4.0)), data.truth.std)


def _wrong_spread(n: int, seed: int) -> tuple[fm.datasets.Simulated, fm.Predictive]:
    """Return a wave with changing spread, and a model that has its mean but a constant spread."""
    data = fm.datasets.sine(n, seed)
    return data, fm.Gaussian(data.truth.mean, np.full(n, np.sqrt(data.truth.variance.mean())))


def _wave_case(simulate: Callable[..., tuple], seed: int) -> _Case:
    data, model = simulate(_N, seed)
    new, predicted = simulate(_N, seed + 10_000)
    cce = published_cce(data.x, data.y, model, at=new.x, x_kernel=fm.RBF(1.0)).values
    return _Case(cce, predicted.std, _losses(new.y, predicted))


def _digits_case(trial: int) -> _Case:
    _, second, test = count_digits.split(trial)
    (x, y), (at, outcomes) = count_digits.rows_of(second), count_digits.rows_of(test)
    model, predicted = (count_digits.model("gaussian", trial, rows) for rows in (x, at))
    cce = published_cce(x, y, model, at=at, x_kernel=_KERNEL).values
    return _Case(cce, predicted.std, _losses(outcomes, predicted))


_CASES: dict[str, Callable[[int], _Case]] = {
    "wave, wrong mean": partial(_wave_case, _wrong_mean),
    "wave, wrong spread": partial(_wave_case, _wrong_spread),
    "digits": _digits_case,
}


def _numbers(seed: int) -> dict[str, float]:
    numbers = {}
    for name, make in _CASES.items():
        case = make(seed)
        for loss, values in case.losses.items():
            curve = fm.rejection_curve(case.cce, values, case.std, random_state=seed)
            key = f"{name} {loss}"
            numbers |= {
                f"cce {key}": curve.area, f"std {key}": curve.std_area,
                f"random {key}": curve.random_area, f"p {key}": curve.p_value,
            }  # fmt: skip
    return numbers


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of figure 7."""
    values = over_seeds(_numbers, min(seeds, count_digits.TRIALS))
    if picture is not None:
        _draw(picture)

    def values_text(score: str, case: str) -> str:
        return "; ".join(f"{loss} {spread(values[f'{score} {case} {loss}'])}" for loss in _LOSSES)

    def better(case: str, than: str) -> list[np.ndarray]:
        return [values[f"cce {case} {loss}"] < values[f"{than} {case} {loss}"] for loss in _LOSSES]

    claims = []
    for case in _CASES:
        p_values = np.stack([values[f"p {case} {loss}"] for loss in _LOSSES])
        claims.append(
            Claim(
                f"Holding out rows of high CCE beats random rows in both losses ({case})",
                f"mean loss over all shares held out: {values_text('cce', case)}; "
                f"p < 0.05 in {np.mean(p_values < 0.05):.0%}",
                f"random: {values_text('random', case)}", verdict(*better(case, "random")),
            )
        )  # fmt: skip
    for case in _CASES:
        claims.append(
            Claim(
                f"Holding out rows of high CCE beats holding out rows of large predicted spread ({case}; "
                "not in the paper)",
                values_text("cce", case), f"by predicted spread: {values_text('std', case)}",
                verdict(*better(case, "std")),
            )
        )  # fmt: skip
    data, model = _wrong_mean(_N, 0)
    claims.append(added(data.x, data.y, model, "wrong-mean", x_kernel=fm.RBF(1.0)))
    return claims


def _draw(path: Path) -> None:
    figure, panels = axes_of(len(_CASES), len(_LOSSES))
    for column, (name, make) in enumerate(_CASES.items()):
        case = make(0)
        for row, loss in enumerate(_LOSSES):
            panel = panels[row * len(_CASES) + column]
            curve = fm.rejection_curve(case.cce, case.losses[loss], case.std)
            mask = curve.rejected <= 0.9
            panel.plot(curve.rejected[mask], curve.loss[mask], label="CCE", **STYLES[0])
            panel.plot(
                curve.rejected[mask], curve.std_loss[mask], label="predicted spread", **STYLES[1]
            )
            low, high = curve.random_band[mask].T
            panel.fill_between(
                curve.rejected[mask], low, high, color="0.85", lw=0, label="random, 95 %"
            )
            panel.set(title=name, xlabel="share held out", ylabel=f"mean {loss}")
    save(figure, path, {0: "upper left"})


EXPERIMENT = Experiment(
    "rejection", "Holding out what the CCE finds wrong",
    "Young et al., arXiv 2405.12412, figure 7 and appendix C.1; on two waves of which the model misses "
    "a part, and on digits. The CCE of test rows needs no labels of them: it is estimated from a second "
    "sample", run,
    seeds=count_digits.TRIALS,
    about=(
        "Rows are left out in the order of their CCE, the worst first; the loss of the remaining rows "
        "should fall. Left: a wave, and a model whose mean stops following it at x = 4. Centre: a wave "
        "of changing spread, and a model with its mean but one spread for all x. Right: digits as "
        "counts, with a Gaussian head. Grey: 95 % of random orders. Dashed: the largest predicted "
        "spread first, which says nothing where that spread is constant. On digits the predicted spread "
        "is the better order. In the centre the CCE helps only at first: it removes the rows whose "
        "spread is too narrow (x near 2.7), then those whose spread is too wide, and these have small "
        "errors."
    ),
)  # fmt: skip
