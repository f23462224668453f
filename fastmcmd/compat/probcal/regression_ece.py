"""The published expected calibration error of a regression."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import as_array, as_rows, check_choice, check_count, check_positive
from fastmcmd.compat.probcal.predicted_cdf import predicted_cdf
from fastmcmd.predictive.base import DistributionLike

__all__ = ["compute_regression_ece"]

_EDGE = 1e-5  # distance of the outermost levels from 0 and 1, as published


def compute_regression_ece(
    y_true: ArrayLike,
    posterior_predictive: DistributionLike,
    num_bins: int = 100,
    weights: str = "uniform",
    alpha: float = 1.0,
) -> float:
    """Return the expected calibration error of predicted distributions.

    Parameters
    ----------
    y_true : array_like or torch.Tensor (n,)
        Observed outputs.
    posterior_predictive : frozen scipy.stats or torch.distributions object, Predictive, or with a ``cdf``
        Predicted distributions, one an output; also the published ``DiscreteRandomVariable``.
    num_bins : int
        Levels p_j, even from 1e-5 to 1 - 1e-5.
    weights : {"uniform", "frequency"}
        Weights w_j, scaled to sum to one: equal, or the number of outcomes up to each level.
    alpha : float
        Exponent of the differences.

    Returns
    -------
    float
        ``sum_j w_j |p_j - mean(F_i(y_i) <= p_j)|^alpha``. NaN, as published, if "frequency" gives every
        level weight zero: no outcome lies up to any.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    Kuleshov, Fenner & Ermon, *Accurate Uncertainties for Deep Learning Using Calibrated Regression* (ICML
    2018), equation 9. `fastmcmd.regression_ece` has 99 levels and randomises the PIT of counts; here
    F_i(y_i) is P(Y <= y_i), as published, under which even a correct count model scores above zero.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from fastmcmd.compat.probcal import compute_regression_ece
    >>> y = np.random.default_rng(0).normal(size=4000)
    >>> compute_regression_ece(y, stats.norm(np.zeros(4000), 1.0)) < 0.02
    True
    """
    y = as_rows(as_array(y_true, "y_true").reshape(-1), "y_true")[:, 0].astype(np.float64)
    bins = check_count(num_bins, "num_bins")
    check_choice(weights, "weights", ("uniform", "frequency"))
    alpha = check_positive(alpha, "alpha")
    levels = np.linspace(_EDGE, 1 - _EDGE, bins)
    values = np.sort(predicted_cdf(posterior_predictive, y))
    counts = np.searchsorted(values, levels, side="right")
    gaps = np.abs(levels - counts / len(y)) ** alpha
    share: NDArray[np.float64] = (
        np.ones(bins) if weights == "uniform" else counts.astype(np.float64)
    )
    total = share.sum()
    return float(share @ gaps / total) if total else float("nan")
