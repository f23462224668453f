"""Accuracy of predicted means, as in ``uncertainty_toolbox.metrics_accuracy``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import metrics
from fastmcmd.compat.uncertainty_toolbox.inputs import documented, vectors

__all__ = ["prediction_error_metrics"]


@documented
def prediction_error_metrics(y_pred: ArrayLike, y_true: ArrayLike) -> dict[str, float]:
    """Return metrics of point predictions.

    Returns
    -------
    dict
        "mae", "rmse", "mdae" (median absolute error), "marpd" (mean absolute relative percent difference),
        "r2" (for constant outputs, 1 if all are predicted exactly and else 0, as in scikit-learn) and
        "corr" (Pearson correlation; NaN if outputs or predictions are constant).

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Examples
    --------
    >>> from fastmcmd.compat.uncertainty_toolbox import prediction_error_metrics
    >>> prediction_error_metrics([1.0, 2.0, 3.0], [1.0, 2.0, 5.0])["mdae"]
    0.0
    """
    predicted, outcomes = vectors(y_pred=y_pred, y_true=y_true)
    determined = float(metrics.r2(outcomes, predicted))
    if np.isnan(determined) and len(outcomes) > 1:
        determined = float(np.array_equal(outcomes, predicted))
    return {
        "mae": float(metrics.mae(outcomes, predicted)),
        "rmse": float(metrics.rmse(outcomes, predicted)),
        "mdae": float(metrics.median_absolute_error(outcomes, predicted)),
        "marpd": float(metrics.marpd(outcomes, predicted)),
        "r2": determined,
        "corr": float(metrics.pearson(outcomes, predicted)),
    }
