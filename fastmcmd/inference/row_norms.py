"""Squared norms of output embeddings, row by row: ``|e_i|^2`` of residuals and ``V_i`` of predictions.

``e_i = p(y_i) - m_i`` with ``m_i = E p(Y_i)``, and ``V_i = E k(Y_i, Y_i) - |m_i|^2`` is the value of
``E |e_i|^2`` if the prediction is right. Both come from features of the output kernel if it has low rank,
and otherwise from kernel values within each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends import get_backend
from fastmcmd.embedding.candidates import candidates, chunks, has_nodes, row_candidates
from fastmcmd.embedding.expected import Expectation
from fastmcmd.embedding.line import LineFeatures, common_line_features, serves_on_line
from fastmcmd.embedding.pivots import Pool
from fastmcmd.embedding.sample import DrawnOutputs, Outputs, PredictedOutputs
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.expectation import closed_form_rows, expected_kernel

__all__ = [
    "FeatureMap",
    "embedded",
    "mean_features",
    "member_spread",
    "output_features",
    "own_products",
    "row_norms",
]

Array = NDArray[np.float64]

_RESIDUAL = 1e-12  # target for the residual of an output under the features, relative to k(y, y)
_UNEXPLAINED = (
    1e-8  # of k(y, y): permitted residual of the squared norm of a prediction's embedding
)
_ROUNDS = 4  # rounds of adding outputs of the rows with the largest residuals
_ROWS_ADDED = 100
_GOAL = 1e-6  # target error of embeddings by quadrature, relative to sqrt(k(y, y))
_LOOKED_AT = 500  # rows at which the residual is measured
_FEW_PIVOTS = 128  # enough pivots unless predictions are wide relative to the kernel
_MOST_RANK = 512  # with a larger rank, kernel values within each row take less time
_BLOCK = 16  # rows with kernel values between all of them, though only those within a row count
_FEATURE_VALUES = 1 << 22  # feature values in memory at once


def output_features(
    kernel: Kernel, y: Array, outputs: Sequence[Outputs], most: int = _MOST_RANK, best: bool = False
) -> KernelFeatures | None:
    """Return features of the output kernel that cover outcomes and predictions.

    Parameters
    ----------
    kernel : Kernel
        Resolved output kernel.
    y : ndarray (n, k)
        Outcomes.
    outputs : sequence of Outputs
        Predictions of the same rows by one or several models.
    most : int
        Largest rank.
    best : bool
        Whether to return features with larger residuals if that rank is not enough; else None.
    """
    backend = get_backend("auto", kernel).directly()
    parts = [(np.asarray(y, dtype=np.float64), np.ones(len(y)))]
    for side in outputs:
        if isinstance(side, DrawnOutputs):
            flat = np.asarray(side.flat, dtype=np.float64)
            parts.append((flat, np.ones(len(flat))))
        else:
            parts.append(candidates(side.prediction))
    pool = Pool(kernel, backend, parts)
    residual = _RESIDUAL
    selected = pool.features(residual, most)
    while selected is None and best and residual < 0.1:
        residual *= 100
        selected = pool.features(residual, most)
    if selected is None:
        return None
    features = selected[0]
    for attempt in range(_ROUNDS):
        more = []
        for side in outputs:
            if not isinstance(side, DrawnOutputs):
                rows = _unexplained_rows(features, side.prediction)
                if len(rows):
                    more.append(row_candidates(side.prediction.take(rows), kernel, attempt))
        if not more:
            return features
        pool.add(more)
        selected = pool.features(residual, most)
        if selected is None:
            return features if best else None
        features = selected[0]
    return features


def _unexplained_rows(features: KernelFeatures, prediction: Predictive) -> NDArray[np.intp]:
    """Return the rows whose embeddings have the largest residuals, if any is too large."""
    rows = np.unique(np.linspace(0, len(prediction) - 1, _LOOKED_AT).astype(np.intp))
    some = prediction.take(rows)
    residual, _, floor = _expectation(features, some).coverage(some)
    largest = float(features.kernel.diagonal(features.pivots).max())
    short = np.flatnonzero(residual**2 > max(4 * floor**2, _UNEXPLAINED * largest))
    return rows[np.sort(short[np.argsort(-residual[short], kind="stable")[:_ROWS_ADDED]])]


def _expectation(features: KernelFeatures, prediction: Predictive) -> Expectation:
    largest = float(features.kernel.diagonal(features.pivots).max())
    return Expectation(features, prediction, goal=_GOAL * float(np.sqrt(largest)))


def mean_features(features: KernelFeatures, outputs: Outputs) -> Array:
    """Return ``E p(Y_i)`` (n, r) for each row."""
    if not isinstance(outputs, DrawnOutputs):
        out = np.empty((len(outputs.prediction), features.rank))
        expectation = _expectation(features, outputs.prediction)
        for rows, part in chunks(outputs.prediction, features.rank):
            out[rows] = expectation.of(part).mean
        return out
    n, draws, columns = outputs.values.shape
    out = np.empty((n, features.rank))
    step = max(1, _FEATURE_VALUES // (draws * features.rank))
    for start in range(0, n, step):
        block = np.asarray(outputs.values[start : start + step], dtype=np.float64)
        p = features.transform(block.reshape(-1, columns))
        out[start : start + step] = p.reshape(len(block), draws, -1).mean(axis=1)
    return out


class FeatureMap(Protocol):
    """Features of outputs: `KernelFeatures`, or some columns of others."""

    @property
    def rank(self) -> int:
        """Number of features r."""

    def transform(self, y: Array) -> Array:
        """Return the features (n, r) of outputs (n, k)."""


def member_spread(features: FeatureMap, outputs: DrawnOutputs, mean: Array) -> Array:
    """Return ``s_i^2`` (n,), the variance of the features of a row's l draws, with divisor l - 1."""
    n, draws, columns = outputs.values.shape
    squares = np.empty(n)
    step = max(1, _FEATURE_VALUES // (draws * features.rank))
    for start in range(0, n, step):
        block = np.asarray(outputs.values[start : start + step], dtype=np.float64)
        p = features.transform(block.reshape(-1, columns))
        squares[start : start + step] = (p**2).sum(axis=1).reshape(len(block), draws).mean(axis=1)
    return np.maximum(squares - (mean**2).sum(axis=1), 0.0) * draws / max(draws - 1, 1)


def row_norms(kernel: Kernel, y: Array, outputs: Outputs) -> tuple[Array, Array | None]:
    """Return ``|e_i|^2`` (n,) and ``V_i`` (n,) of each row.

    For l draws ``V_i`` is ``s_i^2 (1 + 1 / l)``, where s_i^2 is their variance in the kernel's space: the
    mean of ``|e_i|^2`` if the outcome is one more draw. It is None for a single draw, which has no
    variance.

    Parameters
    ----------
    kernel : Kernel
        Resolved output kernel.
    y : ndarray (n, k)
        Outcomes.
    outputs : Outputs
        The prediction of each row.
    """
    y = np.asarray(y, dtype=np.float64)
    embedding = None
    if isinstance(outputs, DrawnOutputs) or has_nodes(outputs.prediction):
        within = _within_rows(kernel, outputs)
        embedding = embedded(kernel, y, [outputs], _MOST_RANK, best=not within, line=not within)
    if embedding is None:
        cross, inner, diagonal = _inner_products(kernel, y, outputs)
        errors = np.maximum(kernel.diagonal(y) - 2 * cross + inner, 0.0)
        variances = np.maximum(diagonal - inner, 0.0)
    else:
        _, observed, (mean,) = embedding
        errors = ((observed - mean) ** 2).sum(axis=1)
        inner = (mean**2).sum(axis=1)
        variances = np.maximum(own_products(kernel, outputs) - inner, 0.0)
    if not isinstance(outputs, DrawnOutputs):
        return errors, variances
    draws = outputs.values.shape[1]
    return errors, None if draws == 1 else variances * (draws + 1) / (draws - 1)


def embedded(
    kernel: Kernel,
    y: Array,
    outputs: Sequence[Outputs],
    most: int,
    best: bool = False,
    line: bool = True,
) -> tuple[KernelFeatures | LineFeatures, Array, list[Array]] | None:
    """Return features, features of outcomes (n, r), and expected features (n, r) for each model.

    Parameters
    ----------
    kernel, y, outputs, most, best
        As in `output_features`.
    line : bool
        Whether to use features on panels of the line if few pivots are not enough. More pivots would have
        to cover tails at the spacing of the kernel's width, which takes minutes and still leaves an error.
    """
    features = None
    if line and _serves_on_line(kernel, outputs):
        features = output_features(kernel, y, outputs, _FEW_PIVOTS)
        if features is None:
            on_line = _on_line(kernel, y, outputs)
            if on_line is not None:
                return on_line
    if features is None:
        features = output_features(kernel, y, outputs, most, best)
    if features is None:
        return None
    return features, features.transform(y), [mean_features(features, side) for side in outputs]


def _serves_on_line(kernel: Kernel, outputs: Sequence[Outputs]) -> bool:
    return all(
        not isinstance(side, DrawnOutputs) and serves_on_line(kernel, side.prediction)
        for side in outputs
    )


def _on_line(
    kernel: Kernel, y: Array, outputs: Sequence[Outputs]
) -> tuple[LineFeatures, Array, list[Array]] | None:
    """Return `embedded` with features on panels of the line, or None if these are too many."""
    predictions = [side.prediction for side in outputs if isinstance(side, PredictedOutputs)]
    values, where = np.unique(y[:, 0], return_inverse=True)
    goal = _GOAL * float(np.sqrt(kernel.diagonal(values[:1, None])[0]))
    common = common_line_features(kernel, values, predictions, goal)
    if common is None:
        return None
    features, means, _ = common
    return features, features.transform(values[:, None])[where.reshape(-1)], means


def _within_rows(kernel: Kernel, outputs: Outputs) -> bool:
    """Tell whether products of embeddings within a row are short sums, or have closed forms."""
    if isinstance(outputs, DrawnOutputs) or outputs.prediction.discrete:
        return True
    first = outputs.prediction.take(np.zeros(1, dtype=np.intp))
    return closed_form_rows(first, kernel, first) is not None


def own_products(kernel: Kernel, outputs: Outputs) -> Array:
    """Return ``E k(Y_i, Y_i)`` (n,)."""
    if isinstance(outputs, DrawnOutputs):
        n, draws, _columns = outputs.values.shape
        flat = np.asarray(outputs.flat, dtype=np.float64)
        return np.asarray(kernel.diagonal(flat).reshape(n, draws).mean(axis=1))
    prediction = outputs.prediction
    if kernel.translation_invariant:
        return np.asarray(kernel.diagonal(np.zeros((len(prediction), prediction.columns))))
    out = np.empty(len(prediction))
    for rows, part in chunks(prediction, prediction.node_count):
        values, weights = part.nodes()
        diagonal = kernel.diagonal(values.reshape(-1, prediction.columns))
        out[rows] = (weights * diagonal.reshape(weights.shape)).sum(axis=1)
    return out


def _inner_products(kernel: Kernel, y: Array, outputs: Outputs) -> tuple[Array, Array, Array]:
    """Return ``E k(y_i, Y_i)``, ``E k(Y_i, Y_i')`` and ``E k(Y_i, Y_i)``, each (n,)."""
    n = len(y)
    cross, inner = np.empty(n), np.empty(n)
    if isinstance(outputs, DrawnOutputs):
        for row in range(n):
            members = np.asarray(outputs.values[row], dtype=np.float64)
            cross[row] = kernel(y[row : row + 1], members).mean()
            inner[row] = kernel(members, members).mean()
        return cross, inner, own_products(kernel, outputs)
    prediction = outputs.prediction
    for start in range(0, n, _BLOCK):
        rows = np.arange(start, min(n, start + _BLOCK))
        values = expected_kernel(prediction.take(rows), kernel, y[rows])
        cross[rows] = values.diagonal()
    expected_inner = closed_form_rows(prediction, kernel, prediction)
    if expected_inner is not None:
        return cross, expected_inner, own_products(kernel, outputs)
    for row in range(n):
        one = prediction.take(np.array([row]))
        values, weights = one.nodes()
        points = values.reshape(-1, prediction.columns)
        inner[row] = float(expected_kernel(one, kernel, points)[0] @ weights[0])
    return cross, inner, own_products(kernel, outputs)
