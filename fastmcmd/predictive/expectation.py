"""Expectations of kernels under predictions: closed forms, extended by linearity, sums or quadrature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.checks import quote
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.errors import TOO_HEAVY, NumericalError
from fastmcmd.kernels import RBF, Constant, Kernel, Laplacian, Product, Sum
from fastmcmd.kernels.distance import variation_length
from fastmcmd.predictive.numerics.level_integrals import over_levels

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = [
    "around_points",
    "by_parts",
    "closed_form",
    "closed_form_pairs",
    "closed_form_rows",
    "expected_kernel",
]

_BLOCK = 1 << 20  # kernel values held in memory at once
TAIL_MASS = 1e-16  # mass that quadrature leaves out at either end
_TAIL_SHARE = 1e-7  # share of an expectation in those tails above which an error is raised


def closed_form(prediction: Predictive, kernel: Kernel, points: Array) -> Array | None:
    """Return ``E k(Y_i, z_j)`` (n, r) in closed form, or None without one."""
    shape = len(prediction), len(points)
    return by_parts(kernel, shape, lambda leaf: prediction.closed_form(leaf, points))


def closed_form_pairs(one: Predictive, kernel: Kernel, other: Predictive) -> Array | None:
    """Return ``E k(Y_i, Y'_j)`` (n, m) of independent Y and Y' in closed form, or None without one."""
    shape = len(one), len(other)

    def of_leaf(leaf: Kernel) -> Array | None:
        values = one.closed_form_pairs(leaf, other)
        if values is None:  # a mixture handles its components; a component handles no mixture
            values = other.closed_form_pairs(leaf, one)
            values = None if values is None else values.T
        return values

    return by_parts(kernel, shape, of_leaf)


def closed_form_rows(one: Predictive, kernel: Kernel, other: Predictive) -> Array | None:
    """Return ``E k(Y_i, Y'_i)`` (n,) of independent Y and Y' in closed form, or None without one."""

    def of_leaf(leaf: Kernel) -> Array | None:
        values = one.closed_form_rows(leaf, other)
        return other.closed_form_rows(leaf, one) if values is None else values

    return by_parts(kernel, (len(one),), of_leaf)


def by_parts(
    kernel: Kernel, shape: tuple[int, ...], of_leaf: Callable[[Kernel], Array | None]
) -> Array | None:
    """Return the expectation of a composite kernel from those of its parts, or None without a closed form.

    Sums are split, constants are factored out, and products of exponential kernels are merged.
    """
    match kernel:
        case Constant(value=value):
            return np.full(shape, value)
        case Sum(left=left, right=right):
            one = by_parts(left, shape, of_leaf)
            other = None if one is None else by_parts(right, shape, of_leaf)
            return None if one is None or other is None else one + other
        case (
            Product(left=part, right=Constant(value=value))
            | Product(left=Constant(value=value), right=part)
        ):
            one = by_parts(part, shape, of_leaf)
            return None if one is None else one * value
        case (
            Product(left=Sum(left=first, right=second), right=part)
            | Product(left=part, right=Sum(left=first, right=second))
        ):
            return by_parts(Sum(first * part, second * part), shape, of_leaf)
        case Product(left=RBF(gamma=float() as a), right=RBF(gamma=float() as b)):
            return of_leaf(RBF(a + b))
        case Product(left=Laplacian(gamma=float() as a), right=Laplacian(gamma=float() as b)):
            return of_leaf(Laplacian(a + b))
    return of_leaf(kernel)


def expected_kernel(prediction: Predictive, kernel: Kernel, points: Array) -> Array:
    """Return ``E k(Y_i, z_j)`` (n, r) for points z (r, k).

    Uses a closed form, sums over draws and counts, or adaptive quadrature.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel is {quote(kernel)}; a kernel such as fastmcmd.RBF(0.5) is needed")
    exact = closed_form(prediction, kernel, points)
    if exact is not None:
        return exact
    if prediction.exact_nodes:
        return _over_nodes(prediction, kernel, points)
    shape = len(prediction), len(points)
    parts = prediction.weighted_parts()
    if parts is not None:
        out = np.zeros(shape)
        for weight, component in parts:
            some = np.flatnonzero(weight > 0)
            if len(some):
                part = expected_kernel(component.take(some), kernel, points)
                out[some] += weight[some, None] * part
        return out

    def of_part(leaf: Kernel) -> Array:
        exact = prediction.closed_form(leaf, points)
        return over_levels(prediction, leaf, points) if exact is None else exact

    out = np.asarray(by_parts(kernel, shape, of_part))
    _check_tails(prediction, kernel, points, out)
    return out


def _check_tails(prediction: Predictive, kernel: Kernel, points: Array, out: Array) -> None:
    """Raise an error if a kernel grows so fast that the mass left out by quadrature matters.

    The criterion is relative to the expectations and to ``sqrt(k(y, y) k(z, z))`` at the quartiles y, so
    that points z far out in a tail raise no error.
    """
    if not kernel.compiled or np.isfinite(kernel.max_value(np.inf)):
        return
    ends, quartiles = (
        np.asarray(prediction.quantile([level, 1 - level])) for level in (TAIL_MASS, 0.25)
    )
    sizes = np.abs(kernel(ends.reshape(-1, 1), points)).reshape(len(ends), -1)
    tail_part = TAIL_MASS * sizes.max(axis=1, initial=0.0)
    bulk = kernel.diagonal(quartiles.reshape(-1, 1)).reshape(quartiles.shape).max(axis=1)
    bulk = np.sqrt(bulk * np.max(kernel.diagonal(points), initial=0.0))
    if not (
        tail_part <= _TAIL_SHARE * np.maximum(bulk, np.abs(out).max(axis=1, initial=0.0))
    ).all():
        raise NumericalError(TOO_HEAVY)


def _over_nodes(prediction: Predictive, kernel: Kernel, points: Array) -> Array:
    """Return the sums over nodes, computed in blocks of rows."""
    out = np.empty((len(prediction), len(points)))
    for rows, part in _blocks(prediction, prediction.node_count * max(1, len(points))):
        support = part.support()
        if support is not None:
            values, weights = support
            out[rows] = weights @ kernel(values, points)
            continue
        values, weights = part.nodes()
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


_REACH = 2.0  # half-width of a neighbourhood in lengths of variation: covers all of an RBF kernel
_PANELS, _ORDER = 8, 12  # quadrature of the neighbourhood
_NEGLIGIBLE = 1e-14  # largest value of a local kernel beyond its neighbourhood, relative to k(z, z)
_MISMATCH = 1e-6  # relative error of a neighbourhood's probability if its density is resolved
_NODES_A_LENGTH = 10  # nodes in one length of variation that resolve a kernel


def around_points(
    prediction: Predictive, kernel: Kernel, points: Array, values: Array, out: Array
) -> None:
    """Replace ``E k(Y_i, z_j)`` (n, r) in place where nodes (n, L) are too sparse around z_j.

    An integral over a neighbourhood of z_j replaces the sum over nodes. Nothing changes for kernels that
    reach far beyond the length over which they vary, or for distributions without a density. A row keeps
    its sum, too, if the integral does not reproduce the probability of the neighbourhood: its distribution
    is then narrow relative to the neighbourhood.
    """
    if prediction.columns > 1 or prediction.discrete or not prediction.has_density:
        return
    z, w = gauss_legendre(_ORDER)
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
    """Return P(low < Y <= high) (n,), from the tail in which it is accurate."""
    upper = prediction.cdf(low) > 0.5
    below = prediction.cdf(high) - prediction.cdf(low)
    return np.where(upper, prediction.sf(low) - prediction.sf(high), below)


def _is_local(kernel: Kernel, point: float, reach: float) -> bool:
    """Return whether the kernel is negligible beyond ``reach`` of a point."""
    gaps = reach * 2.0 ** np.arange(0.0, 40.0)
    far = np.concatenate([point - gaps, point + gaps])[:, None]
    centre = np.full((1, 1), point)
    with np.errstate(all="ignore"):
        values = np.abs(kernel(centre, far)[0])
    return bool((values <= _NEGLIGIBLE * abs(float(kernel.diagonal(centre)[0]))).all())
