"""The sampled certificate of the low-rank solver: residuals of some rows, and exact terms of all rows.

With ``K = F F' + E`` the residual of row i is ``R_i = -sum_j E_ij B_j``. Its own term ``E_ii B_i`` is known
for every row: ``E_ii`` is the residual diagonal of the features, and all ``B_i`` stream past. So the sample
only estimates the difference ``|R_i|^2 - |E_ii B_i|^2``. Rows far from all others have no other term: the
total counts them exactly, however few they are and however large their right-hand sides.

The other terms come from neighbours that the landmarks do not explain either. The sample measures them in
rows drawn by importance (`RowSample`): by ``E_ii`` (by Cauchy-Schwarz ``|R_i|^2 <= E_ii B'E B``), by the
own terms, by ``E_ii |B_i|^2`` (the size of the error at the row itself), and by weight. A cluster that the
landmarks do not explain may be too small for such a draw. `row_cells` guesses its residuals, and the sample
always has rows of the clusters where they are largest.

At a row outside the sample the residual counts as its own term and twice the largest one in the sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.sums import dot
from fastmcmd.backends.tall_skinny import eigh, inner, row_squares
from fastmcmd.gram import EXACT, GramOperator, KernelFeatures
from fastmcmd.kernels.base import UNIT
from fastmcmd.solvers.base import scaled_norm
from fastmcmd.solvers.certify import SPREAD, rounding
from fastmcmd.solvers.lowrank import LowRankSolution, RowErrors
from fastmcmd.solvers.row_sample import RowGuess, RowSample

__all__ = [
    "LEAST_DRAWS",
    "ResidualSample",
    "SampleState",
    "certified_by_all",
    "floor_of",
    "full_residual_bytes",
    "sampled_rows",
]


# Rows drawn; more if there are many landmarks. Their kernel values, in float64, then cost about as much as
# the image of all rows, in float32.
LEAST_DRAWS, _MOST_DRAWN, _OF_LANDMARKS = 256, 1024, 4
_CERTAIN = 24  # rows always in the sample: the largest by each guess
_LEAST_RESIDUAL = 1e-6  # relative to the mean of e: rows below it are landmarks, or rounding
_UNFORESEEN = 8.0  # ratio of a row's term to its guess from which the guess counts as wrong
_SURPRISE = 0.02  # share of wrongly guessed rows in the total from which the sample is drawn again


def sampled_rows(landmarks: float) -> int:
    """Return how many rows are drawn for the residuals at so many landmarks."""
    return int(min(max(landmarks / _OF_LANDMARKS, LEAST_DRAWS), _MOST_DRAWN))


def floor_of(residual_diagonal: Array, weight: Array | None) -> float:
    """Return the mean of the residual diagonal over all rows, which guesses add to that of each row."""
    mean = (
        residual_diagonal.mean()
        if weight is None
        else np.average(residual_diagonal, weights=weight)
    )
    return float(mean)


@dataclass(frozen=True, eq=False)
class SampleState:
    """The sums of `ResidualSample` so far: ``K B`` and ``F W`` of its rows (s, c), and ``|B|`` of all."""

    image: Array
    seen: Array
    norms: Array


class ResidualSample:
    """Residuals of some rows in float64, summed up while the coefficients of all rows stream past.

    Parameters
    ----------
    features : KernelFeatures
        Features at the landmarks; they supply kernel and backend.
    residual_diagonal : ndarray (n,)
        e(x, x) of every row, plus what rounding may hide of it.
    weight : ndarray (n,) or None
        Weights of the rows.
    norms : ndarray (m, n)
        Guesses of ``|D_i B_i|`` of m models, each up to a common factor.
    terms : sequence of slice
        Columns of each system.
    seed : int
        Seed of the draw: the same call draws the same rows.
    draws : int
        Number of rows to draw.
    guesses : list of RowGuess, for each term, optional
        Guesses of residuals of rows that lie close together. Without them, rows outside the sample have no
        bound of their own.
    """

    def __init__(
        self,
        features: KernelFeatures,
        residual_diagonal: Array,
        weight: Array | None,
        norms: HostArray,
        terms: Sequence[slice],
        seed: int,
        draws: int = LEAST_DRAWS,
        guesses: Sequence[Sequence[RowGuess]] | None = None,
    ) -> None:
        self._guesses = guesses
        self._features, self._residual_diagonal, self._weight = features, residual_diagonal, weight
        self._terms = list(terms)
        self.floor = floor_of(residual_diagonal, weight)
        rng = generator(seed, Purpose.CERTIFICATE)
        self._sample = RowSample(len(residual_diagonal), self._sizes(norms), _CERTAIN, draws, rng)
        self.rows = self._sample.rows
        self._norms = np.zeros((len(self._terms), len(residual_diagonal)))  # |B| of each term
        self._points: Any = None
        self._image: Array | None = None
        self._fitted: Array | None = None

    def _sizes(self, norms: HostArray) -> Iterator[Array | RowGuess]:
        """Yield guesses of the rows' terms in the sum: of all rows (n,), or of some of them."""
        weight = 1.0 if self._weight is None else self._weight
        residual_diagonal = self._residual_diagonal + self.floor
        yield weight * residual_diagonal
        yield np.full(len(residual_diagonal), 1.0) if self._weight is None else self._weight
        for model, norm in enumerate(norms):
            largest = float(norm.max(initial=0.0))
            if not largest > 0.0:
                continue
            squares = (
                residual_diagonal * (weight * (norm / largest)) ** 2
            )  # e |B|^2, without overflow
            yield squares
            yield squares * residual_diagonal * weight
            yield from self._guesses[model] if self._guesses else ()

    def begin(self, x: HostArray, columns: int) -> None:
        """Receive the inputs ``x`` (s, d) of the sampled rows."""
        features = self._features
        self._points = features.backend.points(x, EXACT, features.offset)
        self._image = np.zeros((len(x), columns))
        self._fitted = np.zeros((len(x), columns))

    def add(self, rows: slice, x: HostArray, coefficients: Array, image: Array) -> None:
        """Add a block of rows: coefficients B, and the image ``F W``."""
        assert self._image is not None
        assert self._fitted is not None
        features = self._features
        points = features.backend.points(x, EXACT, features.offset)
        self._image += features.backend.matmul(features.kernel, self._points, points, coefficients)
        first, last = np.searchsorted(self.rows, (rows.start, rows.stop))
        self._fitted[first:last] = image[self.rows[first:last] - rows.start]
        self.account(rows, coefficients)

    def account(self, rows: slice, coefficients: Array) -> None:
        """Add the norms of the rows' coefficients, from which their own terms ``e_i B_i`` follow."""
        for index, columns in enumerate(self._terms):
            self._norms[index, rows] = np.sqrt(row_squares(coefficients[:, columns]))

    def state(self) -> SampleState:
        """Return the sums so far."""
        assert self._image is not None
        assert self._fitted is not None
        return SampleState(self._image, self._fitted, self._norms)

    def restore(self, state: SampleState) -> None:
        """Resume from saved sums."""
        self._image, self._fitted, self._norms = state.image, state.seen, state.norms

    def residual(self) -> Array:
        """Return ``P - (K + D) B`` (s, c) of the sampled rows: ``F W - K B``, because P - D B = F W."""
        assert self._image is not None
        assert self._fitted is not None
        return self._fitted - self._image

    def mean(self, squares: Array) -> float:
        """Return an estimate of ``sum w v`` over all rows from the values v (s,) of the sampled rows."""
        return self._sample.estimate(self._weights * squares)[0]

    @property
    def _weights(self) -> Array:
        return np.ones(len(self.rows)) if self._weight is None else self._weight[self.rows]

    def foresaw(self, guesses: HostArray, terms: HostArray) -> bool:
        """Tell whether the guesses that the sample was drawn from were close enough.

        Parameters
        ----------
        guesses, measured : ndarray (m, n)
            Guessed and true ``|D_i B_i|``.
        """
        weight = 1.0 if self._weight is None else self._weight
        for guess, norm in zip(guesses, terms, strict=True):
            size = weight * ((self._residual_diagonal + self.floor) * weight * norm) ** 2
            before = weight * ((self._residual_diagonal + self.floor) * weight * guess) ** 2
            total, total_before = float(size.sum()), float(before.sum())
            if not total > 0.0:
                continue
            surprising = size * total_before > _UNFORESEEN * before * total
            surprising[self.rows] = False
            if float(size[surprising].sum()) > _SURPRISE * total:
                return False
        return True

    def certified(
        self, index: int, solution: LowRankSolution, residual: Array, weight: float, lam: float
    ) -> LowRankSolution:
        """Return the solution of a system, certified by the residuals (s, r) of the sampled rows.

        For rows outside the sample, the rounding terms are those of ``solution``.
        """
        squares = np.einsum("ij,ij->i", residual, residual)
        scale = 1.0 / (weight * lam)
        residual_diagonal, norms = self._residual_diagonal, self._norms[index]
        own_terms = residual_diagonal * norms
        own_squares = own_terms**2 if self._weight is None else self._weight * own_terms**2
        remainder = self._weights * squares - own_squares[self.rows]
        total = float(own_squares.sum()) + self._sample.upper(remainder)
        # Not below the sum over the rows in the sample.
        total = max(total, float((self._weights * squares).sum())) * scale
        floor = max(self.floor, 1e-30)
        # A cluster beside a landmark: e is small at its rows, not at points beside it.
        squared_size = np.maximum(residual_diagonal[self.rows], _LEAST_RESIDUAL * floor)
        ratio = float(np.sqrt((squares / squared_size).max(initial=0.0)))
        own_most = float((np.sqrt(residual_diagonal) * norms).max(initial=0.0))
        slope, at_rows = float(np.sqrt(total)) / 2, None
        if self._guesses is not None:
            residuals = own_terms + SPREAD * float(np.sqrt(squares.max(initial=0.0)))
            residuals[self.rows] = np.sqrt(squares)
            at_rows = RowErrors(slope, 0.0, residuals)
        return replace(
            solution,
            slope=slope,
            miss=SPREAD * max(ratio, own_most),
            floor=floor,
            kind="sampled",
            rows=at_rows,
        )


