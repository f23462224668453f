"""Low-rank features of the output kernel by pivoted Cholesky.

``k_Y(y, y') = p(y).p(y')`` with ``p(y)`` in R^r. The features are exact at the r pivots and elsewhere up to
the residual ``e(y) = k(y, y) - |p(y)|^2 >= 0``, which is measured at every output of the sample. For
coefficients c, truncation reduces ``|sum c_i phi(y_i)|^2`` by at most ``(sum |c_i| sqrt(e_i))^2`` (triangle
inequality in the kernel's space), and never increases it.

An RBF kernel on scalar outputs needs 20 to 35 pivots for float64 rounding.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd.backends import Backend
from fastmcmd.backends.cpu import pivoted_columns
from fastmcmd.errors import TOO_HEAVY, NumericalError
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT

__all__ = ["output_features", "pooled", "pooled_with_importance"]

_LOOKS = (64, 128, 256, 512, 1024)  # ranks at which the decay of the residual is checked
_CANDIDATES = 2000  # outputs that are the first candidates for pivots
_NOISE = 4 * UNIT  # of a residual, relative to k(y, y)
_PANEL = 16  # columns are padded to a multiple of this


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
    # A sample supplies the pivots. Outputs that it leaves uncovered join it until all residuals are small.
    candidates = _spread_sample(y, max(_CANDIDATES, 2 * max_rank))
    for _ in range(6):
        factorization = _PivotedCholesky(
            kernel, backend, y[candidates], diagonal[candidates], worth[candidates], limit / 2,
            max_rank,
        ).factorize()  # fmt: skip
        if factorization is None:
            return None
        pivots, factor = factorization
        if not len(pivots):
            # The largest outputs dwarf all that have weight: they are nodes far out in a tail.
            raise NumericalError(TOO_HEAVY)
        features = KernelFeatures(kernel, y[candidates][pivots], factor, backend, entry=entry)
        p = features.transform(y)
        residual_diagonal = features.residuals(y, p)
        residuals = worth * residual_diagonal
        # More pivots cannot remove the rounding bound that `residuals` adds.
        if residuals.max() <= limit + features.noise * largest or len(candidates) == len(y):
            break
        more = np.argsort(residuals)[-min(len(y), 500) :]
        candidates = np.union1d(candidates, more[residuals[more] > limit / 2])
    return features, p, residual_diagonal


def _spread_sample(y: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Return the indices of at most ``count`` outputs, evenly spread in the order of the first coordinate.

    Half of the outputs of a single column are evenly spread over its range instead, so that those in the
    tails have a candidate close by as well.
    """
    n, order = len(y), np.argsort(y[:, 0], kind="stable")
    if n <= count:
        return order
    if y.shape[1] > 1:
        return order[np.linspace(0, n - 1, count).astype(np.intp)]
    ascending = y[order, 0]
    levels = np.linspace(ascending[0], ascending[-1], count // 2)
    places = np.minimum(np.searchsorted(ascending, levels), n - 1)
    is_candidate = np.zeros(n, dtype=bool)
    is_candidate[places] = True
    is_candidate[np.linspace(0, n - 1, count - len(levels)).astype(np.intp)] = True
    return order[is_candidate]


class _PivotedCholesky:
    """A pivoted Cholesky factorisation of k(y, y), column by column.

    The pivot has the largest product of ``worth`` and residual. A residual below a few units of rounding is
    noise, and so would its pivot be. There is always one pivot: outputs far in a tail may make the limit
    larger than all other residuals.
    """

    def __init__(
        self,
        kernel: Kernel,
        backend: Backend,
        y: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        worth: NDArray[np.float64],
        limit: float,
        max_rank: int,
    ) -> None:
        self._most = most = min(max_rank, len(y))
        self._rank = 0
        self._kernel, self._y, self._worth, self._limit = kernel, y, worth, limit
        self._diagonal = diagonal.astype(np.float64)
        self._residual = self._diagonal.copy()
        self._columns = np.empty((most, -(-len(y) // _PANEL) * _PANEL))
        self._pivots = np.empty(most, dtype=np.int64)
        self._compiled = kernel.compiled and backend.name == "cpu"

    def factorize(self) -> tuple[NDArray[np.intp], NDArray[np.float64]] | None:
        """Return pivots and the factor of their matrix, or None if ``max_rank`` is too small."""
        looks: list[tuple[int, float]] = []
        most, n = self._most, len(self._y)
        for stop in [*(look for look in _LOOKS if look < most < n), most]:
            if self._compiled:
                self._rank = pivoted_columns(
                    self._kernel, self._y, self._diagonal, self._worth, self._limit, _NOISE,
                    self._residual, self._columns, self._pivots, self._rank, stop,
                )  # fmt: skip
            else:
                self._add_columns(stop)
            largest_residual = self._largest_residual() if self._rank == stop else None
            if largest_residual is None or stop == n:
                pivots = self._pivots[: self._rank].astype(np.intp)
                return pivots, np.tril(self._columns[: self._rank, pivots].T)
            if stop == most or _cannot_converge(looks, stop, largest_residual, self._limit, most):
                return None
            looks.append((stop, largest_residual))
        raise AssertionError("unreachable")

    def _add_columns(self, stop: int) -> None:
        """Add pivots up to ``stop`` of them; fewer at the limit."""
        while self._rank < stop and self._largest_residual() is not None:
            rank, n = self._rank, len(self._y)
            pivot = int((self._worth * self._residual).argmax())
            column = self._kernel.evaluate(self._y[pivot : pivot + 1], self._y)[0]
            column -= self._columns[:rank, pivot] @ self._columns[:rank, :n]
            column /= np.sqrt(self._residual[pivot])
            column[self._pivots[:rank]] = 0.0
            self._columns[rank, :n] = column
            self._residual -= column * column
            self._residual[pivot] = 0.0
            self._pivots[rank] = pivot
            self._rank += 1

    def _largest_residual(self) -> float | None:
        """Return the worth times residual of the next pivot, or None if there is none."""
        pivot = int((self._worth * self._residual).argmax())
        largest_residual = float(self._worth[pivot] * self._residual[pivot])
        small = self._rank > 0 and largest_residual <= self._limit
        noise = not self._residual[pivot] > _NOISE * self._diagonal[pivot]
        return None if small or noise else largest_residual


def _cannot_converge(
    looks: list[tuple[int, float]], rank: int, residual: float, limit: float, most: int
) -> bool:
    """Tell whether the residual falls too slowly to reach the limit with the most pivots.

    It extrapolates the residual's logarithm linearly in the rank; residuals of low-rank kernels fall at
    least so fast. The answer is True only if even the square root of the limit is out of reach.
    """
    if not looks:
        return False
    before, was = looks[-1]
    slope = (np.log(residual) - np.log(was)) / (rank - before)
    return bool(np.log(residual) + slope * (most - rank) > 0.5 * np.log(limit))


def pooled(*parts: HostArray) -> tuple[NDArray[np.float64], list[NDArray[np.intp]]]:
    """Return the distinct outputs (u, k) of all parts, and the positions of each part's rows in them."""
    from fastmcmd.embedding.design import distinct_rows

    all_outputs = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    if all_outputs.shape[1] == 1:
        values, where = _distinct_numbers(all_outputs[:, 0])
    else:
        first, group = distinct_rows(all_outputs)
        values, where = all_outputs[first], np.arange(len(all_outputs)) if group is None else group
    ends = list(itertools.accumulate((len(part) for part in parts), initial=0))
    return values, [where[start:end] for start, end in itertools.pairwise(ends)]


def _distinct_numbers(numbers: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the distinct numbers (u, 1), ascending, and the place of each of ``numbers`` in them."""
    order = numbers.argsort()  # equal numbers need no order
    ascending, where = numbers[order], np.empty(len(numbers), dtype=np.intp)
    differs = ascending[1:] != ascending[:-1]
    if differs.all():
        where[order] = np.arange(len(numbers))
        return ascending[:, None], where
    starts = np.concatenate([[True], differs])
    where[order] = starts.cumsum() - 1
    return ascending[starts][:, None], where


def pooled_with_importance(
    *parts: tuple[HostArray, NDArray[np.float64]],
) -> tuple[NDArray[np.float64], list[NDArray[np.intp]], NDArray[np.float64]]:
    """Return the results of `pooled` for outputs with weights, and the largest weight of each output."""
    distinct, where = pooled(*(values for values, _ in parts))
    importance = np.zeros(len(distinct))
    for index, (_, weight) in zip(where, parts, strict=True):
        np.maximum.at(importance, index, weight)
    return distinct, where, importance
