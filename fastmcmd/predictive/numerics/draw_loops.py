"""Compiled loops over rows of draws. Imported where they are used: compiling takes seconds once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled

__all__ = ["bisect_rows", "count_rows", "crps_of_sorted"]


@compiled
def crps_of_sorted(draws: NDArray[Any], y: Array, factor: Array, out: Array) -> None:
    """Write ``mean_j (|x_j - y| - factor_j (x_j - y))`` of sorted draws x (n, m).

    With ``factor_j = (2 j - m + 1) / m``, j from 0, the last sum is half the mean absolute difference
    of two draws. Draws enter as distances to y, so that a common shift costs no digits.
    """
    n, m = draws.shape
    body = m - m % 4
    for i in range(n):
        at = y[i]
        if not math.isfinite(at):  # NaN stays NaN; any draw is infinitely far from infinity
            out[i] = abs(at)
            continue
        a = b = c = d = 0.0  # four sums: additions need not wait for each other
        for j in range(0, body, 4):
            p = draws[i, j] - at
            q = draws[i, j + 1] - at
            r = draws[i, j + 2] - at
            s = draws[i, j + 3] - at
            a += abs(p) - factor[j] * p
            b += abs(q) - factor[j + 1] * q
            c += abs(r) - factor[j + 2] * r
            d += abs(s) - factor[j + 3] * s
        total = (a + b) + (c + d)
        for j in range(body, m):
            p = draws[i, j] - at
            total += abs(p) - factor[j] * p
        out[i] = total / m


@compiled
def count_rows(draws: NDArray[Any], y: Array, below: bool, out: NDArray[np.int64]) -> None:
    """Write how many draws of each row (n, m), in any order, are <= y, or < y."""
    n, m = draws.shape
    for i in range(n):
        at = y[i]
        count = 0
        if below:
            for j in range(m):
                count += draws[i, j] < at
        else:
            for j in range(m):
                count += draws[i, j] <= at
        out[i] = count


@compiled
def bisect_rows(draws: NDArray[Any], y: Array, below: bool, out: NDArray[np.int64]) -> None:
    """Write how many draws of each sorted row (n, m) are <= y, or < y."""
    n, m = draws.shape
    for i in range(n):
        at = y[i]
        low, high = 0, m
        while low < high:
            middle = (low + high) // 2
            value = draws[i, middle]
            if value < at or (not below and value == at):
                low = middle + 1
            else:
                high = middle
        out[i] = low
