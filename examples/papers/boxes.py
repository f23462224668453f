"""Four outputs with trained uncertainties, before and after each kind of recalibration."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

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
from examples.papers.heads import parameters, prediction
from examples.papers.pictures import STYLES, axes_of, plain_logarithms, save
from examples.papers.stored import stacks_of

TRIALS = 5
EDGES = ("left", "top", "right", "bottom")
_SECOND, _TEST, _ADDED = 1_000, 2_000, 1_000
_MORE = 2_000  # rows that mend what 500 rows cannot
_INPUTS = ("across", "down", "log width", "log height", "bend", "log noise")  # of `datasets.boxes`
_METHODS = {
    "std scaling": fm.recalibration.StdScaling,
    "isotonic cdf": fm.recalibration.IsotonicCDF,
}
_MODELS = ("before", *_METHODS)
_MEASURES = ("ENCE", "chance", "ECE", "c_v", "NLL")


def predicted(trial: int, x: np.ndarray, edge: int) -> fm.Predictive:
    """Return what the network of a trial predicts for an edge."""
    out = stacks_of("boxes")["gaussian"](trial, x).reshape(len(x), len(EDGES), 2)[:, edge]
    return prediction("gaussian", *parameters("gaussian", out, 0.0, 1.0))


def _rows(trial: int) -> tuple[fm.datasets.Simulated, fm.datasets.Simulated]:
    return (
        fm.datasets.boxes(_SECOND, 1_000 + trial), fm.datasets.boxes(_TEST, 2_000 + trial)
    )  # fmt: skip


def _models(trial: int, edge: int) -> tuple[np.ndarray, dict[str, fm.Predictive]]:
    second, test = _rows(trial)
    calibration, plain = (predicted(trial, part.x, edge) for part in (second, test))
    models: dict[str, fm.Predictive] = {"before": plain}
    for name, method in _METHODS.items():
        models[name] = method().fit(calibration, second.y[:, edge]).transform(plain)
    return test.y[:, edge], models


def _numbers(trial: int) -> dict[str, float]:
    numbers = {}
    for edge, name in enumerate(EDGES):
        y, models = _models(trial, edge)
        for kind, model in models.items():
            std = model.std
            figures = {
                "ENCE": fm.ence(y, model), "chance": fm.metrics.null_ence(y, model, repetitions=3),
                "ECE": fm.regression_ece(y, model), "c_v": float(std.std() / std.mean()),
                "NLL": float(-model.log_prob(y).mean()) if kind != "isotonic cdf" else np.nan,
            }  # fmt: skip
            numbers |= {f"{name} {kind} {key}": value for key, value in figures.items()}
        test = fm.congruence_test(
            _rows(trial)[1].x[:500], y[:500], models["before"].take(np.arange(500)), alpha=0.05
        )
        numbers[f"{name} p"] = test.p_value
    return numbers


@lru_cache(maxsize=2)
def _values(seeds: int) -> dict[str, np.ndarray]:
    return over_seeds(_numbers, min(seeds, TRIALS))


def _mean(values: dict[str, np.ndarray], kind: str, measure: str) -> np.ndarray:
    """Return a measure of every trial, averaged over the edges."""
    return np.mean([values[f"{edge} {kind} {measure}"] for edge in EDGES], axis=0)


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims about the boxes."""
    values = _values(seeds)
    if picture is not None:
        _draw(picture)
    before, scaled, isotonic = (_mean(values, kind, "ENCE") for kind in _MODELS)
    rejected = np.mean([values[f"{edge} p"] < 0.05 for edge in EDGES])
    test = _rows(0)[1]
    right = 2  # number of the right edge
    return [
        Claim(
            "Trained uncertainties are not calibrated",
            f"ENCE {spread(before)} (mean of four edges); the test rejects in {rejected:.0%} of edges "
            "and trials",
            f"by chance {spread(_mean(values, 'before', 'chance'))}",
            verdict(before > 3 * _mean(values, "before", "chance")),
        ),
        Claim(
            "Std scaling makes ENCE small, on every edge",
            f"{spread(scaled)} after, {spread(before)} before",
            f"by chance {spread(_mean(values, 'std scaling', 'chance'))}",
            verdict(*(
                values[f"{edge} std scaling ENCE"] < 0.5 * values[f"{edge} before ENCE"] for edge in EDGES
            )),
        ),
        Claim(
            "Std scaling, with one parameter, is as good as the isotonic map",
            f"ENCE {spread(scaled)} against {spread(isotonic)} after the isotonic map; ECE "
            f"{spread(_mean(values, 'std scaling', 'ECE'))} against "
            f"{spread(_mean(values, 'isotonic cdf', 'ECE'))}",
            f"ENCE by chance {spread(_mean(values, 'std scaling', 'chance'))} and "
            f"{spread(_mean(values, 'isotonic cdf', 'chance'))}",
            verdict(scaled < isotonic + 0.02),
        ),
        Claim(
            "Std scaling leaves the dispersion c_v of the uncertainties as it is",
            f"c_v {spread(_mean(values, 'std scaling', 'c_v'))}", "before "
                f"{spread(_mean(values, 'before', 'c_v'))}",
            verdict(np.abs(_mean(values, "std scaling", "c_v") - _mean(values, "before", "c_v")) < 1e-6),
        ),
        added(
            test.x[:_ADDED], test.y[:_ADDED, right], predicted(0, test.x[:_ADDED], right), "right edge",
            columns=dict(zip(_INPUTS, test.x[:_ADDED].T, strict=True)),
            note=_with_more_rows(test, right),
        ),
    ]  # fmt: skip


