"""Waiting times, excesses and binomial counts: extremes, limits between families, and errors."""

import numpy as np
import peers
import pytest
from scipy import special, stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.numerics.crps import crps


def test_limits_between_families():
    y = np.array([0.3, 1.0, 7.0])
    plain = fm.Exponential([0.5, 1.0, 2.0])
    for same in (
        fm.Gamma(1.0, plain.rate),
        fm.Weibull(1.0, 1 / plain.rate),
        fm.GeneralizedPareto(0.0, 1 / plain.rate),
        fm.GeneralizedPareto(1e-14, 1 / plain.rate),
        fm.Exponential(scale=1 / plain.rate),
    ):
        for method in ("cdf", "sf", "log_prob", "crps"):
            expected = getattr(plain, method)(y)
            np.testing.assert_allclose(getattr(same, method)(y), expected, rtol=1e-12)
        np.testing.assert_allclose(
            same.quantile([0.1, 0.9]), plain.quantile([0.1, 0.9]), rtol=1e-12
        )
        np.testing.assert_allclose([same.mean, same.std], [plain.mean, plain.std], rtol=1e-12)
    uniform = fm.Uniform([0.0] * 3, 2.0)
    bounded = fm.GeneralizedPareto(-1.0, 2.0, [0.0] * 3)
    np.testing.assert_allclose(bounded.crps(y), uniform.crps(y), rtol=1e-13)
    np.testing.assert_allclose(bounded.cdf(y), uniform.cdf(y), rtol=1e-13)


@pytest.mark.parametrize("shape", [-29.0, -31.0, 0.999999999, 1.0, 1.7])
def test_crps_of_excesses_beyond_a_mean(shape):
    """The closed form continues to shape 2; quadrature checks it at shapes of 1 and more."""
    prediction = fm.GeneralizedPareto([shape] * 3, 2.0, 1.0)
    y = np.array([0.5, 1.01, 40.0])
    np.testing.assert_allclose(prediction.crps(y), crps(prediction, y), rtol=1e-9)
    assert np.isinf(fm.GeneralizedPareto([2.0], 1.0).crps([0.5])).all()
    assert (fm.GeneralizedPareto([shape], 1.0).mean == np.inf) == (shape >= 1)


def test_weibull_at_extreme_shapes():
    for shape in (299.0, 301.0, 1e5):
        prediction = fm.Weibull([shape], 3.0)
        y = prediction.quantile(0.3)
        np.testing.assert_allclose(prediction.crps(y), crps(prediction, y), rtol=1e-9)
        log = np.log(y / 3.0) * shape  # nearly Gumbel of minima, of scale 3 / shape
        np.testing.assert_allclose(prediction.cdf(y), stats.gumbel_l.cdf(log), rtol=1e-9)
    np.testing.assert_allclose(prediction.std, 3 / 1e5 * np.pi / np.sqrt(6), rtol=1e-4)
    wide = fm.Weibull([0.0058], 1.0)
    assert wide.mean[0] == np.inf  # Gamma(173) overflows, but not 2^-172 of it
    log = special.gammaln(1 + 1 / 0.0058) - np.log(2) / 0.0058
    np.testing.assert_allclose(wide.crps([1.0]), np.exp(log), rtol=1e-9)


def test_scale_free_ends():
    tiny = fm.GeneralizedPareto([0.0], 1e-163)
    assert (tiny.cdf([1e210])[0], tiny.sf([1e210])[0], tiny.crps([1e210])[0]) == (1.0, 0.0, 1e210)
    assert fm.GeneralizedPareto([-0.5], 1.0).log_prob([2.5])[0] == -np.inf
    assert fm.Exponential([2.0]).log_prob([-1e-300])[0] == -np.inf
    np.testing.assert_array_equal(
        fm.Weibull([0.5, 1.0, 2.0], 2.0).log_prob([0.0] * 3), [np.inf, -np.log(2), -np.inf]
    )


