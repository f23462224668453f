"""Compiled integrals of bumps on the line. Imported where they are used: compiling takes seconds once."""

from __future__ import annotations

import math

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled

__all__ = ["REACH", "project", "smooth"]

REACH = 6.0  # of exp(-x^2): 2e-16
_SHORT = 1.5  # panels up to that length are integrated at their own nodes
# Gauss-Legendre rules for windows of length 3, 6 and 12, exact to rounding under exp(-x^2).
_RULES = tuple(np.polynomial.legendre.leggauss(count) for count in (16, 24, 40))
_Z = np.zeros((3, 40))
_W = np.zeros((3, 40))
for _row, (_z, _w) in enumerate(_RULES):
    _Z[_row, : len(_z)], _W[_row, : len(_w)] = _z, _w
_SIZES = np.array([16, 24, 40])
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
def smooth(
    low: Array,
    high: Array,
    series: Array,
    weights: Array,
    places: Array,
    rate: float,
    t: Array,
    out: Array,
) -> None:
    """Add ``integral f_i(y) exp(-(rate (y - t_j))^2) dy`` to ``out`` (n, q), t ascending.

    f_i is a Legendre series ``series[i, p]`` on the panel from ``low[i, p]`` to ``high[i, p]``; at its
    nodes, ``places`` in (-1, 1), it has the ``weights[i, p]``.
    """
    n, panels, _ = series.shape
    reach = REACH / rate
    for i in range(n):
        for p in range(panels):
            a, b = low[i, p], high[i, p]
            middle, half = 0.5 * (a + b), 0.5 * (b - a)
            first = np.searchsorted(t, a - reach)
            last = np.searchsorted(t, b + reach)
            for j in range(first, last):
                total = 0.0
                if 2 * half * rate <= _SHORT:
                    for k in range(len(places)):
                        u = rate * (middle + half * places[k] - t[j])
                        total += weights[i, p, k] * math.exp(-u * u)
                elif t[j] - reach >= a and t[j] + reach <= b:
                    for k in range(len(_HERMITE_Z)):
                        s = (t[j] + _HERMITE_Z[k] / rate - middle) / half
                        total += _HERMITE_W[k] / rate * _series(series[i, p], s)
                else:
                    start, end = max(a, t[j] - reach), min(b, t[j] + reach)
                    rule = _rule_of((end - start) * rate)
                    for k in range(_SIZES[rule]):
                        y = 0.5 * (start + end) + 0.5 * (end - start) * _Z[rule, k]
                        u = rate * (y - t[j])
                        value = _series(series[i, p], (y - middle) / half)
                        total += 0.5 * (end - start) * _W[rule, k] * value * math.exp(-u * u)
                out[i, j] += total


@compiled
def project(y: Array, low: Array, high: Array, rate: float, out: Array) -> None:
    """Fill ``out`` (n, p, l) with the first Legendre coefficients of ``exp(-(rate (t - y_i))^2)``.

    On panels p from ``low[p]`` to ``high[p]``, ascending and disjoint, of orthonormal polynomials.
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
