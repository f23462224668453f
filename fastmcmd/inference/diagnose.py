"""Diagnosis of wrong predictions: the shift and the factor of spread that they need at each input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fastmcmd._base.annotations import RandomState
from fastmcmd._base.checks import (
    as_float,
    as_rows,
    as_weights,
    check_same_length,
    quote,
)
from fastmcmd.backends import get_backend
from fastmcmd.backends.tall_skinny import inner, times
from fastmcmd.default_kernels import chosen_lam, given_kernel
from fastmcmd.embedding.features import output_features
from fastmcmd.frames import check_row_order, input_names, row_labels
from fastmcmd.inference.corrections import (
    FARTHEST,
    CountCorrection,
    KernelMap,
    LocationScale,
    correctable,
    quantile_rule,
    reason_against,
)
from fastmcmd.inference.diagnosis import Diagnosis
from fastmcmd.inference.inputs import input_map
from fastmcmd.inference.local_corrections import (
    CorrectionFit,
    Influences,
    RowBlocks,
    Uncertainty,
    fit_corrections,
    quadratic,
    smoothing_filter,
)
from fastmcmd.inference.local_start import local_start
from fastmcmd.inference.smoother import SUPPORTED, Smoother
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import numbered

__all__ = ["LANDMARKS", "diagnose", "diagnose_on", "output_map"]

Array = NDArray[np.float64]

LANDMARKS = 300
_LEAST_LANDMARKS = 20
_ROWS_OF_A_LANDMARK = 4  # fewer leave hardly any rows near an input with many columns
_FEWEST = 8.0  # smallest number of effective rows
_TAILS = (
    8.0  # effective rows per degree of freedom: squared influences of skewed outcomes vary much
)
_PRECISION = 1e-7  # precision of the features of an output kernel from the caller
_MOST_FEATURES = 300
_DIFFERENCE = 1e-4  # half the step of a derivative, relative to the spread of outcomes


def diagnose(
    x: ArrayLike,
    y: ArrayLike,
    prediction: PredictionLike,
    at: ArrayLike | None = None,
    x_kernel: Kernel | str | None = None,
    y_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    level: float = 0.9,
    weights: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Diagnosis:
    """Return the shift and the factor of spread that predictions need at each input, with bands.

    Parameters
    ----------
    x : array_like (n, d) or (n,)
        Inputs.
    y : array_like (n,)
        Observed outputs, which the model was not trained on.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object
        The predicted distributions of numbers.
    at : array_like (q, d) or (q,), optional
        Inputs at which to diagnose; default ``x``.
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs; default ("auto") as in `cce`.
    y_kernel : Kernel, "auto" or "paper", optional
        Kernel on outputs. Default ("auto"), unlike in `cce`: an RBF kernel of length 1 on standardised
        outcomes ``(y - mean) / std``, which detects a wrong spread even if the means vary faster than
        ``x_kernel`` resolves.
    lam : float, "auto" or "paper", optional
        Regulariser; default as in `cce`.
    level : float
        Pointwise confidence level of the bands.
    weights : array_like (n,), optional
        Nonnegative weights of the rows.
    random_state : int, numpy.random.Generator or None
        Source of the choice of landmarks; None means 0.

    Returns
    -------
    Diagnosis
        ``shift``, ``factor`` and their bands; the shares of the squared congruence error beyond chance that
        location, spread and shape explain; ``repr`` in words.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    With the residuals ``e_i = p(y_i) - E p(Y_i)`` in the space of the output kernel, the coefficients
    ``a_i(x)`` of kernel ridge regression on landmarks, and the derivatives -t_i and -u_i of e_i under a
    shift and under a log factor of spread, the correction at x minimises

        ``|sum_i a_i(x) (e_i - t_i c - u_i s)|^2``

    by four Gauss-Newton steps (docs/theory.md, section "Diagnosis"). They start at medians of all rows,
    or of rows with similar inputs if the model is off by many standard deviations there. The ridge
    regression is iterated twice, which makes its bias small relative to the bands. The covariance of
    (c, s) is ``G^-1 (sum_i a_i^2 J' e_i e_i' J) G^-1`` with ``J = [sum a_i t_i, sum a_i u_i]`` and
    ``G = J'J``. The change by the two iterations widens the bands: where they did not remove the bias, at
    the ends of the inputs, it is of that size. With more than 20,000 rows, all steps but the last use
    every k-th row.

    Counts keep their outcomes: the correction multiplies their means and changes their dispersion. Where
    nearly all counts are 0 there is no answer: any small mean would do. Classes,
    point predictions and vector outputs have no such corrections: everything is NaN, and ``reason`` says
    why.

    Examples
    --------
    A model that predicts 0.2 too high, with the right spread. The shift is near -0.2 and the factor
    near 1.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 2000)
    >>> y = np.sin(2 * x) + 0.3 * rng.normal(size=2000)
    >>> diagnosis = fm.diagnose(x, y, fm.Gaussian(np.sin(2 * x) + 0.2, 0.3), at=[-1.0, 1.0])
    >>> diagnosis.shift.round(1).tolist(), bool((np.abs(diagnosis.factor - 1) < 0.2).all())
    ([-0.2, -0.2], True)
    """
    diagnosis = diagnose_on(
        LANDMARKS, x, y, prediction, at, x_kernel, y_kernel, lam, level, weights, random_state
    )
    return replace(diagnosis, column_names=input_names(x))


def diagnose_on(
    landmarks: int,
    x: ArrayLike,
    y: ArrayLike,
    prediction: PredictionLike,
    at: ArrayLike | None = None,
    x_kernel: Kernel | str | None = None,
    y_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    level: float = 0.9,
    weights: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Diagnosis:
    """Return `diagnose` with at most so many landmarks, and a quarter of the rows."""
    labels = row_labels(x if at is None else at)
    check_order(y, "(x, y, prediction)")
    check_row_order(x=x, y=y, prediction=prediction, weights=weights)
    x, y = (
        as_rows(x, "x").astype(np.float64),
        as_rows(numbered(y, prediction), "y").astype(np.float64),
    )
    check_same_length(x=x, y=y)
    grid = x if at is None else as_rows(at, "at", columns=x.shape[1]).astype(np.float64)
    predictive = as_predictive(prediction, len(y), y.shape[1], y=y, x=x)
    row_weights = as_weights(weights, "weights", len(y))
    row_weights = np.ones(len(y)) if row_weights is None else row_weights
    level = as_float(level, "level")
    if not 0 < level < 1:
        raise ValueError(f"level is {quote(level)}; a number between 0 and 1 is needed")
    lam, mapping = chosen_lam(lam, x_kernel), input_map(x, x_kernel, weights)
    output_kernel = given_kernel(y_kernel, "y_kernel")
    reason = reason_against(predictive)
    if reason is not None:
        return _nothing(grid, level, reason, labels)
    start = local_start(predictive, mapping(x), y[:, 0], row_weights)
    outputs = None if output_kernel is None else output_map(output_kernel, predictive, y)
    model = correctable(predictive, start.shift, start.factor, outputs)
    landmarks = min(landmarks, max(_LEAST_LANDMARKS, len(y) // _ROWS_OF_A_LANDMARK))
    smoother = Smoother.of(
        mapping.kernel, mapping(x), landmarks, 0 if random_state is None else random_state
    )
    blocks = RowBlocks(smoother, mapping(x), row_weights)
    basis = blocks.basis
    shrink = smoothing_filter(basis, lam)
    once = basis.shrinkage(lam) / shrink
    begin = start.shift, np.log(start.factor)
    fit = fit_corrections(blocks, shrink, model, y[:, 0], begin)
    task = _Task(blocks, shrink, once, model, y[:, 0], fit, begin)
    g = blocks.coordinates(slice(0, len(y))) if at is None else basis.coordinates(mapping(grid))
    return _diagnosis(task, g, grid, level, labels)


def output_map(kernel: Kernel, prediction: Predictive, y: Array) -> KernelMap:
    """Return features of an output kernel over outcomes and predictions."""
    kernel = kernel.resolve(y)
    spread = float(np.std(y)) or float(np.median(prediction.std)) or 1.0
    some = np.linspace(0, len(y) - 1, min(len(y), 200)).astype(np.intp)
    levels = quantile_rule()[0][::4]
    predicted = np.asarray(prediction.take(np.unique(some)).quantile(levels)).ravel()
    points = np.unique(np.concatenate([y[:, 0], predicted[np.isfinite(predicted)]]))[:, None]
    features = output_features(
        kernel, get_backend("auto", kernel), points, _PRECISION, _MOST_FEATURES
    )
    if features is None:
        raise ValueError(
            f"y_kernel is {kernel!r}, which needs more than {_MOST_FEATURES} features; a smoother kernel "
            "is needed, or None"
        )
    return KernelMap(features[0], _DIFFERENCE * spread)


@dataclass(frozen=True)
class _Task:
    blocks: RowBlocks
    shrink: Array
    once: Array  # the filter of one pass of ridge regression, as a share of `shrink`
    model: LocationScale | CountCorrection
    y: Array
    fit: CorrectionFit
    begin: tuple[Array, Array]  # shift and log factor (n,) from which the fit started


def _diagnosis(task: _Task, g: Array, grid: Array, level: float, labels: Any) -> Diagnosis:
    fit, model = task.fit, task.model
    variances, residuals = _residual_sums(task)
    local, plain = fit.at(g), fit.at(g, task.once)
    total = g @ fit.support
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = total**2 / quadratic(g, variances.rows)
        supported = (total > SUPPORTED) & (rows >= _FEWEST) & np.isfinite(local.shift)
        if model.log_mean:  # beyond it corrections are no solutions, such as where all counts are 0
            for value, start in zip((local.shift, local.log_factor), task.begin, strict=True):
                supported &= np.abs(value - _smoothed(task, start, g) / total) <= FARTHEST
        wide = special.stdtrit(np.maximum(rows / _TAILS, 1.0), (1 + level) / 2)
        shift_deviation = np.sqrt(quadratic(g, variances.shift)) * variances.unit / total
        factor_deviation = np.sqrt(quadratic(g, variances.log_factor)) / total
        shift_error = np.hypot(wide * shift_deviation, _change(plain.shift, local.shift))
        factor_error = np.hypot(
            wide * factor_deviation, _change(plain.log_factor, local.log_factor)
        )
    shift = np.where(supported, local.shift, np.nan)
    log_factor = np.where(supported, local.log_factor, np.nan)
    absorbed = (
        _absorbed(local.by_shift, shift_deviation),
        _absorbed(local.by_factor, factor_deviation),
    )
    shares, overall = _shares(task, residuals, absorbed, g, supported)
    ends = np.array([-1.0, 1.0])
    with np.errstate(over="ignore"):
        return Diagnosis(
            shift=shift,
            factor=np.exp(log_factor),
            shift_band=shift[:, None] + shift_error[:, None] * ends,
            factor_band=np.exp(log_factor[:, None] + factor_error[:, None] * ends),
            location=shares[0],
            spread=shares[1],
            shape=shares[2],
            effective_rows=np.where(np.isfinite(rows), rows, 0.0),
            supported=supported,
            total=overall,
            level=level,
            scale="log mean" if model.log_mean else "units of y",
            reason="",
            x=grid,
            labels=labels,
        )


def _smoothed(task: _Task, values: Array, g: Array) -> Array:
    """Return the sum of values (n,) of the rows with the coefficients of the fit (q,)."""
    sums = np.zeros(len(task.shrink))
    for rows, coordinates in task.blocks:
        sums += coordinates.T @ (task.blocks.weights[rows] * values[rows])
    return np.asarray(g @ (task.shrink * sums))


def _change(one: Array, other: Array) -> Array:
    """Return differences, 0 if either has no value."""
    change = one - other
    return np.where(np.isfinite(change), change, 0.0)


def _absorbed(derivative: Array, deviation: Array) -> Array:
    """Return the noise (q,) that a fitted correction removes from the squared residual."""
    with np.errstate(over="ignore", invalid="ignore"):
        change = derivative * deviation[:, None]  # the squares of either may leave float64
        return np.asarray(np.einsum("qr,qr->q", change, change))


def _shares(
    task: _Task,
    residuals: list[_ResidualSums],
    absorbed: tuple[Array, Array],
    g: Array,
    supported: NDArray[np.bool_],
) -> tuple[list[Array], dict[str, float]]:
    """Return the shares (q,) of the shift, the factor and neither in the error, and those of the means.

    The part of the noise that fitted corrections ``absorbed`` is not explained: it is added back.
    """
    excesses = [np.where(supported, _excess(task, g, one), np.nan) for one in residuals]
    for place, noise in enumerate(absorbed, start=1):
        for one in excesses[place:]:
            one += np.where(np.isfinite(noise), noise, 0.0)
    shares = _parts(*excesses)
    if not supported.any():
        return shares, {}
    means = [np.array([np.mean(one[supported])]) for one in excesses]
    if not means[0][0] > _chance(task, residuals[-1]):
        return shares, {}
    overall = [float(one[0]) for one in _parts(*means)]
    return shares, dict(zip(("location", "spread", "shape"), overall, strict=True))


def _parts(before: Array, shifted: Array, after: Array) -> list[Array]:
    """Return the share of a positive excess that each step explains; the shares add up to 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, last = (np.clip(one / before, 0.0, 1.0) for one in (shifted, after))
    first = np.where(before > 0, first, np.nan)
    last = np.minimum(np.where(before > 0, last, np.nan), first)
    return [1 - first, first - last, last]


