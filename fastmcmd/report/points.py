"""The best and the worst points, and the witness of the worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd.plots.congruence import witness
from fastmcmd.plots.inputs import Inputs
from fastmcmd.plots.panels import used_rows
from fastmcmd.plots.style import COLOURS
from fastmcmd.predictive import Categorical
from fastmcmd.report.material import Material, column_names
from fastmcmd.report.page import Cell, Section, figure, heading, note, paragraph, pictures, table
from fastmcmd.report.pictures import svg

if TYPE_CHECKING:
    from fastmcmd.evaluation.result import Evaluation

__all__ = ["points"]

_MOST_POINTS = 15  # best and worst points
_COLUMNS = 12  # most input columns shown with a point
_LETTERS = 60  # most characters shown of an input or a label that is text
_GRID = 200  # outputs at which a witness is drawn
_RANGE = (0.001, 0.999)  # quantiles of y between which it is drawn
_NAMES = {"pit": "PIT", "crps": "CRPS", "log_score": "log score"}


def points(material: Material) -> Section | None:
    """Return tables of points, and the witness of the worst point, for each model."""
    body = ""
    for place, (name, evaluation) in enumerate(material.evaluations.items()):
        if evaluation.cce is None or not evaluation.in_memory:
            continue
        if material.several:
            body += heading(name)
        inputs = material.inputs.get(name)
        if inputs is None:
            body += note("x was an iterator and is exhausted: inputs and witness are not shown.")
        else:
            body += _witness_of_worst(evaluation, inputs, COLOURS[place % len(COLOURS)])
        for extreme, rows in _extremes(evaluation.rows["cce"]):
            body += paragraph(f"Points of {extreme} CCE.", "above")
            body += table(*_rows_of_table(evaluation, inputs, rows), sortable=True)
    if not body:
        return None
    hint = paragraph("A click on a heading sorts a table.", "how guide")
    return Section("points", "Best and worst points", hint + body)


def _extremes(cce: NDArray[np.float64]) -> list[tuple[str, NDArray[np.intp]]]:
    order = np.argsort(cce)  # NaN, of rows left out, last
    order = order[: int(np.isfinite(cce).sum())]
    return [("largest", order[::-1][:_MOST_POINTS]), ("smallest", order[:_MOST_POINTS])]


def _rows_of_table(
    evaluation: Evaluation, inputs: Inputs | None, rows: NDArray[np.intp]
) -> tuple[list[str], list[Sequence[Cell]]]:
    """Return the header and the rows of a table of some points."""
    columns: list[tuple[str, list[Cell]]] = [("row", _numbers(rows))]
    if evaluation.labels is not None and evaluation.labels.index is not None:
        index = evaluation.labels.index
        columns.append(("label", [Cell(_short(index[int(row)]), kind="word") for row in rows]))
    columns.append(("CCE", _numbers(evaluation.rows["cce"][rows])))
    where = np.searchsorted(used_rows(evaluation), rows)  # among the rows that were used
    if evaluation.supported is not None and not evaluation.supported[where].all():
        words = ["" if one else "few rows near" for one in evaluation.supported[where]]
        columns.append(("support", [Cell(word, kind="word") for word in words]))
    if inputs is not None:
        columns += _inputs(evaluation, inputs, where)
    if evaluation.classes is not None:
        names = np.array(evaluation.classes)
        probs = cast(Categorical, evaluation.prediction).probs[where]
        outcome = evaluation.y[where].astype(np.intp)
        columns.append(("outcome", [Cell(name, kind="word") for name in names[outcome]]))
        columns.append(
            ("likeliest", [Cell(name, kind="word") for name in names[probs.argmax(axis=1)]])
        )
        columns.append(("its probability", _numbers(probs.max(axis=1))))
        columns.append(
            ("probability of the outcome", _numbers(probs[np.arange(len(probs)), outcome]))
        )
    elif evaluation.y.ndim == 1:
        some = evaluation.prediction.take(where)
        columns.append(("outcome", _numbers(evaluation.y[where])))
        columns.append(("predicted mean", _numbers(some.mean)))
        columns.append(("predicted std", _numbers(some.std)))
    for name, label in _NAMES.items():
        if name in evaluation.rows:
            columns.append((label, _numbers(evaluation.rows[name][rows])))
    head = [name for name, _ in columns]
    return head, [list(line) for line in zip(*(cells for _, cells in columns), strict=True)]


def _inputs(
    evaluation: Evaluation, inputs: Inputs, where: NDArray[np.intp]
) -> list[tuple[str, list[Cell]]]:
    """Return the inputs of some points as columns, if they are text or few numbers."""
    assert evaluation.congruence is not None
    if inputs.encoder is not None:
        ascending = np.argsort(where)  # rows of a file must be read in order
        raw = inputs.raw(where[ascending])
        labels = [] if raw is None or getattr(raw, "ndim", 1) != 1 else list(raw)
        if len(labels) != len(where) or not all(isinstance(one, str) for one in labels):
            return []
        in_order = [labels[place] for place in np.argsort(ascending)]
        return [("x", [Cell(_short(one), kind="word") for one in in_order])]
    if evaluation.congruence.n_features_in_ > _COLUMNS:
        return []
    names = column_names(evaluation)
    return [
        (name, _numbers(values)) for name, values in zip(names, inputs.take(where).T, strict=True)
    ]


def _numbers(values: HostArray) -> list[Cell]:
    return [Cell(_number(value), float(value)) for value in values]


def _number(value: float) -> str:
    # Adding 0.0 makes 0 of -0.
    return f"{value:,}" if isinstance(value, (int, np.integer)) else f"{value + 0.0:.4g}"


def _short(value: float) -> str:
    text = str(value)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _witness_of_worst(evaluation: Evaluation, inputs: Inputs, colour: str) -> str:
    """Return the witness at the point of largest CCE, if outputs are numbers."""
    if evaluation.y.ndim != 1 or evaluation.congruence is None or evaluation.classes is not None:
        return ""
    worst = int(np.nanargmax(evaluation.rows["cce"]))
    at = int(np.searchsorted(used_rows(evaluation), worst))
    low, high = np.quantile(evaluation.y, _RANGE)
    low, high = min(low, evaluation.y[at]), max(high, evaluation.y[at])
    outputs = np.linspace(low, high, _GRID)
    if evaluation.prediction.discrete and high - low < _GRID:
        outputs = np.arange(np.floor(low), np.ceil(high) + 1)
    grid = inputs.take(np.array([at]))
    h = evaluation.congruence.witness_of_encoded(grid, outputs)[0]
    title = "Witness of the worst point"
    picture = svg(
        lambda ax: witness(outputs, h, ax, colour=colour, outcome=float(evaluation.y[at])), title
    )
    caption = (
        f"Row {worst:,}, the point of largest CCE: outcomes to which the model gives too little mass "
        "(above 0) or too much (below 0). The mark is the outcome."
    )
    return pictures([figure(picture, title, caption)])
