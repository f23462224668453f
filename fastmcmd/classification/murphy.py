"""Murphy diagrams of probabilities of an event."""

from __future__ import annotations

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_choice
from fastmcmd._base.ignored import IgnoreIndex
from fastmcmd.classification.events import check_event, event_of
from fastmcmd.classification.inputs import LabelledRows, read
from fastmcmd.classification.metric import metric
from fastmcmd.metrics.murphy import (
    MurphyCurve,
    MurphyDifference,
    curve_of,
    difference_of,
    read_thetas,
    theta_parameters,
)
from fastmcmd.predictive.base import Array

__all__ = ["murphy_curve", "murphy_difference"]

_NAMES = {
    "top": "probability that the most probable class is right",
    "positive": "probability of class 1",
}


def _event(
    y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None, nan_policy: NanPolicy,
    sum_tolerance: float | None, of: str | None, name: str, ignore_index: IgnoreIndex,
) -> tuple[LabelledRows, str, Array, Array]:  # fmt: skip
    """Return checked rows, an event, its probabilities (m,) and whether it happened (m,)."""
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, name, ignore_index=ignore_index)
    event = check_event(of, rows)
    rows.check()
    values, occurred = event_of(rows, event)
    return rows, event, values.astype("float64"), occurred.astype("float64")


@metric
@theta_parameters
def murphy_curve(
    y: ArrayLike,
    p: ArrayLike,
    *,
    of: str | None = None,
    thetas: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> MurphyCurve:
    """Return the mean elementary scores of the probability of an event.

    A model whose curve is nowhere above that of another is better in every proper score of the event.

    Parameters
    ----------
    nan_policy : {"raise", "omit"}
        What to do with rows that hold NaN.

    Returns
    -------
    MurphyCurve

    Notes
    -----
    See `fastmcmd.metrics.murphy_curve`. Twice the score at theta is the loss of who acts if p exceeds
    theta, with cost theta of a false alarm and 1 - theta of a miss.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.murphy_curve([0, 1], [0.5, 0.5], thetas=[0.25, 0.75]).score.tolist()
    [0.0625, 0.0625]
    """
    rows, event, values, occurred = _event(
        y, p, sample_weight, nan_policy, sum_tolerance, of, "p", ignore_index
    )
    theta = read_thetas(thetas, [], (0.0, 1.0))
    return curve_of(values, occurred, rows.weights, theta, None, _NAMES[event])


@metric
@theta_parameters
def murphy_difference(
    y: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    thetas: ArrayLike | None = None,
    level: float = 0.95,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> MurphyDifference:
    """Return the difference of two models' elementary scores of class 1, with a band for all thresholds.

    Parameters
    ----------
    first, second : array_like (n, 2) or (n,)
        Probabilities of two classes, or of class 1. Of class c among several: ``y == c`` and ``p[:, c]``.

    Returns
    -------
    MurphyDifference

    Notes
    -----
    See `fastmcmd.metrics.murphy_difference`.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.random(500) < p
    >>> bool((fm.classification.murphy_difference(y, p, np.full(500, 0.5)).better == -1).any())
    True
    """
    rows, _, values, occurred = _event(
        y, first, sample_weight, "raise", sum_tolerance, "positive", "first", ignore_index
    )
    second_values = _event(
        y, second, None, "raise", sum_tolerance, "positive", "second", ignore_index
    )[2]
    theta = read_thetas(thetas, [], (0.0, 1.0))
    return difference_of(
        (values, second_values),
        occurred,
        rows.weights,
        theta,
        None,
        _NAMES["positive"],
        level,
        random_state,
    )
