"""Recalibration by a factor of predicted densities, from the witness of the congruence error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import RandomState
from fastmcmd._base.checks import check_count
from fastmcmd.backends.tall_skinny import eigh, inner, times
from fastmcmd.inference.corrections import reason_against, starting_point
from fastmcmd.inference.inputs import input_map
from fastmcmd.inference.smoother import Basis, Smoother
from fastmcmd.inference.tilting import (
    LEARNING_NODES,
    NODES,
    Nodes,
    best_step,
    nodes_of,
    normal_levels,
    output_metric,
    score_tilts,
)
from fastmcmd.kernels import Kernel
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.landmarks import LocalRecalibrator, folds_of, standard_error
from fastmcmd.recalibration.tilted import TiltedCDF, TiltedCounts

__all__ = ["WitnessTilting"]

_LAMS = (0.1, 0.01)
_RIDGE = 0.01  # ridge of the covariance of features, relative to its largest eigenvalue
_FIRST, _FURTHER = 2.0, 1.0  # required gain in standard errors, for the first and for later rounds


class WitnessTilting(LocalRecalibrator):
    """Multiplies predicted densities by ``exp(h(x, y))``, where h is estimated from residuals near x.

    It corrects location, spread and shape, including skewness, several modes and tails.

    Parameters
    ----------
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs. Default ("auto"): three RBF lengths on standardised columns, as in `cce`.
    lam : "auto", float or sequence of float, default "auto"
        Regularisers to choose from; "auto" stands for 0.1 and 0.01.
    rounds : int, default 4
        Largest number of rounds.
    folds : int, default 5
        Number of folds of the cross-fitting.
    landmarks : int, default 200
        Largest number of landmarks.
    random_state : int, numpy.random.Generator or None, default 0
        Source of the folds and the landmarks.

    Attributes
    ----------
    start_ : ndarray (2,)
        Shift and factor by which outcomes are standardised.
    lam_ : float
        The chosen regulariser.
    steps_ : ndarray (R,)
        Step of each round; empty if no tilt beats the original predictions.
    gain_ : float
        Cross-fitted gain in mean log score.
    offset_, scales_, kernel_, landmarks_, origin_, factor_, coefficients_
        The smoother and its sums.

    Notes
    -----
    Each round adds ``eta h`` to the log density. With ``e_i = p(y_i) - E p(Y_i)`` on standardised outcomes
    and coefficients a_i(x) of kernel ridge regression, ``h(x, y) = p(y)' (C + 0.01 |C| I)^-1 sum_i a_i(x)
    e_i``. With C = I this is the witness of the congruence error, the gradient of the mean log score. C,
    the mean covariance of p within the predictions, turns it into a Newton step, which resolves several
    modes in two rounds instead of ten. eta maximises the log score of held-out folds, a concave function. A
    round is kept if its gain exceeds its standard error (twice that for the first round), and the
    regulariser with the largest gain is chosen.

    Continuous distributions become `TiltedCDF`, counts `TiltedCounts`. Draws and quantiles have no density
    and raise an error.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import WitnessTilting
    >>> rng = np.random.default_rng(0)
    >>> x, side = rng.uniform(-2, 2, (2, 400)), rng.choice([-1.0, 1.0], (2, 400))
    >>> y = x + 0.9 * side + 0.3 * rng.normal(size=x.shape)  # two modes
    >>> wrong, new = fm.Gaussian(x[0], 0.95), fm.Gaussian(x[1], 0.95)
    >>> mended = WitnessTilting().fit(wrong, y[0], x[0]).transform(new, x[1])
    >>> bool(fm.nll(y[1], mended) < fm.nll(y[1], new) - 0.2)
    True
    """

    start_: Array
    lam_: float
    steps_: Array
    gain_: float
    coefficients_: Array

    def __init__(
        self,
        x_kernel: Kernel | None = None,
        lam: float | str = "auto",
        rounds: int = 4,
        folds: int = 5,
        landmarks: int = 200,
        random_state: RandomState = 0,
    ) -> None:
        self._set_options(x_kernel, lam, folds, landmarks, random_state)
        self.rounds: int = check_count(rounds, "rounds", 1)

    def learn_at(self, rows: Outcomes, x: Array) -> None:
        """Choose the regulariser, the steps and the number of rounds by cross-fitting."""
        _check(rows.prediction)
        y = rows.y
        weights = np.ones(len(y)) if rows.weights is None else rows.weights
        offset, factor = starting_point(rows.prediction, y, weights)
        mapping = input_map(x, self.x_kernel, rows.weights)
        smoother = Smoother.of(mapping.kernel, mapping(x), self.landmarks, 0)
        nodes = nodes_of(rows.prediction, offset, factor, LEARNING_NODES)
        task = _TiltingTask(
            nodes,
            nodes.features(y),
            smoother,
            smoother.transform(mapping(x)),
            weights,
            folds_of(rows, self.folds, self.random_state),
        )
        boosted = [_boosted(task, lam, self.folds, self.rounds) for lam in self._lams(_LAMS)]
        best = max(boosted, key=lambda one: one.gain)
        self.start_ = np.array([offset, factor])
        self.lam_, self.gain_, self.steps_ = best.lam, best.gain, np.array(best.steps)
        self.coefficients_ = best.coefficients
        self._keep_inputs(mapping, smoother)

    def apply_at(self, prediction: Predictive, x: Array) -> Predictive:
        """Return tilted predictions."""
        _check(prediction)
        features = self._features(x)
        if not len(self.steps_):
            return prediction
        nodes = nodes_of(prediction, float(self.start_[0]), float(self.start_[1]), NODES)
        log_weights = nodes.heights(times(features, self.coefficients_))
        if prediction.discrete:
            return TiltedCounts(prediction, nodes.values[:, 0], log_weights)
        log_weights -= log_weights.max(axis=1, keepdims=True)
        return TiltedCDF(prediction, normal_levels(NODES)[0], np.exp(log_weights))

    def check_state(self) -> None:
        """Raise ValueError unless the fitted tilt is valid."""
        super().check_state()
        for name, dimensions in (("start_", 1), ("steps_", 1), ("coefficients_", 2)):
            value = getattr(self, name)
            if not isinstance(value, np.ndarray) or value.dtype != np.float64:
                raise ValueError(f"{name} is no array of float64")
            if value.ndim != dimensions or not np.isfinite(value).all():
                raise ValueError(f"{name} has shape {value.shape} or values that are not finite")
        if len(self.start_) != 2 or not self.start_[1] > 0:
            raise ValueError("start_ is no shift and positive factor")
        if len(self.coefficients_) != len(self.landmarks_):
            raise ValueError("coefficients_ and landmarks_ differ in length")
        for number, name in ((self.lam_, "lam_"), (self.gain_, "gain_")):
            if type(number) is not float:
                raise ValueError(f"{name} is {number!r:.60}; a number is needed")


def _check(prediction: Predictive) -> None:
    reason = reason_against(prediction)
    if reason is None and not prediction.has_density:
        reason = "it has no density; give a distribution, not draws or quantiles"
    if reason is not None:
        raise ValueError(f"prediction cannot be tilted: {reason}")


@dataclass(frozen=True, eq=False)
class _TiltingTask:
    """Rows with their features and folds.

    Attributes
    ----------
    outcomes : ndarray (n, r)
        Features of the outcomes.
    inputs : ndarray (n, m)
        Features of the inputs.
    """

    nodes: Nodes
    outcomes: Array
    smoother: Smoother
    inputs: Array
    weights: Array
    fold: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Boosted:
    lam: float
    gain: float
    steps: list[float]
    coefficients: Array


class _Part:
    """The tilt learned from some of the rows, one round at a time."""

    def __init__(self, task: _TiltingTask, lam: float, train: NDArray[np.bool_]) -> None:
        self.task = task
        self.weights = np.where(train, task.weights, 0.0)
        gram = inner(task.inputs, task.inputs, scale=self.weights)
        basis = Basis(task.smoother, *eigh(gram), float(self.weights.sum()))
        vectors = basis.vectors[:, basis.significant]
        self.smoothing = times(vectors * basis.shrinkage(lam), vectors.T)
        self.total = np.zeros((task.inputs.shape[1], task.nodes.map.size))

    def direction(self) -> Array:
        """Return the coefficients (m, r) of the next round, for a step of 1."""
        nodes, inputs = self.task.nodes, self.task.inputs
        p = nodes.tilted(nodes.heights(times(inputs, self.total)))
        residual = self.task.outcomes - nodes.means(p)
        metric = output_metric(nodes, p, _RIDGE, self.weights)
        sums = inner(inputs, residual, scale=self.weights)
        return times(times(self.smoothing, sums), metric)


def _boosted(task: _TiltingTask, lam: float, folds: int, rounds: int) -> _Boosted:
    """Return the rounds that improve held-out folds, learned from all rows."""
    n = len(task.fold)
    parts = [_Part(task, lam, task.fold != k) for k in range(folds)]
    full_part = _Part(task, lam, task.fold >= 0)
    before, gains = np.zeros(task.nodes.values.shape), np.zeros(n)
    score, steps = np.zeros(n), []
    share = task.weights / task.weights.sum()
    for turn in range(rounds):
        directions = [part.direction() for part in parts]
        coefficients = np.empty_like(task.outcomes)  # learned without the fold of the row
        for k, direction in enumerate(directions):
            coefficients[task.fold == k] = times(task.inputs[task.fold == k], direction)
        heights, gain = (
            task.nodes.heights(coefficients),
            np.einsum("nr,nr->n", task.outcomes, coefficients),
        )
        step = best_step(task.nodes, before, heights, gain, task.weights)
        after = score_tilts(task.nodes, before + step * heights, gains + step * gain)
        threshold = (_FURTHER if turn else _FIRST) * standard_error(after - score, task.weights)
        if not (step > 0 and share @ (after - score) > threshold):
            break
        score, before, gains = after, before + step * heights, gains + step * gain
        full_part.total = full_part.total + step * full_part.direction()
        for part, direction in zip(parts, directions, strict=True):
            part.total = part.total + step * direction
        steps.append(step)
    return _Boosted(lam, float(share @ score), steps, full_part.total)