class _ResidualSums:
    """``G'W E`` (p, r), ``G' W^2 diag(|e|^2) G`` (p, p) and ``E'WE`` (r, r) of residuals E."""

    def __init__(self, p: int, size: int) -> None:
        self.smooth, self.squares = np.zeros((p, size)), np.zeros((p, p))
        self.covariance = np.zeros((size, size))

    def add(self, g: Array, w: Array, residual: Array) -> None:
        """Add a block of rows."""
        weighted = g * w[:, None]
        self.smooth += inner(weighted, residual)
        weighted *= np.sqrt(np.einsum("nr,nr->n", residual, residual))[:, None]
        self.squares += inner(weighted, weighted)
        self.covariance += inner(residual, residual, scale=w)


def _residual_sums(task: _Task) -> tuple[Uncertainty, list[_ResidualSums]]:
    """Return sums over the rows uncorrected, shifted, and both shifted and rescaled, in one pass."""
    fit, model = task.fit, task.model
    unit = 1.0 if model.log_mean else float(np.median(model.step))
    influences = Influences(task.shrink, fit, unit)
    sums = [_ResidualSums(len(task.shrink), model.size) for _ in range(3)]
    for rows, g in task.blocks:
        features, w = model.features(task.y[rows], rows), task.blocks.weights[rows]
        shift, log_factor = fit.shift[rows], fit.log_factor[rows]
        none = np.zeros_like(shift)
        for one, corrected in zip(
            sums, ((none, none), (shift, none), (shift, log_factor)), strict=True
        ):
            residual = features - model.expected(*corrected, rows)
            one.add(g, w, residual)
        influences.add(g, w, residual)
    return influences.uncertainty(), sums


