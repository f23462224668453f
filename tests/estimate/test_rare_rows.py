"""Certificates from sampled rows hold even if a few rows are unlike the rest."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from adversary import sampled

import fastmcmd as fm


@pytest.mark.parametrize("certificate", ["auto", "sampled"])
@pytest.mark.parametrize("seed", range(20, 24))
def test_isolated_gross_failures_are_seen_by_landmarks(seed, certificate):
    """The value was 0 for a truth of 7e-3, at a tolerance of 3e-3, without a warning."""
    rng, n = np.random.default_rng(seed), 2000
    x = rng.uniform(-60, 60, (n, 2))
    rare = rng.choice(n, 3, replace=False)
    x[rare] = [[200, 0], [0, 200], [200, 200]]
    y = 0.1 * x[:, 0] / 60
    mean = y.copy()
    mean[rare] += 3
    result = fm.cce(
        x, y, fm.Gaussian(mean, np.full(n, 0.05)), at=x[rare], x_kernel=fm.RBF(0.5),
        y_kernel=fm.RBF(0.5), lam=0.1, solver="lowrank", tol=3e-3, certificate=certificate,
    )  # fmt: skip
    # A row alone: k B = (p - E p') / (1 + n lam), with the features of an RBF kernel in closed form.
    y0, m0, v = y[rare], mean[rare], 0.05**2
    both = 1 + (1 + 4 * 0.5 * v) ** -0.5
    cross = (1 + 2 * 0.5 * v) ** -0.5 * np.exp(-0.5 * (y0 - m0) ** 2 / (1 + 2 * 0.5 * v))
    truth = np.sqrt(both - 2 * cross) / (1 + n * 0.1)
    assert np.all(truth > 6e-3)
    assert np.all(np.abs(result.values - truth) <= result.error_bounds)
    assert result.error_bound <= 3e-3
    assert result.info.landmarks < 300  # the rare rows become landmarks before the bulk does


@pytest.mark.slow
def test_a_heavy_row_of_cg_is_in_the_sample():
    """A weight of 1e6 left an error of 1.1e-6 and a bound of 7e-7."""
    rng, n = np.random.default_rng(3), 3000
    x = rng.normal(size=(n, 2))
    y, p = rng.normal(size=n), rng.normal(size=n)
    for place in rng.integers(0, n, 4):
        weights = np.ones(n)
        weights[place] = 1e6
        options = {"x_kernel": fm.RBF(1.0), "y_kernel": fm.RBF(0.5), "weights": weights}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fm.ToleranceWarning)
            result = fm.cce(
                x, y, p, solver="cg", dtype="float32", certificate="sampled", tol=1e-4, **options
            )
        exact = fm.cce(x, y, p, solver="cholesky", tol=1e-7, **options)
        assert result.info.certificate == "sampled"
        assert np.all(np.abs(result.values - exact.values) <= result.error_bounds)


def test_few_rows_far_from_the_origin_are_in_the_sample():
    """Distances between these rows round more than others: an error of 3.6e-7 for a bound of 2.4e-7."""
    rng, n, d = np.random.default_rng(2), 3000, 60
    x = rng.normal(size=(n, d))
    x[rng.choice(n, 5, replace=False)] = 30 + 0.1 * rng.normal(size=(5, d))
    y, p = rng.normal(size=n), rng.normal(size=n)
    options = {"x_kernel": fm.RBF(0.5 / d), "y_kernel": fm.RBF(0.5), "lam": 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        result = fm.cce(
            x, y, p, solver="cg", dtype="float32", certificate="sampled", tol=1e-5, **options
        )
    exact = fm.cce(x, y, p, solver="cholesky", tol=1e-8, **options)
    assert result.info.certificate == "sampled"
    assert np.all(np.abs(result.values - exact.values) <= result.error_bounds)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_random_rare_rows(seed):
    """Run a small part of ``tests/adversary/sampled.py``; docs/theory.md has the rate it measures."""
    outcome = sampled.attack(seed, 1100)
    assert outcome.ratio <= 1.0, outcome
