"""Zero-inflated and truncated distributions, and quantiles by bisection."""

from __future__ import annotations

import itertools
import math

import numpy as np
import peers
import pytest
from builders import Opaque
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd.predictive import Draws, Predictive, as_predictive
from fastmcmd.predictive.categorical import Categorical
from fastmcmd.predictive.double_poisson import DoublePoisson
from fastmcmd.predictive.numerics.inverse import least
from fastmcmd.predictive.truncated import Truncated
from fastmcmd.predictive.zero_inflated import ZeroInflated

COUNT_BASES = {
    "poisson": fm.Poisson([0.3, 4.0, 60.0]),
    "negative binomial": fm.NegativeBinomial([0.3, 4.0, 60.0], [2.0, 0.5, 0.1]),
    "double poisson": DoublePoisson([0.3, 4.0, 60.0], [2.0, 0.5, 3.0]),
    "scipy": as_predictive(stats.binom(30, [0.1, 0.5, 0.9]), 3),
    "categorical": Categorical([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [0.9, 0.1, 0.0]], [-1.5, 0.0, 4.0]),
    "opaque": Opaque(fm.Poisson([0.3, 4.0, 60.0])),
}  # fmt: skip
SMOOTH_BASES = {
    "gaussian": fm.Gaussian([0.3, -1.0, 5.0], [1.0, 2.0, 0.5]),
    "student": as_predictive(stats.t(4.0, loc=[0.3, -1.0, 5.0]), 3),
    "opaque": Opaque(fm.Gaussian([0.3, -1.0, 5.0], [1.0, 2.0, 0.5])),
}
BASES = {**COUNT_BASES, **{f"smooth {name}": one for name, one in SMOOTH_BASES.items()}}


def check_laws(prediction, outcomes, levels=(0.003, 0.2, 0.5, 0.75, 0.999)):
    """The cdf is monotone, tails add up, quantiles invert it; moments and scores agree with draws."""
    before = np.zeros(len(prediction))
    for y in np.sort(outcomes):
        below, at, above = prediction.cdf_below(y), prediction.cdf(y), prediction.sf(y)
        np.testing.assert_array_less(before - 1e-14, below + 1e-300)
        np.testing.assert_array_less(below - 1e-15, at + 1e-300)
        np.testing.assert_allclose(at + above, 1, atol=1e-13)
        before = at
    quantiles = prediction.quantile(np.array(levels))
    np.testing.assert_array_equal(quantiles[:, 1], prediction.quantile(levels[1]))
    for level, quantiles_of_rows in zip(levels, quantiles.T, strict=True):
        assert (
            prediction.cdf(quantiles_of_rows) >= level - 1e-9
        ).all()  # SciPy inverts Student t to 1e-10
        assert (prediction.cdf_below(quantiles_of_rows) <= level + 1e-9).all()
    draws = prediction.sample(4000, 1)
    assert draws.shape == (len(prediction), 4000)
    np.testing.assert_array_equal(draws, prediction.sample(4000, 1))
    error = np.abs(draws.mean(axis=1) - prediction.mean)
    assert (error <= 5 * prediction.std / math.sqrt(4000) + 1e-9).all()
    np.testing.assert_allclose(prediction.std**2, prediction.variance, rtol=1e-13)
    part = prediction.take(np.array([2, 0]))
    np.testing.assert_allclose(part.cdf(1.0), prediction.cdf(1.0)[[2, 0]], rtol=1e-13)
    for y in outcomes:
        score = np.abs(draws - y) - np.abs(draws - np.roll(draws, 1, axis=1)) / 2
        error = np.abs(score.mean(axis=1) - prediction.crps(y))
        assert (error <= 6 * score.std(axis=1) / math.sqrt(4000) + 1e-9).all()


