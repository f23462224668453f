"""Accuracy of point predictions over a test set that arrives in batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_choice
from fastmcmd.metrics.inputs import NAN_POLICIES
from fastmcmd.metrics.point_sums import (
    MULTIOUTPUTS,
    POINTS,
    conclude_average,
    conclude_pearson,
    conclude_r2,
    conclude_rmse,
    gather_absolute,
    gather_comoments,
    gather_errors,
    gather_relative,
    gather_squares,
    over_outputs,
    read_points,
)
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.streaming.base import Accumulator
from fastmcmd.streaming.mass_sketch import LogSketch, check_accuracy

__all__ = [
    "MAE",
    "MARPD",
    "R2",
    "RMSE",
    "AccuracyOf",
    "Bias",
    "MedianAbsoluteError",
    "Pearson",
    "Sketches",
]


class AccuracyOf(Accumulator[Any]):
    """A metric of point predictions. A subclass names two functions of `fastmcmd.metrics.point_sums`.

    Parameters
    ----------
    point : {"mean", "median"}
        Point of a distribution that is compared with y.
    multioutput : {"uniform_average", "raw_values"}
        For vector outputs: the mean over outputs, or a value for each.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows that hold NaN.
    """

    _gather: ClassVar[Callable[..., Any]]
    _conclude: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        *,
        point: str = "mean",
        multioutput: str = "uniform_average",
        nan_policy: NanPolicy = "raise",
        **settings: Any,
    ) -> None:
        check_choice(point, "point", POINTS)
        check_choice(multioutput, "multioutput", MULTIOUTPUTS)
        check_choice(nan_policy, "nan_policy", NAN_POLICIES)
        super().__init__(point=point, multioutput=multioutput, nan_policy=nan_policy, **settings)
        self._point, self._multioutput, self._nan_policy = point, multioutput, nan_policy

    def gather(
        self, y: ArrayLike, prediction: PredictionLike, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Return the sums of a batch.

        Parameters
        ----------
        y : array_like (n,) or (n, k)
            Observed outputs.
        prediction : Predictive or what converts to one, or point predictions
            Predicted distributions.
        sample_weight : array_like (n,), optional
            Nonnegative weights.
        """
        points = read_points(y, prediction, self._point, sample_weight, self._nan_policy)
        return type(self)._gather(points)

    def conclude(self, state: Any) -> float | Array:
        """Return the metric."""
        return type(self)._conclude(state, self._multioutput)


class MAE(AccuracyOf):
    """Mean absolute error; see `fastmcmd.metrics.mae`.

    Examples
    --------
    >>> from fastmcmd.streaming.accuracy import MAE
    >>> MAE().update([0.0, 2.0], [1.0, 2.0]).update([5.0, 5.0], [5.0, 4.0]).compute()
    0.5
    """

    _gather = gather_absolute
    _conclude = conclude_average


class RMSE(AccuracyOf):
    """Root mean squared error; see `fastmcmd.metrics.rmse`."""

    _gather = gather_squares
    _conclude = conclude_rmse


class Bias(AccuracyOf):
    """Mean error; see `fastmcmd.metrics.bias`."""

    _gather = gather_errors
    _conclude = conclude_average


class MARPD(AccuracyOf):
    """Mean absolute relative percent difference; see `fastmcmd.metrics.marpd`."""

    _gather = gather_relative
    _conclude = conclude_average


class R2(AccuracyOf):
    """Coefficient of determination; see `fastmcmd.metrics.r2`."""

    _gather = gather_comoments
    _conclude = conclude_r2


class Pearson(AccuracyOf):
    """Pearson's correlation; see `fastmcmd.metrics.pearson`."""

    _gather = gather_comoments
    _conclude = conclude_pearson


@dataclass(frozen=True)
class Sketches:
    """A sketch of each output.

    Attributes
    ----------
    parts : tuple of LogSketch
    nan_result : bool
        Whether NaN propagates.
    """

    parts: tuple[LogSketch, ...]
    nan_result: bool

    def __add__(self, other: Sketches) -> Sketches:
        parts = tuple(a + b for a, b in zip(self.parts, other.parts, strict=True))
        return Sketches(parts, self.nan_result or other.nan_result)


class MedianAbsoluteError(AccuracyOf):
    """Median absolute error, up to a relative error; see `fastmcmd.metrics.median_absolute_error`.

    Parameters
    ----------
    accuracy : float
        Largest relative error of the result.
    point, multioutput, nan_policy
        See `MAE`.

    Examples
    --------
    >>> from fastmcmd.streaming.accuracy import MedianAbsoluteError
    >>> median = MedianAbsoluteError().update([0.0, 0.0], [1.0, 2.0]).update([0.0], [9.0]).compute()
    >>> abs(median - 2.0) <= 0.002
    True
    """

    def __init__(
        self,
        *,
        accuracy: float = 1e-3,
        point: str = "mean",
        multioutput: str = "uniform_average",
        nan_policy: NanPolicy = "raise",
    ) -> None:
        self._accuracy = check_accuracy(accuracy)
        super().__init__(
            point=point, multioutput=multioutput, nan_policy=nan_policy, accuracy=accuracy
        )

    def gather(
        self, y: ArrayLike, prediction: PredictionLike, sample_weight: ArrayLike | None = None
    ) -> Sketches:
        """Return the sketches of a batch; see `MAE`."""
        points = read_points(y, prediction, self._point, sample_weight, self._nan_policy)
        errors = np.abs(points.errors())
        weights = np.ones(len(errors)) if points.weights is None else points.weights
        parts = tuple(LogSketch.of(column, [weights], self._accuracy) for column in errors.T)
        return Sketches(parts, points.nan_result)

    def conclude(self, state: Sketches) -> float | Array:
        """Return the median."""
        medians = np.asarray([part.median() for part in state.parts])
        return over_outputs(medians * (np.nan if state.nan_result else 1.0), self._multioutput)
