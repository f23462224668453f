"""Kernel scores of draws with weights of members, and from pairs of members."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.checks import as_array
from fastmcmd.errors import RowError
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive.base import Array
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.numerics.spread import row_scale
from fastmcmd.predictive.weighted_draws import pair_share

__all__ = [
    "PAIR_ESTIMATORS",
    "check_two_members",
    "distance_of_pairs",
    "energy_of_members",
    "equal_shares",
    "mean_over_pairs",
    "member_shares",
    "pair_distances",
    "pair_shift",
    "variogram_of_members",
]

PAIR_ESTIMATORS = ("akr", "akr_circperm")


def pair_shift(estimator: str, count: int) -> int:
    """Return how many draws before it the partner of a draw is."""
    return 1 if estimator == "akr" else count // 2


def equal_shares(rows: int, count: int) -> Array:
    """Return equal shares (n, m) of members."""
    return np.full((rows, count), 1.0 / count)


def member_shares(rows: Outcomes, ens_weight: ArrayLike, estimator: str = "nrg") -> Array:
    """Return the shares (n, m) of members in the valid rows, checked for an estimator; rows sum to 1."""
    if not isinstance(rows.prediction, Draws):
        raise ValueError(
            f"ens_weight is given, and prediction is a {rows.prediction!r}; weights of members need draws"
        )
    count = rows.prediction.node_count
    weights = as_array(ens_weight, "ens_weight").astype(np.float64)
    if weights.shape not in ((count,), (rows.n, count)):
        raise ValueError(
            f"ens_weight has shape {weights.shape}; ({count},) or ({rows.n}, {count}) is needed: one "
            "weight per draw"
        )
    if weights.ndim == 2 and rows.valid is not None:
        weights = weights[rows.valid]
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("ens_weight holds negative, infinite or missing values; all must be >= 0")
    weights = np.broadcast_to(weights, (len(rows.y), count))
    largest = weights.max(axis=1, keepdims=True)
    if (largest == 0).any():
        row = rows.row_number(int((largest[:, 0] == 0).argmax()))
        raise RowError(f"ens_weight is 0 for all draws of row {row}; leave such rows out", row)
    weights = weights / largest  # sums cannot overflow
    shares = np.asarray(weights / weights.sum(axis=1, keepdims=True))
    if estimator == "fair":
        check_two_members(rows, shares, estimator)
    return shares


def check_two_members(rows: Outcomes, shares: Array, estimator: str, biased: str = "nrg") -> None:
    """Raise an error unless the members (m, l) of each valid row have two positive shares."""
    if (single := (shares > 0).sum(axis=1) < 2).any():
        row = rows.row_number(int(single.argmax()))
        raise RowError(
            f"estimator is {estimator!r}, which needs at least two members of positive weight, and row "
            f"{row} has one; use {biased!r}",
            row,
        )


def pair_distances(
    values: Array,
    shares: Array,
    estimator: str,
    paired: Callable[[Array, Array], Array],
    matrix: Callable[[Array], Array],
) -> Array:
    """Return estimates (n,) of the mean distance of two members, values (n, m, k) of shares (n, m).

    ``paired`` returns the distances (n, m) of two arrays (n, m, k), and ``matrix`` those (l, l) of all
    pairs of points (l, k).
    """
    if estimator in PAIR_ESTIMATORS:
        return distance_of_pairs(values, shares, estimator, paired)
    mean = mean_over_pairs(values, shares, matrix)
    return mean / pair_share(shares) if estimator == "fair" else mean


def distance_of_pairs(
    values: Array, shares: Array, estimator: str, paired: Callable[[Array, Array], Array]
) -> Array:
    """Return `pair_distances` (n,) from one pair for each member, with the estimators of pairs."""
    before = np.roll(values, pair_shift(estimator, values.shape[1]), axis=1)
    return np.asarray(np.einsum("nm,nm->n", shares, paired(values, before)))


def mean_over_pairs(values: Array, shares: Array, matrix: Callable[[Array], Array]) -> Array:
    """Return the mean (n,) over all pairs of members (n, m, k) of ``matrix`` at points (l, k).

    Without a member of positive share it is 0.
    """
    mean = np.zeros(len(values))
    for i, (points, share) in enumerate(zip(values, shares, strict=True)):
        positive = share > 0
        if positive.any():
            mean[i] = share[positive] @ matrix(points[positive]) @ share[positive]
    return mean


def energy_of_members(
    y: Array, values: Array, shares: Array, beta: float, estimator: str = "nrg"
) -> Array:
    """Return energy scores (n,) of members (n, m, k) with shares (n, m) for outcomes (n, k)."""
    from scipy.spatial.distance import cdist  # slow to load: only when used

    scale = row_scale(y, values)
    y, values = y / scale[:, None], values / scale[:, None, None]

    def paired(one: Array, other: Array) -> Array:
        return np.asarray(np.linalg.norm(one - other, axis=2) ** beta)

    near = np.einsum("nm,nm->n", shares, paired(values, y[:, None]))
    apart = pair_distances(values, shares, estimator, paired, lambda v: cdist(v, v) ** beta)
    score = near - apart / 2
    with np.errstate(over="ignore"):  # a score beyond float64 is infinite
        return np.asarray(score * scale**beta)


def variogram_of_members(
    y: Array, values: Array, shares: Array, p: float, pairs: Array, estimator: str
) -> Array:
    """Return variogram scores (n,) of members (n, m, k) with shares (n, m) for outcomes (n, k).

    The mean over members of the squared distance from the outcome is that of their mean plus their
    variance, of which "fair" removes the estimate of one mean's own variance.
    """
    score = np.empty(len(y))
    fair_pairs = pair_share(shares) if estimator == "fair" else None
    scale = row_scale(y, values)
    for i, share in enumerate(shares):
        apart = _variogram(values[i] / scale[i], p)
        middle = np.einsum("m,mij->ij", share, apart)
        score[i] = np.vdot(pairs, (_variogram(y[i] / scale[i], p) - middle) ** 2)
        if fair_pairs is not None:
            spread = np.vdot(pairs, np.einsum("m,mij->ij", share, (apart - middle) ** 2))
            score[i] += spread - spread / fair_pairs[i]
    with np.errstate(over="ignore"):  # a score beyond float64 is infinite
        return np.asarray(np.where(score == 0, 0.0, score * scale ** (2 * p)))


def _variogram(v: Array, p: float) -> Array:
    """Return ``|v_i - v_j|^p`` (..., k, k) of vectors (..., k)."""
    return np.asarray(np.abs(v[..., :, None] - v[..., None, :]) ** p)
