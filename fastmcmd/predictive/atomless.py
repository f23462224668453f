"""Expectations that every distribution without atoms has in closed form."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.kernels import Cosine, Delta, Kernel, Linear
from fastmcmd.predictive.base import Predictive

__all__ = ["no_moment", "without_atoms"]


def without_atoms(prediction: Predictive, kernel: Kernel, points: Array) -> Array | None:
    """Return ``E k(Y_i, z_j)`` (n, r) from means and cdfs, or None for kernels not listed here.

    For `Linear` it is ``E Y'z``; for `Delta`, P(Y = z), which is 0 without atoms; for `Cosine` of numbers,
    which is the product of their signs, ``sign(z) (P(Y > 0) - P(Y < 0))``.
    """
    match kernel:
        case Linear():
            mean = prediction.mean.reshape(len(prediction), -1)
            if not np.isfinite(mean).all():
                raise no_moment(1)
            return np.asarray(mean @ points.T)
        case Delta() if prediction.atomless:
            return np.zeros((len(prediction), len(points)))
        case Delta() if prediction.columns == 1:
            masses = [prediction.cdf(z) - prediction.cdf_below(z) for z in points[:, 0]]
            return np.stack(masses, axis=1) if masses else np.zeros((len(prediction), 0))
        case Cosine() if prediction.columns == 1:
            below, upto = prediction.cdf_bounds(0.0)
            return np.asarray(np.outer(1 - below - upto, np.sign(points[:, 0])))
    return None


def no_moment(order: int) -> ValueError:
    """Return the error for a kernel whose expectation does not exist."""
    return ValueError(
        f"prediction has no finite moment of order {order}, which this y_kernel needs; use a bounded "
        "y_kernel such as RBF('variance')"
    )
