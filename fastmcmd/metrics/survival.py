"""Scores of predicted times, some of which are censored: log score, CRPS, Brier score.

``event`` says which times were observed; the others are times up to which nothing had happened (right
censoring).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import quote
from fastmcmd.metrics.by_level import thresholds_of
from fastmcmd.metrics.censoring import censoring_of, read_times
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.clipped import Clipped

__all__ = [
    "integrated_ipcw_brier_score",
    "ipcw_brier_score",
    "survival_crps",
    "survival_log_score",
]


@metric
def survival_log_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    event: ArrayLike,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return negative log-likelihoods (n,) of right-censored times.

    Parameters
    ----------
    y : array_like (n,)
        Observed times: of events, or of censoring.
    prediction : Predictive, (mean, std), scipy.stats or torch.distributions object
        Predicted distributions of the time of the event, with a density.
    event : array_like (n,)
        1 or True for events, 0 or False for censored rows.

    Returns
    -------
    ndarray (n,)
        ``-log f(y)`` for events, ``-log P(Y > y)`` for censored rows.

    Raises
    ------
    ValueError
        Arguments that do not fit, or a prediction without a density.

    Notes
    -----
    The score is proper if censoring does not depend on the time of the event given the inputs (Rindt, Hu,
    Steinsaltz & Sejdinovic, *Survival regression with proper scoring rules and monotonic neural networks*,
    AISTATS 2022).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> prediction = fm.Exponential([1.0, 1.0])
    >>> fm.metrics.survival_log_score([2.0, 2.0], prediction, event=[1, 0]).tolist()
    [2.0, 2.0]
    """
    rows, events = read_times(y, prediction, event, nan_policy)
    with np.errstate(divide="ignore"):
        censored = np.log(rows.prediction.sf(rows.y))
    return rows.scatter(-np.where(events, rows.prediction.log_prob(rows.y), censored))


@metric
def survival_crps(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    event: ArrayLike,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return the CRPS (n,) of right-censored times: up to the time of censoring, if there is one.

    Parameters
    ----------
    y : array_like (n,)
        Observed times: of events, or of censoring.
    event : array_like (n,)
        1 or True for events, 0 or False for censored rows.

    Returns
    -------
    ndarray (n,)
        The CRPS for events; ``integral of F(t)^2 over t < y`` for censored rows.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    This is the survival CRPS of Avati et al., *Countdown Regression: Sharp and Calibrated Survival
    Predictions* (UAI 2019). It is not proper where rows are censored (Rindt et al. 2022): use
    `survival_log_score` to choose between models, or, where the time c up to which each row would be
    followed is known, ``weighted_crps(y, prediction, upper=c)``, which is.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> prediction = fm.Uniform([0.0, 0.0], 2.0)
    >>> fm.metrics.survival_crps([1.0, 1.0], prediction, event=[1, 0]).round(6).tolist()
    [0.166667, 0.083333]
    """
    rows, events = read_times(y, prediction, event, nan_policy)
    high = np.where(events, np.inf, rows.y)
    low = np.full(len(high), -np.inf)
    scores = np.where(events, rows.prediction.crps(rows.y), 0.0)
    some = np.flatnonzero(~events)
    clipped = Clipped(rows.prediction.take(some), low[some], high[some])
    scores[some] = clipped.crps(rows.y[some])
    return rows.scatter(scores)


@metric
def ipcw_brier_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    event: ArrayLike,
    times: ArrayLike,
    train: tuple[ArrayLike, ArrayLike] | None = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return Brier scores of survival up to given times, weighted for censoring (j,).

    Parameters
    ----------
    y : array_like (n,)
        Observed times: of events, or of censoring.
    event : array_like (n,)
        1 or True for events, 0 or False for censored rows.
    times : float or array_like (j,)
        Times t at which survival is scored.
    train : (times, event), optional
        Rows from which the probability G of not being censored is estimated. Default: the same rows.

    Returns
    -------
    ndarray (j,), or float for a single number
        Mean over rows of ``S(t)^2 1{y <= t, event} / G(y-) + (1 - S(t))^2 1{y > t} / G(t)``.

    Raises
    ------
    ValueError
        Arguments that do not fit, or times after which every row is censored: G is 0 there.

    Notes
    -----
    Graf, Schmoor, Sauerbrei & Schumacher, *Assessment and comparison of prognostic classification schemes
    for survival data* (Statistics in Medicine 1999). It estimates the Brier score without censoring if
    censoring does not depend on the inputs. scikit-survival's ``brier_score`` takes ``G(y)`` for
    ``G(y-)``; the two differ only where an event and a censored row have the same time.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> prediction = fm.Exponential([1.0, 1.0, 1.0])
    >>> score = fm.metrics.ipcw_brier_score([0.5, 1.0, 2.0], prediction, event=[1, 0, 1], times=[0.7])
    >>> score.round(4).tolist()
    [0.2511]
    """
    rows, events = read_times(y, prediction, event, nan_policy)
    at = thresholds_of(times, "times")
    scores = _brier(rows, events, np.atleast_1d(at), train)
    return scores if at.ndim else scores[0]


def _brier(
    rows: Outcomes,
    events: NDArray[np.bool_],
    times: Array,
    train: tuple[ArrayLike, ArrayLike] | None,
) -> Array:
    censoring = censoring_of(rows.y, events, train)
    out = np.empty(len(times))
    of_events = np.where(events, censoring.before(rows.y), 1.0)
    for j, t in enumerate(times):
        survival = np.broadcast_to(rows.prediction.sf(float(t)), rows.y.shape)
        occurred, later = events & (rows.y <= t), rows.y > t
        at_t = float(censoring.after(np.array([t]))[0])
        if (later.any() and at_t == 0) or (of_events[occurred] == 0).any():
            raise ValueError(
                f"times hold {t:g}, after which the training rows are all censored; give smaller times"
            )
        parts = np.where(occurred, survival**2 / np.where(occurred, of_events, 1.0), 0.0)
        parts += np.where(later, (1 - survival) ** 2 / max(at_t, np.finfo(np.float64).tiny), 0.0)
        out[j] = np.nan if rows.nan_result else parts.mean()
    return out


@metric
def integrated_ipcw_brier_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    event: ArrayLike,
    times: ArrayLike,
    train: tuple[ArrayLike, ArrayLike] | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the mean over time of `ipcw_brier_score`, by the trapezoidal rule.

    Parameters
    ----------
    y : array_like (n,)
        Observed times: of events, or of censoring.
    event : array_like (n,)
        1 or True for events, 0 or False for censored rows.
    times : array_like (j,)
        At least two increasing times, over which the mean is taken.
    train : (times, event), optional
        Rows from which the probability of not being censored is estimated. Default: the same rows.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    Graf et al. 1999; scikit-survival's ``integrated_brier_score``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> prediction = fm.Exponential([1.0, 1.0, 1.0])
    >>> given = {"event": [1, 0, 1], "times": [0.5, 0.7, 0.9]}
    >>> round(fm.metrics.integrated_ipcw_brier_score([0.5, 1.0, 2.0], prediction, **given), 4)
    0.2545
    """
    at = thresholds_of(times, "times")
    if at.ndim == 0 or len(at) < 2 or not np.isfinite(at).all() or not (np.diff(at) > 0).all():
        raise ValueError(
            f"times is {quote(times)}; at least two increasing finite numbers are needed"
        )
    rows, events = read_times(y, prediction, event, nan_policy)
    scores = _brier(rows, events, at, train)
    return float(((scores[1:] + scores[:-1]) / 2 * np.diff(at)).sum() / (at[-1] - at[0]))
