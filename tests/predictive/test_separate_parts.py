"""Mixtures of components that do not overlap agree with integrals of their cdfs and with searches."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special

import fastmcmd as fm
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics import crps as by_quadrature
from fastmcmd.predictive.numerics.mixture_quantiles import between_components

N = 12
LEVELS = np.array([1e-9, 1e-3, 0.05, 0.2, 0.3, 0.5, 0.77, 0.9, 0.95, 0.99, 0.9995, 1 - 1e-9])


def point(values):
    return fm.Draws(np.asarray(values, dtype=np.float64)[:, None])


def censored(mean, std, low=-np.inf, high=np.inf):
    """Return normal distributions censored at one or both ends."""
    latent, n = fm.Normal(mean, std), len(mean)
    parts, weights = [], []
    if low > -np.inf:
        parts.append(point(np.full(n, low)))
        weights.append(latent.cdf(np.full(n, low)))
    parts.append(fm.Truncated(latent, low, high))
    weights.append(latent.sf(np.full(n, low)) - latent.sf(np.full(n, high)))
    if high < np.inf:
        parts.append(point(np.full(n, high)))
        weights.append(latent.sf(np.full(n, high)))
    return Mixture(parts, np.stack(weights, axis=1))


def two_piece(mode, lower, upper):
    share = np.broadcast_to(lower / (lower + upper), mode.shape)
    halves = [
        fm.Truncated(fm.Normal(mode, lower), high=mode),
        fm.Truncated(fm.Normal(mode, upper), low=mode),
    ]
    return Mixture(halves, np.stack([share, 1 - share], axis=1))


def every_kind(rng):
    mean, std = rng.normal(size=N), rng.uniform(0.3, 2, N)
    weights = rng.dirichlet(np.ones(3), N)
    weights[0], weights[1], weights[2] = (1, 0, 0), (0, 1, 0), (0.5, 0, 0.5)
    swapped = np.arange(N) % 2 == 0
    gap = [np.where(swapped, 3.0, -2.0), np.where(swapped, -4.0, 1.0)]
    return {
        "two pieces": two_piece(mean, rng.uniform(0.1, 1, N), rng.uniform(0.5, 5, N)),
        "censored": censored(mean, std, low=0.0),
        "censored on both sides": censored(mean, std, low=-0.5, high=0.8),
        "hurdle": Mixture([point(np.zeros(N)), fm.Gamma(2.0, std)], [0.3, 0.7]),
        "spike and slab": Mixture([fm.Normal(mean, std), point(mean / 3)], [0.6, 0.4]),
        "two spikes": Mixture(
            [point(mean + 1), fm.StudentT(3.0, mean, std), point(mean - 1)], weights
        ),
        "gaps and any order": Mixture([fm.Uniform(one, one + 1.5) for one in gap], [0.25, 0.75]),
        "Student-t halves": Mixture(
            [
                fm.Truncated(fm.StudentT(4.0, mean, std), high=mean),
                fm.Truncated(fm.StudentT(2.5, mean, 2 * std), low=mean),
                point(mean),
            ],
            weights,
        ),
        "equal points": Mixture(
            [point(np.ones(N)), fm.Truncated(fm.Normal(mean, std), low=1.0), point(np.ones(N))],
            weights,
        ),
    }


KINDS = list(every_kind(np.random.default_rng(0)))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_integrals_of_the_cdf(rng, kind):
    mixture = every_kind(rng)[kind]
    assert mixture.intervals is not None
    assert mixture.intervals.is_separate.all()
    for y in (mixture.sample(1, rng)[:, 0], 3 * rng.normal(size=N), np.full(N, 40.0)):
        expected = by_quadrature.crps(mixture, y)
        np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_are_those_of_a_search(rng, kind):
    mixture = every_kind(rng)[kind]
    quantiles = mixture.quantile(LEVELS)
    expected = between_components(mixture, LEVELS)
    np.testing.assert_allclose(quantiles, expected, rtol=1e-9, atol=1e-12)
    per_row = mixture.quantiles_at(np.tile(LEVELS[::-1], (N, 1)))
    np.testing.assert_allclose(per_row[:, ::-1], quantiles, rtol=1e-12)
    for column, level in enumerate(LEVELS):
        np.testing.assert_allclose(mixture.quantile(level), quantiles[:, column], rtol=1e-12)
    ends = mixture.quantile([0.0, 1.0])
    has_weight = mixture.weights.T > 0
    both = [np.stack([part.quantile(level) for part in mixture.components]) for level in (0.0, 1.0)]
    np.testing.assert_array_equal(ends[:, 0], np.where(has_weight, both[0], np.inf).min(axis=0))
    np.testing.assert_array_equal(ends[:, 1], np.where(has_weight, both[1], -np.inf).max(axis=0))


def exact_two_piece(y, mode, lower, upper):
    """Return the score from the cdf of a two-piece normal distribution with 25 digits."""
    with mpmath.workdps(25):
        y, mode, lower, upper = map(mpmath.mpf, (y, mode, lower, upper))
        both = lower + upper

        def below(t):
            z = (t - mode) / (lower if t < mode else upper)
            if t < mode:
                return 2 * lower / both * mpmath.ncdf(z)
            return 1 - 2 * upper / both * mpmath.ncdf(-z)

        def above(t):
            return 2 * upper / both * mpmath.ncdf((mode - t) / upper) if t > mode else 1 - below(t)

        steps = [mode - lower * k for k in (40, 12, 6, 3, 1, 0)]
        steps += [mode + upper * k for k in (1, 3, 6, 12, 40)]
        ends = sorted({*steps, y})
        left = [t for t in ends if t <= y]
        right = [t for t in ends if t >= y]
        total = mpmath.quad(lambda t: below(t) ** 2, left) if len(left) > 1 else 0
        return float(total + (mpmath.quad(lambda t: above(t) ** 2, right) if len(right) > 1 else 0))


@pytest.mark.parametrize("scales", [(0.5, 2.0), (1e-6, 1.0), (1.0, 1e-9), (1e5, 1e5)])
def test_two_piece_scores_have_all_digits(scales):
    lower, upper = scales
    z = np.array([-40.0, -3.0, -1e-3, 0.0, 1e-7, 0.5, 5.0, 40.0])
    y = 1.25 + np.where(z < 0, z * lower, z * upper)
    mixture = two_piece(np.full(len(y), 1.25), lower, upper)
    expected = [exact_two_piece(one, 1.25, lower, upper) for one in y]
    np.testing.assert_allclose(mixture.crps(y), expected, rtol=2e-13)


def test_two_piece_quantiles_in_far_tails():
    levels = np.array([1e-300, 1e-40, 0.1, 0.2, 0.2 + 1e-9, 0.5, 1 - 1e-12])
    mixture = two_piece(np.array([0.0, 3.0]), 0.5, 2.0)
    below, above = 0.5 * special.ndtri(levels / 0.4), -2 * special.ndtri((1 - levels) / 1.6)
    expected = np.where(levels <= 0.2, below, above)
    quantiles = mixture.quantile(levels)
    np.testing.assert_allclose(quantiles[0], expected, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(quantiles[1], 3 + expected, rtol=1e-9)


@pytest.mark.parametrize("mean", [-30.0, -6.0, 0.0, 9.0])
def test_censored_scores_in_far_tails(mean):
    """Integrals of the squared cdf of a normal distribution censored below at 0, with 30 digits."""
    y = np.array([0.0, 1e-12, 1e-3, 0.7, 45.0])
    mixture = censored(np.full(len(y), mean), 1.0, low=0.0)
    expected = []
    with mpmath.workdps(30):
        steps = [t for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8, 40) if (t := mean + k) > 0]
        steps = sorted({0.0, 0.1, 0.3, 1.0, 3.0, *steps})
        for one in y:
            ends = sorted({*steps, one, one + 40})
            left, right = [t for t in ends if t <= one], [t for t in ends if t >= one]
            total = mpmath.quad(lambda t: mpmath.ncdf(mean - t) ** 2, right)
            if len(left) > 1:
                total += mpmath.quad(lambda t: mpmath.ncdf(t - mean) ** 2, left)
            expected.append(float(total))
    np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-11, atol=1e-290)


def test_censored_quantiles():
    mean, levels = np.array([-20.0, -1.0, 0.5, 8.0]), np.linspace(0.01, 0.99, 99)
    mixture = censored(mean, 1.5, low=0.0)
    expected = np.maximum(mean[:, None] + 1.5 * special.ndtri(levels), 0.0)
    np.testing.assert_allclose(mixture.quantile(levels), expected, rtol=1e-12, atol=1e-13)


def test_scores_that_would_cancel_come_from_the_cdf():
    """A wide component of tiny weight: the difference of its scores has fewer digits than the sum."""
    n = 6
    weights = np.array([1 - 1e-9, 1e-9])
    mixture = Mixture([point(np.zeros(n)), fm.Exponential(np.full(n, 1.0))], weights)
    y = np.array([0.0, 1e-16, 1e-14, 1e-10, 1e-3, 1.0])
    w, p = weights[1], weights[0]
    # int_0^y (p + w F)^2 + int_y^inf (w G)^2
    tail = np.expm1(-y)
    squares = p * p * y + 2 * p * w * _integral(y) + w * w * (y + 2 * tail - np.expm1(-2 * y) / 2)
    expected = squares + w * w * np.exp(-2 * y) / 2
    np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-11)


def _integral(y):
    """Return ``y + expm1(-y)``, by its series next to 0."""
    return np.where(y < 1e-2, y * y / 2 * (1 - y / 3 * (1 - y / 4 * (1 - y / 5))), y + np.expm1(-y))


def test_rare_rows_do_not_change_the_others(rng):
    """Rows that overlap, and rows of extreme scale, beside usual ones."""
    mean, high = rng.normal(size=N), np.zeros(N)
    low = np.zeros(N)
    low[3], high[3] = -1.0, 1.0  # these overlap
    std = np.ones(N)
    std[5], std[6] = 1e-200, 1e200
    parts = [
        fm.Truncated(fm.Normal(0 * mean, std), high=high),
        fm.Truncated(fm.Normal(0 * mean, std), low),
    ]
    mixture = Mixture(parts, [0.4, 0.6])
    y = mean * std
    scores, quantiles = mixture.crps(y), mixture.quantile(LEVELS)
    for row in range(N):
        one = mixture.take(np.array([row]))
        np.testing.assert_allclose(one.crps(y[row : row + 1])[0], scores[row], rtol=1e-13)
        np.testing.assert_allclose(one.quantile(LEVELS)[0], quantiles[row], rtol=1e-12)
    usual = np.setdiff1d(np.arange(N), [3, 5, 6])
    expected = by_quadrature.crps(mixture.take(usual), y[usual])
    np.testing.assert_allclose(scores[usual], expected, rtol=1e-11)
    standard = mixture.take(usual[:2]).crps(mean[[5, 6]])
    np.testing.assert_allclose(scores[[5, 6]] / std[[5, 6]], standard, rtol=1e-12)


def test_infinite_and_missing_outcomes(rng):
    mixture = every_kind(rng)["two pieces"]
    y = np.zeros(N)
    y[:3] = np.inf, -np.inf, np.nan
    scores = mixture.crps(y)
    np.testing.assert_array_equal(scores[:3], [np.inf, np.inf, np.nan])
    assert np.isfinite(scores[3:]).all()


def test_a_component_without_a_mean(rng):
    """A component whose score is infinite makes the score of the mixture infinite."""
    mean = rng.normal(size=N)
    heavy = fm.Truncated(fm.StudentT(0.4, mean, 1.0), low=mean)
    mixture = Mixture([point(mean), heavy], [0.5, 0.5])
    assert np.isposinf(mixture.crps(mean + 1)).all()
    unused = Mixture([point(mean), heavy], [1.0, 0.0])
    np.testing.assert_allclose(unused.crps(mean + 1), 1.0)


def test_draws_with_several_values_count_as_atoms(rng):
    draws = fm.Draws(rng.uniform(-2, -1, (N, 4)))
    mixture = Mixture([draws, fm.Exponential(np.ones(N))], [0.5, 0.5])
    y, values = rng.normal(size=N), draws.array
    # E|X - y| - E|X - X'| / 2
    to_draws = np.abs(values - y[:, None]).mean(axis=1)
    to_other = np.where(y > 0, y - 1 + 2 * np.exp(-np.abs(y)), 1 - y)
    between = np.abs(values[:, :, None] - values[:, None]).mean(axis=(1, 2))
    expected = (to_draws + to_other) / 2
    expected -= (between / 4 + 1 / 4 + (1 - values.mean(axis=1)) / 2) / 2
    np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-12)
    sorted_draws = np.sort(draws.array, axis=1)
    np.testing.assert_array_equal(
        mixture.quantile([0.1, 0.2, 0.45])[:, [0, 1, 2]], sorted_draws[:, [0, 1, 3]]
    )


def test_quantiles_near_level_1_in_a_component_of_tiny_weight():
    """The mass above the quantile has all digits; the mass below it, a difference of levels, has few."""
    share, level = 4e-12, 1 - 1e-12
    halves = [fm.Uniform([-1.0], [0.0]), fm.Exponential([1.0])]
    expected = -np.log((1 - level) / share)
    quantile = Mixture(halves, [1 - share, share]).quantile(level)
    np.testing.assert_allclose(quantile, expected, rtol=1e-12)
