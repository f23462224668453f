"""Compiled loops over random groups of rows; imported where they are called, because Numba loads slowly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.compiled import compiled
from fastmcmd.predictive.base import Array

__all__ = ["count_drawn", "count_rows", "count_undrawn"]


@compiled
def count_rows(
    rows: NDArray[np.integer], place: NDArray[np.integer], weights: Array, counts: Array
) -> None:
    """Add the weight of rows to the counts of their places; an empty array means weights of 1."""
    if len(weights) == 0:
        for i in range(len(rows)):
            counts[place[rows[i]]] += 1.0
    else:
        for i in range(len(rows)):
            counts[place[rows[i]]] += weights[rows[i]]


@compiled
def count_drawn(
    uniform: Array,
    place: NDArray[np.integer],
    weights: Array,
    counts: Array,
) -> None:
    """Draw rows with replacement, one for each uniform number, and count them by place."""
    n = len(place)
    for i in range(len(uniform)):
        row = int(uniform[i] * n)
        counts[place[row]] += 1.0 if len(weights) == 0 else weights[row]


@compiled
def count_undrawn(
    uniform: Array,
    order: NDArray[np.int32],
    place: NDArray[np.integer],
    weights: Array,
    counts: Array,
) -> None:
    """Draw rows without replacement, one for each uniform number, and count them by place.

    The first steps of a Fisher-Yates shuffle, which may start from any order, such as the one that the
    last group has left.
    """
    n = len(order)
    for i in range(len(uniform)):
        j = i + int(uniform[i] * (n - i))
        row = order[j]
        order[j] = order[i]
        order[i] = row
        counts[place[row]] += 1.0 if len(weights) == 0 else weights[row]