BINOMIAL = ([10, 1000, 1, 0, 7], [0.3, 0.999, 0.5, 0.2, 1.0])


def test_binomial_agrees_with_scipy(rng):
    prediction, frozen = fm.Binomial(*BINOMIAL), stats.binom(*BINOMIAL)
    y = np.array([3.0, 997.0, 1.0, 0.0, 7.0])
    for at in (y, y - 0.5, y - 1, np.full(5, -1.0), np.full(5, np.inf)):
        np.testing.assert_allclose(prediction.cdf(at), frozen.cdf(at), rtol=1e-12)
        np.testing.assert_allclose(prediction.sf(at), frozen.sf(at), rtol=1e-12)
        np.testing.assert_allclose(
            prediction.cdf_below(at), frozen.cdf(np.ceil(at) - 1), rtol=1e-12
        )
    np.testing.assert_allclose(prediction.log_prob(y), frozen.logpmf(y), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(prediction.log_prob(y + 0.5), -np.inf)
    np.testing.assert_allclose(
        [prediction.mean, prediction.variance], frozen.stats("mv"), rtol=1e-13
    )
    for level in (1e-9, 0.2, 0.5, 0.99):
        np.testing.assert_array_equal(prediction.quantile(level), frozen.ppf(level))
    np.testing.assert_array_equal(prediction.quantile([0.0, 1.0])[:, 0], 0.0)
    counts = np.arange(1001.0)
    steps = (frozen.cdf(counts[:, None]) - (counts[:, None] >= y)) ** 2
    np.testing.assert_allclose(prediction.crps(y), steps.sum(axis=0), rtol=1e-10, atol=1e-15)
    assert type(prediction.take(np.array([1, 1]))) is fm.Binomial
    draws = prediction.sample(4000, 0)
    np.testing.assert_allclose(
        draws.mean(axis=1), prediction.mean, atol=5 * prediction.std.max() / 63
    )
    x = rng.normal(size=(40, 1))
    successes = rng.binomial(5, 0.4, 40)
    assert np.isfinite(fm.cce(x, successes, fm.Binomial(5, np.full(40, 0.4))).values).all()


def test_binomial_at_extreme_probabilities():
    tiny = fm.Binomial(32, [1e-60])
    np.testing.assert_allclose(tiny.crps([0.0]), (32e-60) ** 2, rtol=1e-12)
    np.testing.assert_allclose(fm.Binomial(3, [1 - 2.0**-53]).crps([3.0]), (3 * 2.0**-53) ** 2)
    # SciPy's cdf underflows here, and its quantile is one too low.
    low = fm.Binomial(616, [0.7148484597547881])
    np.testing.assert_allclose(low.cdf([29.0]), 3.7223747886598995e-275, rtol=1e-9)
    assert fm.Binomial(829, [0.5551557988945697]).quantile(1.857197757379504e-291)[0] == 1.0
    far = fm.Binomial(1339, [0.44753323620420427])
    level = 2.9069814199424006e-287
    k = far.quantile(level)
    assert far.cdf(k - 1)[0] < level <= far.cdf(k)[0]


def test_normal_is_gaussian():
    assert fm.Normal is fm.Gaussian


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fm.Binomial([1.5], 0.5), "n is 1.5 in row 0; whole numbers of trials"),
        (lambda: fm.Binomial([-1], 0.5), "n is -1"),
        (lambda: fm.Binomial(3, [0.5, 1.5]), "p is 1.5 in row 1; all must be in"),
        (lambda: fm.Binomial(3, 0.5), "are scalars"),
        (lambda: fm.Weibull([0.0], 1.0), "shape has values down to 0"),
        (lambda: fm.GeneralizedPareto([0.1], -1.0), "scale has values down to -1"),
        (lambda: fm.Exponential([np.nan]), "rate holds NaN"),
        (lambda: fm.Exponential(scale=[-1.0]), "scale has values down to -1"),
        (lambda: fm.Logistic([0.0, 1.0], [1.0, 1.0, 1.0]), "same number of rows"),
    ],
)
def test_parameters_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rate_or_scale():
    with pytest.raises(TypeError, match="neither of rate and scale"):
        fm.Exponential()
    with pytest.raises(TypeError, match="both of rate and scale"):
        fm.Exponential([1.0], scale=[1.0])


