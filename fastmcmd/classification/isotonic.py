"""Reliability of probabilities of classes by isotonic regression."""

from __future__ import annotations

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_choice
from fastmcmd.classification.events import check_event, event_of
from fastmcmd.classification.inputs import read
from fastmcmd.classification.metric import metric
from fastmcmd.metrics.isotonic import IsotonicReliability, band_parameters, isotonic

__all__ = ["isotonic_reliability"]

_EVENTS = {"top": "the most probable class is right", "positive": "class 1"}


@metric
@band_parameters
def isotonic_reliability(
    y: ArrayLike,
    p: ArrayLike,
    *,
    of: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> IsotonicReliability:
    """Return the frequency of an event as an increasing function of its probability, without bins.

    Parameters
    ----------
    p : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1. Of class c among several: ``y == c`` and ``p[:, c]``.
    nan_policy : {"raise", "omit"}
        What to do with rows that hold NaN.

    Returns
    -------
    IsotonicReliability

    Notes
    -----
    See Dimitriadis, Gneiting & Jordan, *Stable Reliability Diagrams for Probabilistic Classifiers* (PNAS,
    2021), and `fastmcmd.metrics.exceedance_reliability` for the band. With "top", the event is drawn with
    the largest probability of each row.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.random(500) < p
    >>> curve = fm.classification.isotonic_reliability(y, p, resamples=200)
    >>> curve.p_value > 0.05, round(curve.miscalibration, 3)
    (True, 0.009)
    """
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    event = check_event(of, rows)
    rows.check()
    values, occurred = event_of(rows, event)
    return isotonic(
        values, occurred, rows.weights, _EVENTS[event],
        level=level, resamples=resamples, random_state=random_state,
    )  # fmt: skip
