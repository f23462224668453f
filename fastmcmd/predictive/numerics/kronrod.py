"""Adaptive Gauss-Kronrod integration of many functions side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray

__all__ = ["NODES", "Integrand", "add_panels"]

# Nodes and weights of the rule of 15 points in [0, 1], and weights of the Gauss rule of 7 points within it
# (Piessens et al., QUADPACK, 1983, routine qk15).
_HALF = [
    (0.9914553711208126, 0.02293532201052922, 0.0),
    (0.9491079123427585, 0.06309209262997855, 0.1294849661688697),
    (0.8648644233597691, 0.10479001032225018, 0.0),
    (0.7415311855993945, 0.14065325971552592, 0.2797053914892767),
    (0.5860872354676911, 0.1690047266392679, 0.0),
    (0.4058451513773972, 0.19035057806478542, 0.3818300505051189),
    (0.2077849550078985, 0.20443294007529889, 0.0),
]
_RULE = [
    *((-z, fine, coarse) for z, fine, coarse in _HALF),
    (0.0, 0.20948214108472782, 0.4179591836734694),
    *reversed(_HALF),
]
NODES = len(_RULE)
# Values at the upper end of polynomials that are 1 at one node and 0 at the others.
_AT_END = [
    float(np.prod([(1 - other) / (z - other) for other, _, _ in _RULE if other != z]))
    for z, _, _ in _RULE
]
_GAP = 1 - _HALF[0][0]  # between an end and the first node
_UNSEEN = 1e-10  # of a total, in that gap: a steep place there would have no other trace

_MOST_HALVES = 60  # halvings of a panel: then it has the width of rounding
# Rounding in the integrand looks the same in all panels: their number grows 8 times in 3 halvings, and
# their errors together stay what they were. Steep places keep few panels open; kinks lose error.
_PATIENCE, _GROWTH = 3, 6

Integrand = Callable[[NDArray[np.intp], Array], Callable[[Array], Array]]


def add_panels(
    total: Array,
    integrand: Integrand,
    rows: NDArray[np.intp],
    left: Array,
    right: Array,
    enough: float,
) -> None:
    """Add integrals over panels to the totals of their rows.

    Parameters
    ----------
    total : ndarray (n,)
        Changed in place.
    integrand : callable
        ``integrand(rows, places)`` returns the function that gives nonnegative values (p,) at values
        (p,), each within the panel of its row that holds the place.
    rows, left, right : ndarray (p,)
        Rows and ends of panels.
    enough : float
        Error of a panel, relative to the total of its row, up to which it is not halved.

    Notes
    -----
    The error of a panel is estimated as in QUADPACK: ``s min(1, (200 |K - G| / s)^1.5)``, ``s`` being the
    integral of the distance from its mean value; and by what the interpolating polynomial misses at the
    ends, where a step would lie between nodes. Panels are halved until it is small, and given up where
    halving no longer helps: rounding in the integrand.
    """
    past: list[tuple[HostArray, HostArray]] = []
    for turn in range(_MOST_HALVES + 1):
        half, centre = (right - left) / 2, left + (right - left) / 2
        function = integrand(rows, centre)
        values = np.stack([function(centre + half * z) for z, _, _ in _RULE])
        fine = half * sum(weight * v for (_, weight, _), v in zip(_RULE, values, strict=True))
        coarse = half * sum(weight * v for (_, _, weight), v in zip(_RULE, values, strict=True))
        spread = half * sum(
            weight * np.abs(v - fine / np.where(half > 0, 2 * half, 1.0))
            for (_, weight, _), v in zip(_RULE, values, strict=True)
        )
        gap = 200 * np.abs(fine - coarse) / np.where(spread > 0, spread, 1.0)
        error = spread * np.minimum(1.0, gap) ** 1.5

        n = len(total)
        scale = total + np.bincount(rows, fine, n)
        lower = function(left) - sum(w * v for w, v in zip(_AT_END[::-1], values, strict=True))
        upper = function(right) - sum(w * v for w, v in zip(_AT_END, values, strict=True))
        unseen = half * _GAP * np.maximum(np.abs(lower), np.abs(upper))
        error = np.maximum(error, np.where(unseen > _UNSEEN * scale[rows], unseen, 0.0))
        open_ = error > enough * scale[rows]
        if turn == _MOST_HALVES:
            open_[:] = False
        past.append((np.bincount(rows[open_], error[open_], n), np.bincount(rows[open_], None, n)))
        if turn >= _PATIENCE:
            (error_then, count_then), (error_now, count_now) = past[-1 - _PATIENCE], past[-1]
            noise = (error_now > error_then / 2) & (count_now >= _GROWTH * count_then)
            open_ &= ~noise[rows]
        total += np.bincount(rows[~open_], fine[~open_], n)
        if not open_.any():
            return
        rows, left, centre, right = (v[open_] for v in (rows, left, centre, right))
        rows = np.concatenate([rows, rows])
        left, right = np.concatenate([left, centre]), np.concatenate([centre, right])
