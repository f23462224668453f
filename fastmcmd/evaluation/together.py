"""Evaluations of several predictions of the same outcomes, with one solve for the CCE of all."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from fastmcmd.evaluation.asked import Asked, inputs_of
from fastmcmd.evaluation.measuring import check_some_row, evaluation_of
from fastmcmd.evaluation.result import Evaluation
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.progress import Progress

__all__ = ["evaluate_each"]


def evaluate_each(y: Any, models: Mapping[str, Any], x: Any, asked: Asked) -> dict[str, Evaluation]:
    """Return the evaluation of each model's prediction, as `fastmcmd.evaluate` returns it alone.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names the model whose prediction it is. Arrays
        given as predictions that hold NaN in different rows.
    """
    start = time.perf_counter()
    outcomes = {name: _read(y, name, prediction, asked) for name, prediction in models.items()}
    first = next(iter(outcomes.values()))
    for name, one in outcomes.items():
        if not _same(one.kept, first.kept):
            raise ValueError(
                f"models[{name!r}] holds NaN in other rows than the first model: numbers over "
                "different rows cannot be compared"
            )
    labels = asked.labels(first)
    progress, tol = asked.congruence.progress, asked.congruence.tol
    found: dict[str, Evaluation] = {}
    with Progress(progress, tol) as told:
        congruences, failure = {}, ""
        if x is not None:
            x = inputs_of(x, first)
            predictions = {name: one.prediction for name, one in outcomes.items()}
            try:
                check_some_row(first)
                congruences = asked.congruence.fit_each(x, first.y, predictions, first.weights)
            except asked.skippable as error:
                failure = str(error)
        shared = time.perf_counter() - start
        for name, one in outcomes.items():
            told.under(name)
            begun = time.perf_counter() - shared
            congruence = congruences.get(name)
            found[name] = evaluation_of(y, one, asked, labels, x, congruence, told, begun, failure)
        told.under("")
    return found


def _read(y: Any, name: str, prediction: Any, asked: Asked) -> Outcomes:
    try:
        return read(y, prediction, asked.sample_weight, asked.nan_policy, columns=None)
    except (TypeError, ValueError) as error:
        raise type(error)(f"models[{name!r}]: {error}") from None


def _same(kept: Any, others: Any) -> bool:
    if kept is None or others is None:
        return kept is others
    return np.array_equal(kept, others)
