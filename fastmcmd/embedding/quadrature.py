"""Embeddings of continuous predictions by quadrature, refined row by row, with an error for each row.

The error of a row is estimated by the distance, in the norm of the output kernel, between two embeddings:
with its nodes, and with coarser nodes or the nodes before the last refinement. It is measured in every row,
but it is an estimate: bounds that use it are "sampled".
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, Nodes
from fastmcmd.embedding.candidates import chunks
from fastmcmd.embedding.exponential_sums import ExponentialSum
from fastmcmd.embedding.jumps import SignPart, jump_error
from fastmcmd.embedding.near_pivots import NearPivots
from fastmcmd.embedding.panels import PanelSums
from fastmcmd.embedding.sample import DrawnOutputs
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT
from fastmcmd.kernels.distance import local_reach, variation_length
from fastmcmd.predictive import Draws, Predictive

__all__ = ["mean_features_by_nodes", "refined_nodes", "sums_over_nodes"]

Index = NDArray[np.intp]

_ROUNDS = 5  # refinements at most; each halves the length of panels
_FINER = 1.5  # ratio of new to old nodes for which a difference reveals errors
_HALVINGS = 16  # largest number of halvings of a length that changes few panels
# A refinement that leaves a larger share of the error is the last one. The first is an exception: if its
# nodes resolve nothing, its difference from them is as large as their difference from each other.
_GAIN = 0.5
# The same if refinements are cheap: with a kink, twice the nodes halve the error.
_GAIN_LINEAR = 0.8
# Error by which more nodes would reduce the error of a row, relative to the rest, from which they serve.
_OF_LASTING = 0.25
_NODE_VALUES = 2e9  # largest number of feature values computed for refinements
_MORE_NODES = 2e4  # largest number of nodes that refinements add in dense form
_MORE_NODES_LINEAR = 2e5  # the same if the cost is linear in the nodes
_MOST_OF_NODE = 64  # feature values that a node on panels costs
_UNLIKE = 4.0  # ratio to the median error above which rows are refined in dense form
_MANY = 2e7  # feature values of nodes from which series on panels save work
_VALUES_HELD = 3e7  # feature values in memory at once
_ROUNDING = 1e-12  # relative error of densities and quantile functions
_BAND = 128  # sorted nodes whose pairs with their neighbourhood are summed together
_LEAST_WEIGHT = 1e-17  # nodes of less weight are dropped


def sums_over_nodes(features: KernelFeatures, values: Array, weights: Array) -> tuple[Array, Array]:
    """Return the weighted sums (n, r) of features over nodes, and of their residuals (n,)."""
    n, count = weights.shape
    flat = values.reshape(n * count, -1)
    transform = features.transform
    if flat.shape[1] == 1:
        transform = NearPivots(features).transform
        distinct, where = np.unique(flat[:, 0], return_inverse=True)
        if len(distinct) <= 4 * count:  # counts share their support: one product is enough
            p = transform(distinct[:, None])
            residual = np.sqrt(features.residuals(distinct[:, None], p))
            spread = np.zeros((n, len(distinct)))
            np.add.at(spread, (np.repeat(np.arange(n), count), where.reshape(-1)), weights.ravel())
            return spread @ p, spread @ residual
    p = transform(flat)
    residual = np.sqrt(features.residuals(flat, p)).reshape(n, count)
    mean = np.einsum("nl,nlr->nr", weights, p.reshape(n, count, -1))
    return mean, np.einsum("nl,nl->n", weights, residual)


def mean_features_by_nodes(
    features: KernelFeatures, prediction: Predictive, goal: float, share: float = 1.0
) -> tuple[Array, Array, Array]:
    """Return expected features (n, r), their residuals (n,), and estimates of their errors (n,).

    Rows whose error exceeds ``goal`` are refined, largest errors first, within ``share`` of the work for
    all predictions.
    """
    n, rank = len(prediction), features.rank
    mean, residual = np.empty((n, rank)), np.empty(n)
    # Differences between sums with more and with fewer nodes, and errors that no more nodes reduce.
    error, lasting = np.empty(n), np.empty(n)
    floor = _ROUNDING * float(np.sqrt(features.kernel.diagonal(features.pivots).max()))
    sums = _NodeSums(features, prediction, share)
    node_counts = np.zeros(n, dtype=np.intp)  # nodes with weight in the newest sums
    signs = SignPart.of(features, prediction)
    for rows, part in chunks(prediction, sums.numbers_per_row(prediction.node_count)):
        nodes = part.nodes()
        node_counts[rows] = _counts(nodes)
        mean[rows], residual[rows], extra = sums(*nodes)
        coarse = part.coarse_nodes()
        other, misses, _ = sums(*coarse)
        if signs is not None:
            extra = extra + signs.correct(part, *nodes, mean[rows])
            signs.correct(part, *coarse, other)
        error[rows] = np.linalg.norm(other - mean[rows], axis=1)
        lasting[rows] = floor + extra
        residual[rows] = np.maximum(residual[rows], misses)
    budget = share * _NODE_VALUES / sums.values_per_node
    # The residual of a row changes a value v by ``residual^2 / (2 v)`` and more, and v is at most twice the
    # root of the kernel: smaller errors than that gain nothing.
    largest = float(np.sqrt(features.kernel.diagonal(features.pivots).max()))
    goals = np.maximum(goal, residual**2 / (4 * largest))
    goals = np.maximum(goals, _OF_LASTING * lasting)
    todo = np.flatnonzero(error > goals)
    length = _length(features.kernel, prediction, todo)
    for turn in range(_ROUNDS):
        todo, groups, budget = _affordable(prediction, todo, error, length, budget)
        if not len(todo):
            break
        before = error[todo].copy()
        for some in groups:
            finer = _finer_nodes(prediction.take(some), length, node_counts[some])
            if finer is None:
                continue
            node_counts[some] = _counts(finer)
            means, misses, extra = sums(*finer)
            if signs is not None:
                extra = extra + signs.correct(prediction.take(some), *finer, means)
            error[some] = np.linalg.norm(means - mean[some], axis=1)
            lasting[some] = floor + extra
            mean[some], residual[some] = means, np.maximum(residual[some], misses)
        has_improved = (turn == 0) | (error[todo] <= _GAIN * before)
        todo = todo[(error[todo] > goals[todo]) & has_improved]
        length /= 2
    return mean, residual, error + lasting


class _NodeSums:
    """Weighted sums of features over nodes, by series on panels if these are exact enough."""

    def __init__(
        self, features: KernelFeatures, prediction: Predictive, share: float = 1.0
    ) -> None:
        self._features = features
        self._panels: PanelSums | None = None
        many = len(prediction) / share * prediction.node_count * features.rank
        if prediction.columns == 1 and many > _MANY:
            some = np.linspace(0, len(prediction) - 1, 64).astype(np.intp)
            middle = prediction.take(np.unique(some)).quantile(np.array([0.1, 0.5, 0.9]))
            self._panels = PanelSums.of(features, middle.ravel())

    @property
    def values_per_node(self) -> int:
        """How many feature values a node costs."""
        most = self._features.rank if self._panels is None else _MOST_OF_NODE
        return max(1, min(self._features.rank, most))

    def numbers_per_row(self, nodes: int) -> int:
        """Return how many numbers a row with this many nodes needs in memory."""
        if self._panels is None:
            return nodes * max(1, self._features.rank // 8)
        return 4 * nodes

    def __call__(self, values: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Return sums (n, r), residuals (n,), and the error that series add (n,)."""
        if self._panels is not None:
            return self._panels.sums(values, weights)
        n, count = weights.shape
        mean, residual = np.zeros((n, self._features.rank)), np.zeros(n)
        step = max(1, int(_VALUES_HELD / (max(1, self._features.rank) * n)))
        for start in range(0, count, step):
            some = slice(start, start + step)
            means, misses = sums_over_nodes(self._features, values[:, some], weights[:, some])
            mean += means
            residual += misses
        return mean, residual, np.zeros(n)


