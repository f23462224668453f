"""Murphy diagrams: mean elementary scores, of which every consistent score is a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.arrays import HOST
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import as_array, as_float, check_choice
from fastmcmd._base.docstrings import entries, with_shared_parameters
from fastmcmd._base.plotted import Plotted
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import ColumnTable
from fastmcmd.backends.tall_skinny import eigh, inner, times
from fastmcmd.errors import RowError
from fastmcmd.metrics.count_bands import check_level
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.numerics.spread import unit_of

__all__ = [
    "MurphyCurve",
    "MurphyDifference",
    "curve_of",
    "difference_of",
    "elementary_scores",
    "murphy_curve",
    "murphy_difference",
    "theta_parameters",
]

FUNCTIONALS = ("mean", "quantile", "exceedance")
_POINTS = 201  # thresholds by default
_TAIL = 0.005  # of forecasts and outcomes left out at each end
_BLOCK = 1 << 18  # scores per block
_DRAWS = 4000
_FEWEST = (
    10  # expected outcomes on the rarer side of a threshold, among rows whose scores differ there
)
_UNSEEN = 4.0  # outcomes on a rare side that are added to the variance, as Agresti & Coull (1998) add four

theta_parameters = with_shared_parameters(
    entries("""
thetas : array_like (t,), optional
    Thresholds of the elementary scores. Default: 201 evenly spaced ones over the middle 99 % of forecasts
    and outcomes, or from 0 to 1 for probabilities.
level : float, default 0.95
    Level of the band, for all thresholds together.
random_state : int, numpy.random.Generator or None, default 0
    Source of the simulation behind the band.
functional : {"mean", "quantile", "exceedance"}, default "mean"
    The forecast taken from a distribution: its mean, the quantile at level ``at``, or the probability that
    the outcome exceeds ``at``.
at : float, optional
    Level of the quantile, or threshold of the outcome.
""")
)


@dataclass(frozen=True, eq=False, repr=False)
class MurphyCurve(Plotted, ColumnTable):
    """Mean elementary scores of a model; lower is better.

    Attributes
    ----------
    theta : ndarray (t,)
        Thresholds of the elementary scores.
    score : ndarray (t,)
        Mean elementary score at each.
    forecast : str
        What is forecast.
    n : int
        Rows.
    """

    picture: ClassVar[str] = "murphy"
    theta: Array
    score: Array
    forecast: str
    n: int

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns as lists, by name."""
        return {"theta": self.theta.tolist(), "score": self.score.tolist()}

    def __repr__(self) -> str:
        return f"MurphyCurve of the {self.forecast}, {self.n:,} rows, {len(self.theta)} thresholds"


