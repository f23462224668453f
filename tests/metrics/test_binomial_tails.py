"""Tails and quantiles of binomial distributions are those of scipy.stats."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fastmcmd.metrics import binomial_tails


@pytest.mark.parametrize("n", [1, 2, 30, 1000, 10**7])
def test_quantiles(rng, n):
    p = np.concatenate([rng.random(20), 10.0 ** rng.uniform(-9, -1, 20), [1.0, 0.5, 1e-300]])
    for tail in (0.5, 0.3, 0.025, 1e-4, 1e-12):
        low = binomial_tails.lower_quantile(tail, n, p)
        high = binomial_tails.upper_quantile(tail, n, p)
        np.testing.assert_array_equal(low, stats.binom.ppf(tail, n, p))
        np.testing.assert_array_equal(high, stats.binom.isf(tail, n, p))


@pytest.mark.parametrize("n", [1, 30, 1000])
def test_tails(rng, n):
    k, p = rng.integers(-1, n + 2, 200), rng.random(200)
    lower, upper = binomial_tails.binomial_cdf(k, n, p), binomial_tails.binomial_sf(k, n, p)
    np.testing.assert_allclose(lower, stats.binom.cdf(k, n, p), rtol=1e-11, atol=1e-200)
    np.testing.assert_allclose(upper, stats.binom.sf(k, n, p), rtol=1e-11, atol=1e-200)


def test_poisson_masses():
    k = np.arange(60)
    masses = binomial_tails.poisson_mass(k, 20.0)
    np.testing.assert_allclose(masses, stats.poisson.pmf(k, 20.0), rtol=1e-13)
    assert binomial_tails.poisson_mass(0, 0.0) == 1
