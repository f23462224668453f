"""Sums over rows from which the conditional congruence error at landmarks follows.

With features f(x) of the input kernel at landmarks and residuals ``e_i = p(y_i) - E p(Y_i)`` in features
of the output kernel, ``CCE(x) = |A'S f(x)|`` with ``A = F'WE`` and ``S = (F'WF + N lam I)^-1``. lam enters
at the end, because N grows with every row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.cached import cached_property
from fastmcmd.backends.tall_skinny import eigh, inner, times
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels.base import EPS, UNIT, relative_error
from fastmcmd.streaming.congruence_landmarks import (
    change_of_landmarks,
    joined_landmarks,
    lost_by_change,
    same_landmarks,
)
from fastmcmd.streaming.output_features import Columns

__all__ = ["CongruenceSums", "ModelSums", "Ridge"]

_ERRORS = 4.0  # standard errors, as those of other sampled certificates
_NEGLIGIBLE = 1e-6  # of the trace: by so little a bound may be too large

Array = NDArray[np.float64]
RoundingBounds: TypeAlias = tuple[float, ...]  # bounds on rounding of three sums


@dataclass(frozen=True, eq=False)
class ModelSums:
    """The sums of one model.

    Attributes
    ----------
    cross : ndarray (p, B + 1, r)
        ``F'WE`` for the observed outcomes and for B simulated data sets.
    squares : ndarray (r, r)
        ``E'WE`` of the observed outcomes.
    noise : ndarray (p, p)
        ``F'diag(w^2 |e|^2) F``.
    null : ndarray (p, p) or None
        ``F'diag(w^2 V) F``; None if a prediction of one draw has no spread.
    spread : ndarray (B + 1,)
        ``sum w |e|^2`` of each data set.
    residual : float
        ``sum w rho^2``, where rho bounds the norm of the part of e that output features do not represent.
    proven : bool
        Whether ``residual`` is a bound; it is an estimate if densities are integrated numerically.
    lost : tuple of float (3,)
        Bounds on what rounding changed in ``cross``, ``squares`` (norms of the matrices) and ``residual``.
    """

    cross: Array
    squares: Array
    noise: Array
    null: Array | None
    spread: Array
    residual: float
    proven: bool = True
    lost: RoundingBounds = (0.0, 0.0, 0.0)
    residual_cross: Array | None = (
        None  # (m, r), sum of w_i k~(z, x_i) e_i at the rows z of `Probes`
    )

    def plus(self, other: ModelSums, sign: float) -> ModelSums:
        """Return the sums with those of other rows added, or subtracted (``sign`` is -1)."""
        null = None
        if self.null is not None and other.null is not None:
            null = self.null + sign * other.null
        cross, squares = self.cross + sign * other.cross, self.squares + sign * other.squares
        sizes = [float(np.linalg.norm(part)) for part in (cross[:, 0], squares)]
        sizes.append(self.residual + other.residual)
        rounding_bounds = _summed(self.lost, other.lost, sizes)
        return ModelSums(
            cross,
            squares,
            self.noise + sign * other.noise,
            null,
            np.maximum(self.spread + sign * other.spread, 0.0),
            max(self.residual + sign * other.residual, 0.0),
            self.proven and other.proven,
            rounding_bounds,
            None
            if self.residual_cross is None or other.residual_cross is None
            else self.residual_cross + sign * other.residual_cross,
        )

    def spanning(self, places: NDArray[np.intp], count: int) -> ModelSums:
        """Return the sums with their columns at ``places`` of ``count``, and zeros elsewhere."""
        cross = np.zeros((*self.cross.shape[:2], count))
        cross[:, :, places] = self.cross
        squares = np.zeros((count, count))
        squares[np.ix_(places, places)] = self.squares
        residual_cross = None
        if self.residual_cross is not None:
            residual_cross = np.zeros((len(self.residual_cross), count))
            residual_cross[:, places] = self.residual_cross
        return replace(self, cross=cross, squares=squares, residual_cross=residual_cross)

    def at_landmarks(self, turn: Array) -> ModelSums:
        """Return the sums at other landmarks, whose features are ``turn`` (q, p) times the present ones."""
        return replace(
            self,
            cross=np.tensordot(turn, self.cross, axes=1),
            noise=turn @ self.noise @ turn.T,
            null=None if self.null is None else turn @ self.null @ turn.T,
            residual_cross=None,  # other landmarks leave other residuals
        )


@dataclass(frozen=True, eq=False)
class Probes:
    """Rows at which the residual of the landmarks' solution is measured.

    Attributes
    ----------
    points : ndarray (m, d)
        Rows drawn at random from all rows with a positive weight.
    weights : ndarray (m,)
        Their weights.
    chances : ndarray (m,)
        Probabilities by which they were drawn.
    cross : ndarray (m, p)
        ``sum_i w_i k~(z, x_i) f(x_i)``, with k~ what the landmarks miss of the kernel.
    """

    points: Array
    weights: Array
    chances: Array
    cross: Array

    def plus(self, other: Probes | None, sign: float) -> Probes | None:
        """Return the sums with those of other rows; None if these have other probes."""
        if other is None or not np.array_equal(self.points, other.points):
            return None
        return replace(self, cross=self.cross + sign * other.cross)


@dataclass(frozen=True, eq=False)
class CongruenceSums:
    """Sums of some rows for one or several models.

    Attributes
    ----------
    smoother : Smoother
        Landmarks.
    gram : ndarray (p, p)
        ``F'WF``.
    weight, handled : float
        Sum of the weights, and the same with subtracted rows counted twice; rounding grows with the latter.
    rows : int
        Number of rows.
    ranks : ndarray (t,) of int
        Numbers of landmarks at the times when rows were added: older rows are zero in newer features.
    residual : ndarray (t,)
        ``sum w (k(x, x) - |f(x)|^2)`` over the rows of each of these ranks; at 0, also what changes of
        landmarks lost.
    columns : ndarray (r, 2)
        Output features.
    models : dict of ModelSums
        Sums of each model by name.
    streams : tuple of str
        Random streams of the simulated outcomes.
    lost : tuple of float (3,)
        Bounds on what rounding changed in ``gram`` (the norm of the matrix), ``weight`` and ``residual``.
    """

    smoother: Smoother
    gram: Array
    weight: float
    handled: float
    rows: int
    ranks: NDArray[np.int64]
    residual: Array
    columns: Columns
    models: dict[str, ModelSums]
    streams: tuple[str, ...] = ()
    lost: RoundingBounds = (0.0, 0.0, 0.0)
    probes: Probes | None = None

    def __add__(self, other: CongruenceSums) -> CongruenceSums:
        """Return the sums of the rows of both."""
        return self._combined(other, 1.0)

    def __sub__(self, other: CongruenceSums) -> CongruenceSums:
        """Return the sums without the rows of ``other``, which are part of these."""
        return self._combined(other, -1.0)

    def _combined(self, other: CongruenceSums, sign: float) -> CongruenceSums:
        smoother = joined_landmarks(self.smoother, other.smoother)
        columns = np.unique(np.concatenate([self.columns, other.columns]), axis=0)
        one, two = (part.at(smoother).spanning(columns) for part in (self, other))
        ranks = np.union1d(one.ranks, two.ranks)
        residual = np.zeros(len(ranks))
        residual[np.searchsorted(ranks, one.ranks)] += one.residual
        residual[np.searchsorted(ranks, two.ranks)] += sign * two.residual
        gram, weight = one.gram + sign * two.gram, one.weight + sign * two.weight
        residual_trace = float(one.residual.sum() + two.residual.sum())
        rounding_bounds = _summed(
            one.lost, two.lost, [float(np.linalg.norm(gram)), weight, residual_trace]
        )
        streams = set(one.streams) | set(two.streams)
        if sign < 0:
            streams = set(one.streams) - set(two.streams)
        return CongruenceSums(
            smoother,
            gram,
            weight,
            one.handled + two.handled,
            one.rows + int(sign) * two.rows,
            ranks,
            np.maximum(residual, 0.0),
            columns,
            {name: sums.plus(two.models[name], sign) for name, sums in one.models.items()},
            tuple(sorted(streams)),
            rounding_bounds,
            None if one.probes is None else one.probes.plus(two.probes, sign),
        )

    def at(self, smoother: Smoother) -> CongruenceSums:
        """Return the sums converted to landmarks that include the present ones."""
        if same_landmarks(self.smoother, smoother):
            return self
        turn, common = change_of_landmarks(self.smoother, smoother)
        gram = turn @ self.gram @ turn.T
        lost = lost_by_change(self.smoother, smoother, turn, common, self.gram)
        ranks, residual = np.minimum(self.ranks, common), self.residual
        if lost > 0:  # in any direction; norms of both parts of a row add
            lost += 2 * float(np.sqrt(lost * residual.sum()))
            ranks, residual = np.append(ranks, 0), np.append(residual, lost)
        return replace(
            self,
            smoother=smoother,
            gram=gram,
            ranks=ranks,
            residual=residual,
            probes=None,
            models={name: sums.at_landmarks(turn) for name, sums in self.models.items()},
        ).merged_ranks()

    def merged_ranks(self) -> CongruenceSums:
        """Return the sums with each rank listed once."""
        ranks, place = np.unique(self.ranks, return_inverse=True)
        residual = np.asarray(np.bincount(place, self.residual, len(ranks)), dtype=np.float64)
        return replace(self, ranks=ranks, residual=residual)

    def spanning(self, columns: Columns) -> CongruenceSums:
        """Return the sums with additional output features, which are zero in all rows."""
        if len(columns) == len(self.columns):
            return self
        place = {tuple(one): index for index, one in enumerate(columns.tolist())}
        positions = np.array([place[tuple(one)] for one in self.columns.tolist()], dtype=np.intp)
        models = {
            name: sums.spanning(positions, len(columns)) for name, sums in self.models.items()
        }
        return replace(self, columns=columns, models=models)

    @property
    def numbers(self) -> int:
        """Count of numbers in the sums: p^2 (1 + excess + null) + p r (1 + B) + r^2 for each model."""
        count = self.gram.size
        for one in self.models.values():
            null = 0 if one.null is None else one.null.size
            count += one.cross.size + one.squares.size + one.noise.size + null
        return count


@dataclass(frozen=True, eq=False)
class Ridge:
    """The results from the sums of one model at a regulariser.

    Attributes
    ----------
    sums : CongruenceSums
        The rows.
    model : ModelSums
        Sums of this model.
    lam : float
        Regulariser.
    """

    sums: CongruenceSums
    model: ModelSums
    lam: float

    @property
    def shift(self) -> float:
        """``N lam``."""
        return self.lam * self.sums.weight

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (p,) of ``F'WF``, and its eigenvectors as columns (p, p)."""
        values, vectors = eigh(self.sums.gram)
        return np.maximum(values, 0.0), vectors

    def energy(self, lam: float) -> Array:
        """Return ``s / (s + N lam)^2 / N`` (p,) for the eigenvalues s of ``F'WF``."""
        values = self.eigen[0]
        return np.asarray(values / (values + lam * self.sums.weight) ** 2 / self.sums.weight)

    def mean_squares(self, lam: float) -> Array:
        """Return the mean over the rows of CCE(x)^2 (B + 1,) of each data set."""
        rotated = np.tensordot(self.eigen[1].T, self.model.cross, axes=1)
        return np.asarray(self.energy(lam) @ np.einsum("pbr,pbr->pb", rotated, rotated))

    def mean_form(self, moments: Array) -> float:
        """Return the mean over the rows of ``f(x)'S M S f(x)``."""
        vectors = self.eigen[1]
        return float(
            self.energy(self.lam) @ np.einsum("pk,pk->k", vectors, times(moments, vectors))
        )

    def solved(self, f: Array) -> Array:
        """Return ``f(x)'S`` (q, p) for features (q, p), with ``S = (F'WF + N lam)^-1``."""
        values, vectors = self.eigen
        return times(times(f, vectors) / (values + self.shift), vectors.T)

    @cached_property
    def coefficients(self) -> Array:
        """``S A`` (p, r): its product with f(x) is the embedding of the misfit at x."""
        values, vectors = self.eigen
        return times(
            vectors, inner(vectors, self.model.cross[:, 0]) / (values + self.shift)[:, None]
        )

    @cached_property
    def _size(self) -> float:
        return float(np.linalg.norm(self.coefficients))

    @cached_property
    def _gram_error(self) -> float:
        """Bound the rounding in ``F'WF + N lam``, and in its eigenvalues."""
        gram, weight, _ = self.sums.lost
        eigenvalue_error = relative_error(8 * len(self.sums.gram), UNIT) * float(
            np.trace(self.sums.gram)
        )
        return gram + self.lam * weight + abs(eigenvalue_error)

    @property
    def _solution_error(self) -> float:
        """Bound on ``(G + N lam) d``, d what rounding changed in the solution.

        With ``(G~ + mu~) C~ = A~`` as computed and ``(G + mu) C = A``,
        ``(G + mu) (C~ - C) = A~ - A - (G~ + mu~ - G - mu) C~``, where G is positive semi-definite. So
        ``|d|`` is at most this over mu, and ``|G^1/2 d|`` at most this over ``2 sqrt(mu)``.
        """
        return self.model.lost[0] + self._gram_error * self._size

    @property
    def _least_shift(self) -> float:
        return max(self.shift - self.lam * self.sums.lost[1], 1e-300)

    @property
    def _root_error(self) -> float:
        """Bound on ``|G^1/2 d|``."""
        return float(self._solution_error / (2 * np.sqrt(self._least_shift)))

    @property
    def _value_error(self) -> float:
        """Bound the rounding in the root of the sum of CCE(x)^2 over the rows."""
        values, vectors = self.eigen
        size = float(np.sqrt(values @ (inner(vectors, self.coefficients) ** 2).sum(axis=1)))
        square = self._gram_error * self._size**2
        # |sqrt(a) - sqrt(b)| is at most sqrt(|a - b|), and |a - b| / sqrt(a).
        rounding_error = min(np.sqrt(square), square / size) if size > 0 else np.sqrt(square)
        share = self.sums.lost[1] / self.sums.weight
        return float(
            rounding_error
            + self._root_error
            + (size + rounding_error) * share / max(1 - share, 1e-300)
        )

    @property
    def dual_norm(self) -> float:
        """Bound on ``|W^1/2 B|_2 = |W^1/2 (E - F S A)|_2 / (N lam)``, the norm of the dual solution."""
        return self._dual_norms[0]

    @cached_property
    def _dual_norms(self) -> tuple[float, float]:
        """Bounds on the spectral and on the Frobenius norm of the dual solution."""
        gram, size = self.sums.gram, self._size
        fitted = inner(self.model.cross[:, 0], self.coefficients)
        residual_squares = self.model.squares - fitted - fitted.T
        residual_squares += inner(self.coefficients, times(gram, self.coefficients))
        cross_error, squares_error, _ = self.model.lost
        rounding = squares_error + 2 * cross_error * size + self._gram_error * size**2
        sizes = np.linalg.norm(self.model.squares), np.linalg.norm(self.model.cross[:, 0]) * size
        rounding += relative_error(4 * (len(gram) + len(residual_squares)), UNIT) * float(
            sizes[0] + 2 * sizes[1] + np.linalg.norm(gram) * size**2
        )
        largest = _largest_eigenvalue((residual_squares + residual_squares.T) / 2)
        # W^1/2 (E - F C) = W^1/2 (E - F C~) + W^1/2 F d
        squares = max(largest, 0.0), max(float(np.trace(residual_squares)), 0.0)
        ranks = 1, max(len(residual_squares), 1)
        spectral, frobenius = (
            float(np.sqrt(square + rank * rounding) + np.sqrt(rank) * self._root_error)
            / self._least_shift
            for square, rank in zip(squares, ranks, strict=True)
        )
        return spectral, frobenius

    @cached_property
    def _new_directions(self) -> float:
        """Bound on the solution's part in directions that older landmarks did not give their rows."""
        total = 0.0
        for rank, residual in zip(self.sums.ranks, self.sums.residual, strict=True):
            total += float(residual) * float((self.coefficients[int(rank) :] ** 2).sum())
        return float(np.sqrt(total))

    @property
    def _residual_trace(self) -> float:
        return float(self.sums.residual.sum()) + self.sums.lost[2]

    @property
    def _output_residual(self) -> float:
        return float(np.sqrt(self.model.residual + self.model.lost[2]))

    @property
    def _nested(self) -> bool:
        return bool((self.sums.ranks == self.sums.smoother.rank).all())

    def error_bound(self) -> float:
        """Return a bound on the error of the root mean square over the rows.

        With ``tau = sum w (k(x, x) - |f(x)|^2)`` and ``mu = N lam``, inputs contribute
        ``min(sqrt(mu) / 2, sqrt(tau)) sqrt(tau) |B|_2 / sqrt(N)``. Rows from before the landmarks grew
        contribute twice the solution's part in the new directions, and outputs ``sqrt(sum w rho^2 / N)``.
        Rounding that subtracted rows leave is added.
        """
        tau = self._residual_trace
        factor = np.sqrt(self.shift) / 2
        if self._nested:
            factor = min(factor, np.sqrt(tau))
        inputs = factor * np.sqrt(tau) * self.dual_norm + 2 * self._new_directions
        total = inputs + self._output_residual + self._value_error
        return float(total / np.sqrt(self.sums.weight))

    @cached_property
    def sampled_residual(self) -> float:
        """Estimate of ``|W^1/2 K~ B|_F / sqrt(N)`` plus four standard errors; infinite without probes.

        With the solution B at the landmarks, ``R = K~ B`` is the residual of the system without landmarks.
        The errors at the rows are ``mu (K + mu)^-1 R``: their root mean square is at most that of R.
        """
        probes, residual_cross = self.sums.probes, self.model.residual_cross
        if probes is None or residual_cross is None:
            return float("inf")
        residual = (residual_cross - probes.cross @ self.coefficients) / self.shift
        squares = probes.weights * np.einsum("ij,ij->i", residual, residual) / probes.chances
        error = float(np.sqrt(((1 - probes.chances) * squares**2).sum()))
        return float(np.sqrt((squares.sum() + _ERRORS * error) / self.sums.weight))

    def sampled_bound(self) -> float:
        """Return the bound of `error_bound` with a measured residual in place of a bound on it."""
        other_errors = self._output_residual + self._value_error
        return (
            self.sampled_residual
            + 2 * self._new_directions
            + other_errors / float(np.sqrt(self.sums.weight))
        )

    def sampled_bounds(self, diagonal: Array, residual: Array) -> Array:
        """Return the bounds (q,) of `error_bounds` with a measured residual.

        With ``R = K~ B`` the error at x is ``k~(x)'B - k(x)'(K + mu)^-1 R``, whose parts are at most
        ``sqrt(k~(x, x) tr B'R)`` and ``sqrt(k(x, x) / mu) |R| / 2``.
        """
        size = np.sqrt(diagonal)
        dual_error = self._dual_norms[1] * self.sampled_residual * float(np.sqrt(self.sums.weight))
        other_errors = np.sqrt(residual) * np.sqrt(dual_error)
        other_errors = other_errors + size * (self._new_directions + self._output_residual) / (
            2 * np.sqrt(self.shift)
        )
        inner = size * self.sampled_residual / (2 * np.sqrt(self.lam))
        return np.asarray(inner + other_errors + size * self._solution_error / self._least_shift)

    def error_bounds(self, diagonal: Array, residual: Array) -> Array:
        """Return bounds (q,) on the error at points, given k(x, x) and ``k(x, x) - |f(x)|^2`` (q,)."""
        tau, size = self._residual_trace, np.sqrt(diagonal)
        factor = size
        if self._nested:
            factor = np.minimum(
                size, np.sqrt(residual) + np.sqrt(min(1.0, tau / self.shift)) * size
            )
        inputs = factor * np.sqrt(tau) * self.dual_norm
        outputs = size * (self._new_directions + self._output_residual) / (2 * np.sqrt(self.shift))
        return np.asarray(inputs + outputs + size * self._solution_error / self._least_shift)


def _largest_eigenvalue(matrix: Array) -> float:
    """Bound the largest eigenvalue of a positive semi-definite matrix, to a millionth of its trace.

    It is at most the sum of those of two diagonal blocks. Most output features of heavy tails lie where
    hardly any mass is: the trace of their block is enough.
    """
    if not len(matrix):
        return 0.0
    diagonal = np.maximum(np.diagonal(matrix), 0.0)
    order = np.argsort(diagonal, kind="stable")
    tails = np.cumsum(diagonal[order])
    count = int(np.searchsorted(tails, _NEGLIGIBLE * tails[-1], side="right"))
    some = np.sort(order[count:])
    if not len(some):
        return 0.0
    bound = float(np.linalg.eigvalsh(matrix[np.ix_(some, some)])[-1])
    return bound + float(tails[count - 1] if count else 0.0)


def _summed(one: RoundingBounds, two: RoundingBounds, sizes: list[float]) -> RoundingBounds:
    """Return the rounding of sums of these sizes, added or subtracted."""
    return tuple(a + b + EPS * size for a, b, size in zip(one, two, sizes, strict=True))
