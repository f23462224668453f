"""The rows that the page holds: the worst of every region of one column, and a random sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fastmcmd.evaluation.result import Evaluation
from fastmcmd.plots.inputs import some
from fastmcmd.predictive import Categorical
from fastmcmd.report.cube import RegionCells

__all__ = ["Listing", "badness", "listing_of", "plain", "prediction_columns", "score_columns"]

_NUMBERS = 36_000  # of all rows together: a third of the page
_MOST, _LEAST = 2_000, 300  # rows
_RANDOM = 0.25  # share of rows drawn at random
_WORST = 10  # rows of each bin and group, at most
_NAMES = {
    "cce": "CCE", "log_score": "log score", "crps": "CRPS", "brier_score": "Brier score", "pit": "PIT",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Listing:
    """Rows of a report.

    Attributes
    ----------
    rows : ndarray (r,)
        Indices among the rows that were used, ascending.
    worst : int or None
        Number of the worst rows of every region of one column, in any group, that are among them; None if
        all rows are.
    """

    rows: NDArray[np.intp]
    worst: int | None


def listing_of(
    cells: Sequence[RegionCells], bad: Sequence[NDArray[np.float64]], columns: int
) -> Listing:
    """Return the rows to list.

    Parameters
    ----------
    cells : sequence of RegionCells
        Cells of each axis.
    bad : sequence of ndarray (n,)
        For each model how bad each row is.
    columns : int
        Number of columns of the list.
    """
    n = len(bad[0])
    most = int(np.clip(_NUMBERS // max(columns, 1), _LEAST, _MOST))
    if n <= most:
        return Listing(np.arange(n), None)
    ranked = [_ranks(one, order) for order in (np.argsort(-b) for b in bad) for one in cells]
    random = some(n, int(_RANDOM * most))
    for worst in range(_WORST, 0, -1):
        rows = np.unique(np.concatenate([random, *(order[:, :worst].ravel() for order in ranked)]))
        rows = rows[rows >= 0]
        if len(rows) <= most:
            return Listing(rows, worst)
    return Listing(np.unique(np.concatenate([random, *(np.argsort(-b)[:20] for b in bad)])), 0)


def _ranks(cells: RegionCells, order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the first rows in an order in each cell, (c, 10); -1 if a cell has fewer."""
    places = cells.places[order]
    by_cell = np.argsort(places, kind="stable")  # a radix sort of small integers
    counts = np.bincount(places, minlength=cells.count)
    starts = np.cumsum(counts) - counts
    index = starts[:, None] + np.arange(_WORST)
    valid = np.arange(_WORST) < counts[:, None]
    return np.where(valid, order[by_cell[np.where(valid, index, 0)]], -1)


def badness(evaluation: Evaluation) -> NDArray[np.float64] | None:
    """Return how bad each row (n,) is: its CCE, or the first score that there is; None without any."""
    for name in _NAMES:
        if name in evaluation.rows and name != "pit":
            return _of_used(evaluation, name)
    return None


def _of_used(evaluation: Evaluation, name: str) -> NDArray[np.float64]:
    values = evaluation.rows[name]
    valid = None if evaluation.context is None else evaluation.context.outcomes.valid
    return values if valid is None else values[valid]


def score_columns(
    evaluation: Evaluation, rows: NDArray[np.intp], model: str
) -> list[tuple[str, list[Any]]]:
    """Return the CCE, the scores and the PIT of some rows as columns; ``model`` is named in the heads."""
    return [
        (
            f"{label} · {model}" if model else label,
            [plain(one) for one in _of_used(evaluation, name)[rows]],
        )
        for name, label in _NAMES.items()
        if name in evaluation.rows
    ]


def prediction_columns(
    evaluation: Evaluation, rows: NDArray[np.intp], model: str
) -> list[tuple[str, list[Any]]]:
    """Return the predictions of some rows as columns: mean and std, or the likeliest class."""
    columns: dict[str, list[Any]] = {}
    if evaluation.classes is not None:
        probs = cast(Categorical, evaluation.prediction).probs[rows]
        names = np.array(evaluation.classes)
        columns["likeliest"] = [str(one) for one in names[probs.argmax(axis=1)]]
        columns["its probability"] = [plain(one) for one in probs.max(axis=1)]
    elif evaluation.y.ndim == 1 and evaluation.context is not None:
        columns["predicted mean"] = [plain(one) for one in evaluation.context.prediction.mean[rows]]
        columns["predicted std"] = [plain(one) for one in evaluation.context.prediction.std[rows]]
    return [(f"{name} · {model}" if model else name, values) for name, values in columns.items()]


def plain(value: Any) -> Any:
    """Return a value for JSON: numbers with five digits, infinity as text, None for NaN."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    number = float(value)
    if np.isnan(number):
        return None
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return float(f"{number:.5g}") + 0.0  # no -0
