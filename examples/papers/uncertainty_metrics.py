"""All measures of Uncertainty Toolbox for one heteroscedastic example, beside those of that package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import fastmcmd as fm
from examples.papers.claims import Claim, Experiment, added, over_seeds, spread, verdict
from examples.papers.pictures import axes_of, diagonal, save
from fastmcmd.compat import uncertainty_toolbox as ours
from fastmcmd.plots.style import COLOURS

_N = 600
_SMALL = 0.2  # share of rows in the groups that are compared


def _models(seed: int) -> tuple[fm.datasets.Simulated, dict[str, fm.Gaussian]]:
    """Return outcomes with changing spread, the truth, and models of another or a constant spread."""
    data = fm.datasets.sine(_N, seed)
    mean, std = data.truth.mean, data.truth.std
    constant = np.full(_N, np.sqrt(np.mean(std**2)))
    return data, {
        "right": fm.Gaussian(mean, std), "too narrow": fm.Gaussian(mean, std / 2),
        "too wide": fm.Gaussian(mean, 2 * std), "constant": fm.Gaussian(mean, constant),
    }  # fmt: skip


def _all_but_groups(
    metrics: Any, mean: np.ndarray, std: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """Return all measures of a package but those of random groups, which have their own claim."""
    parts = (
        metrics.get_all_accuracy_metrics(mean, y, verbose=False),
        metrics.get_all_average_calibration(mean, std, y, num_bins=100, verbose=False),
        metrics.get_all_sharpness_metrics(std, verbose=False),
        metrics.get_all_scoring_rule_metrics(
            mean, std, y, resolution=99, scaled=True, verbose=False
        ),
    )
    return {name: float(value) for part in parts for name, value in part.items()}


def _numbers(seed: int) -> dict[str, float]:
    import uncertainty_toolbox

    data, models = _models(seed)
    numbers: dict[str, float] = {"largest difference": 0.0}
    for name, model in models.items():
        arguments = model.mean, model.std, data.y
        values, theirs = (
            _all_but_groups(one.metrics, *arguments) for one in (ours, uncertainty_toolbox)
        )
        for measure, value in values.items():
            gap = abs(value - theirs[measure]) / max(abs(theirs[measure]), 1e-300)
            numbers["largest difference"] = max(numbers["largest difference"], gap)
            numbers[f"{measure} {name}"] = value
        numbers[f"group {name}"] = _of_small_groups(_groups(ours, arguments, "mean_abs", seed))
        test = fm.congruence_test(data.x, data.y, model, random_state=seed)
        numbers[f"p {name}"] = test.p_value
        numbers[f"cce {name}"], numbers[f"null {name}"] = test.cce, test.null_cce
    return numbers


_FURTHER_MEASURES = {  # measures that Uncertainty Toolbox has not
    "log score": lambda y, model: -model.log_prob(y),
    "CRPS": fm.metrics.crps,
    "coverage of 90 %": lambda y, model: fm.metrics.coverage(y, model, level=0.9),
    "mean width of 90 %": lambda y, model: fm.metrics.mean_interval_width(y, model, level=0.9),
    "ECE": fm.regression_ece,
    "ENCE": fm.ence,
    "ENCE by chance": fm.metrics.null_ence,
    "UCE": fm.metrics.uce,
    "dispersion c_v": lambda y, model: float(model.std.std() / model.std.mean()),
    "Dawid-Sebastiani": fm.metrics.mean_dawid_sebastiani,
    "quadratic score": fm.metrics.mean_quadratic_score,
    "bias": fm.metrics.bias,
}


def details(seeds: int) -> str:
    """Return all measures of all models on the first example as a Markdown table."""
    import uncertainty_toolbox

    data, models = _models(0)
    columns: dict[str, dict[str, tuple[float, float | None]]] = {}
    for name, model in models.items():
        arguments = model.mean, model.std, data.y
        both = [_all_but_groups(one.metrics, *arguments) for one in (ours, uncertainty_toolbox)]
        columns[name] = {measure: (value, both[1][measure]) for measure, value in both[0].items()}
        for kind in ("mean_abs", "root_mean_sq"):
            groups = [
                _of_small_groups(_groups(one, arguments, kind, 0))
                for one in (ours, uncertainty_toolbox)
            ]
            columns[name][f"{kind} of the worst fifth"] = (groups[0], groups[1])
        for measure, compute in _FURTHER_MEASURES.items():
            columns[name][measure] = (float(np.mean(compute(data.y, model))), None)
        test = fm.congruence_test(data.x, data.y, model, random_state=0)
        columns[name] |= {
            "CCE": (test.cce, None), "CCE by chance": (test.null_cce, None),
            "p-value of the exact test": (test.p_value, None),
        }  # fmt: skip
    lines = [
        f"All measures on the first of the examples ({_N} rows). In parentheses: the value of Uncertainty "
        "Toolbox, for each measure that it has. Both packages search the worst groups with the same seed.",
        "",
        "| measure | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|",
    ]  # fmt: skip
    for measure in columns["right"]:
        cells = [
            f"{one:.4g}" + ("" if other is None else f" ({other:.4g})")
            for one, other in (column[measure] for column in columns.values())
        ]
        lines.append(f"| {measure} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _groups(package: Any, arguments: tuple, kind: str, seed: int) -> Any:
    """Return the calibration errors of the worst groups of each size, which both packages search at random.

    Uncertainty Toolbox draws from NumPy's global state, and so does the module that replaces it. The state
    is put back.
    """
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        return package.metrics_calibration.adversarial_group_calibration(*arguments, cali_type=kind)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _of_small_groups(groups: Any) -> float:
    """Return the calibration error of the worst group of a fifth of the rows."""
    return float(groups.score_mean[np.argmin(np.abs(groups.group_size - _SMALL))])


def _values_text(runs: dict[str, np.ndarray], measure: str) -> str:
    names = ("constant", "too narrow", "too wide")
    return "; ".join(f"{name} {spread(runs[f'{measure} {name}'])}" for name in names)


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return what the measures say about a right model and three wrong ones."""
    runs = over_seeds(_numbers, seeds)
    if picture is not None:
        _draw(picture)
    wrong = ("constant", "too narrow", "too wide")
    scores = ("nll", "crps", "check", "interval")
    rejection_rates = {name: np.mean(runs[f"p {name}"] < 0.05) for name in ("right", *wrong)}
    data, models = _models(0)
    count = len(_all_but_groups(ours.metrics, models["right"].mean, models["right"].std, data.y))
    return [
        Claim(
            f"Both packages compute the same {count} measures (not in the paper)",
            f"largest relative difference {runs['largest difference'].max():.0e} "
            f"of {count * 4 * seeds} values", "", verdict(runs["largest difference"] < 1e-9),
        ),
        Claim(
            "Proper scores are best for the right model",
            "CRPS: " + _values_text(runs, "crps"), f"right model: CRPS {spread(runs['crps right'])}",
            verdict(*(runs[f"{one} {name}"] > runs[f"{one} right"] for one in scores for name in wrong)),
        ),
        Claim(
            "Average calibration misses much of a spread that is right on average but ignores x: its error "
            "is smaller than that of spreads of half or twice the size",
            "mean absolute calibration error: " + _values_text(runs, "ma_cal"),
            f"right model: {spread(runs['ma_cal right'])}",
            verdict(
                runs["ma_cal constant"] < runs["ma_cal too narrow"],
                runs["ma_cal constant"] < runs["ma_cal too wide"],
            ),
        ),
        Claim(
            f"Adversarial groups show it: in its worst group of {_SMALL:.0%} of the rows the constant "
            "spread is less calibrated than the right model",
            "mean absolute calibration error there: " + _values_text(runs, "group"),
            f"right model: {spread(runs['group right'])}",
            verdict(runs["group constant"] > runs["group right"]),
        ),
        Claim(
            "The exact test rejects all three wrong models (not in the paper)",
            "p < 0.05: " + "; ".join(f"{name} {rejection_rates[name]:.0%}" for name in wrong)
            + "; CCE: " + _values_text(runs, "cce") + "; by chance: " + _values_text(runs, "null"),
            f"right model: p < 0.05 in {rejection_rates['right']:.0%}; CCE {spread(runs['cce right'])}, "
            f"by chance {spread(runs['null right'])}",
            verdict(*(runs[f"p {name}"] < 0.05 for name in wrong)),
        ),
        added(data.x, data.y, models["constant"], "constant-spread"),
    ]  # fmt: skip


