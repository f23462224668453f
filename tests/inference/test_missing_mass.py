"""`missing_mass`: probabilities against plain sums, its null band by simulation, errors."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference.missing_mass import missing_mass


def test_counts_are_weighted_shares():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 150)
    y = rng.poisson(2.0, 150)
    model = fm.Poisson(np.full(150, 1.5))
    mass = missing_mass(x, y, model, 0.2, values=np.arange(6), x_kernel=fm.RBF(2.0), lam=0.05)
    kernel = fm.RBF(2.0)
    a = np.linalg.solve(
        kernel(x[:, None], x[:, None]) + 150 * 0.05 * np.eye(150), kernel(x[:, None], [[0.2]])[:, 0]
    )
    a /= a.sum()
    for k in range(6):
        p = np.exp(model.log_prob(float(k)))
        assert mass.observed[k] == pytest.approx(a @ (y == k), abs=1e-6)
        assert mass.gap[k] == pytest.approx(a @ ((y == k) - p), abs=1e-6)
        assert mass.band[k] == pytest.approx(1.959964 * np.sqrt(a**2 @ (p * (1 - p))), rel=1e-5)
    assert mass.bandwidth == 0


def test_right_models_stay_inside_the_band():
    inside = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=300)
        y = x + 0.5 * rng.normal(size=300)
        mass = missing_mass(x, y, fm.Gaussian(x, 0.5), 0.3, values=np.linspace(-1, 1.5, 6))
        inside.append(np.abs(mass.gap) <= mass.band)
    assert 0.88 < np.mean(inside) < 0.99
    assert mass.bandwidth > 0


def test_errors():
    x = np.linspace(0, 1, 50)
    model = fm.Gaussian(x, 1.0)
    with pytest.raises(ValueError, match="no rows"):
        missing_mass(x, x, model, 40.0)
    with pytest.raises(ValueError, match="at"):
        missing_mass(x, x, model, [0.0, 1.0])
    with pytest.raises(ValueError, match="level"):
        missing_mass(x, x, model, 0.5, level=2)
