"""The log score of a prediction for an interval of interest."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_flag
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.metrics.weighted_scores import interval_ends
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["censored_likelihood_score", "mean_censored_likelihood_score"]


@metric
def censored_likelihood_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    lower: ArrayLike = -np.inf,
    upper: ArrayLike = np.inf,
    conditional: bool = False,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return log scores (n,) of a prediction for an interval of interest.

    Parameters
    ----------
    prediction : Predictive, (mean, std), scipy.stats or torch.distributions object
        Predicted distributions with a density.
    lower, upper : float or array_like (n,)
        Interval of interest. Default: no end.
    conditional : bool, default False
        Whether to return the conditional likelihood score: ``-log f(y) / P(Y inside)`` in the interval, 0
        outside.

    Returns
    -------
    ndarray (n,)
        For outcomes in the interval ``-log f(y)``; for others ``-log P(Y outside)``.

    Raises
    ------
    ValueError
        Arguments that do not fit, or a prediction without a density.

    Notes
    -----
    Diks, Panchenko & van Dijk, *Likelihood-based scoring rules for comparing density forecasts in tails*
    (Journal of Econometrics 2011), with the opposite sign. For ensembles, score
    `kernel_density` of the draws: this equals scoringrules' ``clogs_ensemble``. Ends belong to the outside.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.censored_likelihood_score([0.0, 3.0], ([0.0, 0.0], 1.0), lower=1.0).round(4).tolist()
    [0.1728, 5.4189]
    """
    check_flag(conditional, "conditional")
    rows = read(y, prediction, None, nan_policy, on_device=True).on_host()
    low, high = (
        interval_ends(value, name, len(rows.y))
        for value, name in ((lower, "lower"), (upper, "upper"))
    )
    if (low >= high).any():
        raise ValueError("lower is not below upper; an interval is needed")
    below, above = rows.prediction.cdf(low), 1 - rows.prediction.cdf_below(high)
    outside = below + np.where(rows.prediction.discrete, above, rows.prediction.sf(high))
    inside = (rows.y > low) & (rows.y < high)
    density = rows.prediction.log_prob(rows.y)
    with np.errstate(divide="ignore"):
        if conditional:
            scores = np.where(inside, np.log1p(-np.minimum(outside, 1.0)) - density, 0.0)
        else:
            scores = np.where(inside, -density, -np.log(np.minimum(outside, 1.0)))
    return rows.scatter(scores)


mean_censored_likelihood_score = mean_of(
    censored_likelihood_score,
    "Return the mean censored or conditional likelihood score.",
    """
    >>> import fastmcmd as fm
    >>> score = fm.metrics.mean_censored_likelihood_score
    >>> round(score([0.0, 3.0], ([0.0, 0.0], 1.0), lower=1.0), 4)
    2.7958
    """,
)
