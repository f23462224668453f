"""Proper scores of predicted distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.checks import as_rows
from fastmcmd.predictive import as_predictive

__all__ = ["nll"]


def nll(y: Any, prediction: Any) -> float:
    """Return the mean negative log-likelihood.

    Parameters
    ----------
    y : array_like (n,) or (n, k)
        Observed outputs.
    prediction : Predictive, (mean, std), scipy.stats or torch.distributions object
        Predicted distributions; bare draws have no density.

    Returns
    -------
    float
        ``-mean log f_i(y_i)``; infinite where a prediction gives an outcome no probability.

    Notes
    -----
    The logarithmic score (Gneiting & Raftery, *Strictly Proper Scoring Rules, Prediction, and
    Estimation*, JASA 2007, section 4.1).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> round(fm.nll([0.0], fm.Gaussian([0.0], 1.0)), 6)
    0.918939
    """
    y = as_rows(y, "y")
    predictive = as_predictive(prediction, len(y), y.shape[1])
    return float(-np.mean(predictive.log_prob(y[:, 0] if y.shape[1] == 1 else y)))
