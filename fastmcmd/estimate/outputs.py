"""The outputs of nature and of a model as features: their means at each input, and what is missed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.embedding.expected import Expectation, candidates
from fastmcmd.embedding.features import output_features, pooled_with_importance
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.estimate.primal import Truncation
from fastmcmd.estimate.task import Task
from fastmcmd.gram import KernelFeatures

__all__ = ["MOST_PAIRS", "MOST_RANK", "MeanFeatures", "expected_outputs", "mean_features"]

Array = NDArray[np.float64]

MOST_RANK = 2000  # of the output features
_NODES = 400  # quadrature nodes of a prediction, about
MOST_PAIRS = 2e12  # pairs of quadrature nodes, times points: about a minute
_LEAST_RANK = 256
_CANDIDATES = 7500  # outputs that stand for predicted distributions, about


@dataclass(frozen=True, eq=False)
class MeanFeatures:
    """Mean output features of two samples at their distinct inputs.

    Attributes
    ----------
    features : KernelFeatures
        Of the output kernel, over the outputs of both samples.
    nature, model : ndarray (n, r)
        ``E p(Y)`` at each distinct input.
    truncation : Truncation
        What the features miss.
    outputs : int
        Distinct outputs that the features were made of.
    """

    features: KernelFeatures
    nature: Array
    model: Array
    truncation: Truncation
    outputs: int


def mean_features(nature: Sample, model: Sample, task: Task) -> MeanFeatures | None:
    """Return the mean output features of two samples; None where ``k_Y`` has no low rank there."""
    sides = (nature, model)
    values, where, importance = pooled_with_importance(*(_told(side) for side in sides))
    n = max(len(side.design) for side in sides)
    drawn = all(isinstance(side.outputs, DrawnOutputs) for side in sides)
    most = _affordable_rank(n, len(task.grid), len(values), drawn)
    eps = task.feature_residual(nature.lam, model.lam)
    found = output_features(task.y_kernel, task.y_backend, values, eps, most, importance)
    if found is None:
        return None
    features, p, missing = found
    residuals = np.sqrt(missing)[:, None]
    means, missed, expectation, noise, rigorous = [], [], 0.0, 0.0, True
    for side, index in zip(sides, where, strict=True):
        if isinstance(side.outputs, DrawnOutputs):
            rows = side.outputs.mean_features(p, index)
            miss = side.outputs.mean_features(residuals, index)
        else:
            expected = Expectation(features, side.outputs.prediction)
            found_rows = expected.of(side.outputs.prediction)
            rows, miss = found_rows.mean, found_rows.missed[:, None]
            expectation += expected.error / np.sqrt(side.lam)
            noise += expected.noise
            rigorous = rigorous and expected.rigorous
        means.append(side.design.average(rows))
        missed.append(side.design.average(miss)[:, 0])
    if nature.same_system(model):
        # Where both sides have the same outputs their features cancel, and so does what they miss.
        equal = (means[0] == means[1]).all(axis=1)
        missed = [np.where(equal, 0.0, miss) for miss in missed]
    total = sum(
        float(np.sqrt(((miss**2 + noise) / side.shift).sum()))
        for miss, side in zip(missed, sides, strict=True)
    )
    truncation = Truncation(total, expectation, rigorous)
    return MeanFeatures(features, means[0], means[1], truncation, len(values))


def expected_outputs(side: Sample) -> int:
    """Return how many distinct outputs of a side the features are made of, at most or about."""
    outputs = side.all_outputs
    return len(outputs.flat) if isinstance(outputs, DrawnOutputs) else _CANDIDATES


def _told(side: Sample) -> tuple[Array, Array]:
    """Return the outputs of a side to choose pivots from, and their importance."""
    if isinstance(side.outputs, DrawnOutputs):
        return side.outputs.flat, np.ones(len(side.outputs.flat))
    return candidates(side.outputs.prediction)


def _affordable_rank(n: int, points: int, outputs: int, drawn: bool) -> int:
    """Return the rank beyond which the dense form is the cheaper one.

    Of predicted distributions the dense form sums over pairs of their nodes: cheaper for few only.
    """
    if not drawn and float(_NODES * n) ** 2 * points > MOST_PAIRS / 10:
        return min(outputs, MOST_RANK)
    return min(outputs, max(_LEAST_RANK, min(n // 4, 2 * points, MOST_RANK)))
