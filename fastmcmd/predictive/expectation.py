"""Expectations of kernels under predictions: closed forms by linearity, sums over nodes else."""

from __future__ import annotations

import numpy as np

from fastmcmd.kernels import Constant, Kernel, Product, Sum
from fastmcmd.predictive.base import Array, Predictive

__all__ = ["closed_form", "expected_kernel"]

_BLOCK = 1 << 20  # kernel values held together


def closed_form(prediction: Predictive, kernel: Kernel, points: Array) -> Array | None:
    """Return ``E k(Y_i, z_j)`` (n, r) without quadrature, or None where none is known."""
    match kernel:
        case Constant(value=value):
            return np.full((len(prediction), len(points)), value)
        case Sum(left=left, right=right):
            one = closed_form(prediction, left, points)
            other = None if one is None else closed_form(prediction, right, points)
            return None if one is None or other is None else one + other
        case (
            Product(left=part, right=Constant(value=value))
            | Product(left=Constant(value=value), right=part)
        ):
            one = closed_form(prediction, part, points)
            return None if one is None else one * value
    return prediction.closed_form(kernel, points)


def expected_kernel(prediction: Predictive, kernel: Kernel, points: Array) -> Array:
    """Return ``E k(Y_i, z_j)`` (n, r) for points z (r, k)."""
    known = closed_form(prediction, kernel, points)
    if known is not None:
        return known
    values, weights = prediction.nodes()
    n, count = weights.shape
    values = values.reshape(n, count, -1)
    out = np.empty((n, len(points)))
    step = max(1, _BLOCK // (count * len(points)))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = kernel(values[rows].reshape(-1, values.shape[2]), points)
        out[rows] = np.einsum("nl,nlr->nr", weights[rows], block.reshape(-1, count, len(points)))
    return out