@dataclass(frozen=True, eq=False, repr=False)
class MurphyDifference(Plotted, ColumnTable):
    """Differences of the mean elementary scores of two models, first minus second, with a band.

    Attributes
    ----------
    theta : ndarray (t,)
        Thresholds of the elementary scores.
    difference : ndarray (t,)
        Difference at each; below 0 the first model is better.
    low, high : ndarray (t,)
        Band for the expected differences at all thresholds together; NaN where ``supported`` is False.
    supported : ndarray (t,), bool
        Whether 10 outcomes are to be expected on either side of theta among the rows whose scores differ
        there, which have theta between both forecasts.
    level : float
        Level of the band.
    forecast : str
        What is forecast.
    n : int
        Rows.
    """

    picture: ClassVar[str] = "murphy"
    theta: Array
    difference: Array
    low: Array
    high: Array
    supported: NDArray[np.bool_]
    level: float
    forecast: str
    n: int

    @property
    def better(self) -> NDArray[np.int_]:
        """-1 if the first model is better beyond chance, 1 if the second is, else 0 (t,)."""
        return (self.low > 0).astype(int) - (self.high < 0).astype(int)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists, by name."""
        names = ("theta", "difference", "low", "high", "better")
        return {name: getattr(self, name).tolist() for name in names}

    def __repr__(self) -> str:
        shares = [np.mean(self.better[self.supported] == sign) if self.supported.any() else 0.0
                  for sign in (-1, 1)]  # fmt: skip
        return (
            f"MurphyDifference of the {self.forecast}, {self.n:,} rows: the first model is better beyond "
            f"chance at {shares[0]:.0%} of the thresholds, the second at {shares[1]:.0%}"
        )


def elementary_scores(forecast: Array, y: Array, theta: Array, quantile: float | None) -> Array:
    """Return the elementary scores (n, t) of point forecasts (n,).

    For a quantile, ``1 - level`` if ``y <= theta < forecast`` and ``level`` if ``forecast <= theta < y``.
    For a mean, ``|y - theta| / 2`` in both cases. They are 0 otherwise.
    """
    above = (y[:, None] <= theta) & (theta < forecast[:, None])
    below = (forecast[:, None] <= theta) & (theta < y[:, None])
    if quantile is not None:
        return np.asarray(np.where(above, 1 - quantile, np.where(below, quantile, 0.0)))
    return np.asarray(np.where(above | below, np.abs(y[:, None] - theta) / 2, 0.0))


def curve_of(
    forecast: Array,
    y: Array,
    weights: Array | None,
    theta: Array,
    quantile: float | None,
    name: str,
) -> MurphyCurve:
    """Return the curve of checked forecasts (n,) of outcomes (n,)."""
    factors = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()

    def sums(rows: slice) -> Array:
        return np.asarray(
            factors[rows] @ elementary_scores(forecast[rows], y[rows], theta, quantile)
        )

    return MurphyCurve(theta, sum(over_rows(sums, len(y), _step(theta))), name, len(y))


def difference_of(
    forecasts: tuple[Array, Array], y: Array, weights: Array | None, theta: Array,
    quantile: float | None, name: str, level: float, random_state: RandomState,
) -> MurphyDifference:  # fmt: skip
    """Return the difference of two checked forecasts (n,), with a band for all thresholds together."""
    level = check_level(level)

    def differences(rows: slice) -> Array:
        first, second = (
            elementary_scores(forecast[rows], y[rows], theta, quantile) for forecast in forecasts
        )
        return first - second

    factors = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()

    def sums(rows: slice) -> Array:
        values = differences(rows)
        return np.stack([factors[rows] @ values, np.count_nonzero(values, axis=0)])

    mean, count = np.asarray(sum(over_rows(sums, len(y), _step(theta))))

    def products(rows: slice) -> Array:
        centred = factors[rows, None] * ((differences(rows) - mean) / unit)
        return inner(centred, centred)

    rarer, jump = _sides(forecasts, y, theta, quantile)
    # Scores of means have the unit of y, whose square may leave float64.
    unit = 1.0 if jump else unit_of(HOST, np.concatenate([y, *forecasts, theta]))
    covariance = np.asarray(sum(over_rows(products, len(y), _step(theta))))
    # Support depends on forecasts alone: a choice by outcomes would prefer thresholds that err by chance.
    supported = count * rarer >= _FEWEST
    # A rare side of theta may be missing from the sample, and the score would seem to be constant.
    variance = np.diag(covariance)
    error = np.sqrt(variance + _UNSEEN * jump**2 * np.mean(factors**2))
    supported &= error > 0
    reach = np.nan
    if supported.any():
        some = np.ix_(supported, supported)
        scale = np.sqrt(np.where(variance > 0, variance, 1.0))[supported]
        correlation = covariance[some] / np.outer(scale, scale)
        values, vectors = eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normals = generator(random_state, Purpose.COMPARISON).normal(size=(_DRAWS, len(values)))
        reach = float(np.quantile(np.abs(times(normals, root.T)).max(axis=1), level))
    half = np.where(supported, reach * error * unit, np.nan)
    return MurphyDifference(theta, mean, mean - half, mean + half, supported, level, name, len(y))


def _sides(
    forecasts: tuple[Array, Array], y: Array, theta: Array, quantile: float | None
) -> tuple[Array | float, float]:
    """Return the share of outcomes on the rarer side of theta, and by how much a score differs by side.

    The share is that of forecasts that are about right. Scores of means are continuous in the outcome.
    """
    if quantile is not None:
        return min(quantile, 1 - quantile), 1.0
    binary = np.isin(y, (0, 1)).all() and all(
        (one >= 0).all() and (one <= 1).all() for one in forecasts
    )
    return (np.minimum(theta, 1 - theta), 0.5) if binary else (0.5, 0.0)


def _step(theta: Array) -> int:
    return max(1, _BLOCK // len(theta))


@metric
@theta_parameters
def murphy_curve(
    y: ArrayLike,
    prediction: PredictionLike,
    functional: str = "mean",
    at: float | None = None,
    *,
    thetas: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> MurphyCurve:
    """Return the mean elementary scores of a mean, a quantile or a probability.

    A model whose curve is nowhere above that of another is better in every consistent score: the squared
    error, Patton's or any other for means, every one for quantiles, every proper score for probabilities.

    Parameters
    ----------
    nan_policy : {"raise", "omit"}
        What to do with rows that hold NaN.

    Returns
    -------
    MurphyCurve

    Notes
    -----
    See Ehm, Gneiting, Jordan & Krüger, *Of Quantiles and Expectiles: Consistent Scoring Functions, Choquet
    Representations and Forecast Rankings* (JRSS B, 2016). The area under the curve of a quantile is the
    mean check loss, and that of a mean or a probability a quarter of the mean squared error.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> curve = fm.metrics.murphy_curve([1.0, 2.0], ([0.0, 2.0], 1.0), thetas=[0.5, 1.5])
    >>> curve.score.tolist()
    [0.125, 0.0]
    """
    outcomes, forecasts, theta, level, name = _forecasts(
        y, (prediction,), functional, at, thetas, sample_weight, nan_policy
    )
    return curve_of(forecasts[0], outcomes.y, outcomes.weights, theta, level, name)


@metric
@theta_parameters
def murphy_difference(
    y: ArrayLike,
    first: PredictionLike,
    second: PredictionLike,
    functional: str = "mean",
    at: float | None = None,
    *,
    thetas: ArrayLike | None = None,
    level: float = 0.95,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
) -> MurphyDifference:
    """Return the difference of two models' mean elementary scores, with a band for all thresholds.

    Parameters
    ----------
    first, second : as ``prediction`` of `murphy_curve`
        Predicted distributions of both models.

    Returns
    -------
    MurphyDifference

    Notes
    -----
    The band joins normal intervals at the thresholds; their common width is the quantile of the largest of
    correlated normal variables with the covariance of the differences. It is approximate, for independent
    rows, and holds where enough outcomes are to be expected on both sides of a threshold. Ehm et al. (2016)
    show intervals that hold threshold by threshold.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=500)
    >>> y = mean + rng.normal(size=500)
    >>> result = fm.metrics.murphy_difference(y, (mean, 1.0), (0 * mean, 1.4))
    >>> bool((result.better == -1).any()), bool((result.better == 1).any())
    (True, False)
    """
    outcomes, forecasts, theta, quantile, name = _forecasts(
        y, (first, second), functional, at, thetas, sample_weight, "raise"
    )
    pair = (forecasts[0], forecasts[1])
    return difference_of(
        pair, outcomes.y, outcomes.weights, theta, quantile, name, level, random_state
    )


def _forecasts(
    y: ArrayLike, predictions: tuple[PredictionLike, ...], functional: str, at: float | None,
    thetas: ArrayLike | None, sample_weight: ArrayLike | None, nan_policy: NanPolicy,
) -> tuple[Outcomes, list[Array], Array, float | None, str]:  # fmt: skip
    """Return outcomes, point forecasts of each model, thresholds, the level of a quantile, and a name."""
    check_choice(functional, "functional", FUNCTIONALS)
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    if (at is None) != (functional == "mean"):
        requirement = "None" if functional == "mean" else "a number"
        raise ValueError(f"at is {at!r} for functional={functional!r}; {requirement} is needed")
    number = 0.0 if at is None else as_float(at, "at")
    if functional == "quantile":
        number = check_level(number, "at")
    names = ["prediction"] if len(predictions) == 1 else ["first", "second"]
    read_rows = [
        read(y, one, sample_weight, nan_policy, name=name)
        for one, name in zip(predictions, names, strict=True)
    ]
    rows = read_rows[0]
    if functional == "mean":
        forecasts, name = [one.prediction.mean for one in read_rows], "mean"
    elif functional == "quantile":
        forecasts = [one.prediction.quantile(number) for one in read_rows]
        name = f"{number:g} quantile"
    else:
        forecasts = [one.prediction.sf(np.full(len(rows.y), number)) for one in read_rows]
        name = f"probability of y > {number:g}"
        exceeded = (rows.y > number).astype(np.float64)
        rows = Outcomes(exceeded, rows.prediction, rows.weights, rows.valid, rows.n, rows.propagate)
    for forecast, argument in zip(forecasts, names, strict=True):
        if not np.isfinite(forecast).all():
            bad = int(np.argmin(np.isfinite(forecast)))
            raise RowError(f"{argument} has no finite {name} (first in row {bad})", bad)
    level = number if functional == "quantile" else None
    inside = (0.0, 1.0) if functional == "exceedance" else None
    return rows, forecasts, read_thetas(thetas, [rows.y, *forecasts], inside), level, name


def read_thetas(
    thetas: ArrayLike | None, values: list[Array], inside: tuple[float, float] | None
) -> Array:
    """Return checked thresholds (t,); by default evenly spaced ones over the values, or over a range."""
    if thetas is None:
        low, high = inside or np.quantile(np.concatenate(values), [_TAIL, 1 - _TAIL]).tolist()
        return np.linspace(low, high, _POINTS)
    points = as_array(thetas, "thetas").astype(np.float64)
    if points.ndim != 1 or not len(points) or not np.isfinite(points).all():
        raise ValueError(f"thetas has shape {points.shape}; finite numbers (t,) are needed")
    return np.sort(points)
