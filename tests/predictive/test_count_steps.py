"""Ranges and probabilities of counts, and scores of step functions, against SciPy and mp."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd import _core
from fastmcmd.predictive import Binomial, NegativeBinomial, Poisson
from fastmcmd.predictive.expectation import TAIL_MASS
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.truncated import Truncated

N = 300


def rows_of(rng, dispersed):
    """Return means and dispersions, with rare rows at random places."""
    mean = np.exp(rng.normal(1.5, 2.0, N))
    alpha = np.exp(rng.normal(-1.0, 1.5, N)) if dispersed else np.zeros(N)
    places = rng.permutation(N)[:5]
    mean[places] = [0.0, 1e-12, 1e4, 1e-3, 30.0]
    if dispersed:
        alpha[places] = [1.0, 2.0, 1e-9, 50.0, 1.0]
    return mean, alpha


@pytest.mark.parametrize("dispersed", [False, True])
def test_ranges_hold_the_mass_and_little_more(rng, dispersed):
    mean, alpha = rows_of(rng, dispersed)
    first, last = np.empty(N), np.empty(N)
    _core.count_ranges(mean, alpha, TAIL_MASS, first, last)
    size = 1 / np.where(dispersed, alpha, 1.0)
    exact = stats.nbinom(size, 1 / (1 + alpha * mean)) if dispersed else stats.poisson(mean)
    assert (first >= 0).all()
    assert (exact.cdf(first - 1) <= TAIL_MASS * (1 + 1e-9)).all()
    assert (exact.sf(last) <= TAIL_MASS * (1 + 1e-9)).all()
    shortest = exact.isf(TAIL_MASS) - np.maximum(exact.ppf(TAIL_MASS), 0.0)
    assert (last - first <= 1.1 * shortest + 3).all()


@pytest.mark.slow
@pytest.mark.parametrize("dispersed", [False, True])
def test_probabilities_of_consecutive_counts(rng, dispersed):
    mean, alpha = rows_of(rng, dispersed)
    mean = np.minimum(mean, 500.0)
    prediction = NegativeBinomial(mean, alpha) if dispersed else Poisson(mean)
    values, masses = prediction.nodes()
    np.testing.assert_allclose(masses.sum(axis=1), 1.0, rtol=1e-14)
    for column in rng.integers(0, values.shape[1], 5):
        with np.errstate(under="ignore"):
            expected = np.exp(prediction.log_prob(values[:, column]))
        np.testing.assert_allclose(masses[:, column], expected, rtol=1e-11, atol=1e-30)


def test_probabilities_of_binomial_rows(rng):
    """Also for probabilities near 0 and 1, where 1 - p has few digits, and for no trials."""
    trials = np.array([0, 1, 5, 40, 40, 1000, 3000, 7, 7])
    chance = np.array([0.3, 0.5, 0.2, 1e-9, 1 - 1e-9, 0.999, 0.4, 0.0, 1.0])
    order = rng.permutation(len(trials))
    trials, chance = trials[order], chance[order]
    values, masses = Binomial(trials, chance).nodes()
    for n, p, row, mass in zip(trials, chance, values, masses, strict=True):
        assert (mass[row > n] == 0).all()
        with mp.workdps(30):
            for place in [i for i in np.argsort(mass)[-3:] if row[i] <= n]:
                k, p_exact = int(row[place]), mp.mpf(float(p))
                expected = mp.binomial(int(n), k) * p_exact**k * (1 - p_exact) ** (int(n) - k)
                assert abs(mass[place] - float(expected)) <= 1e-12 * float(expected)


def test_scores_of_steps(rng):
    """The integral of the squared difference of two step functions, summed over all of its pieces."""
    values = np.sort(rng.integers(0, 12, (40, 9)).astype(float), axis=1)  # with ties
    masses = rng.dirichlet(np.ones(9), 40)
    masses[7] = 0.0
    masses[7, 3] = 1.0
    y = rng.uniform(-4, 16, 40)
    y[:5] = values[:5, 4]
    out = np.empty(40)
    _core.step_scores(values, masses, y, out)
    for row in range(40):
        ends = np.unique([*values[row], y[row]])
        below = [masses[row, values[row] <= left].sum() for left in ends[:-1]]
        expected = sum(
            (f - (left >= y[row])) ** 2 * (right - left)
            for f, left, right in zip(below, ends[:-1], ends[1:], strict=True)
        )
        np.testing.assert_allclose(out[row], expected, rtol=1e-12, atol=1e-15)


def test_mixtures_on_common_counts(rng):
    """Components that overlap share their counts; those far apart keep their own."""
    near, far = Poisson(rng.uniform(3, 9, 20)), Poisson(np.full(20, 1e3))
    other = NegativeBinomial(rng.uniform(3, 9, 20), 0.4)
    weights = rng.dirichlet([1, 1], 20)
    for second, common in ((other, True), (far, False)):
        mixture = Mixture([near, second], weights)
        values, masses = mixture.nodes()
        assert mixture.node_count == values.shape[1]
        assert (np.diff(values, axis=1) == 1).all() == common
        y = np.floor(rng.uniform(0, 12, 20))
        draws = np.abs(values - y[:, None])
        pairs = [np.abs(np.subtract.outer(row, row)) for row in values]
        gini = np.array([m @ pair @ m for m, pair in zip(masses, pairs, strict=True)])
        expected = (masses * draws).sum(axis=1) - gini / 2
        np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-9)
        np.testing.assert_allclose((masses * values).sum(axis=1), mixture.mean, rtol=1e-11)
        at = np.array([masses[i, values[i] == y[i]].sum() for i in range(20)])
        np.testing.assert_allclose(at, np.exp(mixture.log_prob(y)), rtol=1e-11)


def test_draws_of_truncated_counts_have_their_frequencies():
    prediction = Truncated(fm.Poisson([3.0, 0.5]), 1.0, 6.0)
    draws = prediction.sample(20_000, 3)
    for row, mean in enumerate((3.0, 0.5)):
        k = np.arange(1, 7)
        expected = stats.poisson(mean).pmf(k)
        counts = (draws[row][:, None] == k).sum(axis=0)
        assert counts.sum() == 20_000
        assert stats.chisquare(counts, 20_000 * expected / expected.sum()).pvalue > 1e-4


def test_mixtures_of_distant_counts_in_a_far_tail():
    """The nodes of the mixture are not consecutive and do not reach the interval."""
    mixture = Mixture([Poisson([5.0, 6.0]), Poisson([1000.0, 5000.0])])
    part = Truncated(mixture, [1500.0, 6000.0], [1505.0, 6040.0])
    for row, (low, high, mean) in enumerate([(1500, 1505, 1000), (6000, 6040, 5000)]):
        counts = range(low, high + 1)
        masses = [mp.exp(k * mp.log(mean) - mean - mp.loggamma(k + 1)) for k in counts]
        expected = mp.fsum(k * m for k, m in zip(counts, masses, strict=True)) / mp.fsum(masses)
        np.testing.assert_allclose(part.mean[row], float(expected), rtol=1e-13)


def test_draws_of_slow_families_by_acceptance_and_by_quantiles(monkeypatch):
    """Draws in a central, a short and a far interval, of which the last two take no draws of the base."""
    low, high = np.array([-1.0, 1.0, 5.0]), np.array([1.0, 1.0000001, np.inf])
    base = fm.StudentT([3.0, 3.0, 0.5], 0.0, 1.0)
    draws = Truncated(base, low, high).sample(1500, 0)
    assert ((draws >= low[:, None]) & (draws <= high[:, None])).all()
    for row in (0, 2):
        frozen = stats.t([3.0, 3.0, 0.5][row])
        ends = frozen.sf(low[row]), frozen.sf(high[row])
        share = (ends[0] - frozen.sf(draws[row])) / (ends[0] - ends[1])
        assert stats.kstest(share, "uniform").pvalue > 1e-3
    place = (draws[1] - low[1]) / (high[1] - low[1])  # the density hardly varies here
    assert stats.kstest(place, "uniform").pvalue > 1e-3

    rare = Truncated(base.take(np.array([1, 2])), low[1:], [1.0000001, 5.1])
    monkeypatch.setattr(fm.StudentT, "sample", None)
    assert rare.sample(3, 0).shape == (2, 3)


def test_mixtures_with_binomial_counts_may_have_no_rows():
    """Blocks of a stream may be empty."""
    none = np.empty(0)
    mixture = Mixture([Poisson(none), Binomial(none, 0.2)])
    assert mixture.crps(none).shape == (0,)
    assert mixture.quantile(np.linspace(0.1, 0.9, 30)).shape == (0, 30)


@pytest.mark.parametrize("trials", [0, 1, 7, 50, 1000, 10**4, 10**6, 10**9])
def test_binomial_quantiles_are_the_smallest_counts_that_reach_their_level(rng, trials):
    chance = np.array([0.0, 1e-300, 1e-9, 1e-4, 0.5, 0.9, 1 - 1e-9, 1.0, *rng.uniform(size=8)])
    prediction = Binomial(trials, chance)
    inner = np.linspace(0.001, 0.999, 57)
    levels = np.array([1e-300, 1e-40, 1e-14, 1e-9, *inner, 1 - 1e-9, 1 - 1e-14])
    quantiles = prediction.quantile(levels)
    for level, counts in zip(levels, quantiles.T, strict=True):
        assert (prediction.cdf(counts) >= level).all()
        assert ((counts == 0) | (prediction.cdf(counts - 1) < level)).all()
    np.testing.assert_array_equal(prediction.quantile([0.0, 1.0]), [[0, trials]] * len(chance))
    shuffled = rng.permuted(np.tile(levels, (len(chance), 1)), axis=1)
    expected = np.take_along_axis(quantiles, np.searchsorted(levels, shuffled), axis=1)
    np.testing.assert_array_equal(prediction.quantiles_at(shuffled), expected)


@pytest.mark.parametrize("trials", [1, 12, 300])
def test_binomial_scores_of_small_and_large_probabilities(trials):
    """Exact sums of squared cdfs, with 40 digits."""
    chance = np.array([1e-200, 1e-7, 0.02, 0.5, 0.97, 1 - 1e-7])
    for y in (0.0, 1.0, float(trials)):
        expected = []
        for p in chance:
            with mp.workdps(40):
                p = mp.mpf(p)
                masses = [
                    mp.binomial(trials, k) * p**k * (1 - p) ** (trials - k)
                    for k in range(trials + 1)
                ]
                above = [mp.fsum(masses[k + 1 :]) for k in range(trials)]
                cdf = [mp.fsum(masses[: k + 1]) for k in range(trials)]
                expected.append(
                    float(mp.fsum(above[k] ** 2 if k >= y else cdf[k] ** 2 for k in range(trials)))
                )
        scores = Binomial(trials, chance).crps(np.full(len(chance), y))
        np.testing.assert_allclose(scores, expected, rtol=1e-11, atol=1e-300)
