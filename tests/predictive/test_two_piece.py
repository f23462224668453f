"""Tests of two-piece distributions against integrals at high precision and mixtures of their halves."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive.clipped import Clipped

FAMILIES = {"normal": fm.TwoPieceNormal, "laplace": fm.TwoPieceLaplace}
DENSITIES = {
    "normal": lambda z: mpmath.npdf(z),
    "laplace": lambda z: mpmath.exp(-abs(z)) / 2,
}
TAILS = {
    "normal": lambda z: mpmath.erfc(z / mpmath.sqrt(2)) / 2,
    "laplace": lambda z: mpmath.exp(-z) / 2,
}
EVERY = pytest.mark.parametrize("name", FAMILIES)


def _score(name, y, loc, lower, upper):
    """Return the integral of ``(F(t) - 1{t >= y})^2``, in pieces around the mode and the outcome."""
    y, loc, lower, upper = map(mpmath.mpf, (y, loc, lower, upper))
    below, above = lower / (lower + upper), upper / (lower + upper)
    tail = TAILS[name]
    if y < loc:  # the mirror image
        y, below, above, lower, upper = 2 * loc - y, above, below, upper, lower
    x = (y - loc) / upper
    other_side = lower * (2 * below) ** 2 * mpmath.quad(lambda z: tail(z) ** 2, [0, 2, 8, 30])
    inner = mpmath.quad(
        lambda z: (1 - 2 * above * tail(z)) ** 2, [0, min(x, 2), min(x, 8), min(x, 30), x]
    )
    outer = 4 * above**2 * mpmath.quad(lambda z: tail(z) ** 2, [x, x + 2, x + 8, x + 30])
    return float(other_side + upper * (inner + outer))


@EVERY
@pytest.mark.parametrize(
    ("lower", "upper"), [(1.0, 1.0), (0.5, 2.0), (1e-8, 1.0), (3.0, 1e-300), (1e150, 1e140)]
)
def test_scores_are_integrals(name, lower, upper):
    loc = 0.25 if lower + upper < 1e100 else 0.0
    steps = np.array([0.0, 1e-9, 0.3, 2.0, 9.0, 500.0])
    y = loc + np.concatenate([-lower * steps, upper * steps])
    prediction = FAMILIES[name](np.full(len(y), loc), lower, upper)
    with mpmath.workdps(20):
        expected = [_score(name, one, loc, lower, upper) for one in y]
    np.testing.assert_allclose(prediction.crps(y), expected, rtol=2e-13)


@EVERY
def test_outcomes_far_away_infinite_and_missing(name):
    prediction = FAMILIES[name](np.zeros(5), 1e-300, 1.0)
    scores = prediction.crps([1e300, -1e300, np.inf, -np.inf, np.nan])
    np.testing.assert_allclose(scores[:4], [1e300, 1e300, np.inf, np.inf], rtol=1e-14)
    assert np.isnan(scores[4])
    assert np.isnan(prediction.cdf(np.full(5, np.nan))).all()
    np.testing.assert_array_equal(prediction.cdf([np.inf, -np.inf, 1.0, 0.0, -1.0])[:2], [1, 0])


@EVERY
def test_densities_tails_and_quantiles(name):
    loc, lower, upper = np.array([0.0, 3.0]), np.array([0.5, 4.0]), np.array([2.0, 1e-3])
    prediction = FAMILIES[name](loc, lower, upper)
    share = lower / (lower + upper)
    np.testing.assert_allclose(prediction.cdf(loc), share, rtol=1e-15)
    for step in (-30.0, -2.0, -0.1, 0.2, 1.0, 20.0):
        scale = np.where(step < 0, lower, upper)
        y = loc + scale * step
        density = 2 * float(DENSITIES[name](step)) / (lower + upper)
        np.testing.assert_allclose(np.exp(prediction.log_prob(y)), density, rtol=1e-11)
        beyond = 2 * scale / (lower + upper) * float(TAILS[name](abs(step)))
        tails = prediction.cdf(y), prediction.sf(y)
        np.testing.assert_allclose(tails[step > 0], beyond, rtol=1e-11)
        np.testing.assert_allclose(tails[step < 0], 1 - beyond, rtol=1e-14)
        find = prediction.quantiles_at if step < 0 else prediction.upper_quantiles_at
        np.testing.assert_allclose(find(tails[step > 0][:, None])[:, 0] - loc, y - loc, rtol=1e-12)
    np.testing.assert_array_equal(prediction.quantile([0.0, 1.0]), [[-np.inf, np.inf]] * 2)


@EVERY
def test_moments_expectations_and_draws(name):
    prediction = FAMILIES[name]([0.0, -2.0], [0.5, 3.0], [2.0, 1.0])
    draws = prediction.sample(400_000, random_state=0)
    error = prediction.std / np.sqrt(draws.shape[1])
    assert (np.abs(draws.mean(axis=1) - prediction.mean) < 5 * error).all()
    assert (np.abs(draws.std(axis=1) - prediction.std) < 8 * error).all()
    assert (np.abs((draws < [[0.0], [-2.0]]).mean(axis=1) - [0.2, 0.75]) < 0.004).all()
    values, weights = prediction.nodes()
    np.testing.assert_allclose((weights * values).sum(axis=1), prediction.mean, rtol=1e-9)
    second = (weights * values**2).sum(axis=1)
    np.testing.assert_allclose(second, prediction.std**2 + prediction.mean**2, rtol=1e-9)
    points = np.array([-1.0, 0.5])
    for degree in (1, 3, 4):
        kernel = fm.Polynomial(degree, gamma=0.5, coef0=1.0)
        powers = [(weights * (0.5 * values * z + 1) ** degree).sum(axis=1) for z in points]
        actual = prediction.expected_kernel(kernel, points)
        np.testing.assert_allclose(actual, np.stack(powers, axis=1), rtol=1e-7, atol=1e-12)


@EVERY
def test_equal_scales_give_the_symmetric_distribution(name):
    base = {"normal": fm.Gaussian, "laplace": fm.Laplace}[name](np.zeros(4), 1.5)
    prediction = FAMILIES[name](np.zeros(4), 1.5, 1.5)
    y = np.array([-4.0, 0.0, 0.7, 60.0])
    for method in ("crps", "cdf", "sf", "log_prob"):
        expected = getattr(base, method)(y)
        np.testing.assert_allclose(getattr(prediction, method)(y), expected, rtol=1e-13)


def test_the_laplace_family_is_that_of_scipy():
    lower, upper = np.array([0.5, 2.0]), np.array([1.5, 0.1])
    prediction = fm.TwoPieceLaplace([1.0, 2.0], lower, upper)
    frozen = stats.laplace_asymmetric(np.sqrt(lower / upper), [1.0, 2.0], np.sqrt(lower * upper))
    y = np.array([0.3, 2.1])
    np.testing.assert_allclose(prediction.cdf(y), frozen.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(prediction.log_prob(y), frozen.logpdf(y), rtol=1e-12)
    np.testing.assert_allclose(prediction.variance, frozen.var(), rtol=1e-12)


@EVERY
def test_wrappers(name):
    """Clipped, truncated, mixed and recalibrated, they behave as the mixture of their halves does."""
    rng = np.random.default_rng(0)
    loc, lower, upper = rng.normal(size=30), rng.uniform(0.5, 2, 30), rng.uniform(0.5, 2, 30)
    base = {"normal": fm.Gaussian, "laplace": fm.Laplace}[name]
    halves = [fm.Truncated(base(loc, lower), high=loc), fm.Truncated(base(loc, upper), low=loc)]
    weights = np.stack([lower, upper], axis=1) / (lower + upper)[:, None]
    mixture, prediction = fm.Mixture(halves, weights), FAMILIES[name](loc, lower, upper)
    y = rng.normal(size=30)
    low, high = loc - 1, loc + 1.5
    for wrap in (
        lambda one: Clipped(one, low, high),
        lambda one: fm.ZeroInflated(one, 0.3),
        lambda one: fm.Mixture([one, fm.Gaussian(loc, 1.0)]),
    ):
        np.testing.assert_allclose(wrap(prediction).crps(y), wrap(mixture).crps(y), rtol=1e-8)
    truncated = fm.Truncated(prediction, low, high)
    np.testing.assert_allclose(truncated.cdf(loc), truncated.cdf_below(loc))
    assert np.isfinite(truncated.crps(y)).all()
    recalibrated = fm.recalibration.QuantileRecalibrator().fit(prediction, y).transform(prediction)
    assert np.isfinite(recalibrated.crps(y)).all()


@EVERY
def test_threads_do_not_change_a_bit(name):
    rng = np.random.default_rng(0)
    n = 50_000
    prediction = FAMILIES[name](rng.normal(size=n), rng.uniform(0.1, 9, n), rng.uniform(0.1, 9, n))
    y = 5 * rng.normal(size=n)
    try:
        scores = []
        for threads in (1, 3):
            fm.set_num_threads(threads)
            scores.append(prediction.crps(y))
    finally:
        fm.set_num_threads(None)
    np.testing.assert_array_equal(*scores)
