"""Tilts of predicted densities along smoothed residuals: boosting of the log score, cross-fitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fastmcmd.inference.corrections import Lattice, centre_and_scale
from fastmcmd.inference.smoother import Basis
from fastmcmd.predictive import Predictive

__all__ = ["NODES", "Nodes", "Tilt", "nodes_of", "score_tilts"]

Array = NDArray[np.float64]

NODES = 257
_FARTHEST = 6.5  # normal scores between which nodes of continuous predictions are spread evenly
_BELOW, _ABOVE = 12.0, 30.0  # standard deviations of counts below and above the mean that are summed
_MOST_COUNTS = 1 << 14  # of a row
_MOST_KEPT = 1 << 25  # features at nodes that are kept between rounds
_BLOCK = 512  # rows whose features at nodes are computed together
_NEWTON = 30
_LONGEST = 2.0  # change of the step length in one Newton step


@dataclass(frozen=True, eq=False)
class Nodes:
    """Where the densities of n predictions are tilted.

    Attributes
    ----------
    values : ndarray (n, K)
        Outcomes: quantiles at `normal_levels`, or counts.
    masses : ndarray (1, K) or (n, K)
        Their probabilities.
    origin, unit : ndarray (n,)
        Outcomes are standardised as ``(y - origin) / unit``.
    map : Lattice
        Features of standardised outcomes.
    """

    values: Array
    masses: Array
    origin: Array
    unit: Array
    map: Lattice

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: NDArray[np.intp]) -> Nodes:
        """Return the nodes of some rows."""
        masses = self.masses if len(self.masses) == 1 else self.masses[rows]
        return Nodes(self.values[rows], masses, self.origin[rows], self.unit[rows], self.map)

    def features(self, y: Array) -> Array:
        """Return features (n, r) of outcomes (n,)."""
        return self.map.at((y - self.origin) / self.unit)

    def heights(self, coefficients: Array) -> Array:
        """Return ``p(values).coefficients`` (n, K) for coefficients (n, r) of the rows."""
        out = np.empty(self.values.shape)
        for start in range(0, len(self), _BLOCK):
            rows = slice(start, start + _BLOCK)
            z = (self.values[rows] - self.origin[rows, None]) / self.unit[rows, None]
            for node in range(z.shape[1]):
                p = self.map.at(z[:, node])
                out[rows, node] = np.einsum("nr,nr->n", p, coefficients[rows])
        return out

    def means(self, weights: Array) -> Array:
        """Return ``sum_k weights_k p(values_k)`` (n, r) for weights (n, K)."""
        z = (self.values - self.origin[:, None]) / self.unit[:, None]
        return self.map.means(z, np.ascontiguousarray(weights), np.zeros_like(z))[0]

    def tilted(self, log_weights: Array) -> Array:
        """Return the probabilities (n, K) after a tilt (n, K)."""
        found = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)) * self.masses
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def log_normaliser(self, log_weights: Array) -> Array:
        """Return ``log sum_k masses_k exp(log_weights_k)`` (n,)."""
        top = log_weights.max(axis=1)
        return np.asarray(
            top + np.log((self.masses * np.exp(log_weights - top[:, None])).sum(axis=1))
        )


def normal_levels() -> tuple[Array, Array]:
    """Return levels (K,) of nodes from 0 to 1 and the weights of the trapezoidal rule over them."""
    z = np.linspace(-_FARTHEST, _FARTHEST, NODES - 2)
    levels = np.concatenate([[0.0], special.ndtr(z), [1.0]])
    shares = np.zeros(NODES)
    shares[1:] += np.diff(levels) / 2
    shares[:-1] += np.diff(levels) / 2
    return levels, shares


def nodes_of(prediction: Predictive, offset: float, factor: float) -> Nodes:
    """Return the nodes of predictions, standardised around ``mean + offset`` by ``factor`` times the std."""
    centre, scale = centre_and_scale(prediction)
    lattice = Lattice.of(1.0)
    if not prediction.discrete:
        levels, shares = normal_levels()
        inner = np.asarray(prediction.quantile(levels[1:-1]))
        # The ends stand for all beyond: infinite quantiles have no features.
        values = np.concatenate([inner[:, :1], inner, inner[:, -1:]], axis=1)
        return Nodes(values, shares[None, :], centre + offset, scale * factor, lattice)
    low = np.maximum(np.floor(centre - _BELOW * scale - 12), 0.0)
    count = int(np.max(np.ceil(centre + _ABOVE * scale + 12) - low)) + 1
    if count > _MOST_COUNTS:
        raise ValueError(
            f"prediction spreads its counts over {count:,} values in some row, more than {_MOST_COUNTS:,}: "
            "give a continuous distribution of y"
        )
    values = low[:, None] + np.arange(count)
    masses = np.empty_like(values)
    for j in range(count):
        masses[:, j] = np.exp(prediction.log_prob(np.ascontiguousarray(values[:, j])))
    return Nodes(values, masses, centre, scale, lattice)


@dataclass(frozen=True, eq=False)
class Tilt:
    """One round: ``log w(y) = step p(y).(C^-1 sum_i a_i(x) e_i)``.

    Attributes
    ----------
    coefficients : ndarray (p, r)
        ``diag(shrinkage) G'W E C^-1``: times g(x), the coefficients of the features.
    """

    coefficients: Array

    @staticmethod
    def of(
        basis: Basis, lam: float, g: Array, residual: Array, metric: Array, weights: Array
    ) -> Tilt:
        """Return the tilt that residuals (n, r) of rows with coordinates g (n, p) call for."""
        sums = (g * weights[:, None]).T @ residual
        return Tilt(basis.shrinkage(lam)[:, None] * sums @ metric)


def output_metric(nodes: Nodes, probabilities: Array, ridge: float, weights: Array) -> Array:
    """Return ``(C + ridge |C| I)^-1 |C|`` (r, r), C the mean covariance of features within predictions.

    C is the Hessian of the log score in the coefficients of the features, so that a tilt with this metric
    is a Newton step; without it (``ridge`` infinite) directions in which features vary little move slowly.
    """
    size = nodes.map.size
    if np.isinf(ridge):
        return np.eye(size)
    total = np.zeros((size, size))
    some = np.linspace(0, len(nodes) - 1, min(len(nodes), 500)).astype(np.intp)
    part, masses = nodes.take(some), probabilities[some]
    z = (part.values - part.origin[:, None]) / part.unit[:, None]
    mean = part.means(masses)
    own = weights[some] / max(float(weights[some].sum()), 1e-300)
    for node in range(z.shape[1]):
        p = part.map.at(z[:, node]) - mean
        total += (p * (own * masses[:, node])[:, None]).T @ p
    largest = float(np.linalg.eigvalsh(total)[-1])
    return np.asarray(np.linalg.inv(total / largest + ridge * np.eye(size)))


def best_step(nodes: Nodes, before: Array, heights: Array, gain: Array, weights: Array) -> float:
    """Return the eta that maximises ``sum_i w_i (eta h_i(y_i) - log E_i exp(eta h_i))``: concave, by Newton.

    Parameters
    ----------
    before : ndarray (n, K)
        The tilt of earlier rounds.
    heights : ndarray (n, K)
        h at the nodes.
    gain : ndarray (n,)
        h at the outcomes.
    """
    base = nodes.masses * np.exp(before - before.max(axis=1, keepdims=True))
    base /= base.sum(axis=1, keepdims=True)
    eta, total = 0.0, weights.sum()
    for _ in range(_NEWTON):
        tilted = eta * heights
        p = base * np.exp(tilted - tilted.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
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
    """Return the gains (n,) of log score of a tilt, its values at the outcomes given."""
    return at_outcomes - nodes.log_normaliser(log_weights)
