"""Double Poisson distributions agree with sums of 40 digits, with Poisson, and with their draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.double_poisson import DoublePoisson

PARAMETERS = [
    (1e-10, 1.0), (0.3, 1.0), (0.5, 1e3), (3.0, 0.1), (5.0, 3.0), (30.0, 0.5), (30.0, 5e-3), (1e-3, 1e-2),
    (200.0, 0.2), (1000.0, 10.0), (1e5, 1e3), (1e5, 50.0), (19_000.25, 400.0),
]  # fmt: skip


def exact_masses(mp, mu, phi):
    """Return Efron's formula without its constant, over a wide window, normalised by its sum."""
    mu, phi = mp.mpf(mu), mp.mpf(phi)

    def log_mass(k):
        if k == 0:
            return -phi * mu
        efron = -phi * mu - k + k * mp.log(k) - mp.loggamma(k + 1)
        return efron + phi * k * (1 + mp.log(mu / k))

    centre = int(mu)
    top = log_mass(centre)
    masses = {}
    for step, start in ((1, centre), (-1, centre - 1)):
        k = start
        while k >= 0:
            masses[k] = mp.exp(log_mass(k) - top)
            if masses[k] < mp.mpf("1e-26") and (step < 0 or k > centre + 3):
                break
            k += step
    total = mp.fsum(masses.values())
    return {k: masses[k] / total for k in sorted(masses)}


def exact_at(mp, masses, y):
    """Return the probability of y, P(Y <= y), P(Y > y) and the CRPS at y."""
    below = mp.fsum(p for k, p in masses.items() if k <= y)
    above = mp.fsum(p for k, p in masses.items() if k > y)
    first, last = min(masses), max(masses)
    score, cdf = mp.mpf(max(first - y, 0) + max(y - last, 0)), mp.mpf(0)
    for k, p in masses.items():
        cdf += p
        score += cdf**2 if k < y else (1 - cdf) ** 2
    return tuple(map(float, (masses.get(y, 0), below, above, score)))


@pytest.mark.parametrize(("mu", "phi"), PARAMETERS)
def test_against_many_digits(mu, phi):
    mp = pytest.importorskip("mpmath")
    sd = math.sqrt(mu / phi)
    prediction = DoublePoisson([mu], phi)
    with mp.workdps(40):
        masses = exact_masses(mp, mu, phi)
        mean = mp.fsum(k * p for k, p in masses.items())
        variance = float(mp.fsum((k - mean) ** 2 * p for k, p in masses.items()))
        assert prediction.mean[0] == pytest.approx(float(mean), rel=1e-13)
        assert prediction.variance[0] == pytest.approx(variance, rel=2e-13)
        assert prediction.std[0] == pytest.approx(math.sqrt(variance), rel=1e-13)
        for y in {0, int(mu), int(mu + 3 * sd) + 1, max(int(mu - 2 * sd), 0)}:
            mass, below, above, score = exact_at(mp, masses, y)
            if mass > 1e-20:
                assert prediction.log_prob([y])[0] == pytest.approx(
                    math.log(mass), rel=1e-12, abs=1e-13
                )
                assert prediction.cdf([y])[0] == pytest.approx(below, rel=1e-12)
                assert prediction.sf([y])[0] == pytest.approx(above, rel=1e-9, abs=1e-20)
            assert prediction.crps([y])[0] == pytest.approx(score, rel=1e-12)


