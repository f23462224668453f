"""Expected output features of predictions, with their residuals and errors for each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.cached import cached_property
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import substituted
from fastmcmd.embedding.atoms import CLOSED_FORM_ERROR
from fastmcmd.embedding.candidates import candidates, chunks, has_nodes
from fastmcmd.embedding.interpolation import InterpolatedMeans
from fastmcmd.embedding.quadrature import mean_features_by_nodes, sums_over_nodes
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels.base import UNIT
from fastmcmd.predictive import Draws, Predictive, ZeroInflated
from fastmcmd.predictive.expectation import closed_form, closed_form_rows

__all__ = ["Expectation", "Expected", "expectation_goal"]


_PROBES = 64  # draws of each row of vector predictions without nodes
_PMF_ERROR = 1e-11  # relative error of SciPy's probabilities: sums of log-gamma values
_GOAL = 1e-9  # target error of an embedding by quadrature, relative to the largest feature
_COVERED = 0.01  # importance, relative to the largest, of outputs that features certainly cover
_MOST_VALUES = 8_000_000  # features in memory between which others are interpolated
_LOOKED_AT = 20000  # outputs at which interpolation coefficients are measured


def expectation_goal(features: KernelFeatures) -> float:
    """Return the default target error of an embedding by quadrature."""
    return _GOAL * float(np.sqrt(features.kernel.diagonal(features.pivots).max()))


@dataclass(frozen=True, eq=False)
class Expected:
    """Expected features of n predictions.

    Attributes
    ----------
    mean : ndarray (n, r)
        ``E p(Y_i)``.
    residual : ndarray (n,)
        Norm of the part of row i that the features do not represent; a bound or an estimate.
    error : ndarray (n,)
        Error of ``mean``; a bound or an estimate.
    floor : float
        Part of ``residual`` that is rounding alone: more pivots do not lower it.
    """

    mean: Array
    residual: Array
    error: Array
    floor: float


class Expectation:
    """``E p(Y_i)`` of predictions, for blocks of rows or for all at once.

    If ``E k(z, Y_i)`` and ``E k(Y_i, Y_i')`` of independent outputs have closed forms, the features miss
    ``|m_i|^2 - |p_i|^2 = E k(Y_i, Y_i') - |p_i|^2`` of the squared norm of the embedding m_i, exactly in
    every row, up to rounding. Otherwise ``E sqrt(e(Y_i))`` bounds the residual, where e is the residual of
    an output.

    Sums over nodes use the features themselves. A closed form of ``E k(z, Y)`` at the r pivots z, with
    error eta, gives features ``L^-1 (kappa + dkappa)``. In the squared norm of a combination
    ``sum a_i (p(y_i) - p_i)`` the error is at most
    ``2 sum |a_i| eta ||L^-T v||_1 + (sum |a_i|)^2 r eta^2 ||L^-1||^2``. Here ``L^-T v`` are interpolation
    coefficients at the pivots: they are moderate (their largest 1-norm is measured over the outputs),
    although ``||L^-1||`` is 1e7.

    Parameters
    ----------
    features : KernelFeatures
        Features of the output kernel.
    prediction : Predictive
        All n predictions.
    points : ndarray (u, k), optional
        Drawn outputs of the other sample, at which interpolation coefficients are measured. Default:
        outputs that `candidates` chooses from the predictions.
    goal : float, optional
        Target error of an embedding by quadrature.
    share : float
        Share of the quadrature work for these predictions, if they are a part of all.

    Attributes
    ----------
    noise : float
        Rounding that closed forms add to ``residual^2`` of both sides.
    rigorous : bool
        False if ``residual`` or ``error`` is an estimate: densities integrated numerically.
    """

    def __init__(
        self,
        features: KernelFeatures,
        prediction: Predictive,
        points: Array | None = None,
        goal: float | None = None,
        share: float = 1.0,
    ) -> None:
        self._features, self._prediction, self._share = features, prediction, share
        self.noise, self.rigorous = 0.0, True
        first = prediction.take(np.zeros(1, dtype=np.intp))
        self._exact = prediction.discrete or isinstance(prediction, Draws)
        self._base: Expectation | None = None  # of densities with further mass at zero
        if isinstance(prediction, ZeroInflated) and not self._exact:
            base = prediction.base
            some = base.take(np.zeros(1, dtype=np.intp))
            if closed_form(some, features.kernel, features.pivots) is None:
                self._base = Expectation(features, base, points, goal, share)
        self._closed = (
            self._base is None and closed_form(first, features.kernel, features.pivots) is not None
        )
        self._norms = closed_form_rows(first, features.kernel, first) is not None
        self._largest = float(features.kernel.diagonal(features.pivots).max())
        self._goal = expectation_goal(features) if goal is None else goal
        self._eta = CLOSED_FORM_ERROR * UNIT * self._largest
        if self._closed:
            if points is None:
                points, importance = candidates(prediction)
                points = points[importance >= _COVERED * importance.max()]
            points = points[:: max(1, -(-len(points) // _LOOKED_AT))]
            at = features.coefficients(features.with_squares(points)[0].T)
            spread = float(np.abs(at).sum(axis=0).max())
            # r eta^2 ||L^-1||^2
            self._amplified = features.rank * (self._eta * features.inverse_norm) ** 2
            self.noise = 4 * self._eta * spread + self._amplified
            self.rigorous = self._norms or self._exact
        elif not self._exact:
            self.rigorous = False

    @property
    def integrates(self) -> bool:
        """Whether densities are integrated numerically, so that `errors` takes as long as `of`."""
        return not (self._closed or self._exact)

    @property
    def floor(self) -> float:
        """Part of every row's ``residual`` that is rounding alone."""
        return float(np.sqrt(self._features.noise * self._largest + self.noise))

    def of(self, prediction: Predictive) -> Expected:
        """Return the expected features of all predictions, or of some of them."""
        features, floor = self._features, self.floor
        if self._closed:
            expectations = closed_form(prediction, features.kernel, features.pivots)
            assert expectations is not None
            mean = np.ascontiguousarray(substituted(features.factor, expectations.T).T)
            norms = closed_form_rows(prediction, features.kernel, prediction)
            if norms is None:
                residual = self._residual_by_nodes(prediction)
            else:
                square = np.einsum("ij,ij->i", mean, mean)
                spread = np.abs(substituted(features.factor, mean.T, transposed=True)).sum(axis=0)
                rounding = self._eta * (1 + 4 * spread) + self._amplified + features.noise * norms
                residual = np.asarray(np.sqrt(np.maximum(norms - square, 0.0) + rounding))
            return Expected(mean, residual, np.zeros(len(mean)), floor)
        if self._base is not None:
            assert isinstance(prediction, ZeroInflated), "as all predictions"
            p, of_base = prediction.probability, self._base.of(prediction.base)
            at_zero, missing = features.with_residuals(np.zeros((1, 1)))
            return Expected(
                (1 - p)[:, None] * of_base.mean + p[:, None] * at_zero,
                (1 - p) * of_base.residual + p * np.sqrt(missing),
                (1 - p) * of_base.error,
                of_base.floor,
            )
        if not self._exact:
            means = self._interpolated
            if means is None:
                return Expected(*self._integrals(prediction), floor)
            return Expected(*means.of(prediction), floor)
        mean = np.empty((len(prediction), features.rank))
        residual = np.empty(len(prediction))
        # Rows with a common support need its features once, so many rows are processed at a time.
        for some, part in chunks(prediction, prediction.node_count):
            self._sum(part, mean[some], residual[some])
        error = np.full(len(mean), _PMF_ERROR * float(np.sqrt(self._largest)))
        return Expected(mean, residual, error, floor)

    @cached_property
    def _interpolated(self) -> InterpolatedMeans | None:
        """Means that are interpolated between those of some predictions, if these are many."""
        features = self._features
        return InterpolatedMeans.of_all(
            self._prediction, features.kernel, self._integrals, self._goal,
            _MOST_VALUES // max(1, features.rank),
        )  # fmt: skip

    def _integrals(self, prediction: Predictive) -> tuple[Array, Array, Array]:
        return mean_features_by_nodes(self._features, prediction, self._goal, self._share)

    def _sum(self, part: Predictive, mean: Array, residual: Array) -> None:
        """Fill ``mean`` (m, r) and ``residual`` (m,) for predictions with finitely many outcomes."""
        features = self._features
        support = part.support()
        if support is not None:
            p = features.transform(support[0][:, None])
            mean[:] = support[1] @ p
            residual[:] = support[1] @ np.sqrt(features.residuals(support[0][:, None], p))
            return
        for some, few in chunks(part, part.node_count * max(1, features.rank // 8)):
            if len(few) < len(part):
                self._sum(few, mean[some], residual[some])
            else:
                mean[:], residual[:] = sums_over_nodes(features, *part.nodes())

    def errors(self, prediction: Predictive) -> Array:
        """Return the error (n,) of each row's ``mean``; closed forms need no computation."""
        if self._closed or self._exact:
            size = 0.0 if self._closed else _PMF_ERROR * float(np.sqrt(self._largest))
            return np.full(len(prediction), size)
        return self.coverage(prediction)[1]

    def coverage(self, prediction: Predictive) -> tuple[Array, Array, float]:
        """Return ``residual``, ``error`` and ``floor`` of predictions without an array of size n x r."""
        residual, error = np.empty(len(prediction)), np.empty(len(prediction))
        floor = 0.0
        for rows, part in chunks(prediction, self._features.rank):
            expected = self.of(part)
            residual[rows], error[rows], floor = expected.residual, expected.error, expected.floor
        return residual, error, floor

    def _residual_by_nodes(self, prediction: Predictive) -> Array:
        """Return the residuals of embeddings whose norms have no closed form."""
        features = self._features
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
    """Return estimates of the residuals of vector outputs from draws: E sqrt(e) <= sqrt(E e)."""
    draws = prediction.sample(_PROBES, generator(1, Purpose.PROBE))
    flat = draws.reshape(-1, prediction.columns)
    e = features.with_residuals(flat)[1].reshape(len(prediction), _PROBES)
    return np.asarray(np.sqrt(e.mean(axis=1) + 4 * e.std(axis=1) / np.sqrt(_PROBES)))