def _draw(path: Path) -> None:
    data, models = _models(0)
    figure, panels = axes_of(3)
    order = np.argsort(data.x)
    panels[0].scatter(data.x, data.y, s=4, color="0.5")
    for number, (name, model) in enumerate(models.items()):
        if name in ("right", "constant"):
            low, high = model.quantile([0.025, 0.975]).T[:, order]
            panels[0].fill_between(
                data.x[order], low, high, color=COLOURS[number], alpha=0.3, lw=0, label=name
            )
    for name, model in models.items():
        curve = fm.metrics.reliability_curve(data.y, model)
        panels[1].plot(curve.expected, curve.observed, label=name)
        groups = _groups(ours, (model.mean, model.std, data.y), "mean_abs", 0)
        panels[2].plot(groups.group_size, groups.score_mean, marker="o", label=name)
    panels[0].set(xlabel="x", ylabel="y and 95 % interval")
    diagonal(panels[1])
    panels[1].set(xlabel="predicted probability", ylabel="observed frequency")
    panels[2].set(xlabel="share of rows in a group", ylabel="calibration error of the worst group")
    save(figure, path)


EXPERIMENT = Experiment(
    "uncertainty_metrics", "The measures of predictive uncertainty on one example",
    "the lists of Chung et al., *Uncertainty Toolbox*, arXiv 2109.10254: accuracy, average and adversarial "
    "group calibration, sharpness, proper scores; each computed by both packages", run, seeds=10,
    details=details,
    about=(
        "A wave whose spread grows with x from x = 0.2 on, 600 rows. All four models have the right "
        "mean. Their spread is right, half as large, twice as large, or constant (right on average). "
        "Left: outcomes, and the 95 % intervals of the right and the constant model. Centre: "
        "reliability; the constant spread is nearer to the diagonal than the other two wrong ones. "
        "Right: the calibration error of the worst of random groups, by their size."
    ),
)  # fmt: skip
