"""Scores of distributions with masses at their ends: of intervals, at zero, and of clipped outcomes."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd.errors import RowError
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.clipped import Clipped
from fastmcmd.predictive.end_masses import EndMasses

mp = mpmath.mp.clone()
mp.dps = 60
MASSES = [0.0, 1e-300, 1e-12, 0.3, 0.5, 1 - 1e-10, 1 - 2.0**-53, 1.0]
PLACES = [-3.0, 0.0, 1e-300, 1e-12, 1e-3, 0.2, 0.339, 0.341, 1.0, 40.0, 800.0, 1e200]
SCALES = [1e-300, 1e-5, 1.0, 1e100]


def exponential_score(y, scale, mass):
    """Return the integral of (F - 1{t >= y})^2 with F = 1 - a exp(-t / scale), as a sum at 60 digits."""
    y, scale, a = mp.mpf(y), mp.mpf(scale), 1 - mp.mpf(mass)
    place = max(y, mp.mpf(0))
    e = mp.exp(-place / scale)
    before = place - 2 * a * scale * (1 - e) + a * a * scale * (1 - e * e) / 2
    return before + a * a * scale * e * e / 2 + (place - y)


def test_exponentials_with_mass_at_zero():
    places, scales, masses = np.array(list(itertools.product(PLACES, SCALES, MASSES))).T
    y = places * scales
    keep = np.isfinite(y)
    y, scales, masses = y[keep], scales[keep], masses[keep]
    base = fm.Exponential(scale=scales)
    unit = 1 / base.rate  # as it is rounded
    expected = [float(exponential_score(*row)) for row in zip(y, unit, masses, strict=True)]
    actual = fm.ZeroInflated(base, masses).crps(y)
    np.testing.assert_allclose(actual, expected, rtol=3e-15, atol=0)
    plain = [float(exponential_score(a, b, 0.0)) for a, b in zip(y, unit, strict=True)]
    np.testing.assert_allclose(base.crps(y), plain, rtol=3e-15, atol=0)


def test_missing_and_infinite_outcomes_of_exponentials():
    zero_inflated = fm.ZeroInflated(fm.Exponential(np.ones(4)), [0.0, 0.5, 1.0, 0.2])
    y = [np.nan, np.inf, -np.inf, 1.0]
    for scores in (zero_inflated.crps(y), zero_inflated.base.crps(y)):
        assert np.isnan(scores[0])
        assert np.isposinf(scores[1:3]).all()
        assert np.isfinite(scores[3])


def test_generalised_pareto_with_mass_at_zero():
    shape = np.array([-0.5, 0.0, 0.3, 0.9, 1.5, 2.5, 0.3])
    y = np.array([0.4, 1.0, 3.0, 2.0, 1.0, 1.0, 0.0])
    base, mass = fm.GeneralizedPareto(shape, 1.5), np.linspace(0.1, 0.9, 7)
    actual = fm.ZeroInflated(base, mass).crps(y)
    usual = Predictive.inflated_scores(base, y, mass)  # from two scores of the base
    np.testing.assert_allclose(actual, usual, rtol=1e-14)
    for k in range(4):

        def cdf(t, k=k):
            return mass[k] + (1 - mass[k]) * stats.genpareto.cdf(t, shape[k], scale=1.5)

        before = integrate.quad(lambda t, f=cdf: f(t) ** 2, 0, y[k], epsabs=1e-12)[0]
        after = integrate.quad(lambda t, f=cdf: (1 - f(t)) ** 2, y[k], np.inf, epsabs=1e-12)[0]
        assert actual[k] == pytest.approx(before + after, rel=1e-8)
    shifted = fm.ZeroInflated(fm.GeneralizedPareto(shape, 1.5, 0.2), mass)
    expected = Predictive.inflated_scores(shifted.base, y, mass)
    np.testing.assert_allclose(shifted.crps(y), expected, rtol=1e-14)


@pytest.mark.parametrize("ratio", [1e-200, 1e-10, 0.3, 1.0, 7.0, 1e12, 1e200])
@pytest.mark.parametrize("place", [-1e3, -2.0, -1e-9, 0.0, 1e-9, 0.5, 30.0])
def test_two_piece_exponentials(ratio, place):
    lower, upper = 2.0, 2.0 * ratio
    y = place * (lower if place < 0 else upper)
    s, t, x = mp.mpf(lower), mp.mpf(upper), mp.mpf(y)
    below, above = s / (s + t), t / (s + t)
    size, spread, w = (-x, s, below) if y < 0 else (x, t, above)
    e = mp.exp(-size / spread)
    # The squared tail beyond y, the squared rest from the mode to y, and the opposite side.
    beyond = w * w * spread * e * e / 2
    between = size - 2 * w * spread * (1 - e) + w * w * spread * (1 - e * e) / 2
    opposite = (above * above * t if y < 0 else below * below * s) / 2
    actual = fm.TwoPieceLaplace([0.0], lower, upper).crps([y])[0]
    assert actual == pytest.approx(float(beyond + between + opposite), rel=2e-15 * 4)


def test_two_piece_outcomes_that_are_infinite_or_missing():
    for family in (fm.TwoPieceLaplace, fm.TwoPieceNormal):
        scores = family(np.zeros(3), 1.0, 2.0).crps([np.inf, -np.inf, np.nan])
        assert np.isposinf(scores[:2]).all()
        assert np.isnan(scores[2])


BASES = {
    "normal": lambda loc, scale: fm.Gaussian(loc, scale),
    "logistic": lambda loc, scale: fm.Logistic(loc, scale),
    "laplace": lambda loc, scale: fm.Laplace(loc, scale),
    "t": lambda loc, scale: fm.StudentT(4.0, loc, scale),
    "cauchy": lambda loc, scale: fm.StudentT(1.0, loc, scale),
    "gamma": lambda loc, scale: fm.Gamma(2.5, 1 / scale),
    "SciPy's gamma": lambda loc, scale: as_predictive(stats.gamma(2.5, loc, scale), len(loc)),
    "exponential": lambda loc, scale: fm.Exponential(1 / scale),
    "uniform": lambda loc, scale: fm.Uniform(loc, loc + scale),
}
ENDS = [
    (-1.0, 1.0),
    (0.5, 0.5),
    (-np.inf, np.inf),
    (-np.inf, 0.0),
    (0.3, np.inf),
    (3.0, 9.0),
    (-40.0, -5.0),
]


@pytest.mark.parametrize("name", BASES)
def test_masses_of_clipped_distributions(name):
    """The score from the masses of one loop is that from masses of the cdf, row by row."""
    places = [-1e9, -20.0, -1.0, 0.0, 0.1, 0.5, 2.0, 7.0, 1e9]
    rows = list(itertools.product(ENDS, [1e-6, 1.0, 1e6], places))
    low, high = np.array([ends for ends, _, _ in rows]).T
    scale, y = np.array([(scale, place) for _, scale, place in rows]).T
    base = BASES[name](0.1 * scale, scale)
    low, high, y = low * scale, high * scale, y * scale
    actual = base.clipped_scores(y, low, high)
    expected = Predictive.clipped_scores(base, y, low, high)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=0)
    scores = Clipped(base, low, high).crps(y)
    assert np.isfinite(scores).all()
    alone = [
        Clipped(base.take(np.array([k])), low[[k]], high[[k]]).crps(y[[k]])[0]
        for k in range(0, len(y), 5)
    ]
    np.testing.assert_allclose(scores[::5], alone, rtol=1e-15)


INTERVALS = {
    "uniform": (lambda n: fm.Uniform(np.zeros(n), 2.0), lambda t: t / 2),
    "normal": (
        lambda n: fm.Truncated(fm.Gaussian(np.full(n, 0.7), 0.8), 0.0, 2.0),
        lambda t: stats.truncnorm.cdf(t, -0.7 / 0.8, 1.3 / 0.8, 0.7, 0.8),
    ),
    "t": (
        lambda n: fm.Truncated(fm.StudentT(np.full(n, 5.0), 0.7, 0.8), 0.0, 2.0),
        lambda t: (
            (stats.t.cdf(t, 5, 0.7, 0.8) - stats.t.cdf(0, 5, 0.7, 0.8))
            / (stats.t.cdf(2, 5, 0.7, 0.8) - stats.t.cdf(0, 5, 0.7, 0.8))
        ),
    ),
    "beta": (
        lambda n: fm.Beta(np.full(n, 2.0), 3.0),
        lambda t: stats.beta.cdf(t, 2, 3),
    ),
}  # the last has no closed form on a piece
PAIRS = [
    (0.0, 0.0),
    (0.2, 0.5),
    (0.0, 0.4),
    (0.3, 0.0),
    (1.0, 0.0),
    (0.0, 1.0),
    (0.25, 0.75),
    (1e-12, 1e-12),
]


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_with_masses_at_both_ends(name):
    build, inner = INTERVALS[name]
    end = 1.0 if name == "beta" else 2.0
    cases = list(itertools.product(PAIRS, [-3.0, 0.0, 0.4, 0.97 * end, end, 5.0]))
    masses, y = np.array([pair for pair, _ in cases]), np.array([place for _, place in cases])
    prediction = EndMasses(build(len(y)), *masses.T)
    expected = []
    for (lower, upper), place in cases:

        def cdf(t, lower=lower, upper=upper):
            return lower + (1 - lower - upper) * inner(t)

        at = min(max(place, 0.0), end)
        before = integrate.quad(lambda t, f=cdf: f(t) ** 2, 0, at, epsabs=1e-13)[0]
        after = integrate.quad(lambda t, f=cdf: (1 - f(t)) ** 2, at, end, epsabs=1e-13)[0]
        expected.append(before + after + abs(place - at))
    np.testing.assert_allclose(prediction.crps(y), expected, rtol=1e-9, atol=1e-12)
    mixture = fm.Mixture(prediction.components, prediction.weights)
    np.testing.assert_allclose(prediction.crps(y), mixture.crps(y), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(prediction.cdf(y), mixture.cdf(y))
    np.testing.assert_allclose(prediction.mean, mixture.mean)
    assert prediction.sample(3, 0).shape == (len(y), 3)


def test_an_infinite_end_without_mass():
    base = fm.Truncated(fm.Gaussian([0.0, 1.0, 0.0], 1.0), low=[0.0, 0.0, -np.inf])
    prediction = EndMasses(base, [0.3, 0.0, 0.0])
    assert prediction.cdf([0.0, 0.0, 0.0]) == pytest.approx([0.3, 0.0, 0.5])
    assert prediction.crps([1.0, 1.0, 1.0])[2] == pytest.approx(
        fm.Gaussian([0.0], 1.0).crps([1.0])[0]
    )
    scores = prediction.crps([np.nan, np.inf, -np.inf])
    assert np.isnan(scores[0])
    assert np.isposinf(scores[1:]).all()


def test_what_end_masses_refuse():
    uniform = fm.Uniform([0.0, 0.0], 1.0)
    with pytest.raises(
        RowError, match=r"lower_mass and upper_mass sum to 1.3 in row 1; at most 1 is needed"
    ):
        EndMasses(uniform, [0.1, 0.9], 0.4)
    with pytest.raises(ValueError, match=r"upper_mass has values up to 2; all must be in \[0, 1\]"):
        EndMasses(uniform, 0.0, 2.0)
    with pytest.raises(ValueError, match=r"lower_mass holds NaN; finite numbers are needed"):
        EndMasses(uniform, np.nan)
    with pytest.raises(
        ValueError, match=r"lower_mass has shape \(3,\); a scalar or \(2,\) is needed"
    ):
        EndMasses(uniform, [0.1, 0.1, 0.1])
    with pytest.raises(
        RowError, match=r"upper_mass is 0.2 in row 0, where this end is infinite; 0 is needed"
    ):
        EndMasses(fm.Exponential([1.0, 2.0]), 0.1, 0.2)
    for wrong in (fm.Poisson([1.0]), fm.Draws([[0.0, 1.0]]), 3.0):
        with pytest.raises(
            TypeError, match=r"a continuous fastmcmd distribution with known ends is needed"
        ):
            EndMasses(wrong)
