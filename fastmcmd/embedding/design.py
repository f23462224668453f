"""The design of a sample: its distinct inputs and their weights.

Rows with equal inputs collapse to one row, with the sum of their weights (counts, or importance
weights) and the mean of their output features. With ``w_g`` the weight of a distinct input and
``N = sum w``, the regularised system of the sample becomes::

    (K_X + N lam diag(1/w)) B = mean P

Its solution is that of the uncollapsed system, summed over equal inputs. This covers repeated inputs,
several draws per input, bootstrap replicates and covariate-shift weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.cpu import core
from fastmcmd.backends.tall_skinny import spread
from fastmcmd.rows import Rows

__all__ = ["Design", "distinct_rows", "match_rows"]

_FIRST_ROWS = 64  # rows that are matched first: among other points they show the answer
_COMPARED = 1 << 20  # elements that are compared at once


@dataclass(frozen=True, eq=False)
class Design:
    """Distinct inputs of a sample, in order of first appearance.

    Attributes
    ----------
    x : ndarray (n, d)
        Distinct inputs; the caller's own array if no row repeats or the inputs are on disk.
    weight : ndarray (n,)
        Sum of the weights of the rows at each distinct input, all positive.
    rows : ndarray (N,) of int or None
        The caller's rows with positive weight; None means all.
    group : ndarray (N,) of int or None
        Position in ``x`` of each of these rows; None means row i is input i.
    row_weight : ndarray (N,) or None
        Weight of each of these rows; None means weights of one.
    """

    x: HostArray | Rows
    weight: NDArray[np.float64]
    rows: NDArray[np.intp] | None
    group: NDArray[np.intp] | None
    row_weight: NDArray[np.float64] | None

    @staticmethod
    def of(x: HostArray | Rows, weights: NDArray[np.float64] | None) -> Design:
        """Return the design of ``x`` (n, d), with equal rows collapsed and rows of zero weight left out.

        Rows on disk stay there and are not collapsed: collapsing saves work but changes no value.
        """
        rows = None
        if weights is not None and not weights.all():
            rows = np.flatnonzero(weights)
            x, weights = x[rows], weights[rows]
        if isinstance(x, Rows):
            weight = np.ones(len(x)) if weights is None else weights
            return Design(x, weight, rows, None, weights)
        first, group = distinct_rows(x)
        if group is None:
            weight = np.ones(len(x)) if weights is None else weights
        else:
            x = x[first]
            weight = np.bincount(group, weights=weights, minlength=len(first)).astype(np.float64)
        return Design(x=x, weight=weight, rows=rows, group=group, row_weight=weights)

    def __len__(self) -> int:
        return len(self.x)

    def shift(self, lam: float) -> NDArray[np.float64]:
        """Return the diagonal ``N lam / w`` (n,) of the regularised system."""
        # Of a design from a file, the weights are all that is known of its rows.
        return float(self.weight.sum()) * lam / self.weight

    def average(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted mean (n, r) over equal inputs of row values (N, r)."""
        if self.group is None:
            return values
        count = len(self.group)
        share = np.ones(count) if self.row_weight is None else self.row_weight
        share = share / self.weight[self.group]
        mean = np.zeros((len(self.x), values.shape[1]))
        spread(np.asarray(values, dtype=np.float64), np.arange(count), self.group, share, mean)
        return mean

    def same_as(self, other: Design) -> bool:
        """Tell whether the two designs have the same inputs and weights, in the same order."""
        return self is other or (
            self.x.shape == other.x.shape
            and np.array_equal(self.weight / self.weight.sum(), other.weight / other.weight.sum())
            and _same(self.x, other.x)
        )


def _same(x: HostArray | Rows, z: HostArray | Rows) -> bool:
    if x is z:
        return True
    on_disk = isinstance(x, Rows) or isinstance(z, Rows)
    return not on_disk and np.array_equal(x, z)


@lru_cache(maxsize=64)
def _hash_factors(columns: int) -> NDArray[np.uint64]:
    """Return odd factors (columns,), one for each column of the rows that are hashed."""
    factors = np.random.default_rng(20240512).integers(1, 2**63, columns, dtype=np.uint64) * 2 + 1
    factors.flags.writeable = False  # shared by all calls
    return factors


def _row_hash(x: HostArray) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row by integer arithmetic; equal rows have equal hashes.

    A single column is its own hash: the bits of its numbers, with -0.0 replaced by 0.0.
    """
    out = np.empty(len(x), dtype=np.uint64)
    if out.size:
        beside = x.flags.aligned and x.strides[1] == x.itemsize
        rows = x if beside else np.array(x, order="C")
        core().row_hashes(rows, _hash_factors(x.shape[1]), out, get_num_threads())
    return out


def _all_differ(keys: NDArray[np.uint64]) -> bool:
    """Tell whether no key occurs twice. Sorting takes a fraction of the time of `numpy.unique`."""
    keys = keys.copy()
    keys.sort()
    return np.count_nonzero(keys[1:] == keys[:-1]) == 0


def distinct_rows(x: HostArray) -> tuple[NDArray[np.intp], NDArray[np.intp] | None]:
    """Return the distinct rows of ``x``.

    Returns
    -------
    first : ndarray (n,) of int
        Index in ``x`` of the first occurrence of each distinct row, ascending.
    group : ndarray (N,) of int or None
        Position of each row among the distinct rows; None if all rows differ.
    """
    n, d = x.shape
    few = min(d, 4)
    # Rows of real data mostly differ within a few columns.
    if few < d and _all_differ(_row_hash(x[:, :few])):
        return np.arange(n), None
    keys = _row_hash(x)
    if _all_differ(keys):
        return np.arange(n), None
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    first, group = first[order], rank[group]
    repeats = np.flatnonzero(first[group] != np.arange(n))
    step = max(1, _COMPARED // d)
    for start in range(0, len(repeats), step):
        some = repeats[start : start + step]
        if not np.array_equal(x[some], x[first[group[some]]]):  # a collision: compare in full
            return _distinct_rows_sorted(x)
    return first, group


def _distinct_rows_sorted(x: HostArray) -> tuple[NDArray[np.intp], NDArray[np.intp] | None]:
    _, first, group = np.unique(x, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[group.reshape(-1)]


def match_rows(x: HostArray | Rows, z: HostArray | Rows) -> NDArray[np.intp] | None:
    """Return for each row of ``z`` the index of an equal row of ``x``, or None if any has no match."""
    if x is z:
        return np.arange(len(x))
    if isinstance(x, Rows) or isinstance(z, Rows):
        return None
    if x.shape == z.shape and x.dtype == z.dtype and np.array_equal(x, z):
        return np.arange(len(x))
    if x.shape[1] != z.shape[1] or x.dtype != z.dtype:
        return None
    if len(z) > _FIRST_ROWS and match_rows(x, z[:_FIRST_ROWS]) is None:
        return None
    keys, other_keys = _row_hash(x), _row_hash(z)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], other_keys), len(x) - 1)
    match = order[place]
    if not np.array_equal(keys[match], other_keys) or not np.array_equal(x[match], z):
        return None
    return match
