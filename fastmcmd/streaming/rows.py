"""Accumulators of outcomes and predicted distributions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_choice
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.metrics.inputs import NAN_POLICIES, Outcomes, read
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.streaming.base import Accumulator, State

__all__ = ["OfRows"]


class OfRows(Accumulator[State]):
    """An accumulator of checked rows; a new one says what is gathered from them.

    Parameters
    ----------
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows that hold NaN.
    columns : int or None
        Components that outcomes must have; None for any.
    random_state : int, numpy.random.Generator or None
        Source of randomised PIT values, one stream over all batches: batches in order give the result of
        the function. Accumulators that are merged later should have different ones.
    """

    def __init__(
        self,
        nan_policy: NanPolicy,
        random_state: RandomState = 0,
        columns: int | None = 1,
        **settings: Any,
    ) -> None:
        check_choice(nan_policy, "nan_policy", NAN_POLICIES)
        super().__init__(**settings, nan_policy=nan_policy)
        self._nan_policy, self._columns = nan_policy, columns
        self._stream = generator(random_state, Purpose.PIT)

    def gather(
        self, y: ArrayLike, prediction: PredictionLike, sample_weight: ArrayLike | None = None
    ) -> State:
        """Return the sums of a batch.

        Parameters
        ----------
        y : array_like (n,), or (n, k) where vectors are taken
            Observed outputs.
        prediction : Predictive or what converts to one
            Predicted distributions.
        sample_weight : array_like (n,), optional
            Nonnegative weights.
        """
        return self.gather_rows(read(y, prediction, sample_weight, self._nan_policy, self._columns))

    @abstractmethod
    def gather_rows(self, rows: Outcomes) -> State:
        """Return the sums of checked rows."""
