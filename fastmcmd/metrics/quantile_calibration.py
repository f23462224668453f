"""Calibration of quantiles or intervals within bins of predicted spread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import AnyArray, NanPolicy, RandomState
from fastmcmd._base.checks import check_choice
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.metric import metric
from fastmcmd.metrics.pit import PITS, pit_of_rows
from fastmcmd.metrics.reliability_sums import KINDS, read_levels
from fastmcmd.metrics.variance import BINNINGS, check_bins, check_limits
from fastmcmd.metrics.variance_bins import (
    Binned,
    Cells,
    bins_on_device,
    mass_bins,
    mass_groups,
    width_places,
)
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["QCE_LEVELS", "conclude_qce", "finite_std", "qce", "smallest_level"]

QCE_LEVELS = np.arange(1, 20) / 20  # 0.05 to 0.95, as in the paper's experiments


def smallest_level(values: Array, levels: Array, kind: str) -> AnyArray:
    """Return the index (m,) of the smallest of ascending levels that holds each PIT value.

    The comparison uses the same numbers as `reliability_sums`: PIT values of draws lie on a lattice, where
    an additional rounding would change the result.
    """
    if kind == "quantile":
        return np.searchsorted(levels, values, side="left")
    place = np.empty(len(values), dtype=np.intp)
    upper = values > 0.5
    place[upper] = np.searchsorted(0.5 + levels / 2, values[upper], side="left")
    lower = np.searchsorted(0.5 - levels[::-1] / 2, values[~upper], side="right")
    place[~upper] = len(levels) - lower
    return place


def conclude_qce(binned: Binned, levels: Array) -> float:
    """Return the mean over levels of the weighted mean over bins of ``|observed - level|``."""
    return _error(binned.sums[:, 0], np.cumsum(binned.sums[:, 1:-1], axis=1), levels)


def _error(mass: Array, within: Array, levels: Array) -> float:
    """Return the error from the weight of bins (b,) and of the outcomes within each level (b, j)."""
    some = mass > 0
    observed = within[some] / mass[some, None]
    gaps = np.abs(observed - levels).mean(axis=1)
    return float(mass[some] @ gaps / mass.sum())


def _binned(
    rows: Outcomes,
    spread: Array,
    place: AnyArray,
    count: int,
    bins: int,
    binning: str,
    limits: tuple[float, float] | None,
) -> Binned:
    """Return the sums in bins of the weights, and of the weights by place."""
    if binning == "width":
        counted_spread = spread if rows.weights is None else spread[rows.weights > 0]
        limits = limits or (float(counted_spread.min()), float(counted_spread.max()))
        groups, spreads = width_places(spread, bins, limits), np.linspace(*limits, bins + 1)[:-1]
    else:
        groups, spreads = mass_groups(spread, rows.weights, bins)
    width = count + 1
    flat = groups * width
    flat += place
    masses = np.bincount(flat, rows.weights, len(spreads) * width).reshape(-1, width)
    sums = np.concatenate([masses.sum(axis=1, keepdims=True), masses], axis=1, dtype=np.float64)
    if binning == "width":
        return Binned(sums, np.zeros(bins), np.append(spreads, spread.max()))
    some = sums[:, 0] > 0
    return mass_bins(Cells(spreads[some], sums[some], np.zeros(int(some.sum()))), bins)


@metric
def qce(
    y: ArrayLike,
    prediction: PredictionLike,
    levels: ArrayLike | None = None,
    bins: int = 10,
    *,
    binning: str = "mass",
    limits: tuple[float, float] | None = None,
    kind: str = "interval",
    pit: str = "randomized",
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the quantile calibration error within bins of predicted standard deviation.

    Parameters
    ----------
    prediction : Predictive or anything that converts to one
        Predicted distributions with finite standard deviations.
    levels : array_like (j,), optional
        Levels in [0, 1]. Default: 0.05 to 0.95 in steps of 0.05.
    bins : int
        Number of bins of the predicted standard deviation.
    binning : {"mass", "width"}
        Bins of equal weight or of equal width; see `ence_curve`.

    Returns
    -------
    float
        Mean over levels p of ``sum_b n_b/n |observed share in bin b - p|``.

    Notes
    -----
    This is the conditional quantile calibration error of Kueppers, Schneider & Haselhoff, *Parametric and
    Multivariate Uncertainty Calibration for Regression and Object Detection* (2022). For one output, their
    comparison of ``(y - m)^2 / s^2`` with a chi-square quantile is ``kind="interval"`` of a Gaussian.
    netcal 1.4 has only bins of equal width, and fails if all standard deviations are equal. Like ENCE, the
    error is not 0 for a calibrated model but grows like ``sqrt(bins / n)``.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> fm.metrics.qce(y, (np.zeros(4000), 1.0)) < 0.05
    True
    """
    sorted_levels = np.sort(read_levels(levels, QCE_LEVELS))
    check_choice(kind, "kind", KINDS)
    check_choice(pit, "pit", PITS)
    check_choice(binning, "binning", BINNINGS)
    limits = check_limits(limits, binning)
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True)
    bins = check_bins(bins, len(rows.prediction))
    values = pit_of_rows(rows.y, rows.prediction, pit, random_state)
    if rows.nan_result:
        return float("nan")
    spread = finite_std(rows)
    if not rows.namespace.on_host:
        return _on_device(rows, spread, values, sorted_levels, kind, bins, binning, limits)
    place = smallest_level(values, sorted_levels, kind)
    return conclude_qce(
        _binned(rows, spread, place, len(sorted_levels), bins, binning, limits), sorted_levels
    )


def _on_device(
    rows: Outcomes,
    spread: AnyArray,
    pit: AnyArray,
    levels: Array,
    kind: str,
    bins: int,
    binning: str,
    limits: tuple[float, float] | None,
) -> float:
    """Return the error of rows on a device; the columns of the levels are created one at a time."""
    arrays = rows.namespace
    weights = rows.weights
    if weights is not None:  # rows of weight 0 must not extend the limits
        some = weights > 0
        spread, pit, weights = spread[some], pit[some], weights[some]

    def columns() -> Iterator[AnyArray]:
        yield arrays.full(spread.shape[0], 1.0) if weights is None else weights
        for level in map(float, levels):
            within = pit <= (level if kind == "quantile" else 0.5 + level / 2)
            if kind == "interval":
                within = within & (pit >= 0.5 - level / 2)
            share = arrays.cast(within, "float64")
            yield share if weights is None else weights * share
        yield arrays.full(spread.shape[0], 0.0)  # the noise column is not used

    sums = bins_on_device(arrays, spread, weights, columns(), bins, binning, limits).sums
    return _error(sums[:, 0], sums[:, 1:], levels)


def finite_std(rows: Outcomes) -> Array:
    """Return predicted standard deviations; raise an error unless all are finite."""
    spread = rows.prediction.std
    xp = rows.namespace.xp
    if not bool(xp.all(xp.isfinite(spread))):
        raise ValueError("prediction has standard deviations that are not finite")
    return spread
