"""Recalibration of Gaussian predictions, as in ``uncertainty_toolbox.recalibration``."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.checks import check_same_length
from fastmcmd.compat.uncertainty_toolbox.inputs import Vector, documented, number, vector, vectors
from fastmcmd.compat.uncertainty_toolbox.metrics_calibration import (
    get_prediction_interval,
    get_proportion_lists_vectorized,
    get_quantile,
)
from fastmcmd.errors import require
from fastmcmd.predictive import Gaussian
from fastmcmd.recalibration import StdRatio

__all__ = [
    "get_interval_recalibrator",
    "get_q_idx",
    "get_quantile_recalibrator",
    "get_std_recalibrator",
    "iso_recal",
    "optimize_recalibration_ratio",
]


@documented
def get_q_idx(exp_props: ArrayLike, q: float) -> int:
    """Return the index of the proportion at or next below a level.

    Parameters
    ----------
    exp_props : array_like (j,)
        Expected proportions.
    q : float
        Level. At the end of the range it matches the last proportion if both agree to two decimals.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If ``q`` lies outside the proportions.

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox.recalibration import get_q_idx
    >>> get_q_idx([0.0, 0.5, 1.0], 0.7), get_q_idx([0.0, 0.5, 1.0], 1.0)
    (1, 2)
    """
    expected, level = vector(exp_props, "exp_props"), number(q, "q")
    segments = np.flatnonzero((expected[:-1] <= level) & (level < expected[1:]))
    if len(segments):
        return int(segments[0])
    if round(level, 2) == round(float(expected[-1]), 2):
        return len(expected) - 1
    raise ValueError(
        f"q is {level:g}; a number from {expected.min():g} to {expected.max():g}, the range of exp_props, "
        "is needed"
    )


@documented
def iso_recal(exp_props: ArrayLike, obs_props: ArrayLike) -> Any:
    """Return the isotonic regression of expected on observed proportions.

    Parameters
    ----------
    exp_props : array_like (j,)
        Expected proportions in ascending order; they must reach from 0 to 1, and may extend beyond.
    obs_props : array_like (j,)
        Observed proportions.

    Returns
    -------
    sklearn.isotonic.IsotonicRegression
        ``predict(p)`` is the nominal level at which a proportion p is observed.

    Raises
    ------
    ValueError
        Invalid proportions.
    MissingDependencyError
        If scikit-learn is not installed.

    Warns
    -----
    UserWarning
        If observed proportions do not reach from 0 to 1.

    Notes
    -----
    Kuleshov, Fenner & Ermon, *Accurate Uncertainties for Deep Learning Using Calibrated Regression* (ICML
    2018). As in the original, expected proportions beyond 0 and 1 are used only if they change the observed
    proportion: from the last occurrence of the smallest to the first occurrence of the largest observed
    one.

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("sklearn")
    >>> from fastmcmd.compat.uncertainty_toolbox import iso_recal
    >>> model = iso_recal(np.linspace(0, 1, 5), np.array([0.0, 0.1, 0.2, 0.6, 1.0]))
    >>> model.predict([0.2]).tolist()
    [0.5]
    """
    expected, observed = vector(exp_props, "exp_props"), vector(obs_props, "obs_props")
    check_same_length(exp_props=expected, obs_props=observed)
    if observed.min() != 0 or observed.max() != 1:
        warnings.warn(
            f"obs_props reach from {observed.min():g} to {observed.max():g}, not from 0 to 1: what lies "
            "beyond is mapped to the ends",
            UserWarning,
            stacklevel=2,
        )
    zero, one = get_q_idx(expected, 0.0), get_q_idx(expected, 1.0)
    first = _first(observed, zero, one)
    rows = slice(first, _last(observed, zero, one, first) + 1)
    if rows.stop <= rows.start:
        raise ValueError("obs_props fall from exp_props = 0 to exp_props = 1; they must rise")
    advice = "iso_recal returns a model of scikit-learn: pip install scikit-learn"
    isotonic = require("sklearn.isotonic", advice)
    model = isotonic.IsotonicRegression(increasing=True, out_of_bounds="clip")
    return model.fit(observed[rows], expected[rows])


def _first(observed: Vector, zero: int, one: int) -> int:
    """Return the first row that is used; ``zero`` and ``one`` are the rows of these levels."""
    if zero == 0:
        return 0
    below, least = observed[:zero].min(), observed[zero : one + 1].min()
    if below < least:
        return int(np.flatnonzero(observed[:zero] <= below)[-1])
    many = np.count_nonzero(observed[zero : one + 1] == least) > 1
    # The last smallest, before the row of level 1 if there are several.
    return int(np.flatnonzero(observed[: one if many else one + 1] <= least)[-1])


def _last(observed: Vector, zero: int, one: int, first: int) -> int:
    """Return the last row that is used."""
    if one == len(observed) - 1:
        return one
    above, most = observed[one + 1 :].max(), observed[zero : one + 1].max()
    start, least = (one + 1, above) if above > most else (zero, most)
    if above <= most and np.count_nonzero(observed[zero : one + 1] == most) > 1:
        start = first
    places = np.flatnonzero(observed[start:] >= least)
    return int(start + places[0]) if len(places) else first - 1


@documented
def optimize_recalibration_ratio(
    y_mean: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    criterion: str = "ma_cal",
    optimizer_bounds: tuple[float, float] = (1e-2, 1e2),
) -> float:
    """Return the factor of the standard deviations that minimises the calibration error.

    Parameters
    ----------
    y_mean, y_std, y_true : array_like (n,)
        Predicted means and standard deviations, observed outputs.
    criterion : {"ma_cal", "rms_cal", "miscal"}
        Mean absolute or root mean square calibration error, or miscalibration area, of central intervals.
    optimizer_bounds : (float, float)
        Smallest and largest factor.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    This is `fastmcmd.recalibration.StdRatio`, which finds the best factor; the search of the original may
    stop elsewhere. Among equally good factors, the two may choose different ones.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.compat.uncertainty_toolbox import optimize_recalibration_ratio
    >>> y = np.random.default_rng(0).normal(size=20000)
    >>> abs(optimize_recalibration_ratio(np.zeros(20000), np.full(20000, 0.25), y) - 4) < 0.2
    True
    """
    mean, std, outcomes = vectors(y_mean=y_mean, y_std=y_std, y_true=y_true)
    predicted = Gaussian(mean, std)
    fitted = StdRatio(criterion, optimizer_bounds).fit(predicted, outcomes)
    return fitted.ratio_


@documented
def get_std_recalibrator(
    y_mean: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    criterion: str = "ma_cal",
    optimizer_bounds: tuple[float, float] = (1e-2, 1e2),
) -> Callable[[ArrayLike], Vector]:
    """Return a function that scales standard deviations by the factor that minimises the error.

    Parameters
    ----------
    y_mean, y_std, y_true, criterion, optimizer_bounds
        As in `optimize_recalibration_ratio`.

    Returns
    -------
    callable
        A function from standard deviations (n,) to recalibrated ones.
    """
    ratio = optimize_recalibration_ratio(y_mean, y_std, y_true, criterion, optimizer_bounds)

    def recalibrate(std: ArrayLike) -> Vector:
        return ratio * vector(std, "std")

    return recalibrate


@documented
def get_quantile_recalibrator(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike
) -> Callable[[ArrayLike, ArrayLike, float], Vector]:
    """Return a function of means, standard deviations and a level that returns recalibrated quantiles.

    Parameters
    ----------
    y_pred, y_std, y_true : array_like (n,)
        Predicted means and standard deviations, observed outputs.

    Returns
    -------
    callable
        ``f(y_pred, y_std, quantile) -> ndarray (n,)``, as `get_quantile` with a recalibration model.

    Notes
    -----
    `fastmcmd.recalibration.QuantileRecalibrator` returns whole distributions, of any kind.
    """
    model = iso_recal(*get_proportion_lists_vectorized(y_pred, y_std, y_true, prop_type="quantile"))

    def recalibrate(y_pred: ArrayLike, y_std: ArrayLike, quantile: float) -> Vector:
        return get_quantile(y_pred, y_std, quantile, recal_model=model)

    return recalibrate


@documented
def get_interval_recalibrator(
    y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike
) -> Callable[[ArrayLike, ArrayLike, float], Namespace]:
    """Return a function of means, standard deviations and a probability that returns intervals.

    Returns
    -------
    callable
        ``f(y_pred, y_std, quantile) -> Namespace(lower, upper)``, as `get_prediction_interval` with a
        recalibration model.

    Notes
    -----
    `fastmcmd.recalibration.IntervalRecalibrator` returns whole distributions, of any kind.
    """
    model = iso_recal(*get_proportion_lists_vectorized(y_pred, y_std, y_true, prop_type="interval"))

    def recalibrate(y_pred: ArrayLike, y_std: ArrayLike, quantile: float) -> Namespace:
        return get_prediction_interval(y_pred, y_std, quantile, recal_model=model)

    return recalibrate
