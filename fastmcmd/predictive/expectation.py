"""Expectations of kernels under predictions: closed forms by linearity, sums over nodes else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fastmcmd.kernels import RBF, Constant, Kernel, Laplacian, Product, Sum
from fastmcmd.predictive.base import Array, Predictive

__all__ = ["closed_form", "closed_form_pairs", "expected_kernel"]

_BLOCK = 1 << 20  # kernel values held together
_ENOUGH = 1e-12  # change on finer panels, relative to the largest value
_MOST_SPLITS = 32


def closed_form(prediction: Predictive, kernel: Kernel, points: Array) -> Array | None:
    """Return ``E k(Y_i, z_j)`` (n, r) without quadrature, or None where none is known."""
    shape = len(prediction), len(points)
    return _by_parts(kernel, shape, lambda leaf: prediction.closed_form(leaf, points))


def closed_form_pairs(one: Predictive, kernel: Kernel, other: Predictive) -> Array | None:
    """Return ``E k(Y_i, Y'_j)`` (n, m) of independent predictions, or None where none is known."""
    shape = len(one), len(other)
    return _by_parts(kernel, shape, lambda leaf: one.closed_form_pairs(leaf, other))


def _by_parts(
    kernel: Kernel, shape: tuple[int, int], known: Callable[[Kernel], Array | None]
) -> Array | None:
    """Return an expectation from those that are ``known``, or None.

    Sums go part by part, constants come out, products of exponentials are merged.
    """
    match kernel:
        case Constant(value=value):
            return np.full(shape, value)
        case Sum(left=left, right=right):
            one = _by_parts(left, shape, known)
            other = None if one is None else _by_parts(right, shape, known)
            return None if one is None or other is None else one + other
        case (
            Product(left=part, right=Constant(value=value))
            | Product(left=Constant(value=value), right=part)
        ):
            one = _by_parts(part, shape, known)
            return None if one is None else one * value
        case (
            Product(left=Sum(left=first, right=second), right=part)
            | Product(left=part, right=Sum(left=first, right=second))
        ):
            return _by_parts(Sum(first * part, second * part), shape, known)
        case Product(left=RBF(gamma=float() as a), right=RBF(gamma=float() as b)):
            return known(RBF(a + b))
        case Product(left=Laplacian(gamma=float() as a), right=Laplacian(gamma=float() as b)):
            return known(Laplacian(a + b))
    return known(kernel)


def expected_kernel(prediction: Predictive, kernel: Kernel, points: Array) -> Array:
    """Return ``E k(Y_i, z_j)`` (n, r) for points z (r, k).

    Quadrature goes on with finer panels until it no longer changes.
    """
    known = closed_form(prediction, kernel, points)
    if known is not None:
        return known
    out = _over_nodes(prediction, kernel, points, 1)
    scale = np.sqrt(max(float(np.max(kernel.diagonal(points), initial=0.0)), 1e-300))
    splits = 2
    while splits <= _MOST_SPLITS and not _exact_nodes(prediction):
        finer = _over_nodes(prediction, kernel, points, splits)
        change = float(np.max(np.abs(finer - out), initial=0.0))
        out = finer
        if change <= _ENOUGH * max(scale, float(np.max(np.abs(out), initial=0.0))):
            break
        splits *= 2
    return out


def _exact_nodes(prediction: Predictive) -> bool:
    from fastmcmd.predictive.draws import Draws

    return prediction.discrete or prediction.columns > 1 or isinstance(prediction, Draws)


def _over_nodes(prediction: Predictive, kernel: Kernel, points: Array, splits: int) -> Array:
    """Return the sums over nodes, in blocks of rows."""
    out = np.empty((len(prediction), len(points)))
    for rows, part in _blocks(prediction, splits * prediction.node_count * max(1, len(points))):
        shared = part.support()
        if shared is not None:
            values, weights = shared
            out[rows] = weights @ kernel(values, points)
            continue
        values, weights = part.nodes(splits)
        n, count = weights.shape
        block = kernel(values.reshape(n * count, -1), points).reshape(n, count, -1)
        out[rows] = np.einsum("nl,nlr->nr", weights, block)
    return out


def _blocks(prediction: Predictive, per_row: int) -> Iterator[tuple[slice, Predictive]]:
    n = len(prediction)
    step = max(1, _BLOCK // per_row)
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        yield rows, prediction if step >= n else prediction.take(np.arange(rows.start, rows.stop))
