"""Values at very many points beyond the inputs are sampled like a solve, within the bounds."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.estimate import primal


@pytest.mark.filterwarnings("ignore::fastmcmd.errors.ToleranceWarning")  # values near 0, far out
@pytest.mark.parametrize("kind", ["alike", "isolated row", "far points", "polynomial"])
def test_sampled_values_are_within_their_bounds(kind, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 12)).astype(np.float32)
    y = x[:, 0] + rng.normal(size=600)
    at = rng.normal(size=(20000, 12)).astype(np.float32)
    kernel = fm.Polynomial(3) if kind == "polynomial" else fm.RBF(0.03)
    if kind == "isolated row":
        x[17] += 30.0
        at[12345] = x[17] + 0.01
    elif kind == "far points":
        at[777] *= 30.0
    prediction = fm.Gaussian(np.zeros(600), 1.0)
    options = {"x_kernel": kernel, "y_kernel": fm.RBF(0.5), "at": at, "solver": "cg", "tol": 1e-4}
    rigorous = fm.cce(x, y, prediction, **options)
    assert rigorous.info.certificate == "rigorous"
    monkeypatch.setattr(primal, "_CHEAP", 0.0)
    monkeypatch.setattr(primal, "_AFFORDABLE", 0.0)
    sampled = fm.cce(x, y, prediction, **options)
    assert sampled.info.certificate == "sampled"
    off = abs(sampled.values - rigorous.values)
    assert off.max() > 0
    assert (off <= sampled.error_bounds + rigorous.error_bounds).all()
    assert kind == "far points" or sampled.error_bound <= 1e-4


@pytest.mark.slow
def test_float64_where_float32_would_miss_the_tolerance(monkeypatch):
    rng = np.random.default_rng(1)
    x, at = (rng.normal(size=(n, 3)).astype(np.float32) for n in (500, 3000))
    monkeypatch.setattr(primal, "_CHEAP", 0.0)
    monkeypatch.setattr(primal, "_AFFORDABLE", 0.0)
    prediction = fm.Gaussian(np.zeros(500), 1.0)
    result = fm.cce(x, x[:, 0], prediction, at=at, x_kernel=fm.RBF(0.5), solver="cg", tol=1e-8)
    assert result.info.certificate == "rigorous"
    assert result.error_bound <= 1e-8
