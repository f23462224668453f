"""Right-censored times: which rows had an event, and Kaplan-Meier estimates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_array
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["Censoring", "censoring_of", "kaplan_meier", "read_times"]


def _events(event: ArrayLike, name: str, n: int, of: str) -> NDArray[np.bool_]:
    """Return which of n rows had an event; ``of`` names what has these rows."""
    array = as_array(event, name)
    if array.shape != (n,):
        raise ValueError(
            f"{name} has shape {array.shape}; ({n},) is needed: one flag per row of {of}"
        )
    if not np.isin(array, (0.0, 1.0)).all():
        raise ValueError(f"{name} holds values other than 0 and 1, or False and True")
    return np.asarray(array == 1.0)


def _times(y: ArrayLike, name: str) -> Array:
    """Return checked times (n,)."""
    times = as_array(y, name).astype(np.float64)
    if times.ndim != 1 or not len(times):
        raise ValueError(f"{name} has shape {times.shape}; times (n,) are needed")
    if not np.isfinite(times).all():
        raise ValueError(f"{name} has values that are not finite")
    return times


def read_times(
    y: ArrayLike, prediction: PredictionLike, event: ArrayLike, nan_policy: NanPolicy
) -> tuple[Outcomes, NDArray[np.bool_]]:
    """Return checked outcomes and predictions on the host, and which rows had an event."""
    rows = read(y, prediction, None, nan_policy, on_device=True).on_host()
    events = _events(event, "event", rows.n, "y")
    return rows, events if rows.valid is None else events[rows.valid]


def kaplan_meier(y: ArrayLike, event: ArrayLike) -> tuple[Array, Array]:
    """Return times (j,) of events and the Kaplan-Meier estimate (j,) of ``P(Y > t)`` from each on.

    Parameters
    ----------
    y : array_like (n,)
        Observed times: of events, or of censoring.
    event : array_like (n,)
        1 or True for events, 0 or False for censored rows.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    Kaplan & Meier, *Nonparametric Estimation from Incomplete Observations* (JASA 1958).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> times, share = fm.metrics.kaplan_meier([1.0, 2.0, 3.0], [1, 0, 1])
    >>> times.tolist(), share.round(4).tolist()
    ([1.0, 3.0], [0.6667, 0.0])
    """
    times = _times(y, "y")
    events = _events(event, "event", len(times), "y")
    at, died = np.unique(times[events], return_counts=True)
    at_risk = len(times) - np.searchsorted(np.sort(times), at)
    return at, np.asarray(np.cumprod(1 - died / at_risk), dtype=np.float64)


class Censoring:
    """The Kaplan-Meier estimate G of the probability of not being censored.

    Of times that are equal, events come before censored rows.
    """

    def __init__(self, times: Array, events: NDArray[np.bool_]) -> None:
        at, censored = np.unique(times[~events], return_counts=True)
        # Rows with an event at the time of a censored row are no longer at risk of being censored.
        later = len(times) - np.searchsorted(np.sort(times), at, side="right")
        at_risk = later + censored
        self._times, self._shares = at, np.concatenate([[1.0], np.cumprod(1 - censored / at_risk)])

    def before(self, times: Array) -> Array:
        """Return ``G(t-)``: the probability of not being censored before t."""
        return np.asarray(self._shares[np.searchsorted(self._times, times, side="left")])

    def after(self, times: Array) -> Array:
        """Return ``G(t)``: the probability of not being censored up to t."""
        return np.asarray(self._shares[np.searchsorted(self._times, times, side="right")])


def censoring_of(
    y: Array, events: NDArray[np.bool_], train: tuple[ArrayLike, ArrayLike] | None
) -> Censoring:
    """Return G from the training rows ``(times, event)``, or from rows themselves."""
    if train is None:
        return Censoring(y, events)
    if not isinstance(train, tuple) or len(train) != 2:
        raise TypeError("train must be a pair (times, event)")
    times = _times(train[0], "train[0]")
    return Censoring(times, _events(train[1], "train[1]", len(times), "train[0]"))
