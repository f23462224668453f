"""Comparison of squared errors with predicted variances in bins of predicted spread: ENCE, UCE."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import as_array, check_choice, check_count, check_positive, quote
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.metrics.inputs import (
    ERRORS_OUT_OF_RANGE,
    GIVE_UNIT,
    LEAST_NORMAL,
    OUT_OF_RANGE,
    Outcomes,
    read,
)
from fastmcmd.metrics.metric import metric
from fastmcmd.metrics.variance_bins import (
    Binned,
    Cells,
    bins_on_device,
    cells_of,
    into_bins,
    mass_bins,
)
from fastmcmd.metrics.variance_curve import VarianceCurve, conclude_variance
from fastmcmd.predictive.base import Array, PredictionLike, Predictive
from fastmcmd.predictive.numerics.spread import unit_of

__all__ = [
    "ence",
    "ence_curve",
    "gather_cells",
    "gather_columns",
    "null_ence",
    "uce",
]

BINNINGS = ("mass", "width")
SPREADS = ("std", "variance")

# Range of variances whose squares, needed for the noise, have all their digits.
LEAST_VARIANCE, MOST_VARIANCE = 1e-150, 1e150
_MOST_CUTS = 64  # bins from which sorted rows are faster than comparisons with all cuts
_MARGIN = 1e50  # how many times below the largest the smallest standard deviation may be


def gather_columns(rows: Outcomes, *, positive: bool = True) -> tuple[Array, list[Array]]:
    """Return predicted variances (m,), and columns: weights, weighted variances, squared errors, noise.

    Noise is ``w^2 s^4``. Multiplied by the kurtosis minus 1, it is the variance of a weighted squared
    error.
    """
    variance = rows.prediction.variance
    xp = rows.namespace.xp
    if not (float(xp.min(variance)) >= LEAST_VARIANCE and float(xp.max(variance)) <= MOST_VARIANCE):
        std = rows.prediction.std
        fits = xp.isfinite(std) & ((std > 0) if positive else (std >= 0))
        if not bool(xp.all(fits)):
            sign = "positive and" if positive else "nonnegative and"
            raise ValueError(f"prediction has variances that are not {sign} finite")
        square = (variance >= LEAST_VARIANCE) & (variance <= MOST_VARIANCE)
        if not bool(xp.all((std == 0) | square)):
            raise ValueError(f"prediction cannot be binned: {OUT_OF_RANGE}")
    squares = rows.y - rows.prediction.mean
    with np.errstate(over="ignore"):
        squares *= squares
    if not bool(xp.all(xp.isfinite(squares))) and bool(xp.all(xp.isfinite(rows.y))):
        raise ValueError(f"y and prediction cannot be binned: {ERRORS_OUT_OF_RANGE}")
    if rows.nan_result:
        squares = squares * np.nan
    if rows.weights is None:
        ones = rows.namespace.full(variance.shape[0], 1.0)
        return variance, [ones, variance, squares, variance**2]
    weights = rows.weights
    weighted = weights * variance
    return variance, [weights, weighted, weights * squares, weighted**2]


def gather_cells(rows: Outcomes, binning: str, by: str, *, positive: bool = True) -> Cells:
    """Return sums of weights, variances and squared errors over rows of equal predicted spread.

    Only bins of equal weight need sorted rows; for other bins, each row is a cell.
    """
    spread, (*columns, noise) = _weighted(rows, positive)
    if binning == "mass":
        cells = cells_of(spread, columns, noise)
    else:
        cells = Cells(spread, np.stack(columns).T, noise)
    return Cells(np.sqrt(cells.spread), cells.sums, cells.noise) if by == "std" else cells


def _weighted(rows: Outcomes, positive: bool) -> tuple[Array, list[Array]]:
    """Return `gather_columns` of the rows with positive weight; others must not extend the limits."""
    spread, columns = gather_columns(rows, positive=positive)
    if rows.weights is None:
        return spread, columns
    some = rows.weights > 0
    if bool(rows.namespace.xp.all(some)):
        return spread, columns
    return spread[some], [column[some] for column in columns]


@dataclass(frozen=True)
class _Moments:
    """Means and standard deviations (n,) of predictions, divided by a unit."""

    mean: Array
    std: Array

    @classmethod
    def of(cls, prediction: Predictive, unit: float) -> _Moments:
        return cls(prediction.mean / unit, prediction.std / unit)

    @property
    def variance(self) -> Array:
        return self.std**2


def _unit(rows: Outcomes) -> float:
    """Return the unit for squares of predicted standard deviations: 1, or near the largest of them."""
    std = rows.prediction.std
    largest = float(rows.namespace.xp.max(std))
    if np.sqrt(LEAST_VARIANCE) * _MARGIN < largest < np.sqrt(MOST_VARIANCE):
        return 1.0
    return unit_of(rows.namespace, std)


def _binned(
    rows: Outcomes,
    bins: int,
    binning: str,
    by: str,
    limits: tuple[float, float] | None,
    positive: bool = True,
) -> Binned:
    """Return sums of weights, variances and squared errors in bins."""
    unit = _unit(rows)
    if unit != 1:
        power = unit if by == "std" else unit * unit
        scaled = None if limits is None else (limits[0] / power, limits[1] / power)
        inner = replace(
            rows, y=rows.y / unit, prediction=cast(Predictive, _Moments.of(rows.prediction, unit))
        )
        curve = _binned(inner, bins, binning, by, scaled, positive)
        return replace(curve, unit=unit * curve.unit, edges=curve.edges * power)
    if rows.namespace.on_host:
        if binning == "mass" and rows.weights is None and not rows.nan_result and rows.y.ndim == 1:
            quick = _of_equal_counts(rows, bins, by)
            if quick is not None:
                return quick
        return into_bins(gather_cells(rows, binning, by, positive=positive), bins, binning, limits)
    spread, columns = _weighted(rows, positive)
    spread = rows.namespace.xp.sqrt(spread) if by == "std" else spread
    weights = None if rows.weights is None else columns[0]
    return bins_on_device(rows.namespace, spread, weights, columns, bins, binning, limits)


def _of_equal_counts(rows: Outcomes, bins: int, by: str) -> Binned | None:
    """Return sums in bins of equal count: only the predicted variances are sorted, not the rows.

    None if values are unusual: `gather_cells` then says what is wrong, or sorts.
    """
    variance = np.ascontiguousarray(rows.prediction.variance)
    low, high = float(variance.min()), float(variance.max())
    if not (low >= LEAST_VARIANCE and high <= MOST_VARIANCE) or bins > _MOST_CUTS:
        return None
    at = len(variance) * np.arange(1, bins) // bins
    # NumPy sorts numbers with vector instructions, three times as fast as it partitions them at ten places.
    edges = np.sort(variance)[at] if bins > 1 else variance[:0]
    cuts = np.unique(edges)
    sums = np.zeros((2 * len(cuts) + 1, 4))
    _core.spread_sums(rows.y, rows.prediction.mean, variance, cuts, np.empty_like(sums), sums)
    if not np.isfinite(sums).all():
        return None
    some = sums[:, 0] > 0
    spread = np.append(np.repeat(cuts, 2), high)[some]
    binned = mass_bins(Cells(spread, sums[some, :3], sums[some, 3]), bins)
    edges = np.concatenate([[low], edges, [high]])
    return replace(binned, edges=np.sqrt(edges) if by == "std" else edges)


def _curve(
    y: ArrayLike,
    prediction: PredictionLike,
    bins: int,
    binning: str,
    by: str,
    limits: ArrayLike | None,
    kurtosis: float,
    sample_weight: ArrayLike | None,
    nan_policy: NanPolicy,
    positive: bool = True,
) -> VarianceCurve:
    check_choice(binning, "binning", BINNINGS)
    check_choice(by, "by", SPREADS)
    kurtosis = check_kurtosis(kurtosis)
    limits = check_limits(limits, binning)
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True)
    n = len(rows.prediction)
    bins = check_bins(bins, n)
    binned = _binned(rows, bins, binning, by, limits, positive)
    return conclude_variance(binned, n, binning, by, kurtosis)


def check_bins(bins: int, n: int) -> int:
    """Return the checked number of bins, at most n."""
    return check_count(bins, "bins", most=n, explanation=f"y has {n} rows")


def check_kurtosis(kurtosis: float) -> float:
    """Return the checked kurtosis, which is at least 1 for every distribution."""
    value = check_positive(kurtosis, "kurtosis")
    if value < 1:
        raise ValueError(f"kurtosis is {value:g}; it is at least 1 (3 for Gaussians)")
    return value


def check_limits(limits: ArrayLike | None, binning: str) -> tuple[float, float] | None:
    """Return the checked ends of bins of equal width, or None."""
    if limits is None:
        return None
    if binning == "mass":
        raise ValueError("limits are for binning='width'; bins of equal mass follow from the data")
    pair = as_array(limits, "limits")
    if pair.shape != (2,) or not np.isfinite(pair).all() or not pair[0] < pair[1]:
        raise ValueError(f"limits is {quote(limits)}; two finite numbers, low < high, are needed")
    return float(pair[0]), float(pair[1])


@metric
def ence_curve(
    y: ArrayLike,
    prediction: PredictionLike,
    bins: int = 10,
    *,
    binning: str = "mass",
    by: str = "std",
    limits: tuple[float, float] | None = None,
    kurtosis: float = 3.0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> VarianceCurve:
    """Return root mean squared errors and root mean variances in bins of predicted spread.

    Returns
    -------
    VarianceCurve
        The curve, with the summaries ``.ence``, ``.maximum``, ``.uce`` and ``.null_ence``.

    Raises
    ------
    ValueError
        Variances that are zero or not finite, such as those of a Cauchy forecast.

    Notes
    -----
    See Levi, Gispan, Giladi & Fetaya, *Evaluating and Calibrating Uncertainty Prediction in Regression
    Tasks* (2019). Bins of equal width hold few rows if spreads are skewed. netcal 1.4, which has only such
    bins, returns an ENCE of 0.18 for a calibrated model with log-normal spreads and 100,000 rows (0.008
    with bins of equal weight), and fails if all spreads are equal.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> curve = fm.metrics.ence_curve([1.0, -1.0, 6.0], ([0.0] * 3, [1.0, 1.0, 3.0]), bins=3)
    >>> curve.rmse.tolist(), curve.rmv.tolist(), round(curve.ence, 12)
    ([1.0, 1.0, 6.0], [1.0, 1.0, 3.0], 0.333333333333)
    """
    return _curve(y, prediction, bins, binning, by, limits, kurtosis, sample_weight, nan_policy)


@metric
def ence(
    y: ArrayLike,
    prediction: PredictionLike,
    bins: int = 10,
    *,
    binning: str = "mass",
    by: str = "std",
    limits: tuple[float, float] | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the expected normalised calibration error of predicted variances.

    Returns
    -------
    float
        Mean over bins of ``|RMV - RMSE| / RMV``. For a calibrated model it is not 0 but grows like
        ``sqrt(bins / n)``; its expectation is ``ence_curve(...).null_ence``.

    Notes
    -----
    This is equation 8 of Levi, Gispan, Giladi & Fetaya, *Evaluating and Calibrating Uncertainty Prediction
    in Regression Tasks* (2019). (Their equation 12, on scaling, has a wrong sign and factor: the objective
    is ``T log s + sum (y - m)^2 / (2 s^2 sigma^2)``.)

    Examples
    --------
    A calibrated model, and one that claims half of the right spread. Its errors are twice as large as
    it says, a relative gap of 1:

    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> fm.ence(y, (np.zeros(4000), 1.0)) < 0.05, round(fm.ence(y, (np.zeros(4000), 0.5)), 1)
    (True, 1.0)
    """
    return _curve(y, prediction, bins, binning, by, limits, 3.0, sample_weight, nan_policy).ence


