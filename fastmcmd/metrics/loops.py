"""Compiled loops over rows of random groups, and over draws of vectors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.compiled import compiled
from fastmcmd.predictive.base import Array

__all__ = ["count_drawn", "count_rows", "count_undrawn", "energy_rows", "variogram_rows"]


@compiled
def count_rows(
    rows: NDArray[np.integer], place: NDArray[np.integer], weights: Array, counts: Array
) -> None:
    """Add the weight of rows to the counts of their places; empty ``weights`` mean weights of 1."""
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
    """Draw rows with replacement, one per uniform number, and count them by place."""
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
    """Draw rows without replacement, one per uniform number, and count them by place.

    These are the first steps of a Fisher-Yates shuffle. It may start from any order, such as that left by
    the previous group.
    """
    n = len(order)
    for i in range(len(uniform)):
        j = i + int(uniform[i] * (n - i))
        row = order[j]
        order[j] = order[i]
        order[i] = row
        counts[place[row]] += 1.0 if len(weights) == 0 else weights[row]


@compiled
def energy_rows(draws: Array, y: Array, beta: float, pairs: float, out: Array) -> None:
    """Write ``mean_i |x_i - y|^beta - sum_{i<j} |x_i - x_j|^beta / pairs`` of rows of draws."""
    n, k, m = draws.shape
    squares = np.empty(m)
    for row in range(n):
        out[row], largest = _energy(draws[row], y[row], beta, pairs, squares)
        if 1e-280 < largest < 1e290:
            continue
        gaps = np.empty((k, m))  # scaled so that their squares keep all their digits
        unit = 0.0
        for c in range(k):
            for j in range(m):
                gaps[c, j] = draws[row, c, j] - y[row, c]
                unit = max(unit, abs(gaps[c, j]))
        if unit > 0.0 and unit < np.inf:
            gaps /= unit
            out[row] = _energy(gaps, np.zeros(k), beta, pairs, squares)[0] * unit**beta


@compiled
def _energy(
    draws: Array, y: Array, beta: float, pairs: float, squares: Array
) -> tuple[float, float]:
    """Return the score of one row of draws (k, m), and the largest squared distance from y."""
    k, m = draws.shape
    squares[:] = 0.0
    for c in range(k):
        at = y[c]
        for j in range(m):
            gap = draws[c, j] - at
            squares[j] += gap * gap
    largest = squares.max()
    near = _sum_of_powers(squares, 0, beta)
    far = 0.0
    for i in range(m - 1):
        squares[i + 1 :] = 0.0
        for c in range(k):
            at = draws[c, i]
            for j in range(i + 1, m):
                gap = draws[c, j] - at
                squares[j] += gap * gap
        far += _sum_of_powers(squares, i + 1, beta)
    return near / m - far / pairs, largest


@compiled
def _sum_of_powers(squares: Array, start: int, beta: float) -> float:
    """Return the sum of ``squares^(beta / 2)`` from ``start`` on, from four independent partial sums."""
    m = len(squares)
    if beta == 1.0:
        for j in range(start, m):
            squares[j] = math.sqrt(squares[j])
    else:
        for j in range(start, m):
            squares[j] = squares[j] ** (0.5 * beta)
    a = b = c = d = 0.0
    body = start + (m - start) // 4 * 4
    for j in range(start, body, 4):
        a += squares[j]
        b += squares[j + 1]
        c += squares[j + 2]
        d += squares[j + 3]
    for j in range(body, m):
        a += squares[j]
    return (a + b) + (c + d)


@compiled
def variogram_rows(
    draws: Array, y: Array, p: float, weights: Array, unbiased: bool, out: Array
) -> None:
    """Write ``sum_ij w_ij (|y_i - y_j|^p - mean |x_i - x_j|^p)^2`` of rows of draws.

    If ``unbiased``, the variance of each mean (with m - 1 degrees of freedom) is subtracted from its
    square.
    """
    n, k, m = draws.shape
    powers = np.empty(m)
    for row in range(n):
        total = 0.0
        for i in range(k):
            for j in range(i):
                weight = weights[i, j] + weights[j, i]
                if weight == 0.0:
                    continue
                for draw in range(m):
                    powers[draw] = _power(draws[row, i, draw] - draws[row, j, draw], p)
                mean = 0.0
                for draw in range(m):
                    mean += powers[draw]
                mean /= m
                gap = _power(y[row, i] - y[row, j], p) - mean
                square = gap * gap
                if unbiased:
                    spread = 0.0
                    for draw in range(m):
                        spread += (powers[draw] - mean) ** 2
                    square -= spread / (m - 1) / m
                total += weight * square
        out[row] = total


@compiled
def _power(gap: float, p: float) -> float:
    """Return ``|gap|^p``, by a square root if p = 1/2."""
    if p == 0.5:
        return math.sqrt(abs(gap))
    if p == 1.0:
        return abs(gap)
    return float(abs(gap) ** p)
