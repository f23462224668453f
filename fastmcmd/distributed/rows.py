"""The checked rows of a block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.checks import as_rows, as_weights, check_same_length
from fastmcmd.distributed.blocks import Arguments
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.categorical import numbered

__all__ = ["block_seed", "checked_rows", "rows_of", "valid_rows"]

Array = NDArray[np.float64]


def block_seed(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """Return the seed of a block."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))


def checked_rows(arguments: Arguments) -> tuple[Array, Array, Any, HostArray | None]:
    """Return inputs (n, d), outcomes (n, k), predictions and weights of a block."""
    x, prediction = arguments["x"], arguments.get("prediction")
    by_name = prediction if isinstance(prediction, dict) else {"": prediction}
    y = arguments["y"]
    for one in by_name.values():
        y = numbered(y, one)
    inputs, outcomes = as_rows(x, "x").astype(np.float64), as_rows(y, "y").astype(np.float64)
    check_same_length(x=inputs, y=outcomes)
    n = len(outcomes)
    weights = arguments.get("weights", arguments.get("sample_weight"))
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != (n,) or np.any(weights > 0):
            weights = as_weights(weights, "weights", n)
    outcomes_by_name = {
        name: one if one is None else as_predictive(one, *outcomes.shape, y=y)
        for name, one in by_name.items()
    }
    return (
        inputs,
        outcomes,
        outcomes_by_name if isinstance(prediction, dict) else outcomes_by_name[""],
        weights,
    )


def valid_rows(
    arguments: Arguments, policy: str
) -> tuple[dict[str, Outcomes], NDArray[np.intp] | None, int]:
    """Return the checked rows of each model, the positions of those without NaN, and the rows in all.

    No model is returned if no row is left, or none has a weight.
    """
    weights = arguments.get("sample_weight")
    n = len(arguments["y"])
    if weights is not None and np.shape(weights) == (n,) and not np.any(np.asarray(weights)):
        return {}, None, n
    outcomes = {}
    rule = policy if policy == "raise" else "propagate"
    for name, prediction in arguments["prediction"].items():
        one = read(arguments["y"], prediction, weights, rule, columns=None)
        if one.blank:
            return {}, None, n
        outcomes[name] = replace(one, propagate=policy == "propagate")
    first = next(iter(outcomes.values()))
    for name, one in outcomes.items():
        same = one.valid is first.valid or np.array_equal(one.valid, first.valid)  # type: ignore[arg-type]
        if not same:
            raise ValueError(f"models[{name!r}] holds NaN in other rows than the first model")
    return outcomes, first.valid, n


def rows_of(x: object, valid: NDArray[np.intp] | None) -> Array:
    """Return checked inputs of the valid rows."""
    if valid is not None:
        x = np.asarray(x)[valid]
    return as_rows(x, "x").astype(np.float64)
