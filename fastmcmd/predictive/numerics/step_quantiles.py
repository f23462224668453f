"""Quantiles of distributions over few values, from sums of their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastmcmd import _core
from fastmcmd._base.annotations import Array

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["step_quantiles"]

_CLOSE = 1e-12  # distance of a sum from a level below which rounding may decide


def step_quantiles(prediction: Predictive, levels: Array) -> Array:
    """Return the smallest values (n, j) with ``cdf >= level``; NaN if rounding decides.

    Parameters
    ----------
    prediction : Predictive
        Distributions whose nodes are all their values.
    levels : ndarray (n, j) or (1, j)
        Levels in any order; those outside (0, 1) give NaN.
    """
    values, weights = prediction.nodes()
    if not (values[:, 1:] >= values[:, :-1]).all():
        order = np.argsort(values, axis=1, kind="stable")  # merges what is sorted already
        values = np.take_along_axis(values, order, axis=1)
        weights = np.take_along_axis(weights, order, axis=1)
    below = np.cumsum(weights, axis=1)
    above = np.zeros(weights.shape)
    above[:, :-1] = np.cumsum(weights[:, :0:-1], axis=1)[:, ::-1]
    out = np.empty((len(values), levels.shape[1]))
    _core.step_quantiles(values, below, above, np.ascontiguousarray(levels), _CLOSE, out)
    return out