@pytest.mark.parametrize("name", BASES)
def test_laws_of_zero_inflated(name):
    prediction = ZeroInflated(BASES[name], [0.0, 0.3, 0.9])
    check_laws(prediction, [-1.0, 0.0, 0.5, 4.0, 55.0])
    assert prediction.discrete == (name in COUNT_BASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_zero_inflated_is_the_mixture(name):
    one, p = BASES[name], np.array([0.25, 0.8, 0.5])
    prediction = ZeroInflated(one, p)
    np.testing.assert_allclose(prediction.mean, (1 - p) * one.mean, rtol=1e-13)
    second = (1 - p) * (one.variance + one.mean**2)
    np.testing.assert_allclose(prediction.variance, second - prediction.mean**2, rtol=1e-12)
    y = np.array([0.0, 1.0, 4.0])
    np.testing.assert_allclose(prediction.cdf(y), p + (1 - p) * one.cdf(y), rtol=1e-13)
    np.testing.assert_allclose(prediction.sf(y), (1 - p) * one.sf(y), rtol=1e-13)
    masses = np.exp(prediction.log_prob(y))
    at_zero = p[0] + (1 - p[0]) * np.exp(one.log_prob(y)[0]) * one.discrete
    np.testing.assert_allclose(masses[0], at_zero, rtol=1e-12)
    np.testing.assert_allclose(masses[1:], (1 - p[1:]) * np.exp(one.log_prob(y)[1:]), rtol=1e-12)
    for kernel in (fm.RBF(0.4), fm.Linear(), fm.Laplacian(0.3)):
        points = np.array([-1.0, 0.0, 3.5])
        share = p[:, None]
        expected = share * kernel([0.0], points) + (1 - share) * one.expected_kernel(kernel, points)
        np.testing.assert_allclose(prediction.expected_kernel(kernel, points), expected, atol=1e-12)


@pytest.mark.parametrize("name", COUNT_BASES)
def test_zero_inflated_score_of_counts(name):
    """Agree with the generic sum over the support."""
    prediction = ZeroInflated(COUNT_BASES[name], [0.1, 0.5, 0.99])
    for y in (-2.0, 0.0, 1.0, 3.5, 70.0):
        np.testing.assert_allclose(prediction.crps(y), Predictive.crps(prediction, y), rtol=1e-10)


@pytest.mark.parametrize("y", [-1.2, 0.0, 0.4, 6.0])
def test_zero_inflated_score_of_a_mixed_distribution(y):
    prediction = ZeroInflated(fm.Gaussian([0.5], [1.5]), 0.35)

    def cdf(t):
        return 0.35 * (t >= 0) + 0.65 * stats.norm(0.5, 1.5).cdf(t)

    ends = sorted({-20.0, y, 0.0, 22.0})
    expected = sum(
        integrate.quad(lambda t: (cdf(t) - (t >= y)) ** 2, a, b, epsabs=1e-12)[0]
        for a, b in itertools.pairwise(ends)
    )
    assert prediction.crps([y])[0] == pytest.approx(expected, abs=1e-10)


def test_ends_of_zero_inflated():
    prediction = ZeroInflated(fm.Poisson([2.0, 2.0, 2.0]), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(
        prediction.quantile([0.0, 1.0]), [[0, np.inf], [0, np.inf], [0, 0]]
    )
    np.testing.assert_array_equal(prediction.crps(3.0)[2], 3)
    assert prediction.log_prob(0.0)[2] == 0
    assert prediction.log_prob(1.0)[2] == -np.inf
    assert np.isnan(prediction.log_prob([np.nan] * 3)).all()
    smooth = ZeroInflated(fm.Gaussian([2.0, -2.0], 1.0), 0.5)
    np.testing.assert_array_equal(smooth.quantile([0.0, 1.0]), [[-np.inf, np.inf]] * 2)
    assert smooth.cdf_below(0.0)[0] < smooth.cdf(0.0)[0]


def test_support_of_zero_inflated():
    for one in (fm.Poisson([3.0, 4.0]), Categorical([[0.5, 0.5], [0.1, 0.9]], [2.0, 5.0])):
        prediction = ZeroInflated(one, [0.2, 0.7])
        values, weights = prediction.support()
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-13)
        np.testing.assert_allclose(weights @ values, prediction.mean, rtol=1e-12)
        expected = np.exp(np.stack([prediction.log_prob(value) for value in values], axis=1))
        np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-15)
    assert ZeroInflated(fm.Poisson([1.0, 1e5]), 0.1).support() is None


@pytest.mark.parametrize(
    ("one", "probability", "error", "message"),
    [
        ([1.0, 2.0], 0.5, TypeError, "base is a list; a fastmcmd distribution"),
        (fm.Gaussian(np.zeros((2, 2)), 1.0), 0.5, ValueError, "base has 2 components"),
        (fm.Poisson([1.0]), -0.5, ValueError, "probability has values down to -0.5"),
        (fm.Poisson([1.0]), 1.5, ValueError, "probability has values up to 1.5"),
        (
            fm.Poisson([1.0]),
            [0.1, 0.2],
            ValueError,
            r"probability has shape \(2,\); a scalar or \(1,\)",
        ),
        (fm.Poisson([1.0]), np.nan, ValueError, "probability holds NaN"),
    ],
)
def test_bad_zero_inflated(one, probability, error, message):
    with pytest.raises(error, match=message):
        ZeroInflated(one, probability)


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize(("low", "high"), [(0.0, np.inf), (-np.inf, 4.0), (0.0, 45.0)])
def test_laws_of_truncated(name, low, high):
    prediction = Truncated(BASES[name], low, high if high > 4 else [4.0, 4.0, 60.0])
    check_laws(prediction, [-1.0, 0.0, 0.5, 4.0, 50.0])


