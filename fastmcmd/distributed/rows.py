"""The checked rows of a block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.checks import as_rows, as_weights, check_same_length
from fastmcmd._base.ignored import AllIgnoredError, IgnoreIndex
from fastmcmd.distributed.blocks import Arguments
from fastmcmd.evaluation.outcomes import read_rows
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.categorical import numbered

__all__ = [
    "ALL_ROWS",
    "RowRules",
    "ValidRows",
    "block_seed",
    "checked_rows",
    "rows_of",
    "valid_rows",
]

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
        if weights.shape != (n,) or np.any(weights):  # a block may have no weight, all rows may not
            name = "weights" if arguments.get("weights") is not None else "sample_weight"
            weights = as_weights(weights, name, n)
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


@dataclass(frozen=True)
class RowRules:
    """Which rows are left out.

    Attributes
    ----------
    policy : str
        Treatment of NaN: "raise", "omit" or "propagate".
    ignore_index : int, str or None
        Label of rows to leave out.
    """

    policy: str = "raise"
    ignore_index: IgnoreIndex = None


ALL_ROWS = RowRules()


@dataclass(frozen=True, eq=False)
class ValidRows:
    """The checked rows of a block.

    Attributes
    ----------
    outcomes : dict of Outcomes
        By model; none if no row is left, or none has a weight.
    valid : ndarray or None
        Positions of the rows without NaN and an ignored label; None if these are all.
    n : int
        Number of rows in all.
    ignored : ndarray (n,) of bool or None
        Rows with an ignored label.
    weightless : bool
        Whether no row has a weight.
    """

    outcomes: dict[str, Outcomes]
    valid: NDArray[np.intp] | None
    n: int
    ignored: NDArray[np.bool_] | None = None
    weightless: bool = False

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Rows (n,) that hold NaN."""
        if self.valid is None:
            return np.full(self.n, not (self.outcomes or self.weightless))
        missing = np.ones(self.n, dtype=bool)
        missing[self.valid] = False
        if self.ignored is not None:
            missing &= ~self.ignored
        return missing


def valid_rows(arguments: Arguments, rules: RowRules, *, without_weight: bool = False) -> ValidRows:
    """Return the checked rows of each model.

    A block in which no row has a weight has no outcomes, except ``without_weight``.
    """
    weights = arguments.get("sample_weight")
    n = len(arguments["y"])
    weightless = (
        weights is not None and np.shape(weights) == (n,) and not np.any(np.asarray(weights))
    )
    if weightless:
        weights = None  # a data set needs a positive weight, a block does not
    outcomes: dict[str, Outcomes] = {}
    policy = rules.policy if rules.policy == "raise" else "propagate"
    inputs = None if policy == "raise" else arguments.get("x")
    for name, prediction in arguments["prediction"].items():
        try:
            one = read_rows(arguments["y"], prediction, weights, policy, rules.ignore_index, inputs)
        except AllIgnoredError:
            return ValidRows({}, np.empty(0, dtype=np.intp), n, np.ones(n, dtype=bool))
        if one.blank:
            return ValidRows(
                {}, None if one.ignored is None else np.empty(0, np.intp), n, one.ignored
            )
        outcomes[name] = replace(one, propagate=rules.policy == "propagate")
    first = next(iter(outcomes.values()))
    for name, one in outcomes.items():
        same = one.valid is first.valid or np.array_equal(one.valid, first.valid)  # type: ignore[arg-type]
        if not same:
            raise ValueError(f"models[{name!r}] holds NaN in other rows than the first model")
    if weightless:
        outcomes = {
            name: replace(one, weights=np.zeros(len(one.y))) for name, one in outcomes.items()
        }
    some = outcomes if without_weight or not weightless else {}
    return ValidRows(some, first.valid, n, first.ignored, weightless)


def rows_of(x: object, valid: NDArray[np.intp] | None) -> Array:
    """Return checked inputs of the valid rows."""
    if valid is not None:
        x = np.asarray(x)[valid]
    return as_rows(x, "x").astype(np.float64)