@metric
def uce(
    y: ArrayLike,
    prediction: PredictionLike,
    bins: int = 10,
    *,
    binning: str = "width",
    by: str = "variance",
    limits: tuple[float, float] | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the uncertainty calibration error of predicted variances.

    Returns
    -------
    float
        ``sum_b n_b/n |MSE_b - MV_b|``, in squared units of y.

    Notes
    -----
    See Laves, Ihler, Fast, Kahrs & Ortmaier, *Well-Calibrated Regression Uncertainty in Medical Imaging
    with Deep Learning* (MIDL 2020).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.uce([1.0, -1.0, 5.0], ([0.0] * 3, [1.0, 1.0, 4.0]), bins=2)
    3.0
    """
    curve = _curve(
        y,
        prediction,
        bins,
        binning,
        by,
        limits,
        3.0,
        sample_weight,
        nan_policy,
        positive=False,
    )
    value = curve.uce
    exact = (curve.rmse == curve.rmv).all()
    if not (np.isnan(value) or exact or LEAST_NORMAL <= value < np.inf):
        raise ValueError(
            f"the UCE is in squared units of y and leaves the range of doubles; {GIVE_UNIT}"
        )
    return value


@metric
def null_ence(
    y: ArrayLike,
    prediction: PredictionLike,
    bins: int = 10,
    *,
    binning: str = "mass",
    by: str = "std",
    limits: tuple[float, float] | None = None,
    repetitions: int = 20,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the mean ENCE of a calibrated model with these predictions, by simulation.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs. Only their number, and where they are NaN, matters.
    repetitions : int
        Number of samples of n outcomes drawn from the prediction.
    random_state : int, numpy.random.Generator or None
        Source of the draws.

    Returns
    -------
    float
        Mean ENCE of outcomes drawn from the predicted distributions themselves.

    Notes
    -----
    `VarianceCurve.null_ence` is a formula for many rows per bin. The simulation is also valid for few rows,
    for bins of equal width, and for any shape of the predicted distributions.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> 0.02 < fm.metrics.null_ence(np.zeros(2000), (np.zeros(2000), np.arange(1, 2001))) < 0.06
    True
    """
    check_choice(binning, "binning", BINNINGS)
    check_choice(by, "by", SPREADS)
    limits = check_limits(limits, binning)
    repetitions = check_count(repetitions, "repetitions")
    rng = generator(random_state, Purpose.NULL)
    rows = read(y, prediction, sample_weight, nan_policy)
    bins = check_bins(bins, len(rows.y))
    expectations = []
    for _ in range(repetitions):
        outcomes = rows.prediction.sample(1, rng)[:, 0]
        again = Outcomes(
            outcomes, rows.prediction, rows.weights, rows.valid, rows.n, rows.propagate
        )
        binned = _binned(again, bins, binning, by, limits)
        expectations.append(conclude_variance(binned, len(outcomes), binning, by).ence)
    return float(np.mean(expectations))
