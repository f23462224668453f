"""Proper scores of Gaussian predictions, as in ``uncertainty_toolbox.metrics_scoring_rule``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.checks import check_count, check_flag
from fastmcmd.compat.uncertainty_toolbox.inputs import Vector, documented, gaussian, number
from fastmcmd.metrics.interval_scores import mean_interval_score
from fastmcmd.metrics.quantile_scores import mean_check_score
from fastmcmd.metrics.scores import mean_crps, nll

__all__ = ["check_score", "crps_gaussian", "interval_score", "nll_gaussian"]


@documented
def nll_gaussian(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike, scaled: bool = True
) -> float:
    """Return the negative log-likelihood of outcomes under Gaussian predictions.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import nll_gaussian
    >>> round(nll_gaussian([0.0], [1.0], [0.0]), 6)
    0.918939
    """
    outcomes, predicted = gaussian(y_pred, y_std, y_true)
    return nll(outcomes, predicted) * (1 if check_flag(scaled, "scaled") else len(outcomes))


@documented
def crps_gaussian(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike, scaled: bool = True
) -> float:
    """Return the continuous ranked probability score of Gaussian predictions; smaller is better.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import crps_gaussian
    >>> round(crps_gaussian([0.0], [1.0], [0.0]), 6)
    0.233695
    """
    outcomes, predicted = gaussian(y_pred, y_std, y_true)
    return mean_crps(outcomes, predicted) * (1 if check_flag(scaled, "scaled") else len(outcomes))


@documented
def check_score(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    scaled: bool = True,
    start_q: float = 0.01,
    end_q: float = 0.99,
    resolution: int = 99,
) -> float:
    """Return the check (pinball) loss of predicted quantiles; smaller is better.

    Parameters
    ----------
    scaled : bool
        Return the mean over levels; else their sum. Over rows it is the mean in both cases.
    start_q, end_q : float
        First and last level, in (0, 1).
    resolution : int
        Number of even levels.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import check_score
    >>> round(check_score([0.0], [1.0], [0.0]), 6)
    0.117956
    """
    outcomes, predicted = gaussian(y_pred, y_std, y_true)
    levels = _levels(start_q, "start_q", end_q, "end_q", resolution)
    score = mean_check_score(outcomes, predicted, levels=levels)
    return score * (1 if check_flag(scaled, "scaled") else len(levels))


@documented
def interval_score(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    scaled: bool = True,
    start_p: float = 0.01,
    end_p: float = 0.99,
    resolution: int = 99,
) -> float:
    """Return the interval (Winkler) score of central prediction intervals; smaller is better.

    Parameters
    ----------
    scaled : bool
        Return the mean over levels; else their sum. Over rows it is the mean in both cases.
    start_p, end_p : float
        First and last probability of an interval, in (0, 1).
    resolution : int
        Number of even probabilities.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import interval_score
    >>> round(interval_score([0.0], [1.0], [0.0], start_p=0.9, end_p=0.9, resolution=1), 6)
    3.289707
    """
    outcomes, predicted = gaussian(y_pred, y_std, y_true)
    levels = _levels(start_p, "start_p", end_p, "end_p", resolution)
    score = mean_interval_score(outcomes, predicted, level=levels)
    return score * (1 if check_flag(scaled, "scaled") else len(levels))


def _levels(start: float, start_name: str, end: float, end_name: str, resolution: int) -> Vector:
    ends = []
    for value, name in ((start, start_name), (end, end_name)):
        level = number(value, name)
        if not 0 < level < 1:
            raise ValueError(f"{name} is {level:g}; a number between 0 and 1 is needed")
        ends.append(level)
    return np.linspace(ends[0], ends[1], check_count(resolution, "resolution"))
