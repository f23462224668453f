"""Recalibration of location and spread that depends on the input."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import RandomState
from fastmcmd.backends.tall_skinny import times
from fastmcmd.inference.corrections import (
    CountCorrection,
    LocationScale,
    correctable,
    reason_against,
    starting_point,
)
from fastmcmd.inference.inputs import input_map
from fastmcmd.inference.local_corrections import (
    CorrectionFit,
    RowBlocks,
    fit_corrections,
    smoothing_filter,
)
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import Constant, Kernel
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.landmarks import LocalRecalibrator, folds_of, standard_error
from fastmcmd.recalibration.rescaled import rescale
from fastmcmd.recalibration.tilted import TiltedCounts

__all__ = ["ConditionalRescaling"]

_LAMS = (0.1, 0.01, 0.001)
_DAMPINGS = (0.0, 0.25, 0.5, 0.75, 1.0)
_FULL = 0.5  # smoothed value of the constant 1 from which a local correction counts fully
_FARTHEST = 5.0  # largest absolute log factor
_BETTER = 2.0  # standard errors by which a correction must beat no correction


class ConditionalRescaling(LocalRecalibrator):
    """Shifts predictions and multiplies their spread by functions of the input.

    Parameters
    ----------
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs. Default ("auto"): three RBF lengths on standardised columns, as in `cce`.
    lam : "auto", float or sequence of float, default "auto"
        Regularisers to choose from; "auto" stands for 0.1, 0.01 and 0.001.
    folds : int, default 5
        Number of folds of the cross-fitting.
    landmarks : int, default 300
        Largest number of landmarks.
    random_state : int, numpy.random.Generator or None, default 0
        Source of the folds and the landmarks.

    Attributes
    ----------
    base_ : ndarray (2,)
        Shift and log factor of spread at inputs without nearby rows.
    damping_ : float
        Share of the local correction that is applied beyond the base: 0, 0.25, 0.5, 0.75 or 1.
    lam_ : float
        The chosen regulariser.
    gain_ : float
        Cross-fitted gain in mean log score (in CRPS, for predictions without density).
    offset_, scales_, kernel_, landmarks_, origin_, factor_, coefficients_, support_
        The smoother and its sums.

    Notes
    -----
    Applies the corrections of `fastmcmd.diagnose` at new inputs. The candidates are no correction, a single
    correction for all rows, and local corrections with each regulariser and damping. Log scores on held-out
    folds decide; unless the best candidate beats no correction by two standard errors, predictions do not
    change. Continuous distributions are shifted and stretched around their means, and may leave a bounded
    support (`WitnessTilting` preserves it). Counts stay counts.

    Examples
    --------
    The model claims one spread; the truth has 1.0 for x < 0 and 0.3 for the others. The correction
    learns both:

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, (2, 500))
    >>> y = x + np.where(x < 0, 1.0, 0.3) * rng.normal(size=x.shape)
    >>> wrong, new = fm.Gaussian(x[0], 0.6), fm.Gaussian(x[1], 0.6)
    >>> mended = fm.recalibration.ConditionalRescaling().fit(wrong, y[0], x[0]).transform(new, x[1])
    >>> [round(float(mended.std[part].mean()), 1) for part in (x[1] < -0.5, x[1] > 0.5)]
    [1.0, 0.3]
    >>> bool(fm.nll(y[1], mended) < fm.nll(y[1], new) - 0.1)
    True
    """

    base_: Array
    damping_: float
    lam_: float
    gain_: float
    coefficients_: Array
    support_: Array

    def __init__(
        self,
        x_kernel: Kernel | None = None,
        lam: float | str = "auto",
        folds: int = 5,
        landmarks: int = 300,
        random_state: RandomState = 0,
    ) -> None:
        self._set_options(x_kernel, lam, folds, landmarks, random_state)

    def learn_at(self, rows: Outcomes, x: Array) -> None:
        """Choose the damping and the regulariser by cross-fitting, then fit all rows."""
        reason = reason_against(rows.prediction)
        if reason is not None:
            raise ValueError(f"prediction cannot be rescaled: {reason}")
        mapping = input_map(x, self.x_kernel, rows.weights)
        x, y = mapping(x), rows.y
        weights = np.ones(len(y)) if rows.weights is None else rows.weights
        fold = folds_of(rows, self.folds, self.random_state)
        smoother = Smoother.of(mapping.kernel, x, self.landmarks, 0)
        lams = self._lams(_LAMS)
        candidates = [(False, 0.0, lams[0]), (True, 0.0, lams[0])]
        candidates += [
            (base, damping, lam)
            for lam in lams
            for base in (False, True)
            for damping in _DAMPINGS[1:]
        ]
        scores = np.zeros((len(candidates), len(y)))
        for k in range(self.folds):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            if not weights[train].sum() > 0:
                continue
            part = rows.prediction.take(train)
            base = _global(part, y[train], weights[train])
            blocks = RowBlocks(smoother, x[train], weights[train])
            test_features = blocks.basis.coordinates(x[test])
            corrected = Corrector(rows.prediction.take(test))
            model = _starting_model(part, base)
            fits = {lam: _fit(blocks, lam, model, y[train], base) for lam in lams}
            for place, (use_base, damping, lam) in enumerate(candidates):
                start = base if use_base else np.zeros(2)
                shift, log_factor = _local(fits[lam], test_features, start, damping)
                scores[place, test] = _score(corrected(shift, log_factor), y[test])
        best = _choice(scores, weights)
        use_base, self.damping_, self.lam_ = candidates[best]
        share = weights / weights.sum()
        self.gain_ = 0.0 if best == 0 else _mean_gain(scores[best], scores[0], share)
        base = _global(rows.prediction, y, weights)
        blocks = RowBlocks(smoother, x, weights)
        basis = blocks.basis
        fit = _fit(blocks, self.lam_, _starting_model(rows.prediction, base), y, base)
        self.base_ = base if use_base else np.zeros(2)
        self._keep_inputs(mapping, smoother)
        vectors = basis.vectors[:, basis.significant]
        self.coefficients_, self.support_ = times(vectors, fit.coefficients), vectors @ fit.support

    def corrections(self, x: Array) -> tuple[Array, Array]:
        """Return the shifts and the log factors of spread (q,) at inputs (q, d).

        Parameters
        ----------
        x : ndarray (q, d)
            Inputs.
        """
        self.check_fitted()
        fit = CorrectionFit(self.coefficients_, self.support_, np.empty(0), np.empty(0))
        return _local(fit, self._features(x), self.base_, self.damping_)

    def apply_at(self, prediction: Predictive, x: Array) -> Predictive:
        """Return corrected predictions."""
        reason = reason_against(prediction)
        if reason is not None:
            raise ValueError(f"prediction cannot be rescaled: {reason}")
        return Corrector(prediction)(*self.corrections(x))

    def check_state(self) -> None:
        """Raise ValueError unless the fitted corrections are valid."""
        super().check_state()
        for name, shape in (
            ("base_", (2,)),
            ("coefficients_", (len(self.landmarks_), self.coefficients_.shape[-1])),
            ("support_", (len(self.landmarks_),)),
        ):
            value = getattr(self, name)
            if value.shape != shape or not np.isfinite(value).all():
                raise ValueError(f"{name} has shape {value.shape} or values that are not finite")
        if self.coefficients_.shape[1] % 3:
            raise ValueError("coefficients_ are no three blocks of features")
        for number, name in (
            (self.damping_, "damping_"),
            (self.lam_, "lam_"),
            (self.gain_, "gain_"),
        ):
            if type(number) is not float:
                raise ValueError(f"{name} is {number!r:.60}; a number is needed")


class Corrector:
    """Shifts and widens predictions; counts as in `diagnose`, with a table that is computed once."""

    def __init__(self, prediction: Predictive) -> None:
        self.prediction = prediction
        self._rows = slice(0, len(prediction))
        if prediction.discrete:
            self._model = CountCorrection(prediction)
            self._table = self._model.table(self._rows, dense=True)

    def __call__(self, shift: Array, log_factor: Array) -> Predictive:
        """Return predictions shifted by ``shift`` and widened by the factor ``exp(log_factor)``."""
        if not self.prediction.discrete:
            return rescale(self.prediction, np.exp(log_factor), shift)
        table = self._table
        power, tilt = self._model.parameters(shift, log_factor, self._rows, table)
        log_weights = power[:, None] * table.statistic + tilt[:, None] * table.values
        return TiltedCounts.of_table(self.prediction, table.values[:, 0], log_weights, table.logs)


def _global(prediction: Predictive, y: Array, weights: Array) -> Array:
    """Return the shift and the log factor (2,) of a single correction for all rows."""
    start = starting_point(prediction, y, weights)
    x = np.zeros((len(y), 1))
    blocks = RowBlocks(Smoother.of(Constant(1.0), x, 1), x, weights)
    model = correctable(prediction, *start)
    begin = (0.0 if prediction.discrete else start[0], float(np.log(start[1])))
    fit = fit_corrections(blocks, blocks.basis.shrinkage(1e-9), model, y, begin)
    correction = np.array([fit.shift[0], fit.log_factor[0]])
    return correction if np.isfinite(correction).all() else np.zeros(2)


def _starting_model(prediction: Predictive, base: Array) -> LocationScale | CountCorrection:
    """Return the model of local corrections, standardised by the global correction."""
    start = (0.0, 1.0) if prediction.discrete else (float(base[0]), float(np.exp(base[1])))
    return correctable(prediction, *start)


def _fit(
    blocks: RowBlocks, lam: float, model: LocationScale | CountCorrection, y: Array, base: Array
) -> CorrectionFit:
    """Return local corrections, fitted from the global correction as a start."""
    shrink = smoothing_filter(blocks.basis, lam)
    return fit_corrections(blocks, shrink, model, y, (float(base[0]), float(base[1])))


def _local(fit: CorrectionFit, g: Array, base: Array, damping: float) -> tuple[Array, Array]:
    """Return damped corrections at coordinates g (q, p); the base where no rows are near."""
    if damping == 0:
        return np.full(len(g), base[0]), np.full(len(g), base[1])
    correction = fit.at(g)
    trust = damping * np.clip(g @ fit.support / _FULL, 0.0, 1.0)
    finite = np.isfinite(correction.shift) & np.isfinite(correction.log_factor)
    trust = np.where(finite, trust, 0.0)
    shift = base[0] + trust * np.where(finite, correction.shift - base[0], 0.0)
    log_factor = base[1] + trust * np.where(finite, correction.log_factor - base[1], 0.0)
    return shift, np.clip(log_factor, -_FARTHEST, _FARTHEST)


def _score(prediction: Predictive, y: Array) -> Array:
    """Return log scores (n,), or the negative CRPS for predictions without density."""
    return prediction.log_prob(y) if prediction.has_density else -prediction.crps(y)


def _mean_gain(scores: Array, before: Array, share: Array) -> float:
    """Return the mean gain; rows whose score before is minus infinity count as 0."""
    with np.errstate(invalid="ignore"):
        gain = float(share @ (scores - before))
    return gain if np.isfinite(gain) else 0.0


def _choice(scores: Array, weights: Array) -> int:
    """Return the index of the candidate with the best mean score, or 0 (none) if its gain may be chance."""
    some = weights > 0
    scores, weights = scores[:, some], weights[some]
    share = weights / weights.sum()
    with np.errstate(invalid="ignore"):
        means = np.nan_to_num(scores @ share, nan=-np.inf, neginf=-np.inf)
    best = int(np.argmax(means))
    if best == 0 or not np.isfinite(means[best]):
        return 0
    if not np.isfinite(means[0]):
        return best
    gain = scores[best] - scores[0]
    return best if share @ gain > _BETTER * standard_error(gain, weights) else 0
