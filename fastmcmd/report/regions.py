"""The quantities by which a reader may choose rows: inputs and predictions, never outcomes.

Whoever chooses rows by their outcomes sees a wrong calibration of every model, also of a right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fastmcmd.evaluation.result import Evaluation
from fastmcmd.predictive import Categorical
from fastmcmd.report.bins import Axis, axis_of
from fastmcmd.report.material import Material, column_names

__all__ = ["Column", "columns_of", "most_varied"]

Array = NDArray[np.float64]

_COLUMNS = 12  # most input columns; beyond, the plane of the pictures is used
_MODELS = 3  # most models whose predicted spread is a separate quantity
_ELEMENTS = 1 << 27  # most elements of x that are read for it: 1 GB


@dataclass(frozen=True, eq=False)
class Column:
    """A quantity by which rows are chosen: its values (n,), and whether it is an input."""

    name: str
    values: Array
    is_input: bool
    labels: tuple[str, ...] = ()


def columns_of(material: Material, n: int) -> list[Column]:
    """Return the inputs, or where they lie on the plane, and the predicted means and spreads."""
    columns = _inputs(material, n)
    for name, one in list(material.evaluations.items())[:_MODELS]:
        columns += _predicted(one, f" · {name}" if material.several else "", material.several)
    return columns


def _inputs(material: Material, n: int) -> list[Column]:
    name = next(iter(material.inputs), None)
    if name is None:
        return []
    evaluation, inputs = material.evaluations[name], material.inputs[name]
    assert evaluation.congruence is not None
    count = evaluation.congruence.n_features_in_
    if inputs.encoder is None and count <= _COLUMNS and n * count <= _ELEMENTS:
        rows = inputs.take(np.arange(n)).astype(np.float64, copy=False)
        names = column_names(evaluation)
        return [Column(one, values, True) for one, values in zip(names, rows.T, strict=True)]
    plane = material.planes.get(name)
    if plane is None or len(plane.rows) != n:
        return []
    across, up = plane.names
    if up == "second":  # after the first, as the labels of a picture
        up = across.replace("first", "second")
    return [Column(one, plane.places[:, place], True) for place, one in enumerate((across, up))]


def _predicted(evaluation: Evaluation, of: str, several: bool) -> list[Column]:
    context = evaluation.context
    assert context is not None
    if context.nominal:
        probs = cast(Categorical, context.base).probs
        confidence = Column(
            f"probability of the likeliest class{of}", context.of_classes("confidence"), False
        )
        if several:
            return [confidence]
        likeliest = probs.argmax(axis=1).astype(np.float64)
        return [confidence, Column("likeliest class", likeliest, False, evaluation.classes or ())]
    if not context.numbers:
        return []
    moments = {"predicted std": context.prediction.std}
    if not several:
        moments = {"predicted mean": context.prediction.mean} | moments
    return [Column(name + of, np.asarray(one), False) for name, one in moments.items()]


def most_varied(
    columns: Sequence[Column], values: Sequence[Array], most: int
) -> list[tuple[Column, Axis]]:
    """Return the columns with their bins; inputs first, those along which values vary most at the front.

    Parameters
    ----------
    columns : sequence of Column
        Candidates. Constant ones are left out.
    values : sequence of ndarray (n,)
        The CCE of each model, or another loss. Their variance between bins orders the inputs.
    most : int
        Most bins.
    """
    binned = [(column, _axis(column, most)) for column in columns]
    valid = [(column, axis) for column, axis in binned if axis is not None]
    between = {
        axis.name: sum(_between(axis, one) for one in values) for column, axis in valid
    }  # fmt: skip
    return sorted(valid, key=lambda pair: (not pair[0].is_input, -between[pair[1].name]))


def _axis(column: Column, most: int) -> Axis | None:
    axis = axis_of(column.name, column.values, most)
    if axis is None or not column.labels:
        return axis
    if axis.values is None:  # too many classes for a bin each
        return None
    return Axis(axis.name, axis.edges, axis.places, axis.values, axis.ends, column.labels)


def _between(axis: Axis, values: Array) -> float:
    """Return the share of the variance of values that lies between bins."""
    counts = np.bincount(axis.places, minlength=len(axis))
    means = np.bincount(axis.places, values, len(axis)) / np.maximum(counts, 1)
    variance = float(values.var())
    if not variance > 0:
        return 0.0
    return float(np.average((means - values.mean()) ** 2, weights=counts)) / variance
