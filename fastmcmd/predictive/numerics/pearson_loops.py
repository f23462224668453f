"""Compiled march from quantile to quantile for Pearson's system, imported only when needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled

__all__ = ["march"]

F = TypeVar("F", bound=Callable[..., Any])

_WIDTH = 32  # rows per block: their coefficients, 8 kB, stay in the L1 cache
_TERMS = 30
_RADIUS = 0.2  # longest step, as a share of the radius of convergence: 0.2^24 is below rounding
_SMALL = 1e-17  # relative size of terms that are left out
_BEND = 0.8  # change of the log density over a step above which the first guess is poor
_FINEST = (
    1 / 64
)  # least step, as a share of the way to a level; rows that need shorter steps are given up
_MOST_STEPS = 100  # per level; rows that need more are given up
_MOST_HALVINGS = 6  # of a step whose series is too long; one usually suffices
_SETTLED = 1e-8  # correction whose square, the size of the next one, is below rounding


# Division by zero follows NumPy and raises no exception, so that loops over rows are vectorised.
def _compiled(function: F) -> F:
    return compiled(function, error_model="numpy")


@_compiled
def march(x: Array, density: Array, masses: Array, slope: Array, out: Array) -> None:
    """Write the points (n, j) at which the mass between them and x (n,) has reached each of ``masses``.

    Parameters
    ----------
    x, density : ndarray (n,)
        Starting points and the density there. Both are overwritten by those of the last point.
    masses : ndarray (n, j) or (1, j)
        Masses whose absolute values rise; their common sign is the direction of the march.
    slope : ndarray (n or 1, 8)
        ``p0, p1, q0, q1, q2`` of ``f' / f = (p0 + p1 x) / (q0 + q1 x + q2 x^2)``, then the real parts
        of the roots of the denominator and their imaginary part, infinite if it has no roots.
    out : ndarray (n, j)
        The points; NaN where the march fails.

    Notes
    -----
    The differential equation gives the Taylor coefficients of the density by a three-term recurrence, so a
    step needs only sums. Halley's method inverts the integral of the series. Errors are of the size of
    rounding, relative to the mass covered. The rows of a block all take the same share of the way to their
    next level, so that the loops over rows are vectorised.
    """
    b = np.empty((_TERMS + 2, _WIDTH))  # coefficients of the density over its value, times h^k
    at, f, rest, gone = np.empty(_WIDTH), np.empty(_WIDTH), np.empty(_WIDTH), np.empty(_WIDTH)
    first, second = np.empty(_WIDTH), np.empty(_WIDTH)
    bend, curve = np.empty(_WIDTH), np.empty(_WIDTH)
    h, aim, s = np.empty(_WIDTH), np.empty(_WIDTH), np.empty(_WIDTH)
    total, value = np.empty(_WIDTH), np.empty(_WIDTH)
    own = np.empty((8, _WIDTH))
    many, each = len(masses) > 1, len(slope) > 1
    for start in range(0, len(x), _WIDTH):
        width = min(_WIDTH, len(x) - start)
        for r in range(_WIDTH):  # a last block that is not full repeats its last row
            i = start + min(r, width - 1)
            at[r], f[r], gone[r] = x[i], density[i], 0.0
            for c in range(8):
                own[c, r] = slope[i if each else 0, c]
        for j in range(masses.shape[1]):
            for r in range(_WIDTH):
                i = start + min(r, width - 1)
                rest[r] = masses[i if many else 0, j] - gone[r]
                gone[r] = masses[i if many else 0, j]
            left = 1.0  # share of the way to this level that remains
            steps = 0
            while left > 0.0:
                share = 1.0
                steps += 1
                finest = _FINEST if steps < _MOST_STEPS else 1.0
                for r in range(_WIDTH):
                    scale = 1.0 / (own[2, r] + at[r] * (own[3, r] + at[r] * own[4, r]))
                    first[r] = (own[0, r] + own[1, r] * at[r]) * scale
                    second[r] = own[1, r] * scale
                    bend[r] = (own[3, r] + 2.0 * own[4, r] * at[r]) * scale
                    curve[r] = own[4, r] * scale
                for r in range(_WIDTH):
                    near, other = abs(at[r] - own[5, r]), abs(at[r] - own[6, r])
                    radius = _RADIUS * max(min(near, other), own[7, r])
                    size = abs(rest[r]) * left
                    most = f[r] * min(radius, _BEND / (abs(first[r]) + 1e-300))
                    if size * finest > most:
                        f[r] = np.nan
                    elif size * share > most:
                        share = most / size
                if share < 1.0:
                    share = 1.0 / np.ceil(1.0 / share)  # even steps
                part = left * share
                count, halvings = 0, 0
                while True:
                    for r in range(_WIDTH):
                        tau = rest[r] * part / f[r]
                        # The inverse series to third order, from the first two coefficients.
                        one = 0.5 * first[r]
                        two = ((first[r] - bend[r]) * first[r] + second[r]) / 6.0
                        size = 1.0 - tau * (one - tau * (2.0 * one * one - two))
                        h[r] = tau * size
                        aim[r] = 1.0 / size
                        b[0, r] = 1.0
                        b[1, r] = first[r] * h[r]
                        s[r] = 1.0
                    count = 1
                    large = True
                    while large and count < _TERMS:
                        inverse = 1.0 / (count + 1.0)
                        large = False
                        for r in range(_WIDTH):
                            step = h[r] * inverse
                            b[count + 1, r] = step * (
                                (first[r] - bend[r] * count) * b[count, r]
                                + h[r] * (second[r] - curve[r] * (count - 1.0)) * b[count - 1, r]
                            )
                            large |= abs(b[count + 1, r]) + abs(b[count, r]) > _SMALL
                        count += 1
                    if not large:
                        break
                    part *= 0.5  # the series needs too many terms: halve the step
                    halvings += 1
                    if halvings > _MOST_HALVINGS:
                        for r in range(_WIDTH):
                            if abs(b[count, r]) + abs(b[count - 1, r]) > _SMALL:
                                f[r] = np.nan
                for _ in range(8):
                    inverse = 1.0 / (count + 1.0)
                    for r in range(_WIDTH):
                        total[r] = b[count, r] * inverse
                        value[r] = b[count, r]
                    for k in range(count - 1, -1, -1):
                        inverse = 1.0 / (k + 1.0)
                        for r in range(_WIDTH):
                            total[r] = total[r] * s[r] + b[k, r] * inverse
                            value[r] = value[r] * s[r] + b[k, r]
                    moving = False
                    for r in range(_WIDTH):
                        x_s = at[r] + h[r] * s[r]
                        change = h[r] * (own[0, r] + own[1, r] * x_s)
                        change /= own[2, r] + x_s * (own[3, r] + x_s * own[4, r])
                        move = (total[r] * s[r] - aim[r]) / value[r]
                        move /= 1.0 - 0.5 * move * change
                        s[r] -= move
                        total[r] = 1.0 - move * change  # factor by which the density changes
                        moving |= abs(move) > _SETTLED
                    if not moving:
                        break
                for r in range(_WIDTH):
                    at[r] += h[r] * s[r]
                    f[r] *= value[r] * total[r]
                left = 0.0 if part >= left else left - part
            for r in range(width):
                out[start + r, j] = at[r] if f[r] > 0.0 else np.nan
        for r in range(width):
            x[start + r], density[start + r] = at[r], f[r]
