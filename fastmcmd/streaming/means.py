"""Means of scores over a test set that arrives in batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.metrics import (
    check_score,
    crps,
    dawid_sebastiani,
    energy_score,
    interval_score,
    log_score,
    variogram_score,
    weighted_interval_score,
)
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive.base import Array
from fastmcmd.streaming.base import OfRows

__all__ = [
    "CRPS",
    "NLL",
    "CheckScore",
    "DawidSebastiani",
    "EnergyScore",
    "IntervalScore",
    "MeanOf",
    "MeanSums",
    "VariogramScore",
    "WeightedIntervalScore",
    "mean_sums",
]


@dataclass(frozen=True)
class MeanSums:
    """Sums of the scores of some rows.

    Attributes
    ----------
    total, weight : float
        Sum of weighted scores, and of weights.
    rows, infinite : int
        Number of rows, and of rows with an infinite score.
    nan_result : bool
        Whether a row held NaN that propagates.
    """

    total: float
    weight: float
    rows: int
    infinite: int
    nan_result: bool

    def __add__(self, other: MeanSums) -> MeanSums:
        return MeanSums(
            self.total + other.total,
            self.weight + other.weight,
            self.rows + other.rows,
            self.infinite + other.infinite,
            self.nan_result or other.nan_result,
        )


def mean_sums(values: Array, weights: Array | None, nan_result: bool) -> MeanSums:
    """Return the sums of scores (n,) with weights (n,) or equal ones."""
    if weights is not None:  # rows of weight 0 do not count, even if their score is infinite
        values, weights = values[weights > 0], weights[weights > 0]
    return MeanSums(
        float(values.sum() if weights is None else values @ weights),
        float(len(values) if weights is None else weights.sum()),
        len(values),
        int(np.isinf(values).sum()),
        nan_result,
    )


class MeanOf(OfRows[MeanSums]):
    """Mean of a score that has one value for each row.

    Parameters
    ----------
    score : callable (y, prediction, **options) -> ndarray (n,)
        Score of each row, such as `fastmcmd.metrics.crps`.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows that hold NaN.
    vectors : bool
        Whether outputs may be vectors.
    **options
        Passed to ``score``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> mean_crps = fm.streaming.CRPS()
    >>> _ = mean_crps.update([0.0, 1.0], ([0.0, 0.0], 1.0)).update([2.0], ([0.0], 1.0))
    >>> whole = fm.metrics.mean_crps([0.0, 1.0, 2.0], ([0.0, 0.0, 0.0], 1.0))
    >>> abs(mean_crps.compute() - whole) < 1e-15
    True
    """

    def __init__(
        self,
        score: Callable[..., Array],
        *,
        nan_policy: NanPolicy = "raise",
        vectors: bool = False,
        **options: Any,
    ) -> None:
        columns = None if vectors else 1
        super().__init__(nan_policy, columns=columns, score=score.__name__, **options)
        if "random_state" in options:  # one stream over all batches
            stream = generator(options["random_state"], Purpose.SCORE)
            options = {**options, "random_state": stream}
        self._score, self._options = score, options

    def gather_rows(self, rows: Outcomes) -> MeanSums:
        """Return the sums of checked rows."""
        values = self._score(rows.y, rows.prediction, **self._options)
        return mean_sums(values, rows.weights, rows.nan_result)

    def conclude(self, state: MeanSums) -> float:
        """Return the mean."""
        return float("nan") if state.nan_result else state.total / state.weight

    @property
    def infinite(self) -> int:
        """Number of rows so far with an infinite score."""
        return 0 if self._state is None else self._state.infinite


class NLL(MeanOf):
    """Mean negative log-likelihood; see `fastmcmd.metrics.nll`."""

    def __init__(self, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(log_score, nan_policy=nan_policy, vectors=True)


class CRPS(MeanOf):
    """Mean continuous ranked probability score; see `fastmcmd.metrics.crps`.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y, mean = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 2.0])
    >>> score = fm.streaming.CRPS()
    >>> for batch in (slice(0, 2), slice(2, 3)):
    ...     _ = score.update(y[batch], (mean[batch], 1.0))
    >>> bool(np.isclose(score.compute(), fm.metrics.mean_crps(y, (mean, 1.0))))
    True
    """

    def __init__(self, *, estimator: str | None = None, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(crps, nan_policy=nan_policy, estimator=estimator)


class CheckScore(MeanOf):
    """Mean check score; see `fastmcmd.metrics.check_score`."""

    def __init__(self, *, levels: ArrayLike | None = None, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(check_score, nan_policy=nan_policy, levels=levels)


class IntervalScore(MeanOf):
    """Mean interval score; see `fastmcmd.metrics.interval_score`."""

    def __init__(self, *, level: ArrayLike = 0.9, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(interval_score, nan_policy=nan_policy, level=level)


class WeightedIntervalScore(MeanOf):
    """Mean weighted interval score; see `fastmcmd.metrics.weighted_interval_score`."""

    def __init__(self, *, levels: ArrayLike | None = None, nan_policy: NanPolicy = "raise") -> None:
        options: dict[str, Any] = {} if levels is None else {"levels": levels}
        super().__init__(weighted_interval_score, nan_policy=nan_policy, **options)


class DawidSebastiani(MeanOf):
    """Mean Dawid-Sebastiani score; see `fastmcmd.metrics.dawid_sebastiani`."""

    def __init__(self, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(dawid_sebastiani, nan_policy=nan_policy)


class EnergyScore(MeanOf):
    """Mean energy score; see `fastmcmd.metrics.energy_score`."""

    def __init__(
        self,
        *,
        beta: float = 1.0,
        estimator: str = "nrg",
        draws: int | None = None,
        random_state: RandomState = 0,
        nan_policy: NanPolicy = "raise",
    ) -> None:
        super().__init__(
            energy_score, nan_policy=nan_policy, vectors=True, beta=beta, estimator=estimator,
            draws=draws, random_state=random_state,
        )  # fmt: skip


class VariogramScore(MeanOf):
    """Mean variogram score; see `fastmcmd.metrics.variogram_score`."""

    def __init__(
        self,
        *,
        p: float = 0.5,
        weights: ArrayLike | None = None,
        estimator: str = "nrg",
        draws: int | None = None,
        random_state: RandomState = 0,
        nan_policy: NanPolicy = "raise",
    ) -> None:
        super().__init__(
            variogram_score, nan_policy=nan_policy, vectors=True, p=p, weights=weights,
            estimator=estimator, draws=draws, random_state=random_state,
        )  # fmt: skip
