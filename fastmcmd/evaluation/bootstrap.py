"""Confidence intervals of the numbers of an evaluation, from bootstrap samples of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from fastmcmd import _core
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.threads import get_num_threads
from fastmcmd.evaluation.class_gaps import CLASS_MEASURES, ClassGaps
from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.measures import ALL_MEASURES
from fastmcmd.evaluation.nulls import curve_number
from fastmcmd.evaluation.result import Measured
from fastmcmd.evaluation.row_means import OfMeans, of_means
from fastmcmd.metrics.reliability_sums import ECE_LEVELS, TOOLBOX_LEVELS, ReliabilityCurve
from fastmcmd.predictive.base import Array

__all__ = ["WITHOUT", "Means", "Replicates", "intervals", "resampled", "studentized"]

_ROUNDING = 1e-13  # scatter relative to the mean below which a column is constant
_STEP = 1e-6  # step of numerical derivatives, relative to the scatter of a column
_SAMPLES = 16  # samples of a pass over the rows
_COUNTS_AT_ONCE = 1 << 25  # row counts that are held at a time, for all threads: 256 MB


class Means:
    """Measures of an evaluation that are functions of weighted means over rows, for any weights.

    Attributes
    ----------
    names : list of str
        The requested names that are such measures.
    """

    def __init__(self, context: Context, names: Sequence[str]) -> None:
        candidates = {name: of_means(name, context) for name in names}
        measures = {name: one for name, one in candidates.items() if one is not None}
        self.names, self._measures = list(measures), list(measures.values())
        self._weights = context.weights
        self._n = len(context.y)
        columns = [column for one in self._measures for column in one.columns]
        self._rows = np.array(columns, dtype=np.float64).reshape(len(columns), self._n)
        self._centre = self._rows.mean(axis=1)
        self._rows -= self._centre[:, None]  # a large mean would cost digits of squares
        self._scale = self._rows.std(axis=1)
        # The mean of equal numbers is rounded, so their scatter is not exactly 0.
        same = self._scale <= _ROUNDING * np.abs(self._centre)
        self._rows[same], self._scale[same] = 0.0, 0.0

    def over_all_rows(self) -> tuple[Array, Array]:
        """Return the values and standard errors over all rows."""
        values, errors = self.samples(np.ones((1, self._n)))
        return values[0], errors[0]

    def samples(self, counts: Array) -> tuple[Array, Array]:
        """Return values and standard errors (samples, measures) from row counts (samples, n).

        All samples share a pass over the rows.
        """
        factors = np.empty(0) if self._weights is None else self._weights
        sums = np.empty((len(counts), 3, len(self._rows) + 1))
        _core.resampled_sums(self._rows, counts, factors, sums)
        totals, squared_totals = sums[:, 0, -1:], sums[:, 1, -1:]
        firsts, squared_firsts, seconds = np.moveaxis(sums[:, :, :-1], 1, 0)
        with np.errstate(invalid="ignore"):  # no row with a weight was drawn
            shifts = firsts / totals
        scatter = seconds - 2 * shifts * squared_firsts + shifts**2 * squared_totals
        means = self._centre + shifts
        values, errors = np.full((2, len(counts), len(self.names)), np.nan)
        some = np.flatnonzero(totals[:, 0])
        start = 0
        for place, one in enumerate(self._measures):
            part = slice(start, start + len(one.columns))
            start = part.stop
            slopes = np.zeros((len(counts), len(one.columns)))
            for sample in some:
                at, total = means[sample, part], float(totals[sample, 0])
                values[sample, place] = one.unit * one.finish(at.tolist(), total)
                slopes[sample] = _slope(one, at, self._scale[part], total)
            if len(one.columns) == 1:
                variances = slopes[:, 0] ** 2 * scatter[:, start - 1]
            else:
                variances, away = np.empty(len(counts)), (slopes * shifts[:, part]).sum(axis=1)
                _core.linear_squares(self._rows[part], slopes, away, counts, factors, variances)
            errors[:, place] = one.unit * np.sqrt(np.maximum(variances, 0.0))
        with np.errstate(invalid="ignore"):
            errors /= totals
        return values, errors


def _slope(one: OfMeans, means: Array, scale: Array, total: float) -> Array:
    """Return the derivatives of a measure with respect to its means."""
    if one.is_mean:
        return np.ones(1)
    out = np.zeros(len(means))
    for k, step in enumerate(_STEP * scale):
        if step > 0:
            up, down = means.copy(), means.copy()
            up[k] += step
            down[k] -= step
            rise = one.finish(up.tolist(), total) - one.finish(down.tolist(), total)
            out[k] = rise / (up[k] - down[k])
    return out


def studentized(
    value: float,
    error: float,
    values: Array,
    errors: Array,
    confidence: float,
    *,
    hull: bool = False,
) -> tuple[float, float] | None:
    """Return the studentized interval of a number from values and standard errors of bootstrap samples.

    It is the equal-tailed one; with ``hull`` the hull of that and of the symmetric one.

    Returns None if some sample has no standard error because it holds too few different rows.
    """
    if error == 0 and (values == value).all():
        return value, value
    deviations = values - value
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(deviations == 0, 0.0, deviations / errors)
    if not np.isfinite(ratios).all():
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail], method="weibull")
    if hull:
        reach = np.quantile(np.abs(ratios), confidence, method="weibull")
        low, high = min(low, -reach), max(high, reach)
    return value - max(float(high), 0.0) * error, value - min(float(low), 0.0) * error


@dataclass(frozen=True)
class _Scale:
    """A monotone scale on which the scatter of a measure hardly depends on its value.

    A bootstrap-t interval covers better on such a scale (Efron & Tibshirani 1993, 12.6). The equal-tailed
    one still covers only 92 % with 200 skewed rows, the hull of it and the symmetric one 94 to 96 %.
    """

    forward: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    back: Callable[[float], float]

    def interval(
        self, value: float, error: float, values: Array, errors: Array, confidence: float
    ) -> tuple[float, float] | None:
        """Return the studentized interval on the scale, in the units of the measure."""
        with np.errstate(divide="ignore", invalid="ignore"):
            at, slope = self.forward(np.append(values, value)), self.slope(np.append(values, value))
        if not (np.isfinite(at).all() and np.isfinite(slope).all()):
            return studentized(value, error, values, errors, confidence)  # perfect in some samples
        ends = studentized(
            float(at[-1]),
            error * float(slope[-1]),
            at[:-1],
            errors * slope[:-1],
            confidence,
            hull=True,
        )
        return None if ends is None else (self.back(ends[0]), self.back(ends[1]))


_SCALES = {
    "rmse": _Scale(np.log, lambda root: 1 / root, lambda z: float(np.exp(z))),
    "pearson": _Scale(np.arctanh, lambda r: 1 / (1 - r**2), lambda z: float(np.tanh(z))),
    "r2": _Scale(
        lambda share: -np.log1p(-share),
        lambda share: 1 / (1 - share),
        lambda z: -float(np.expm1(-z)),
    ),
}

# Measures without intervals. Null expectations are not estimates. The CCE of a row depends on the outcomes
# of all rows: without a new fit, intervals of resampled means contain the truth in 10 to 25 % of runs, not
# 95 %.
WITHOUT = ("null_ence", "mean_cce", "max_cce")
# Bins of equal width end at the extremes of the sample, so what these measures estimate depends on n.
_WITHOUT_WIDTH = ("ence", "uce")
# Finite bounds of the values that a measure can take.
_AT_MOST = {
    "r2": 1.0,
    "pearson": 1.0,
    "coverage": 1.0,
    "accuracy": 1.0,
    "auroc": 1.0,
    "confidence": 1.0,
}
_AT_LEAST = {"pearson": -1.0, "bias": -np.inf, "r2": -np.inf, "nll": -np.inf,
             "mean_dawid_sebastiani": -np.inf, "mean_quadratic_score": -np.inf,
             "mean_linearized_log_score": -np.inf, "mean_ensemble_log_score": -np.inf}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Replicates:
    """Numbers of bootstrap samples of rows.

    Attributes
    ----------
    rows : tuple
        Identity of the samples of rows: if it is equal for two models of the same outcomes, both were
        resampled with the same rows.
    values : dict of ndarray (n_boot,)
        The number of each sample, by name.
    errors : dict of (float, ndarray (n_boot,))
        For measures that are functions of means: standard errors of all rows and of each sample.
    distances : dict of ndarray (n_boot,)
        For measures that are norms: the norm of the difference between the curve of each sample and the
        curve of all rows; see ``DISTANCES``.
    effective : float
        Effective number of rows, ``(sum w)^2 / sum w^2``: as many rows of equal weight scatter as much.
    """

    rows: tuple[object, ...]
    values: Mapping[str, Array]
    errors: Mapping[str, tuple[float, Array]]
    distances: Mapping[str, Array]
    effective: float


def resampled(
    context: Context, measures: tuple[Measured, ...], n_boot: int, progress: Progress
) -> Replicates:
    """Return all numbers that have intervals, for samples of n rows with replacement (Efron 1979).

    A sample is a set of row weights, so per-row results are computed once for all samples.
    """
    settings = context.settings
    without = WITHOUT + (_WITHOUT_WIDTH if settings.binning == "width" else ())
    names = [one.name for one in measures if one.name not in without]
    computes = {one.name: one.compute for one in ALL_MEASURES}
    distances = {name: DISTANCES[name](context) for name in names if name in DISTANCES}
    means = Means(context, names)
    other_names = [name for name in names if name not in means.names]
    rng = generator(settings.random_state, Purpose.BOOTSTRAP)
    n = len(context.y)
    values = {name: np.empty(n_boot) for name in other_names}
    distance_values = {name: np.empty(n_boot) for name in distances}
    of_means, errors = np.empty((2, n_boot, len(means.names)))
    sweep = progress.sweep("bootstrap", n_boot, unit="samples")
    context.presort()
    batch_size = max(1, min(_COUNTS_AT_ONCE // n, _SAMPLES * get_num_threads()))
    for batch in row_blocks(n_boot, batch_size):
        # Drawn here and in order, so that samples do not depend on the number of threads.
        counts = np.empty((batch.stop - batch.start, n))
        for sample in counts:
            sample[:] = np.bincount(rng.integers(0, n, n), minlength=n)

        def work(some: slice, counts: Array = counts, first: int = batch.start) -> None:
            places = slice(first + some.start, first + some.stop)
            of_means[places], errors[places] = means.samples(counts[some])
            for sample, row_counts in enumerate(counts[some], places.start):
                sample_weights = (
                    row_counts if context.weights is None else row_counts * context.weights
                )
                if not sample_weights.any():  # no row with a weight was drawn
                    for sample_values in (*values.values(), *distance_values.values()):
                        sample_values[sample] = np.nan
                    continue
                again = context.reweighted(sample_weights)
                for name in other_names:
                    values[name][sample] = computes[name](again)
                for name, distance in distances.items():
                    distance_values[name][sample] = distance(again)

        over_rows(work, len(counts), max(1, len(counts) // get_num_threads()))
        sweep.advance(batch.stop)
    values.update(zip(means.names, of_means.T, strict=True))
    scatter = zip(means.over_all_rows()[1].tolist(), errors.T, strict=True)
    weights = np.ones(n) if context.weights is None else context.weights
    return Replicates(
        (settings.stream, n, n_boot), values, dict(zip(means.names, scatter, strict=True)), distance_values,
        float(weights.sum() ** 2 / (weights @ weights)),
    )  # fmt: skip


def intervals(
    measures: tuple[Measured, ...], replicates: Replicates, confidence: float
) -> tuple[Measured, ...]:
    """Return the numbers with their intervals; see `fastmcmd.evaluate`."""
    with_intervals = []
    for one in measures:
        ends = _interval(one, replicates, confidence)
        if ends is not None and not np.isnan(ends).any():
            low = max(ends[0], _AT_LEAST.get(one.name, 0.0))
            high = min(ends[1], _AT_MOST.get(one.name, np.inf))
            one = replace(one, low=low, high=high)
        with_intervals.append(one)
    return tuple(with_intervals)


def _interval(
    one: Measured, replicates: Replicates, confidence: float
) -> tuple[float, float] | None:
    if one.name in replicates.distances:
        reach = float(_quantiles(replicates.distances[one.name], confidence))
        return one.value - reach, one.value + reach
    if one.name not in replicates.values:
        return None
    if one.name in ("coverage", "accuracy"):
        return _wilson(one.value, replicates.effective, confidence)
    values = replicates.values[one.name]
    if one.name in replicates.errors:
        error, errors = replicates.errors[one.name]
        scale = _SCALES.get(one.name)
        interval_of = studentized if scale is None else scale.interval
        return interval_of(one.value, error, values, errors, confidence)
    tail = (1 - confidence) / 2
    low, high = _quantiles(values, [tail, 1 - tail])
    return None if np.isnan(low) or np.isnan(high) else (float(low), float(high))


def _quantiles(values: Array, levels: float | list[float]) -> Array:
    """Return quantiles with levels k / (n_boot + 1), so that few samples do not narrow the interval."""
    with np.errstate(invalid="ignore"):  # scores may be infinite in some samples
        return np.asarray(np.quantile(values, levels, method="weibull"))


def _wilson(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Return the interval of a share of n rows (Wilson, 1927), which has positive width even at 0 and 1."""
    z = special.ndtri((1 + confidence) / 2)
    scale = 1 / (1 + z**2 / n)
    middle = scale * (share + z**2 / (2 * n))
    reach = scale * z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # At shares of 0 and 1 the end equals the share, which rounding could exceed.
    return min(float(middle - reach), share), max(float(middle + reach), share)


