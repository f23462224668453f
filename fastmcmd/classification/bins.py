"""Sums of predicted probabilities in bins, for calibration errors and curves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastmcmd import _core
from fastmcmd._base.arrays import kind_of, namespace_of
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import check_choice, check_count
from fastmcmd.classification.columns import over_columns
from fastmcmd.classification.inputs import GROUPS, LabelledRows
from fastmcmd.predictive.base import Array

__all__ = [
    "BinSums",
    "Binning",
    "ClassBins",
    "class_columns",
    "column_edges",
    "exact_edges",
    "gather_classes",
    "gather_values",
    "mass_edges",
    "sort_column",
    "width_edges",
    "with_nan",
]

_STEP = 1 << 20  # values per block: two milliseconds of work, more than a thread costs
_SUMS_BYTES = 1 << 25  # memory for the sums of groups of rows: 32 MB


@dataclass(frozen=True)
class Binning:
    """A division of [0, 1] into bins.

    Attributes
    ----------
    bins : int
        Number of bins.
    kind : {"width", "mass"}
        Bins of equal width, or of equal weight.
    closed : {"right", "left"}
        Whether bins are (a, b] or [a, b). The first holds 0 and the last holds 1 in both cases.
    """

    bins: int = 15
    kind: str = "width"
    closed: str = "right"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bins", check_count(self.bins, "bins"))
        check_choice(self.kind, "binning", ("width", "mass"))
        check_choice(self.closed, "closed", ("right", "left"))

    @property
    def right(self) -> bool:
        """Whether bins are (a, b]."""
        return self.closed == "right"


@dataclass(frozen=True, eq=False)
class BinSums:
    """Sums over rows in bins, for k classes or for one kind of event.

    Attributes
    ----------
    edges : ndarray (bins + 1, k)
        Edges of the bins; a single column if all classes share them.
    count : ndarray (k, bins)
        Number of rows.
    weight, value, hit : ndarray (k, bins)
        Sums of w, w d and w o, where w is the weight of a row, d the distance of its probability from the
        middle of the bin, and o is 1 if the event happened and 0 otherwise.
    square, product : ndarray (k, bins)
        Sums of w d^2 and w d o; NaN if they are not computed.
    """

    edges: Array
    count: Array
    weight: Array
    value: Array
    hit: Array
    square: Array
    product: Array

    def __add__(self, other: BinSums) -> BinSums:
        if other.weight.shape != self.weight.shape or not np.array_equal(other.edges, self.edges):
            raise ValueError(
                f"sums of {other.weight.shape} classes and bins cannot be added to "
                f"{self.weight.shape}; all batches must have the same classes"
            )
        return BinSums(
            self.edges,
            self.count + other.count,
            self.weight + other.weight,
            self.value + other.value,
            self.hit + other.hit,
            self.square + other.square,
            self.product + other.product,
        )

    @property
    def middles(self) -> Array:
        """Middles of the bins (k or 1, bins)."""
        return np.asarray((self.edges[1:] + self.edges[:-1]) / 2).T

    @property
    def confidence(self) -> Array:
        """Mean probability in each bin (k, bins); NaN in empty bins."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.middles + self.value / self.weight)

    @property
    def accuracy(self) -> Array:
        """Frequency of the event in each bin (k, bins); NaN in empty bins."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.hit / self.weight

    def errors(self, norm: str) -> Array:
        """Return the calibration errors (k,); NaN if a class has no rows."""
        with np.errstate(invalid="ignore", divide="ignore"):
            share = self.weight / self.weight.sum(axis=1, keepdims=True)
        gap = np.abs(self.accuracy - self.confidence)
        gap = np.where(self.weight == 0, 0.0 * share, gap)  # an empty bin has no error
        if norm == "max":
            return np.asarray(gap.max(axis=1))
        if norm == "l2":
            return np.sqrt((share * gap**2).sum(axis=1))
        return np.asarray((share * gap).sum(axis=1))


def width_edges(bins: int, kind: DTypeLike = np.float64) -> Array:
    """Return edges (bins + 1,) of bins of equal width, rounded to the type of the probabilities.

    A probability of 0.2 in single precision therefore lies on the edge 0.2.
    """
    return _equal_steps(bins).astype(kind)


@lru_cache(maxsize=8)  # few rows take less time than np.linspace
def _equal_steps(bins: int) -> Array:
    """Return edges (bins + 1,) of bins of equal width; the caller copies them."""
    return np.linspace(0.0, 1.0, bins + 1)


def mass_edges(sorted_values: Array, weights: Array | None, binning: Binning) -> Array:
    """Return edges (bins + 1,) of bins with equal weights of sorted values, which may lie on a device.

    Inner edges are values, so equal values share a bin whatever the order of the rows, and weights are as
    equal as that allows. Integer weights give the same edges as repeated rows.
    """
    bins = binning.bins
    namespace, n = namespace_of(sorted_values), int(sorted_values.shape[0])
    edges = np.zeros(bins + 1, dtype=kind_of(sorted_values))
    edges[-1] = 1.0
    steps = np.arange(1, bins)
    if not n or (weights is not None and not float(namespace.xp.sum(weights)) > 0):
        edges[1:-1] = width_edges(bins)[1:-1]
        return edges
    if weights is None:
        # Rows in the first j bins: n j / bins, rounded up if bins are (a, b], else down.
        places = -(-n * steps // bins) - 1 if binning.right else n * steps // bins
    else:
        running = namespace.running(weights)[1:]
        targets = float(running[-1]) * steps / bins
        places = namespace.positions(running, targets, "left" if binning.right else "right")
        places = np.minimum(places, n - 1)  # rounding may exceed the last place
    edges[1:-1] = namespace.at(sorted_values, places)
    return edges


def gather_values(
    rows: LabelledRows, values: Array, hits: NDArray[np.int64], edges: Array, binning: Binning
) -> BinSums:
    """Return the sums in bins of values (m,) and of their events (m,), 1 if they happened.

    ``edges`` (bins + 1,) have the type of the values or a narrower type.
    """
    cuts = edges[:, None].astype(values.dtype)
    exact = exact_edges(cuts, binning)
    middles = (exact[1:] + exact[:-1]) / 2
    computed = _computed(cuts, binning)

    def work(part: slice) -> Array:
        sums = np.zeros((2 * binning.bins, 3))
        bad = _core.bin_values(
            values[part],
            hits[part],
            rows.weights_of(part),
            cuts,
            middles,
            computed,
            binning.right,
            sums,
            np.zeros_like(sums),
        )
        if bad >= 0:
            rows.refuse(part.start + bad)
        return sums

    sums = sum(over_rows(work, len(values), _STEP)).reshape(binning.bins, 2, 3)
    both = sums.sum(axis=1).T[:, None, :]
    hit = sums[:, 1, 0][None]
    missing = np.full_like(hit, np.nan)
    bin_sums = BinSums(exact, both[2], both[0], both[1], hit, missing, missing)
    return with_nan(bin_sums) if rows.nan_result else bin_sums


def class_columns(rows: LabelledRows) -> list[int]:
    """Return the classes that are evaluated separately: all, or only class 1 if there are two."""
    return [1] if rows.classes == 2 else list(range(rows.classes))


@dataclass(frozen=True, eq=False)
class ClassBins:
    """Computes sums by class and bin from blocks of rows with checked probabilities.

    Attributes
    ----------
    rows : LabelledRows
        Labels, probabilities and weights.
    cuts, exact, middles : ndarray (bins + 1 or bins, k or 1)
        Edges in the type of p, edges that results report, and middles of the bins.
    computed, right : bool
        Whether the bin of a value is computed without a search; and whether bins are (a, b].
    threshold : float
        Probabilities at or below this value are left out.
    """

    rows: LabelledRows
    cuts: Array
    exact: Array
    middles: Array
    computed: bool
    right: bool
    threshold: float

    @staticmethod
    def of(
        rows: LabelledRows,
        binning: Binning,
        threshold: float | None = None,
        edges: Array | None = None,
    ) -> ClassBins:
        """Return the bins of rows; ``edges`` (bins + 1, k) are needed if widths are not equal."""
        kind = np.float64 if rows.binary else rows.p.dtype
        cuts = width_edges(binning.bins, rows.p.dtype)[:, None] if edges is None else edges
        cuts = np.ascontiguousarray(cuts, dtype=kind)
        exact = exact_edges(cuts, binning)
        middles = (exact[1:] + exact[:-1]) / 2
        limit = -1.0 if threshold is None else threshold
        return ClassBins(rows, cuts, exact, middles, _computed(cuts, binning), binning.right, limit)

    @property
    def groups(self) -> int:
        """Number of groups of rows with separate sums, limited by memory."""
        sums, hits = self.state()
        return max(1, min(GROUPS, _SUMS_BYTES // (sums.nbytes + hits.nbytes)))

    def state(self) -> tuple[Array, Array]:
        """Return sums of zero."""
        shape = (len(class_columns(self.rows)), len(self.middles))
        return np.zeros((*shape, 4)), np.zeros((*shape, 2))

    def work(self, part: slice, block: Array, state: tuple[Array, Array]) -> None:
        """Add the sums of a block to a state."""
        labels = self.rows.known_labels[part]
        if self.rows.classes == 2:
            block, labels = np.ascontiguousarray(block[:, 1:]), labels - 1
        _core.bin_classes(
            block,
            labels,
            self.rows.weights_of(part),
            self.cuts,
            self.middles,
            self.computed,
            self.right,
            self.threshold,
            np.empty(block.shape[1], dtype=np.int32),
            *state,
        )

    def gather(self, states: list[tuple[Array, Array]]) -> BinSums:
        """Return the sums of all states."""
        sums = np.asarray(sum(state[0] for state in states))
        hits = np.asarray(sum(state[1] for state in states))
        weight, value, square, count = np.moveaxis(sums, 2, 0)
        hit, product = np.moveaxis(hits, 2, 0)
        bin_sums = BinSums(self.exact, count, weight, value, hit, square, product)
        return with_nan(bin_sums) if self.rows.nan_result else bin_sums

    def gather_all(self) -> BinSums:
        """Return the sums of all rows, in one pass."""
        return self.gather(self.rows.over(self.work, self.state, self.groups))


def gather_classes(rows: LabelledRows, binning: Binning, threshold: float | None = None) -> BinSums:
    """Return the sums in bins of the probabilities of each class; for two classes, of class 1 only."""
    edges = None
    if binning.kind == "mass":
        columns = over_columns(
            rows,
            lambda label, scores: column_edges(*sort_column(rows, scores)[:2], binning, threshold),
            class_columns(rows),
        )
        edges = np.stack(columns, axis=1)
    else:
        rows.check()
    gatherer = ClassBins.of(rows, binning, threshold, edges)
    return gatherer.gather_all()


def sort_column(
    rows: LabelledRows, scores: Array
) -> tuple[Array, Array | None, NDArray[np.intp] | None]:
    """Return the sorted scores of a class and, if rows have weights, sorted weights and the order.

    Without weights, scores are sorted in place, which is 4 to 9 times faster than computing their order.
    """
    if rows.weights is None:
        scores.sort()
        return scores, None, None
    order = np.argsort(scores)
    return scores[order], rows.weights[order], order


def column_edges(
    sorted_scores: Array, weights: Array | None, binning: Binning, threshold: float | None = None
) -> Array:
    """Return the edges of bins for the sorted scores of one class above the threshold."""
    start = 0 if threshold is None else int(np.searchsorted(sorted_scores, threshold, side="right"))
    return mass_edges(sorted_scores[start:], None if weights is None else weights[start:], binning)


def _computed(cuts: Array, binning: Binning) -> bool:
    """Return whether bins can be computed without a search: equal widths, rounded like the values."""
    return binning.kind == "width" and np.array_equal(
        cuts[:, 0], width_edges(binning.bins, cuts.dtype)
    )


def exact_edges(cuts: Array, binning: Binning) -> Array:
    """Return the edges that results report: for equal widths, not rounded to the type of p."""
    return (
        width_edges(binning.bins)[:, None] if binning.kind == "width" else cuts.astype(np.float64)
    )


def with_nan(sums: BinSums) -> BinSums:
    """Return the sums replaced by NaN, for rows whose NaN propagates."""
    nothing = np.full_like(sums.weight, np.nan)
    return BinSums(sums.edges, sums.count, *(nothing,) * 5)
