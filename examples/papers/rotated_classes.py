"""CCE of classifiers: digits that are rotated more and more."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import Claim, Experiment, over_seeds, spread, verdict
from examples.papers.mended_classes import added_to_classes
from examples.papers.pictures import STYLES, axes_of, save
from examples.papers.shifted_digits import TRIALS, classifiers, rows_of_shift

_ANGLES = (0, 10, 20, 30, 40, 50, 60)
_MOST = 40  # beyond, few digits are recognised and there is little left to lose
_MEASURES = ("accuracy", "confidence", "cce", "null")


def _rows(trial: int, angle: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, labels and the probabilities of the vanilla network of a trial."""
    x, labels = rows_of_shift(trial, f"rotated {angle}")
    return x, labels, classifiers(trial).probabilities("vanilla", x)


def _numbers(trial: int) -> dict[str, float]:
    numbers = {}
    for angle in _ANGLES:
        x, labels, p = _rows(trial, angle)
        test = fm.congruence_test(x, labels, fm.Categorical(p), y_kernel=fm.Delta())
        numbers |= {
            f"accuracy {angle}": fm.classification.accuracy(labels, p),
            f"confidence {angle}": float(p.max(axis=1).mean()),
            f"cce {angle}": test.cce, f"null {angle}": test.null_cce, f"p {angle}": test.p_value,
        }  # fmt: skip
    return numbers


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return what CCE says about the classes."""
    values = over_seeds(_numbers, min(seeds, TRIALS))
    if picture is not None:
        _draw(picture, values)
    cce = np.stack([values[f"cce {angle}"] for angle in _ANGLES if angle <= _MOST])
    last = _ANGLES[-1]
    return [
        Claim(
            f"CCE with a Delta kernel grows with the rotation up to {_MOST} degrees (the paper leaves "
            "classes open)",
            "; ".join(
                f"{angle}: {spread(values[f'cce {angle}'])} (p < 0.05 in "
                f"{np.mean(values[f'p {angle}'] < 0.05):.0%})" for angle in _ANGLES
            ),
            "by chance: "
            + "; ".join(f"{angle}: {spread(values[f'null {angle}'])}" for angle in _ANGLES),
            verdict((np.diff(cce, axis=0) > 0).all(axis=0)),
        ),
        Claim(
            "The confidence falls far less than the accuracy",
            f"at {last} degrees: confidence {spread(values[f'confidence {last}'])}, accuracy "
            f"{spread(values[f'accuracy {last}'])}",
            f"at 0 degrees: confidence {spread(values['confidence 0'])}, accuracy "
            f"{spread(values['accuracy 0'])}",
            verdict(values[f"confidence {last}"] - values[f"accuracy {last}"] > 0.1),
        ),
        Claim(
            "The exact test rejects the network from 10 degrees on (not in the paper)",
            "p < 0.05 in "
            f"{np.mean([values[f'p {angle}'] < 0.05 for angle in _ANGLES[1:]]):.0%} from 10 degrees on",
            f"{np.mean(values['p 0'] < 0.05):.0%} without rotation; 5 % if the predictions were right",
            verdict(*(values[f"p {angle}"] < 0.05 for angle in _ANGLES[1:])),
        ),
        added_to_classes(*_rows(0, 30), "vanilla network at 30 degrees"),
    ]  # fmt: skip


def _draw(path: Path, values: dict[str, np.ndarray]) -> None:
    figure, panels = axes_of(2)
    for panel, names in zip(panels, (_MEASURES[:2], _MEASURES[2:]), strict=True):
        for name, style in zip(names, STYLES, strict=False):
            rows = np.stack([values[f"{name} {angle}"] for angle in _ANGLES])
            label = {"cce": "CCE", "null": "CCE by chance"}.get(name, name)
            panel.plot(_ANGLES, rows.mean(axis=1), marker="o", markersize=4, label=label, **style)
        panel.set(xlabel="rotation in degrees", ylim=(0, None))
    panels[0].set(ylabel="share of rows")
    panels[1].set(ylabel="CCE")
    save(figure, path)


EXPERIMENT = Experiment(
    "rotated_classes", "Classes: CCE of a classifier under rotation",
    "ours: the CCE of Young et al., arXiv 2405.12412, for classes, on the digits and networks of the "
    "dataset-shift experiment", run, seeds=TRIALS,
)  # fmt: skip
