"""A predicted distribution on the command line: ``family:parameter=column,...``."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.tables import did_you_mean
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.columns import Columns
from fastmcmd.errors import RowError

if TYPE_CHECKING:
    from fastmcmd.predictive.base import PredictionLike

__all__ = [
    "CLASSES",
    "DRAWS",
    "FAMILIES",
    "GENERAL",
    "IGNORED",
    "QUANTILES",
    "SORTED_QUANTILES",
    "class_names",
    "columns_in",
    "describe",
    "guess",
    "numbers_of_classes",
    "prediction",
]


@dataclass(frozen=True)
class FamilySpec:
    """A family of distributions: its class in `fastmcmd`, and the parameters that it needs."""

    name: str
    parameters: tuple[str, ...]


FAMILIES = {
    "gaussian": FamilySpec("Gaussian", ("mean", "std")),
    "student-t": FamilySpec("StudentT", ("df", "loc", "scale")),
    "laplace": FamilySpec("Laplace", ("loc", "scale")),
    "lognormal": FamilySpec("LogNormal", ("mu", "sigma")),
    "gamma": FamilySpec("Gamma", ("shape", "rate")),
    "beta": FamilySpec("Beta", ("a", "b")),
    "two-piece-normal": FamilySpec("TwoPieceNormal", ("loc", "lower_scale", "upper_scale")),
    "two-piece-laplace": FamilySpec("TwoPieceLaplace", ("loc", "lower_scale", "upper_scale")),
    "uniform": FamilySpec("Uniform", ("low", "high")),
    "logistic": FamilySpec("Logistic", ("loc", "scale")),
    "exponential": FamilySpec("Exponential", ("rate",)),
    "weibull": FamilySpec("Weibull", ("shape", "scale")),
    "generalized-pareto": FamilySpec("GeneralizedPareto", ("shape", "scale", "loc")),
    "binomial": FamilySpec("Binomial", ("n", "p")),
    "poisson": FamilySpec("Poisson", ("mean",)),
    "negative-binomial": FamilySpec("NegativeBinomial", ("mean", "dispersion")),
    "double-poisson": FamilySpec("DoublePoisson", ("mean", "phi")),
}
_ALIASES = {
    "gpd": "generalized-pareto",
    "negbin": "negative-binomial",
    "norm": "gaussian",
    "normal": "gaussian",
    "studentt": "student-t",
    "t": "student-t",
}
DRAWS, QUANTILES, CLASSES = "draws", "quantiles", "classes"
SORTED_QUANTILES = "sorted-quantiles"  # of columns that cross in some rows
GENERAL = (DRAWS, QUANTILES, SORTED_QUANTILES, CLASSES)
IGNORED = -1  # stands for the label of rows to leave out
_NO_LABEL = ("", "na", "nan", "none", "null")  # in lower case


def describe() -> str:
    """Return the families with their parameters, as help text."""
    forms = [f"{name}:{','.join(f'{p}=...' for p in f.parameters)}" for name, f in FAMILIES.items()]
    general_forms = [
        "draws:COLUMNS", "quantiles:LEVEL=COLUMN,...", "sorted-quantiles:LEVEL=COLUMN,...",
        "classes:NAME=COLUMN,...",
    ]  # fmt: skip
    return "\n  ".join([*forms, *general_forms])


def guess(columns: Columns) -> str:
    """Return the prediction that the names of the columns imply: draws, or mean and std."""
    for name in ("samples", "draws"):
        if name in columns.names:
            return f"{DRAWS}:{name}"
    if {"mean", "std"} <= set(columns.names):
        return "gaussian:mean=mean,std=std"
    raise UsageError(
        f"--prediction is needed: {columns.title} has no columns samples, draws, or mean and std; it has "
        f"{columns.listing()}"
    )


def columns_in(text: str, columns: Columns) -> list[str]:
    """Return the columns that a prediction needs, so that they are read together."""
    family, _, specification = text.partition(":")
    parts = (
        [specification] if family == DRAWS else [value for _, value in _pairs(text, specification)]
    )
    names: list[str] = []
    for part in parts:
        with contextlib.suppress(UsageError):  # a number, or text that `prediction` rejects
            names += columns.find(part, text)
    return names


def prediction(text: str, columns: Columns) -> PredictionLike:
    """Return the predicted distributions of a text such as ``gaussian:mean=mu,std=sigma``.

    A parameter is the name of a column, or a number for all rows.
    """
    import fastmcmd as fm

    family, _, specification = text.partition(":")
    family = _ALIASES.get(family.lower(), family)
    if family == DRAWS:
        return fm.Draws(columns.select(specification, "--prediction draws"))
    parameters = _pairs(text, specification)
    if family in (QUANTILES, SORTED_QUANTILES):
        levels = [_number(level, text) for level, _ in parameters]
        order = np.argsort(levels)
        values = [columns.select(parameters[i][1], f"--prediction {text}") for i in order]
        table = np.stack(values, axis=1)
        try:
            return fm.Quantiles(np.sort(levels), table, sort=family == SORTED_QUANTILES)
        except RowError as error:
            advice = f"{SORTED_QUANTILES}:{specification} sorts them"
            raise RowError(str(error).replace("sort=True sorts them", advice), error.row) from None
    if family == CLASSES:
        probabilities = [columns.select(one, f"--prediction {text}") for _, one in parameters]
        names = [name for name, _ in parameters]
        table = np.stack(probabilities, axis=1)
        if table.ndim == 2:
            _check_sums(table, columns)
        return fm.Categorical(table, classes=names)
    if family not in FAMILIES:
        families = ", ".join([*FAMILIES, *GENERAL])
        raise UsageError(
            f"--prediction {text}: no family {family!r}; {did_you_mean(family, [*FAMILIES, *_ALIASES])}one "
            f"of {families} is needed"
        )
    parameter_names = FAMILIES[family].parameters
    if sorted(name for name, _ in parameters) != sorted(parameter_names):
        example = ",".join(f"{name}=COLUMN" for name in parameter_names)
        raise UsageError(f"--prediction {text}: {family}:{example} is needed")
    values_of = {name: _column(value, columns, text) for name, value in parameters}
    rows = max((len(v) for v in values_of.values() if isinstance(v, np.ndarray)), default=0)
    if not rows:
        raise UsageError(f"--prediction {text}: at least one parameter must be a column")
    # The first parameter determines the number of rows: a number there holds for all.
    values_of = {
        name: np.full(rows, value) if np.ndim(value) == 0 else value
        for name, value in values_of.items()
    }
    try:
        return getattr(fm, FAMILIES[family].name)(**values_of)
    except RowError as error:  # it names the parameter, whose column may have another name
        if all(name == column for name, column in parameters):
            raise
        raise RowError(f"--prediction {text}: {error}", error.row) from None


def _check_sums(table: HostArray, columns: Columns) -> None:
    """Raise an error that names the first line whose probabilities do not sum to 1."""
    from fastmcmd.predictive.categorical import SUM_TOLERANCE

    off = np.flatnonzero(np.abs(table.sum(axis=1) - 1) > SUM_TOLERANCE)
    if len(off):
        row = int(off[0])
        raise UsageError(
            f"the probabilities of --prediction sum to {table[row].sum():.6g}: {columns.title}, "
            f"{columns.place(row)} ({len(off):,} such rows); they must sum to 1 within {SUM_TOLERANCE:g}: "
            "write them with more digits"
        )


def class_names(text: str) -> list[str] | None:
    """Return the names of the classes of ``classes:NAME=COLUMN,...``; None of other predictions."""
    family, _, specification = text.partition(":")
    return [name for name, _ in _pairs(text, specification)] if family == CLASSES else None


def numbers_of_classes(
    labels: HostArray, names: list[str], columns: Columns, ignored: str | None = None
) -> HostArray:
    """Return the index of each label among the names of the classes (n,); NaN for missing labels.

    A label that equals ``ignored`` gets the number `IGNORED`.
    """
    places = {name: float(place) for place, name in enumerate(names)}
    texts = [f"{one:g}" if isinstance(one, float) else str(one).strip() for one in labels.tolist()]
    numbers = np.full(len(texts), np.nan)
    for row, one in enumerate(texts):
        if one == ignored:
            numbers[row] = IGNORED
        elif one in places:
            numbers[row] = places[one]
        elif one.lower() not in _NO_LABEL:
            raise UsageError(
                f"y holds {one!r}: {columns.title}, {columns.place(row)}; the classes of --prediction are "
                f"{', '.join(names)}"
            )
    return numbers


def _pairs(text: str, specification: str) -> list[tuple[str, str]]:
    pairs = [tuple(part.split("=", 1)) for part in specification.split(",") if part]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise UsageError(f"--prediction {text!r}; {_form_of(text, specification)}")
    return [(name.strip(), value.strip()) for name, value in pairs]


def _form_of(text: str, specification: str) -> str:
    """Return what a prediction without names of parameters should look like."""
    family_text = text.partition(":")[0].strip().lower()
    names_of_families = [*FAMILIES, *_ALIASES, *GENERAL]
    longer_names = [
        name for name in names_of_families if family_text and name.startswith(family_text)
    ]
    near = [family_text] if family_text in names_of_families else longer_names
    if not near:
        near = get_close_matches(family_text, names_of_families, n=1)
    if not near:
        return f"a family and its columns are needed: {describe()}"
    family = _ALIASES.get(near[0], near[0])
    form = next(one for one in describe().split() if one.partition(":")[0] == family)
    columns = [part.strip() for part in specification.split(",") if part.strip()]
    names = FAMILIES[family].parameters if family in FAMILIES else ()
    if names and len(columns) == len(names) and not any("=" in one for one in columns):
        pairs = zip(names, columns, strict=True)
        form = f"{family}:{','.join(f'{name}={column}' for name, column in pairs)}"
    return f"{form} is needed"


def _number(value: str, text: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"--prediction {text}: {value!r} is not a level in (0, 1)") from None


def _column(value: str, columns: Columns, text: str) -> float | HostArray:
    if value in columns.names:
        return columns.select(value, f"--prediction {text}")
    try:
        return float(value)
    except ValueError:
        return columns.select(value, f"--prediction {text}")  # its error lists the columns
