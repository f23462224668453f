"""Expected output features under predictions, with what they miss and how exact they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.embedding.sample import DrawnOutputs
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Draws, Predictive
from fastmcmd.predictive.expectation import closed_form

__all__ = ["Expectation", "Expected", "candidates", "node_error", "node_outputs"]

Array = NDArray[np.float64]
_UNIT = float(np.finfo(np.float64).eps) / 2

_NEGLIGIBLE = 1e-9  # of the mass: pivots need not cover nodes of less weight
_GRID = 2500  # candidates over the range, and among the nodes
_BLOCK = 1 << 21  # node values held together
_MOST_TELLING = 20000  # predictions among which candidates are looked for
_AT_ENDS = 100  # of them at either end
_PROBES = 64  # draws a row that stand for vector predictions without nodes
_CLOSED_FORM_ERROR = (
    16  # units of rounding in a closed form: an exponential, a root, a few products
)
_PMF_ERROR = 1e-11  # relative error of SciPy's probabilities: sums of log-gamma values


@dataclass(frozen=True, eq=False)
class Expected:
    """Expected features of n predictions.

    Attributes
    ----------
    mean : ndarray (n, r)
        ``E p(Y_i)``.
    missed : ndarray (n,)
        Bound on the norm of what the features of row i miss.
    """

    mean: Array
    missed: Array


def _chunks(prediction: Predictive, per_row: int) -> Iterator[tuple[slice, Predictive]]:
    n = len(prediction)
    step = max(1, _BLOCK // per_row)
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        part = prediction if step >= n else prediction.take(np.arange(rows.start, rows.stop))
        yield rows, part


def _probes(prediction: Predictive) -> NDArray[np.intp]:
    """Return evenly spaced rows on which quadrature is checked against coarser nodes."""
    return np.unique(np.linspace(0, len(prediction) - 1, _PROBES).astype(np.intp))


def _has_nodes(prediction: Predictive) -> bool:
    return prediction.columns <= 2


def candidates(prediction: Predictive) -> tuple[Array, Array]:
    """Return outputs (u, k) over which the features must be good, and their importance (u,).

    They cover the range of the predictions. The importance of a count is its largest probability;
    that of other outputs is 1.
    """
    prediction = _telling(prediction)
    if not _has_nodes(prediction):
        drawn = prediction.sample(4, 0)
        return _equal(np.asarray(drawn.reshape(-1, prediction.columns)[: 4 * _GRID]))
    if prediction.discrete:
        return _support(prediction)
    kept = []
    for _, part in _chunks(prediction, prediction.node_count):
        values, weights = part.nodes()
        flat = values.reshape(-1, prediction.columns)[weights.reshape(-1) > _NEGLIGIBLE]
        kept.append(_thinned(flat))
    pool = _thinned(np.concatenate(kept))
    if prediction.columns > 1 or isinstance(prediction, Draws):
        return _equal(pool)
    return _equal(np.concatenate([pool, np.linspace(pool.min(), pool.max(), _GRID)[:, None]]))


def _equal(values: Array) -> tuple[Array, Array]:
    return values, np.ones(len(values))


def _telling(prediction: Predictive) -> Predictive:
    """Return the predictions themselves, or of very many those at the ends and some between."""
    n = len(prediction)
    if n <= _MOST_TELLING:
        return prediction
    rows = [np.linspace(0, n - 1, _MOST_TELLING // 2).astype(np.intp)]
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
    """Return the counts that any prediction can give, and their largest probabilities."""
    best: dict[float, float] = {}
    for _, part in _chunks(prediction, prediction.node_count):
        shared = part.support()
        if shared is not None:
            distinct, most = shared[0], shared[1].max(axis=0)
        else:
            values, weights = part.nodes()
            distinct, where = np.unique(values, return_inverse=True)
            most = np.zeros(len(distinct))
            np.maximum.at(most, where.reshape(-1), weights.reshape(-1))
        for value, weight in zip(distinct.tolist(), most.tolist(), strict=True):
            best[value] = max(weight, best.get(value, 0.0))
    kept = {value: weight for value, weight in best.items() if weight > _NEGLIGIBLE}
    return np.array(list(kept))[:, None], np.array(list(kept.values()))


def _thinned(values: Array) -> Array:
    """Return at most 2 * _GRID distinct rows, evenly spaced in order, ends included."""
    if values.shape[1] == 1:
        values = np.unique(values)[:, None]
    if len(values) <= 2 * _GRID:
        return values
    return values[np.linspace(0, len(values) - 1, 2 * _GRID).astype(np.intp)]


class Expectation:
    """``E p(Y_i)`` for predictions, row by row or all at once.

    Sums over nodes add features themselves. A closed form of ``E k(z, Y)`` at the r pivots z, exact to
    eta, becomes ``L^-1 (kappa + dkappa)``. In the squared norm of a combination ``sum a_i (p(y_i) -
    p_i)`` that costs ``2 sum |a_i| eta ||L^-T v||_1 + (sum |a_i|)^2 r eta^2 ||L^-1||^2``, and ``L^-T v``
    are the coefficients of interpolation at the pivots: of moderate size (their largest 1-norm is
    measured over the range of the predictions, and expectations are means over it), although
    ``||L^-1||`` is 1e7.

    Parameters
    ----------
    features : KernelFeatures
        Features of the output kernel.
    prediction : Predictive
        All n predictions.

    Attributes
    ----------
    error : float
        Bound on the error of a row of ``mean``.
    noise : float
        What rounding of closed forms adds to ``missed^2`` of both sides.
    rigorous : bool
        False where ``missed`` or ``error`` is an estimate: densities integrated numerically.
    """

    def __init__(self, features: KernelFeatures, prediction: Predictive) -> None:
        self._features = features
        self.error, self.noise, self.rigorous = 0.0, 0.0, True
        first = prediction.take(np.zeros(1, dtype=np.intp))
        self._closed = closed_form(first, features.kernel, features.pivots) is not None
        self._over_range = 0.0
        largest = float(features.kernel.diagonal(features.pivots).max())
        if self._closed:
            points, _ = candidates(prediction)
            if _has_nodes(prediction):
                self._over_range = _missed_over_range(features, points)
            else:
                self.rigorous = False
            eta = _CLOSED_FORM_ERROR * _UNIT * largest
            at = features.interpolation(features.transform(points))
            spread = float(np.abs(at).sum(axis=0).max())
            self.noise = 4 * eta * spread + features.rank * (eta * features.inverse_norm) ** 2
        elif prediction.discrete or isinstance(prediction, Draws):
            self.error = _PMF_ERROR * float(np.sqrt(largest))
        else:
            part = prediction.take(_probes(prediction))
            fine, _ = _sum_over_nodes(features, *part.nodes())
            check, _ = _sum_over_nodes(features, *part.coarse_nodes())
            self.error = float(np.linalg.norm(check - fine, axis=1).max())
            self.rigorous = False

    def of(self, prediction: Predictive) -> Expected:
        """Return the expected features of all predictions, or of some of them."""
        features = self._features
        if self._closed:
            known = closed_form(prediction, features.kernel, features.pivots)
            assert known is not None
            mean = np.ascontiguousarray(features.solve(known.T).T)
            if _has_nodes(prediction):
                return Expected(mean, np.full(len(prediction), self._over_range))
            return Expected(mean, _missed_by_draws(features, prediction))
        mean = np.empty((len(prediction), features.rank))
        missed = np.empty(len(prediction))
        per_row = prediction.node_count * max(1, features.rank // 8)
        for some, part in _chunks(prediction, per_row):
            shared = part.support()
            if shared is None:
                mean[some], missed[some] = _sum_over_nodes(features, *part.nodes())
            else:
                p = features.transform(shared[0][:, None])
                mean[some] = shared[1] @ p
                missed[some] = shared[1] @ np.sqrt(features.residuals(shared[0][:, None], p))
        return Expected(mean, missed)


def _sum_over_nodes(features: KernelFeatures, values: Array, weights: Array) -> tuple[Array, Array]:
    """Return the weighted sums of features (n, r), and of what they miss (n,)."""
    n, count = weights.shape
    flat = values.reshape(n * count, -1)
    if flat.shape[1] == 1:
        distinct, where = np.unique(flat[:, 0], return_inverse=True)
        if len(distinct) <= 4 * count:  # counts: the support is shared, one product does it
            p = features.transform(distinct[:, None])
            missed = np.sqrt(features.residuals(distinct[:, None], p))
            spread = np.zeros((n, len(distinct)))
            np.add.at(spread, (np.repeat(np.arange(n), count), where.reshape(-1)), weights.ravel())
            return spread @ p, spread @ missed
    p = features.transform(flat)
    missed = np.sqrt(features.residuals(flat, p)).reshape(n, count)
    mean = np.einsum("nl,nlr->nr", weights, p.reshape(n, count, -1))
    return mean, np.einsum("nl,nl->n", weights, missed)


def _missed_by_draws(features: KernelFeatures, prediction: Predictive) -> Array:
    """Estimate what the features miss of vector outputs: E sqrt(e) <= sqrt(E e), from draws."""
    drawn = prediction.sample(_PROBES, 1)
    flat = drawn.reshape(-1, prediction.columns)
    e = features.residuals(flat, features.transform(flat)).reshape(len(prediction), _PROBES)
    return np.asarray(np.sqrt(e.mean(axis=1) + 4 * e.std(axis=1) / np.sqrt(_PROBES)))


def _missed_over_range(features: KernelFeatures, points: Array) -> float:
    """Bound what the features miss anywhere in the range of the predictions, given by points."""
    if points.shape[1] == 1:  # between the points where pivots were chosen
        points = np.sort(points, axis=0)
        points = np.concatenate([points, (points[1:] + points[:-1]) / 2])
    worst = float(features.residuals(points, features.transform(points)).max())
    largest = float(features.kernel.diagonal(points).max())
    # Mass outside the range: nodes of negligible weight, at most some hundred of them.
    return float(np.sqrt(worst) + 100 * _NEGLIGIBLE * np.sqrt(largest))


def node_outputs(prediction: Predictive) -> DrawnOutputs:
    """Return the predictions as weighted draws: their nodes, for the dense form."""
    values, weights = prediction.nodes()
    n, count = weights.shape
    keep = weights.max(axis=0) > 1e-17
    values = values.reshape(n, count, -1)[:, keep]
    return DrawnOutputs(np.ascontiguousarray(values), np.ascontiguousarray(weights[:, keep]))


def node_error(prediction: Predictive, kernel: Kernel) -> float:
    """Estimate how far the embedding of nodes is from that of the distribution, in the kernel's norm.

    The largest distance between nodes and coarser nodes over some rows, doubled; 0 for counts and
    draws, whose nodes are the distribution.
    """
    if prediction.discrete or isinstance(prediction, Draws):
        return 0.0
    part = prediction.take(_probes(prediction))
    (fine, fine_weights), (coarse, coarse_weights) = part.nodes(), part.coarse_nodes()
    worst = 0.0
    for row in range(len(part)):
        points = np.concatenate([fine[row], coarse[row]]).reshape(-1, prediction.columns)
        weights = np.concatenate([fine_weights[row], -coarse_weights[row]])
        worst = max(worst, float(weights @ kernel(points, points) @ weights))
    return 2 * float(np.sqrt(worst))