def test_one_is_poisson(rng):
    mu = np.concatenate([10 ** rng.uniform(-3, 4, 200), [0.0]])
    y = rng.poisson(mu).astype(float)
    ours, poisson = DoublePoisson(mu, 1.0), fm.Poisson(mu)
    np.testing.assert_allclose(ours.mean, mu, rtol=1e-13)
    np.testing.assert_allclose(ours.variance, mu, rtol=1e-12)
    np.testing.assert_allclose(ours.log_prob(y), poisson.log_prob(y), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ours.cdf(y), poisson.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(ours.cdf_below(y), poisson.cdf_below(y), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(ours.crps(y + 0.25), poisson.crps(y + 0.25), rtol=1e-11)
    levels = [0.001, 0.3, 0.77, 0.9999]
    np.testing.assert_array_equal(ours.quantile(levels), poisson.quantile(levels))
    kernel, points = fm.RBF(0.1), np.array([0.0, 3.0])
    part = np.flatnonzero(mu < 50)
    np.testing.assert_allclose(
        ours.take(part).expected_kernel(kernel, points),
        poisson.take(part).expected_kernel(kernel, points),
        atol=1e-13,
    )


def test_moments_are_near_the_parameters():
    """Efron 1986: mean about mu, variance about mu / phi, the better the larger mu phi."""
    for phi in (0.5, 2.0):
        prediction = DoublePoisson([10.0, 100.0, 1000.0], phi)
        error = np.abs(prediction.variance / (prediction.mu / phi) - 1)
        assert (np.diff(error) < 0).all()
        np.testing.assert_allclose(prediction.mean, prediction.mu, rtol=4e-3)
        np.testing.assert_allclose(prediction.variance, prediction.mu / phi, rtol=1e-2)


def test_efrons_constant_is_an_approximation():
    """Efron's series for 1/c approaches the sum, and is off by per cents for small mu phi."""
    y = np.arange(3000.0)
    for mu, phi, tolerance in [(50.0, 0.5, 2e-4), (3.0, 0.5, 2e-2)]:
        prediction = DoublePoisson(np.full(len(y), mu), phi)
        at = int(mu)
        plain = 0.5 * math.log(phi) - phi * mu - at + at * math.log(at) - math.lgamma(at + 1)
        plain += phi * at * (1 + math.log(mu / at))
        inverse = math.exp(plain - prediction.log_prob(y)[at])
        series = 1 + (1 - phi) / (12 * mu * phi) * (1 + 1 / (mu * phi))
        assert inverse == pytest.approx(series, rel=tolerance)
        assert inverse != pytest.approx(series, rel=tolerance / 1e3)


@given(
    mu=st.one_of(st.just(0.0), st.floats(1e-6, 1e4)),
    phi=st.floats(1e-2, 1e3),
    z=st.floats(-3, 6),
    level=st.floats(0, 1),
)
def test_laws_of_count_distributions(mu, phi, z, level):
    prediction = DoublePoisson([mu], phi)
    y = mu + z * math.sqrt(mu / phi)
    below, at, above = (
        float(f([y])[0]) for f in (prediction.cdf_below, prediction.cdf, prediction.sf)
    )
    assert 0 <= below <= at <= 1
    assert at + above == pytest.approx(1, abs=1e-14)
    assert at - below == pytest.approx(math.exp(prediction.log_prob([y])[0]), abs=1e-13)
    assert prediction.cdf([y + 1])[0] >= at - 1e-15
    assert (
        0
        <= prediction.crps([y])[0]
        <= abs(y - mu) + abs(mu - prediction.mean[0]) + prediction.std[0] + 1e-12
    )
    values, weights = prediction.nodes()
    assert weights.sum() == pytest.approx(1, abs=1e-13)
    assert values.shape == weights.shape == (1, prediction.node_count)
    count = prediction.quantile(level)[0]
    if level == 1 and mu > 0:
        assert count == np.inf
    else:
        assert prediction.cdf([count])[0] >= level
        assert count == 0 or prediction.cdf_below([count])[0] < level


def test_levels_below_the_window():
    """Quantiles far in the lower tail agree with the cdf there."""
    prediction = DoublePoisson([400.0], 1.0)
    for level in (1e-19, 1e-30, 1e-80, 1e-170):
        count = prediction.quantile(level)
        assert prediction.cdf(count)[0] >= level > prediction.cdf_below(count)[0]
    np.testing.assert_array_equal(prediction.quantile(1e-300), [0.0])


def test_tails_beyond_the_window_keep_their_digits():
    ours, poisson = DoublePoisson([30.0, 400.0], 1.0), fm.Poisson([30.0, 400.0])
    for y in ([150.0, 700.0], [300.0, 900.0], [0.0, 150.0]):
        np.testing.assert_allclose(ours.sf(y), poisson.sf(y), rtol=1e-11)
        np.testing.assert_allclose(ours.cdf(y), poisson.cdf(y), rtol=1e-11)


def test_sample_moments(rng):
    prediction = DoublePoisson([0.0, 0.4, 30.0, 5000.0], [1.0, 2.0, 0.1, 20.0])
    draws = prediction.sample(50_000, rng)
    assert draws.shape == (4, 50_000)
    np.testing.assert_array_equal(draws, np.floor(draws))
    error = np.abs(draws.mean(axis=1) - prediction.mean)
    assert (error <= 5 * prediction.std / math.sqrt(50_000)).all()
    squares = (draws - prediction.mean[:, None]) ** 2
    error = np.abs(squares.mean(axis=1) - prediction.variance)
    assert (error <= 5 * squares.std(axis=1) / math.sqrt(50_000)).all()
    np.testing.assert_array_equal(prediction.sample(7, 3), prediction.sample(7, 3))
    for y in (0.0, 31.5):
        score = np.abs(draws - y) - np.abs(draws - np.roll(draws, 1, axis=1)) / 2
        error = np.abs(score.mean(axis=1) - prediction.crps(y))
        assert (error <= 5 * score.std(axis=1) / math.sqrt(50_000) + 1e-12).all()


def test_generic_score_is_the_same():
    prediction = DoublePoisson([0.7, 12.0, 300.0], [0.05, 1.7, 30.0])
    for y in ([0.0, 0.0, 0.0], [1.0, 14.5, 310.0], [-3.0, 2000.0, 1e6]):
        np.testing.assert_allclose(prediction.crps(y), Predictive.crps(prediction, y), rtol=1e-12)


@pytest.mark.parametrize("score", ["crps", "log"])
def test_the_true_distribution_scores_best(score):
    y = np.arange(300.0)
    truth = np.exp(DoublePoisson(np.full(300, 20.0), 0.5).log_prob(y))

    def expected(mu, phi):
        other = DoublePoisson(np.full(300, mu), phi)
        return truth @ (other.crps(y) if score == "crps" else -other.log_prob(y))

    best = expected(20.0, 0.5)
    for mu, phi in [(20.1, 0.5), (19.9, 0.5), (20.0, 0.52), (20.0, 0.48), (20.0, 1.0), (30.0, 3.0)]:
        assert expected(mu, phi) > best


def test_extreme_parameters():
    """Far from each other's scales, values stay finite and normalised."""
    prediction = DoublePoisson([2.5, 0.5, 1e5, 1e-300, 3.0], [1e6, 1e8, 1e6, 1.0, 1e12])
    np.testing.assert_array_equal(prediction.quantile(0.5), [3, 1, 1e5, 0, 3])
    np.testing.assert_allclose(prediction.mean, [3, 1, 1e5, 0, 3], rtol=1e-9, atol=1e-290)
    assert (prediction.variance >= 0).all()
    assert np.isfinite(prediction.log_prob([3.0, 1.0, 1e5, 0.0, 3.0])).all()
    score = prediction.crps([0.0, 1.0, 1e300, 0.0, -2.0])
    np.testing.assert_allclose(score, [3, 0, 1e300, 0, 5], rtol=1e-14)
    shifted = DoublePoisson([50_000.0], 0.5).crps([1e9])[0]
    assert shifted == pytest.approx(1e9 - 50_000, rel=1e-6)


def test_outcomes_that_are_no_counts():
    prediction = DoublePoisson([4.0] * 7, 2.0)
    y = np.array([-1.0, 0.5, np.inf, -np.inf, np.nan, 3.0, 1e300])
    logs, cdf, sf, crps = (
        f(y) for f in (prediction.log_prob, prediction.cdf, prediction.sf, prediction.crps)
    )
    np.testing.assert_array_equal(logs[:4], -np.inf)
    np.testing.assert_array_equal(np.isnan(np.stack([logs, cdf, sf, crps]))[:, 4], True)
    np.testing.assert_array_equal(cdf[[0, 2, 3, 6]], [0, 1, 0, 1])
    np.testing.assert_array_equal(sf[[0, 2, 3, 6]], [1, 0, 1, 0])
    assert cdf[1] == prediction.cdf(0.0)[1]
    assert np.isposinf(crps[2:4]).all()
    assert np.isfinite(crps[[0, 1, 5, 6]]).all()
    assert logs[6] < -1e300


def test_rows_in_blocks_and_on_threads(rng):
    n = 20_000
    mu, phi = rng.gamma(2.0, 10.0, n), rng.uniform(0.3, 3.0, n)
    y = rng.poisson(mu).astype(float)
    results = []
    try:
        for threads in (1, 3):
            fm.set_num_threads(threads)
            prediction = DoublePoisson(mu, phi)
            parts = [prediction.crps(y), prediction.cdf(y), prediction.log_prob(y), prediction.mean]
            results.append(
                np.stack([*parts, prediction.quantile(0.4), prediction.sample(1, 0)[:, 0]])
            )
    finally:
        fm.set_num_threads(None)
    np.testing.assert_array_equal(results[0], results[1])
    rows = np.array([5, 19_999, 8191, 8192])
    part = DoublePoisson(mu, phi).take(rows)
    again = np.stack([part.crps(y[rows]), part.cdf(y[rows]), part.log_prob(y[rows]), part.mean])
    np.testing.assert_array_equal(results[0][:4, rows], again)


def test_support_is_shared_where_rows_are_close():
    close, apart = DoublePoisson([10.0, 14.0], [1.0, 2.0]), DoublePoisson([5.0, 90_000.0], 3.0)
    values, weights = close.support()
    np.testing.assert_allclose(weights @ values, close.mean, rtol=1e-13)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)
    assert apart.support() is None
    for prediction in (close, apart):
        kernel, points = fm.RBF(0.01), np.array([0.0, 12.0, 90_000.0])
        expected = [
            np.exp(one.log_prob(k)) @ kernel(k, points)
            for one, k in (
                (DoublePoisson(np.full(800, mu), phi), k)
                for mu, phi in zip(prediction.mu, prediction.phi, strict=True)
                for k in [np.maximum(np.floor(mu) - 400, 0) + np.arange(800.0)]
            )
        ]
        if prediction is close:
            np.testing.assert_allclose(
                prediction.expected_kernel(kernel, points), expected, atol=1e-13
            )
        else:  # the window of the second row is 3,000 counts wide
            expectations = prediction.expected_kernel(kernel, points)
            np.testing.assert_allclose(expectations[0], expected[0], atol=1e-13)
            np.testing.assert_allclose(expectations[1], expected[1], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    ("mean", "phi", "message"),
    [
        ([-1.0], 1.0, "mean has values down to -1; all must be >= 0"),
        ([1.0], 0.0, "phi has values down to 0; all must be > 0"),
        ([1.0], [np.nan], "phi holds NaN"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], r"phi has shape \(3,\); a scalar or \(2,\)"),
        ([[1.0, 2.0]], 1.0, r"mean has shape \(1, 2\); \(n,\) is needed"),
        ([5.0, 7.0], [1.0, 1e-9], r"mean 7 and phi 1e-09 \(row 1\) spread the mass"),
    ],
)
def test_bad_parameters(mean, phi, message):
    with pytest.raises(ValueError, match=message):
        DoublePoisson(mean, phi)


def test_standard_deviations_whose_squares_underflow():
    std = DoublePoisson([5.304530440784604e-47], 7.52766811196961).std
    np.testing.assert_allclose(std, 1.7567717659696934e-173, rtol=1e-12)  # mpmath's
