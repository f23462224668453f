"""Low-rank features of the output kernel by pivoted Cholesky.

``k_Y(y, y') = p(y).p(y')`` with ``p(y)`` in R^r. The features are exact at the r pivots and elsewhere up to
the residual ``e(y) = k(y, y) - |p(y)|^2 >= 0``, which is measured at every output of the sample. For
coefficients c, truncation reduces ``|sum c_i phi(y_i)|^2`` by at most ``(sum |c_i| sqrt(e_i))^2`` (triangle
inequality in the kernel's space), and never increases it.

An RBF kernel on scalar outputs needs 20 to 35 pivots for float64 rounding.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd.backends import Backend
from fastmcmd.backends.cpu import pivoted_columns
from fastmcmd.errors import TOO_HEAVY, NumericalError
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT

__all__ = ["output_features", "pooled", "pooled_numbers", "pooled_with_importance"]

Index = NDArray[np.intp]

_LOOKS = (64, 128, 256, 512, 1024)  # ranks at which the decay of the residual is checked
_CANDIDATES = 2000  # outputs that are the first candidates for pivots
_FEW = 600  # numbers without importance that are candidates before: enough for smooth kernels
_FEW_RANK = _FEW // 4  # largest rank with so few candidates
_NOISE = 4 * UNIT  # of a residual, relative to k(y, y)
_PANEL = 16  # columns are padded to a multiple of this


def output_features(
    kernel: Kernel,
    backend: Backend,
    y: NDArray[np.float64],
    eps: float,
    max_rank: int,
    importance: NDArray[np.float64] | None = None,
    ascending: NDArray[np.float64] | None = None,
    *,
    differences: bool = False,
    stop: int | None = None,
) -> tuple[KernelFeatures, NDArray[np.float64], NDArray[np.float64]] | None:
    """Return features of the output kernel over the outputs ``y``.

    Parameters
    ----------
    kernel : Kernel
        Resolved output kernel.
    backend : Backend
        Backend that computes kernel values.
    y : ndarray (u, k)
        All outputs. Equal ones take time, but change nothing.
    eps : float
        Target for the largest residual, relative to the largest k(y, y).
    max_rank : int
        Rank beyond which the search stops.
    importance : ndarray (u,), optional
        Largest weight of each output, at most 1. Its residual counts that much less, so rare outcomes need
        fewer pivots.
    ascending : ndarray (u,), optional
        The distinct numbers of a single column in ascending order, if the caller has sorted it.
    differences : bool
        Whether to return the differences (u / 2, r) of the features of outputs 2 i and 2 i + 1 instead of
        the features of all.
    stop : int, optional
        A lower rank beyond which the search stops. Up to it, the features are those of ``max_rank``.

    Returns
    -------
    (KernelFeatures, ndarray (u, r), ndarray (u,)) or None
        The map, the features of ``y`` and their residuals; None if the rank would be larger.
    """
    diagonal = kernel.diagonal(y)
    largest = float(diagonal.max())
    if largest <= 0:
        raise ValueError("y_kernel is zero at all outputs; choose another y_kernel")
    limit = eps * largest
    norm2 = float(np.einsum("ij,ij->i", y, y).max())
    direct = backend.direct_distances(y.shape[1], kernel)
    entry = kernel.rounding(UNIT, y.shape[1], norm2, direct, largest) / largest
    worth = None if importance is None else importance**2
    source = _Source.of(y, worth, ascending)
    # A sample supplies the pivots. Outputs that it leaves uncovered join it until all residuals are small.
    many = max(_CANDIDATES, 2 * max_rank)
    max_rank = max_rank if stop is None else min(max_rank, stop)
    if source.ascending is None and len(source) <= 2 * many:
        many = len(source)  # takes less time than another round
    few = source.ascending is not None and min(many, len(source)) > _FEW
    candidates = source.spread(_FEW if few else many)
    for _ in range(6):
        most = min(max_rank, _FEW_RANK) if few else max_rank
        z = source.outputs(candidates)
        weight = source.weights(candidates)
        factorization = _PivotedCholesky(kernel, backend, z, weight, limit / 2, most).factorize()
        if factorization is None and few:  # once more with many candidates
            few, candidates = False, source.spread(many)
            continue
        if factorization is None:
            return None
        pivots, factor = factorization
        if not len(pivots):
            # The largest outputs dwarf all that have weight: they are nodes far out in a tail.
            raise NumericalError(TOO_HEAVY)
        features = KernelFeatures(kernel, z[pivots], factor, backend, entry=entry)
        p, squares = features.with_squares(y, differences=differences)
        residual_diagonal = features.residuals_of(y, squares)
        residuals = residual_diagonal if worth is None else worth * residual_diagonal
        # More pivots cannot remove the rounding bound that `residuals` adds.
        if residuals.max() <= limit + features.noise * largest or len(candidates) == len(source):
            break
        more = np.argsort(residuals)[-min(len(y), 500) :]
        candidates = source.joined(candidates, more[residuals[more] > limit / 2])
    return features, p, residual_diagonal


@dataclass(frozen=True, eq=False)
class _Source:
    """Distinct outputs that may become pivots, with their worth.

    Attributes
    ----------
    y : ndarray (n, k)
        All outputs.
    worth : ndarray (n,) or None
        Their worth; None means ones.
    ascending : ndarray (u,) or None
        The distinct numbers of a single column without worth, ascending. Places of candidates refer to
        them; without them, places refer to ``y``, whose rows are distinct.
    """

    y: Array
    worth: Array | None
    ascending: Array | None

    @staticmethod
    def of(y: Array, worth: Array | None, ascending: Array | None) -> _Source:
        """Return the source of candidates; it sorts a single column without worth if that is not done."""
        if ascending is None and worth is None and y.shape[1] == 1:
            ascending = np.sort(y[:, 0])
        return _Source(y, worth, ascending)

    def __len__(self) -> int:
        return len(self.y if self.ascending is None else self.ascending)

    def outputs(self, places: Index) -> Array:
        """Return the outputs (c, k) at some places."""
        return self.y[places] if self.ascending is None else self.ascending[places][:, None]

    def weights(self, places: Index) -> Array:
        """Return the worth (c,) of the outputs at some places."""
        return np.ones(len(places)) if self.worth is None else self.worth[places]

    def joined(self, places: Index, rows: Index) -> Index:
        """Return places together with those of further rows of ``y``."""
        if self.ascending is not None:
            rows = np.searchsorted(self.ascending, self.y[rows, 0])
        return np.union1d(places, rows)

    def spread(self, count: int) -> Index:
        """Return at most ``count`` places, evenly spread in the order of the first coordinate.

        Half of those in a single column are evenly spread over its range instead, so that outputs in the
        tails have a candidate close by as well.
        """
        if self.ascending is not None:
            return _spread(self.ascending, count)
        order = np.argsort(self.y[:, 0], kind="stable")
        if self.y.shape[1] == 1 or len(order) <= count:
            return order[_spread(self.y[order, 0], count)]
        return order[np.linspace(0, len(order) - 1, count).astype(np.intp)]


def _spread(ascending: Array, count: int) -> Index:
    """Return places of at most ``count`` numbers, half evenly spread over them, half over their range."""
    n = len(ascending)
    if n <= count:
        return np.arange(n)
    levels = np.linspace(ascending[0], ascending[-1], count // 2)
    is_candidate = np.zeros(n, dtype=bool)
    is_candidate[np.minimum(np.searchsorted(ascending, levels), n - 1)] = True
    is_candidate[np.linspace(0, n - 1, count - len(levels)).astype(np.intp)] = True
    return np.flatnonzero(is_candidate)


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
        worth: NDArray[np.float64],
        limit: float,
        max_rank: int,
    ) -> None:
        self._most = most = min(max_rank, len(y))
        self._rank = 0
        self._kernel, self._y, self._worth, self._limit = kernel, y, worth, limit
        self._diagonal = np.asarray(kernel.diagonal(y), dtype=np.float64)
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
            root = np.sqrt(self._residual[pivot])
            column /= root
            column[self._pivots[:rank]] = 0.0
            column[pivot] = (
                root  # and not the rounding of its square, of a residual that is all rounding
            )
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
    all_outputs = np.concatenate(parts, dtype=np.float64)
    if all_outputs.shape[1] == 1:
        values, where = _distinct_numbers(all_outputs.reshape(-1))
    else:
        from fastmcmd.embedding.design import distinct_rows

        first, group = distinct_rows(all_outputs)
        values, where = all_outputs[first], np.arange(len(all_outputs)) if group is None else group
    places, start = [], 0
    for part in parts:
        places.append(where[start : start + len(part)])
        start += len(part)
    return values, places


def _distinct_numbers(numbers: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the distinct numbers (u, 1), ascending, and the place of each of ``numbers`` in them."""
    order = numbers.argsort()  # equal numbers need no order
    ascending, where = numbers.take(order), np.empty(len(numbers), dtype=np.intp)
    differs = ascending[1:] != ascending[:-1]
    if np.count_nonzero(differs) == len(differs):
        where[order] = np.arange(len(numbers))
        return ascending[:, None], where
    starts = np.concatenate([[True], differs])
    where[order] = starts.cumsum() - 1
    return ascending[starts][:, None], where


