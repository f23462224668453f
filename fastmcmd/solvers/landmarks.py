"""Selection of landmarks: randomly pivoted Cholesky over candidate rows, a uniform draw, or given rows.

Randomly pivoted Cholesky draws each pivot x with a probability proportional to its residual under the
earlier pivots, ``e(x) = k(x, x) - |p(x)|^2`` (Chen, Epperly, Tropp, Webber, *Randomly pivoted Cholesky*,
2023). The search proposes pivots in blocks and rejects some, which draws from exactly the same distribution
(Epperly, Tropp, Webber, *Embrace rejection: kernel matrix approximation by accelerated randomly pivoted
Cholesky*, 2024). It costs one product with the features for each block instead of one for each pivot.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd.backends.base import Backend
from fastmcmd.backends.cpu import accepted_pivots
from fastmcmd.backends.tall_skinny import eliminated, inner
from fastmcmd.gram import EXACT, KernelFeatures
from fastmcmd.kernels import Kernel

__all__ = ["LandmarkSearch", "importance_of"]

_LEAST_BLOCK, _MOST_BLOCK = 8, 128  # pivots proposed together
FLOOR = 1e-13  # share of k(x, x): a smaller residual is rounding, and its row a poor pivot
_DEPENDENT = 1e-9  # share of the largest residual: landmarks nearly reproduce rows below it
_APART = (
    0.2  # share of the largest residual that a candidate of a block must keep beside the others
)
_DULL = 3  # blocks in a row without a pivot after which the search ends


def importance_of(weight: HostArray | None, norms: HostArray) -> NDArray[np.float64]:
    """Return the importance (n,) of rows when their coefficients are known.

    The residual diagonal of a row contributes ``e(x, x)`` to the trace and ``e(x, x) |B|^2`` to the
    residual. Each is relative to its mean over the rows, and their sum covers both needs. ``norms`` are
    ``|D B|`` (m, n) of m models.
    """
    n = norms.shape[1]
    count = np.ones(n) if weight is None else weight / max(float(weight.mean()), 1e-300)
    squares = np.zeros(n)
    for norm in norms:
        largest = float(norm.max(initial=0.0))
        if largest > 0.0:
            square = (count * (norm / largest)) ** 2
            squares += square / max(float(square.mean()), 1e-300)
    return np.asarray(count + squares / max(1, len(norms)))


class LandmarkSearch:
    """A growing set of landmarks among candidate rows.

    Parameters
    ----------
    backend : Backend
        Backend that computes kernel values.
    kernel : Kernel
        Resolved input kernel.
    rows : ndarray (m, d)
        Candidate rows.
    weight : ndarray (m,)
        Weights of the candidates, at least 0.
    most : int
        Largest number of landmarks.
    rng : numpy.random.Generator
        Source of the draws.
    offset : ndarray (d,) or None
        Subtracted from rows before they are rounded.

    Attributes
    ----------
    residual_diagonal : ndarray (m,)
        Residual diagonal: ``k(x, x) - |p(x)|^2``.
    diagonal : ndarray (m,)
        ``k(x, x)``.
    trial_count : int
        Number of rows passed to `take`.
    importance : ndarray (m,)
        Factor of a row's probability, beside its residual diagonal; initially ``weight``.
    """

    def __init__(
        self,
        backend: Backend,
        kernel: Kernel,
        rows: HostArray,
        weight: NDArray[np.float64],
        most: int,
        rng: np.random.Generator,
        offset: NDArray[np.float64] | None = None,
    ) -> None:
        self.rows, self.weight = rows, weight
        self.importance = weight
        self._backend, self._kernel, self.offset = backend, kernel, offset
        self._rng = rng
        self._points = backend.points(rows, EXACT, offset)
        self._columns = np.empty((min(most, len(rows)), len(rows)))  # features, transposed
        self._pivots: list[int] = []
        self._last_factor: NDArray[np.float64] | None = None
        self.trial_count = 0
        self.diagonal = np.asarray(kernel.diagonal(rows), dtype=np.float64)
        self.residual_diagonal = self.diagonal.copy()
        self._dull = 0

    @property
    def rank(self) -> int:
        """Number of landmarks so far."""
        return len(self._pivots)

    @property
    def most(self) -> int:
        """Largest number of landmarks."""
        return len(self._columns)

    @property
    def pivots(self) -> NDArray[np.intp]:
        """Indices of the candidates that are landmarks, in the order of selection."""
        return np.array(self._pivots, dtype=np.intp)

    @property
    def columns(self) -> NDArray[np.float64]:
        """Features (r, m) of the candidates, one column for each candidate."""
        return self._columns[: self.rank]

    @property
    def exhausted(self) -> bool:
        """Whether the search finds no residual beyond rounding any more, or the limit is reached."""
        return self._dull >= _DULL or self.rank == len(self._columns)

    def grow(self, rank: int) -> None:
        """Add landmarks by randomly pivoted Cholesky up to ``rank``, or until the search is exhausted."""
        rank = min(rank, len(self._columns))
        while self.rank < rank and not self.exhausted:
            chance = self.importance * np.where(
                self.residual_diagonal > FLOOR * self.diagonal, self.residual_diagonal, 0.0
            )
            total = float(chance.sum())
            if total <= 0:
                self._dull = _DULL
                break
            size = min(max(self.rank // 2, _LEAST_BLOCK), _MOST_BLOCK)
            draws = self._rng.choice(len(chance), size, p=chance / total)
            before = self.rank
            self._accept(draws, rank)
            self._dull = 0 if self.rank > before else self._dull + 1
        self._never_empty()

    def take(self, index: NDArray[np.intp], *, independent: bool = False) -> None:
        """Make the given candidates landmarks, except those that the landmarks already reproduce.

        ``independent`` also excludes candidates that the landmarks nearly reproduce. Random order may put
        such a candidate before one that no landmark explains, and then it multiplies rounding in
        that one's features.
        """
        self.trial_count += len(index)
        least = _DEPENDENT if independent else 0.0
        for start in range(0, len(index), _MOST_BLOCK):
            self._accept(index[start : start + _MOST_BLOCK], len(self._columns), least)
        self._never_empty()

    def consider(self, proposals: NDArray[np.intp], rank: int) -> None:
        """Accept or reject candidates drawn by their present residuals, in this order, up to ``rank``."""
        self._accept(proposals, min(rank, len(self._columns)))
        self._never_empty()

    def take_all(self) -> None:
        """Make all candidates landmarks, but for those that the others reproduce already.

        They come in the order of what those before miss of them. In another order, one that is nearly
        reproduced may come before one that is not, and rounding is multiplied in the features of all rows.
        """
        gram = np.array(self._backend.gram(self._kernel, self._points), dtype=np.float64)
        scale = 1 / np.sqrt(np.where(self.diagonal > 0, self.diagonal, np.inf))
        gram *= scale[:, None]
        gram *= scale
        _, order, rank, _ = scipy.linalg.lapack.dpstrf(gram, tol=FLOOR, lower=1, overwrite_a=1)
        self.take(order[:rank] - 1)

    def take_largest(self, most: int, share: float) -> None:
        """Add landmarks until there are ``most``, or they miss at most a share of k(x, x) everywhere.

        The candidate with the largest residual comes first.
        """
        eligible = np.ones(len(self.rows), dtype=bool)
        while self.rank < min(most, len(self._columns)):
            candidates = eligible & (self.residual_diagonal > share * self.diagonal)
            if not candidates.any():
                break
            index = int(np.where(candidates, self.residual_diagonal, -1.0).argmax())
            eligible[index] = False  # refused if the rest of it is rounding
            self.take(np.array([index]))

    def take_farthest(self, rank: int) -> None:
        """Add candidates with the largest residual diagonals, in blocks, up to ``rank``.

        A bound that holds at every row depends on the largest of them, and randomly pivoted Cholesky mostly
        lowers their sum.
        """
        rank = min(rank, len(self._columns))
        while self.rank < rank:
            size = min(rank - self.rank, _MOST_BLOCK)
            far = np.argpartition(self.residual_diagonal, -size)[-size:]
            before = self.rank
            self._accept(far[np.argsort(-self.residual_diagonal[far])], rank, _APART)
            if self.rank == before:
                break

    def _never_empty(self) -> None:
        """Take the first candidate if the kernel is zero at all: its feature is zero everywhere."""
        if not self._pivots:
            self._columns[0] = 0.0
            self._pivots.append(0)

    def _accept(self, draws: NDArray[np.intp], most: int, least: float | None = None) -> None:
        """Eliminate the proposals in turn; accept each with the probability of its remaining share.

        That share is the residual left by earlier proposals, relative to the residual before the block.
        With ``least``, a fraction of the largest residual, accept every proposal whose residual exceeds it.
        """
        start, backend = self.rank, self._backend
        # A row that is rejected and drawn again in the same block gets a second chance.
        distinct, proposals = np.unique(draws, return_inverse=True)
        explained = self._columns[:start, distinct]
        points = backend.points(self.rows[distinct], EXACT, self.offset)
        residual = np.ascontiguousarray(backend.gram(self._kernel, points), dtype=np.float64)
        residual -= inner(explained, explained)
        smallest = (least or 0.0) * float(self.residual_diagonal.max())
        pivots, factor = accepted_pivots(
            residual, proposals, np.maximum(FLOOR * self.diagonal[distinct], smallest), most - start,
            self._rng if least is None else None,
        )  # fmt: skip
        if not len(pivots):
            return
        accepted_rows = distinct[pivots]
        leading, new = self._columns[:start], self._columns[start : start + len(pivots)]
        points = backend.points(self.rows[accepted_rows], EXACT, self.offset)
        backend.write_gram(self._kernel, points, self._points, new)
        eliminated(new, leading, leading[:, accepted_rows], factor)
        # At the pivots themselves substitution reproduces the factor up to errors, which it multiplies if
        # the pivots are nearly dependent: L L' would then be off by 1e-10 instead of by rounding.
        new[:, accepted_rows] = factor.T
        self.residual_diagonal -= np.einsum("ij,ij->j", new, new)
        np.maximum(self.residual_diagonal, 0.0, out=self.residual_diagonal)
        self._pivots.extend(accepted_rows.tolist())
        self.residual_diagonal[accepted_rows] = 0.0

    def extended(self, x: HostArray, weight: NDArray[np.float64], most: int) -> LandmarkSearch:
        """Return a search with the same landmarks and further candidates ``x`` (h, d).

        ``weight`` (m + h,) are the weights of all candidates.
        """
        rows = np.concatenate([self.rows, x])
        search = LandmarkSearch(
            self._backend, self._kernel, rows, weight, most, self._rng, self.offset
        )
        features, residual_diagonal = self.features_of(x)
        columns = search._columns[: self.rank]
        columns[:, : len(self.rows)] = self.columns
        columns[:, len(self.rows) :] = features
        search.residual_diagonal = np.concatenate([self.residual_diagonal, residual_diagonal])
        search._pivots = [*self._pivots]
        return search

    def features_of(self, x: HostArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return features (r, h) of rows that are no candidates, and their residual diagonal (h,)."""
        points = self._backend.points(x, EXACT, self.offset)
        pivots = self._backend.points(self.rows[self.pivots], EXACT, self.offset)
        values = np.asarray(self._backend.gram(self._kernel, pivots, points), dtype=np.float64)
        values = np.ascontiguousarray(values)
        nothing = np.empty((0, len(x))), np.empty((0, self.rank))
        eliminated(values, *nothing, self._factor())
        diagonal = np.asarray(self._kernel.diagonal(x), dtype=np.float64)
        diagonal -= np.einsum("ij,ij->j", values, values)
        return values, np.maximum(diagonal, 0.0)

    def _factor(self) -> NDArray[np.float64]:
        """Return the factor of the kernel matrix of the landmarks, which is not to be changed."""
        if self._last_factor is None or len(self._last_factor) != self.rank:
            factor = np.tril(self._columns[: self.rank, self.pivots].T)
            nothing = np.flatnonzero(factor.diagonal() == 0)  # `_never_empty`
            factor[nothing, nothing] = 1.0
            self._last_factor = factor
        return self._last_factor

    def kernel_features(self) -> KernelFeatures:
        """Return the features at the landmarks so far."""
        pivots = np.ascontiguousarray(self.rows[self.pivots])
        return KernelFeatures(self._kernel, pivots, self._factor(), self._backend, self.offset)
