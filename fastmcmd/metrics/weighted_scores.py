"""The CRPS with emphasis on outcomes of interest, and the weighted forms of any kernel score.

A kernel score is ``E rho(Y, y) - E rho(Y, Y') / 2``. With a weight function w >= 0 it has three forms
(Allen, Ginsbourger & Ziegel, *Evaluating Forecasts for High-Impact Events Using Transformed Kernel Scores*,
SIAM/ASA Journal on Uncertainty Quantification, 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import HostArray, NanPolicy, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import (
    as_array,
    check_callable,
    check_choice,
    check_count,
)
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.predictive.base import Array, PredictionLike, Predictive
from fastmcmd.predictive.clipped import Clipped
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.truncated import Truncated
from fastmcmd.predictive.weighted_draws import WeightedDraws

__all__ = [
    "Function",
    "ScoreParts",
    "given_weight",
    "interval_ends",
    "mean_weighted_crps",
    "members",
    "rescaled",
    "values_of",
    "weighted_crps",
]

_BLOCK = 1 << 16  # draws of a block, whose sorted copy stays in the cache
WEIGHTINGS = ("threshold", "outcome", "vertical")
Function = Callable[[Array], Any]


@dataclass(frozen=True)
class ScoreParts:
    """The parts of outcome weighting and vertical re-scaling, for each row.

    With ``F_w`` the prediction weighted by w and normalised.

    Attributes
    ----------
    mass : ndarray (n,)
        ``E w(Y)``.
    own : ndarray (n,)
        ``w(y)``.
    score, spread : ndarray (n,)
        The score of ``F_w`` at y, and ``E rho(Y, Y') / 2`` under ``F_w``.
    from_zero, own_from_zero : ndarray (n,)
        ``E rho(Y, 0)`` under ``F_w``, and ``rho(y, 0)``.
    """

    mass: Array
    outcome: Array
    score: Array
    spread: Array
    from_zero: Array
    own_from_zero: Array

    def combined(self, weighting: str) -> Array:
        """Return the outcome-weighted or the vertically re-scaled score."""
        some, outcome = self.mass > 0, self.outcome
        score, spread, far = (
            np.where(some, part, 0.0) for part in (self.score, self.spread, self.from_zero)
        )
        if weighting == "outcome":
            return np.where(outcome == 0, 0.0, np.where(some, outcome * score, np.nan))
        size = np.maximum(self.mass, outcome)  # so that products of weights do not overflow
        mass, outcome_weight = (one / np.where(size > 0, size, 1.0) for one in (self.mass, outcome))
        distances = mass * outcome_weight * (score + spread) - mass**2 * spread
        gap = mass * far - outcome_weight * self.own_from_zero
        return rescaled(distances + gap * (mass - outcome_weight), size)


@metric
def weighted_crps(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    weighting: str = "threshold",
    lower: ArrayLike = -np.inf,
    upper: ArrayLike = np.inf,
    weight: Function | None = None,
    chaining: Function | None = None,
    draws: int | None = None,
    random_state: RandomState = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return threshold-weighted, outcome-weighted or vertically re-scaled CRPS (n,).

    Parameters
    ----------
    weighting : {"threshold", "outcome", "vertical"}, default "threshold"
        "threshold" scores probabilities of exceeding the thresholds of interest; "outcome" scores the
        prediction given that the outcome is of interest, and only where it is; "vertical" rescales the
        kernel by the weights of both of its arguments.
    lower, upper : float or array_like (n,)
        Interval of interest: the weight is 1 between these ends and 0 outside. Default: no end.
    weight : callable, optional
        Weight function w for "outcome" and "vertical" instead of an interval: takes an array of outcomes
        and returns nonnegative weights of its shape.
    chaining : callable, optional
        Chaining function v for "threshold" instead of an interval: nondecreasing, the integral of w. Takes
        an array and returns one of its shape.
    draws : int, optional
        Draws per input for continuous predictions with ``weight`` or ``chaining``; the rest is exact.
    random_state : None, int or numpy Generator, optional
        Source of these draws.

    Returns
    -------
    ndarray (n,)
        Scores. With "outcome", NaN where w(y) > 0 and the prediction has no mass where w > 0.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    "threshold": ``integral of w(t) (F(t) - 1{y <= t})^2 dt``, which is the CRPS of v(Y) at v(y) (Gneiting &
    Ranjan, *Comparing Density Forecasts Using Threshold- and Quantile-Weighted Scoring Rules*, JBES 2011).
    "outcome": ``w(y) CRPS(F_w, y)``, F_w the distribution with density proportional to w f (Holzmann &
    Klar, *Focusing on regions of interest in forecast evaluation*, Annals of Applied Statistics, 2017).
    "vertical", with the reference point 0 (Allen, Ginsbourger & Ziegel 2023)::

        E|Y - y| w(Y) w(y) - E|Y - Y'| w(Y) w(Y') / 2 + (E|Y| w(Y) - |y| w(y)) (E w(Y) - w(y))

    All are proper. For draws they equal scoringrules' ``twcrps_ensemble``, ``owcrps_ensemble`` and
    ``vrcrps_ensemble``; a weight function with an interval is 0 at its ends.

    Examples
    --------
    Only outcomes above 1 matter. The prediction says that they are rare; that costs little if none
    occurs, and much if one does:

    >>> import fastmcmd as fm
    >>> fm.metrics.weighted_crps([0.0, 3.0], ([0.0, 0.0], 1.0), lower=1.0).round(4).tolist()
    [0.0072, 1.8414]

    "outcome" scores the prediction given that the outcome is above 1, here the draws 2 and 4:

    >>> draws = [[0.0, 2.0, 4.0]]
    >>> fm.metrics.weighted_crps([3.0], draws, lower=1.0, weighting="outcome").tolist()
    [0.5]
    """
    draws = check_count(draws, "draws", optional=True)
    rows = read(y, prediction, None, nan_policy, on_device=True).on_host()
    outer_weight = given_weight(rows, weighting, lower, upper, weight, chaining)
    if outer_weight.function is not None:
        values, masses = members(rows, draws, random_state, outer_weight.name)
        if weighting == "threshold":
            scores = WeightedDraws(outer_weight.of(values), masses).crps(outer_weight.of(rows.y))
        else:
            scores = _crps_parts(rows.y, values, masses, outer_weight).combined(weighting)
    elif weighting == "threshold" and isinstance(rows.prediction, Draws):
        low, high = outer_weight.low, outer_weight.high
        members_inside = np.clip(rows.prediction.array, low[:, None], high[:, None])
        scores = Draws(members_inside).crps(np.clip(rows.y, low, high))
    elif weighting == "threshold":
        clipped = Clipped(rows.prediction, outer_weight.low, outer_weight.high)
        scores = clipped.crps(np.clip(rows.y, outer_weight.low, outer_weight.high))
    elif isinstance(rows.prediction, Draws):
        parts = _interval_parts_of_draws(rows.y, rows.prediction.array, outer_weight)
        scores = parts.combined(weighting)
    elif _hasmembers(rows.prediction):
        scores = _crps_parts(rows.y, *rows.prediction.nodes(), outer_weight).combined(weighting)
    elif np.isinf(outer_weight.low).all() and np.isinf(outer_weight.high).all():
        scores = rows.prediction.crps(rows.y)
    else:
        scores = _interval_parts(rows, outer_weight).combined(weighting)
    return rows.scatter(scores)


mean_weighted_crps = mean_of(
    weighted_crps,
    "Return the mean threshold-weighted, outcome-weighted or vertically re-scaled CRPS.",
    """
    >>> import fastmcmd as fm
    >>> round(fm.metrics.mean_weighted_crps([0.0, 3.0], ([0.0, 0.0], 1.0), lower=1.0), 4)
    0.9243
    """,
)


@dataclass(frozen=True)
class Weight:
    """The weights of interest: an interval, or a function (of outcomes, or their chaining)."""

    low: Array
    high: Array
    function: Function | None
    name: str

    def of(self, values: Array) -> Array:
        """Return the values of the function, or of the interval's indicator, at outcomes."""
        if self.function is None:
            low, high = (end if values.ndim == 1 else end[:, None] for end in (self.low, self.high))
            return ((values > low) & (values < high)).astype(np.float64)
        return values_of(self.function, values, self.name, values.shape, self.name == "weight")


def rescaled(score: Array, size: Array) -> Array:
    """Return ``score * size^2`` (n,), which may be infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(score == 0, 0.0, score * size * size))


def values_of(
    function: Function, values: Array, name: str, shape: tuple[int, ...], weights: bool
) -> Array:
    """Return the values of the caller's function, checked, in float64."""
    # A function that works in place changes a copy.
    array = as_array(function(values.copy()), f"{name}(...)").astype(np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} returned shape {array.shape}; {shape} is needed")
    if not np.isfinite(array).all() or (weights and (array < 0).any()):
        raise ValueError(
            f"{name} returned values that are not finite{' or negative' if weights else ''}"
        )
    return array


def given_weight(
    rows: Outcomes,
    weighting: str,
    lower: ArrayLike,
    upper: ArrayLike,
    weight: Function | None,
    chaining: Function | None,
) -> Weight:
    """Return the checked weights of interest."""
    check_choice(weighting, "weighting", WEIGHTINGS)
    threshold = weighting == "threshold"
    name, function, other = (
        ("chaining", chaining, weight) if threshold else ("weight", weight, chaining)
    )
    if other is not None:
        raise ValueError(
            f"{'weight' if threshold else 'chaining'} is given; weighting={weighting!r} needs {name}"
        )
    if function is not None:
        check_callable(function, name, 1, "a function of outcomes")
    low, high = (
        interval_ends(value, end, len(rows.y))
        for value, end in ((lower, "lower"), (upper, "upper"))
    )
    if function is not None and not (np.isinf(low).all() and np.isinf(high).all()):
        raise ValueError(f"lower or upper and {name} are given; give one of them")
    if (low >= high).any():
        raise ValueError("lower is not below upper; an interval is needed")
    return Weight(low, high, function, name)


def interval_ends(value: ArrayLike, name: str, n: int) -> Array:
    """Return ends (n,) of intervals; infinity is no end."""
    array = as_array(value, name).astype(np.float64)
    if array.ndim > 1 or array.size not in (1, n):
        raise ValueError(f"{name} has shape {array.shape}; a number or ({n},) is needed")
    if np.isnan(array).any():
        raise ValueError(f"{name} holds NaN; numbers are needed, or infinity for no end")
    return np.broadcast_to(array.ravel() if array.ndim else array, (n,))


def _hasmembers(prediction: Predictive) -> bool:
    return prediction.discrete or isinstance(prediction, Draws)


def members(
    rows: Outcomes, draws: int | None, random_state: RandomState, emphasis: str
) -> tuple[Array, Array]:
    """Return draws (n, m, ...) and their masses (n, m): of discrete predictions, or new draws.

    ``emphasis`` names the argument for which they are needed.
    """
    if _hasmembers(rows.prediction):
        if draws is not None:
            raise ValueError(f"draws is {draws}, but prediction has members already; leave it out")
        return rows.prediction.nodes()
    if draws is None:
        raise ValueError(
            f"prediction is a {rows.prediction!r}; for {emphasis} this score needs draws of it: "
            "give draws=m"
        )
    values = rows.prediction.sample(draws, generator(random_state, Purpose.SCORE))
    return values, np.full(values.shape[:2], 1.0 / draws)


def _crps_parts(y: Array, values: Array, masses: Array, outer_weight: Weight) -> ScoreParts:
    """Return the parts of the CRPS of members."""
    weights = masses * outer_weight.of(values)
    mass = weights.sum(axis=1)
    some = WeightedDraws(values, np.where(mass[:, None] > 0, weights, masses))
    from_zero = np.einsum("nm,nm->n", some.weights, np.abs(some.values))
    return ScoreParts(
        mass, outer_weight.of(y), some.crps(y), some.half_gini(), from_zero, np.abs(y)
    )


def _interval_parts_of_draws(y: Array, draws: HostArray, outer_weight: Weight) -> ScoreParts:
    """Return the parts of the CRPS of draws (n, m) of equal weights on an interval."""
    low, high, parts = outer_weight.low, outer_weight.high, np.empty((len(draws), 4))

    def work(block: slice) -> None:
        ascending = np.sort(draws[block].astype(np.float64, copy=False), axis=1)
        _core.interval_rows(ascending, y[block], low[block], high[block], parts[block])

    over_rows(work, len(draws), max(1, _BLOCK // draws.shape[1]))
    mass, score, spread, from_zero = parts.T
    return ScoreParts(mass, outer_weight.of(y), score, spread, from_zero, np.abs(y))


def _interval_parts(rows: Outcomes, outer_weight: Weight) -> ScoreParts:
    """Return the parts of the CRPS of continuous predictions on an interval with an end."""
    y, low, high = rows.y, outer_weight.low, outer_weight.high
    inner = Truncated(rows.prediction, low, high)
    mean, end = inner.mean, np.where(np.isfinite(low), low, high)
    # E|Y - end| - CRPS(end), where Y lies on one side of the end.
    spread = np.abs(mean - end) - inner.crps(end)
    mass = np.where(
        low > rows.prediction.quantile(0.5),
        rows.prediction.sf(low) - rows.prediction.sf(high),
        rows.prediction.cdf(high) - rows.prediction.cdf(low),
    )
    from_zero = inner.crps(np.zeros(len(y))) + spread
    return ScoreParts(mass, outer_weight.of(y), inner.crps(y), spread, from_zero, np.abs(y))
