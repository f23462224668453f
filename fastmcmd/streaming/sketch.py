"""Sums over rows in fine bins of a quantity, with a stated relative error; those of two sets are added."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import as_float
from fastmcmd.predictive.base import Array

__all__ = ["LogSketch", "check_accuracy", "sketch_keys", "union"]

# Above every |log x| / log gamma of a float64 at the finest accuracy (745 / 2e-6), so that keys of
# positive numbers are positive.
_ZERO = 1 << 30
_FINEST = 1e-6


def check_accuracy(accuracy: float) -> float:
    """Return a relative error of a sketch as a float in [1e-6, 0.5]."""
    needed = f"a number in [{_FINEST:g}, 0.5]"
    value = as_float(accuracy, "accuracy", needed)
    if not _FINEST <= value <= 0.5:
        raise ValueError(f"accuracy is {value:g}; {needed} is needed")
    return value


def _log_gamma(accuracy: float) -> float:
    return math.log1p(2 * accuracy / (1 - accuracy))


def sketch_keys(values: Array, accuracy: float) -> NDArray[np.int64]:
    """Return the fine bin of each value, in the order of the values."""
    size = np.abs(values)
    some = size > 0
    keys = np.zeros(len(values), dtype=np.int64)
    steps = np.ceil(np.log(size[some]) / _log_gamma(accuracy)).astype(np.int64)
    keys[some] = np.where(values[some] > 0, steps + _ZERO, -steps - _ZERO)
    return keys


def union(
    one: NDArray[np.int64], other: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
    """Return the keys of either, ascending, and the places of both: each key once, so indexing adds."""
    keys, place = np.unique(np.concatenate([one, other]), return_inverse=True)
    return keys, place[: len(one)], place[len(one) :]


@dataclass(frozen=True)
class LogSketch:
    """Sums over rows in fine bins of a finite quantity, each a constant factor wider than the last.

    Attributes
    ----------
    accuracy : float
        Largest relative error of a quantity that is replaced by the middle of its bin.
    keys : ndarray (c,) of int
        Bins that are not empty, ascending.
    sums : ndarray (c, s)
        Sums over their rows, first of weights.

    Notes
    -----
    Bins ``(g^(i-1), g^i]``, ``g = (1 + a) / (1 - a)``, for an accuracy a (Masson, Rim & Lee, *DDSketch*,
    VLDB 2019); zero has its own, negative numbers mirror positive ones. None is ever
    collapsed, so sums over any split of the rows agree to rounding, in any order. At ``a = 0.001`` a
    factor of a million takes 6,900 bins.
    """

    accuracy: float
    keys: NDArray[np.int64]
    sums: Array

    @classmethod
    def of(cls, values: Array, columns: list[Array], accuracy: float) -> LogSketch:
        """Return the sketch of values (m,), with sums of columns (m,), the first of them weights.

        Raises
        ------
        ValueError
            Values that are not finite.
        """
        if not np.isfinite(values).all():
            raise ValueError("values of a sketch are not finite; it holds finite numbers only")
        keys, place = np.unique(sketch_keys(values, accuracy), return_inverse=True)
        sums = [np.bincount(place, column, len(keys)) for column in columns]
        return cls(accuracy, keys, np.stack(sums, axis=1))

    def __add__(self, other: LogSketch) -> LogSketch:
        if other.accuracy != self.accuracy:
            raise ValueError(
                f"sketches of accuracy {self.accuracy:g} and {other.accuracy:g} cannot be added"
            )
        keys, places, others = union(self.keys, other.keys)
        sums = np.zeros((len(keys), self.sums.shape[1]))
        sums[places] = self.sums
        sums[others] += other.sums
        return LogSketch(self.accuracy, keys, sums)

    @property
    def values(self) -> Array:
        """Middles of the bins (c,): within ``accuracy`` of each quantity in them."""
        log_gamma = _log_gamma(self.accuracy)
        middle = math.log(2 / (math.exp(log_gamma) + 1))
        sizes = np.exp((np.abs(self.keys) - _ZERO) * log_gamma + middle)
        return np.asarray(np.sign(self.keys) * np.where(self.keys == 0, 0.0, sizes))

    def quantile(self, levels: ArrayLike) -> Array:
        """Return quantiles (j,), within ``accuracy`` of the least values with that share of weight."""
        sums = self.sums[:, 0]
        some = sums > 0
        cumulative = np.cumsum(sums[some])
        target = np.asarray(levels, dtype=np.float64) * cumulative[-1]
        at = np.minimum(np.searchsorted(cumulative, target, side="left"), len(cumulative) - 1)
        return np.asarray(self.values[some][at])

    def median(self) -> float:
        """Return the weighted median of nonnegative values, within ``accuracy`` of it."""
        some = self.sums[:, 0] > 0
        values, cumulative = self.values[some], np.cumsum(self.sums[some, 0])
        half = cumulative[-1] / 2
        first = int(np.searchsorted(cumulative, half, side="left"))
        if cumulative[first] == half:
            return float((values[first] + values[first + 1]) / 2)
        return float(values[first])
