"""Sampled certificates: problems that once broke them."""

from __future__ import annotations

import numpy as np
import problems
import pytest
import sampled

import fastmcmd as fm


@pytest.mark.parametrize("seed", [510])
def test_bounds_that_were_too_small(seed):
    """Points beside isolated rows far from the origin were rounded to float32: 4.3 times the bound."""
    outcome = sampled.attack(seed, 16000)
    assert outcome.kind == "lowrank sampled"
    assert outcome.ratio <= 0.1


@pytest.mark.parametrize("seed", [640055, 640195])
def test_points_beside_a_cluster_with_a_landmark(seed):
    """Landmarks cover these rows, but not the points between them: 6.5 times the bound."""
    outcome = sampled.attack(seed, 2000)
    assert outcome.kind == "lowrank sampled"
    assert outcome.ratio <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("order", [14, 32, 37, 45])
def test_nearly_dependent_landmarks_beside_a_distant_row(order):
    """Rounding reproduced a row far from all landmarks, by coefficients of 1e8: 8.6 times the bound.

    The problem of seed 9000795 of `congruence.py`, its rows in other orders: landmarks are drawn by place.
    """
    p = problems.draw(9000795)
    rows = np.random.default_rng(order).permutation(len(p.y))
    options = {
        "weights": p.weights[rows], "x_kernel": p.x_kernel, "y_kernel": p.y_kernel, "lam": p.lam,
    }  # fmt: skip
    sample = p.x[rows], p.y[rows, 0], p.prediction.take(rows)
    result = fm.cce(*sample, **options, **p.options)
    exact = fm.cce(*sample, **options, solver="cholesky", tol=1e-10)
    assert result.info.certificate == "sampled"
    assert np.all(np.abs(result.values - exact.values) <= result.error_bounds + exact.error_bounds)
    assert result.error_bound <= result.tol
