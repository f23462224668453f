"""Sketches: sums in fine bins of a fixed relative width, which can be merged exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.checks import as_float
from fastmcmd.classification.bins import Binning, BinSums, class_columns, width_edges, with_nan
from fastmcmd.classification.columns import over_columns
from fastmcmd.classification.inputs import LabelledRows
from fastmcmd.classification.ranking import OCTAVES
from fastmcmd.predictive.base import Array

__all__ = [
    "FineSums",
    "LogSketch",
    "MassSketch",
    "check_accuracy",
    "error_bounds",
    "sketch_classes",
    "sketch_event",
    "sketch_keys",
    "union",
]

# Above every |log x| / log gamma of a float64 at the finest accuracy (745 / 2e-6), so that the keys of
# positive numbers are positive.
_ZERO = 1 << 30
_FINEST = 1e-6


def check_accuracy(accuracy: float) -> float:
    """Return the relative error of a sketch as a float in [1e-6, 0.5]."""
    requirement = f"a number in [{_FINEST:g}, 0.5]"
    value = as_float(accuracy, "accuracy", requirement)
    if not _FINEST <= value <= 0.5:
        raise ValueError(f"accuracy is {value:g}; {requirement} is needed")
    return value


def _log_gamma(accuracy: float) -> float:
    return math.log1p(2 * accuracy / (1 - accuracy))


def sketch_keys(values: Array, accuracy: float) -> NDArray[np.int64]:
    """Return the key of each value's fine bin; keys have the order of the values."""
    size = np.abs(values)
    some = size > 0
    keys = np.zeros(len(values), dtype=np.int64)
    steps = np.ceil(np.log(size[some]) / _log_gamma(accuracy)).astype(np.int64)
    keys[some] = np.where(values[some] > 0, steps + _ZERO, -steps - _ZERO)
    return keys


