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
    "HALVES",
    "Claim",
    "Experiment",
    "Rows",
    "Run",
    "added",
    "claim_of_mending",
    "halves_of",
    "mean_cce",
    "null_cce",
    "of_forecast",
    "over_seeds",
    "per_name",
    "published_cce",
    "rejections",
    "spread",
    "table",
    "verdict",
]


HALVES = 4  # random ones on which a mended model is measured


@dataclass(frozen=True)
class Claim:
    """A statement of a source, with the figures measured here.

    Attributes
    ----------
    text : str
        What the source says.
    measured : str
        Figures: mean and standard deviation over seeds.
    reference : str
        What to compare with: the figures of a right model, of chance or of a baseline, or "".
    verdict : {"holds", "partly", "not"}
        Whether it holds here; computed from the figures.
    """

    text: str
    measured: str
    reference: str
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


def rejections(names: Sequence[str], values: Mapping[str, ArrayLike], form: str = "p {}") -> str:
    """Return for several names how often the test rejects at 5 %, as text."""
    shares = {name: np.mean(np.asarray(values[form.format(name)]) < 0.05) for name in names}
    if len(set(shares.values())) == 1:
        return f"the test rejects {next(iter(shares.values())):.0%}"
    return "the test rejects " + ", ".join(f"{name} {one:.0%}" for name, one in shares.items())


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
    columns: dict[str, np.ndarray] | None = None,
    by_columns: bool = False,
    note: str = "",
    **options: object,
) -> Claim:
    """Return what this package adds: verdict and diagnosis of a model, and the mended model.

    Verdict and diagnosis are of all rows. The correction is fitted on random halves and measured on the
    others.

    Parameters
    ----------
    x, y, prediction
        Inputs, outcomes and the model.
    name : str
        What the model is called.
    method : Recalibrator, optional
        The correction. Default: `ConditionalRescaling`.
    columns : dict of str to ndarray (n,), optional
        Columns that describe where the model is wrong. Default: the inputs.
    by_columns : bool
        Whether the correction depends on these columns instead of the inputs.
    note : str
        A sentence for the end.
    **options
        Arguments of `cce`.
    """
    result = fm.verdict(x, y, prediction, columns, random_state=0)
    inputs = np.column_stack(list((columns or {}).values())) if by_columns else x
    rows = Rows(x, y)

    def halves(seed: int) -> dict[str, float]:
        return _mended(rows, inputs, prediction, method, seed, options)

    return claim_of_mending(
        name, result.sentence, over_seeds(halves, HALVES), result.wrong, note=note
    )


def claim_of_mending(
    name: str, sentence: str, values: Mapping[str, np.ndarray], wrong: bool, note: str = ""
) -> Claim:
    """Return the last claim of an experiment, from the figures of `HALVES` random halves of the rows.

    Parameters
    ----------
    name : str
        What the model is called.
    sentence : str
        Verdict and diagnosis.
    values : mapping of str to ndarray
        "before", "after", "chance" and "p": the CCE of the other halves before and after mending, that of
        outcomes drawn from the mended model, and the p-value of the mended model.
    wrong : bool
        Whether the exact test rejects the model.
    note : str
        A sentence for the end.
    """
    before, after, chance, p = (values[one] for one in ("before", "after", "chance", "p"))
    return Claim(
        f"With fastmcmd: verdict, diagnosis and mended model ({name})",
        f"“{sentence}” Mended: CCE {spread(after)} instead of {spread(before)}; the test rejects the "
        f"mended model in {np.sum(p < 0.05)} of {len(p)} halves. {note}".strip(),
        f"mended, by chance: {spread(chance)}",
        verdict(wrong, after - chance < 0.5 * (before - chance)),
    )


def halves_of(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted numbers of the rows of two random halves."""
    order = np.random.default_rng(seed).permutation(n)
    first, second = np.array_split(order, 2)
    return np.sort(first), np.sort(second)


def _mended(
    rows: Rows,
    inputs: np.ndarray,
    prediction: fm.Predictive,
    method: fm.recalibration.Recalibrator | None,
    seed: int,
    options: dict[str, object],
) -> dict[str, float]:
    """Return the CCE of one half of the rows, before and after a correction fitted on the other half."""
    first, second = halves_of(len(rows.y), seed)
    fitted = (method or fm.recalibration.ConditionalRescaling()).fit(
        prediction.take(first), rows.y[first], inputs[first]
    )
    plain, part = prediction.take(second), Rows(rows.x[second], rows.y[second])
    mended = fitted.transform(plain, inputs[second])
    return {
        "before": mean_cce(part, plain, **options), "after": mean_cce(part, mended, **options),
        "chance": null_cce(part, mended, seed, **options),
        "p": fm.congruence_test(part.x, part.y, mended, alpha=0.05, random_state=seed).p_value,
    }  # fmt: skip


def of_forecast(prediction: fm.Predictive) -> dict[str, np.ndarray]:
    """Return mean and logarithm of the standard deviation of predictions, as columns."""
    return {"predicted mean": prediction.mean, "log predicted std": np.log(prediction.std)}


def table(claims: Sequence[Claim]) -> str:
    """Return claims as a Markdown table."""
    lines = ["| claim | measured here | to compare with | verdict |", "|---|---|---|---|"]
    lines += [
        f"| {one.text} | {one.measured} | {one.reference} | **{one.verdict}** |" for one in claims
    ]
    return "\n".join(lines)
