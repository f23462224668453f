"""Where corrections start: near the answer, because Gauss-Newton steps only find it from there.

Features of standardised outcomes cover a few units around the prediction. If a model is off by many
standard deviations near some inputs, its outcomes have no features there, and the steps end anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.inference.corrections import centre_and_scale, starting_point
from fastmcmd.inference.shift_tests import cells_of
from fastmcmd.predictive import Predictive

__all__ = ["Start", "local_start"]

_FAR = 4.0  # median distance from the prediction, in its units, from which a cell has its own start
_FAR_COUNTS = 2.0  # the same for counts, which have no start in common
_MOST_FACTOR = 20.0  # largest factor of the spread of counts at the start
_NORMAL_MAD = 0.6745  # median absolute deviation of a standard normal distribution
_HALF = 0.5  # stands for a sum of counts that is 0

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Start:
    """A shift (of the log mean, for counts) and a factor of spread from which corrections start.

    Attributes
    ----------
    shift, factor : ndarray (n,)
        For each row.
    """

    shift: Array
    factor: Array


def local_start(prediction: Predictive, x: Array, y: Array, weights: Array) -> Start:
    """Return the start that all rows have in common, or that of a cell if it is far from the outcomes.

    Parameters
    ----------
    prediction : Predictive
        Predictions of n numbers that have a shift and a factor.
    x : ndarray (n, d)
        Inputs, as the kernel receives them.
    y : ndarray (n,)
        Outcomes.
    weights : ndarray (n,)
        Weights of the rows.
    """
    common = starting_point(prediction, y, weights)
    shift, factor = np.full(len(y), common[0]), np.full(len(y), common[1])
    centre, scale = centre_and_scale(prediction)
    of_cell = _count_start if prediction.discrete else starting_point
    far = _FAR_COUNTS if prediction.discrete else _FAR
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.abs((y - centre - (0.0 if prediction.discrete else common[0])) / (scale * common[1]))
    for cell in cells_of(x):
        some = cell[weights[cell] > 0]
        if len(some) and np.median(z[some]) > far:
            shift[cell], factor[cell] = of_cell(prediction.take(some), y[some], weights[some])
    return Start(shift, factor)


def _count_start(prediction: Predictive, y: Array, weights: Array) -> tuple[float, float]:
    """Return the log ratio of mean outcomes and predictions, and the factor of spread around it."""
    centre, scale = centre_and_scale(prediction)
    shift = float(np.log(max(weights @ y, _HALF * weights.max()) / (weights @ centre)))
    z = (y - centre * np.exp(shift)) / (scale * np.exp(shift / 2))
    factor = float(np.median(np.abs(z))) / _NORMAL_MAD
    return shift, float(np.clip(factor, 1.0, _MOST_FACTOR))