_ARRAYS = 5  # (n, c) in float64: coefficients, their image, their product with K, and temporaries


def full_residual_bytes(n: int, columns: int) -> int:
    """Return the bytes that the coefficients and residuals of all rows need."""
    return 8 * n * (_ARRAYS * columns + 4)


def certified_by_all(
    operator: GramOperator,
    solutions: Sequence[LowRankSolution],
    terms: Sequence[tuple[slice, float]],
    value: Array,
    image: Array,
    weight: Array | None,
    total: float,
) -> list[LowRankSolution]:
    """Return solutions with rigorous certificates, from the residuals of all rows.

    Parameters
    ----------
    operator : GramOperator
        K in float64.
    solutions : sequence of LowRankSolution
        Solutions with trace certificates that include rounding.
    terms : sequence of (slice, float)
        Columns and regulariser of each solution.
    value, image : ndarray (n, c)
        Coefficients ``B = D^-1 (P - F W)``, and ``F W``.
    weight : ndarray (n,) or None
        Weights of the rows.
    total : float
        Sum of the weights.
    """
    if operator.holds_rows:
        points = operator.points()
        product = operator.backend.symmetric_matmul(operator.kernel, points, value)
    else:
        product = operator.cross_matmul(operator.x, value, EXACT)
    operator.release()
    certified = []
    for solution, (columns, lam) in zip(solutions, terms, strict=True):
        value_columns = np.ascontiguousarray(value[:, columns])
        image_columns = image[:, columns]
        residual = image_columns - product[:, columns]
        inverse = np.full(len(value_columns), 1.0 / (total * lam))  # of D
        if weight is not None:
            inverse *= weight
        entry = rounding(operator, value_columns)
        # Rounding of the residual in float64: of K B, and of P - D B = F W.
        size = np.sqrt(np.einsum("ij,ij->i", image_columns, image_columns))
        energy = np.einsum("ij,ij->i", value_columns, value_columns)
        operands = math.sqrt(dot(inverse, size**2))
        positive = inverse > 0
        operands += float(np.sqrt((energy[positive] / inverse[positive]).sum()))
        noise = entry * float(np.sqrt(inverse.sum())) + 6 * UNIT * operands
        shift = np.where(positive, 1.0 / np.where(positive, inverse, 1.0), np.inf)
        norm = scaled_norm(residual, shift) + noise
        moment = inner(value_columns, residual)
        moment = (moment + moment.T) / 2
        inside = float(np.abs(eigh(moment, vectors=False)[0]).max(initial=0.0))
        inside = inside * (1 + 1e-12) + solution.energy * (noise + solution.hidden)
        certified.append(
            replace(
                solution,
                slope=norm / 2 + solution.left,
                miss=min(solution.miss, float(np.sqrt(inside))),
                kind="rigorous",
                rows=RowErrors(
                    norm / 2,
                    solution.constant + entry + 6 * UNIT * float(size.max(initial=0.0)),
                    np.sqrt(np.einsum("ij,ij->i", residual, residual)),
                ),
            )
        )
    return certified
