"""Compiled loops over rows of probabilities; callers import them lazily, because Numba loads slowly.

Loops trust their arguments: C-contiguous blocks, labels below the number of classes. A loop that also
checks returns the first row that does not hold probabilities, or -1. An empty array means no labels or no
weights.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.compiled import compiled
from fastmcmd.predictive.base import Array

__all__ = [
    "bin_classes",
    "bin_values",
    "check_rows",
    "concordance",
    "cumulative_squares",
    "fine_bins",
    "rank_sum",
    "sketch_rows",
    "summarize_rows",
]

Integers = NDArray[np.integer]

_CHUNK = 512  # values per vectorised loop, which stay in the cache


@compiled
def check_rows(p: Array, tolerance: float) -> int:
    """Return the first row with a value outside [0, 1], NaN, or a sum other than one; -1 if none."""
    for i in range(p.shape[0]):
        row = p[i]
        low, high, total = row[0], row[0], 0.0
        for j in range(len(row)):
            low = min(low, row[j])
            high = max(high, row[j])
            total += row[j]
        if low < 0 or high > 1 or not abs(total - 1.0) <= tolerance:
            return i
    return -1


@compiled
def summarize_rows(
    p: Array,
    labels: Integers,
    tolerance: float,
    predicted: Integers,
    confidence: Array,
    chosen: Array,
    squares: Array,
    above: Integers,
    before: Integers,
    after: Integers,
) -> int:
    """Fill the arrays of `RowSummary` and return the first invalid row, or -1."""
    classes = p.shape[1]
    even = classes - classes % 4
    labelled = len(labels) > 0
    for i in range(p.shape[0]):
        row = p[i]
        # Four partial sums, because additions to a single sum wait for each other.
        sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
        for j in range(0, even, 4):
            sum_0 += row[j]
            sum_1 += row[j + 1]
            sum_2 += row[j + 2]
            sum_3 += row[j + 3]
        for j in range(even, classes):
            sum_0 += row[j]
        low, high = row[0], row[0]
        for j in range(classes):
            low = min(low, row[j])
            high = max(high, row[j])
        total = (sum_0 + sum_1) + (sum_2 + sum_3)
        if low < 0 or high > 1 or not abs(total - 1.0) <= tolerance:
            return i
        first = 0
        while row[first] != high:
            first += 1
        predicted[i] = first
        confidence[i] = high
        if labelled:
            label = labels[i]
            label_probability = row[label]
            greater, equal_before, equal_after = 0, 0, 0
            for j in range(classes):
                greater += row[j] > label_probability
            for j in range(label):
                equal_before += row[j] == label_probability
            for j in range(label + 1, classes):
                equal_after += row[j] == label_probability
            sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
            for j in range(0, even, 4):
                x_0, x_1 = np.float64(row[j]), np.float64(row[j + 1])
                x_2, x_3 = np.float64(row[j + 2]), np.float64(row[j + 3])
                sum_0 += 0.0 if j == label else x_0 * x_0
                sum_1 += 0.0 if j + 1 == label else x_1 * x_1
                sum_2 += 0.0 if j + 2 == label else x_2 * x_2
                sum_3 += 0.0 if j + 3 == label else x_3 * x_3
            for j in range(even, classes):
                x_0 = np.float64(row[j])
                sum_0 += 0.0 if j == label else x_0 * x_0
            chosen[i] = label_probability
            squares[i] = (sum_0 + sum_1) + (sum_2 + sum_3)
            above[i] = greater
            before[i] = equal_before
            after[i] = equal_after
    return -1


@compiled
def cumulative_squares(p: Array, labels: Integers, out: Array) -> None:
    """Fill ``sum_k (F_k - 1{label <= k})^2`` of each row, over all classes but the last."""
    for i in range(p.shape[0]):
        row, label = p[i], labels[i]
        below, total = 0.0, 0.0
        for j in range(label):
            below += row[j]
            total += below * below
        # Sum from the other end, where 1 - F_k is small, to avoid cancellation.
        beyond = 0.0
        for j in range(len(row) - 1, label, -1):
            beyond += row[j]
            total += beyond * beyond
        out[i] = total


@compiled
def _settle(values: Array, bins: int, right: bool, index: Integers, steps: Array) -> None:
    """Correct the bins of values, which are at most one off, for bins of equal width."""
    width = 1.0 / bins
    for i in range(len(values)):
        steps[0, i] = index[i] * width
        steps[1, i] = (index[i] + 1.0) * width
    if right:
        for i in range(len(values)):
            x = values[i]
            index[i] += np.int32(x > steps[1, i]) - np.int32(x <= steps[0, i])
    else:
        for i in range(len(values)):
            x = values[i]
            index[i] += np.int32(x >= steps[1, i]) - np.int32(x < steps[0, i])
    for i in range(len(values)):
        index[i] = min(max(index[i], np.int32(0)), np.int32(bins - 1))


@compiled
def _place(
    values: Array, edges: Array, even: bool, right: bool, index: Integers, steps: Array
) -> bool:
    """Fill the bin of each value, and return whether all values lie in [0, 1].

    ``edges`` (bins + 1, k) has one column per value, or one for all, in the type of the values. If bins are
    ``even``, edges are not read but computed as ``b * (1 / bins)``, as in `numpy.linspace`, and rounded to
    that type.
    """
    bins = edges.shape[0] - 1
    inside = True
    if even:
        # Products and edges are rounded, so only values this close to an edge can be one bin off.
        margin = 4.0 * bins * np.float64(np.finfo(values.dtype).eps)
        doubtful = False
        for i in range(len(values)):
            x = values[i]
            inside &= (x >= 0.0) & (x <= 1.0)
            place = np.float64(x) * bins
            floor = np.floor(place)
            doubtful |= (place - floor < margin) | (place - floor > 1.0 - margin)
            index[i] = np.int32(floor)
        if doubtful:
            _settle(values, bins, right, index, steps)
        return inside
    shared = edges.shape[1] == 1
    for i in range(len(values)):
        inside &= (values[i] >= 0.0) & (values[i] <= 1.0)
        index[i] = 0
    for b in range(1, bins):  # vectorised over values, which is faster than a search
        for i in range(len(values)):
            edge = edges[b, 0 if shared else i]
            index[i] += (values[i] > edge) if right else (values[i] >= edge)
    return inside


@compiled
def bin_values(
    values: Array,
    hits: Integers,
    weights: Array,
    edges: Array,
    middles: Array,
    even: bool,
    right: bool,
    sums: Array,
) -> int:
    """Add (weight, weight * d, 1) of each value to ``sums[2 * bin + hit]``, which must start at zero.

    ``d`` is the distance from ``middles[bin]``. Returns the first value that is outside [0, 1] or whose hit
    is neither 0 nor 1, or -1.
    """
    index = np.empty(_CHUNK, dtype=np.int32)
    steps = np.empty((2, _CHUNK), dtype=values.dtype)
    other = np.zeros(sums.shape)
    weighted = len(weights) > 0
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        if not _place(chunk, edges, even, right, index, steps):
            for i in range(len(chunk)):
                if not (chunk[i] >= 0.0 and chunk[i] <= 1.0):
                    return start + i
        happened = hits[start : start + _CHUNK]
        other_bits = np.int64(0)
        for i in range(len(chunk)):
            other_bits |= happened[i] >> 1
            index[i] = 2 * index[i] + np.int32(happened[i])
        if other_bits != 0:
            for i in range(len(chunk)):
                if happened[i] != 0 and happened[i] != 1:
                    return start + i
        if weighted:
            for i in range(len(chunk)):
                weight = weights[start + i]
                sums[index[i], 0] += weight
                sums[index[i], 1] += weight * chunk[i]
                sums[index[i], 2] += 1.0
        else:  # one vector addition per value, alternating between two tables so that none waits
            even_part = len(chunk) - len(chunk) % 2
            for i in range(0, even_part, 2):
                one, two = index[i], index[i + 1]
                sums[one, 0] += 1.0
                sums[one, 1] += chunk[i]
                other[two, 0] += 1.0
                other[two, 1] += chunk[i + 1]
            for i in range(even_part, len(chunk)):
                sums[index[i], 0] += 1.0
                sums[index[i], 1] += chunk[i]
    sums += other
    for cell in range(len(sums)):
        sums[cell, 1] -= middles[cell >> 1, 0] * sums[cell, 0]
        if not weighted:
            sums[cell, 2] = sums[cell, 0]
    return -1


@compiled
def bin_classes(
    p: Array,
    labels: Integers,
    weights: Array,
    edges: Array,
    middles: Array,
    even: bool,
    right: bool,
    threshold: float,
    sums: Array,
    hits: Array,
) -> None:
    """Add (weight, weight * d, weight * d^2, 1) of each p to ``sums[class, bin]``.

    For the class of the label, (weight, weight * d) are also added to ``hits[class, bin]``; a label below 0
    belongs to no column. ``d`` is the distance from the middle of the bin, so that variances lose no
    digits. Probabilities at or below ``threshold`` are left out.
    """
    classes = p.shape[1]
    index = np.empty(classes, dtype=np.int32)
    steps = np.empty((2, classes), dtype=p.dtype)
    shared = middles.shape[1] == 1
    weighted = len(weights) > 0
    for i in range(p.shape[0]):
        row, label = p[i], labels[i]
        _place(row, edges, even, right, index, steps)
        weight = weights[i] if weighted else 1.0
        for j in range(classes):
            if row[j] > threshold:
                b = index[j]
                d = row[j] - middles[b, 0 if shared else j]
                sums[j, b, 0] += weight
                sums[j, b, 1] += weight * d
                sums[j, b, 2] += weight * d * d
                if weighted:
                    sums[j, b, 3] += 1.0
        if label >= 0 and row[label] > threshold:
            b = index[label]
            hits[label, b, 0] += weight
            hits[label, b, 1] += weight * (row[label] - middles[b, 0 if shared else label])
    if not weighted:
        sums[:, :, 3] = sums[:, :, 0]


@compiled
def rank_sum(scores: Array, positive: Array) -> int:
    """Return the sum over positives of the number of scores below them and of scores not above them.

    Both arrays are sorted, and the positives are among the scores.
    """
    below, upto, total = 0, 0, 0
    for value in positive:
        while scores[below] < value:
            below += 1
        upto = max(upto, below)
        while upto < len(scores) and scores[upto] <= value:
            upto += 1
        total += below + upto
    return total


@compiled
def concordance(scores: Array, positive: Integers, weights: Array) -> tuple[float, float, float]:
    """Return the weight of correctly ordered pairs (ties count half), of positives and of negatives.

    Scores must be sorted.
    """
    pairs, positives, negatives = 0.0, 0.0, 0.0
    i = 0
    while i < len(scores):
        value = scores[i]
        tied_positives, tied_negatives = 0.0, 0.0
        while i < len(scores) and scores[i] == value:
            if positive[i]:
                tied_positives += weights[i]
            else:
                tied_negatives += weights[i]
            i += 1
        pairs += tied_positives * (negatives + tied_negatives / 2)
        positives += tied_positives
        negatives += tied_negatives
    return pairs, positives, negatives


@compiled
def _fine_bin(x: float, octaves: int, steps: int) -> int:
    """Return the fine bin of a probability, from 0 to ``2 * octaves * steps - 1``.

    Bins increase with p. Each of ``octaves`` halvings of the distance to 0 (below one half) or to 1 (above)
    is divided into ``steps`` equal bins.
    """
    half = octaves * steps
    distance = min(x, 1.0 - x)
    mantissa, exponent = math.frexp(distance)  # mantissa in [0.5, 1), exponent <= 0
    # 0.5, which has exponent 0, joins the bin below it
    rank = half + exponent * steps + np.int64((2.0 * mantissa - 1.0) * steps)
    rank = min(max(rank, 0), half - 1) if distance > 0.0 else 0
    return rank if x <= 0.5 else 2 * half - 1 - rank


@compiled
def fine_bins(values: Array, octaves: int, steps: int, out: Integers) -> None:
    """Fill the fine bin of each value in [0, 1]."""
    for i in range(len(values)):
        out[i] = _fine_bin(values[i], octaves, steps)


@compiled
def sketch_rows(
    p: Array, labels: Integers, weights: Array, octaves: int, steps: int, hits: Array, misses: Array
) -> None:
    """Add the weight of each p to ``hits[class, bin]`` for the class of the label, and else to ``misses``.

    Bins are those of `_fine_bin`.
    """
    weighted = len(weights) > 0
    for i in range(p.shape[0]):
        weight = weights[i] if weighted else 1.0
        for j in range(p.shape[1]):
            b = _fine_bin(np.float64(p[i, j]), octaves, steps)
            if j == labels[i]:
                hits[j, b] += weight
            else:
                misses[j, b] += weight
