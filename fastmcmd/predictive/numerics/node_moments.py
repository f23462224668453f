"""Moments of continuous distributions as sums over the nodes of a composite rule."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array, Nodes
from fastmcmd.predictive.numerics.quadrature import FINE

__all__ = ["node_moments"]

# Largest difference between both orders, relative to the absolute moment: the error of the higher one is
# about its power 3 / 2.
_AGREEMENT = 1e-8
_BEYOND = 1e-12  # largest share of an absolute moment beyond the panels


def node_moments(fine: Nodes, coarse: Nodes) -> Array:
    """Return means, variances, skewnesses and excesses (4, n); NaN where they are not exact to 11 digits.

    Parameters
    ----------
    fine, coarse : tuple of ndarray
        Nodes (n, L) and weights of `quadrature.composite`, of the usual order and of a lower one.

    Notes
    -----
    The outermost panels hold the masses from 1e-16 to 1e-13 and from 1e-13 to 1e-10. Beyond them, shares of
    a moment are taken to fall by the same factor again and again. If it is infinite, they do not fall.
    """
    values, weights = fine
    mean = np.einsum("nl,nl->n", weights, values)
    gaps, other_gaps = (one[0] - mean[:, None] for one in (fine, coarse))
    halves = (0, values.shape[1] // 2)  # each begins with its tail
    moments = np.empty((4, len(values)))
    for order in range(1, 5):
        moment = np.einsum("nl,nl->n", weights, gaps**order)
        other = np.einsum("nl,nl->n", coarse[1], other_gaps**order)
        shares = weights * np.abs(gaps) ** order
        size = shares.sum(axis=1)
        is_exact = np.abs(moment - other) <= _AGREEMENT * size
        for start in halves:
            last, next_one = (
                shares[:, start + first : start + first + FINE].sum(axis=1) for first in (0, FINE)
            )
            is_exact &= last**2 <= _BEYOND * size * np.maximum(next_one - last, 0.0)
        moments[order - 1] = np.where(is_exact, moment, np.nan)
    variance = moments[1].copy()
    moments[0] += mean
    moments[2] /= variance**1.5
    moments[3] = moments[3] / variance**2 - 3
    return moments
