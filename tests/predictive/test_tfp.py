"""Objects of the real TensorFlow Probability, over JAX; skipped if neither imports.

Seen with tfp-nightly 0.26.0.dev20261027 and JAX 0.10.2 (0.25.0 does not import beside this JAX).
"""

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive

try:
    import tensorflow_probability.substrates.jax as tfp
except Exception as error:
    pytest.skip(f"TensorFlow Probability cannot be imported: {error}", allow_module_level=True)

tfd = tfp.distributions
RNG = np.random.default_rng(0)
N = 40
LOC = RNG.normal(size=N).astype(np.float32)
SCALE = RNG.uniform(0.5, 2, N).astype(np.float32)
HALVES = tfd.Categorical(probs=np.full((N, 2), 0.5, np.float32))
CASES = {
    "Normal": (tfd.Normal(LOC, SCALE), stats.norm(LOC, SCALE), fm.Gaussian),
    "Gamma": (tfd.Gamma(SCALE + 1, SCALE), stats.gamma(SCALE + 1, scale=1 / SCALE), fm.Gamma),
    "Poisson": (tfd.Poisson(3 * SCALE), stats.poisson(3 * SCALE), fm.Poisson),
    "StudentT": (tfd.StudentT(5.0, LOC, SCALE), stats.t(5.0, LOC, SCALE), fm.StudentT),
    "Laplace": (tfd.Laplace(LOC, SCALE), stats.laplace(LOC, SCALE), fm.Laplace),
    "NegativeBinomial": (
        tfd.NegativeBinomial(4.0, probs=np.full(N, 0.4, np.float32)),
        stats.nbinom(4.0, np.full(N, 0.6)),
        fm.NegativeBinomial,
    ),
    "Logistic": (tfd.Logistic(LOC, SCALE), stats.logistic(LOC, SCALE), fm.Logistic),
    "GeneralizedPareto": (
        tfd.GeneralizedPareto(LOC, SCALE, 0.1),
        stats.genpareto(0.1, LOC, SCALE),
        fm.GeneralizedPareto,
    ),
    # Made of bijectors, which cannot be copied.
    "Gumbel": (tfd.Gumbel(LOC, SCALE), stats.gumbel_r(LOC, SCALE), None),
    "Weibull": (
        tfd.Weibull(SCALE + 1, SCALE),
        stats.weibull_min(SCALE + 1, scale=SCALE),
        fm.Weibull,
    ),
    "strict Weibull": (
        tfd.Weibull(SCALE + 1, SCALE, validate_args=True),
        stats.weibull_min(SCALE + 1, scale=SCALE),
        fm.Weibull,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_as_scipy_has_it(case):
    value, oracle, kind = CASES[case]
    prediction = as_predictive(value, N)
    if kind is not None:
        assert type(prediction) is kind  # a family of our own: closed forms, float64
    y = oracle.rvs(random_state=1)
    density = oracle.logpmf if hasattr(oracle.dist, "pmf") else oracle.logpdf
    np.testing.assert_allclose(prediction.log_prob(y), density(y), rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(prediction.cdf(y), oracle.cdf(y), atol=2e-6)
    np.testing.assert_allclose(prediction.mean, oracle.mean(), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(prediction.variance, oracle.var(), rtol=2e-4)
    below = prediction.cdf(
        oracle.support()[0] - 1 if np.isfinite(oracle.support()[0]).all() else -1e30
    )
    np.testing.assert_allclose(below, 0.0, atol=1e-100)


def test_a_mixture():
    parts = tfd.Normal(np.stack([LOC, LOC + 2], -1), np.stack([SCALE, SCALE], -1))
    prediction = as_predictive(tfd.MixtureSameFamily(HALVES, parts), N)
    y = LOC + 1
    expected = (stats.norm.cdf(y, LOC, SCALE) + stats.norm.cdf(y, LOC + 2, SCALE)) / 2
    np.testing.assert_allclose(prediction.cdf(y), expected, atol=1e-6)
    evaluated = fm.evaluate(y, tfd.MixtureSameFamily(HALVES, parts))
    assert np.isfinite(evaluated["mean_crps"])