@pytest.mark.parametrize("name", COUNT_BASES)
def test_truncated_counts(name):
    """Agree with the masses of the base between the ends, including atoms at both ends."""
    one = COUNT_BASES[name]
    low, high = np.array([-2.0, 0.0, 0.0]), np.array([4.0, 4.0, 62.0])
    prediction = Truncated(one, low, high)
    values = np.concatenate([[-1.5], np.arange(63.0)])
    masses = np.exp(np.stack([one.log_prob(value) for value in values], axis=1))
    masses *= (values >= low[:, None]) & (values <= high[:, None])
    masses /= masses.sum(axis=1, keepdims=True)
    probabilities = np.exp(np.stack([prediction.log_prob(value) for value in values], axis=1))
    np.testing.assert_allclose(probabilities, masses, rtol=1e-9, atol=1e-14)
    mean = masses @ values
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-11)
    variance = (masses * (values - mean[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(prediction.variance, variance, rtol=1e-9, atol=1e-13)
    np.testing.assert_array_equal(prediction.cdf_below(low), 0)
    np.testing.assert_array_equal(prediction.cdf(high), 1)
    if name not in ("scipy", "categorical"):  # which end before
        assert (prediction.cdf_below(high) < 1)[[0, 2]].all()
    cdf = np.cumsum(masses, axis=1)
    for y in (0.0, 3.0, 61.0):
        steps = (cdf - (values >= y)) ** 2
        expected = (steps[:, :-1] * np.diff(values)).sum(axis=1) + np.maximum(y - values[-1], 0)
        np.testing.assert_allclose(prediction.crps(y), expected, rtol=1e-9, atol=1e-13)
    kernel, points = fm.RBF(0.2), np.array([0.0, 2.0])
    np.testing.assert_allclose(
        prediction.expected_kernel(kernel, points), masses @ kernel(values, points), atol=1e-11
    )


INTERVALS = [
    (0.0, np.inf), (-np.inf, 0.5), (-1.0, 2.0), (0.3, 0.31), (3.0, np.inf), (10.0, 11.0), (-12.0, -8.0),
    (30.0, np.inf),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy.*")
@pytest.mark.parametrize(("a", "b"), INTERVALS)
def test_truncated_gaussian_is_scipys(a, b):
    """Ends are in standard deviations; SciPy's variances lose digits far out and in narrow intervals."""
    mean, std = np.array([0.0, 5.0, -2.0]), np.array([1.0, 0.1, 30.0])
    prediction = Truncated(fm.Gaussian(mean, std), mean + a * std, mean + b * std)
    theirs = stats.truncnorm(a, b, mean, std)
    levels = np.array([1e-8, 0.1, 0.5, 0.9, 1 - 1e-8])
    expected = theirs.ppf(levels[:, None]).T
    np.testing.assert_allclose(prediction.quantile(levels), expected, rtol=1e-9, atol=1e-9)
    y = theirs.ppf(0.3)
    np.testing.assert_allclose(prediction.cdf(y), 0.3, rtol=1e-9)
    np.testing.assert_allclose(prediction.sf(y), 0.7, rtol=1e-9)
    np.testing.assert_allclose(prediction.log_prob(y), theirs.logpdf(y), rtol=1e-10)
    np.testing.assert_array_equal(
        prediction.log_prob(mean + (a - 1) * std)[np.isfinite(a)], -np.inf
    )

    def moment(function):
        lower = a if np.isfinite(a) else -12.0
        upper = min(b, max(lower, 0) + (12 if lower < 5 else 4))
        ends = np.linspace(lower, upper, 40)

        def height(z):
            return math.exp(-(z - lower) * (z + lower) / 2)

        parts = [
            integrate.quad(lambda z: function(z) * height(z), p, q, epsabs=0, epsrel=1e-13)[0]
            for p, q in itertools.pairwise(ends)
        ]
        return math.fsum(parts)

    total = moment(lambda z: 1.0)
    centre = moment(lambda z: z) / total
    variance = moment(lambda z: (z - centre) ** 2) / total
    np.testing.assert_allclose((prediction.mean - mean) / std, centre, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(prediction.variance / std**2, variance, rtol=1e-8)


def test_truncated_gaussian_score():
    peer = peers.imported("scoringrules")
    y = np.array([-1.0, 0.2, 1.9, 5.0])
    theirs = peer.crps_tnormal(
        y, np.full(4, 0.5), np.full(4, 1.5), np.full(4, -0.5), np.full(4, 3.0)
    )
    ours = Truncated(fm.Gaussian(np.full(4, 0.5), 1.5), -0.5, 3.0).crps(np.clip(y, -0.5, 3.0))
    inside = np.clip(y, -0.5, 3.0) == y
    np.testing.assert_allclose(ours[inside], theirs[inside], rtol=1e-9)


@pytest.mark.parametrize(
    ("mean", "low", "high"), [(5.0, 40.0, np.inf), (1000.0, 0.0, 700.0), (2.0, 30.0, 31.0)]
)
def test_truncated_counts_far_in_a_tail(mean, low, high):
    """Where the base has no nodes left: ratios of masses, p(k + 1) / p(k) = mean / (k + 1)."""
    k = np.arange(low, min(high, low + 60) + 1) if low else np.arange(high - 200, high + 1)
    logs = stats.poisson(mean).logpmf(k)
    masses = np.exp(logs - logs.max())
    masses /= masses.sum()
    for one in (fm.Poisson([mean]), DoublePoisson([mean], 1.0)):
        prediction = Truncated(one, low, high)
        np.testing.assert_allclose(prediction.mean, masses @ k, rtol=1e-11)
        np.testing.assert_allclose(prediction.variance, masses @ (k - masses @ k) ** 2, rtol=1e-8)
        np.testing.assert_allclose(
            prediction.cdf([k[len(k) // 2]]), masses[: len(k) // 2 + 1].sum(), rtol=1e-9
        )
        middle = prediction.quantile(0.5)
        assert prediction.cdf(middle) >= 0.5 > prediction.cdf_below(middle)


def test_truncated_zero_inflated_counts():
    """Wrappers of wrappers work; a hurdle model is one."""
    prediction = ZeroInflated(Truncated(fm.Poisson([2.0, 6.0]), low=1), [0.3, 0.6])
    np.testing.assert_allclose(prediction.cdf(0.0), [0.3, 0.6], rtol=1e-13)
    outer = Truncated(ZeroInflated(fm.Poisson([2.0, 6.0]), 0.4), 0, 3)
    p = np.exp([outer.log_prob(float(k)) for k in range(5)])
    np.testing.assert_allclose(p.sum(axis=0), 1, rtol=1e-13)
    np.testing.assert_array_equal(p[4], 0)


@pytest.mark.parametrize(
    ("one", "low", "high", "error", "message"),
    [
        (stats.norm(), 0, 1, TypeError, "base is a rv_.*; a fastmcmd distribution"),
        (Draws([[1.0, 2.0]]), 0, 1, TypeError, "base is Draws; leave out the draws"),
        (fm.Gaussian(np.zeros((2, 2)), 1.0), 0, 1, ValueError, "base has 2 components"),
        (ZeroInflated(fm.Gaussian([0.0], 1.0), 0.5), 0, 1, TypeError, "partly discrete"),
        (fm.Poisson([1.0, 2.0]), [0, 3], 2, ValueError, "low is 3 and high is 2 in row 1"),
        (fm.Poisson([1.0]), np.nan, 2, ValueError, "low holds NaN"),
        (fm.Poisson([1.0]), 0, [1, 2], ValueError, r"high has shape \(2,\); a scalar or \(1,\)"),
        (fm.Poisson([1.0, 2.0]), 0.2, 0.8, ValueError, r"no mass.*in \[0.2, 0.8\] in row 0"),
        (
            fm.Gaussian([0.0], 1.0),
            50.0,
            51.0,
            ValueError,
            "no mass, or none that a double can hold",
        ),
    ],
)
def test_bad_truncated(one, low, high, error, message):
    with pytest.raises(error, match=message):
        Truncated(one, low, high)


@given(
    target=st.floats(-1e308, 1e308),
    other=st.floats(-1e308, 1e308),
)
def test_halving_ends_at_the_last_digit(target, other):
    goals = np.array([target, other])
    np.testing.assert_array_equal(least(lambda x: x >= goals, 2), goals)
    np.testing.assert_array_equal(least(lambda x: x > goals, 2), np.nextafter(goals, np.inf))


def test_zero_inflated_quantiles_do_not_depend_on_blocks(rng, monkeypatch):
    mean = rng.gamma(4, 3, 300)
    prediction = ZeroInflated(fm.Poisson(mean), rng.random(300))
    levels = np.linspace(0.01, 0.99, 33)
    expected = prediction.quantile(levels)
    for level, row_quantiles in zip(levels, expected.T, strict=True):
        assert (prediction.cdf(row_quantiles) >= level).all()
        assert ((prediction.cdf_below(row_quantiles) < level) | (row_quantiles == 0)).all()
    monkeypatch.setattr("fastmcmd.predictive.zero_inflated._QUANTILES", 1000)
    np.testing.assert_array_equal(prediction.quantile(levels), expected)


@pytest.mark.parametrize("name", BASES)
def test_quantiles_at_levels_of_each_row(name, rng):
    prediction = BASES[name]
    levels = rng.uniform(0.01, 0.99, (3, 5))
    quantiles = prediction.quantiles_at(levels)
    for row in range(3):
        expected = prediction.take(np.array([row])).quantile(levels[row])[0]
        np.testing.assert_allclose(quantiles[row], expected, rtol=1e-12)
