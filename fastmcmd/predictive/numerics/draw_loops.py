"""Compiled loops over rows of draws and quantiles, imported only when needed: compiling takes seconds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.compiled import compiled

__all__ = ["bisect_rows", "cdf_rows", "count_rows", "crps_of_sorted", "crps_rows"]


@compiled
def crps_of_sorted(draws: HostArray, y: Array, factor: Array, out: Array) -> None:
    """Write ``mean_j (|x_j - y| - factor_j (x_j - y))`` of sorted draws x (n, m).

    With ``factor_j = (2 j - m + 1) / m``, j from 0, the last sum is half the mean absolute difference
    of two draws. Draws enter as distances to y, so that a common offset costs no accuracy.
    """
    n, m = draws.shape
    body = m - m % 4
    for i in range(n):
        at = y[i]
        if not math.isfinite(at):  # NaN stays NaN; infinity is infinitely far from any draw
            out[i] = abs(at)
            continue
        a = b = c = d = 0.0  # four partial sums, so that additions do not wait for each other
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
def count_rows(draws: HostArray, y: Array, below: bool, out: NDArray[np.int64]) -> None:
    """Write the number of draws of each row (n, m), in any order, that are <= y, or with ``below`` < y."""
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
def bisect_rows(draws: HostArray, y: Array, below: bool, out: NDArray[np.int64]) -> None:
    """Write the number of draws of each sorted row (n, m) that are <= y, or with ``below`` < y."""
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


@compiled
def cdf_rows(
    levels: Array,
    values: Array,
    left: Array,
    right: Array,
    y: Array,
    below: bool,
    above: bool,
    out: Array,
) -> None:
    """Write P(Y <= y), with ``below`` P(Y < y), of interpolated quantiles; with ``above``, 1 minus that.

    ``left`` and ``right`` (n,) are the scales of exponential tails, 0 for none.
    """
    n, j = values.shape
    for i in range(n):
        at = y[i]
        if math.isnan(at):
            out[i] = math.nan
            continue
        low, high = 0, j  # bisect for the number of values that are <= y, or < y
        while low < high:
            middle = (low + high) // 2
            if values[i, middle] < at or (not below and values[i, middle] == at):
                low = middle + 1
            else:
                high = middle
        if low == 0:
            share = 0.0
            if left[i] > 0:
                share = levels[0] * math.exp((at - values[i, 0]) / left[i])
            out[i] = 1 - share if above else share
        elif low == j:
            rest = 0.0
            if right[i] > 0:
                rest = (1 - levels[j - 1]) * math.exp((values[i, j - 1] - at) / right[i])
            out[i] = rest if above else 1 - rest
        else:
            start, end = values[i, low - 1], values[i, low]
            share = levels[low - 1] + (levels[low] - levels[low - 1]) * (
                (at - start) / (end - start)
            )
            out[i] = 1 - share if above else share


@compiled
def crps_rows(
    levels: Array, values: Array, left: Array, right: Array, y: Array, out: Array
) -> None:
    """Write the integral of ``(F(t) - 1{y <= t})^2`` dt, F piecewise linear with exponential tails."""
    n, j = values.shape
    for i in range(n):
        at = y[i]
        if not math.isfinite(at):
            out[i] = abs(at)
            continue
        total = _tail(levels[0], left[i], values[i, 0] - at)
        total += _tail(1 - levels[j - 1], right[i], at - values[i, j - 1])
        for k in range(j - 1):
            start, end = values[i, k], values[i, k + 1]
            p, q = levels[k], levels[k + 1]
            if at >= end:
                total += _squares(p, q, end - start)
            elif at <= start:
                total += _squares(1 - p, 1 - q, end - start)
            else:
                middle = p + (q - p) * ((at - start) / (end - start))
                total += _squares(p, middle, at - start)
                total += _squares(1 - middle, 1 - q, end - at)
        out[i] = total


@compiled
def _squares(a: float, b: float, width: float) -> float:
    """Return the integral of the square of a linear function from a to b over a width."""
    return width * (a * a + a * b + b * b) / 3


@compiled
def _tail(mass: float, scale: float, beyond: float) -> float:
    """Return the integral over a tail, where y lies ``beyond`` its start (outside the tail if negative).

    From y outwards the integrand is the square of the remaining mass, ``mass exp(-t / scale)``; from the
    start to y it is the square of 1 minus that.
    """
    if beyond <= 0:
        return mass * mass * scale / 2
    rest = mass * math.exp(-beyond / scale) if scale > 0 else 0.0
    inside = beyond - 2 * scale * (mass - rest) + scale * (mass * mass - rest * rest) / 2
    return inside + rest * rest * scale / 2
