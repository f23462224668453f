"""Expected output features under predictions, with what they miss and how exact they are, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.embedding.atoms import CLOSED_FORM_ERROR
from fastmcmd.embedding.candidates import candidates, chunks, has_nodes
from fastmcmd.embedding.quadrature import mean_features_by_nodes, sums_over_nodes
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels.base import UNIT
from fastmcmd.predictive import Draws, Predictive
from fastmcmd.predictive.expectation import closed_form, closed_form_rows

__all__ = ["Expectation", "Expected"]


_PROBES = 64  # draws a row that stand for vector predictions without nodes
_PMF_ERROR = 1e-11  # relative error of SciPy's probabilities: sums of log-gamma values
_GOAL = 1e-9  # error of an embedding that quadrature aims at, relative to the largest feature
_COVERED = 0.01  # importance, relative to the largest, of outputs that features certainly cover
_LOOKED_AT = 20000  # outputs at which coefficients of interpolation are measured


@dataclass(frozen=True, eq=False)
class Expected:
    """Expected features of n predictions.

    Attributes
    ----------
    mean : ndarray (n, r)
        ``E p(Y_i)``.
    residual : ndarray (n,)
        Norm of what the features of row i miss, bounded or estimated.
    error : ndarray (n,)
        Error of ``mean``, bounded or estimated.
    floor : float
        What rounding alone adds to ``residual``: more pivots do not lower it.
    """

    mean: Array
    residual: Array
    error: Array
    floor: float


class Expectation:
    """``E p(Y_i)`` for predictions, row by row or all at once.

    Where ``E k(z, Y_i)`` and ``E k(Y_i, Y_i')`` of independent outputs have closed forms, the features
    miss ``|m_i|^2 - |p_i|^2 = E k(Y_i, Y_i') - |p_i|^2`` of the squared norm of the embedding m_i, exactly
    in every row, up to rounding. Otherwise ``E sqrt(e(Y_i))`` bounds what they miss, e the residual of an
    output.

    Sums over nodes add features themselves. A closed form of ``E k(z, Y)`` at the r pivots z, exact to
    eta, becomes ``L^-1 (kappa + dkappa)``. In the squared norm of a combination ``sum a_i (p(y_i) -
    p_i)`` that costs ``2 sum |a_i| eta ||L^-T v||_1 + (sum |a_i|)^2 r eta^2 ||L^-1||^2``, and ``L^-T v``
    are the coefficients of interpolation at the pivots: of moderate size (their largest 1-norm is
    measured over the outputs), although ``||L^-1||`` is 1e7.

    Parameters
    ----------
    features : KernelFeatures
        Features of the output kernel.
    prediction : Predictive
        All n predictions.
    points : ndarray (u, k), optional
        Drawn outputs of the other sample, at which coefficients of interpolation are measured. Default:
        those that `candidates` chooses from the predictions.
    goal : float, optional
        Error of an embedding that quadrature aims at.
    share : float
        Share of the work that quadrature may take: that of these predictions among all.

    Attributes
    ----------
    noise : float
        What rounding of closed forms adds to ``missed^2`` of both sides.
    rigorous : bool
        False where ``residual`` or ``error`` is an estimate: densities integrated numerically.
    """

    def __init__(
        self,
        features: KernelFeatures,
        prediction: Predictive,
        points: Array | None = None,
        goal: float | None = None,
        share: float = 1.0,
    ) -> None:
        self._features, self._share = features, share
        self.noise, self.rigorous = 0.0, True
        first = prediction.take(np.zeros(1, dtype=np.intp))
        self._exact = prediction.discrete or isinstance(prediction, Draws)
        self._closed = closed_form(first, features.kernel, features.pivots) is not None
        self._norms = closed_form_rows(first, features.kernel, first) is not None
        self._largest = float(features.kernel.diagonal(features.pivots).max())
        self._goal = _GOAL * float(np.sqrt(self._largest)) if goal is None else goal
        self._eta = CLOSED_FORM_ERROR * UNIT * self._largest
        if self._closed:
            if points is None:
                points, importance = candidates(prediction)
                points = points[importance >= _COVERED * importance.max()]
            points = points[:: max(1, -(-len(points) // _LOOKED_AT))]
            at = features.interpolation(features.transform(points))
            spread = float(np.abs(at).sum(axis=0).max())
            self.noise = 4 * self._eta * spread + self._amplified
            self.rigorous = self._norms or self._exact
        elif not self._exact:
            self.rigorous = False

    @property
    def _amplified(self) -> float:
        """``r eta^2 ||L^-1||^2``."""
        return self._features.rank * (self._eta * self._features.inverse_norm) ** 2

    def of(self, prediction: Predictive) -> Expected:
        """Return the expected features of all predictions, or of some of them."""
        features = self._features
        floor = float(np.sqrt(features.noise * self._largest + self.noise))
        if self._closed:
            known = closed_form(prediction, features.kernel, features.pivots)
            assert known is not None
            mean = np.ascontiguousarray(features.solve(known.T).T)
            residual = self._residual(prediction, mean)
            return Expected(mean, residual, np.zeros(len(mean)), floor)
        if not self._exact:
            means = mean_features_by_nodes(features, prediction, self._goal, self._share)
            return Expected(*means, floor)
        mean = np.empty((len(prediction), features.rank))
        residual = np.empty(len(prediction))
        # Rows that share their support need its features once: many rows at a time.
        for some, part in chunks(prediction, prediction.node_count):
            self._sum(part, mean[some], residual[some])
        error = np.full(len(mean), _PMF_ERROR * float(np.sqrt(self._largest)))
        return Expected(mean, residual, error, floor)

    def _sum(self, part: Predictive, mean: Array, residual: Array) -> None:
        """Write ``mean`` (m, r) and ``residual`` (m,) of predictions with finitely many outcomes."""
        features = self._features
        shared = part.support()
        if shared is not None:
            p = features.transform(shared[0][:, None])
            mean[:] = shared[1] @ p
            residual[:] = shared[1] @ np.sqrt(features.residuals(shared[0][:, None], p))
            return
        for some, few in chunks(part, part.node_count * max(1, features.rank // 8)):
            if len(few) < len(part):
                self._sum(few, mean[some], residual[some])
            else:
                mean[:], residual[:] = sums_over_nodes(features, *part.nodes())

    def errors(self, prediction: Predictive) -> Array:
        """Return the error (n,) of each row's ``mean``: nothing is computed for closed forms."""
        if self._closed or self._exact:
            size = 0.0 if self._closed else _PMF_ERROR * float(np.sqrt(self._largest))
            return np.full(len(prediction), size)
        return self.coverage(prediction)[1]

    def coverage(self, prediction: Predictive) -> tuple[Array, Array, float]:
        """Return ``residual``, ``error`` and ``floor`` of predictions, with no array of size n x r."""
        residual, error = np.empty(len(prediction)), np.empty(len(prediction))
        floor = 0.0
        for rows, part in chunks(prediction, self._features.rank):
            expected = self.of(part)
            residual[rows], error[rows], floor = expected.residual, expected.error, expected.floor
        return residual, error, floor

    def _residual(self, prediction: Predictive, mean: Array) -> Array:
        """Return what the features miss of embeddings whose expectations have closed forms."""
        features = self._features
        norms = closed_form_rows(prediction, features.kernel, prediction)
        if norms is not None:
            square = np.einsum("ij,ij->i", mean, mean)
            spread = np.abs(features.interpolation(mean)).sum(axis=0)
            rounding = self._eta * (1 + 4 * spread) + self._amplified + features.noise * norms
            return np.asarray(np.sqrt(np.maximum(norms - square, 0.0) + rounding))
        if not has_nodes(prediction):
            return _residual_of_draws(features, prediction)
        residual = np.empty(len(prediction))
        for some, part in chunks(prediction, prediction.node_count * max(1, features.rank // 8)):
            residual[some] = np.maximum(
                sums_over_nodes(features, *part.nodes())[1],
                sums_over_nodes(features, *part.coarse_nodes())[1],
            )
        return residual


def _residual_of_draws(features: KernelFeatures, prediction: Predictive) -> Array:
    """Estimate what the features miss of vector outputs: E sqrt(e) <= sqrt(E e), from draws."""
    drawn = prediction.sample(_PROBES, generator(1, Purpose.PROBE))
    flat = drawn.reshape(-1, prediction.columns)
    e = features.residuals(flat, features.transform(flat)).reshape(len(prediction), _PROBES)
    return np.asarray(np.sqrt(e.mean(axis=1) + 4 * e.std(axis=1) / np.sqrt(_PROBES)))
