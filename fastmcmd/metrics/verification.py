"""Forecast verification: rank histograms, discrimination, receiver operating curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_float, check_count
from fastmcmd._base.tables import ColumnTable, aligned
from fastmcmd.metrics.by_level import exceedances
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = [
    "Discrimination",
    "ROCCurve",
    "discrimination",
    "roc_curve",
]


@dataclass(frozen=True, eq=False)
class Discrimination(ColumnTable):
    """Histograms of the predicted probability of an event, where it happened and where it did not.

    Attributes
    ----------
    edges : ndarray (bins + 1,)
        Edges from 0 to 1. Bins include their left edge; the last also its right edge.
    event, no_event : ndarray (bins,)
        Shares of the rows with and without the event, each of which sums to 1.
    """

    edges: Array
    event: Array
    no_event: Array

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns as lists: edges of each bin, and shares."""
        return {
            "low": self.edges[:-1].tolist(), "high": self.edges[1:].tolist(),
            "event": self.event.tolist(), "no_event": self.no_event.tolist(),
        }  # fmt: skip

    def table(self) -> str:
        """Return the histograms as text, one bin per line."""
        rows = [["probability", "event", "no event"]]
        for i in range(len(self.event)):
            span = f"{self.edges[i]:.3g} to {self.edges[i + 1]:.3g}"
            rows.append([span, f"{self.event[i]:.4f}", f"{self.no_event[i]:.4f}"])
        return aligned(rows)

    def __repr__(self) -> str:
        return f"Discrimination\n{self.table()}"


@metric
def discrimination(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    threshold: float,
    bins: int = 5,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> Discrimination:
    """Return the distribution of ``P(Y > threshold)`` where the outcome exceeded it, and where not.

    Parameters
    ----------
    threshold : float
        The event is ``y > threshold``.
    bins : int, default 5
        Number of bins of equal width.

    Returns
    -------
    Discrimination
        The further apart the two histograms, the better the prediction tells events from others.

    Raises
    ------
    ValueError
        Arguments that do not fit, or an event that always or never happens.

    Notes
    -----
    Murphy & Winkler, *A General Framework for Forecast Verification* (Monthly Weather Review 1987): the
    likelihood-base rate factorisation; xskillscore's ``discrimination``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> result = fm.metrics.discrimination([0.0, 2.0], ([0.0, 2.0], 1.0), threshold=1.0, bins=2)
    >>> result.event.tolist(), result.no_event.tolist()
    ([0.0, 1.0], [1.0, 0.0])
    """
    count = check_count(bins, "bins")
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True).on_host()
    chance, exceeded, weights = _event(rows, threshold)
    place = np.minimum((chance * count).astype(np.intp), count - 1)
    shares = []
    for some in (exceeded, ~exceeded):
        mass = np.bincount(place[some], weights[some], minlength=count)
        shares.append(mass / mass.sum() * (np.nan if rows.nan_result else 1.0))
    return Discrimination(np.linspace(0.0, 1.0, count + 1), *shares)


def _event(rows: Outcomes, threshold: float) -> tuple[Array, NDArray[np.bool_], Array]:
    """Return probabilities of exceeding the threshold, where it was exceeded, and weights of rows."""
    at = np.array([as_float(threshold, "threshold")])
    chance, exceeded = exceedances(rows.prediction, rows.y, at)
    weights = np.ones(len(chance)) if rows.weights is None else rows.weights
    event = exceeded[:, 0] > 0
    if not weights[event].sum() > 0 or not weights[~event].sum() > 0:
        raise ValueError(
            f"threshold is {threshold:g}, which {'no' if not event.any() else 'every'} outcome in y of "
            "positive weight exceeds; both kinds of rows are needed"
        )
    return chance[:, 0], event, weights


@dataclass(frozen=True, eq=False)
class ROCCurve(ColumnTable):
    """Receiver operating characteristic of an event.

    Attributes
    ----------
    false_positive_rate, true_positive_rate : ndarray (j,)
        Shares of the rows without and with the event that are warned of, rising from 0 to 1.
    threshold : ndarray (j,)
        Warnings are given where the predicted probability is at least this; infinity for the first point.
    area : float
        Area under the curve: the probability that a row with the event has the higher predicted
        probability, ties counted half.
    """

    false_positive_rate: Array
    true_positive_rate: Array
    threshold: Array
    area: float

    def to_dict(self) -> dict[str, list[float]]:
        """Return the points as lists, by name."""
        names = ("false_positive_rate", "true_positive_rate", "threshold")
        return {name: getattr(self, name).tolist() for name in names}

    def __repr__(self) -> str:
        return f"ROCCurve of {len(self.threshold):,} points: area {self.area:.4g}"


@metric
def roc_curve(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    threshold: float,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> ROCCurve:
    """Return the receiver operating characteristic of ``P(Y > threshold)`` for the event ``y > threshold``.

    Parameters
    ----------
    threshold : float
        The event is ``y > threshold``.

    Returns
    -------
    ROCCurve
        One point per distinct probability.

    Raises
    ------
    ValueError
        Arguments that do not fit, or an event that always or never happens.

    Notes
    -----
    Mason, *A model for assessment of weather forecasts* (1982). The points are those of scikit-learn's
    ``roc_curve(drop_intermediate=False)``; xskillscore's ``roc`` has fixed bins. The curve ignores
    calibration: any increasing map of the probabilities leaves it as it is.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.roc_curve([0.0, 2.0], ([0.0, 2.0], 1.0), threshold=1.0).area
    1.0
    """
    rows = read(y, prediction, sample_weight, nan_policy, on_device=True).on_host()
    chance, exceeded, weights = _event(rows, threshold)
    order = np.argsort(-chance, kind="stable")
    ranked = chance[order]
    last = np.flatnonzero(np.append(np.diff(ranked) != 0, True))
    rates = []
    for some in (~exceeded, exceeded):
        rising = np.cumsum((weights * some)[order])[last]
        rates.append(np.concatenate([[0.0], rising / rising[-1]]))
    false, true = rates
    if rows.nan_result:
        false, true = false * np.nan, true * np.nan
    area = float(((true[1:] + true[:-1]) / 2 * np.diff(false)).sum())
    return ROCCurve(false, true, np.concatenate([[np.inf], ranked[last]]), area)
