"""Compiled loops over simulated outcomes. Import this module lazily, because Numba loads slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.compiled import compiled

__all__ = ["add_bumps", "centre_rows", "interpolate", "mid_ranks"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]


@compiled
def mid_ranks(values: Array, order: NDArray[Any], ranks: Array) -> None:
    """Fill ``ranks`` in (0, 1) of the values of each row (m, l), given their order; ties share a mean."""
    rows, count = values.shape
    for i in range(rows):
        first = 0
        while first < count:
            last = first + 1
            while last < count and values[i, order[i, last]] == values[i, order[i, first]]:
                last += 1
            for place in range(first, last):
                ranks[i, order[i, place]] = (first + last) / (2.0 * count)
            first = last


@compiled
def add_bumps(places: Array, step: float, factor: float, most: int, out: Single) -> None:
    """Add ``factor exp(-(t - j step)^2)`` to column j of ``out`` (m, l, r), at most ``most`` from t.

    It proceeds from the nearest bump outwards by a constant ratio of ratios: two exponentials for each
    number.
    """
    rows, count, rank = out.shape
    decay = np.empty(most + 1)
    for j in range(most + 1):
        decay[j] = np.exp(-((step * j) ** 2))
    for i in range(rows):
        for b in range(count):
            t = places[i, b]
            nearest = int(t / step + 0.5)
            nearest = min(max(nearest, 0), rank - 1)
            gap = t - nearest * step
            value = factor * np.exp(-gap * gap)
            ratio = np.exp(2 * gap * step)
            out[i, b, nearest] = value
            power = 1.0
            for j in range(1, min(most, rank - 1 - nearest) + 1):
                power *= ratio
                out[i, b, nearest + j] = value * power * decay[j]
            power = 1.0
            for j in range(1, min(most, nearest) + 1):
                power /= ratio
                out[i, b, nearest - j] = value * power * decay[j]


@compiled
def centre_rows(features: Single, squares: Array) -> None:
    """Subtract the means over l from features (m, l, r), and fill ``squares`` (m, l) with squared norms."""
    rows, count, rank = features.shape
    mean = np.empty(rank, dtype=np.float32)
    for i in range(rows):
        mean[:] = 0
        for b in range(count):
            for j in range(rank):
                mean[j] += features[i, b, j]
        for j in range(rank):
            mean[j] /= count
        for b in range(count):
            total = np.float32(0)
            for j in range(rank):
                value = features[i, b, j] - mean[j]
                features[i, b, j] = value
                total += value * value
            squares[i, b] = total


@compiled
def interpolate(places: Array, table: Single, out: Single) -> None:
    """Set out (n, r) to the cubic polynomial through the four rows of a table around each place.

    ``places`` (n,) are in units of the table's step, in [1, rows - 2].
    """
    last = table.shape[0] - 3
    for i in range(places.shape[0]):
        j = min(int(places[i]), last)
        t = places[i] - j
        before = np.float32(-t * (t - 1) * (t - 2) / 6)
        here = np.float32((t + 1) * (t - 1) * (t - 2) / 2)
        after = np.float32(-(t + 1) * t * (t - 2) / 2)
        beyond = np.float32((t + 1) * t * (t - 1) / 6)
        for k in range(table.shape[1]):
            out[i, k] = (
                before * table[j - 1, k] + here * table[j, k]
                + after * table[j + 1, k] + beyond * table[j + 2, k]
            )  # fmt: skip
