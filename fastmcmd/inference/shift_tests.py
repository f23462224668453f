"""Permutation tests of a batch against earlier rows, for P(x), P(y) and P(y | x).

Under the null hypothesis the rows of the batch and the earlier ones are exchangeable. So the p-value of a
permutation test is valid given the set of all rows. Any function of this set alone, or of other rows, may
enter the test: kernels and landmarks come from rows that are set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.tall_skinny import inner, times
from fastmcmd.inference.exchangeable import NORMAL_IQR
from fastmcmd.inference.inputs import InputMap, input_map
from fastmcmd.inference.smoother import Basis, Smoother
from fastmcmd.kernels.base import KernelLike

__all__ = ["BatchTest", "View", "batch_p_values", "cells_of", "log_odds"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]

_LANDMARKS = 60
_LOCAL = 12  # leading coordinates of x in which differences of P(y | x) are tested
_FARTHEST = 5.0  # standard deviations at which a value of a column is clipped
_LARGEST = 1e9  # the same before squares are is_marked
_ROUNDING = 1e-10  # of the sum of a feature's sizes: smaller sums of its deviations are rounding
_LEAST_SQUARE = 1e-6  # of the mean square: smaller ones count as this
_TIE = 1e-4  # standard deviations: closer statistics are equal up to single precision
_RIDGE = 1e-3  # ridge of the regression of features of y on x, relative to the number of rows
_CELL = 24  # smallest number of rows of a cell
_MOST_CELLS = 64
_ROUNDS = 20  # largest number of steps of Newton's method


@dataclass(frozen=True, eq=False)
class View:
    """Features of rows (n, k): kernel features at landmarks, and standardised columns with their squares.

    Attributes
    ----------
    centre, scale : ndarray (k,)
        Medians and spreads of the columns; 1 for a column that is constant.
    mapping : InputMap
        Rows as the kernel receives them.
    basis : Basis
        Coordinates of the kernel.
    """

    centre: Array
    scale: Array
    mapping: InputMap
    basis: Basis

    @staticmethod
    def of(rows: Array, name: str, kernel: KernelLike = None) -> View:
        """Return a view with scales and landmarks from rows (n, k); messages call them ``name``."""
        mapping = input_map(rows, kernel, name=name)
        smoother = Smoother.of(mapping.kernel, mapping(rows), _LANDMARKS)
        first, centre, third = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
        scale = third / NORMAL_IQR - first / NORMAL_IQR  # the difference itself may leave float64
        flat = np.flatnonzero(~(scale > 0))
        for column in flat:  # most values are equal
            gaps = np.abs(rows[:, column] - centre[column])
            scale[column] = float(np.mean(gaps / len(gaps)) * len(gaps)) or 1.0
        return View(centre, scale, mapping, smoother.basis(mapping(rows)))

    def standardised(self, rows: Array) -> Array:
        """Return columns (n, k) minus their medians, over their spreads, as finite numbers."""
        with np.errstate(over="ignore"):
            z = (rows / 2 - self.centre / 2) / (self.scale / 2)
        return np.clip(z, -_LARGEST, _LARGEST)

    def columns(self, rows: Array) -> Array:
        """Return standardised columns and their squares (n, 2 k)."""
        z = np.clip(self.standardised(rows), -_FARTHEST, _FARTHEST)
        return np.concatenate([z, z * z], axis=1)

    def features(self, rows: Array) -> Array:
        """Return kernel features (n, p), the leading features first."""
        return self.basis.coordinates(self.mapping(rows))[:, ::-1]


@dataclass(frozen=True)
class BatchTest:
    """P-values of the three questions: P(x), P(y) and P(y | x)."""

    x: float
    y: float
    y_given_x: float


def batch_p_values(
    x: tuple[View, Array],
    y: tuple[View, Array],
    score: tuple[View, Array] | None,
    batch: NDArray[np.bool_],
    simulations: int,
    rng: np.random.Generator,
) -> BatchTest:
    """Return permutation p-values of a batch among all rows.

    Parameters
    ----------
    x, y, score : (View, ndarray (n, k))
        Inputs, outcomes and normal scores of the outcomes given their predictions (None: no predictions).
    batch : ndarray (n,) of bool
        Mask of the batch.
    simulations : int
        Number of permutations.
    rng : numpy.random.Generator
        Source of the permutations.
    """
    all_rows = [np.arange(len(batch))]
    parts = [view.features(rows) for view, rows in (x, y)]
    sums = _permuted_sums(batch, all_rows, simulations, rng)
    p = [
        _p_value(sums, [features, view.columns(rows)])
        for features, (view, rows) in zip(parts, (x, y), strict=True)
    ]
    # P(y | x): residuals of a regression on x, permuted within cells of x.
    kinds = [parts[1], y[0].columns(y[1])]
    if score is not None:
        kinds += [score[0].features(score[1]), score[0].columns(score[1])]
    design = np.concatenate([np.ones((len(batch), 1)), parts[0], x[0].columns(x[1])], axis=1)
    residuals = _regressed(np.concatenate(kinds, axis=1), design)
    ends = np.cumsum([kind.shape[1] for kind in kinds])[:-1]
    local = parts[0][:, :_LOCAL]
    statistics = []
    for one in np.split(residuals, ends, axis=1):
        statistics.append(one)
        statistics.append(np.einsum("np,nr->npr", local, one).reshape(len(batch), -1))
    sums = _permuted_sums(batch, cells_of(x[0].standardised(x[1])), simulations, rng)
    return BatchTest(p[0], p[1], _p_value(sums, statistics))


def _permuted_sums(
    batch: NDArray[np.bool_],
    cells: list[NDArray[np.intp]],
    simulations: int,
    rng: np.random.Generator,
) -> Callable[[Array], Array]:
    """Return the function that sums features over the batch and permuted batches, minus their mean."""
    labels = np.empty((simulations + 1, len(batch)), dtype=np.float32)
    counts = [int(np.count_nonzero(batch[cell])) for cell in cells]
    mean, filler = np.empty((2, len(batch)), dtype=np.float32)
    for cell, count in zip(cells, counts, strict=True):
        mean[cell] = batch[cell].astype(np.float32).mean()
        filler[cell] = 2 * count > len(cell)
    labels[0], labels[1:] = batch, filler
    for cell, count in zip(cells, counts, strict=True):
        _mark(labels[1:], cell, min(count, len(cell) - count), 1 - filler[cell[0]], rng)
    labels -= mean
    return lambda features: np.asarray(labels @ features.astype(np.float32), dtype=np.float64)


def _mark(
    labels: NDArray[np.float32],
    cell: NDArray[np.intp],
    count: int,
    mark: np.float32,
    rng: np.random.Generator,
) -> None:
    """Set ``count`` random places of a cell, none of which is marked, to ``mark`` in each row.

    Every subset is equally likely (Floyd's algorithm; Bentley & Floyd, *A sample of brilliance*,
    Communications of the ACM, 1987). It draws as many numbers as there are marks, which is fewer than a
    permutation of the cell.
    """
    rows = np.arange(len(labels))
    for last in range(len(cell) - count, len(cell)):
        place = cell[rng.integers(0, last + 1, size=len(rows))]
        is_marked = labels[rows, place] == mark
        labels[rows, np.where(is_marked, cell[last], place)] = mark


def _p_value(sums: Callable[[Array], Array], kinds: list[Array]) -> float:
    """Return the p-value of the largest studentised squared norm over several kinds of features.

    Batches whose statistics differ by rounding are equal: of values that are all the same, or nearly all,
    sums over consecutive rows round unlike those over permuted rows.
    """
    squares = np.stack([_squares(sums, features) for features in kinds])
    mean = squares.mean(axis=1, keepdims=True)
    least = np.where(mean > 0, _LEAST_SQUARE * mean, 1.0)
    logs = np.log(np.maximum(squares, least))
    spread = logs.std(axis=1, keepdims=True)
    centred = logs - logs.mean(axis=1, keepdims=True)
    usable = spread > _TIE
    score = np.divide(centred, spread, out=np.zeros_like(centred), where=usable).max(axis=0)
    return float(np.count_nonzero(score >= score[0] - _TIE) / score.size)


def _squares(sums: Callable[[Array], Array], features: Array) -> Array:
    """Return the squared norms of the sums of features (n, r) in all batches; 0 if all are rounding."""
    squares = (sums(features - features.mean(axis=0)) ** 2).sum(axis=1)
    rounding = _ROUNDING * np.abs(features).sum(axis=0)
    return squares if squares.mean() > rounding @ rounding else np.zeros_like(squares)


def _regressed(values: Array, design: Array) -> Array:
    """Return the residuals of a ridge regression of values (n, r) on a design (n, p)."""
    gram = inner(design, design)
    gram[np.diag_indices(len(gram))] += _RIDGE * len(design)
    slopes = np.asarray(np.linalg.solve(gram, inner(design, values)))
    return times(design, slopes, base=values, sign=-1.0)


def cells_of(x: Array) -> list[NDArray[np.intp]]:
    """Return cells of rows with similar inputs, by repeated halving along the widest column."""
    least = max(_CELL, len(x) // _MOST_CELLS)
    cells, pending = [], [np.arange(len(x))]
    while pending:
        rows = pending.pop()
        if len(rows) >= 2 * least:
            low, high = np.quantile(x[rows], [0.1, 0.9], axis=0)
            column = int(np.argmax(high - low))
            middle = np.median(x[rows, column])
            below = x[rows, column] <= middle
            if least <= np.count_nonzero(below) <= len(rows) - least:
                pending += [rows[below], rows[~below]]
                continue
        cells.append(rows)
    return cells


def log_odds(basis_features: Array, batch: NDArray[np.bool_]) -> Array:
    """Return the coefficients (p + 1,) of a logistic regression of "is in the batch", an intercept last.

    The penalty is that of a Gaussian process whose covariance is the kernel.
    """
    design = np.concatenate([basis_features, np.ones((len(batch), 1))], axis=1)
    penalty = np.ones(design.shape[1])
    penalty[-1] = 1e-6
    share = np.clip(batch.mean(), 1e-9, 1 - 1e-9)
    slopes = np.zeros(design.shape[1])
    slopes[-1] = np.log(share / (1 - share))
    logits = design @ slopes
    loss = _logistic_loss(logits, batch, penalty, slopes)
    for _ in range(_ROUNDS):
        odds = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
        slope = design.T @ (batch - odds) - penalty * slopes
        curve = inner(design, design, scale=odds * (1 - odds)) + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        for _ in range(_ROUNDS):  # full steps diverge if a straight line separates the batch
            candidate = slopes + step
            logits = design @ candidate
            improved = _logistic_loss(logits, batch, penalty, candidate)
            if improved <= loss:
                break
            step /= 2
        slopes, loss = candidate, improved
        if np.abs(step).max() < 1e-8:
            break
    return slopes


def _logistic_loss(logits: Array, batch: NDArray[np.bool_], penalty: Array, slopes: Array) -> float:
    """Return the penalised negative log-likelihood."""
    signed = np.where(batch, -logits, logits)
    return float(np.logaddexp(0.0, signed).sum() + 0.5 * penalty @ np.square(slopes))
