"""Synthetic data, as in ``uncertainty_toolbox.data``: numbers from ``numpy.random`` in the same order."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.checks import check_count

__all__ = ["synthetic_arange_random", "synthetic_sine_heteroscedastic"]

Arrays = tuple[HostArray, HostArray, HostArray, HostArray]


def synthetic_arange_random(num_points: int = 10) -> Arrays:
    """Return predictions that are up to 1 too high, their standard deviations, outcomes and inputs.

    Parameters
    ----------
    num_points : int
        Number of points.

    Returns
    -------
    y_pred, y_std, y_true, x : ndarray (n,)
        ``y_true = x = 0, 1, ...``; ``y_std`` is the error, and up to 0.1 more.

    Examples
    --------
    >>> synthetic_arange_random(3)[3].tolist()
    [0, 1, 2]
    """
    n = check_count(num_points, "num_points")
    x = np.arange(n)
    y_pred = x + np.random.random((n,))  # noqa: NPY002
    y_std = np.abs(x - y_pred) + 0.1 * np.random.random((n,))  # noqa: NPY002
    return y_pred, y_std, x.copy(), x


def synthetic_sine_heteroscedastic(n_points: int = 10) -> Arrays:
    """Return means and standard deviations of the noise around a sine, outcomes, and inputs from 0 to 15.

    Parameters
    ----------
    n_points : int
        Number of points.

    Returns
    -------
    y_pred, y_std, y_true, x : ndarray (n,)
        ``y_pred = sin(x)`` and ``y_std = 0.01 + |x - 5| / 10`` are the truth.

    Examples
    --------
    >>> synthetic_sine_heteroscedastic(4)[3].tolist()
    [0.0, 5.0, 10.0, 15.0]
    """
    x = np.linspace(0, 15, check_count(n_points, "n_points"))
    mean, std = np.sin(x), 0.01 + np.abs(x - 5.0) / 10.0
    return mean, std, mean + np.random.normal(scale=std), x  # noqa: NPY002
