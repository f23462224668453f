"""`fm.plan` says what the call then does."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm


@pytest.mark.parametrize(
    ("n", "d", "kernel", "options"),
    [
        (300, 2, fm.RBF(0.25), {}),
        (5000, 1, fm.RBF(1.0), {}),
        (5000, 8, fm.RBF(1 / 16), {}),
        (2500, 64, None, {"solver": "cg"}),
        (1500, 3, fm.RBF(0.3), {"solver": "cholesky"}),
        (1500, 3, fm.RBF(0.3), {"solver": "cholesky", "dtype": "float32"}),
    ],
)
def test_plan_names_the_solver_that_runs(n, d, kernel, options):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (n, d))
    plan = fm.plan(x, kernel, **options)
    y, p = x[:, 0] + rng.normal(size=n), x[:, 0] + rng.normal(size=n)
    info = fm.cce(x, y, p, x_kernel=kernel, y_kernel=fm.RBF(0.3), **options).info
    assert plan.solver == info.solver
    assert plan.cache == info.cache
    assert (plan.landmarks > 0) == (info.landmarks > 0)
    assert plan.seconds > 0
    assert plan.solver in repr(plan)
    assert plan.to_dict()["n"] == n


def test_landmarks_are_foreseen():
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (20000, 2))
    plan = fm.plan(x, fm.RBF(0.5))
    y = rng.normal(size=20000)
    used = fm.cce(x, y, y + 1, x_kernel=fm.RBF(0.5), solver="lowrank").info.landmarks
    assert used / 2 <= plan.landmarks <= used * 2


def test_a_shape_will_do():
    plan = fm.plan((10**6, 512), memory_limit="20GB")
    assert (plan.n, plan.d, plan.solver, plan.cache) == (10**6, 512, "cg", "streamed")
    assert plan.seconds > 60
    assert "shape" in repr(plan)


def test_inputs_on_disk(tmp_path):
    x = np.random.default_rng(2).uniform(-2, 2, (6000, 1))
    np.save(tmp_path / "x.npy", x)
    assert fm.plan(tmp_path / "x.npy", fm.RBF(0.5)).solver == fm.plan(x, fm.RBF(0.5)).solver


def test_bad_input():
    with pytest.raises(ValueError, match="shape"):
        fm.plan((0, 3))
    with pytest.raises(ValueError, match="lam"):
        fm.plan(np.ones((5, 1)), lam=0)
    with pytest.raises(fm.MemoryLimitError):
        fm.plan((10**6, 8), fm.RBF(1.0), memory_limit="10MB", solver="cg")


def test_a_factor_beyond_memory(tmp_path):
    """As the call itself: an error that names cache_dir, or panels in a file."""
    x = np.random.default_rng(0).normal(size=(6000, 3)).astype(np.float32)
    options = {"solver": "cholesky", "memory_limit": "100MB"}
    with pytest.raises(fm.MemoryLimitError, match="with cache_dir, or use solver='cg'"):
        fm.plan(x, fm.RBF(0.3), **options)
    plan = fm.plan(x, fm.RBF(0.3), cache_dir=tmp_path, **options)
    assert plan.cache == "disk"
    assert plan.memory_bytes <= 100_000_000
    assert any("it goes to cache_dir" in reason for reason in plan.reasons)
    # Factors are float64 unless dtype says otherwise: n (n + 256) / 2 numbers, and rows.
    whole = fm.plan(x, fm.RBF(0.3), solver="cholesky", memory_limit="2GB")
    assert whole.cache == "packed"
    assert whole.memory_bytes > 8 * 6000 * 6000 / 2
