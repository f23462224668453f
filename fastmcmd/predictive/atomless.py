"""Expectations that every distribution without atoms has in closed form."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.kernels import Cosine, Delta, Kernel, Linear
from fastmcmd.predictive.base import Predictive

__all__ = ["no_moment", "without_atoms"]


def without_atoms(prediction: Predictive, kernel: Kernel, points: Array) -> Array | None:
    """Return ``E k(Y_i, z_j)`` (n, r) for outputs without atoms, or None for kernels not listed here.

    For `Linear` it is ``E Y'z``; for `Delta`, 0; for `Cosine` of numbers, which is the product of their
    signs, ``sign(z) (P(Y > 0) - P(Y < 0))``.
    """
    match kernel:
        case Linear():
            mean = prediction.mean.reshape(len(prediction), -1)
            if not np.isfinite(mean).all():
                raise no_moment(1)
            return np.asarray(mean @ points.T)
        case Delta():
            return np.zeros((len(prediction), len(points)))
        case Cosine() if prediction.columns == 1:
            return np.asarray(np.outer(1 - 2 * prediction.cdf(0.0), np.sign(points[:, 0])))
    return None


def no_moment(order: int) -> ValueError:
    """Return the error for a kernel whose expectation does not exist."""
    return ValueError(
        f"prediction has no finite moment of order {order}, which this y_kernel needs; use a bounded "
        "y_kernel such as RBF('variance')"
    )
