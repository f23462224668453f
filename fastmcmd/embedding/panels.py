"""Sums of features over many nodes on the line, by Chebyshev series on shared panels.

Features of a smooth kernel are smooth. On a panel of about the kernel's length they are a Chebyshev series
of few terms, and a sum over nodes needs only the moments of the weights there. That takes a few operations
for each node, while the features themselves take ``r^2``. Each panel is checked between its points. Nodes
on panels that fail the check (kernels with kinks), or that hold few nodes, use the features themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.chebyshev import chebyshev_points, to_series
from fastmcmd.backends.cpu import core
from fastmcmd.embedding.near_pivots import NearPivots
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels.base import UNIT
from fastmcmd.kernels.distance import variation_length

__all__ = ["PanelSums"]

Index = NDArray[np.intp]

_TERMS = 22  # terms of a series: exact to 1e-13 for an RBF kernel on panels of 2 / sqrt(gamma)
_CHECKS = np.array([-0.983, -0.61, 0.04, 0.57, 0.991])  # places where a series is checked
# Largest acceptable error of a series, relative to the largest feature, or in units of the rounding of the
# features themselves, which is in directions that count little: no series is more exact than these.
_EXACT, _ROUNDINGS = 2e-8, 8
_TRIALS, _TRIAL_PANELS = 3, 16  # lengths of panels, each half the previous one; panels tried
_CELLS = 8  # cells of a panel; each stores the largest residual of three places
_SERVED = 0.8  # share of the tried panels on which series must be exact enough
_FEW = 4 * _TERMS  # nodes of a panel below which a series costs more than it saves
_MOST_MOMENTS = 1 << 23  # moments in memory at once
_MOST_OF_BLOCK = 1 << 18  # moments or nodes of a block of rows, one for each thread


class PanelSums:
    """Weighted sums of features over nodes (n, l), row by row.

    Parameters
    ----------
    features : KernelFeatures
        Features of a kernel on numbers.
    length : float
        Length of the panels.
    """

    def __init__(self, features: KernelFeatures, length: float) -> None:
        self._features, self._length = features, length
        self._largest = float(np.sqrt(features.kernel.diagonal(features.pivots).max()))
        rounding = _ROUNDINGS * UNIT * features.inverse_norm
        self._acceptable = max(_EXACT, rounding) * self._largest
        self._near = NearPivots(features)
        self._panel_numbers = np.empty(0, dtype=np.int64)  # indices of panels, ascending
        self._series = np.empty((0, _TERMS, features.rank))
        self._off = np.empty(0)  # error of each series at the check points
        # Largest residual norm on each cell of a panel; infinite if its series is not exact enough.
        self._residual = np.empty((0, _CELLS))

    @staticmethod
    def of(features: KernelFeatures, at: Array) -> PanelSums | None:
        """Return sums on panels if series are exact enough, or None if they are not (kernels with kinks).

        ``at`` holds some nodes (m,); the series are tried on their panels.
        """
        length = variation_length(features.kernel, float(np.median(at)))
        for _ in range(_TRIALS):
            length /= 2
            if not (np.isfinite(length) and length > 0):
                return None
            sums = PanelSums(features, length)
            numbers = np.unique(np.floor(at / length))
            numbers = numbers[np.abs(numbers) < 2.0**52]
            sums._cover(numbers[:: -(-len(numbers) // _TRIAL_PANELS) or 1].astype(np.int64))
            if len(sums._residual) and np.isfinite(sums._residual[:, 0]).mean() >= _SERVED:
                return sums
        return None

    def sums(self, values: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Return sums of features (n, r) and residuals (n,), and bounds on the error of the series (n,)."""
        n = len(weights)
        mean, residual = np.zeros((n, self._features.rank)), np.zeros(n)
        length = self._length
        number = np.floor(values / length)
        distinct, place, count = _distinct(np.where(np.abs(number) < 2.0**53, number, np.inf))
        is_near = self._near.touch(distinct * length, length)
        is_frequent = (count >= _FEW) & np.isfinite(distinct) & is_near
        self._cover(distinct[is_frequent].astype(np.int64))
        at = np.full(len(distinct), -1)
        at[is_frequent] = np.searchsorted(
            self._panel_numbers, distinct[is_frequent].astype(np.int64)
        )
        at[is_frequent & ~np.isfinite(self._residual[at, 0])] = -1
        series_panels = np.flatnonzero(at >= 0)
        has_weight = weights != 0
        # Far from all pivots, as most nodes of heavy tails are, features are zero.
        row, column = np.nonzero(has_weight & ~is_near[place])
        miss = np.sqrt(
            self._features.residuals_of(values[row, column][:, None], np.zeros(len(row)))
        )
        residual += np.bincount(row, weights[row, column] * miss, minlength=n)
        row, column = np.nonzero(has_weight & is_near[place] & (at[place] < 0))
        step = max(1, _MOST_MOMENTS // max(1, self._features.rank))
        for start in range(0, len(row), step):
            some = row[start : start + step], column[start : start + step]
            points = values[some][:, None]
            p = self._near.transform(points)
            miss = np.sqrt(self._features.residuals(points, p))
            _add_rows(mean, some[0], weights[some][:, None] * p)
            residual += np.bincount(some[0], weights[some] * miss, minlength=n)
        error = np.zeros(n)
        if len(series_panels):
            sums = mean, residual, error
            self._add_series(sums, values, weights, (distinct, at, place, series_panels))
        return mean, residual, error

    def _add_series(
        self,
        sums: tuple[Array, Array, Array],
        values: Array,
        weights: Array,
        panels: tuple[Array, Index, Index, Index],
    ) -> None:
        (mean, residual, error), (distinct, at, place, series_panels) = sums, panels
        slot = np.full(len(distinct), -1)
        slot[series_panels] = np.arange(len(series_panels))
        series = self._series[at[series_panels]].reshape(len(series_panels) * _TERMS, -1)
        most = self._residual[at[series_panels]]
        numbers = distinct[series_panels]
        # An error at the points of the check may be twice as large between them.
        off = 2 * self._off[at[series_panels]][:, None]

        def add(rows: slice) -> None:
            nodes, masses = values[rows], weights[rows]
            moments = np.zeros((len(nodes), len(series_panels), _TERMS))
            core().chebyshev_moments(
                place[rows],
                slot,
                nodes,
                masses,
                numbers,
                self._length,
                most,
                moments,
                residual[rows],
            )
            image = np.empty((len(nodes), series.shape[1]))
            core().dense_matmul(moments.reshape(len(nodes), -1), series, image, threads=1)
            mean[rows] += image
            masses_of_panels = np.ascontiguousarray(moments[:, :, 0])
            error_of_rows = np.empty((len(nodes), 1))
            core().dense_matmul(masses_of_panels, off, error_of_rows, threads=1)
            error[rows] += error_of_rows[:, 0]

        over_rows(add, len(values), _MOST_OF_BLOCK // max(len(series), values.shape[1]))

    def _cover(self, numbers: NDArray[np.int64]) -> None:
        """Compute the series of panels that have none yet."""
        new = np.setdiff1d(numbers, self._panel_numbers)
        if not len(new):
            return
        k = np.arange(_TERMS)
        cells = np.linspace(-1, 1, 2 * _CELLS + 1)
        places = np.concatenate([chebyshev_points(_TERMS), _CHECKS, cells])
        series = np.empty((len(new), _TERMS, self._features.rank))
        residual, errors = np.empty((len(new), _CELLS)), np.empty(len(new))
        step = max(1, _MOST_MOMENTS // (len(places) * max(1, self._features.rank)))
        for start in range(0, len(new), step):
            some = new[start : start + step]
            points = ((some[:, None] + (places + 1) / 2) * self._length).reshape(-1, 1)
            p = self._near.transform(points)
            residuals = np.sqrt(self._features.residuals(points, p)).reshape(len(some), -1)
            residuals = residuals[:, -len(cells) :]
            worst = np.maximum(residuals[:, :-1:2], residuals[:, 1::2])
            worst = np.maximum(worst, residuals[:, 2::2])
            p = p.reshape(len(some), len(places), -1)
            coefficients = np.einsum("kt,str->skr", to_series(_TERMS), p[:, :_TERMS])
            at = np.cos(np.outer(np.arccos(_CHECKS), k))
            off = np.linalg.norm(
                np.einsum("ck,skr->scr", at, coefficients) - p[:, _TERMS : _TERMS + len(_CHECKS)],
                axis=2,
            )
            serves = off.max(axis=1) <= self._acceptable
            series[start : start + step] = coefficients
            errors[start : start + step] = off.max(axis=1)
            residual[start : start + step] = np.where(serves[:, None], worst, np.inf)
        order = np.argsort(np.concatenate([self._panel_numbers, new]), kind="stable")
        self._panel_numbers = np.concatenate([self._panel_numbers, new])[order]
        self._series = np.concatenate([self._series, series])[order]
        self._off = np.concatenate([self._off, errors])[order]
        self._residual = np.concatenate([self._residual, residual])[order]


def _distinct(numbers: Array) -> tuple[Array, Index, Index]:
    """Return the distinct whole numbers or infinity, ascending, the place of each, and their counts."""
    near = np.isfinite(numbers)
    low, high = (
        (numbers.min(), numbers.max(where=near, initial=-np.inf)) if near.any() else (0, np.inf)
    )
    if high - low >= numbers.size:  # far apart
        distinct, place, count = np.unique(numbers, return_inverse=True, return_counts=True)
        return distinct, place.reshape(numbers.shape), count
    width = int(high - low) + 1
    offset = np.where(near, numbers - low, width).astype(np.intp)
    all_counts = np.bincount(offset.ravel(), minlength=width + 1)
    present = np.flatnonzero(all_counts)
    places = np.empty(width + 1, dtype=np.intp)
    places[present] = np.arange(len(present))
    distinct = np.where(present < width, low + present, np.inf)
    return distinct, places[offset], all_counts[present]


def _add_rows(out: Array, rows: Index, values: Array) -> None:
    """Add values (m, r) to rows of ``out``, which are ascending."""
    if not len(rows):
        return
    start = np.flatnonzero(np.diff(rows, prepend=-1))
    out[rows[start]] += np.add.reduceat(values, start, axis=0)
