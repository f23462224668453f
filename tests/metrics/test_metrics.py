"""Scores and calibration agree with closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm


def test_nll_of_gaussians_and_counts(rng):
    y, mean, std = rng.normal(size=50), rng.normal(size=50), rng.uniform(0.5, 2, 50)
    expected = -stats.norm(mean, std).logpdf(y).mean()
    assert fm.nll(y, (mean, std)) == pytest.approx(expected, rel=1e-12)
    counts = rng.poisson(3, 50)
    assert fm.nll(counts, fm.Poisson(np.full(50, 3.0))) == pytest.approx(
        -stats.poisson(3).logpmf(counts).mean()
    )
    assert fm.nll([0.5], fm.Poisson([1.0])) == np.inf


def test_nll_of_draws_is_refused(rng):
    with pytest.raises(ValueError, match="draws have no density"):
        fm.nll(rng.normal(size=5), rng.normal(size=(5, 3)))


def test_pit_of_correct_models_is_uniform(rng):
    mean = rng.uniform(0.2, 5, 20_000)
    y = rng.poisson(mean)
    uniform = stats.kstest(fm.pit_values(y, fm.Poisson(mean)), "uniform")
    assert uniform.pvalue > 1e-3
    plain = stats.kstest(fm.pit_values(y, fm.Poisson(mean), pit="plain"), "uniform")
    assert plain.pvalue < 1e-10
    low, high = stats.poisson(mean).cdf(y - 1), stats.poisson(mean).cdf(y)
    np.testing.assert_allclose(fm.pit_values(y, fm.Poisson(mean), pit="mid"), (low + high) / 2)


def test_ece_of_a_correct_count_model_needs_the_randomised_pit(rng):
    mean = rng.uniform(0.2, 3, 40_000)
    y = rng.negative_binomial(2, 2 / (2 + mean))
    correct = fm.NegativeBinomial(mean, 0.5)
    assert fm.regression_ece(y, correct) < 0.005
    assert fm.regression_ece(y, correct, pit="plain") > 0.1


def test_ece_closed_form():
    """If all outcomes are the predicted medians, the error of each level is its distance to the step."""
    y = np.zeros(100)
    levels = np.array([0.1, 0.4, 0.6, 0.8])
    gaps = np.array([0.1, 0.4, 0.4, 0.2])
    prediction = (np.zeros(100), 1.0)
    assert fm.regression_ece(y, prediction, levels=levels) == pytest.approx(gaps.mean())
    assert fm.regression_ece(y, prediction, levels=levels, alpha=2) == pytest.approx(
        (gaps**2).mean()
    )
    weights = [1, 2, 3, 4]
    assert fm.regression_ece(y, prediction, levels=levels, weights=weights) == pytest.approx(
        np.average(gaps, weights=weights)
    )
    assert fm.regression_ece(y, prediction, levels=levels, weights="frequency") == pytest.approx(
        0.3
    )


def test_ence(rng):
    std = np.exp(rng.normal(size=100_000))
    y = std * rng.normal(size=100_000)
    assert fm.ence(y, (np.zeros(100_000), std)) < 0.02
    assert fm.ence(y, (np.zeros(100_000), 2 * std)) == pytest.approx(0.5, abs=0.01)
    with pytest.raises(ValueError, match="bins is 0"):
        fm.ence(y, (np.zeros(100_000), std), bins=0)


def test_every_form_of_prediction(rng):
    """The PIT of draws uses their empirical distribution, that of scipy.stats its own."""
    mean = rng.normal(size=4000)
    y = mean + rng.standard_t(4, size=4000)
    frozen = stats.t(4.0, loc=mean)
    draws = frozen.rvs(size=(200, 4000), random_state=rng).T
    assert fm.regression_ece(y, frozen) < 0.015
    assert fm.regression_ece(y, draws) < 0.02
    assert fm.regression_ece(y, draws + 1) > 0.1
    assert fm.nll(y, frozen) == pytest.approx(-frozen.logpdf(y).mean(), rel=1e-12)
    np.testing.assert_allclose(fm.pit_values(y, frozen), frozen.cdf(y))
    assert fm.ence(y, frozen, bins=5) == pytest.approx(fm.ence(y, (mean, np.sqrt(2.0)), bins=5))
    with pytest.raises(ValueError, match="variances that are not positive and finite"):
        fm.ence(y, stats.t(2.0, loc=mean))
    with pytest.raises(ValueError, match="3 rows and y has 4000"):
        fm.regression_ece(y, np.zeros(3))
    with pytest.raises(ValueError, match="y holds NaN"):
        fm.nll([np.nan], ([0.0], 1.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": [0.0, 0.5]}, "levels must be numbers between 0 and 1"),
        ({"levels": []}, "levels must be"),
        ({"weights": "equal"}, "weights is 'equal'"),
        ({"weights": [1.0]}, "weights must be nonnegative with shape"),
        ({"alpha": 0}, "alpha is 0"),
        ({"pit": "jittered"}, "pit is 'jittered'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        fm.regression_ece([0.0, 1.0], ([0.0, 0.0], 1.0), **options)
