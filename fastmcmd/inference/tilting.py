"""Tilts of predicted densities along smoothed residuals: cross-fitted boosting of the log score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fastmcmd._base.cached import cached_property
from fastmcmd.backends.tall_skinny import eigh, inner
from fastmcmd.inference.corrections import (
    COUNTS_ABOVE,
    COUNTS_BELOW,
    MOST_COUNTS,
    OutputLattice,
    centre_and_scale,
)
from fastmcmd.predictive import Predictive

__all__ = [
    "LEARNING_NODES",
    "NODES",
    "Nodes",
    "best_step",
    "nodes_of",
    "normal_levels",
    "output_metric",
    "score_tilts",
]

Array = NDArray[np.float64]

NODES = 257  # nodes of a tilted density
LEARNING_NODES = 97  # nodes while tilts are learned: steps of 0.14 normal scores
_METRIC_ROWS = 500  # smallest number of rows for covariances of features
_MOST_STORED = 1 << 26  # features at nodes that are stored between rounds
_FARTHEST = 6.5  # nodes of continuous predictions are evenly spaced up to this normal score
_BLOCK = 1 << 15  # nodes whose features are used together
_NEWTON = 30
_LONGEST = 2.0  # largest relative change of the step length in one Newton step


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes at which the densities of n predictions are tilted.

    Attributes
    ----------
    values : ndarray (n, K)
        Outcomes: quantiles at `normal_levels`, or counts.
    masses : ndarray (1, K) or (n, K)
        Their probabilities.
    origin, unit : ndarray (n,)
        Outcomes are standardised as ``(y - origin) / unit``.
    map : OutputLattice
        Features of standardised outcomes.
    counts : ndarray (n,) of int or None
        Number of nodes that hold the mass of each row; the others have no features, and log weight 0.
        None: all of them.
    """

    values: Array
    masses: Array
    origin: Array
    unit: Array
    map: OutputLattice
    counts: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def features(self, y: Array) -> Array:
        """Return features (n, r) for outcomes (n,); those beyond the nodes are tilted like the last."""
        y = np.clip(y, self.values[:, 0], self.values[:, -1])
        return self.map.at((y - self.origin) / self.unit)

    @cached_property
    def _parts(self) -> list[tuple[NDArray[np.intp], int]]:
        """Rows that are used together, with their largest number of nodes."""
        n, most = self.values.shape
        if self.counts is None:
            step = max(1, _BLOCK // most)
            return [(np.arange(i, min(i + step, n)), most) for i in range(0, n, step)]
        # Rows of like counts together: one wide row must not widen all others.
        order = np.argsort(self.counts, kind="stable")
        parts, start = [], 0
        while start < n:
            widths = self.counts[order[start:]]
            fitting = np.flatnonzero(widths * np.arange(1, len(widths) + 1) <= _BLOCK)
            stop = start + (int(fitting[-1]) + 1 if len(fitting) else 1)
            parts.append((order[start:stop], int(self.counts[order[stop - 1]])))
            start = stop
        return parts

    @cached_property
    def _features(self) -> list[NDArray[np.float32]] | None:
        """Features at the nodes of each part, if they fit in memory."""
        if sum(len(rows) * count for rows, count in self._parts) * self.map.size > _MOST_STORED:
            return None
        return [self._block(*part) for part in self._parts]

    def _block(self, rows: NDArray[np.intp], count: int) -> NDArray[np.float32]:
        z = (self.values[rows, :count] - self.origin[rows, None]) / self.unit[rows, None]
        out = np.empty((*z.shape, self.map.size), dtype=np.float32)
        for node in range(z.shape[1]):
            out[:, node] = self.map.at(z[:, node])
        return out

    def blocks(self) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
        """Yield rows (b,) with the features (b, k, r) at their first k nodes, which hold their mass."""
        for number, part in enumerate(self._parts):
            features = self._features
            yield part[0], self._block(*part) if features is None else features[number]

    def heights(self, coefficients: Array) -> Array:
        """Return ``p(values).coefficients`` (n, K) for coefficients (n, r) of the rows."""
        out = np.zeros(self.values.shape)
        for rows, p in self.blocks():
            heights = np.matmul(p, coefficients[rows, :, None].astype(np.float32))[:, :, 0]
            out[rows, : p.shape[1]] = heights
        return out

    def means(self, probabilities: Array) -> Array:
        """Return ``sum_k probabilities_k p(values_k)`` (n, r)."""
        out = np.empty((len(self), self.map.size))
        for rows, p in self.blocks():
            share = probabilities[rows, None, : p.shape[1]].astype(np.float32)
            out[rows] = np.matmul(share, p)[:, 0, :]
        return out

    def tilted(self, log_weights: Array) -> Array:
        """Return the probabilities (n, K) after a tilt by log weights (n, K)."""
        return _tilted(self.masses, log_weights)

    def log_normaliser(self, log_weights: Array) -> Array:
        """Return ``log sum_k masses_k exp(log_weights_k)`` (n,)."""
        top = _largest(self.masses, log_weights)
        return np.asarray(
            top[:, 0]
            + np.log((self.masses * np.exp(np.minimum(log_weights - top, 0.0))).sum(axis=1))
        )


def _largest(masses: Array, log_weights: Array) -> Array:
    """Return the largest log weight (n, 1) among the nodes of positive mass."""
    return np.asarray(np.where(masses > 0, log_weights, -np.inf).max(axis=1, keepdims=True))


def _tilted(masses: Array, log_weights: Array) -> Array:
    """Return ``masses exp(log_weights)``, scaled so that each row sums to 1."""
    # A node without mass may have the largest weight of its row; the others must not underflow then.
    tilted = masses * np.exp(np.minimum(log_weights - _largest(masses, log_weights), 0.0))
    return np.asarray(tilted / tilted.sum(axis=1, keepdims=True))


def normal_levels(count: int) -> tuple[Array, Array]:
    """Return levels (K,) of nodes from 0 to 1, and the weights of the trapezoidal rule over them."""
    z = np.linspace(-_FARTHEST, _FARTHEST, count - 2)
    levels = np.concatenate([[0.0], special.ndtr(z), [1.0]])
    shares = np.zeros(count)
    shares[1:] += np.diff(levels) / 2
    shares[:-1] += np.diff(levels) / 2
    return levels, shares


def nodes_of(prediction: Predictive, offset: float, factor: float, count: int) -> Nodes:
    """Return the nodes of predictions, standardised around ``mean + offset`` by ``factor`` times the std.

    Continuous predictions have ``count`` nodes; counts have as many as their mass needs.
    """
    centre, scale = centre_and_scale(prediction)
    lattice = OutputLattice.of(1.0)
    if not prediction.discrete:
        levels, shares = normal_levels(count)
        inner = np.asarray(prediction.quantile(levels[1:-1]))
        # The ends represent everything beyond: infinite quantiles have no features.
        values = np.concatenate([inner[:, :1], inner, inner[:, -1:]], axis=1)
        return Nodes(values, shares[None, :], centre + offset, scale * factor, lattice)
    low = np.maximum(np.floor(centre - COUNTS_BELOW * scale - 12), 0.0)
    counts = np.ceil(centre + COUNTS_ABOVE * scale + 12) - low + 1
    count = int(np.max(counts))
    if count > MOST_COUNTS:
        raise ValueError(
            f"prediction spreads its counts over {count:,} values in some row, more than {MOST_COUNTS:,}: "
            "give a continuous distribution of y"
        )
    values = low[:, None] + np.arange(count)
    masses = np.empty_like(values)
    for j in range(count):
        masses[:, j] = np.exp(prediction.log_prob(np.ascontiguousarray(values[:, j])))
    return Nodes(values, masses, centre, scale, lattice, counts.astype(np.intp))


def output_metric(nodes: Nodes, probabilities: Array, ridge: float, weights: Array) -> Array:
    """Return ``(C + ridge |C| I)^-1 |C|`` (r, r) for the mean covariance C of features within predictions.

    C is the Hessian of the log score in the coefficients of the features, so a tilt with this metric is a
    Newton step. Without it (``ridge`` infinite), directions in which features vary little converge slowly.
    """
    size = nodes.map.size
    if np.isinf(ridge):
        return np.eye(size)
    total = np.zeros((size, size))
    stride = max(1, len(nodes) // _METRIC_ROWS)
    shares = weights / weights.sum()
    for rows, p in nodes.blocks():
        some = slice(None, None, stride)
        masses, share = probabilities[rows[some], : p.shape[1]], shares[rows[some]]
        features = p[some].astype(np.float64)
        features -= np.einsum("nk,nkr->nr", masses, features)[:, None, :]
        features *= np.sqrt(masses * share[:, None])[:, :, None]
        flat = features.reshape(-1, size)
        total += inner(flat, flat)
    largest = float(eigh(total, vectors=False)[0][-1])
    if not largest > 0:
        return np.eye(size)
    return np.asarray(np.linalg.inv(total / largest + ridge * np.eye(size)))


def best_step(nodes: Nodes, before: Array, heights: Array, gain: Array, weights: Array) -> float:
    """Return the eta that maximises ``sum_i w_i (eta h_i(y_i) - log E_i exp(eta h_i))``, by Newton steps.

    Parameters
    ----------
    before : ndarray (n, K)
        Log weights of the tilt of earlier rounds.
    heights : ndarray (n, K)
        h at the nodes.
    gain : ndarray (n,)
        h at the outcomes.
    """
    base = nodes.tilted(before)
    eta, total = 0.0, weights.sum()
    for _ in range(_NEWTON):
        p = _tilted(base, eta * heights)
        mean = (p * heights).sum(axis=1)
        curvature = weights @ ((p * heights**2).sum(axis=1) - mean**2) / total
        slope = weights @ (gain - mean) / total
        if not curvature > 0:
            break
        step = float(slope / curvature)
        limit = _LONGEST * max(1.0, abs(eta))
        eta += float(np.clip(step, -limit, limit))
        if abs(step) <= 1e-6 * max(1.0, abs(eta)):
            break
    return max(eta, 0.0)


def score_tilts(nodes: Nodes, log_weights: Array, at_outcomes: Array) -> Array:
    """Return the gains (n,) in log score by a tilt, given its log weights at the outcomes."""
    return at_outcomes - nodes.log_normaliser(log_weights)
