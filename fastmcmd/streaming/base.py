"""The accumulator: it adds the sums of batches, from which a metric follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_choice
from fastmcmd._base.ignored import AllIgnoredError, check_ignore_index
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.classification.inputs import LabelledRows
from fastmcmd.classification.inputs import read as read_labelled
from fastmcmd.metrics.inputs import NAN_POLICIES, Outcomes, read
from fastmcmd.predictive.base import PredictionLike

__all__ = ["Accumulator", "OfLabelledRows", "OfRows", "Sums"]

Self = TypeVar("Self", bound="Accumulator[Any]")


class Sums(Protocol):
    """Sums, counts or sketches of some rows; adding those of two sets of rows gives those of both."""

    def __add__(self, other: Any) -> Any: ...


State = TypeVar("State", bound=Sums)


class Accumulator(ABC, Generic[State]):
    """A metric of a test set that arrives in batches, or is spread over several processes.

    A subclass defines its sums (`gather`) and the metric from them (`conclude`). The function of the same
    metric for whole data sets calls the same two, so both agree.

    Attributes
    ----------
    settings : dict
        Arguments of the constructor. Accumulators with other settings cannot be merged.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self._state: State | None = None

    @abstractmethod
    def gather(self, *batch: Any, **options: Any) -> State:
        """Return the sums of a batch."""

    @abstractmethod
    def conclude(self, state: State) -> Any:
        """Return the metric."""

    def update(self: Self, *batch: Any, **options: Any) -> Self:
        """Add a batch, and return the accumulator. After an error the accumulator is unchanged.

        A batch in which every label equals ``ignore_index`` adds nothing.
        """
        with suppress(AllIgnoredError):
            self.add(self.gather(*batch, **options))
        return self

    def merge(self: Self, other: Self) -> Self:
        """Add the rows of another accumulator of the same kind and settings.

        Raises
        ------
        TypeError, ValueError
            The other accumulator has another kind or other settings.
        """
        if type(other) is not type(self):
            raise TypeError(f"other is a {type(other).__name__}; a {type(self).__name__} is needed")
        if not _equal(other.settings, self.settings):
            unequal = [
                name
                for name in {**self.settings, **other.settings}
                if not _equal(other.settings.get(name), self.settings.get(name))
            ]
            theirs, ours = (
                ", ".join(f"{name}={_brief(one.settings.get(name))}" for name in unequal)
                for one in (other, self)
            )
            raise ValueError(f"other has settings {theirs}, this one {ours}; they must agree")
        if other._state is not None:
            self.add(other._state)
        return self

    def compute(self) -> Any:
        """Return the metric of all rows so far.

        Raises
        ------
        ValueError
            There are no rows yet.
        """
        if self._state is None:
            raise ValueError(f"{type(self).__name__} has seen no rows; call update first")
        return self.conclude(self._state)

    def reset(self: Self) -> Self:
        """Forget all rows."""
        self._state = None
        return self

    def add(self, state: State) -> None:
        """Add sums that `gather` returned, perhaps in another process."""
        self._state = state if self._state is None else self._state + state

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({settings})"


def _brief(value: object) -> str:
    """Return a setting as text; an array of many numbers by its shape."""
    shape = np.shape(value) if isinstance(value, np.ndarray) else ()
    return f"array of shape {shape}" if np.prod(shape, dtype=int) > 12 else repr(value)


def _equal(one: Any, other: Any) -> bool:
    """Tell whether two settings are equal; arrays are compared by elements, and NaN equals NaN."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        if one.shape != other.shape:
            return False
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f"))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        same_length = len(one) == len(other)
        return same_length and all(_equal(*pair) for pair in zip(one, other, strict=True))
    if is_dataclass(one) and not isinstance(one, type):
        return type(one) is type(other) and all(
            _equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        )
    return bool(one == other) or repr(one) == repr(other)


class OfRows(Accumulator[State]):
    """An accumulator of checked rows. A subclass defines the sums of a batch.

    Parameters
    ----------
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows that hold NaN.
    columns : int or None
        Number of components that outcomes must have; None for any.
    random_state : int, numpy.random.Generator or None
        Source of randomised PIT values, one stream over all batches: batches in order give the result of
        the function. Accumulators that are merged later should have different random states.
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
        y : array_like (n,), or (n, k) for vectors
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


class OfLabelledRows(Accumulator[State]):
    """An accumulator of labels and probabilities. A subclass defines the sums of a batch."""

    def __init__(self, **settings: object) -> None:
        settings["ignore_index"] = check_ignore_index(settings.get("ignore_index"))
        super().__init__(**settings)

    def gather(self, y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None = None) -> State:
        """Return the sums of a batch of labels, probabilities and weights.

        Raises
        ------
        AllIgnoredError
            All labels equal ``ignore_index``. `update` skips such a batch.
        """
        nan_policy, tolerance = self.settings["nan_policy"], self.settings["sum_tolerance"]
        ignore_index = self.settings["ignore_index"]
        return self.gather_rows(
            read_labelled(y, p, sample_weight, nan_policy, tolerance, ignore_index=ignore_index)
        )

    @abstractmethod
    def gather_rows(self, rows: LabelledRows) -> State:
        """Return the sums of checked rows."""
