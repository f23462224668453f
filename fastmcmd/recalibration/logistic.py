"""Logistic regression with few features, to the last digits: the core of Platt and beta calibration."""

from __future__ import annotations

import numpy as np
from scipy import special

from fastmcmd.backends.tall_skinny import inner
from fastmcmd.predictive.base import Array

__all__ = ["fit_logistic"]

_MOST_STEPS = 200
_LEAST = 1e-280
_FLAT = 1e-12  # decrease of the loss per unit of weight at which the search ends


def fit_logistic(features: Array, targets: Array, weights: Array | None) -> Array | None:
    """Return the coefficients (d,) that minimise the mean log loss, or None if they separate the classes.

    Parameters
    ----------
    features : ndarray (n, d)
        Features; a column of ones is the intercept.
    targets : ndarray (n,)
        Probabilities of class 1: 0 or 1, or smoothed.
    weights : ndarray (n,) or None
        Nonnegative weights of rows.

    Notes
    -----
    Newton's method with halved steps, on features divided by their largest size.
    """
    w = np.ones(len(targets)) if weights is None else weights
    w = w / w.sum()
    unit = np.abs(features).max(axis=0)
    unit = np.where(unit > _LEAST, unit, 1.0)  # below, coefficients would leave float64
    scaled, beta = features / unit, np.zeros(features.shape[1])

    def loss(at: Array) -> float:
        eta = scaled @ at
        return float(w @ (np.logaddexp(0.0, eta) - targets * eta))

    value = loss(beta)
    for _ in range(_MOST_STEPS):
        p = special.expit(scaled @ beta)
        gradient = scaled.T @ (w * (p - targets))
        hessian = inner(scaled, scaled, scale=w * p * (1 - p))
        step = np.linalg.lstsq(hessian, -gradient, rcond=1e-14)[0]
        gain = -float(gradient @ step)
        if not gain > _FLAT:
            beta = beta + step
            break
        size = 1.0
        while (new := loss(beta + size * step)) > value - size * gain / 4 and size > 1e-10:
            size /= 2
        beta, value = beta + size * step, new
    signed = (2 * targets - 1) * (scaled @ beta)
    hard = ((targets == 0) | (targets == 1)).all()
    # Where all rows are on the right side, larger coefficients are always better.
    return None if hard and (signed[w > 0] > 0).all() else np.asarray(beta / unit)
