"""Low-rank features of the output kernel by pivoted Cholesky.

``k_Y(y, y') = p(y).p(y')`` with ``p(y)`` in R^r. The features are exact at the r pivots and elsewhere up to
the residual ``e(y) = k(y, y) - |p(y)|^2 >= 0``, which is measured at every output of the sample. For
coefficients c, truncation reduces ``|sum c_i phi(y_i)|^2`` by at most ``(sum |c_i| sqrt(e_i))^2`` (triangle
inequality in the kernel's space), and never increases it.

An RBF kernel on scalar outputs needs 20 to 35 pivots for float64 rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd.backends import Backend
from fastmcmd.errors import TOO_HEAVY, NumericalError
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT

__all__ = ["output_features", "pooled", "pooled_with_importance"]

_LOOKS = (64, 128, 256, 512, 1024)  # ranks at which the decay of the residual is checked
_CANDIDATES = 2000  # outputs that are the first candidates for pivots


def output_features(
    kernel: Kernel,
    backend: Backend,
    y: NDArray[np.float64],
    eps: float,
    max_rank: int,
    importance: NDArray[np.float64] | None = None,
) -> tuple[KernelFeatures, NDArray[np.float64], NDArray[np.float64]] | None:
    """Return features of the output kernel over the distinct outputs ``y``.

    Parameters
    ----------
    kernel : Kernel
        Resolved output kernel.
    backend : Backend
        Backend that computes kernel values.
    y : ndarray (u, k)
        All distinct outputs.
    eps : float
        Target for the largest residual, relative to the largest k(y, y).
    max_rank : int
        Rank beyond which the search stops.
    importance : ndarray (u,), optional
        Largest weight of each output, at most 1. Its residual counts that much less, so rare outcomes need
        fewer pivots.

    Returns
    -------
    (KernelFeatures, ndarray (u, r), ndarray (u,)) or None
        The map, the features of ``y`` and their residuals; None if the rank would exceed ``max_rank``.
    """
    diagonal = kernel.diagonal(y)
    largest = float(diagonal.max())
    if largest <= 0:
        raise ValueError("y_kernel is zero at all outputs; choose another y_kernel")
    limit = eps * largest
    norm2 = float(np.einsum("ij,ij->i", y, y).max())
    direct = backend.direct_distances(y.shape[1], kernel)
    entry = kernel.rounding(UNIT, y.shape[1], norm2, direct, largest) / largest
    worth = np.ones(len(y)) if importance is None else importance**2
    # A sample in order of the first coordinate supplies the pivots. Outputs that it leaves uncovered join
    # it until all residuals are small.
    order = np.argsort(y[:, 0], kind="stable")
    count = min(len(y), max(_CANDIDATES, 2 * max_rank))
    chosen = order[np.unique(np.linspace(0, len(y) - 1, count).astype(np.intp))]
    for _ in range(6):
        factorization = _pivoted_cholesky(
            kernel, y[chosen], diagonal[chosen], worth[chosen], limit / 2, max_rank
        )
        if factorization is None:
            return None
        pivots, factor = factorization
        if not len(pivots):
            # The largest outputs dwarf all that have weight: they are nodes far out in a tail.
            raise NumericalError(TOO_HEAVY)
        features = KernelFeatures(kernel, y[chosen][pivots], factor, backend, entry=entry)
        p = features.transform(y)
        residual_diagonal = features.residuals(y, p)
        residuals = worth * residual_diagonal
        # More pivots cannot remove the rounding bound that `residuals` adds.
        if residuals.max() <= limit + features.noise * largest or len(chosen) == len(y):
            break
        more = np.argsort(residuals)[-min(len(y), 500) :]
        chosen = np.union1d(chosen, more[residuals[more] > limit / 2])
    return features, p, residual_diagonal


def _pivoted_cholesky(
    kernel: Kernel,
    y: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    worth: NDArray[np.float64],
    limit: float,
    max_rank: int,
) -> tuple[NDArray[np.intp], NDArray[np.float64]] | None:
    """Return pivots and the factor of their matrix, or None if max_rank is too small for ``limit``."""
    residual = diagonal.astype(np.float64).copy()
    columns = np.empty((min(max_rank, len(y)), len(y)))
    pivots: list[int] = []
    looks: list[tuple[int, float]] = []
    while True:
        pivot = int((worth * residual).argmax())
        # A residual below a few units of rounding is noise, and so would its pivot be. There is always one
        # pivot: outputs far in a tail may make the limit larger than all other residuals.
        small = bool(pivots) and worth[pivot] * residual[pivot] <= limit
        if small or residual[pivot] <= 4 * UNIT * diagonal[pivot]:
            break
        rank = len(pivots)
        if rank == len(columns):
            return None if rank < len(y) else _finish(pivots, columns[:rank])
        if rank in _LOOKS and len(columns) < len(y):
            if _cannot_converge(looks, rank, worth[pivot] * residual[pivot], limit, len(columns)):
                return None
            looks.append((rank, worth[pivot] * residual[pivot]))
        column = kernel.evaluate(y[pivot : pivot + 1], y)[0]
        column -= columns[:rank, pivot] @ columns[:rank]
        column /= np.sqrt(residual[pivot])
        column[pivots] = 0.0
        columns[rank] = column
        residual -= column * column
        residual[pivot] = 0.0
        pivots.append(pivot)
    return _finish(pivots, columns[: len(pivots)])


def _cannot_converge(
    looks: list[tuple[int, float]], rank: int, rest: float, limit: float, most: int
) -> bool:
    """Tell whether the residual falls too slowly to reach the limit with the most pivots.

    It extrapolates the residual's logarithm linearly in the rank; residuals of low-rank kernels fall at
    least so fast. The answer is True only if even the square root of the limit is out of reach.
    """
    if not looks:
        return False
    before, was = looks[-1]
    slope = (np.log(rest) - np.log(was)) / (rank - before)
    return bool(np.log(rest) + slope * (most - rank) > 0.5 * np.log(limit))


def _finish(
    pivots: list[int], columns: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    index = np.array(pivots, dtype=np.intp)
    return index, np.tril(columns[:, index].T)


def pooled(*parts: HostArray) -> tuple[NDArray[np.float64], list[NDArray[np.intp]]]:
    """Return the distinct outputs (u, k) of all parts, and the positions of each part's rows in them."""
    from fastmcmd.embedding.design import distinct_rows

    together = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    if together.shape[1] == 1:
        values, where = np.unique(together[:, 0], return_inverse=True)
        values = values[:, None]
    else:
        first, group = distinct_rows(together)
        values, where = together[first], np.arange(len(together)) if group is None else group
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return values, np.split(where.reshape(-1), ends)


def pooled_with_importance(
    *parts: tuple[HostArray, NDArray[np.float64]],
) -> tuple[NDArray[np.float64], list[NDArray[np.intp]], NDArray[np.float64]]:
    """Return the results of `pooled` for outputs with weights, and the largest weight of each output."""
    distinct, where = pooled(*(values for values, _ in parts))
    importance = np.zeros(len(distinct))
    for index, (_, weight) in zip(where, parts, strict=True):
        np.maximum.at(importance, index, weight)
    return distinct, where, importance
