"""Landmarks of accumulators: given, grown and joined landmarks, and sums converted between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends import get_backend
from fastmcmd.gram import EXACT, offset_of
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import Kernel, scale_columns, split_scales
from fastmcmd.kernels.base import UNIT, relative_error
from fastmcmd.kernels.custom import examine_kernel
from fastmcmd.solvers.landmarks import FLOOR, LandmarkSearch
from fastmcmd.solvers.rounding import bounded_residuals

__all__ = [
    "change_of_landmarks",
    "extended",
    "features_of",
    "joined_landmarks",
    "lost_by_change",
    "residual_kernel",
    "same_landmarks",
    "scaled_rows",
    "smoother_at",
]

Array = NDArray[np.float64]


def smoother_at(kernel: Kernel, landmarks: Array) -> Smoother:
    """Return the features at given landmarks, without those that the others reproduce."""
    scales, _ = split_scales(kernel)
    inner, rows = scale_columns(kernel, landmarks, "landmarks")
    inner = inner.resolve(rows)
    examine_kernel(inner, "x_kernel", rows)
    backend = get_backend("auto", inner)
    search = LandmarkSearch(
        backend, inner, rows, np.ones(len(rows)), len(rows), np.random.default_rng(0),
        offset_of(inner, backend, rows),
    )  # fmt: skip
    search.take_all()
    return Smoother(search.kernel_features(), scales)


def scaled_rows(smoother: Smoother, x: Array) -> Array:
    """Return inputs (n, d) in the coordinates of the landmarks."""
    return x if smoother.scales is None else np.asarray(x * np.array(smoother.scales))


def features_of(smoother: Smoother, x: Array) -> tuple[Array, Array]:
    """Return f(x) (n, p) and a bound (n,) on ``k(x, x) - |f(x)|^2`` that includes rounding."""
    f, rows = smoother.transform(x), scaled_rows(smoother, x)
    return f, bounded_residuals(smoother.features, rows, f, smoother.factor_error)


def residual_kernel(smoother: Smoother, z: Array, x: Array, f: Array) -> Array:
    """Return ``k(z, x) - f(z).f(x)`` (m, n) for rows z (m, d), given f(x) (n, p)."""
    features = smoother.features
    points = [
        features.backend.points(scaled_rows(smoother, rows), EXACT, features.offset)
        for rows in (z, x)
    ]
    values = np.asarray(features.backend.gram(features.kernel, *points), dtype=np.float64)
    return np.asarray(values - smoother.transform(z) @ f.T)


def same_landmarks(one: Smoother, other: Smoother) -> bool:
    """Tell whether the features of two smoothers are the same."""
    return one is other or (
        one.scales == other.scales
        and np.array_equal(one.features.pivots, other.features.pivots)
        and np.array_equal(one.features.factor, other.features.factor)
    )


def extended(smoother: Smoother, rows: Array, most: int, share: float) -> Smoother:
    """Return landmarks extended by scaled rows (m, d) until no residual exceeds a share of k(x, x)."""
    features = smoother.features
    old = features.rank
    pool = np.concatenate([features.pivots, rows])
    search = LandmarkSearch(
        features.backend, features.kernel, pool, np.ones(len(pool)), max(most, old),
        np.random.default_rng(0), features.offset,
    )  # fmt: skip
    search.take(np.arange(old))
    search.take_largest(most, share)
    pivots = pool[search.pivots[search.pivots >= old]]
    if not len(pivots):
        return smoother
    # The old factor is unchanged: features at old landmarks stay bit for bit the same. The search has a
    # factor of its own, which nearly dependent landmarks set apart, so the rest is factored anew.
    f = features.transform(pivots)
    points = features.backend.points(pivots, np.float64, features.offset)
    remainder = np.array(features.backend.gram(features.kernel, points), dtype=np.float64) - f @ f.T
    independent, new_factor = independent_rows(remainder, FLOOR * features.diagonal(pivots))
    if not len(independent):
        return smoother
    factor = np.zeros((old + len(independent), old + len(independent)))
    factor[:old, :old] = features.factor
    factor[old:, :old], factor[old:, old:] = f[independent], new_factor
    grown = replace(
        features, pivots=np.concatenate([features.pivots, pivots[independent]]), factor=factor
    )
    return Smoother(grown, smoother.scales)


def independent_rows(matrix: Array, floor: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the rows of a matrix whose pivots, in their order, exceed ``floor`` (n,), and their factor."""
    remainder, independent, columns = matrix.copy(), [], []
    for row in range(len(matrix)):
        if remainder[row, row] > floor[row]:
            independent.append(row)
            columns.append(remainder[:, row] / np.sqrt(remainder[row, row]))
            remainder -= np.outer(columns[-1], columns[-1])
    factor = np.tril(np.array(columns).T[independent]) if independent else np.zeros((0, 0))
    return np.array(independent, dtype=np.intp), factor


