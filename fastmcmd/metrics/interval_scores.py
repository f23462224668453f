"""Proper scores of central prediction intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import as_array, as_rows, check_choice, check_same_length
from fastmcmd.metrics.inputs import NAN_POLICIES, read
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.metrics.quantile_scores import open_levels, scored
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = [
    "HUB",
    "interval_score",
    "interval_score_from",
    "interval_terms",
    "mean_interval_score",
    "mean_weighted_interval_score",
    "weighted_interval_score",
    "weighted_terms",
]

_BLOCK = 1 << 14  # rows: large enough to share among threads

# Levels (1 - alpha) of the central intervals in Bracher et al. 2021 and the COVID-19 Forecast Hub.
HUB = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


@metric
def interval_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    level: ArrayLike = 0.9,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return interval (Winkler) scores of central prediction intervals (n,).

    Parameters
    ----------
    level : float or array_like (j,), default 0.9
        Probability of the intervals, in (0, 1). Scores at several levels are averaged.

    Returns
    -------
    ndarray (n,)
        ``(u - l) + 2/a (l - y) 1{y < l} + 2/a (y - u) 1{y > u}``, where ``a = 1 - level`` and l and u are
        the quantiles at ``a/2`` and ``1 - a/2``.

    Raises
    ------
    ValueError
        Arguments that do not fit, or levels outside (0, 1).

    Notes
    -----
    The score is that of Winkler, *A Decision-Theoretic Approach to Interval Estimation* (1972); see
    Gneiting & Raftery 2007, equation 43. It equals ``2/a`` times the sum of the check losses at both ends,
    which is how it is computed. Uncertainty Toolbox's ``interval_score`` is the mean with
    ``level=numpy.linspace(0.01, 0.99, 99)``. The function of scoringrules takes the two ends, like
    `interval_score_from`, and alpha = 1 - level.

    Examples
    --------
    The first outcome lies inside the 90 % interval, so its score is the width. The second lies 2.36
    beyond the end and costs 20 times that:

    >>> import fastmcmd as fm
    >>> fm.metrics.interval_score([0.0, 4.0], ([0.0, 0.0], 1.0), level=0.9).round(2).tolist()
    [3.29, 50.39]
    """
    terms = interval_terms(open_levels(level, "level"))
    return scored(y, prediction, *terms, nan_policy)


mean_interval_score = mean_of(
    interval_score,
    "Return the mean interval score over rows and levels.",
    """
    >>> from fastmcmd.metrics.interval_scores import mean_interval_score
    >>> round(mean_interval_score([0.0, 4.0], ([0.0, 0.0], 1.0)), 6)
    26.841171
    """,
)


def interval_terms(level: Array) -> tuple[Array, Array]:
    """Return levels and factors of the check losses that add up to mean interval scores."""
    factor = 2 / (1 - level) / len(level)
    return np.concatenate([0.5 - level / 2, 0.5 + level / 2]), np.concatenate([factor, factor])


