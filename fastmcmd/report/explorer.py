"""The interactive part of the page: choose a region of the inputs or a group, and all numbers follow.

The page holds sums by bin (`cube`), for the script `explorer.js` to add up, and some rows (`listing`).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.result import BEST, Evaluation
from fastmcmd.plots.inputs import some
from fastmcmd.report.bins import Axis, axis_of
from fastmcmd.report.cube import (
    CellSums,
    Groups,
    ModelCellSums,
    ModelRows,
    RegionCells,
    groups_of,
    sums_over,
)
from fastmcmd.report.listing import badness, listing_of, plain, prediction_columns, score_columns
from fastmcmd.report.material import Material
from fastmcmd.report.page import Section, data_block, paragraph, scripted
from fastmcmd.report.quantities import CLASS_BINS, FEW, LEVELS, class_bins, pit_bins, quantities
from fastmcmd.report.regions import Column, columns_of, most_varied

__all__ = ["explorer"]

Array = NDArray[np.float64]

# Most bins of a column, bins along each side of the map, and groups: the first that stay in the budget.
_LADDER = ((24, 16, 8), (16, 12, 8), (12, 8, 6), (10, 0, 4), (8, 0, 1))
_BUDGET = 300_000  # bytes of all sums; base64 makes 400 kB of them
_FEW = 5  # bins below which a column makes a poor map
_WITNESS = 30  # outcomes at which a witness is drawn
_WITNESS_ROWS = 2_000  # most rows whose witness is averaged,
_WITNESS_PAIRS = 1 << 28  # and most pairs of them with a row of the data: a second
_RANGE = (0.005, 0.995)  # quantiles of y between which it is drawn

_HOW = (
    "Choose a group, or drag across a histogram or the map: every number and curve below then belongs to "
    "the rows in that region, summed over all of them. Grey bars count rows; lines are the {value} in "
    "each bin, from 0 at the bottom{order}. A region that you chose by looking has no p-value: bands hold "
    "for regions chosen beforehand."
)
# The first existing quantity is shown by the lines and the map; none of them is ever negative.
_FOLLOWED = ("mean_cce", "mean_crps", "mean_energy_score", "mean_brier_score", "rmse")
_WITHOUT = (
    "Choosing regions needs JavaScript, which is off or not available. "
    "The other parts of the page are complete."
)


def explorer(material: Material) -> Section | None:
    """Return the controls and the sums; None if there is nothing to choose by."""
    contexts = _contexts(material)
    if contexts is None:
        return None
    data = _data(material, contexts)
    if data is None:
        return None
    value = data["followed"]["text"]
    order = "; inputs stand in the order of its variation along them" if data["inputs"] > 1 else ""
    body = paragraph(_HOW.format(value=value, order=order), "how")
    body += scripted("explorer", _WITHOUT) + data_block("cube", data)
    return Section("explore", "Explore", body)


def _contexts(material: Material) -> list[Context] | None:
    """Return the contexts of all models if they have the same rows and weights; otherwise None."""
    contexts = [one.context for one in material.evaluations.values()]
    usable = [one for one in contexts if one is not None and not one.outcomes.nan_result]
    if not usable or len(usable) < len(contexts):
        return None
    first = usable[0]
    for one in usable[1:]:
        same = len(one.y) == len(first.y) and _equal(one.weights, first.weights)
        if not same or not _equal(one.outcomes.valid, first.outcomes.valid):
            return None
    return usable


def _equal(values: NDArray[Any] | None, other_values: NDArray[Any] | None) -> bool:
    if values is None or other_values is None:
        return values is other_values
    return np.array_equal(values, other_values)


@dataclass(frozen=True, eq=False)
class _Plan:
    """How fine the sums are."""

    bins: int
    plane_bins: int
    groups: int


def _plan(row_bytes: int, axes: int, labels: int, models: int) -> _Plan:
    """Return the finest plan within the budget; ``row_bytes`` are those of a cell for one model."""
    for bins, plane_bins, most in _LADDER:
        cells = min(labels, most) * (axes * bins + plane_bins**2)
        if cells * row_bytes * models <= _BUDGET:
            break
    return _Plan(bins, plane_bins, most)


def _data(material: Material, contexts: Sequence[Context]) -> dict[str, Any] | None:
    evaluations = list(material.evaluations.values())
    first, n = contexts[0], len(contexts[0].y)
    labels = next((one.group_labels for one in evaluations if one.group_labels is not None), None)
    columns = columns_of(material, n)
    if not columns and labels is None:
        return None
    label_count = 1 if labels is None else len(np.unique(labels))
    models, described, outcomes, witness_places = _models(material, contexts)
    row_bytes = 8 * len(described) + 4 * len(outcomes)
    row_bytes += 2 * LEVELS if first.numbers else 8 * 4 * CLASS_BINS if first.nominal else 0
    plan = _plan(row_bytes, len(columns), label_count, len(models))
    groups = groups_of(labels, n, plan.groups)
    losses = [one for one in map(badness, evaluations) if one is not None]
    finite = [np.clip(one, -1e300, 1e300) for one in losses]
    pairs = most_varied(columns, finite, plan.bins)
    if (not pairs and len(groups) == 1) or not described:
        return None
    axes = [axis for _, axis in pairs]
    cells = [RegionCells.of(groups, axis) for axis in axes]
    if not cells:
        cells = [RegionCells(groups.places, len(groups))]
        axes = [Axis("", np.empty(0), np.zeros(n, dtype=np.uint8), None, (0.0, 0.0))]
    plane = _plane([column for column, _ in pairs if column.is_input], plan.plane_bins)
    weights = first.weights

    def packed(one: RegionCells) -> dict[str, Any]:
        return _packed(sums_over(one, models, weights, witness_places), weights is not None)

    data: dict[str, Any] = {
        "n": n,
        "weighted": weights is not None,
        "models": list(material.evaluations) if material.several else [""],
        "groups": groups.labels,
        "quantities": described,
        "followed": _followed(described),
        "inputs": sum(column.is_input for column, _ in pairs),
        "bands": _has_bands(material, contexts),
        "levels": LEVELS if first.numbers else 0,
        "outcomes": [plain(one) for one in outcomes],
        "classes": list(evaluations[0].classes or ()),
        "sampled": len(witness_places),
        "axes": [_axis(axis) | packed(one) for axis, one in zip(axes, cells, strict=True)],
        "map": None,
    }
    if plane is not None:
        one = RegionCells.of_plane(groups, *plane)
        data["map"] = {"across": _axis(plane[0]), "up": _axis(plane[1])} | packed(one)
    data["list"] = _list(material, columns, groups, cells, axes, plane, losses)
    return data


def _followed(described: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the index and the name of the quantity that lines and the map show.

    "few" is the index of the share of rows that do not support it, or -1.
    """
    labels = {one["name"]: one["label"] for one in described} | {"mean_cce": "mean CCE"}
    names = [one["name"] for one in described]
    name = next((one for one in _FOLLOWED if one in names), names[0] if names else "")
    few = names.index(FEW) if name == "mean_cce" and FEW in names else -1
    return {"index": names.index(name) if names else 0, "text": labels.get(name, ""), "few": few}


