"""Compiled integrals of bumps on the line. Import it lazily: the first compilation takes seconds."""

from __future__ import annotations

import math

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled
from fastmcmd.embedding.densities import REACH

__all__ = ["project", "smooth"]

_SHORT = 1.5  # panels up to this length are integrated at their own nodes
# Gauss-Legendre rules for windows of length 3, 6 and 12, exact to rounding under exp(-x^2).
_RULES = tuple(np.polynomial.legendre.leggauss(count) for count in (16, 24, 40))
_Z = np.zeros((3, 40))
_W = np.zeros((3, 40))
for _row, (_z, _w) in enumerate(_RULES):
    _Z[_row, : len(_z)], _W[_row, : len(_w)] = _z, _w
_SIZES = np.array([16, 24, 40])
_PIECE = 3.0  # length of a piece of longer panels, for the first rule
_NODES = 6 * 16  # nodes of a stretch of length 2 REACH in such pieces, with one piece to spare
_MANY = 24  # places from which a smoothed series saves work
_HERMITE_Z, _HERMITE_W = np.polynomial.hermite.hermgauss(8)  # exact for polynomials of degree 15


@compiled
def _series(coefficients: Array, s: float) -> float:
    """Return a Legendre series at s, by Clenshaw's recurrence."""
    after, beyond = 0.0, 0.0
    for k in range(len(coefficients) - 1, 0, -1):
        after, beyond = (
            coefficients[k] + (2 * k + 1) / (k + 1) * s * after - (k + 1) / (k + 2) * beyond,
            after,
        )
    return coefficients[0] + s * after - 0.5 * beyond


@compiled
def _rule_of(length: float) -> int:
    if length <= 3.0:
        return 0
    return 1 if length <= 6.0 else 2


@compiled
def _tabulated(
    series: Array, a: float, b: float, start: float, end: float, rate: float, table: Array
) -> int:
    """Fill ``table`` (2, _NODES) with nodes between start and end and their masses; return their count."""
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    pieces = max(1, math.ceil((end - start) * rate / _PIECE))
    length, count = (end - start) / pieces, 0
    for piece in range(pieces):
        for k in range(_SIZES[0]):
            y = start + length * (piece + 0.5 * (1.0 + _Z[0, k]))
            table[0, count] = y
            table[1, count] = 0.5 * length * _W[0, k] * _series(series, (y - middle) / half)
            count += 1
    return count


@compiled
def _add_bumps(table: Array, count: int, rate: float, t: Array, out: Array) -> None:
    """Add the sums of tabulated masses under bumps around t to ``out``; nodes and t are ascending."""
    first = 0
    for j in range(len(t)):
        total = 0.0
        while first < count and rate * (table[0, first] - t[j]) < -REACH:
            first += 1
        for k in range(first, count):
            u = rate * (table[0, k] - t[j])
            if u > REACH:
                break
            total += table[1, k] * math.exp(-u * u)
        out[j] += total


@compiled
def _by_hermite(series: Array, a: float, b: float, rate: float, t: float) -> float:
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    total = 0.0
    for k in range(len(_HERMITE_Z)):
        s = (t + _HERMITE_Z[k] / rate - middle) / half
        total += _HERMITE_W[k] / rate * _series(series, s)
    return total


@compiled
def _add_inside(
    series: Array,
    a: float,
    b: float,
    places: Array,
    to_series: Array,
    rate: float,
    t: Array,
    out: Array,
) -> None:
    """Add smoothed values at places t that are farther from both ends of the panel than a bump reaches.

    There a smoothed polynomial is a polynomial of the same degree.
    """
    if len(t) < _MANY:
        for j in range(len(t)):
            out[j] += _by_hermite(series, a, b, rate, t[j])
        return
    middle, half = 0.5 * (a + b), 0.5 * (b - a) - REACH / rate
    smoothed = np.zeros(len(places))
    for k in range(len(places)):
        value = _by_hermite(series, a, b, rate, middle + half * places[k])
        for m in range(len(places)):
            smoothed[m] += to_series[m, k] * value
    for j in range(len(t)):
        out[j] += _series(smoothed, (t[j] - middle) / half)


@compiled
def smooth(
    low: Array,
    high: Array,
    series: Array,
    weights: Array,
    places: Array,
    to_series: Array,
    rate: float,
    t: Array,
    out: Array,
) -> None:
    """Add ``integral f_i(y) exp(-(rate (y - t_j))^2) dy`` to ``out`` (n, q), with t ascending.

    f_i is the Legendre series ``series[i, p]`` on the panel from ``low[i, p]`` to ``high[i, p]``. Its
    masses at the panel's nodes ``places`` in (-1, 1) are ``weights[i, p]``. ``to_series`` maps values at
    the nodes to coefficients.
    """
    n, panels, _ = series.shape
    reach = REACH / rate
    table = np.empty((2, _NODES))
    for i in range(n):
        for p in range(panels):
            a, b, panel_series = low[i, p], high[i, p], series[i, p]
            first, last = np.searchsorted(t, a - reach), np.searchsorted(t, b + reach)
            if first == last:
                continue
            if (b - a) * rate <= _SHORT:
                for k in range(len(places)):
                    table[0, k] = 0.5 * (a + b) + 0.5 * (b - a) * places[k]
                    table[1, k] = weights[i, p, k]
                _add_bumps(table, len(places), rate, t[first:last], out[i, first:last])
            elif (b - a) * rate <= 2 * REACH:
                count = _tabulated(panel_series, a, b, a, b, rate, table)
                _add_bumps(table, count, rate, t[first:last], out[i, first:last])
            else:
                inside = np.searchsorted(t, a + reach), np.searchsorted(t, b - reach)
                if inside[0] > first:
                    count = _tabulated(panel_series, a, b, a, a + 2 * reach, rate, table)
                    _add_bumps(table, count, rate, t[first : inside[0]], out[i, first : inside[0]])
                if last > inside[1]:
                    count = _tabulated(panel_series, a, b, b - 2 * reach, b, rate, table)
                    _add_bumps(table, count, rate, t[inside[1] : last], out[i, inside[1] : last])
                some = slice(inside[0], inside[1])
                _add_inside(panel_series, a, b, places, to_series, rate, t[some], out[i, some])


@compiled
def project(y: Array, low: Array, high: Array, rate: float, out: Array) -> None:
    """Fill ``out`` (n, p, l) with the first Legendre coefficients of ``exp(-(rate (t - y_i))^2)``.

    The polynomials are orthonormal on panels p from ``low[p]`` to ``high[p]``, ascending and disjoint.
    """
    terms = out.shape[2]
    reach = REACH / rate
    for i in range(len(y)):
        first = np.searchsorted(high, y[i] - reach)
        last = np.searchsorted(low, y[i] + reach)
        for p in range(first, last):
            start, end = max(low[p], y[i] - reach), min(high[p], y[i] + reach)
            length = high[p] - low[p]
            rule = _rule_of((end - start) * rate)
            for k in range(_SIZES[rule]):
                t = 0.5 * (start + end) + 0.5 * (end - start) * _Z[rule, k]
                u = rate * (t - y[i])
                value = 0.5 * (end - start) * _W[rule, k] * math.exp(-u * u) / math.sqrt(length)
                s = 2 * (t - low[p]) / length - 1
                before, current = 0.0, 1.0
                for m in range(terms):
                    out[i, p, m] += value * math.sqrt(2 * m + 1.0) * current
                    before, current = (
                        current,
                        ((2 * m + 1) * s * current - m * before) / (m + 1),
                    )