@metric
def interval_score_from(
    y: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    level: ArrayLike = 0.9,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return interval (Winkler) scores of the prediction intervals ``[lower, upper]`` (n,).

    Parameters
    ----------
    lower, upper : array_like (n,) or (n, j)
        Ends of the intervals.
    level : float or array_like (j,), default 0.9
        Probability of the intervals, in (0, 1): one for all columns, or one per column. Scores at several
        levels are averaged.

    Returns
    -------
    ndarray (n,)
        The formula of `interval_score`, with ``l = lower`` and ``u = upper``.

    Raises
    ------
    ValueError
        Arguments that do not fit, levels outside (0, 1), or intervals that end before they begin.

    Notes
    -----
    Use it for intervals from any source, such as conformal prediction.

    Examples
    --------
    >>> from fastmcmd.metrics.interval_scores import interval_score_from
    >>> interval_score_from([0.0, 3.0], [-1.0, -1.0], [1.0, 1.0], level=0.5).tolist()
    [2.0, 10.0]
    """
    levels = open_levels(level, "level")
    count = len(levels)
    check_choice(nan_policy, "nan_policy", NAN_POLICIES)
    ends = [
        _interval_end(value, name, count, nan_policy)
        for value, name in ((lower, "lower"), (upper, "upper"))
    ]
    check_same_length(lower=ends[0], upper=ends[1])
    outcomes = None
    if nan_policy == "raise":
        check_order(y, "(y, lower, upper)")
        at = as_rows(y, "y", columns=1)[:, 0].astype(np.float64, copy=False)
        check_same_length(y=at, lower=ends[0])
        low, high = ends
    else:
        outcomes = read(y, np.concatenate(ends, axis=1), None, nan_policy)
        at, both = outcomes.y, outcomes.prediction.nodes()[0]
        low, high = both[:, :count], both[:, count:]
    at, low, high = (np.ascontiguousarray(one) for one in (at, low.T, high.T))
    scores, crossed = np.empty((count, len(at))), []

    def work(rows: slice) -> None:
        for k, one in enumerate(np.broadcast_to(levels, count).tolist()):
            part = at[rows], low[k, rows], high[k, rows]
            crossed.append(_core.interval_scores(*part, 2 / (1 - one), scores[k, rows]))

    over_rows(work, len(at), _BLOCK)
    if any(crossed):
        wrong = int((low > high).any(axis=0).sum())
        raise ValueError(f"lower is above upper in {wrong} of {len(at)} rows; intervals are needed")
    total = scores[0] if count == 1 else np.mean(scores, axis=0)
    return total if outcomes is None else outcomes.scatter(total)


def _interval_end(value: ArrayLike, name: str, count: int, nan_policy: NanPolicy) -> Array:
    array = as_array(value, name)
    if nan_policy == "raise":
        array = as_rows(array, name)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != count:
        raise ValueError(
            f"{name} has shape {np.shape(value)}; (n, {count}) is needed: one column per level"
        )
    if nan_policy != "raise" and np.isinf(array).any():
        raise ValueError(f"{name} holds infinity; finite numbers are needed")
    return array.astype(np.float64, copy=False)


@metric
def weighted_interval_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    levels: ArrayLike = HUB,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return weighted interval scores (n,) of the median and K central intervals.

    Parameters
    ----------
    levels : array_like (K,), default 0.1, 0.2, ..., 0.9, 0.95, 0.98
        Probabilities of the central intervals: distinct numbers in (0, 1).

    Returns
    -------
    ndarray (n,)
        ``(|y - median| / 2 + sum_k a_k/2 IS_k) / (K + 1/2)``, ``a_k = 1 - level_k``.

    Raises
    ------
    ValueError
        Arguments that do not fit, levels outside (0, 1), or repeated levels.

    Notes
    -----
    The score, its weights and the default levels are those of Bracher, Ray, Gneiting & Reich, *Evaluating
    epidemic forecasts in an interval format* (2021). It is the sum of the check losses of all 2K + 1
    quantiles divided by K + 1/2, and approximates the CRPS. scoringrules' ``weighted_interval_score`` takes
    ``alpha = 1 - levels`` and the ends.

    Examples
    --------
    >>> from fastmcmd.metrics.interval_scores import weighted_interval_score
    >>> weighted_interval_score([1.0], ([0.0], 1.0), levels=[0.5]).round(6).tolist()
    [0.77517]
    """
    return scored(y, prediction, *weighted_terms(levels), nan_policy)


mean_weighted_interval_score = mean_of(
    weighted_interval_score,
    "Return the mean weighted interval score.",
    """
    >>> from fastmcmd.metrics.interval_scores import mean_weighted_interval_score
    >>> round(mean_weighted_interval_score([1.0, 1.0], ([0.0, 0.0], 1.0), levels=[0.5]), 6)
    0.77517
    """,
)


def weighted_terms(levels: ArrayLike) -> tuple[Array, Array]:
    """Return levels and factors of the check losses that add up to weighted interval scores."""
    open_values = open_levels(levels, "levels")
    if len(np.unique(open_values)) < len(open_values):
        raise ValueError(f"levels are {levels!r}; they must differ from each other")
    at = np.concatenate([0.5 - open_values / 2, [0.5], 0.5 + open_values / 2])
    return at, np.full(len(at), 1 / (len(open_values) + 0.5))
