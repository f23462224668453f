"""Standard deviations whose squares overflow, and the support of rows on consecutive numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastmcmd._base.annotations import Array, Nodes

__all__ = ["MOST_VALUES", "root", "root_of_squares", "shared_support"]

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


MOST_VALUES = 1 << 20  # of one row
_SHARED = 4  # support of all rows, in supports of one, up to which rows share it


def shared_support(first: Array, count: int, masses: Callable[[Array, int], Array]) -> Nodes | None:
    """Return values (L,) and their probabilities (n, L), or None where rows lie too far apart.

    Parameters
    ----------
    first : ndarray (n,)
        The first value of each row.
    count : int
        How many consecutive values hold the mass of a row.
    masses : callable (first, count) to (n, count)
        Probabilities of ``count`` values from ``first`` on, which sum to 1.

    Notes
    -----
    None also where values of two rows are not whole numbers apart.
    """
    start = first.min()
    offset = first - start
    total = float(offset.max()) + count
    if total > _SHARED * count or (offset % 1).any():
        return None
    values = start + np.arange(int(total), dtype=np.float64)
    own = masses(first, count)
    if not offset.any():
        return values, own
    shared = np.zeros((len(first), len(values)))
    where = offset.astype(np.intp)[:, None] + np.arange(count)
    np.put_along_axis(shared, where, own, axis=1)
    return values, shared
