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


_HALVES = 4  # random ones on which a corrected model is measured


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


def per_name(names: Sequence[str], values: Mapping[str, ArrayLike], form: str = "{}") -> str:
    """Return mean and standard deviation over seeds for several names, as text."""
    return "; ".join(f"{name} {spread(values[form.format(name)])}" for name in names)


def mean_cce(
    data: fm.datasets.Simulated | Rows, prediction: fm.Predictive, **options: object
) -> float:
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
    fitted on random halves and measured on the others. Options are those of `cce`.
    """
    result = fm.verdict(x, y, prediction, columns, random_state=0)
    values = over_seeds(
        lambda seed: _mended(Rows(x, y), prediction, method, seed, options), _HALVES
    )
    before, after, chance = (values[one] for one in ("before", "after", "chance"))
    return Claim(
        f"With fastmcmd: the verdict on the {name} model; it is mended on random halves of the rows, and "
        "more than half of its CCE beyond chance goes on the other halves",
        f"“{result.sentence}” CCE {spread(before)} before, {spread(after)} after (p < 0.05 in "
        f"{np.sum(values['p'] < 0.05)} of {_HALVES} halves)",
        f"by chance {spread(chance)}",
        verdict(result.wrong, after - chance < 0.5 * (before - chance)),
    )


def _mended(
    rows: Rows,
    prediction: fm.Predictive,
    method: fm.recalibration.Recalibrator | None,
    seed: int,
    options: dict[str, object],
) -> dict[str, float]:
    """Return the CCE of the second half of the rows, before and after a correction fitted on the first."""
    order = np.random.default_rng(seed).permutation(len(rows.y))
    first, second = (np.sort(part) for part in np.array_split(order, 2))
    fitted = (method or fm.recalibration.ConditionalRescaling()).fit(
        prediction.take(first), rows.y[first], rows.x[first]
    )
    plain, part = prediction.take(second), Rows(rows.x[second], rows.y[second])
    mended = fitted.transform(plain, part.x)
    return {
        "before": mean_cce(part, plain, **options), "after": mean_cce(part, mended, **options),
        "chance": null_cce(part, mended, seed, **options),
        "p": fm.congruence_test(part.x, part.y, mended, alpha=0.05, random_state=seed).p_value,
    }  # fmt: skip


def table(claims: Sequence[Claim]) -> str:
    """Return claims as a Markdown table."""
    lines = ["| claim | measured here | a right model | verdict |", "|---|---|---|---|"]
    lines += [
        f"| {one.text} | {one.measured} | {one.right_model} | **{one.verdict}** |" for one in claims
    ]
    return "\n".join(lines)
