"""Quantiles, scores and moments from densities on panels and sums of counts, against mpmath and SciPy."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import truncated
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics import density_panels
from fastmcmd.predictive.truncated import Truncated
from fastmcmd.predictive.zero_inflated import ZeroInflated

LEVELS = np.array([1e-6, 0.01, 0.03, 0.1, 0.3, 0.45, 0.5, 0.7, 0.9, 0.97, 0.99, 1 - 1e-6])

# Locations and scales of two components, and the weight of the first: usual, far apart, of other scales,
# and with weights near 0 and 1.
ROWS = [
    (0.0, 1.0, 2.0, 0.5, 0.4),
    (-1e6, 1.0, 1e6, 2.0, 0.3),
    (0.0, 1e-5, 0.3, 1.0, 0.5),
    (0.0, 1.0, 1e8, 1.0, 1 - 1e-9),
    (0.0, 1.0, 0.0, 1e5, 1e-7),
    (5.0, 1.0, 5.0, 1.0, 0.5),
]
MAKE = {"laplace": fm.Laplace, "logistic": fm.Logistic}


def exact_cdf(kind, x, loc, scale, upper=False):
    z = (mp.mpf(x) - mp.mpf(loc)) / mp.mpf(scale)
    z = -z if upper else z
    if kind == "logistic":
        return 1 / (1 + mp.exp(-z))
    return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2


def exact_tail(kind, row, x, upper):
    a, b, c, d, w = map(mp.mpf, row)
    return w * exact_cdf(kind, x, a, b, upper) + (1 - w) * exact_cdf(kind, x, c, d, upper)


def mixture_of(kind):
    a, b, c, d, w = np.array(ROWS).T
    return Mixture([MAKE[kind](a, b), MAKE[kind](c, d)], np.stack([w, 1 - w], axis=1))


def places(row, y):
    a, b, c, d, _ = row
    steps = [-60, -20, -6, -2, 0, 2, 6, 20, 60]
    return sorted({*(a + b * s for s in steps), *(c + d * s for s in steps), y})


@pytest.mark.parametrize("kind", MAKE)
def test_quantiles_of_mixtures_reach_their_levels(kind):
    quantiles = mixture_of(kind).quantile(LEVELS)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    for row, values in zip(ROWS, quantiles, strict=True):
        for level, x in zip(LEVELS.tolist(), values, strict=True):
            upper = level > 0.5
            aim = 1 - mp.mpf(level) if upper else mp.mpf(level)
            # The quantile lies within rounding of x between two numbers that enclose the level.
            step = 4e-15 * (abs(x) + 1e-9)
            tails = [exact_tail(kind, row, x + side * step, upper) for side in (-1, 1)]
            assert min(tails) * (1 - 1e-12) <= aim <= max(tails) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKE)
def test_scores_of_mixtures(kind):
    mixture = mixture_of(kind)
    y = np.array([row[0] + row[1] for row in ROWS])
    for row, at, score in zip(ROWS, y.tolist(), mixture.crps(y), strict=True):
        ends = places(row, at)
        below, above = [e for e in ends if e <= at], [e for e in ends if e >= at]
        exact = mp.mpf(0)
        for part, upper in ((below, False), (above, True)):
            exact += mp.quad(
                lambda x, upper=upper, row=row: exact_tail(kind, row, x, upper) ** 2, part
            )
        assert score == pytest.approx(float(exact), rel=2e-11)


@pytest.mark.slow
def test_families_against_scipy(rng):
    n = 3
    scale, shape = rng.lognormal(size=n), rng.uniform(0.6, 30, n)
    pairs = [
        (fm.StudentT(shape, 0.0, scale), stats.t(shape, 0, scale)),
        (fm.StudentT(1.2, scale, 1.0), stats.t(1.2, scale, 1)),
        (fm.Gamma(shape, scale), stats.gamma(shape, scale=1 / scale)),
        (fm.LogNormal(scale, 0.5), stats.lognorm(0.5, scale=np.exp(scale))),
        (fm.Beta(shape, scale + 0.5), stats.beta(shape, scale + 0.5)),
        (fm.Weibull(shape, scale), stats.weibull_min(shape, scale=scale)),
        (fm.Gaussian(scale, shape), stats.norm(scale, shape)),
    ]
    levels = np.arange(1, 100) / 100
    weight = rng.uniform(size=n)
    for (one, first), (other, second) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
        mixture = Mixture([one, other], np.stack([weight, 1 - weight], axis=1))
        x = mixture.quantile(levels).T
        low = weight * first.cdf(x) + (1 - weight) * second.cdf(x)
        high = weight * first.sf(x) + (1 - weight) * second.sf(x)
        gap = np.where(levels[:, None] > 0.5, high - (1 - levels[:, None]), low - levels[:, None])
        density = weight * first.pdf(x) + (1 - weight) * second.pdf(x)
        assert (np.abs(gap) <= 2e-13 + 1e-15 * np.abs(x) * density).all()
        y = mixture.sample(1, 0)[:, 0]
        np.testing.assert_allclose(mixture.crps(y), Predictive.crps(mixture, y), rtol=1e-11)


ENDS = [(-1.0, 3.0), (0.5, np.inf), (-np.inf, 0.2), (30.0, np.inf), (8.0, 9.0)]


@pytest.mark.parametrize(("low", "high"), ENDS)
def test_truncated_logistic(low, high):
    """In the middle, with infinite ends, and far out in a tail."""
    loc, scale = 0.3, 0.9
    prediction = Truncated(fm.Logistic([loc], [scale]), low, high)
    y = float(prediction.quantile(0.3)[0])
    with mp.workdps(40):
        above_low = mp.mpf(1) if low == -np.inf else exact_cdf("logistic", low, loc, scale, True)
        above = mp.mpf(0) if high == np.inf else exact_cdf("logistic", high, loc, scale, True)
        mass = above_low - above

        def share(x):
            return (above_low - exact_cdf("logistic", x, loc, scale, True)) / mass

        first = low if low > -np.inf else loc - 90 * scale
        last = high if high < np.inf else max(loc, low) + 90 * scale
        ends = sorted({first, last, y, *np.linspace(first, last, 9).tolist()})
        lower, upper = [e for e in ends if e <= y], [e for e in ends if e >= y]
        score = mp.quad(lambda x: share(x) ** 2, lower)
        score += mp.quad(lambda x: (1 - share(x)) ** 2, upper)
        mean = last - mp.quad(share, ends)
    assert prediction.crps([y])[0] == pytest.approx(float(score), rel=1e-11)
    assert prediction.mean[0] == pytest.approx(float(mean), rel=1e-12, abs=1e-12)


@pytest.mark.slow
def test_truncated_mixtures_are_mixtures_of_truncated(rng):
    loc = rng.normal(size=3)
    parts = [fm.StudentT(4.0, loc, 1.0), fm.Gaussian(loc + 60, 0.5)]
    prediction = Truncated(Mixture(parts, [0.7, 0.3]), loc + 1, loc + 61)
    x = prediction.quantile(LEVELS)
    flat = prediction.take(np.repeat(np.arange(3), len(LEVELS)))
    level = np.tile(LEVELS, 3)
    gap = np.where(level > 0.5, flat.sf(x.ravel()) - (1 - level), flat.cdf(x.ravel()) - level)
    assert (np.abs(gap) <= 1e-12).all()
    y = loc + 2.5
    np.testing.assert_allclose(prediction.crps(y), Predictive.crps(prediction, y), rtol=1e-11)


@pytest.mark.slow
def test_what_panels_cannot_do_is_searched_for():
    """Flat stretches between components, poles and tails without a score."""
    far = Mixture([fm.Laplace([0.0, 0.0], 1.0), fm.Laplace([1e9, 1e9], 1.0)], [0.5, 0.5])
    quantiles = far.quantile(LEVELS)
    assert (far.cdf(quantiles[:, 6]) >= 0.5 * (1 - 1e-15)).all()
    assert (quantiles[:, 6] < 100).all()  # the smallest number that reaches 0.5
    pole = Mixture([fm.Beta([0.2, 3.0], 0.2), fm.Gamma([0.1, 0.3], 1.0)])
    y = np.array([0.3, 0.9])
    np.testing.assert_allclose(pole.crps(y), Predictive.crps(pole, y), rtol=1e-9)
    heavy = Mixture([fm.StudentT([0.45], 0.0, 1.0), fm.StudentT([3.0], 0.0, 1.0)])
    assert np.isposinf(heavy.crps([0.0])).all()


def test_panels_are_used(monkeypatch):
    """The generic score is not called for the usual families."""
    monkeypatch.setattr(Predictive, "crps", None)
    for prediction in (
        mixture_of("logistic").take(np.array([0, 5])),
        Truncated(fm.Gamma([2.0, 9.0], 1.0), 0.5),
    ):
        assert np.isfinite(prediction.crps(prediction.quantile(0.4))).all()
    assert density_panels.has_panels(fm.Gamma([2.0], 1.0))
    assert not density_panels.has_panels(fm.Poisson([2.0]))


@pytest.mark.parametrize("mean", [0.3, 4.0, 80.0])
def test_counts_against_scipy(rng, mean):
    m = rng.gamma(3.0, mean / 3, 20)
    k = np.arange(1500)
    poisson, other = (
        stats.poisson(m[:, None]).cdf(k),
        stats.nbinom(2.0, 2 / (2 + m[:, None])).cdf(k),
    )
    levels = np.array([*np.arange(1, 20) / 20, 0.999])
    one, two = fm.Poisson(m), fm.NegativeBinomial(m, 0.5)
    zero = stats.poisson(m).pmf(0)[:, None]
    cases = {
        "mixture": (Mixture([one, two], [0.3, 0.7]), 0.3 * poisson + 0.7 * other),
        "truncated": (Truncated(one, 1.0), (poisson - zero) / (1 - zero)),
        "inflated": (ZeroInflated(Truncated(one, 1.0), 0.2), 0.2 + 0.8 * (poisson - zero) / (1 - zero)),
    }  # fmt: skip
    for prediction, cdf in cases.values():
        expected = (cdf[:, None, :] < levels[:, None] - 1e-13).sum(axis=2)
        np.testing.assert_array_equal(prediction.quantile(levels), expected)


def test_moments_of_a_truncated_mixture_of_far_narrow_components():
    """Nodes between quantiles of the whole mixture missed a component 200 of its widths away."""
    rng = np.random.default_rng(5)
    n = 40
    weights = rng.dirichlet([0.5, 0.5], n)
    loc, scale = 3 * rng.normal(size=(n, 2)), 10 ** rng.uniform(-2, 1, (n, 2))
    first, last = loc.argmin(axis=1), loc.argmax(axis=1)
    every = np.arange(n)
    low = loc[every, first] - rng.uniform(-1, 3, n) * scale[every, first]
    high = np.where(every % 2, loc[every, last] + scale[every, last], np.inf)
    high = np.maximum(high, low + scale[every, first])
    base = fm.Mixture([fm.Gaussian(*part) for part in zip(loc.T, scale.T, strict=True)], weights)
    truncated = fm.Truncated(base, low, high)
    ends = [(end[:, None] - loc) / scale for end in (low, high)]
    mass = weights * (stats.norm.sf(ends[0]) - stats.norm.sf(ends[1]))
    mass /= mass.sum(axis=1, keepdims=True)
    parts = stats.truncnorm(*ends, loc=loc, scale=scale)
    means, variances = (np.where(mass > 1e-13, one, 0.0) for one in (parts.mean(), parts.var()))
    mean = (mass * means).sum(axis=1)
    std = np.sqrt((mass * (variances + (means - mean[:, None]) ** 2)).sum(axis=1))
    np.testing.assert_allclose(truncated.mean, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(truncated.std, std, rtol=1e-6, atol=1e-8)
    values, masses = truncated.nodes()
    assert values.shape == (n, truncated.node_count)
    by_nodes = (values * masses).sum(axis=1)
    np.testing.assert_allclose(by_nodes, mean, rtol=1e-9, atol=1e-9)


PANEL_CASES = {
    "mixture": lambda rng: Mixture(
        [
            fm.StudentT(rng.uniform(1.2, 60, 40), rng.normal(size=40), rng.lognormal(0, 2, 40)),
            fm.Gaussian(rng.normal(size=40), 1.0),
            fm.Logistic(3 * rng.normal(size=40), rng.lognormal(0, 2, 40)),
        ],
        rng.dirichlet([1.0, 1.0, 0.1], 40),
    ),
    "positive": lambda rng: Mixture(
        [
            fm.Gamma(rng.uniform(0.4, 90, 40), rng.lognormal(0, 1, 40)),
            fm.Weibull(rng.uniform(0.7, 9, 40), rng.lognormal(0, 1, 40)),
            fm.LogNormal(rng.normal(size=40), rng.uniform(0.1, 1.5, 40)),
        ]
    ),
    "truncated": lambda rng: Truncated(
        fm.Beta(rng.uniform(0.5, 40, 40), rng.uniform(1, 40, 40)), 0.02, rng.uniform(0.3, 1, 40)
    ),
}


@pytest.mark.parametrize("kind", PANEL_CASES)
def test_panels_of_the_core_and_those_of_numpy_agree(rng, monkeypatch, kind):
    """The core cuts and integrates rows as `DensityPanels` does, which knows densities alone."""
    prediction = PANEL_CASES[kind](rng)
    parts = getattr(prediction, "components", (prediction,))
    y, levels = prediction.quantile(0.3), LEVELS[None, 1:-1]

    def results():
        scores, quantiles = density_panels.panel_scores(prediction, parts, y[:, None], levels)
        far = density_panels.panel_quantiles(prediction, parts, LEVELS[None])
        return scores, quantiles, far, *density_panels.panel_moments(parts[-1])

    core = results()
    for part in {type(prediction), *map(type, parts)}:
        monkeypatch.setattr(part, "density_terms", lambda self: None)
    for one, other in zip(core, results(), strict=True):
        both = np.isfinite(one) & np.isfinite(other)
        assert both.mean() > 0.9
        np.testing.assert_allclose(one[both], other[both], rtol=1e-11, atol=1e-13)


def test_few_draws_of_a_truncated_mixture_need_no_search(monkeypatch):
    """Four draws of each of a million rows took twenty minutes, by bisection of the cdf."""
    monkeypatch.setattr(truncated, "by_halving", None)
    n = 4000
    parts = [fm.StudentT(4.0, np.zeros(n), 1.0), fm.Gaussian(np.full(n, 2.0), 0.5)]
    prediction = Truncated(Mixture(parts, [0.7, 0.3]), -1.0, 2.5)
    draws = prediction.sample(2, 3)
    for column in draws.T:
        assert stats.kstest(prediction.cdf(column), "uniform").pvalue > 1e-4


def test_masses_outside_the_ends_of_an_interval():
    base = fm.StudentT([3.0, 4.0], 0.0, 1.0)
    prediction = Truncated(base, -1.0, 2.0)
    for low, high in [(-1.0, 2.0), (-2.0, 3.0), (-0.5, 1.5)]:
        ends = np.full(2, low), np.full(2, high)
        below, above = prediction.masses_outside(*ends)
        np.testing.assert_array_equal(below, prediction.cdf(ends[0]))
        np.testing.assert_array_equal(above, prediction.sf(ends[1]))