def _counts(nodes: Nodes) -> Index:
    """Return the number of nodes with positive weight in each row."""
    return np.count_nonzero(nodes[1], axis=1)


def _finer_nodes(prediction: Predictive, length: float, node_counts: Index) -> Nodes | None:
    """Return nodes on panels of at most ``length``, clearly more in each row than ``node_counts``, or None.

    If most panels are unchanged, a difference of sums does not reveal an error in one of them (such as a
    jump of the kernel). The length is then halved.
    """
    least = _FINER * node_counts.max(initial=0)
    for _ in range(_HALVINGS):
        if prediction.node_count_within(length) >= least:
            nodes = prediction.nodes_within(length)
            if (_counts(nodes) >= _FINER * node_counts).all():
                return nodes
        length /= 2
        if not np.isfinite(length):
            break
    return None


def _length(kernel: Kernel, prediction: Predictive, rows: Index) -> float:
    if not len(rows):
        return np.inf
    part = prediction.take(rows[:1])
    if part.columns > 1:
        return np.inf
    return variation_length(kernel, float(part.quantile(0.5)[0]))


def _affordable(
    prediction: Predictive, rows: Index, error: Array, length: float, budget: float
) -> tuple[Index, list[Index], float]:
    """Return the rows that the budget allows to refine, in groups of similar width, and the rest of it."""
    if not len(rows) or budget <= 0 or prediction.columns > 1:
        return rows[:0], [], budget
    rows = rows[np.argsort(-error[rows], kind="stable")]
    part = prediction.take(rows)
    width = np.ptp(part.quantile(np.array([1e-3, 0.999])), axis=1)
    order = np.argsort(width, kind="stable")
    groups: list[Index] = []
    affordable_rows: list[Index] = []
    # Widths within a factor of two share their panels.
    scale = np.floor(np.log2(np.maximum(width[order], 1e-300)))
    for some in np.split(order, np.flatnonzero(np.diff(scale)) + 1):
        count = prediction.take(rows[some[-1:]]).node_count_within(length)
        most = int(min(len(some), budget // count))
        if most < 1:
            continue
        some = np.sort(some)[:most]  # the largest errors come first
        budget -= most * count
        affordable_rows.append(rows[some])
        step = max(1, int(2e6 // count))
        groups.extend(rows[some[start : start + step]] for start in range(0, most, step))
    return (np.concatenate(affordable_rows) if affordable_rows else rows[:0]), groups, budget


def refined_nodes(
    prediction: Predictive, kernel: Kernel, goal: float
) -> tuple[DrawnOutputs, Array]:
    """Return predictions as weighted outputs, for the dense form, and errors (n,) of their embeddings.

    Counts and draws are such outputs themselves, with error 0; other predictions are replaced by nodes.
    """
    values, weights = prediction.nodes()
    n, count = weights.shape
    if prediction.discrete or isinstance(prediction, Draws):
        return _compact([(values.reshape(n, count, -1), weights)], [np.arange(n)], n), np.zeros(n)
    values = values.reshape(n, count, -1)
    other, shares = prediction.coarse_nodes()
    error = _distances(kernel, (values, weights), (other.reshape(n, shares.shape[1], -1), shares))
    jumps = prediction.columns == 1 and kernel.divides_by_norms
    if jumps:
        error += jump_error(kernel, values[:, :, 0], weights)
    parts, places = [(values, weights)], [np.arange(n)]
    owner = np.zeros(n, dtype=np.intp)  # index of the part with the newest nodes of each row
    slot = np.arange(n)
    # If the cost of the dense form is quadratic in the nodes, only rows unlike the others are refined.
    linear = ExponentialSum.of(kernel, prediction.columns) is not None
    least = goal if linear else max(goal, _UNLIKE * float(np.median(error)))
    todo = np.flatnonzero(error > least)
    length = _length(kernel, prediction, todo)
    budget = _MORE_NODES_LINEAR if linear else _MORE_NODES
    for turn in range(_ROUNDS):
        todo, groups, budget = _affordable(prediction, todo, error, length, budget)
        if not len(todo):
            break
        before = error[todo].copy()
        for some in groups:
            counts = np.array([np.count_nonzero(parts[owner[row]][1][slot[row]]) for row in some])
            finer = _finer_nodes(prediction.take(some), length, counts)
            if finer is None:
                continue
            nodes, shares = finer
            new = nodes.reshape(len(some), shares.shape[1], -1), shares
            for index, row in enumerate(some):
                old_values, old_weights = parts[owner[row]]
                old = old_values[slot[row]][None], old_weights[slot[row]][None]
                error[row] = _distances(kernel, old, (new[0][index][None], shares[index][None]))[0]
                if jumps:
                    error[row] += jump_error(
                        kernel, new[0][index][None, :, 0], shares[index][None]
                    )[0]
            owner[some], slot[some] = len(parts), np.arange(len(some))
            parts.append(new)
            places.append(some)
        has_improved = (turn == 0) | (error[todo] <= (_GAIN_LINEAR if linear else _GAIN) * before)
        todo = todo[(error[todo] > goal) & has_improved]
        length /= 2
    newest = []
    for number, (part, rows) in enumerate(zip(parts, places, strict=True)):
        current = owner[rows] == number
        newest.append(((part[0][current], part[1][current]), rows[current]))
    return _compact([part for part, _ in newest], [rows for _, rows in newest], n), error


def _distances(kernel: Kernel, one: tuple[Array, Array], other: tuple[Array, Array]) -> Array:
    """Return the distances (n,) between embeddings of weighted nodes, with a floor for rounding."""
    values = np.concatenate([one[0], other[0]], axis=1)
    weights = np.concatenate([one[1], -other[1]], axis=1)
    exponential = ExponentialSum.of(kernel, values.shape[2])
    if exponential is not None and exponential.delta:
        exponential = None  # both may contain equal nodes
    reach = local_reach(kernel) if values.shape[2] == 1 else np.inf
    squares: dict[bytes, float] = {}  # many rows are equal, and each square takes milliseconds
    distances = np.empty(len(values))
    for row, (points, signed) in enumerate(zip(values, weights, strict=True)):
        key = sha256(points.tobytes() + signed.tobytes()).digest()
        if key not in squares:
            significant = np.abs(signed) > _LEAST_WEIGHT
            points, signed = points[significant], signed[significant]
            size = float(np.abs(signed) @ np.sqrt(np.abs(kernel.diagonal(points)))) ** 2
            if exponential is not None:
                square = float(exponential.quadratic_forms(points, signed[:, None])[0])
            else:
                square = _square(kernel, points, signed, reach)
            squares[key] = max(square, 0.0) + 4 * UNIT * size
        distances[row] = squares[key]
    return np.asarray(np.sqrt(distances))


def _square(kernel: Kernel, points: Array, c: Array, reach: float) -> float:
    """Return ``c' K c`` without the pairs of numbers that are farther apart than ``reach``."""
    if not np.isfinite(reach):
        return float(c @ (kernel(points, points) @ c))
    order = np.argsort(points[:, 0], kind="stable")
    points, c = points[order], c[order]
    total = 0.0
    for start in range(0, len(c), _BAND):
        rows = slice(start, start + _BAND)
        low, high = np.searchsorted(
            points[:, 0], [points[rows][0, 0] - reach, points[rows][-1, 0] + reach]
        )
        near = slice(int(low), int(high) + 1)
        total += float(c[rows] @ (kernel(points[rows], points[near]) @ c[near]))
    return total


def _compact(parts: list[tuple[Array, Array]], places: list[Index], n: int) -> DrawnOutputs:
    """Return all rows' nodes as one array; rows with fewer nodes repeat their first with zero weight."""
    significant = []
    for values, weights in parts:
        keep = weights.max(axis=0, initial=0.0) > _LEAST_WEIGHT
        significant.append((values[:, keep], weights[:, keep]))
    most = max(weights.shape[1] for _, weights in significant)
    columns = significant[0][0].shape[2]
    values, weights = np.empty((n, most, columns)), np.zeros((n, most))
    for (part, shares), rows in zip(significant, places, strict=True):
        if not len(rows):
            continue
        count = shares.shape[1]
        values[rows] = part[:, :1]
        values[rows, :count] = part
        weights[rows, :count] = shares
    return DrawnOutputs(values, weights)
