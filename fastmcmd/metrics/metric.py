"""Decorators of regression metrics: descriptions of shared parameters, the device, the mean over rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.arrays import on_array_device
from fastmcmd._base.docstrings import (
    ROW_PARAMETERS,
    describe_as_mean,
    entries,
    with_shared_parameters,
)
from fastmcmd.metrics.inputs import read
from fastmcmd.predictive.base import PredictionLike

__all__ = ["SHARED_PARAMETERS", "MeanScore", "mean_of", "metric"]

P = ParamSpec("P")
R = TypeVar("R")

SHARED_PARAMETERS = ROW_PARAMETERS | entries("""
y : array_like (n,)
    Observed outputs.
prediction : Predictive, draws (n, m), (mean, std), scipy.stats or torch.distributions object
    Predicted distributions.
point : {"mean", "median"}, default "mean"
    Point of a distribution to compare with y. The median has the least expected absolute error.
multioutput : {"uniform_average", "raw_values"}, default "uniform_average"
    For vector outputs: return the mean over outputs, or one value per output.
pit : {"randomized", "mid", "plain"}, default "randomized"
    PIT of an outcome with positive probability: drawn uniformly between P(Y < y) and P(Y <= y), their
    midpoint, or P(Y <= y). For continuous distributions all three agree. For a correct count model, only
    the randomised PIT is uniform.
random_state : int, numpy.random.Generator or None, default 0
    Source of the randomised PIT.
levels : array_like (j,), optional
    Levels p in [0, 1]. Default: 100 evenly spaced levels from 0 to 1.
kind : {"quantile", "interval"}
    Count outcomes below the p-quantile, ``PIT <= p``; or in the central interval of level p,
    ``|PIT - 1/2| <= p/2``. For counts, the randomised PIT also randomises the interval, because the
    interval between two quantiles, both included, holds more than p (see `coverage`).
bins : int, default 10
    Number of bins.
binning : {"mass", "width"}
    Bins of equal weight (equal count, without weights), or of equal width. Rows of equal spread are
    treated alike: if they lie on an edge, each of them is split between both bins. Empty bins are left out
    and counted.
by : {"std", "variance"}
    Quantity that is divided into bins of equal width. Bins of equal weight do not depend on it.
limits : (float, float), optional
    Ends of the bins of equal width. Default: the smallest and largest spread. The first and the last bin
    also hold values beyond the limits.
kurtosis : float, default 3.0
    Kurtosis of the predicted distributions, for the null expectation: 3 for Gaussian, 6 for Laplace, 1.8
    for uniform distributions.
""")


def metric(function: Callable[P, R]) -> Callable[P, R]:
    """Add `SHARED_PARAMETERS` to a metric's docstring, and run the metric on the device of its arrays."""
    return with_shared_parameters(SHARED_PARAMETERS)(on_array_device(function))


class MeanScore(Protocol):
    """A function that returns the mean of a score over rows and takes the options of the score."""

    __name__: str

    def __call__(
        self,
        y: ArrayLike,
        prediction: PredictionLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
        **options: object,
    ) -> float:
        """Return the weighted mean."""


def mean_of(
    score: Callable[..., object],
    summary: str,
    example: str,
    *,
    name: str = "",
    columns: int | None = 1,
) -> MeanScore:
    """Return a function that averages a score over rows.

    Parameters
    ----------
    score : callable (y, prediction, *, nan_policy, **options) -> array (n,)
        A metric that returns one value per row.
    summary, example : str
        First line and example of the docstring.
    name : str
        Name of the function. Default: ``mean_`` followed by the name of the score.
    columns : int or None
        Required number of components of y; None for any number.
    """
    name = name or f"mean_{score.__name__}"
    score_rows = inspect.unwrap(score)  # `mean` itself runs on the device of its arrays

    @on_array_device
    def mean(
        y: ArrayLike,
        prediction: PredictionLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
        **options: Any,
    ) -> float:
        rows = read(y, prediction, sample_weight, nan_policy, columns, on_device=True)
        values = score_rows(rows, rows.prediction, **options)
        return float(rows.mean(values if rows.valid is None else values[rows.valid]))

    describe_as_mean(mean, score, name, summary, example)
    return mean
