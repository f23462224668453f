"""The definitions of the CCE paper's published code, written from the formulas, for tests.

The MCMD itself is in `oracle`; kernels here are functions of two arrays (n, d), (m, d).
"""

from __future__ import annotations

import numpy as np


def differences(x, z):
    return x[:, None, :] - z[None, :, :]


def rbf(x, z, gamma):
    return np.exp(-gamma * (differences(x, z) ** 2).sum(axis=2))


def laplacian(x, z, gamma):
    """The square of the L1 distance, as published."""
    return np.exp(-gamma * np.abs(differences(x, z)).sum(axis=2) ** 2)


def true_laplacian(x, z, gamma):
    return np.exp(-gamma * np.abs(differences(x, z)).sum(axis=2))


def polynomial(x, z, gamma=1.0, coef0=1.0, degree=3):
    return (gamma * x @ z.T + coef0) ** degree


def regression_ece(cdf_values, num_bins=100, weights="uniform", alpha=1.0):
    """Return ``sum_j w_j |p_j - q_j|^alpha`` from the values F_i(y_i), level by level."""
    levels = np.linspace(1e-5, 1 - 1e-5, num_bins)
    below = np.array([np.count_nonzero(cdf_values <= p) for p in levels])
    share = np.ones(num_bins) if weights == "uniform" else below
    gaps = np.abs(levels - below / len(cdf_values)) ** alpha
    total = share.sum()
    return float((share * gaps).sum() / total) if total else float("nan")


def count_cdf(masses, y):
    """Return P(Y <= y_i) by summing masses (n, L) of the values 0, 1, ..."""
    return np.where(np.arange(masses.shape[1]) <= np.asarray(y)[:, None], masses, 0.0).sum(axis=1)
