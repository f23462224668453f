"""What a paper says, what was measured here, and whether it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

import fastmcmd as fm

__all__ = [
    "Claim",
    "Experiment",
    "Rows",
    "Run",
    "added",
    "mean_cce",
    "null_cce",
    "over_seeds",
    "per_name",
    "published_cce",
    "spread",
    "table",
    "verdict",
]


@dataclass(frozen=True)
class Claim:
    """A statement of a source, with the figures measured here.

    Attributes
    ----------
    text : str
        What the source says.
    measured : str
        Figures: mean and standard deviation over seeds.
    right_model : str
        What a right model would have in the same place, or "".
    verdict : {"holds", "partly", "not"}
        Whether it holds here; computed from the figures.
    """

    text: str
    measured: str
    right_model: str
    verdict: str


class Run(Protocol):
    """Computes an experiment; draws its picture if a file is named."""

    def __call__(self, seeds: int, picture: Path | None = None) -> list[Claim]:
        """Return the claims."""


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Attributes
    ----------
    name : str
        Name of its file and picture.
    title : str
        What it shows.
    source : str
        Paper and figure.
    run : callable
        Its computation.
    seeds : int
        Repetitions with data of their own.
    details : callable, optional
        Returns further tables in Markdown, for a number of repetitions.
    """

    name: str
    title: str
    source: str
    run: Run
    seeds: int = 10
    details: Callable[[int], str] | None = None


def over_seeds(compute: Callable[[int], dict[str, float]], seeds: int) -> dict[str, np.ndarray]:
    """Return the numbers of every seed, by their names."""
    rows = [compute(seed) for seed in range(seeds)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def spread(values: ArrayLike) -> str:
    """Return mean and standard deviation over seeds as text."""
    values = np.asarray(values, np.float64)
    deviation = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{deviation}"


def verdict(*conditions: object) -> str:
    """Return "holds" if all conditions are true in every seed, "not" if none is in most, else "partly"."""
    shares = [float(np.mean(np.asarray(one, bool))) for one in conditions]
    if min(shares) == 1:
        return "holds"
    return "not" if max(shares) < 0.5 else "partly"


def published_cce(
    x: ArrayLike, y: np.ndarray, prediction: fm.Predictive, **options: object
) -> fm.Result:
    """Return the CCE with the kernels and the regulariser of the publication's simulations.

    Options are arguments of `fastmcmd.cce` and take precedence.
    """
    published = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1 / (2 * y.var())), "lam": 0.1}
    return fm.cce(x, y, prediction, **(published | options))


class Rows(NamedTuple):
    """Inputs and outcomes whose true distribution is not known."""

    x: np.ndarray
    y: np.ndarray


def per_name(
    names: Sequence[str], values: Mapping[str, ArrayLike], form: str = "{}"
) -> str:
    """Return mean and standard deviation over seeds for several names, as text."""
    return "; ".join(f"{name} {spread(values[form.format(name)])}" for name in names)


def mean_cce(data: fm.datasets.Simulated | Rows, prediction: fm.Predictive, **options: object) -> float:
    """Return the mean CCE of a prediction with the published kernels."""
    return float(published_cce(data.x, data.y, prediction, **options).mean)


def null_cce(
    data: fm.datasets.Simulated | Rows, prediction: fm.Predictive, seed: int, **options: object
) -> float:
    """Return the mean CCE that the prediction has if outcomes are drawn from it: its noise alone."""
    outcomes = prediction.sample(1, seed)[:, 0]
    return float(published_cce(data.x, outcomes, prediction, **options).mean)


def added(
    x: np.ndarray,
    y: np.ndarray,
    prediction: fm.Predictive,
    name: str,
    *,
    method: fm.recalibration.Recalibrator | None = None,
    columns: object = None,
    **options: object,
) -> Claim:
    """Return what this package adds to an experiment: the verdict on a model, and the mended model.

    The verdict is of all rows. The correction, `ConditionalRescaling` unless ``method`` is another one, is
    fitted on the first half of the rows and measured on the second half. Options are those of `cce`.
    """
    result = fm.verdict(x, y, prediction, columns, random_state=0)
    first, second = np.array_split(np.arange(len(y)), 2)
    fitted = (method or fm.recalibration.ConditionalRescaling()).fit(
        prediction.take(first), y[first], x[first]
    )
    before = prediction.take(second)
    after = fitted.transform(before, x[second])
    part = Rows(x[second], y[second])
    cces = [mean_cce(part, one, **options) for one in (before, after)]
    chance = null_cce(part, after, 0, **options)
    p_values = [fm.congruence_test(part.x, part.y, one).p_value for one in (before, after)]
    return Claim(
        f"With fastmcmd: the verdict on the {name} model, and the model mended on one half of the rows, "
        "tested on the other",
        f"“{result.sentence}” CCE {cces[0]:.3f} before (p {p_values[0]:.3f}), {cces[1]:.3f} after "
        f"(p {p_values[1]:.3f})",
        f"by chance {chance:.3f}",
        verdict(result.wrong, cces[1] - chance < 0.5 * (cces[0] - chance), p_values[1] > 0.05),
    )


def table(claims: Sequence[Claim]) -> str:
    """Return claims as a Markdown table."""
    lines = ["| claim | measured here | a right model | verdict |", "|---|---|---|---|"]
    lines += [
        f"| {one.text} | {one.measured} | {one.right_model} | **{one.verdict}** |" for one in claims
    ]
    return "\n".join(lines)