def pooled_numbers(
    parts: list[HostArray], *, in_turn: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[slice]] | None:
    """Return the numbers of all parts as they are, if most of them differ; else None.

    They follow part by part, or one of each part ``in_turn``.

    Returns
    -------
    (ndarray (n, 1), ndarray (u,), list of slice) or None
        The numbers, the distinct ones ascending, and each part's rows. None, too, for several columns.
    """
    if parts[0].shape[1] != 1:
        return None
    columns = [np.asarray(part[:, 0], dtype=np.float64) for part in parts]
    numbers = np.stack(columns, axis=1).reshape(-1) if in_turn else np.concatenate(columns)
    ascending = np.sort(numbers)
    differs = ascending[1:] != ascending[:-1]
    if 2 * np.count_nonzero(differs) < len(numbers):
        return None
    if not differs.all():
        ascending = np.append(ascending[:1], ascending[1:][differs])
    if in_turn:
        places = [slice(first, len(numbers), len(parts)) for first in range(len(parts))]
        return numbers[:, None], ascending, places
    ends = itertools.accumulate((len(part) for part in parts), initial=0)
    return numbers[:, None], ascending, [slice(*pair) for pair in itertools.pairwise(ends)]


def pooled_with_importance(
    *parts: tuple[HostArray, NDArray[np.float64] | None],
) -> tuple[NDArray[np.float64], list[NDArray[np.intp]], NDArray[np.float64]]:
    """Return the results of `pooled` for outputs with weights, and the largest weight of each output.

    Outputs without weights count as much as the largest weight, 1.
    """
    distinct, where = pooled(*(values for values, _ in parts))
    importance = np.zeros(len(distinct))
    for index, (_, weight) in zip(where, parts, strict=True):
        np.maximum.at(importance, index, 1.0 if weight is None else weight)
    return distinct, where, importance
