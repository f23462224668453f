"""Decorators of classification metrics: descriptions of shared parameters, and the mean over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import HostArray, NanPolicy
from fastmcmd._base.docstrings import (
    ROW_PARAMETERS,
    describe_as_mean,
    entries,
    with_shared_parameters,
)
from fastmcmd.classification.inputs import LabelledRows, read

__all__ = ["MeanClassScore", "Totals", "mean_of", "metric", "total"]


@dataclass(frozen=True)
class Totals:
    """Sums over rows of weights and of weighted values.

    Attributes
    ----------
    rows : int
        Number of rows with positive weight.
    weight, value : float
        Sum of weights, and of weights times values.
    infinite : int
        Number of rows with positive weight whose value is infinite.
    """

    rows: int
    weight: float
    value: float
    infinite: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.rows + other.rows,
            self.weight + other.weight,
            self.value + other.value,
            self.infinite + other.infinite,
        )

    @property
    def mean(self) -> float:
        """Weighted mean of the values."""
        return self.value / self.weight


def total(rows: LabelledRows, values: HostArray) -> Totals:
    """Return the sums of values (m,) of the valid rows; NaN if NaN propagates."""
    if rows.weights is None:
        row_count, weight, weighted = len(values), float(len(values)), values
    else:
        positive = rows.weights > 0  # avoids zero times infinity
        row_count, weight = int(np.count_nonzero(positive)), float(rows.weights.sum())
        weighted = np.multiply(rows.weights, values, where=positive, out=np.zeros(len(values)))
    infinite = int(np.count_nonzero(np.isinf(weighted)))
    value = np.nan if rows.nan_result else float(weighted.sum(dtype=np.float64))
    return Totals(row_count, weight, value, infinite)


metric = with_shared_parameters(
    ROW_PARAMETERS
    | entries("""
y : array_like (n,)
    Labels: integers from 0 to C - 1, booleans for two classes, or the names of the classes as text.
p : array_like (n, C) or (n,)
    Probabilities of the classes, or of class 1. The columns of a data frame name the classes. The columns
    of an array stand for the sorted names, all of which must occur (the order of scikit-learn).
sum_tolerance : float, optional
    Largest distance of the sum of a row from one. Default: 1e-6 for float64, 1e-4 for float32, 1e-2 for
    float16.
ignore_index : int or str, optional
    Label of rows to leave out, such as -1 for rows without a label; it need not be a class. Their
    probabilities may hold anything, and their per-row values are NaN.
clip : float, optional
    Clip probabilities to [clip, 1 - clip] first. By default, a label of probability 0 has an infinite log
    score.
scale_by_half : bool or "auto", default "auto"
    Whether to halve the sum over classes, which lies in [0, 2]. "auto" halves it for two classes, where the
    half is ``(p - y)^2``.
ties : {"first", "last", "share", "raise"}, default "first"
    Order of equally probable classes. "first": smaller numbers first. "last": larger numbers first.
    "share": random order, so that a row counts with its probability of success. "raise": an error if the
    result depends on the order.
bins : int, default 15
    Number of bins.
binning : {"width", "mass"}, default "width"
    Bins of equal width in [0, 1], or of equal weight, with equal probabilities in the same bin.
norm : {"l1", "l2", "max"}, default "l1"
    How to combine the gaps between frequency and mean probability in bins: their weighted mean, the root of
    the weighted mean of their squares, or the largest gap.
closed : {"right", "left"}, default "right"
    Bins are (a, b] or [a, b). The first holds 0 and the last holds 1 in both cases.
of : {"top", "positive"}, optional
    The predicted event: that the most probable class is the label, or, for two classes, that the label is
    1. Default: "positive" for p of shape (n,), else "top".
threshold : float, optional
    Leave out probabilities at or below this value: most classes of most rows have probabilities near 0,
    which are calibrated.
""")
)


class MeanClassScore(Protocol):
    """A function that returns the mean of a score over rows and takes the options of the score."""

    __name__: str

    def __call__(
        self,
        y: ArrayLike,
        p: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
        **options: object,
    ) -> float:
        """Return the weighted mean."""


def mean_of(
    score: Callable[..., Any], summary: str, example: str, *, name: str = ""
) -> MeanClassScore:
    """Return a function that averages a score over rows; see `fastmcmd.metrics.metric.mean_of`."""
    name = name or f"mean_{score.__name__}"

    def mean(
        y: ArrayLike,
        p: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
        **options: Any,
    ) -> float:
        rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
        values = score(rows, rows.p, **options)
        return total(rows, values if rows.valid is None else values[rows.valid]).mean

    describe_as_mean(mean, score, name, summary, example)
    return mean
