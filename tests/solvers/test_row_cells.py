"""Sampled certificates of landmarks find clusters that uniform draws miss, and bound every row."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.solvers.row_cells import largest_cells, row_cells

N, APART = 20000, 80.0


def clusters_among_isolated_rows(seed, weighted):
    """Return far rows, clusters of which some cancel, outputs, weights, regulariser and exact values.

    Kernel values between clusters are below 1e-300: each cluster is a small system of its own.
    """
    rng = np.random.default_rng(seed)
    d, lam = int(rng.choice([3, 8])), float(10 ** rng.uniform(-2.5, -1))
    side = 40 if d == 3 else 6
    places = rng.choice(side**d, N, replace=False)
    x = APART * np.stack(np.unravel_index(places, (side,) * d), axis=1)
    y = rng.choice([0.0, 0.3, 1.0]) * rng.normal(size=N)
    weights = np.ones(N)
    if weighted:
        weights = np.exp(rng.normal(size=N))
        weights[rng.integers(N, size=5)] *= 300
    order, start, groups = rng.permutation(N), 0, []
    for size, count, alternates in ((40, 10, True), (int(rng.integers(20, 120)), 2, False)):
        diameter = 10 ** rng.uniform(-3, -0.3)
        for _ in range(count):
            rows = order[start : start + size]
            start += size
            x[rows] = x[rows[0]] + diameter / np.sqrt(d) * rng.normal(size=(size, d))
            y[rows] = 2 * (-1.0) ** np.arange(size) if alternates else 1.0
            groups.append(rows)
    kernel, shift = fm.RBF(0.5), weights.sum() * lam / weights
    exact = np.abs(y) / (1 + shift)
    for rows in groups:
        gram = kernel(x[rows], x[rows])
        exact[rows] = np.abs(gram @ np.linalg.solve(gram + np.diag(shift[rows]), y[rows]))
    return x, y, weights, lam, exact


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_at_all_rows(seed, weighted):
    """Nearly all rows are isolated: uniform draws miss a cluster of 20 with a probability of 0.8.

    Errors there were up to three times the bound.
    """
    x, y, weights, lam, exact = clusters_among_isolated_rows(seed, weighted)
    for rank in (25, 100, 200):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fm.ToleranceWarning)
            result = fm.cce(
                x, y, np.zeros(N), x_kernel=fm.RBF(0.5), y_kernel=fm.Linear(), lam=lam, rank=rank,
                weights=weights if weighted else None, solver="lowrank", certificate="sampled",
            )  # fmt: skip
        assert result.info.certificate == "sampled"
        assert (np.abs(result.values - exact) <= result.error_bounds * (1 + 1e-9)).all()


def test_bounds_at_rows_are_closer_than_elsewhere():
    """At the rows themselves the bound is that of their residuals, not that of any point."""
    rng = np.random.default_rng(0)
    n = 4500
    x = rng.normal(size=(n, 8))
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=n)
    kernel = fm.RBF(1 / 16)
    gram = kernel(x, x)
    exact = np.abs(gram @ np.linalg.solve(gram + 0.1 * n * np.eye(n), y))
    options = {"x_kernel": kernel, "y_kernel": fm.Linear(), "lam": 0.1, "rank": 100}
    options |= {"solver": "lowrank", "certificate": "sampled"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        at_rows = fm.cce(x, y, np.zeros(n), **options)
        at_points = fm.cce(x, y, np.zeros(n), at=x[::-1], **options)
    error = np.abs(at_rows.values - exact)
    assert (error <= at_rows.error_bounds).all()
    assert (np.abs(at_points.values[::-1] - exact) <= at_points.error_bounds[::-1]).all()
    assert at_rows.error_bound <= 0.8 * at_points.error_bound


@pytest.mark.parametrize("kernel", [fm.RBF(0.5), fm.Laplacian(2.0), fm.Matern(1.5, 0.3)])
@pytest.mark.parametrize("d", [1, 2, 40])
def test_tight_clusters_share_cells(kernel, d):
    rng = np.random.default_rng(1)
    x = 50 * rng.normal(size=(3000, d))
    x[1000:1030] = x[1000] + 1e-5 * rng.normal(size=(30, d))
    for cells in row_cells(kernel, x):
        cell_sizes = np.bincount(cells)[cells]
        assert np.median(cell_sizes[1000:1030]) >= 15
        assert d == 1 or np.mean(cell_sizes) < 8


def test_guesses_tell_terms_that_cancel():
    rng = np.random.default_rng(2)
    n = 1000
    x = 100 * rng.normal(size=(n, 3))
    x[:20], x[20:40] = x[0], x[20]
    rhs = np.ones((n, 1))
    rhs[1:20:2] = -1.0
    for cells in row_cells(fm.RBF(0.5), x):
        some = largest_cells(cells, np.ones(n), np.ones(n))
        sizes, sums = np.zeros((2, n))
        for out, guess in ((sizes, some.by_sizes()), (sums, some.by_sums(rhs[some.rows]))):
            out[guess.rows] = guess.sizes
        assert np.isclose(sizes[:20].max(), sizes[20:40].max(), rtol=0.3)
        assert sums[:20].max() < 10.0
        assert np.isclose(sums[20:40].max(), 400.0, rtol=0.3)
        assert np.count_nonzero(sizes[20:40]) == 1  # one row for each cell
