"""A note if outcomes lie far outside the predictions: arguments may be swapped, or units differ."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.errors import NumericalError
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.draws import Draws

__all__ = ["far_outcomes"]

_LEAST_ROWS = 20  # with fewer rows, any assignment may look plausible
_ABSURD_Z = 50.0  # error in standard deviations that no model makes in nearly all rows
_NEARLY_ALL = 0.98  # share of the rows
_NEARER = 3.0  # multiple of the scatter of outcomes that errors exceed
_FEW_ROWS, _SOME_ROWS = (
    8,
    64,
)  # rows whose moments are computed first: they may take an integral each
_SAMUELSON = 2000  # draws up to which none is `_ABSURD_Z` standard deviations from their mean


def far_outcomes(y: Array, prediction: Predictive) -> list[str]:
    """Return a list with a note if outcomes (n,) lie far from nearly all predictions; else an empty list.

    Errors of overconfident networks also span many standard deviations, but in both directions and within
    the scatter of the outcomes. Moments of all rows are computed only if some rows look suspicious.
    """
    n = len(y)
    if n < _LEAST_ROWS:
        return []
    if isinstance(prediction, Draws) and prediction.array.shape[1] == 1:
        return []  # without a spread
    try:
        # Moments of draws are quick, and a few rows do not tell how many outcomes lie between them.
        for count in (_SOME_ROWS,) if isinstance(prediction, Draws) else (_FEW_ROWS, _SOME_ROWS):
            if n > count and not _may_be_far(y, prediction, count):
                return []
        far = _share_of_far(y, prediction)
    except NumericalError:  # moments cannot be computed; code that needs them reports it
        return []
    if far < _NEARLY_ALL:
        return []
    errors = y - np.asarray(prediction.mean)
    low, high = np.quantile(y, [0.25, 0.75])
    outside = np.median(np.abs(errors)) > _NEARER * (high - low)
    one_sided = max(np.mean(errors > 0), np.mean(errors < 0)) >= _NEARLY_ALL
    if not (outside or one_sided):
        return []
    return [
        f"{far:.0%} of the outcomes lie more than {_ABSURD_Z:.0f} predicted standard deviations from the "
        "predicted mean: are units or arguments mixed up? The order is (y, prediction), with "
        "prediction=(mean, std)"
    ]


def _may_be_far(y: Array, prediction: Predictive, count: int) -> bool:
    """Tell whether so many of some rows are far that nearly all of `_SOME_ROWS` may be."""
    some = np.linspace(0, len(y) - 1, count).astype(np.intp)
    near = count * (1.0 - _share_of_far(y[some], prediction.take(some)))
    return near <= (1.0 - _NEARLY_ALL) * max(count, _SOME_ROWS)


def _share_of_far(y: Array, prediction: Predictive) -> float:
    """Return the share of outcomes far from their predictions; 0 if a few lie between their draws."""
    if isinstance(prediction, Draws) and _some_between(y, prediction.array):
        return 0.0
    mean, std = np.asarray(prediction.mean), np.asarray(prediction.std)
    with np.errstate(all="ignore"):
        far = np.abs(y - mean) > _ABSURD_Z * std
    return float(far.mean()) if (std > 0).all() else 0.0


def _some_between(y: Array, draws: Array) -> bool:
    """Tell whether too many outcomes lie between their draws (n, m) for nearly all to be far from them.

    No number between m numbers is further than ``sqrt(m - 1)`` standard deviations from their mean
    (Samuelson's inequality).
    """
    if draws.shape[1] > _SAMUELSON:
        return False
    between = (draws.min(axis=1) <= y) & (y <= draws.max(axis=1))
    return float(between.mean()) > 1 - _NEARLY_ALL