def _has_bands(material: Material, contexts: Sequence[Context]) -> bool:
    """Return whether counts of a calibrated model are binomial: independent rows of equal weight."""
    uniform = all(
        one.settings.pit == "randomized" or not one.base.discrete or one.nominal for one in contexts
    )
    independent = material.comparison.clusters is None
    return uniform and independent and contexts[0].weights is None


def _plane(inputs: Sequence[Column], bins: int) -> tuple[Axis, Axis] | None:
    """Return the bins of two inputs for the map: the first that have more than a few values."""
    wide: list[Axis] = []
    narrow: list[Axis] = []
    for one in inputs if bins else ():
        axis = axis_of(one.name, one.values, bins)
        if axis is not None:
            (narrow if len(axis) < _FEW else wide).append(axis)
        if len(wide) == 2:
            break
    several = wide + narrow
    return (several[0], several[1]) if len(several) > 1 else None


def _models(
    material: Material, contexts: Sequence[Context]
) -> tuple[list[ModelRows], list[dict[str, Any]], Array, NDArray[np.intp]]:
    """Return what is summed for each model, what it is, outcomes of witnesses, and rows of witnesses."""
    evaluations = list(material.evaluations.values())
    n = len(contexts[0].y)
    by_model = [{one.name: one for one in quantities(evaluation)} for evaluation in evaluations]
    union = {name: one for quantity in by_model for name, one in quantity.items()}
    names = list(union)
    missing = np.full(n, np.nan)
    outcomes, places = np.empty(0), np.empty(0, dtype=np.intp)
    if all(name in material.inputs for name in material.evaluations):
        outcomes = _outcomes(evaluations[0], contexts[0])
        places = _witness_places(material, n)
    models = []
    for (name, evaluation), context, by_name in zip(
        material.evaluations.items(), contexts, by_model, strict=True
    ):
        witness = None
        if outcomes.size:
            assert evaluation.congruence is not None
            inputs = material.inputs[name].rows_of_sample(places)
            witness = evaluation.congruence.witness_of_encoded(inputs, outcomes)
        rows = [by_name[one].values if one in by_name else missing for one in names]
        models.append(
            ModelRows(
                np.array(rows).reshape(len(rows), n),
                pit_bins(context),
                class_bins(context),
                witness,
            )
        )
    described = [
        {"name": one.name, "label": one.label, "root": one.root, "best": BEST[one.best]}
        for one in union.values()
    ]
    return models, described, outcomes, places