def _with_more_rows(test: fm.datasets.Simulated, edge: int) -> str:
    """Return what the same correction does if it is fitted on more rows, as a sentence."""
    more = fm.datasets.boxes(_MORE, 3_000)
    fitted = fm.recalibration.ConditionalRescaling().fit(
        predicted(0, more.x, edge), more.y[:, edge], more.x
    )
    rows = Rows(test.x[: _ADDED // 2], test.y[: _ADDED // 2, edge])
    plain = predicted(0, rows.x, edge)
    mended = fitted.transform(plain, rows.x)
    before, after = mean_cce(rows, plain), mean_cce(rows, mended)
    chance = null_cce(rows, mended, 0)
    return (
        f"{_ADDED // 2} rows are too few for six inputs: fitted on {_MORE:,} others, the same rescaling "
        f"leaves {after:.4f} of {before:.4f} on {_ADDED // 2} test rows (by chance {chance:.4f})."
    )


def details(seeds: int) -> str:
    """Return the table before and after recalibration as Markdown."""
    values = _values(seeds)
    lines = [
        "| edge | recalibration | " + " | ".join(("ENCE", "by chance", "ECE", "c_v", "NLL")) + " |",
        "|---|---|---|---|---|---|---|",
    ]
    for edge in EDGES:
        for kind in _MODELS:
            measures = [values[f"{edge} {kind} {one}"] for one in _MEASURES]
            cells = ["" if np.isnan(one).any() else spread(one) for one in measures]
            lines.append(f"| {edge} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _draw(path: Path) -> None:
    figure, panels = axes_of(len(EDGES))
    for edge, panel in enumerate(panels):
        y, models = _models(0, edge)
        ends = []
        for (name, model), style in zip(models.items(), STYLES, strict=False):
            curve = fm.metrics.ence_curve(y, model)
            panel.plot(curve.rmv, curve.rmse, marker="o", markersize=4, label=name, **style)
            ends += [*curve.rmv, *curve.rmse]
        limits = [min(ends), max(ends)]
        panel.plot(limits, limits, color="0.6", lw=1)
        plain_logarithms(panel)
        panel.set(title=EDGES[edge], xlabel="root mean variance of a bin")
    panels[0].set(ylabel="root mean squared error")
    save(figure, path, {0: "upper left"})


EXPERIMENT = Experiment(
    "boxes", "Boxes: four trained uncertainties before and after recalibration",
    "Levi et al., arXiv 1905.11659, section 5 and its table in kind (there: boxes in photographs); "
    "one network predicts the four edges and their standard deviations", run, seeds=TRIALS,
    details=details,
    about=(
        "One network predicts the four edges of a box from six inputs, with a standard deviation for "
        "each. A small training sample (600 rows) makes it overconfident. Each panel is an edge: rows "
        "are binned by predicted spread, and on the grey diagonal errors are as large as predicted. "
        "Before recalibration, most points lie above it. One correction for all rows cannot mend every "
        "bin: where the smallest spreads are predicted, points stay above the diagonal."
    ),
)  # fmt: skip
