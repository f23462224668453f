"""CG that starts with a preconditioner keeps its bounds, on random and on odd rows."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from builders import noisy_sine

import fastmcmd as fm
from fastmcmd.solvers import costs, switch_policy

KERNELS = [
    fm.RBF(0.5),
    fm.RBF(4.0),
    fm.Matern(1.5, 1.0),
    fm.Laplacian(0.3),
    fm.Polynomial(2, gamma=0.05),
]


@pytest.fixture
def starts(monkeypatch):
    """Preconditioners cost nothing and small problems are sampled; lists the decision of each search."""
    for name, value in {"_PART": 20, "_PART_PER_COLUMN": 2, "_MANY": 1, "_USUAL": (1, 0.0)}.items():
        monkeypatch.setattr(switch_policy, name, value)
    monkeypatch.setattr(switch_policy, "_WORTH_FROM_START", 50.0)
    monkeypatch.setattr(costs, "_LANDMARK", 0.0)
    monkeypatch.setattr(costs, "_APPLIED", 0.0)
    decisions, cheapest = [], switch_policy.SwitchPolicy.cheapest

    def recording(self, allowance):
        landmarks = cheapest(self, allowance)
        if allowance is not None and allowance.from_start:
            decisions.append(landmarks is not None)
        return landmarks

    monkeypatch.setattr(switch_policy.SwitchPolicy, "cheapest", recording)
    return decisions


def random_problem(seed):
    """Return rows, some unlike the rest, y, draws, options and a tolerance."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(150, 400)), int(rng.choice([1, 2, 4, 20, 60]))
    x = rng.normal(size=(n, d)) * rng.uniform(0.3, 3.0) / np.sqrt(d) + rng.choice([0.0, 5.0])
    outliers = rng.choice(n, 4, replace=False)
    if rng.random() < 0.4:
        x[outliers] *= 5
    y = noisy_sine(rng, x)
    draws = y + 0.3 * rng.normal(size=n)
    draws[outliers] += rng.choice([0.0, 4.0])
    options = {
        "x_kernel": KERNELS[seed % len(KERNELS)],
        "lam": 10 ** rng.uniform(-3, -0.5),
        "weights": rng.uniform(0.01, 1, n) if rng.random() < 0.3 else None,
    }
    return x, y, draws, options, 10 ** rng.uniform(-6, -3)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::fastmcmd.ToleranceWarning"
)  # the polynomial kernel of outliers
def test_bounds_hold(starts):
    y_kernel = fm.RBF(0.7)
    for seed in range(24):
        x, y, draws, options, tol = random_problem(seed)
        result = fm.cce(x, y, draws, y_kernel=y_kernel, solver="cg", tol=tol, **options)
        weights = options["weights"]
        expected = oracle.mcmd_squared(
            x, x, y, x, draws, options["x_kernel"], y_kernel, options["lam"],
            weights=weights, weights_prime=weights,
        )  # fmt: skip
        a = oracle.coefficients(options["x_kernel"], x, x, options["lam"], weights)
        rounding = 1e-13 * (2 * np.abs(a).sum(0)) ** 2
        bounds = (2 * result.values + result.error_bounds) * result.error_bounds
        assert (np.abs(result.values**2 - expected) <= bounds + rounding).all(), seed
    assert sum(starts) >= 12