def _witness_places(material: Material, n: int) -> NDArray[np.intp]:
    """Return the rows whose witness is averaged: of those that pictures show, so that encoders run once."""
    smallest = min(material.inputs.values(), key=lambda one: one.most)
    rows = smallest.sample[0]
    return rows[some(len(rows), min(_WITNESS_ROWS, max(_WITNESS_PAIRS // n, 100)))]


def _outcomes(evaluation: Evaluation, context: Context) -> Array:
    """Return the outcomes at which the witness is drawn; none for vectors."""
    if evaluation.classes is not None:
        return np.arange(len(evaluation.classes), dtype=np.float64)
    if not context.numbers:
        return np.empty(0)
    low, high = np.quantile(context.y, _RANGE)
    if context.base.discrete and high - low < _WITNESS:
        return np.arange(np.floor(low), np.ceil(high) + 1)
    return np.linspace(low, high, _WITNESS) if high > low else np.empty(0)


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "name": axis.name,
        "bins": len(axis),
        "texts": axis.texts,
        "discrete": axis.values is not None,
        "ends": [f"{end:.4g}" for end in axis.ends],
    }


def _packed(sums: CellSums, weighted: bool) -> dict[str, Any]:
    """Return sums for JSON; without weights, counts serve as sums of weights."""
    present = np.flatnonzero(sums.rows)
    return {
        "cells": _array(present),
        "rows": _array(sums.rows[present]),
        "weights": _array(sums.weights[present]) if weighted else None,
        "witnessRows": _array(sums.witness_rows[present]),
        "models": [_packed_model(one, present, weighted) for one in sums.models],
    }


def _packed_model(sums: ModelCellSums, present: NDArray[np.intp], weighted: bool) -> dict[str, Any]:
    pit = sums.pit
    if pit is not None and not weighted:
        pit = pit.astype(np.int64)
    return {
        "sums": _array(sums.quantities[present]),
        "pit": None if pit is None else _array(pit[present]),
        "classes": None if sums.classes is None else _array(sums.classes[present]),
        "witness": None if sums.witness is None else _array(sums.witness[present].astype("f4")),
    }


def _array(values: NDArray[Any]) -> dict[str, str]:
    """Return an array as base64 of little-endian numbers; counts as the smallest unsigned integers."""
    if values.dtype.kind in "iu":
        most = int(values.max(initial=0))
        values = values.astype("u1" if most < 1 << 8 else "u2" if most < 1 << 16 else "u4")
    kind = values.dtype.newbyteorder("<")
    text = base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()
    return {"type": f"{values.dtype.kind}{values.dtype.itemsize}", "data": text}


def _list(
    material: Material,
    columns: Sequence[Column],
    groups: Groups,
    cells: Sequence[RegionCells],
    axes: Sequence[Axis],
    plane: tuple[Axis, Axis] | None,
    losses: Sequence[Array],
) -> dict[str, Any] | None:
    """Return the rows that the page holds, with their bins."""
    if not losses:
        return None
    evaluations: Mapping[str, Evaluation] = material.evaluations
    first = next(iter(evaluations.values()))
    none = np.empty(0, dtype=np.intp)
    width = sum(
        len(score_columns(one, none, "")) + len(prediction_columns(one, none, ""))
        for one in evaluations.values()
    )
    listing = listing_of(cells, losses, len(columns) + len(axes) + width)
    rows = listing.rows
    assert first.context is not None
    valid = first.context.outcomes.valid
    original = rows if valid is None else valid[rows]
    table_columns: list[tuple[str, list[Any]]] = [("row", [int(one) for one in original])]
    if first.labels is not None and first.labels.index is not None:
        table_columns.append(("label", [str(first.labels.index[int(one)]) for one in original]))
    if len(groups) > 1:
        table_columns.append(("group", [groups.labels[one] for one in groups.places[rows]]))
    titles = [name if material.several else "" for name in evaluations]
    scores = [
        score_columns(*one) for one in zip(evaluations.values(), repeat(rows), titles, strict=False)
    ]
    table_columns += [model[0] for model in scores if model]
    table_columns += [
        (one.name, [plain(v) for v in one.values[rows]]) for one in columns if one.is_input
    ]
    if first.classes is not None:
        table_columns.append(("outcome", [first.classes[int(one)] for one in first.y[rows]]))
    elif first.y.ndim == 1:
        table_columns.append(("outcome", [plain(one) for one in first.y[rows]]))
    for one, title, model in zip(evaluations.values(), titles, scores, strict=True):
        table_columns += prediction_columns(one, rows, title) + model[1:]
    place_of = [axis.places[rows].astype(np.int64) for axis in axes]
    plane_places = [] if plane is None else [axis.places[rows].astype(np.int64) for axis in plane]
    return {
        "columns": [{"name": name, "values": values} for name, values in table_columns],
        "worst": listing.worst,
        "by": "CCE" if "cce" in first.rows else "score",
        "groups": _array(groups.places[rows].astype(np.int64)),
        "bins": [_array(one) for one in place_of],
        "plane": [_array(one) for one in plane_places],
    }