def union(
    one: NDArray[np.int64], other: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
    """Return the distinct keys of both, ascending, and each one's positions in them.

    Positions of either input are distinct, so indexed addition is safe.
    """
    keys, place = np.unique(np.concatenate([one, other]), return_inverse=True)
    return keys, place[: len(one)], place[len(one) :]


@dataclass(frozen=True)
class LogSketch:
    """Sums over rows in fine bins of a finite quantity, each wider than the last by a constant factor.

    Attributes
    ----------
    accuracy : float
        Largest relative error of replacing a quantity by the middle of its bin.
    keys : ndarray (c,) of int
        Keys of bins that are not empty, ascending.
    sums : ndarray (c, s)
        Sums over the rows of each bin; the first column is the weight.

    Notes
    -----
    The bins are ``(g^(i-1), g^i]`` with ``g = (1 + a) / (1 - a)`` for an accuracy a (Masson, Rim & Lee,
    *DDSketch*, VLDB 2019). Zero has its own bin, and negative numbers mirror positive ones. No bins are
    ever collapsed, so sums over any split of the rows agree to rounding, in any order. At ``a = 0.001`` a
    factor of a million takes 6,900 bins.
    """

    accuracy: float
    keys: NDArray[np.int64]
    sums: Array

    @classmethod
    def of(cls, values: Array, columns: list[Array], accuracy: float) -> LogSketch:
        """Return the sketch of values (m,), with sums of columns (m,), the first of which is the weight.

        Raises
        ------
        ValueError
            Some values are not finite.
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
        keys, places, other_places = union(self.keys, other.keys)
        sums = np.zeros((len(keys), self.sums.shape[1]))
        sums[places] = self.sums
        sums[other_places] += other.sums
        return LogSketch(self.accuracy, keys, sums)

    @property
    def values(self) -> Array:
        """Middles of the bins (c,): each quantity in a bin is within ``accuracy`` of its middle."""
        log_gamma = _log_gamma(self.accuracy)
        middle = math.log(2 / (math.exp(log_gamma) + 1))
        sizes = np.exp((np.abs(self.keys) - _ZERO) * log_gamma + middle)
        return np.asarray(np.sign(self.keys) * np.where(self.keys == 0, 0.0, sizes))

    def quantile(self, levels: ArrayLike) -> Array:
        """Return quantiles (j,), within ``accuracy`` of the least values with these shares of weight."""
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


@dataclass(frozen=True, eq=False)
class FineSums:
    """Sums over rows in the fine bins that are not empty, ordered by class and probability.

    Attributes
    ----------
    keys : ndarray (c,) of int
        Class times the number of fine bins, plus the fine bin; ascending.
    sums : ndarray (c, 4)
        Number of rows, and sums of w, w p and w o, where o is 1 if the event happened and else 0.
    low, high : ndarray (c,)
        Smallest and largest probability.
    """

    keys: NDArray[np.int64]
    sums: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.keys)

    def __add__(self, other: FineSums) -> FineSums:
        keys, places, other_places = union(self.keys, other.keys)
        sums = np.zeros((len(keys), 4))
        sums[places] = self.sums
        sums[other_places] += other.sums
        low, high = np.full(len(keys), np.inf), np.full(len(keys), -np.inf)
        low[places], high[places] = self.low, self.high
        low[other_places] = np.minimum(low[other_places], other.low)
        high[other_places] = np.maximum(high[other_places], other.high)
        return FineSums(keys, sums, low, high)

    def part(self, first: int, last: int) -> FineSums:
        """Return the fine bins with keys in [first, last)."""
        rows = slice(*np.searchsorted(self.keys, [first, last]))
        return FineSums(self.keys[rows], self.sums[rows], self.low[rows], self.high[rows])


@dataclass(frozen=True, eq=False)
class MassSketch:
    """Sums in fine bins for k classes, or for one kind of event.

    Attributes
    ----------
    classes : int
        Number of classes k.
    resolution : int
        Number of fine bins in each halving of the distance to 0 and to 1.
    parts : tuple of FineSums
        Parts of the sums. Each is less than half as long as the one before, so that many small batches do
        not each touch all fine bins so far.
    nan_result : bool
        Whether NaN propagates.

    Notes
    -----
    Fine bins divide each halving of the distance to 0 (below one half) or to 1 (above) evenly. Their width
    is at most ``1 / resolution`` of that distance, so they are finest where the confidences of classifiers
    concentrate. All sums are exact; the edge of a bin may be off by one fine bin. A fine bin
    with one distinct value causes no error, whatever its weight.
    """

    classes: int
    resolution: int
    parts: tuple[FineSums, ...]
    nan_result: bool

    def __add__(self, other: MassSketch) -> MassSketch:
        if other.classes != self.classes:
            raise ValueError(
                f"a batch of {other.classes} binned classes cannot be added to {self.classes}; all "
                "batches must have the same classes"
            )
        parts = [*self.parts, *other.parts]
        while len(parts) > 1 and len(parts[-2]) <= 2 * len(parts[-1]):
            parts.append(parts.pop() + parts.pop())
        return MassSketch(
            self.classes, self.resolution, tuple(parts), self.nan_result or other.nan_result
        )

    def binned(self, binning: Binning) -> tuple[BinSums, Array, Array]:
        """Return sums in bins of even weight, and bounds on their errors.

        Returns
        -------
        sums : BinSums
            Sums as in the function of all rows.
        weight_error, gap_error : ndarray (k, bins)
            Bounds on the distance from the function's sums: of the weight of a bin, and of w (o - p).
        """
        fine = self.parts[0]
        for other in self.parts[1:]:
            fine = fine + other
        span = 2 * OCTAVES * self.resolution
        by_class = [
            _bins(fine.part(k * span, (k + 1) * span), binning) for k in range(self.classes)
        ]
        edges, sums, errors = (np.stack(column) for column in zip(*by_class, strict=True))
        count, weight, value, hit = np.moveaxis(sums, 2, 0)
        middles = (edges[:, 1:] + edges[:, :-1]) / 2
        missing = np.full_like(weight, np.nan)
        binned = BinSums(edges.T, count, weight, value - middles * weight, hit, missing, missing)
        return with_nan(binned) if self.nan_result else binned, errors[..., 0], errors[..., 1]


def _bins(fine: FineSums, binning: Binning) -> tuple[Array, Array, Array]:
    """Return edges (bins + 1,), sums (bins, 4) and errors (bins, 2) of one class."""
    bins = binning.bins
    edges = width_edges(bins)
    running = np.cumsum(fine.sums[:, 1])
    if not len(fine) or not running[-1] > 0:
        return edges, _between(fine.sums, np.full(bins - 1, len(fine))), np.zeros((bins, 2))
    # The fine bin of the row at which the function places the edge; see `mass_edges`.
    targets = running[-1] * np.arange(1, bins) / bins
    at = np.searchsorted(running, targets, "left" if binning.right else "right")
    at = np.minimum(at, len(fine) - 1)
    edges[1:-1] = fine.high[at] if binning.right else fine.low[at]
    sums = _between(fine.sums, at + 1 if binning.right else at)
    weight, hit = fine.sums[at, 1], fine.sums[at, 3]
    # Some of its rows may belong across the edge: at worst all events, or all others.
    event_error = np.maximum(hit * (1 - fine.low[at]), (weight - hit) * fine.high[at])
    mixed = fine.low[at] < fine.high[at]
    by_edge = np.zeros((bins + 1, 2))
    by_edge[1:-1] = np.where(mixed[:, None], np.stack([weight, event_error], axis=1), 0.0)
    return edges, sums, by_edge[1:] + by_edge[:-1]


def _between(sums: Array, starts: NDArray[np.intp]) -> Array:
    """Return the sums over rows between successive starts (bins, s); bins may be empty."""
    cuts = np.concatenate([[0], starts, [len(sums)]])
    parts = [sums[a:b].sum(axis=0) for a, b in pairwise(cuts)]
    return np.stack(parts)


def error_bounds(sums: BinSums, weight_error: Array, gap_error: Array, norm: str) -> Array:
    """Return bounds on the distance of the errors (k,) from those of the function.

    The weight and the gap of each bin vary between their smallest and largest possible values.
    """
    weight = sums.weight
    total = weight.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.abs(sums.hit - sums.middles * weight - sums.value)
        if norm == "l1":
            return np.asarray((gap_error / total).sum(axis=1))
        # No mean gap exceeds 1, however little weight remains.
        least = np.maximum(gap - gap_error, 0.0) / (weight + weight_error)
        most = np.fmin((gap + gap_error) / np.maximum(weight - weight_error, 0.0), 1.0)
        least, most = (np.where(weight + weight_error > 0, x, 0.0 * total) for x in (least, most))
        if norm == "max":
            low, high = least.max(axis=1), most.max(axis=1)
        else:
            # weight * gap^2 = |sum w (o - p)| * gap, and both factors are bounded by their largest values.
            sums_most = np.minimum(gap + gap_error, weight + weight_error)
            high = np.sqrt((sums_most * most / total).sum(axis=1))
            low = np.sqrt((np.maximum(gap - gap_error, 0.0) * least / total).sum(axis=1))
    value = sums.errors(norm)
    return np.asarray(np.maximum(high - value, value - low))


def sketch_event(
    rows: LabelledRows, values: Array, hits: NDArray[np.integer], resolution: int
) -> MassSketch:
    """Return the sketch of values (m,) in [0, 1] and of whether their event happened (m,)."""
    inside = (values >= 0) & (values <= 1)
    if not inside.all():
        rows.refuse(int(np.argmin(inside)))
    fine = _fine_sums(values, hits, rows.weights, resolution, 0)
    return MassSketch(1, resolution, (fine,), rows.nan_result)


def sketch_classes(rows: LabelledRows, threshold: float | None, resolution: int) -> MassSketch:
    """Return the sketch of each class's probabilities above a threshold."""
    labels, columns = rows.known_labels, class_columns(rows)

    def work(label: int, scores: Array) -> FineSums:
        hits, weights = labels == label, rows.weights
        if threshold is not None:
            some = scores > threshold
            scores, hits = scores[some], hits[some]
            weights = None if weights is None else weights[some]
        return _fine_sums(scores, hits, weights, resolution, label - columns[0])

    parts = over_columns(rows, work, columns)
    fine = FineSums(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.sums for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
    )
    return MassSketch(len(columns), resolution, (fine,), rows.nan_result)


def _fine_sums(
    values: Array, hits: NDArray[np.integer], weights: Array | None, resolution: int, label: int
) -> FineSums:
    """Return the sums of one class."""
    order = np.argsort(values)
    values = values[order].astype(np.float64)
    keys = np.empty(len(values), dtype=np.int64)
    _core.fine_bins(values, OCTAVES, resolution, keys)
    new = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    first = np.flatnonzero(new)
    if not len(first):
        return FineSums(keys, np.empty((0, 4)), values, values)
    after = np.append(first[1:], len(keys))
    events = hits[order].astype(np.float64)
    sums = np.empty((len(first), 4))
    sums[:, 0] = after - first
    if weights is None:
        sums[:, 1], weighted = sums[:, 0], values
    else:
        weights = weights[order]
        sums[:, 1] = np.add.reduceat(weights, first)
        weighted, events = weights * values, weights * events
    sums[:, 2] = np.add.reduceat(weighted, first)
    sums[:, 3] = np.add.reduceat(events, first)
    span = 2 * OCTAVES * resolution
    return FineSums(keys[first] + label * span, sums, values[first], values[after - 1])
