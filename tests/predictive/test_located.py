"""Frozen distributions of scipy.stats with a location, served by our families."""

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

import fastmcmd as fm
from fastmcmd.embedding.line import _keys
from fastmcmd.predictive import ScipyPredictive, as_predictive
from fastmcmd.predictive.located import Located

N = 60
LEVELS = np.array([1e-12, 1e-3, 0.1, 0.5, 0.9, 0.999])


def _located(name):
    """Return frozen distributions (n,) with random parameters, some of them extreme."""
    rng = np.random.default_rng(3)
    loc, scale = rng.normal(0.0, 3.0, N), np.exp(rng.uniform(-6.0, 6.0, N))
    shape = np.exp(rng.uniform(-1.0, 2.0, N))
    match name:
        case "gamma":
            return stats.gamma(shape, loc, scale)
        case "lognorm":
            return stats.lognorm(np.minimum(shape, 2.0), loc, scale)
        case "weibull_min":
            return stats.weibull_min(shape, loc, scale)
    return stats.beta(shape, shape[::-1], loc, scale)


FAMILIES = ["gamma", "lognorm", "weibull_min", "beta"]


@pytest.mark.parametrize("name", FAMILIES)
def test_located_families_agree_with_scipy(name):
    frozen = _located(name)
    ours = as_predictive(frozen, N)
    assert type(ours) is Located
    y = frozen.rvs(random_state=np.random.default_rng(4))
    close = dict(rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(ours.cdf(y), frozen.cdf(y), **close)
    np.testing.assert_allclose(ours.sf(y), frozen.sf(y), **close)
    np.testing.assert_allclose(ours.log_prob(y), frozen.logpdf(y), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.mean, frozen.mean(), rtol=1e-10)
    np.testing.assert_allclose(ours.std, frozen.std(), rtol=1e-8)
    quantiles = frozen.ppf(LEVELS[:, None]).T
    size = np.abs(quantiles) + np.abs(ours.loc)[:, None]
    assert (np.abs(ours.quantile(LEVELS) - quantiles) <= 1e-10 * size).all()
    upper = ours.upper_quantiles_at(np.broadcast_to(LEVELS, (N, len(LEVELS))))
    expected = frozen.isf(LEVELS[:, None]).T
    assert (np.abs(upper - expected) <= 1e-9 * (np.abs(expected) + np.abs(ours.loc)[:, None])).all()
    np.testing.assert_allclose(ours.crps(y), ScipyPredictive(frozen, N).crps(y), rtol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_located_families_at_infinite_and_missing_outcomes(name):
    ours = as_predictive(_located(name), N)
    assert (ours.cdf(np.inf) == 1).all()
    assert (ours.cdf(-np.inf) == 0).all()
    assert (ours.sf(np.inf) == 0).all()
    assert (ours.sf(-np.inf) == 1).all()
    for y in (np.inf, -np.inf):
        assert (ours.log_prob(y) == -np.inf).all()
        assert (ours.crps(y) == np.inf).all()
    assert np.isnan(ours.crps(np.nan)).all()
    assert np.isnan(ours.cdf(np.nan)).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_nodes_of_located_families_are_moved_with_their_rows(name):
    ours = as_predictive(_located(name), N)
    values, weights = ours.nodes()
    np.testing.assert_allclose((values * weights).sum(axis=1), ours.mean, rtol=1e-8)
    rows = np.array([5, 3, 50])
    part = ours.take(rows)
    np.testing.assert_array_equal(part.nodes()[0], values[rows])
    np.testing.assert_array_equal(part.frozen.mean(), ours.frozen.mean()[rows])
    length = float(np.median(ours.std))
    assert ours.nodes_within(length)[0].shape[1] == ours.node_count_within(length)
    same = ours.at(ours.coordinates)
    np.testing.assert_allclose(same.quantile(LEVELS), ours.quantile(LEVELS), rtol=1e-8)
    np.testing.assert_allclose(same.frozen.mean(), ours.mean, rtol=1e-10)


def test_located_families_with_equal_coordinates_differ():
    one = as_predictive(stats.gamma(1.0, loc=[1.0, 2.0]), 2)
    other = as_predictive(stats.weibull_min(1.0, loc=[1.0, 2.0]), 2)
    np.testing.assert_array_equal(one.coordinates, other.coordinates)
    assert not set(_keys(one)) & set(_keys(other))


def test_crps_of_a_located_gamma_is_its_integral():
    shape, loc, scale, y = 0.7, -1.5, 2.5, 0.25
    score = as_predictive(stats.gamma([shape], loc, scale), 1).crps([y])[0]

    def cdf(t):
        return mp.gammainc(shape, 0, (t - loc) / scale, regularized=True)

    with mp.workdps(25):
        below = mp.quad(lambda t: cdf(t) ** 2, [loc, y])
        above = mp.quad(lambda t: (1 - cdf(t)) ** 2, [y, 5, 20, 100, 400])
    assert score == pytest.approx(float(below + above), rel=1e-11)


@pytest.mark.parametrize("name", FAMILIES)
def test_truncated_located_families_agree_with_quadrature(name):
    frozen = _located(name)
    ours = as_predictive(frozen, N)
    low, high = frozen.ppf(0.2), frozen.ppf(0.9)
    y = frozen.ppf(0.6)
    scores = [fm.Truncated(one, low, high).crps(y) for one in (ours, ScipyPredictive(frozen, N))]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6)
