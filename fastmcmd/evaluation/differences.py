"""Differences of measures between models: one record a pair, and a table of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, overload

from fastmcmd._base.annotations import Json
from fastmcmd._base.checks import check_choice
from fastmcmd._base.tables import Notebook, aligned, data_frame
from fastmcmd.evaluation.measures import ALL_MEASURES
from fastmcmd.evaluation.result import full_name, text

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BOUNDED_SCORES", "LEAST_P", "MEAN_CCE", "PairOfModels", "Pairs", "check_interval", "shown_p",
]  # fmt: skip

LEAST_P = 0.0001  # p-value below which a normal approximation gives only the order of magnitude
MEAN_CCE = "mean_cce"
# Scores whose differences two predictions bound, whatever the outcome.
BOUNDED_SCORES = ("mean_crps", "mean_energy_score", "mean_brier_score")


def shown_p(p: float) -> str:
    """Return a p-value as text for tables; "" for NaN."""
    if math.isnan(p):
        return ""
    return f"{p:.3g}" if p >= LEAST_P else f"< {LEAST_P:g}"


@dataclass(frozen=True)
class PairOfModels:
    """The difference of a measure between two models.

    Attributes
    ----------
    measure : str
        Name of the measure in `Evaluation`. "mean_cce" stands for the mean of the *squared* CCE, whose
        difference is an unbiased estimate of the difference of the smoothed squared misfits.
    first, second : str
        Names of the models.
    difference : float
        Value of the first model minus that of the second.
    low, high : float
        Ends of the confidence interval; NaN if no interval with known coverage exists.
    p_value, p_adjusted : float
        Two-sided p-value of no difference, alone and adjusted for all pairs of this measure (Holm); NaN if
        there is no test.
    error : float
        Standard error of the difference; NaN if it is not known.
    reason : str
        Why a difference with a standard error has no interval and no test; "" otherwise.
    """

    measure: str
    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    error: float = math.nan
    reason: str = ""

    @property
    def uncertainty(self) -> str:
        """The interval as text; without one the standard error, or ""."""
        if not math.isnan(self.low):
            return f"{self.low:.4g} to {self.high:.4g}"
        return f"standard error {self.error:.2g}" if self.reason else ""


class Pairs(Sequence[PairOfModels], Notebook):
    """A sequence of differences between all pairs of models, ordered by measure."""

    def __init__(self, records: Sequence[PairOfModels], level: float) -> None:
        self._records, self._level = tuple(records), level

    @overload
    def __getitem__(self, index: int) -> PairOfModels: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PairOfModels]: ...
    def __getitem__(self, index: int | slice) -> PairOfModels | Sequence[PairOfModels]:
        """Return one record, or a list of records for a slice."""
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[PairOfModels]:
        return iter(self._records)

    def of(self, measure: str) -> Pairs:
        """Return the pairs of one measure, by its full or short name; none if two models lack it.

        Raises
        ------
        ValueError
            There is no such measure.
        """
        names = tuple(one.name for one in ALL_MEASURES)
        name = full_name(measure, {one.measure for one in self._records})
        name = check_choice(full_name(name, names), "measure", names)
        return Pairs([one for one in self._records if one.measure == name], self._level)

    def table(self) -> str:
        """Return one line per pair: the difference, its interval, both p-values; ties are marked.

        If a difference has no interval, its standard error is there, and a line below says why.
        """
        rows = [["", "first", "second", "difference", f"{100 * (1 - self._level):g} % interval",
                 "p", "p (Holm)", ""]]  # fmt: skip
        for one in self._records:
            p = [shown_p(p) for p in (one.p_value, one.p_adjusted)]
            tie = "tie" if one.p_adjusted > self._level else ""
            rows.append(
                [
                    self.label(one.measure),
                    one.first,
                    one.second,
                    text(one.difference),
                    one.uncertainty,
                    *p,
                    tie,
                ]
            )
        return "\n".join([aligned(rows, left=(0, 1, 2)), *self.notes()])

    def notes(self) -> list[str]:
        """Return why differences have no interval, a line for each measure and reason."""
        reasons = dict.fromkeys((one.measure, one.reason) for one in self._records if one.reason)
        other = next((name for name in BOUNDED_SCORES if len(self.of(name))), None)
        instead = "" if other is None else f"; compare the {self.label(other)}"
        return [
            f"no interval for the {self.label(measure)}: {reason}{instead}"
            for measure, reason in reasons
        ]

    @staticmethod
    def label(measure: str) -> str:
        """Return the display name of a measure."""
        if measure == MEAN_CCE:
            return "CCE squared, mean"
        return next((one.label for one in ALL_MEASURES if one.name == measure), measure)

    def to_dict(self) -> list[Json]:
        """Return JSON-safe records, with None for missing intervals and tests."""
        return [
            {name: _json(value) for name, value in _values(one).items()} for one in self._records
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per record.

        Raises
        ------
        MissingDependencyError
            If pandas is not installed.
        """
        return data_frame(
            [_values(one) for one in self._records],
            columns=[field.name for field in fields(PairOfModels)],
        )

    def __repr__(self) -> str:
        return self.table()


def _values(record: PairOfModels) -> Json:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _json(value: object) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def check_interval(pairs: Iterable[PairOfModels], answer: str) -> None:
    """Raise an error if a difference has no interval, on which ``answer`` rests, too."""
    for one in pairs:
        if one.reason:
            raise ValueError(
                f"{one.measure} has no {answer}: {one.reason} ({one.first!r} less {one.second!r}); take "
                "a score whose differences are bounded, such as the CRPS or the Brier score"
            )
