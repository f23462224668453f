"""Expectations of kernels that are narrow against a distribution: integrals around their points.

Nodes are placed where the distribution has its mass. A kernel that is narrower than their distances falls
between them, and sums over them miss it. There the integral of density times kernel is taken over the
neighbourhood of the point alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.variation import variation_length

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = ["around_points"]

_REACH = 2.0  # lengths of a kernel's variation on either side of a point: all of an RBF kernel
_PANELS, _ORDER = 8, 12  # of the neighbourhood
_NEGLIGIBLE = 1e-14  # of k(z, z): what a kernel may have beyond its neighbourhood
_MISMATCH = 1e-6  # relative error of the probability of a neighbourhood whose density is resolved
_NODES_A_LENGTH = 10  # nodes in one length of variation that resolve a kernel


def around_points(
    prediction: Predictive, kernel: Kernel, points: Array, values: Array, out: Array
) -> None:
    """Replace ``E k(Y_i, z_j)`` (n, r) where nodes (n, L) are too far apart around z_j.

    Kernels that reach far beyond the length over which they vary, and distributions without a density,
    are left as they are. So are distributions that are narrow against the neighbourhood: an integral over
    the neighbourhood replaces a sum over nodes only where it finds the probability that lies there.
    """
    if prediction.columns > 1 or prediction.discrete or not prediction.has_density:
        return
    z, w = np.polynomial.legendre.leggauss(_ORDER)
    place = ((np.arange(_PANELS)[:, None] + (z + 1) / 2) / _PANELS).ravel()
    share = np.tile(w / 2, _PANELS) / _PANELS
    low, high = prediction.quantile(0.0), prediction.quantile(1.0)
    values = np.sort(values, axis=1)
    for column, point in enumerate(points[:, 0]):
        length = variation_length(kernel, float(point))
        if not np.isfinite(length) or not _is_local(kernel, float(point), _REACH * length):
            continue
        near = np.abs(values - point)
        inside = (values[:, :1] <= point + length) & (values[:, -1:] >= point - length)
        sparse = inside[:, 0] & ((near <= length / 2).sum(axis=1) < _NODES_A_LENGTH)
        rows = np.flatnonzero(sparse)
        if not len(rows):
            continue
        part = prediction.take(rows)
        first = np.maximum(low[rows], point - _REACH * length)
        width = np.maximum(np.minimum(high[rows], point + _REACH * length) - first, 0.0)
        total, mass = np.zeros(len(rows)), np.zeros(len(rows))
        for at, weight in zip(place, share, strict=True):
            y = first + width * at
            share_here = weight * width * np.exp(part.log_prob(y))
            mass += share_here
            total += share_here * kernel(y[:, None], points[column : column + 1])[:, 0]
        resolved = np.abs(mass - _between(part, first, first + width)) <= _MISMATCH * mass
        out[rows[resolved], column] = total[resolved]


def _between(prediction: Predictive, low: Array, high: Array) -> Array:
    """Return P(low < Y <= high) (n,), from the tail in which it has its digits."""
    upper = prediction.cdf(low) > 0.5
    below = prediction.cdf(high) - prediction.cdf(low)
    return np.where(upper, prediction.sf(low) - prediction.sf(high), below)


def _is_local(kernel: Kernel, point: float, reach: float) -> bool:
    """Tell whether the kernel is negligible beyond ``reach`` of a point."""
    gaps = reach * 2.0 ** np.arange(0.0, 40.0)
    far = np.concatenate([point - gaps, point + gaps])[:, None]
    here = np.full((1, 1), point)
    with np.errstate(all="ignore"):
        values = np.abs(kernel(here, far)[0])
    return bool((values <= _NEGLIGIBLE * abs(float(kernel.diagonal(here)[0]))).all())
