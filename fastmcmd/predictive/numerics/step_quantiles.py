"""Quantiles and scores of distributions over few values, from sums of their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastmcmd import _core
from fastmcmd._base.annotations import Array, Nodes

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["sorted_nodes", "step_quantiles", "step_scores"]

_CLOSE = 1e-12  # distance of a sum from a level below which rounding may decide


def sorted_nodes(prediction: Predictive) -> Nodes:
    """Return the values (n, l) of each row in ascending order, and their probabilities."""
    values, weights = prediction.nodes()
    if not (values[:, 1:] >= values[:, :-1]).all():
        order = np.argsort(values, axis=1, kind="stable")  # merges what is sorted already
        values = np.take_along_axis(values, order, axis=1)
        weights = np.take_along_axis(weights, order, axis=1)
    return values, weights


def step_scores(prediction: Predictive, y: Array) -> Array:
    """Return the integrals of ``(F - 1{y <= t})^2`` (n,) at finite y (n,)."""
    out = np.empty(len(y))
    _core.step_scores(*sorted_nodes(prediction), y, out)
    return out


def step_quantiles(prediction: Predictive, levels: Array, close: float = _CLOSE) -> Array:
    """Return the smallest values (n, j) with ``cdf >= level``; NaN if rounding decides.

    Parameters
    ----------
    prediction : Predictive
        Distributions whose nodes are all their values.
    levels : ndarray (n, j) or (1, j)
        Levels in any order; those outside (0, 1) give NaN.
    close : float
        Distance of a sum from a level below which rounding may decide; if negative, it may always.
    """
    values, weights = sorted_nodes(prediction)
    out, scratch = np.empty((len(values), levels.shape[1])), np.empty((2, values.shape[1]))
    _core.step_quantiles(values, weights, np.ascontiguousarray(levels), close, scratch, out)
    return out
