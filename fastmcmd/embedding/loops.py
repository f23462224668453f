"""Compiled sums over nodes on the line. Import it lazily: the first compilation takes seconds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.compiled import compiled

__all__ = ["add_quadratic_forms", "chebyshev_moments"]

_BLOCK = 256  # outputs with separate sums, so that rounding grows with the number of blocks only
_LONGEST = 1.0  # length of a block, in 1 / rate: no exponential in it exceeds e


@compiled
def add_quadratic_forms(
    y: NDArray[np.float64],
    c: NDArray[np.float64],
    rate: float,
    polynomial: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add ``c_j' K c_j`` to ``out[j]`` for ``k = p(s) exp(-s)`` with ``s = rate |y - z|``, y ascending.

    The state at the start b of a block is ``before[m] = sum c_l (rate (b - y_l))^m exp(-rate (b - y_l))``
    over all earlier outputs. ``inside[m] = sum c_l t_l^m exp(t_l)``, with ``t = rate (y - b)``, sums over
    the outputs of the block.
    """
    count, columns = c.shape
    degree = len(polynomial)
    before, inside = np.zeros((degree, columns)), np.zeros((degree, columns))
    partial, weight = np.zeros(columns), np.zeros(degree)
    choose = np.zeros((degree, degree))
    for k in range(degree):
        choose[k, 0] = 1.0
        for m in range(1, k + 1):
            choose[k, m] = choose[k, m - 1] * (k - m + 1) / m
    start, place = 0, y[0]
    for i in range(count):
        t = rate * (y[i] - place)
        if i - start >= _BLOCK or t > _LONGEST:
            decay = math.exp(-t)
            for m in range(degree):
                sign = 1.0 if m % 2 == 0 else -1.0
                for j in range(columns):
                    before[m, j] += sign * inside[m, j]
                    inside[m, j] = 0.0
            for m in range(degree - 1, -1, -1):
                for j in range(columns):
                    shifted_sum, power = 0.0, 1.0
                    if decay > 0.0:
                        for r in range(m, -1, -1):
                            shifted_sum += choose[m, r] * power * before[r, j]
                            power *= t
                    before[m, j] = decay * shifted_sum
            for j in range(columns):
                out[j] += partial[j]
                partial[j] = 0.0
            start, place, t = i, y[i], 0.0
        grow, decay = math.exp(t), math.exp(-t)
        for m in range(degree):
            total, power = 0.0, 1.0
            for k in range(m, degree):
                total += polynomial[k] * choose[k, m] * power
                power *= t
            weight[m] = decay * total
        for j in range(columns):
            left_sum = 0.0
            for m in range(degree):
                if m % 2 == 0:
                    left_sum += weight[m] * (before[m, j] + inside[m, j])
                else:
                    left_sum += weight[m] * (before[m, j] - inside[m, j])
            partial[j] += c[i, j] * (2.0 * left_sum + polynomial[0] * c[i, j])
        power = grow
        for m in range(degree):
            for j in range(columns):
                inside[m, j] += power * c[i, j]
            power *= t
    for j in range(columns):
        out[j] += partial[j]


@compiled
def chebyshev_moments(
    place: HostArray,
    u: NDArray[np.float64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add ``w_ij T_k(u_ij)`` to ``out[i, place_ij, k]``; nodes with a negative place are skipped."""
    n, count = place.shape
    terms = out.shape[2]
    for i in range(n):
        for j in range(count):
            panel = place[i, j]
            if panel < 0:
                continue
            at = u[i, j]
            before, now = weights[i, j], weights[i, j] * at
            for k in range(terms):
                out[i, panel, k] += before
                before, now = now, 2 * at * now - before
