"""Standard deviations whose squares overflow or underflow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastmcmd._base.annotations import Array

__all__ = ["root", "root_of_squares"]

_LEAST, _MOST = 1e-280, 1e290  # variances that have all their digits


def root_of_squares(weights: Array, gaps: Array, axis: int = -1) -> Array:
    """Return ``sqrt(sum w g^2)`` over an axis, from gaps in units of the largest."""
    largest = np.abs(gaps).max(axis=axis, keepdims=True, initial=0.0)
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    total = (weights * (gaps / unit) ** 2).sum(axis=axis)
    return np.asarray(np.squeeze(unit, axis) * np.sqrt(total))


def root(variance: Array, exact: Callable[[np.ndarray], Array]) -> Array:
    """Return the roots of variances (n, ...); those of ``exact`` (rows) where a square lost its digits."""
    std = np.sqrt(variance)
    lost = ~((variance > _LEAST) & (variance < _MOST))
    rows = np.flatnonzero(lost.reshape(len(lost), -1).any(axis=1))
    if len(rows):
        std[rows] = exact(rows)
    return std
