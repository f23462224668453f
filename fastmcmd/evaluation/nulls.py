"""Expected values of nonnegative measures under a right model, which are positive in finite samples."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from fastmcmd._base.gauss import gauss_legendre
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import eigh
from fastmcmd.evaluation.class_gaps import CLASS_MEASURES, null_class_errors
from fastmcmd.evaluation.context import Context
from fastmcmd.metrics.pit import pit_of_rows, sort_pit
from fastmcmd.metrics.reliability_sums import (
    ECE_LEVELS,
    TOOLBOX_LEVELS,
    ReliabilityCurve,
    conclude_reliability,
    reliability_sums,
)
from fastmcmd.metrics.variance import gather_columns
from fastmcmd.metrics.variance_bins import Cells, cells_of, into_bins
from fastmcmd.predictive import Gaussian
from fastmcmd.predictive.base import Array

__all__ = [
    "CURVE_MEASURES",
    "NULL_SAMPLES",
    "VARIANCE_MEASURES",
    "curve_number",
    "null_curve_errors",
    "null_expectations",
    "simulated_spread_errors",
]

CURVE_MEASURES = (
    "regression_ece", "rms_calibration_error", "mean_absolute_calibration_error",
    "miscalibration_area",
)  # fmt: skip
VARIANCE_MEASURES = ("ence", "uce")
NULL_SAMPLES = (
    20  # samples of n outcomes, as in `fastmcmd.metrics.null_ence`: 5 % error of the mean
)
_LEAST_SAMPLES = 4
_SIMULATED = 400_000  # most simulated outcomes, unless the least number of samples needs more
_NODES = 200  # nodes of the integral over a half line
_MEAN_ABSOLUTE = np.sqrt(2 / np.pi)  # mean absolute value of a standard normal number


def null_expectations(context: Context, names: Iterable[str]) -> dict[str, float]:
    """Return the expectations of measures under a right model, for the measures that have one.

    A model is right if outcomes follow the predicted distributions. Inputs, sharpness and sample size are
    those of the context.
    """
    requested, nulls = set(names), context.nulls
    if not requested.intersection(CURVE_MEASURES) <= nulls.keys():
        uniform = context.settings.pit == "randomized" or isinstance(context.base, Gaussian)
        if uniform:
            effective = context.reliability("quantile", ECE_LEVELS).effective
            nulls.update(null_curve_errors(effective))
        else:
            nulls.update(_of_simulated_pit(context))
    if not requested.intersection(CLASS_MEASURES) <= nulls.keys():
        nulls.update(null_class_errors(context))
    if not requested.intersection(VARIANCE_MEASURES) <= nulls.keys():
        nulls.update(_of_variances(context))
    return {name: value for name, value in nulls.items() if name in requested}


def curve_number(name: str, curve: ReliabilityCurve) -> float:
    """Return the value of a measure from a reliability curve."""
    return curve.ece() if name == "regression_ece" else float(getattr(curve, name))


def null_curve_errors(effective: float) -> dict[str, float]:
    """Return expectations for a uniform PIT: observed minus expected shares are nearly a Brownian bridge.

    ``effective`` is the number of rows, or with weights that of equal rows.

    Second moments at each level are exact, with or without weights. The normal approximation of the means
    is accurate to 2 % from 20 rows on.
    """
    scale = 1 / np.sqrt(effective)
    return {name: scale * value for name, value in _bridge().items()}


@lru_cache(maxsize=1)
def _bridge() -> dict[str, float]:
    """Return the expected norms of a Brownian bridge at the levels of all measures."""
    levels = TOOLBOX_LEVELS
    return {
        "regression_ece": _mean_absolute(ECE_LEVELS),
        "rms_calibration_error": _root_mean_square(levels),
        "mean_absolute_calibration_error": _mean_absolute(levels),
        "miscalibration_area": _area(levels),
    }


def _mean_absolute(levels: Array) -> float:
    return float(_MEAN_ABSOLUTE * np.sqrt(levels * (1 - levels)).mean())


def _area(levels: Array, points: int = 16) -> float:
    """Return the expected area between 0 and straight lines through the bridge at levels."""
    left, right = levels[:-1, None], levels[1:, None]
    part = (np.arange(points) + 0.5) / points
    variance = (
        (1 - part) ** 2 * left * (1 - left)
        + part**2 * right * (1 - right)
        + 2 * part * (1 - part) * left * (1 - right)
    )
    steps = (right - left)[:, 0]
    return float(_MEAN_ABSOLUTE * (steps * np.sqrt(variance).mean(axis=1)).sum())


def _root_mean_square(levels: Array) -> float:
    """Return E sqrt(Q), where Q is the mean square of the bridge at levels.

    Q is ``sum l_i Z_i^2`` with l the eigenvalues of its covariance, and ``E sqrt(Q)`` is the integral of
    ``(1 - E exp(-t Q)) t^(-3/2) / (2 sqrt(pi))``. With ``t = u^2`` and ``u = s / (1 - s)`` in units of
    ``1 / sqrt(E Q)``, a Gauss rule integrates it to rounding.
    """
    covariance = np.minimum.outer(levels, levels) - np.outer(levels, levels)
    eigenvalues = np.maximum(eigh(covariance, vectors=False)[0], 0.0)
    unit = float(eigenvalues.sum())  # E Q times len(levels)
    nodes, weights = gauss_legendre(_NODES)
    s = (nodes + 1) / 2
    u = s / (1 - s)
    exponents = np.log1p(2 * np.square(u)[:, None] * (eigenvalues / unit)).sum(axis=1)
    value = (weights / 2) @ (-np.expm1(-0.5 * exponents) / np.square(s))
    return float(value * np.sqrt(unit / len(levels) / np.pi))


def _samples(n: int) -> int:
    return int(np.clip(_SIMULATED // n, _LEAST_SAMPLES, NULL_SAMPLES))


def _simulated(context: Context) -> Array:
    """Return outcomes (n, samples) that follow the predicted distributions."""
    rng = generator(context.settings.random_state, Purpose.NULL)
    return context.base.sample(_samples(len(context.y)), rng)


def _of_simulated_pit(context: Context) -> dict[str, float]:
    """Return simulated expectations for PITs that are not uniform: "mid" and "plain" with atoms."""
    settings = context.settings
    simulated: dict[str, list[float]] = {name: [] for name in CURVE_MEASURES}
    for outcomes in _simulated(context).T:
        values = pit_of_rows(np.ascontiguousarray(outcomes), context.base, settings.pit, 0)
        pit = sort_pit(values, context.weights)
        curves = {
            kind: conclude_reliability(reliability_sums(pit, levels, kind), kind)
            for kind, levels in (("quantile", ECE_LEVELS), ("interval", TOOLBOX_LEVELS))
        }
        for name, numbers in simulated.items():
            kind = "quantile" if name == "regression_ece" else "interval"
            numbers.append(curve_number(name, curves[kind]))
    return {name: float(np.mean(numbers)) for name, numbers in simulated.items()}


def _of_variances(context: Context) -> dict[str, float]:
    """Return expectations of ENCE and UCE, by a formula for Gaussians and by simulation otherwise."""
    curve = context.variance_curve
    if isinstance(context.base, Gaussian):
        return {"ence": curve.null_ence, "uce": curve.null_uce}
    squares = _simulated(context) - context.prediction.mean[:, None]
    squares *= squares
    return simulated_spread_errors(_binned_squares(context, squares, len(curve.edges) - 1))


def simulated_spread_errors(sums: Array) -> dict[str, float]:
    """Return the mean ENCE and UCE of simulated outcomes.

    Parameters
    ----------
    sums : ndarray (b, 2 + samples)
        For each bin the sums of weights, of variances, and of the squared errors of each simulated data
        set.
    """
    mass, variance, errors = sums[:, 0], sums[:, 1], sums[:, 2:]
    relative = np.abs(np.sqrt(errors / variance[:, None]) - 1)
    gaps = np.abs(errors - variance[:, None])
    return {
        "ence": float(relative.mean()),
        "uce": float((gaps.sum(axis=0) / mass.sum()).mean()),
    }


def _binned_squares(context: Context, squares: Array, bins: int) -> Array:
    """Return per bin the sums (b, 2 + samples) of weights, of variances and of simulated squares."""
    spread, (ones, variance, _, noise) = gather_columns(context.rows)
    columns = [ones, variance, *(ones[:, None] * squares).T]
    if context.weights is not None:
        some = context.weights > 0
        spread, noise = spread[some], noise[some]
        columns = [column[some] for column in columns]
    binning = context.settings.binning
    spread = np.sqrt(spread)
    if binning == "mass":
        cells = cells_of(spread, columns, noise)
    else:
        cells = Cells(spread, np.stack(columns, axis=1), noise)
    sums = into_bins(cells, bins, binning).sums
    return np.asarray(sums[sums[:, 0] > 0])
