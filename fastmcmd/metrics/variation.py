"""How much predicted standard deviations vary from row to row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_float
from fastmcmd.metrics.inputs import Outcomes, read, weighted_mean
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive.base import PredictionLike

__all__ = ["SpreadSums", "conclude_variation", "gather_spread", "variance_variation"]


@dataclass(frozen=True)
class SpreadSums:
    """Weight, mean and sum of squares about it of predicted standard deviations.

    Squares are in units of the squared mean, so that they neither overflow nor underflow. Added as in Chan,
    Golub & LeVeque (1983).
    """

    weight: float
    mean: float
    squares: float

    def __add__(self, other: SpreadSums) -> SpreadSums:
        weight = self.weight + other.weight
        gap, share = other.mean - self.mean, other.weight / weight
        mean = self.mean + share * gap
        if mean == 0:
            return SpreadSums(weight, mean, 0.0)
        between = self.weight * share * (gap / mean) ** 2
        squares = sum(one.squares * (one.mean / mean) ** 2 for one in (self, other))
        return SpreadSums(weight, mean, squares + between)


def gather_spread(rows: Outcomes) -> SpreadSums:
    """Return sums of predicted standard deviations."""
    std = rows.prediction.std
    if not np.isfinite(std).all():
        raise ValueError("prediction has standard deviations that are not finite")
    mean = float(weighted_mean(std, rows.weights)) * (np.nan if rows.nan_result else 1.0)
    squares = np.zeros(len(std)) if mean == 0 else (std / mean - 1) ** 2
    if rows.weights is None:
        return SpreadSums(float(len(std)), mean, float(squares.sum()))
    return SpreadSums(float(rows.weights.sum()), mean, float(rows.weights @ squares))


def conclude_variation(sums: SpreadSums, ddof: float = 1) -> float:
    """Return the coefficient of variation."""
    ddof = as_float(ddof, "ddof")
    if not 0 <= ddof < np.inf:
        raise ValueError(f"ddof is {ddof:g}; a finite number >= 0 is needed")
    if sums.weight <= ddof:
        raise ValueError(f"ddof is {ddof:g}; it must be below the sum of weights, {sums.weight:g}")
    if sums.mean == 0:
        raise ValueError("prediction has standard deviations of 0 only; c_v is their ratio to it")
    return float(np.sqrt(sums.squares / (sums.weight - ddof)))


@metric
def variance_variation(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    ddof: float = 1,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the coefficient of variation c_v of predicted standard deviations.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs; only their number, and NaN, matter.
    ddof : float
        Taken from the sum of weights in the variance.

    Returns
    -------
    float
        ``sqrt(sum (s - mean s)^2 / (n - ddof)) / mean s``: 0 if all predictions are equally uncertain,
        of which ENCE sees only the average.

    Notes
    -----
    Levi et al. (2019), equation 9.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.variance_variation([0.0, 0.0, 0.0], ([0.0] * 3, [1.0, 2.0, 3.0]))
    0.5
    """
    return conclude_variation(gather_spread(read(y, prediction, sample_weight, nan_policy)), ddof)
