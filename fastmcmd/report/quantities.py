"""What the page sums over the rows of a region: scores, the CCE, the PIT, and calibration of classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.result import Evaluation
from fastmcmd.evaluation.row_means import of_means

__all__ = ["CLASS_BINS", "FEW", "LEVELS", "Quantity", "class_bins", "pit_bins", "quantities"]

Array = NDArray[np.float64]

# Means and root means over rows. Each says something about a region alone, unlike R² or a correlation.
_MEANS = (
    "rmse", "bias", "accuracy", "nll", "mean_crps", "mean_energy_score", "mean_brier_score", "coverage",
    "confidence", "sharpness", "mean_cce",
)  # fmt: skip
_ROOTS = ("rmse", "sharpness")
FEW = "few_rows_near"  # name of the share of rows whose CCE no other rows support
LEVELS = 20  # bins of the PIT
CLASS_BINS = 10  # bins of the probability of the likeliest class


@dataclass(frozen=True, eq=False)
class Quantity:
    """A number that is a mean over rows, or its root.

    Attributes
    ----------
    name, label, best : str
        As in `Measured`.
    values : ndarray (n,)
        What is averaged.
    root : bool
        Whether the number is the root of the mean.
    """

    name: str
    label: str
    best: str
    values: Array
    root: bool


def quantities(evaluation: Evaluation) -> list[Quantity]:
    """Return the means of an evaluation over its rows; numbers that are not finite are left out."""
    context = evaluation.context
    assert context is not None
    numbers = {one.name: one for one in evaluation.measured}
    result = []
    for name in _MEANS:
        if name not in numbers:
            continue
        values = _values(context, name)
        if values is not None:
            one = numbers[name]
            result.append(Quantity(name, one.label, one.best, values, name in _ROOTS))
    if evaluation.supported is not None and not evaluation.supported.all():
        few = (~evaluation.supported).astype(np.float64)
        result.append(Quantity(FEW, "share of rows with few others near", "", few, False))
    return result


def _values(context: Context, name: str) -> Array | None:
    if name == "mean_cce":
        return context.cce
    means = of_means(name, context)
    if means is None or len(means.columns) != 1:
        return None
    # Columns are in units that keep squares finite.
    values = means.columns[0] * means.unit * (means.unit if name in _ROOTS else 1.0)
    return values if np.isfinite(values).all() else None


def pit_bins(context: Context) -> NDArray[np.integer] | None:
    """Return the PIT bin (n,) of each row, ``k / 20 < PIT <= (k + 1) / 20``; None if there is no PIT."""
    if not context.numbers:
        return None
    inner = np.linspace(0.0, 1.0, LEVELS + 1)[1:-1]
    return np.searchsorted(inner, context.pit, side="left").astype(np.uint8)


def class_bins(context: Context) -> tuple[NDArray[np.integer], Array] | None:
    """Return the bin (n,) of the likeliest class's probability c, and three columns to sum (3, n).

    The columns are whether that class is the outcome, c, and c (1 - c), the variance of the first for a
    calibrated model. None unless outcomes are classes.
    """
    if not context.nominal:
        return None
    confidence = context.of_classes("confidence")
    inner = np.linspace(0.0, 1.0, CLASS_BINS + 1)[1:-1]
    sums = np.stack([context.of_classes("hit"), confidence, confidence * (1 - confidence)])
    return np.searchsorted(inner, confidence, side="left").astype(np.uint8), sums