# ---- distance of a sample from all rows, for measures that are norms ----
#
# ECE and similar measures are norms of a curve of differences that is 0 for a right model. Sampling noise
# tends to increase a norm, so percentiles of resampled norms lie above the truth and never reach 0. By the
# triangle inequality, however, the norm of the sample's curve differs from that of the true curve by at
# most the norm of the difference of both curves. The bootstrap estimates how large that norm is.

Distance = Callable[[Context], float]


def _of_curve(name: str) -> Callable[[Context], Distance]:
    """Return a function for distances between reliability curves in the norm of the measure."""
    kind, levels = (
        ("quantile", ECE_LEVELS) if name == "regression_ece" else ("interval", TOOLBOX_LEVELS)
    )

    def curve(context: Context) -> ReliabilityCurve:
        return context.reliability(kind, levels)

    def distances(context: Context) -> Distance:
        observed = curve(context).observed

        def distance(again: Context) -> float:
            other = curve(again)
            shifted = replace(other, observed=other.expected + (other.observed - observed))
            return curve_number(name, shifted)

        return distance

    return distances


def _ence(context: Context) -> Distance:
    ratio = context.variance_curve.rmse / context.variance_curve.rmv

    def distance(again: Context) -> float:
        other = again.variance_curve
        return float(np.abs(other.rmse / other.rmv - ratio).mean())

    return distance


def _uce(context: Context) -> Distance:
    gaps = context.variance_curve.rmse**2 - context.variance_curve.rmv**2

    def distance(again: Context) -> float:
        other = again.variance_curve
        gap_errors = np.abs(other.rmse**2 - other.rmv**2 - gaps)
        return float(other.mass @ gap_errors / other.mass.sum())

    return distance


def _of_classes(name: str) -> Callable[[Context], Distance]:
    """Return distances of the gaps between frequencies and probabilities, in the norm of the measure."""

    def distances(context: Context) -> Distance:
        events = ClassGaps.of(name, context)
        observed = events.observed(context.labelled.known_labels)
        gaps = events.gaps(observed, context.weights)

        def distance(again: Context) -> float:
            return ClassGaps.error(events.gaps(observed, again.weights) - gaps)

        return distance

    return distances


DISTANCES: dict[str, Callable[[Context], Distance]] = {
    **{
        name: _of_curve(name)
        for name in (
            "regression_ece",
            "rms_calibration_error",
            "mean_absolute_calibration_error",
            "miscalibration_area",
        )
    },
    **{name: _of_classes(name) for name in CLASS_MEASURES},
    "ence": _ence,
    "uce": _uce,
}
