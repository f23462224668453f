"""Rows in bins of equal mass by predicted spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd.errors import RowError
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array

__all__ = ["cube_root_rule", "equal_mass", "positive_std"]

_ROUNDING = 1e-9  # rounding of a position at an edge, so that the scale of weights does not matter


def positive_std(prediction: Predictive) -> Array:
    """Return standard deviations (n,); raise an error unless all are positive and finite."""
    std = np.asarray(prediction.std)
    if not (std.min(initial=1.0) > 0 and std.max(initial=1.0) < np.inf):
        row = int(np.flatnonzero(~(np.isfinite(std) & (std > 0)))[0])
        raise RowError(
            f"prediction has a std of {std[row]:g} in row {row}; all must be positive and finite to be "
            "rescaled",
            row,
        )
    return std


def cube_root_rule(effective: float) -> int:
    """Return ``2 n^(1/3)`` rounded up (Rice's rule), which has the optimal growth for histograms."""
    return int(np.ceil(2 * effective ** (1 / 3)))


def equal_mass(
    values: Array, weights: Array | None, bins: int | None
) -> tuple[NDArray[np.intp], int]:
    """Return the bin of each row (n,), and the number of bins.

    Parameters
    ----------
    values : ndarray (n,)
        Values by which rows are ordered; equal values share a bin.
    weights : ndarray (n,) or None
        Masses of the rows.
    bins : int or None
        Number of bins of nearly equal mass, fewer if values repeat; None for one bin per distinct value.
    """
    distinct, group = np.unique(values, return_inverse=True)
    if bins is None:
        return group, len(distinct)
    mass = np.bincount(group, weights, len(distinct))
    upto = np.cumsum(mass)
    place = (upto - mass / 2) / upto[-1] * bins
    label = np.minimum(place + _ROUNDING, bins - 1).astype(np.intp)
    label = np.cumsum(np.diff(label, prepend=label[0]) > 0)  # skips empty bins
    return label[group], int(label[-1]) + 1
