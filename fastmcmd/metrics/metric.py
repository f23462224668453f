"""What all metrics of a regression share: described parameters, the device, the mean over rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.arrays import on_array_device
from fastmcmd._base.docstrings import describe_as_mean, entries, with_shared_parameters
from fastmcmd.metrics.inputs import read
from fastmcmd.predictive.base import PredictionLike

__all__ = ["SHARED_PARAMETERS", "MeanScore", "mean_of", "metric"]

P = ParamSpec("P")
R = TypeVar("R")

SHARED_PARAMETERS = entries("""
y : array_like (n,)
    Observed outputs.
prediction : Predictive, draws (n, m), (mean, std), scipy.stats or torch.distributions object
    Predicted distributions.
sample_weight : array_like (n,), optional
    Nonnegative weights of rows.
nan_policy : {"raise", "omit", "propagate"}, default "raise"
    What to do with rows in which y, the weight or the prediction is NaN: raise an error, leave them out of
    aggregates, or let them make aggregates NaN. Values by row are NaN there in both cases.
point : {"mean", "median"}, default "mean"
    What of a distribution is compared with y. The median has the least expected absolute error.
multioutput : {"uniform_average", "raw_values"}, default "uniform_average"
    Of vector outputs: the mean over outputs, or a value for each.
pit : {"randomized", "mid", "plain"}, default "randomized"
    Where the PIT of an outcome with positive probability lies: drawn uniformly between P(Y < y) and
    P(Y <= y), in their middle, or at P(Y <= y). Continuous distributions have one PIT. Only the randomised
    PIT of a correct count model is uniform.
random_state : int, numpy.random.Generator or None, default 0
    Source of the randomised PIT.
levels : array_like (j,), optional
    Levels p in [0, 1]; default 100 evenly spaced ones, 0 and 1 included.
kind : {"quantile", "interval"}
    Count outcomes below the p-quantile, ``PIT <= p``; or in the central interval of level p,
    ``|PIT - 1/2| <= p/2``. For counts the interval is randomised with the PIT: the interval between two
    quantiles, both included, holds more than p (see `coverage`).
bins : int, default 10
    Number of bins.
binning : {"mass", "width"}
    Bins of equal weight (equal count, without weights), or of equal width. Rows of equal spread are
    treated alike: where they lie on an edge, the bins share each of them. Empty bins are left out and
    counted.
by : {"std", "variance"}
    What has bins of equal width; those of equal weight are the same.
limits : (float, float), optional
    Ends of bins of equal width; default the least and the largest spread. The first and the last bin also
    hold what lies beyond.
kurtosis : float, default 3.0
    Of the predicted distributions, for the null expectation: 3 for Gaussians, 6 for Laplace, 1.8 for
    uniform ones.
""")


def metric(function: Callable[P, R]) -> Callable[P, R]:
    """Complete a metric's docstring with `SHARED_PARAMETERS`, and run it on the device of its arrays."""
    return with_shared_parameters(SHARED_PARAMETERS)(on_array_device(function))


class MeanScore(Protocol):
    """The mean over rows of a score, with the options of the score."""

    __name__: str

    def __call__(
        self,
        y: ArrayLike,
        prediction: PredictionLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
        **options: Any,
    ) -> float:
        """Return the weighted mean."""


def mean_of(
    score: Callable[..., Any],
    summary: str,
    example: str,
    *,
    name: str = "",
    columns: int | None = 1,
) -> MeanScore:
    """Return the function that averages a score over rows.

    Parameters
    ----------
    score : callable (y, prediction, *, nan_policy, **options) -> array (n,)
        A metric with a value for each row.
    summary, example : str
        First line and example of the docstring.
    name : str
        Name of the function; default ``mean_`` and that of the score.
    columns : int or None
        Components that y must have; None for any.
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