def joined_landmarks(one: Smoother, other: Smoother) -> Smoother:
    """Return landmarks that include those of both; the first smoother's come first."""
    if same_landmarks(one, other):
        return one
    if one.scales != other.scales or one.features.kernel != other.features.kernel:
        raise ValueError(
            f"x_kernel was resolved to {one.features.kernel!r} here and to {other.features.kernel!r} in "
            "other, on different first samples; pass kernels with numbers, or start parts with fresh()"
        )
    for more, fewer in ((one, other), (other, one)):
        count = fewer.rank
        if np.array_equal(more.features.pivots[:count], fewer.features.pivots):
            return more
    rows = other.features.pivots
    return extended(one, np.asarray(rows, dtype=np.float64), one.rank + len(rows), 1e-13)


def change_of_landmarks(old: Smoother, new: Smoother) -> tuple[Array, int]:
    """Return the matrix (q, p) from old to new features, and the number of leading landmarks in common."""
    pivots, new_pivots = old.features.pivots, new.features.pivots
    size = min(len(pivots), len(new_pivots))
    equal = (pivots[:size] == new_pivots[:size]).all(axis=1)
    common = size if equal.all() else int(equal.argmin())
    turn = np.zeros((new.rank, old.rank))
    turn[np.arange(common), np.arange(common)] = 1.0
    if common < old.rank:
        features = new.features.transform(pivots)  # (p, q)
        turn[:, common:] = features.T @ old.features.coefficients(np.eye(old.rank))[:, common:]
    return turn, common


def lost_by_change(old: Smoother, new: Smoother, turn: Array, common: int, gram: Array) -> float:
    """Bound ``sum w |g|^2``, g the change of a row's embedding when landmarks change.

    New landmarks need not span a direction in which nearly dependent old ones differ: ``T = C + E`` from
    `change_of_landmarks` has C, the products of orthonormal features, as a contraction, and rounding E.
    With features f of a row beyond the ``common`` ones, and the coefficients ``a = L^-T f``,

        |g|^2 = |f|^2 - |C f|^2 + |E f|^2 <= |f|^2 - |T f|^2 + 2 |f| |E f| + 2 |E f|^2,

    where ``|E f|`` is at most the rounding of triangular solves: that of the new factor times ``|a|``, and
    that of the old one times ``|f|``. ``|f|^2 - |T f|^2`` is a difference of kernel values times a.
    """
    new_gram = gram[common:, common:]
    if not new_gram.size:
        return 0.0
    part = turn[:, common:]
    inverses = [one.features.coefficients(np.eye(one.rank)) for one in (old, new)]
    norms = [float(np.linalg.norm(one, 2)) for one in inverses]
    largest = float(new.features.diagonal(new.features.pivots).max())
    size = max(float(np.trace(new_gram)), 0.0)
    values, vectors = np.linalg.eigh(new_gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    turned_root = part @ root
    norm_lost = float(np.abs(np.linalg.eigvalsh(root.T @ root - turned_root.T @ turned_root)).sum())
    spread = float(np.linalg.norm(inverses[0][:, common:] @ root) ** 2)
    unit = relative_error(old.rank + new.rank + 8, UNIT)
    rounding = (unit * norms[1]) ** 2 * largest * spread
    rounding += (unit * norms[0] * float(np.linalg.norm(old.features.factor, 2))) ** 2 * size
    entries = old.factor_error + new.factor_error + unit * largest
    total = norm_lost + 2 * np.sqrt(size * rounding) + 2 * rounding + entries * spread + unit * size
    return float(min(total, 4 * size))  # |T f| is at most about |f|
