"""Sampled certificates of CG find the few rows that float32 rounds, wherever they are."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm

N, D, START = 8300, 64, 3000


def cluster_among_isolated_rows(seed):
    """Return inputs of which few have neighbours, outputs, a regulariser and a tolerance."""
    rng = np.random.default_rng(seed)
    count = int(rng.choice([10, 16, 24, 40]))
    x = 2 * rng.normal(size=(N, D))
    rows = slice(START, START + count)
    x[rows] = 2 * rng.normal(size=D) + 0.12 * rng.normal(size=(count, D))
    y = rng.normal(size=N)
    y[rows] *= rng.choice([0.2, 0.4, 0.6])
    return x, y, rows, float(rng.choice([1e-4, 2e-4, 5e-4])), float(rng.choice([1e-6, 3e-7, 3e-6]))


@pytest.mark.parametrize("seed", [10, 11, 23, 29, 31])
def test_cluster_among_isolated_rows(seed):
    """Entries near 0 are exact: only the cluster, a thousandth of the rows, is rounded.

    Distances from norms err by 1e-5 there. Samples drawn by the diagonal, norms and coefficients, which are
    much alike for all rows, missed it: errors were 6 to 20 times the bound. Other kernel values are below
    1e-30, so the cluster is a small system of its own.
    """
    x, y, rows, lam, tol = cluster_among_isolated_rows(seed)
    kernel, at = fm.RBF(0.5), x[rows]
    result = fm.cce(
        x, y, np.zeros(N), at=at, x_kernel=kernel, y_kernel=fm.Linear(), lam=lam, tol=tol
    )
    matrix = kernel(at, at)
    exact = np.abs(matrix @ np.linalg.solve(matrix + N * lam * np.eye(len(at)), y[rows]))
    assert (np.abs(result.values - exact) <= result.error_bounds * (1 + 1e-9)).all()


@pytest.mark.parametrize("seed", [1, 3])
def test_cluster_whose_terms_cancel(seed):
    """Outcomes that alternate in a small cluster, beside a large one: 1.3 and 4.0 times the bound.

    What rows of ``K B`` have from other rows is small in the small cluster, because it cancels; rounding
    does not.
    """
    rng = np.random.default_rng(seed)
    n, d, large, shift, tol = 8300, 64, 300, 30.0, 1e-5
    x, y = 4 * rng.normal(size=(n, d)), rng.normal(size=n)
    x[:large] = 1.2 * rng.normal(size=d) + 0.02 * rng.normal(size=(large, d))
    y[:large] = 1.0
    rows = slice(6000, 6010)
    x[rows] = 4 * rng.normal(size=d) + 0.005 * rng.normal(size=(10, d))
    y[rows] = np.tile([-1.0, 1.0], 5)
    kernel = fm.RBF(0.5)
    result = fm.cce(
        x, y, np.zeros(n), at=x[rows], x_kernel=kernel, y_kernel=fm.Linear(), lam=shift / n, tol=tol
    )
    gram = kernel(x[rows], x[rows])  # the kernel of other rows with these is below 1e-30
    exact = np.abs(gram @ np.linalg.solve(gram + shift * np.eye(10), y[rows]))
    assert (np.abs(result.values - exact) <= result.error_bounds).all()