def test_scoringrules_agrees_on_log_scores(rng):
    sr = peers.imported("scoringrules")
    y, loc, scale = rng.normal(size=(3, 50))
    scale = np.exp(scale)
    pairs = [
        (fm.Logistic(loc, scale), sr.logs_logistic(y, loc, scale), y),
        (fm.Exponential(scale), sr.logs_exponential(np.exp(y), scale), np.exp(y)),
        (fm.GeneralizedPareto(0.2, scale, loc), sr.logs_gpd(y, 0.2, loc, scale), y),
    ]
    for prediction, expected, at in pairs:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(-prediction.log_prob(at), expected, rtol=1e-10)
    assert as_predictive(stats.logistic(loc, scale), 50).crps(y).shape == (50,)


def test_weibull_std_against_many_digits():
    import mpmath

    shapes = np.array([0.01, 0.05, 0.3, 0.9, 1.0, 1.9, 5.0, 19.9, 20.0, 20.1, 100.0, 1e4, 1e8])
    actual = fm.Weibull(shapes, 2.0).std
    with mpmath.workdps(60):
        for shape, std in zip(shapes, actual, strict=True):
            u = 1 / mpmath.mpf(float(shape))
            expected = 2 * mpmath.sqrt(mpmath.gamma(1 + 2 * u) - mpmath.gamma(1 + u) ** 2)
            assert abs(std / expected - 1) < 1e-12, shape
    row_by_row = [fm.Weibull([shape], 2.0).std[0] for shape in shapes]
    np.testing.assert_array_equal(actual, row_by_row)  # other rows do not matter


def test_weibull_and_log_normal_where_rows_differ(rng):
    shape, scale = np.array([0.5, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 1e-300, 1e300])
    for y in (0.0, -1.0, np.inf, np.nan, 1e-12, 1.0, 1e305):
        values = np.full(4, y)
        values_of_all = fm.Weibull(shape, scale).log_prob(values)
        row_by_row = [
            fm.Weibull([a], [b]).log_prob([y])[0] for a, b in zip(shape, scale, strict=True)
        ]
        np.testing.assert_array_equal(values_of_all, row_by_row)
    mu, sigma = np.array([0.0, 0.0, 700.0, -700.0, 0.0]), np.array([1.0, 1e-9, 6.0, 40.0, 5.0])
    row_by_row = [fm.LogNormal([a], [b]).std[0] for a, b in zip(mu, sigma, strict=True)]
    np.testing.assert_array_equal(fm.LogNormal(mu, sigma).std, row_by_row)


def test_log_normal_std_against_many_digits():
    """Small, moderate and large sigma, and means that overflow although the deviation does not."""
    import mpmath

    mu = np.array([0.0, 3.0, -5.0, 0.0, 1.0, -700.0, 709.8, 0.0, -400.0])
    sigma = np.array([1e-12, 1e-9, 1e-3, 0.9999, 1.0001, 30.0, 0.1, 5.0, 28.0])
    actual = fm.LogNormal(mu, sigma).std
    with mpmath.workdps(60):
        for i, (a, b) in enumerate(zip(mu.tolist(), sigma.tolist(), strict=True)):
            square = mpmath.mpf(b) ** 2
            expected = mpmath.exp(mpmath.mpf(a) + square / 2) * mpmath.sqrt(mpmath.expm1(square))
            assert abs(actual[i] / expected - 1) < 1e-12, i
    row_by_row = [fm.LogNormal([a], [b]).std[0] for a, b in zip(mu, sigma, strict=True)]
    np.testing.assert_array_equal(actual, row_by_row)  # other rows do not matter
    with np.errstate(all="raise"):
        assert fm.LogNormal([800.0], [1.0]).std[0] == np.inf
