"""Compiled loops over rows of quantiles. Imported where they are used: compiling takes seconds once."""

from __future__ import annotations

import math

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled

__all__ = ["cdf_rows", "crps_rows"]


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
    """Write P(Y <= y), or P(Y < y), or with ``above`` their complement, of interpolated quantiles.

    ``left`` and ``right`` (n,) are the scales of exponential tails, 0 for none.
    """
    n, j = values.shape
    for i in range(n):
        at = y[i]
        if math.isnan(at):
            out[i] = math.nan
            continue
        low, high = 0, j  # of the values, how many are <= y, or < y
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
    """Return the integral of the square of what runs from a to b over a width."""
    return width * (a * a + a * b + b * b) / 3


@compiled
def _tail(mass: float, scale: float, beyond: float) -> float:
    """Return the integral over a tail, y lying ``beyond`` its start (not at all if negative).

    From y outwards the square of what is left, ``mass exp(-t / scale)``; from the start to y that of
    its complement.
    """
    if beyond <= 0:
        return mass * mass * scale / 2
    rest = mass * math.exp(-beyond / scale) if scale > 0 else 0.0
    inside = beyond - 2 * scale * (mass - rest) + scale * (mass * mass - rest * rest) / 2
    return inside + rest * rest * scale / 2
