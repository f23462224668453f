"""Sums of values by row, from which their weighted mean follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd.classification.inputs import LabelledRows

__all__ = ["Totals", "total"]


@dataclass(frozen=True)
class Totals:
    """Sums over rows of weights and of weighted values.

    Attributes
    ----------
    rows : int
        Rows of positive weight.
    weight, value : float
        Sum of weights, and of weights times values.
    infinite : int
        Rows of positive weight whose value is infinite.
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
    """Return the sums of values (m,) of the valid rows; NaN where rows with NaN make them so."""
    if rows.weights is None:
        counted, weight, weighted = len(values), float(len(values)), values
    else:
        positive = rows.weights > 0  # zero times infinity is not a number
        counted, weight = int(np.count_nonzero(positive)), float(rows.weights.sum())
        weighted = np.multiply(rows.weights, values, where=positive, out=np.zeros(len(values)))
    infinite = int(np.count_nonzero(np.isinf(weighted)))
    value = np.nan if rows.nan_result else float(weighted.sum(dtype=np.float64))
    return Totals(counted, weight, value, infinite)
