"""The concordance index of predicted times, some of which are censored."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_float, check_choice
from fastmcmd.metrics.censoring import censoring_of, read_times
from fastmcmd.metrics.metric import metric
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["concordance_index"]


@metric
def concordance_index(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    event: ArrayLike,
    weighting: str = "harrell",
    tau: float | None = None,
    train: tuple[ArrayLike, ArrayLike] | None = None,
    nan_policy: NanPolicy = "raise",
) -> float:
    """Return the share of comparable pairs whose predicted times are in the order of the observed ones.

    Parameters
    ----------
    y : array_like (n,)
        Observed times: of events, or of censoring.
    prediction : predicted times (n,), or any prediction, whose medians are compared
        Larger is later. Pass minus a risk score.
    event : array_like (n,)
        1 or True for events, 0 or False for censored rows.
    weighting : {"harrell", "uno"}, default "harrell"
        "harrell": each pair counts 1. "uno": a pair counts ``1 / G(y)^2`` at its earlier time, G the
        probability of not being censored before, which removes the influence of the censoring.
    tau : float, optional
        Only pairs whose earlier time is below tau count. Default: all.
    train : (times, event), optional
        For "uno": rows from which G is estimated. Default: the same rows.

    Returns
    -------
    float
        In [0, 1]; 1/2 for predictions without information. Pairs of equal predictions count half.

    Raises
    ------
    ValueError
        Arguments that do not fit, or no comparable pair.

    Notes
    -----
    A pair is comparable if the earlier time is that of an event; of equal times, an event is earlier than a
    censored row, and two events are not comparable. "harrell": Harrell, Lee & Mark (Statistics in Medicine
    1996), as scikit-survival's ``concordance_index_censored``. "uno": Uno, Cai, Pencina, D'Agostino & Wei,
    *On the C-statistics for evaluating overall adequacy of risk prediction procedures with censored
    survival data* (Statistics in Medicine 2011). The index ranks; it says nothing about calibration, and
    is not proper. The cost is O(n log n).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.concordance_index([1.0, 2.0, 3.0], [1.5, 1.0, 4.0], event=[1, 1, 0])
    0.6666666666666666
    """
    check_choice(weighting, "weighting", ("harrell", "uno"))
    last = np.inf if tau is None else as_float(tau, "tau")
    if np.isnan(last):
        raise ValueError("tau is NaN; a number is needed")
    rows, events = read_times(y, prediction, event, nan_policy)
    weights = np.where(events & (rows.y < last), 1.0, 0.0)
    if train is not None and weighting != "uno":
        raise ValueError("train is given, which weighting='uno' needs; leave it out")
    if weighting == "uno":
        free = censoring_of(rows.y, events, train).before(rows.y)
        if (free[weights > 0] == 0).any():
            raise ValueError(
                "y holds events after which the training rows are all censored; give tau, an earlier time"
            )
        weights = weights / np.where(weights > 0, free, 1.0) ** 2
    agree, total = _pairs(rows.y, events, rows.prediction.quantile(0.5), weights)
    if not total > 0:
        until = "" if tau is None else f" and before tau = {last:g}"
        raise ValueError(
            f"y holds no comparable pair: an event before the time of another row{until} is needed"
        )
    return float("nan") if rows.nan_result else agree / total


def _pairs(
    y: Array, events: NDArray[np.bool_], predicted: Array, weights: Array
) -> tuple[float, float]:
    """Return the weight of concordant and of comparable pairs; the earlier row of a pair has the weight."""
    order = np.lexsort((events, -y))  # late rows first, and of equal times censored ones
    values, rank = np.unique(predicted, return_inverse=True)
    times, is_event = y[order], events[order]
    # Comparable with an event are all rows before the first event of its time.
    starts = np.flatnonzero(
        np.r_[True, (times[1:] != times[:-1]) | (is_event[1:] != is_event[:-1])]
    )
    until = np.repeat(starts, np.diff(np.r_[starts, len(y)]))
    counts = np.empty(len(y), dtype=np.int64)
    tree, equal = (np.zeros(len(values) + extra, dtype=np.int64) for extra in (1, 0))
    _core.count_pairs(rank.astype(np.int64)[order], until.astype(np.int64), tree, equal, counts)
    weights = weights[order]
    agree, total = (float(np.einsum("i,i->", weights, pairs)) for pairs in (counts, until))
    return agree / 2, total
