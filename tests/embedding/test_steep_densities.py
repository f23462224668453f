"""Densities so steep that their squares leave the range of float64."""

import numpy as np
import pytest
from scipy.special import gamma as gamma_function

import fastmcmd as fm


def gamma_nodes(shape):
    """Return numbers and masses of a gamma distribution, by quadrature in ``t = v^shape``."""
    ends = np.concatenate([
        [0.0, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 3e-4], np.arange(1e-3, 0.1, 2e-3),
        np.arange(0.1, 12.0, 0.02), [14.0, 20.0, 45.0],
    ]) ** shape  # fmt: skip
    places, shares = np.polynomial.legendre.leggauss(8)
    half = np.diff(ends)[:, None] / 2
    t = ends[:-1, None] + half * (1 + places)
    values = (t ** (1 / shape)).ravel()
    masses = (half * shares).ravel() * np.exp(-values) / gamma_function(shape + 1)
    assert masses.sum() == pytest.approx(1.0, abs=1e-13)
    return values, masses / masses.sum()


@pytest.mark.parametrize("shape", [0.03, 0.06])
@pytest.mark.parametrize("width", [1.0, 100.0, 1e4])
def test_gamma_densities_of_tiny_shapes(shape, width):
    """Much of their mass lies near 0, where densities reach 1e300."""
    rng = np.random.default_rng(0)
    n = 8
    x, y = rng.normal(size=(n, 1)), rng.gamma(np.full(n, shape))
    values, masses = gamma_nodes(shape)
    options = {"x_kernel": fm.RBF(1.0), "y_kernel": fm.RBF(width), "lam": 0.1}
    actual = fm.cce(x, y, fm.Gamma(np.full(n, shape), scale=np.ones(n)), **options)
    expected = fm.cce(x, y, fm.WeightedDraws(np.tile(values, (n, 1)), masses), **options)
    assert actual.error_bound < 1e-6
    bound = actual.error_bound + expected.error_bound
    np.testing.assert_allclose(actual.values, expected.values, rtol=0, atol=bound)
