"""Interval and check scores of each level by itself, and Brier scores of each threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_array, check_flag, quote
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.interval_scores import HUB, interval_terms
from fastmcmd.metrics.metric import metric
from fastmcmd.metrics.quantile_scores import PERCENTS, losses_together, open_levels
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.draws import Draws

__all__ = [
    "check_scores_by_level",
    "exceedances",
    "interval_scores_by_level",
    "threshold_brier_score",
    "thresholds_of",
]


@metric
def check_scores_by_level(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    levels: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return check (pinball) losses of predicted quantiles, one column per level (n, j).

    Parameters
    ----------
    levels : float or array_like (j,), default 0.01, 0.02, ..., 0.99
        Levels of the quantiles, in (0, 1).

    Returns
    -------
    ndarray (n, j)
        ``max(p_j (y - q_j), (p_j - 1) (y - q_j))``. The mean over levels is `check_score`.

    Raises
    ------
    ValueError
        Arguments that do not fit, or levels outside (0, 1).

    Notes
    -----
    See `check_score`. The mean over rows is scikit-learn's ``mean_pinball_loss`` for each level, and
    skpro's ``PinballLoss(score_average=False)``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.check_scores_by_level([3.0], ([0.0], 1.0), levels=[0.5, 0.9]).round(4).tolist()
    [[1.5, 1.5466]]
    """
    checked_levels = open_levels(PERCENTS if levels is None else levels, "levels")
    terms = [(checked_levels[j : j + 1], np.ones(1)) for j in range(len(checked_levels))]
    return _by_level(y, prediction, terms, nan_policy)


@metric
def interval_scores_by_level(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    levels: ArrayLike = HUB,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return interval (Winkler) scores of central intervals, one column per level (n, j).

    Parameters
    ----------
    levels : float or array_like (j,), default 0.1, 0.2, ..., 0.9, 0.95, 0.98
        Probabilities of the intervals, in (0, 1).

    Returns
    -------
    ndarray (n, j)
        The scores whose mean over levels is `interval_score`.

    Raises
    ------
    ValueError
        Arguments that do not fit, or levels outside (0, 1).

    Notes
    -----
    See `interval_score`. skpro's ``IntervalWidth`` and ``EmpiricalCoverage`` have such columns, too.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.interval_scores_by_level([4.0], ([0.0], 1.0), levels=[0.5, 0.9]).round(4).tolist()
    [[14.651, 50.3926]]
    """
    checked_levels = open_levels(levels, "levels")
    terms = [interval_terms(checked_levels[j : j + 1]) for j in range(len(checked_levels))]
    return _by_level(y, prediction, terms, nan_policy)


def _by_level(
    y: ArrayLike,
    prediction: PredictionLike,
    terms: list[tuple[Array, Array]],
    nan_policy: NanPolicy,
) -> Array:
    rows = read(y, prediction, None, nan_policy, on_device=True).on_host()
    losses, _ = losses_together(rows.y, rows.prediction, terms, np.empty(0))
    return rows.scatter(np.stack(losses, axis=1))


@metric
def threshold_brier_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    thresholds: ArrayLike,
    fair: bool = False,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return Brier scores of exceeding thresholds (n, j), or (n,) for a single number.

    Parameters
    ----------
    thresholds : float or array_like (j,)
        Thresholds t, in the unit of y.
    fair : bool, default False
        For draws: whether to return the unbiased estimate of the score of the distribution that they come
        from.

    Returns
    -------
    ndarray (n, j) or (n,)
        ``(P(Y > t) - 1{y > t})^2``. Its integral over t is the CRPS.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    Brier, *Verification of forecasts expressed in terms of probability* (Monthly Weather Review 1950);
    properscoring's ``threshold_brier_score``. "fair" subtracts ``e (m - e) / (m^2 (m - 1))`` where e of m
    draws exceed the threshold (Ferro, *Fair scores for ensemble forecasts*, QJRMS 2014), as in xskillscore.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.threshold_brier_score([1.0], [[0.0, 1.0, 2.0, 3.0]], thresholds=[0.5, 1.5]).tolist()
    [[0.0625, 0.25]]
    """
    check_flag(fair, "fair")
    numbers = thresholds_of(thresholds)
    rows = read(y, prediction, None, nan_policy, on_device=True).on_host()
    chance, exceeded = exceedances(rows.prediction, rows.y, np.atleast_1d(numbers))
    scores = (chance - exceeded) ** 2
    if fair:
        if not isinstance(rows.prediction, Draws) or rows.prediction.node_count < 2:
            raise ValueError(
                f"fair is True, which needs at least two draws, and prediction is a {rows.prediction!r}"
            )
        scores -= chance * (1 - chance) / (rows.prediction.node_count - 1)
    return rows.scatter(scores if numbers.ndim else scores[:, 0])


def thresholds_of(value: ArrayLike, name: str = "thresholds") -> Array:
    """Return checked thresholds: a number, or (j,)."""
    numbers = as_array(value, name).astype(np.float64)
    if numbers.ndim > 1 or not numbers.size or np.isnan(numbers).any():
        raise ValueError(f"{name} is {quote(value)}; a number or numbers (j,) are needed")
    return numbers


def exceedances(prediction: object, y: Array, thresholds: Array) -> tuple[Array, Array]:
    """Return P(Y > t) and 1{y > t}, both (n, j)."""
    sf = prediction.sf  # type: ignore[attr-defined]
    chance = np.stack([np.broadcast_to(sf(float(t)), y.shape) for t in thresholds], axis=1)
    return chance, (y[:, None] > thresholds).astype(np.float64)
