"""Candidates for the pivots of output features: outputs that represent predicted distributions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.distance import variation_length
from fastmcmd.predictive import Draws, Predictive

__all__ = ["IN_SQUARE", "candidates", "chunks", "has_nodes", "row_candidates"]


_NEGLIGIBLE = 1e-9  # share of the mass: pivots need not cover nodes of less weight
# Candidates on a grid over the range; the nodes give twice as many. Few predictions need fewer: rows that
# these leave uncovered add outputs of their own.
_GRID, _LEAST_GRID, _GRID_PER_ROW = 2500, 250, 5
_BLOCK = 1 << 21  # node values in memory at once
_MOST_ROWS = 2000  # predictions whose nodes give candidates
_AT_ENDS = 100  # predictions of these whose range ends lowest, and as many whose range ends highest
_VECTOR_ROWS, _VECTOR_DRAWS = 2000, 2  # predictions of vectors, and draws of each prediction
_DRAWS_OF_ROW = 16  # draws of a prediction whose embedding has a large residual
# Squares of residuals and of values v add: a residual s changes v by s^2 / (2 v), less than s if v > s. So
# the residual of continuous predictions may be this many times that of drawn outputs.
IN_SQUARE = 16.0


def has_nodes(prediction: Predictive) -> bool:
    """Tell whether sums over nodes are affordable: for numbers and vectors of two components."""
    return prediction.columns <= 2


def chunks(prediction: Predictive, per_row: int) -> Iterator[tuple[slice, Predictive]]:
    """Yield the predictions in blocks of rows, for ``per_row`` numbers in memory per row."""
    n = len(prediction)
    step = max(1, _BLOCK // max(1, per_row))
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        part = prediction if step >= n else prediction.take(np.arange(rows.start, rows.stop))
        yield rows, part


def candidates(prediction: Predictive) -> tuple[Array, Array]:
    """Return outputs (u, k) that are candidates for pivots, and their importance (u,) in (0, 1].

    They are a first choice: rows whose embeddings then have large residuals add outputs of their own
    (`row_candidates`). The importance of an output is its weight in the prediction that gives it most,
    times the number of nodes, as a root mean square over rows. So a residual in a far tail, or in one row
    of many, counts as little as the tail or the row does.
    """
    if not has_nodes(prediction):
        return _of_vectors(prediction)
    prediction = _some_rows(prediction)
    if prediction.discrete:
        return _support(prediction)
    grid = min(_GRID, max(_LEAST_GRID, _GRID_PER_ROW * len(prediction)))
    pools = [
        _weighed(*part.nodes(), prediction.columns, isinstance(prediction, Draws), grid)
        for _, part in chunks(prediction, prediction.node_count)
    ]
    values = np.concatenate([values for values, _ in pools])
    importance = np.concatenate([importance for _, importance in pools])
    values, importance = _thinned(values, importance, grid)
    # Squares add up over rows: an output of one row in many counts less than an output of all rows.
    importance = np.minimum(1.0, importance / np.sqrt(len(prediction)) / IN_SQUARE)
    if prediction.columns > 1 or isinstance(prediction, Draws):
        return values, importance
    between = np.linspace(values.min(), values.max(), grid)
    after = np.clip(np.searchsorted(values[:, 0], between), 1, max(1, len(values) - 1))
    after = np.minimum(after, len(values) - 1)
    worth = np.maximum(importance[after], importance[np.maximum(after - 1, 0)])
    return np.concatenate([values, between[:, None]]), np.concatenate([importance, worth])


def row_candidates(prediction: Predictive, kernel: Kernel, seed: int) -> tuple[Array, Array]:
    """Return outputs of predictions whose embeddings have large residuals, and their importance."""
    if prediction.discrete:
        return _support(prediction)
    if prediction.columns > 1:
        draws = prediction.sample(_DRAWS_OF_ROW, generator(seed, Purpose.PROBE)).reshape(
            -1, prediction.columns
        )
        values = np.concatenate([_finite_means(prediction), draws])
        return values, np.ones(len(values))
    length = variation_length(kernel, float(np.median(prediction.quantile(0.5))))
    pools = [
        _weighed(*part.nodes_within(length), 1, isinstance(prediction, Draws))
        for _, part in chunks(prediction, 16 * prediction.node_count)
    ]
    values, importance = _thinned(
        np.concatenate([values for values, _ in pools]),
        np.concatenate([importance for _, importance in pools]),
    )
    return values, np.minimum(importance, 1.0)


def _weighed(
    values: Array, weights: Array, columns: int, equal: bool, grid: int = _GRID
) -> tuple[Array, Array]:
    """Return the nodes (m, k) of relevant weight, thinned, and their importance (m,)."""
    flat = values.reshape(-1, columns)
    share = weights.reshape(-1)
    relevant = share > _NEGLIGIBLE
    importance = np.minimum(1.0, weights.shape[1] * share[relevant])
    return _thinned(flat[relevant], np.ones_like(importance) if equal else importance, grid)


def _thinned(values: Array, importance: Array, grid: int = _GRID) -> tuple[Array, Array]:
    """Return at most ``2 * grid`` outputs, one for each group of neighbours, and the groups' importance.

    The most important output represents a group; the squares of its members' importance add up. Numbers are
    sorted; vectors stay in the order of their rows.
    """
    if values.shape[1] == 1:
        order = np.argsort(values[:, 0], kind="stable")
        values, importance = values[order], importance[order]
    count = len(values)
    if count <= 2 * grid:
        return values, importance
    start = np.linspace(0, count, 2 * grid, endpoint=False).astype(np.intp)
    largest = np.maximum.reduceat(importance, start)
    group = np.repeat(np.arange(len(start)), np.diff(start, append=count))
    first = np.full(len(start), count)
    best = np.flatnonzero(importance == largest[group])
    np.minimum.at(first, group[best], best)
    return values[first], np.sqrt(np.add.reduceat(importance**2, start))


def _of_vectors(prediction: Predictive) -> tuple[Array, Array]:
    """Return the means and draws of randomly chosen rows."""
    rng = generator(len(prediction), Purpose.PROBE)
    rows = rng.choice(len(prediction), min(len(prediction), _VECTOR_ROWS), replace=False)
    part = prediction.take(np.sort(rows))
    draws = part.sample(_VECTOR_DRAWS, rng).reshape(-1, prediction.columns)
    values = np.concatenate([_finite_means(part), draws])
    return values, np.ones(len(values))


def _finite_means(prediction: Predictive) -> Array:
    mean = np.asarray(prediction.mean, dtype=np.float64).reshape(len(prediction), -1)
    return mean[np.isfinite(mean).all(axis=1)]


def _some_rows(prediction: Predictive) -> Predictive:
    """Return the predictions; of very many, only those at the ends and some between."""
    n = len(prediction)
    if n <= _MOST_ROWS:
        return prediction
    rows = [np.linspace(0, n - 1, _MOST_ROWS // 2).astype(np.intp)]
    with np.errstate(invalid="ignore"):
        mean = np.asarray(prediction.mean).reshape(n, -1)
        std = np.asarray(prediction.std).reshape(n, -1)
        for column in range(mean.shape[1]):
            for ends in (
                mean[:, column] - 10 * std[:, column],
                mean[:, column] + 10 * std[:, column],
            ):
                order = np.argpartition(ends, (_AT_ENDS, n - 1 - _AT_ENDS))
                rows.extend((order[:_AT_ENDS], order[-_AT_ENDS:]))
    return prediction.take(np.unique(np.concatenate(rows)))


def _support(prediction: Predictive) -> tuple[Array, Array]:
    """Return the counts that any prediction supports, and their largest probabilities."""
    best: dict[float, float] = {}
    for _, part in chunks(prediction, prediction.node_count):
        support = part.support()
        if support is not None:
            distinct, most = support[0], support[1].max(axis=0)
        else:
            values, weights = part.nodes()
            distinct, where = np.unique(values, return_inverse=True)
            most = np.zeros(len(distinct))
            np.maximum.at(most, where.reshape(-1), weights.reshape(-1))
        for value, weight in zip(distinct.tolist(), most.tolist(), strict=True):
            best[value] = max(weight, best.get(value, 0.0))
    relevant = {value: weight for value, weight in best.items() if weight > _NEGLIGIBLE}
    return np.array(list(relevant))[:, None], np.array(list(relevant.values()))