def _excess(task: _Task, g: Array, sums: _ResidualSums) -> Array:
    """Return ``|sum a_i e_i|^2 - sum a_i^2 |e_i|^2`` (q,) for corrected predictions."""
    smooth = times(g, task.shrink[:, None] * sums.smooth)
    noise = quadratic(g, task.shrink[:, None] * sums.squares * task.shrink)
    return np.asarray(np.einsum("qr,qr->q", smooth, smooth) - noise)


def _chance(task: _Task, sums: _ResidualSums) -> float:
    """Return approximately twice the standard deviation of the mean excess of right predictions.

    With residuals of covariance C, the rows of G'WE are independent, with covariances ``s_k C N / m`` for
    the effective number of rows ``m = (sum w)^2 / sum w^2``, which is N without weights. So the mean
    excess has the variance ``2 tr(C^2) sum_k (filter_k s_k)^4 / m^2``.
    """
    basis = task.blocks.basis
    covariance = sums.covariance / basis.total
    shares = (task.shrink * basis.spectrum) ** 4
    effective = basis.total**2 / float(np.square(task.blocks.weights).sum())
    return float(2 * np.sqrt(2 * np.sum(covariance**2) * shares.sum()) / effective)


def _nothing(grid: Array, level: float, reason: str, labels: Any) -> Diagnosis:
    nan = np.full(len(grid), np.nan)
    band = np.full((len(grid), 2), np.nan)
    return Diagnosis(
        nan, nan, band, band, nan, nan, nan, np.zeros(len(grid)), np.zeros(len(grid), dtype=bool), {},
        level, "units of y", reason, grid, labels,
    )  # fmt: skip
