"""Calibration errors of classes as sums over bins, for bootstrap samples and simulated outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.classification.bins import class_columns, width_edges
from fastmcmd.evaluation.context import Context
from fastmcmd.predictive.base import Array

__all__ = ["CLASS_MEASURES", "ClassGaps", "null_class_errors", "simulated_class_gaps"]

CLASS_MEASURES = ("ece", "classwise_ece")
BINS = 15  # the default of `fastmcmd.classification.ece`
_SAMPLES = 20  # of simulated outcomes


@dataclass(frozen=True, eq=False)
class ClassGaps:
    """Predicted probabilities of k events in bins of even width.

    Attributes
    ----------
    predicted : ndarray (n, k)
        Probabilities: of the likeliest class for "ece", of each class for "classwise_ece".
    cells : ndarray (n, k) of int
        Bin of each of them, counted on from event to event.
    classes : ndarray (n, 1) or (1, k) of int
        Class of each event: the likeliest of each row, or the same k classes in all rows.
    """

    predicted: Array
    cells: NDArray[np.intp]
    classes: NDArray[np.intp]

    @staticmethod
    def of(name: str, context: Context) -> ClassGaps:
        """Return the events of a measure."""
        p = context.labelled.p
        if name == "ece":
            predicted = context.of_classes("confidence")[:, None]
            classes = p.argmax(axis=1)[:, None]
        else:
            classes = np.array([class_columns(context.labelled)])
            predicted = p[:, classes[0]]
        inner = width_edges(BINS)[1:-1]
        cells = np.searchsorted(inner, predicted, side="left")  # bins (a, b]
        return ClassGaps(predicted, cells + BINS * np.arange(predicted.shape[1]), classes)

    def observed(self, labels: AnyArray) -> Array:
        """Return whether the events happened (n, k), 0 or 1, given the classes of the rows (n,)."""
        return (labels[:, None] == self.classes).astype(np.float64)

    def gaps(self, observed: Array, weights: Array | None) -> Array:
        """Return gaps (k, bins): frequency less mean probability, times the bin's share of the weight."""
        n, k = self.predicted.shape
        gap = observed - self.predicted
        total = float(n)
        if weights is not None:
            gap, total = gap * weights[:, None], float(weights.sum())
        sums = np.bincount(self.cells.ravel(), gap.ravel(), minlength=k * BINS)
        return np.asarray(sums.reshape(k, BINS) / total)

    @staticmethod
    def error(gaps: Array) -> float:
        """Return the calibration error of gaps (k, bins): their sum over bins, averaged over events."""
        return float(np.abs(gaps).sum(axis=1).mean())


def null_class_errors(context: Context) -> dict[str, float]:
    """Return the calibration errors of a right model on average: of outcomes drawn from the prediction."""
    return {
        name: float(np.mean([ClassGaps.error(one) for one in gaps]))
        for name, gaps in simulated_class_gaps(context).items()
    }


def simulated_class_gaps(context: Context) -> dict[str, Array]:
    """Return the gaps (samples, k, bins) of outcomes that are drawn from the prediction."""
    rng = generator(context.settings.random_state, Purpose.NULL)
    events = {name: ClassGaps.of(name, context) for name in CLASS_MEASURES}
    gaps: dict[str, list[Array]] = {name: [] for name in CLASS_MEASURES}
    for outcomes in context.base.sample(_SAMPLES, rng).T:
        for name, event in events.items():
            gaps[name].append(event.gaps(event.observed(outcomes), context.weights))
    return {name: np.stack(values) for name, values in gaps.items()}
