"""Quantiles and scores of mixtures of K Gaussians with parameters (n, K)."""

from __future__ import annotations

import numpy as np
import scipy

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.predictive.numerics.elementwise import LIGHT_STEP

__all__ = ["crps", "log_densities", "quantiles"]

_TASK = 4 * LIGHT_STEP  # components of the rows of a task: starting a thread may take a millisecond
_COPIED = 1 << 13  # parameters of a block, of which the copies stay in the cache
_BEYOND = 60.0  # standard deviations: densities and tails are 0 in float64
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_LARGE, _COARSE = 2.0**1020, 16.0  # size whose differences may overflow; divisor against it
_CANCELS = 1e-5  # ratio of a score to its first sum below which fewer than 11 digits are left
_NODES, _CLOSE = 16, 0.5  # nodes of an integral over at most half a standard deviation


def quantiles(levels: Array, mean: Array, std: Array, weights: Array) -> Array:
    """Return quantiles (n, j) at levels (n, j), or (1, j) for all rows; NaN where the cdf is nearly flat.

    Results are exact to rounding. The last digit may depend on the other levels of the call.
    """
    order = np.argsort(levels, axis=1)
    ascending = np.take_along_axis(levels, order, axis=1)
    mean, std, weights = (np.ascontiguousarray(value) for value in (mean, std, weights))
    result = np.empty((len(mean), levels.shape[1]))
    _core.mixture_quantiles(ascending, scipy.special.ndtri(ascending), mean, std, weights, result)
    out = np.empty_like(result)
    np.put_along_axis(out, np.broadcast_to(order, out.shape), result, axis=1)
    return out


def log_densities(y: Array, means: list[Array], stds: list[Array], weights: Array) -> Array:
    """Return log densities (n,) at y, from K means and standard deviations (n,) and weights (n, K)."""
    logs = np.empty(len(y))
    count = len(means)

    def work(task: slice) -> None:
        for rows in row_blocks(task.stop, max(1, _COPIED // count), task.start):
            mean, std = (np.stack([one[rows] for one in values]) for values in (means, stds))
            _core.normal_mixture_logs(y[rows], mean, std, weights[rows], logs[rows])

    over_rows(work, len(y), max(1, _TASK // count))
    return logs


def crps(y: Array, mean: Array, std: Array, weights: Array) -> Array:
    """Return continuous ranked probability scores (n,) of finite y; see `Mixture.crps`."""
    largest = np.maximum(np.abs(y), np.maximum(np.abs(mean), std).max(axis=1))
    if (largest > _LARGE).any():
        unit = np.where(largest > _LARGE, _COARSE, 1.0)
        scaled = y / unit, mean / unit[:, None], std / unit[:, None]
        with np.errstate(over="ignore"):
            return np.asarray(unit * crps(*scaled, weights))
    first = total = (weights * _absolute(y[:, None] - mean, std)).sum(axis=1)
    for i in range(mean.shape[1]):
        gaps = _absolute(mean[:, i, None] - mean, np.hypot(std[:, i, None], std))
        total = total - weights[:, i] * (weights * gaps).sum(axis=1) / 2
    cancelled = np.flatnonzero(total < _CANCELS * first)
    if len(cancelled):
        total[cancelled] = _by_pairs(
            y[cancelled], mean[cancelled], std[cancelled], weights[cancelled]
        )
    return np.asarray(total)


def _absolute(mean: Array, std: Array) -> Array:
    """Return ``E|X|`` of normal X."""
    with np.errstate(over="ignore", under="ignore"):
        z = mean / np.maximum(std, _LEAST)  # scaled, it may underflow
        density = np.exp(-z * z / 2) * np.sqrt(2 / np.pi)
    return np.asarray(mean * scipy.special.erf(z / np.sqrt(2)) + std * density)


def _by_pairs(y: Array, mean: Array, std: Array, weights: Array) -> Array:
    """Return scores as sums of positive terms, for rows whose usual sums cancel.

    The score is ``sum_ij w_i w_j C_ij`` with ``C_ij = int (F_i - H) (F_j - H) dt`` and H the step at y.
    ``C_ij = (E|Y_i - y| + E|Y_j - y| - E|Y_i - Y_j|) / 2``, whose linear parts cancel exactly.
    """
    total = np.zeros(len(y))
    rows, count = np.arange(len(y)), mean.shape[1]
    for i in range(count):
        for j in range(i + 1):
            # The narrower component comes second: its small addition to the spread is integrated.
            wide = np.where(std[:, i] >= std[:, j], i, j)
            narrow = i + j - wide
            part = _both_sides(
                y, mean[rows, wide], std[rows, wide], mean[rows, narrow], std[rows, narrow]
            )
            total += (2 if i > j else 1) * weights[:, i] * weights[:, j] * part
    return total


def _both_sides(y: Array, mean: Array, std: Array, other: Array, less: Array) -> Array:
    """Return ``int (F - H) (G - H) dt`` of two Gaussians, of which G has the smaller spread ``less``."""
    u, v = y - mean, other - mean
    same = np.sign(u) * np.sign(v) > 0
    linear = np.where(same, np.maximum(np.sign(v) * (y - other), 0.0), np.abs(u))
    both = np.hypot(std, less)
    nodes, weights = gauss_legendre(_NODES)
    share = (1 + nodes) / 2
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        # Integrate from v to u, and then from std to both, instead of subtracting close numbers.
        path = (v[:, None] + (u - v)[:, None] * share) / std[:, None]
        slope = -2 * np.sign(path) * scipy.special.ndtr(-np.abs(path)) @ (weights / 2)
        close = same & (np.abs(u - v) < _CLOSE * std)
        shift_part = np.where(close, (y - other) * slope, _excess(u, std) - _excess(v, std))
        gain = less * (less / (both + std))
        path = v[:, None] / (std[:, None] + gain[:, None] * share)
        slope = np.exp(-path * path / 2) @ (weights / 2) * np.sqrt(2 / np.pi)
    return np.asarray(linear + (_excess(y - other, less) + shift_part - gain * slope) / 2)


def _excess(mean: Array, std: Array) -> Array:
    """Return ``E|X| - |E X|`` of normal X."""
    with np.errstate(over="ignore", under="ignore"):
        z = np.minimum(np.abs(mean / std), _BEYOND)
        density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
        return np.asarray(2 * std * np.maximum(density - z * scipy.special.ndtr(-z), 0.0))
