"""Adaptive Gauss-Kronrod integration of many functions at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray

__all__ = ["NODES", "Integrand", "KronrodSums", "add_panels", "panel_sums", "places"]

# Nodes in [0, 1] and weights of the 15-point rule, and weights of the embedded 7-point Gauss rule (Piessens
# et al., QUADPACK, 1983, routine qk15).
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
# Values at the upper end of the Lagrange polynomials: 1 at one node and 0 at the others.
_AT_END = [
    float(np.prod([(1 - other) / (z - other) for other, _, _ in _RULE if other != z]))
    for z, _, _ in _RULE
]
_GAP = 1 - _HALF[0][0]  # distance between an end and the first node
_UNSEEN = 1e-10  # share of a total in that gap, where nodes cannot see a jump, that is ignored

_MOST_HALVES = 60  # halvings after which a panel has the width of rounding
# Rounding in the integrand affects all panels alike: in 3 halvings their number grows 8 times while the sum
# of their errors stays the same. At steep places few panels stay open, and at kinks the errors shrink.
_PATIENCE, _GROWTH = 3, 6

# Values that one call of an integrand computes: for fewer, the call takes longer than the arithmetic.
_AT_ONCE = 1 << 13

Integrand = Callable[[NDArray[np.intp], Array], Callable[[Array], Array]]


@dataclass(frozen=True)
class KronrodSums:
    """Integrals over panels; all arrays have the same shape.

    Attributes
    ----------
    fine : ndarray
        Integrals by the 15-point rule.
    size : ndarray
        Integrals of the absolute value.
    """

    fine: Array
    size: Array
    _smooth: Array  # the error if the integrand is smooth between nodes
    _unseen: Array  # the additional error of a jump between an end and the first node

    @classmethod
    def concatenated(cls, parts: Sequence[KronrodSums]) -> KronrodSums:
        """Return the sums of blocks of rows as those of all rows."""
        return cls(
            *(
                np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(cls)
            )
        )

    def error(self, scale: Array) -> Array:
        """Return estimates of the error; ``scale`` is the size of the whole integral."""
        hidden = np.where(self._unseen > _UNSEEN * scale, self._unseen, 0.0)
        return np.asarray(np.maximum(self._smooth, hidden))


def places(left: Array, right: Array) -> Array:
    """Return the positions (p, NODES) of the nodes in panels (p,)."""
    half = (right - left)[:, None] / 2
    return np.asarray(left[:, None] + half * (1 + np.array([z for z, _, _ in _RULE])))


def panel_sums(values: Sequence[Array], left: Array, right: Array, half: Array) -> KronrodSums:
    """Return the integrals over panels of functions from values at each of the nodes and at both ends.

    ``half`` is half the width of each panel. The error is estimated as in QUADPACK,
    ``s min(1, (200 |K - G| / s)^1.5)`` with ``s`` the integral of the distance from the mean value. The
    error of the interpolating polynomial at the ends is estimated as well: it reveals a jump between an end
    and the first node.
    """
    fine = half * sum(weight * v for (_, weight, _), v in zip(_RULE, values, strict=True))
    coarse = half * sum(w * v for (_, _, w), v in zip(_RULE, values, strict=True) if w)
    size = fine
    if not min(v.min(initial=0.0) for v in values) >= 0:
        size = half * sum(
            weight * np.abs(v) for (_, weight, _), v in zip(_RULE, values, strict=True)
        )
    mean = fine / np.where(half > 0, 2 * half, 1.0)
    spread = half * sum(
        weight * np.abs(v - mean) for (_, weight, _), v in zip(_RULE, values, strict=True)
    )
    gap = 200 * np.abs(fine - coarse) / np.where(spread > 0, spread, 1.0)
    lower = left - sum(w * v for w, v in zip(_AT_END[::-1], values, strict=True))
    upper = right - sum(w * v for w, v in zip(_AT_END, values, strict=True))
    unseen = half * _GAP * np.maximum(np.abs(lower), np.abs(upper))
    return KronrodSums(fine, size, spread * np.minimum(1.0, gap) ** 1.5, unseen)


def _values(
    integrand: Integrand, rows: NDArray[np.intp], left: Array, centre: Array, right: Array
) -> tuple[Sequence[Array], Array, Array]:
    """Return values at the nodes of each panel (p,), and at its left and right ends."""
    half, count = (right - left) / 2, NODES + 2
    if count * len(rows) > _AT_ONCE:
        function = integrand(rows, centre)
        return [function(centre + half * z) for z, _, _ in _RULE], function(left), function(right)
    function = integrand(np.tile(rows, count), np.tile(centre, count))
    arguments = [*(centre + half * z for z, _, _ in _RULE), left, right]
    *values, lower, upper = function(np.concatenate(arguments)).reshape(count, -1)
    return values, lower, upper


def add_panels(
    total: Array,
    integrand: Integrand,
    rows: NDArray[np.intp],
    left: Array,
    right: Array,
    enough: float,
    size: Array | None = None,
) -> None:
    """Add integrals over panels to the totals of their rows.

    Parameters
    ----------
    total : ndarray (n,)
        Totals, changed in place.
    integrand : callable
        ``integrand(rows, places)`` returns a function from arguments (p,) to values (p,). Each argument
        lies in the panel of its row that holds the place.
    rows, left, right : ndarray (p,)
        Rows and ends of panels.
    enough : float
        Panels with at most this error, relative to the size of the integral of their row, are not halved.
    size : ndarray (n,), optional
        Integrals of the absolute value of the integrand so far, changed in place. Needed if values may be
        negative. Default: the totals themselves.

    Notes
    -----
    Panels are halved until the error that `panel_sums` estimates is small, or until halving no longer
    helps because of rounding in the integrand.
    """
    reference = total if size is None else size
    past: list[tuple[HostArray, HostArray]] = []
    for turn in range(_MOST_HALVES + 1):
        half, centre = (right - left) / 2, left + (right - left) / 2
        values, lower, upper = _values(integrand, rows, left, centre, right)
        sums = panel_sums(values, lower, upper, half)
        n = len(total)
        scale = reference + np.bincount(rows, sums.size, n)
        error = sums.error(scale[rows])
        open_ = error > enough * scale[rows]
        if turn == _MOST_HALVES:
            open_[:] = False
        past.append((np.bincount(rows[open_], error[open_], n), np.bincount(rows[open_], None, n)))
        if turn >= _PATIENCE:
            (error_then, count_then), (error_now, count_now) = past[-1 - _PATIENCE], past[-1]
            noise = (error_now > error_then / 2) & (count_now >= _GROWTH * count_then)
            open_ &= ~noise[rows]
        total += np.bincount(rows[~open_], sums.fine[~open_], n)
        if size is not None:
            size += np.bincount(rows[~open_], sums.size[~open_], n)
        if not open_.any():
            return
        rows = rows[open_]
        left, centre, right = (v[open_] for v in (left, centre, right))
        rows = np.concatenate([rows, rows])
        left, right = np.concatenate([left, centre]), np.concatenate([centre, right])
