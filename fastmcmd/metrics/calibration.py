"""Calibration of predicted distributions of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.checks import as_array, as_rows, check_choice, check_positive
from fastmcmd.predictive import Predictive, as_predictive

__all__ = ["ence", "pit_values", "regression_ece"]

_LEVELS = 99


def _numbers(y: Any, prediction: Any) -> tuple[NDArray[np.float64], Predictive]:
    y = as_rows(y, "y", columns=1)[:, 0].astype(np.float64)
    return y, as_predictive(prediction, len(y), 1)


def pit_values(
    y: Any, prediction: Any, pit: str = "randomized", random_state: Any = 0
) -> NDArray[np.float64]:
    """Return the probability integral transform of each outcome.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs.
    prediction : Predictive or what converts to one
        Predicted distributions.
    pit : {"randomized", "mid", "plain"}
        What to do with atoms: uniform between P(Y < y) and P(Y <= y), their middle, or P(Y <= y). The
        same for continuous distributions. Only the randomised PIT of a correct count model is uniform.
    random_state : int, numpy.random.Generator or None
        Source of the randomisation.

    Returns
    -------
    ndarray (n,)
        Values in [0, 1].

    Notes
    -----
    Czado, Gneiting & Held, *Predictive Model Assessment for Count Data* (Biometrics, 2009), section 2.1.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.pit_values([0.0], fm.Gaussian([0.0], 1.0)).tolist()
    [0.5]
    """
    check_choice(pit, "pit", ("randomized", "mid", "plain"))
    y, predictive = _numbers(y, prediction)
    high = predictive.cdf(y)
    if pit == "plain":
        return high
    low = predictive.cdf_below(y)
    share = 0.5 if pit == "mid" else np.random.default_rng(random_state).uniform(size=len(y))
    return np.asarray(low + share * (high - low))


def regression_ece(
    y: Any,
    prediction: Any,
    levels: Any = None,
    weights: Any = "uniform",
    alpha: float = 1.0,
    pit: str = "randomized",
    random_state: Any = 0,
) -> float:
    """Return the expected calibration error of a regression.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs.
    prediction : Predictive or what converts to one
        Predicted distributions.
    levels : array_like (j,), optional
        Confidence levels p_j in (0, 1); default 99 even ones.
    weights : {"uniform", "frequency"} or array_like (j,)
        Weights w_j, scaled to sum to one; "frequency" counts the outcomes up to each level.
    alpha : float
        Exponent of the differences.
    pit : {"randomized", "mid", "plain"}
        See `pit_values`.
    random_state : int, numpy.random.Generator or None
        Source of the randomisation.

    Returns
    -------
    float
        ``sum_j w_j |p_j - mean(PIT <= p_j)|^alpha``.

    Notes
    -----
    Kuleshov, Fenner & Ermon, *Accurate Uncertainties for Deep Learning Using Calibrated Regression*
    (ICML 2018), equation 9, with absolute differences by default.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> fm.regression_ece(y, (np.zeros(4000), 1.0)) < 0.02
    True
    """
    alpha = check_positive(alpha, "alpha")
    if levels is None:
        levels = np.arange(1, _LEVELS + 1) / (_LEVELS + 1)
    levels = as_array(levels, "levels").astype(np.float64)
    if levels.ndim != 1 or len(levels) == 0 or not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"levels must be numbers between 0 and 1 of shape (j,), got {levels!r}")
    values = np.sort(pit_values(y, prediction, pit, random_state))
    counts = np.searchsorted(values, levels, side="right")
    if isinstance(weights, str):
        check_choice(weights, "weights", ("uniform", "frequency"))
        share = np.ones(len(levels)) if weights == "uniform" else counts.astype(np.float64)
    else:
        share = as_array(weights, "weights").astype(np.float64)
        if share.shape != levels.shape or not (share >= 0).all():
            raise ValueError(
                f"weights must be nonnegative with shape {levels.shape}, got shape {share.shape}"
            )
    if not share.sum() > 0:
        return 0.0 if isinstance(weights, str) else float("nan")
    gaps = np.abs(levels - counts / len(values)) ** alpha
    return float((share * gaps).sum() / share.sum())


def ence(y: Any, prediction: Any, bins: int = 10) -> float:
    """Return the expected normalised calibration error of predicted variances.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs.
    prediction : Predictive or what converts to one
        Predicted distributions: their means and variances are used.
    bins : int
        Number of bins, of equal count, by predicted variance.

    Returns
    -------
    float
        Mean over bins of ``|RMV - RMSE| / RMV``. Of a calibrated model it is not 0 but grows like
        ``sqrt(bins / n)``.

    Notes
    -----
    Levi, Gispan, Giladi & Fetaya, *Evaluating and Calibrating Uncertainty Prediction in Regression
    Tasks* (2019), equation 8.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> fm.ence(y, (np.zeros(4000), 1.0)) < 0.05
    True
    """
    y, predictive = _numbers(y, prediction)
    if isinstance(bins, bool) or not hasattr(bins, "__index__") or not 1 <= bins <= len(y):
        raise ValueError(f"bins is {bins!r}; an integer from 1 to the {len(y)} rows of y is needed")
    variance = predictive.variance
    squares = (y - predictive.mean) ** 2
    if not np.isfinite(variance).all() or not (variance > 0).all():
        raise ValueError("prediction has variances that are not positive and finite")
    order = np.argsort(variance, kind="stable")
    gaps = []
    for rows in np.array_split(order, bins):
        rmv = np.sqrt(variance[rows].mean())
        gaps.append(abs(rmv - np.sqrt(squares[rows].mean())) / rmv)
    return float(np.mean(gaps))
