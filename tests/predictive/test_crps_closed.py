"""The closed CRPS of continuous families agrees with high precision, quadrature and peers."""

from __future__ import annotations

import itertools

import numpy as np
import peers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd.predictive import (
    Beta,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    GeneralizedPareto,
    Laplace,
    Logistic,
    LogNormal,
    Predictive,
    ScipyPredictive,
    StudentT,
    Uniform,
    Weibull,
    as_predictive,
)
from fastmcmd.predictive.numerics.crps import crps
from fastmcmd.predictive.numerics.gamma_functions import half_ratio, scaled_deviance, stirling_error
from fastmcmd.predictive.numerics.inverse import least

POSITIVE = st.floats(0.05, 500.0)
PLACE = st.floats(-50.0, 50.0)
FAMILIES = {
    "gaussian": (Gaussian, (PLACE, POSITIVE)),
    "student": (StudentT, (st.one_of(st.floats(0.6, 5.0), st.floats(5.0, 1e6)), PLACE, POSITIVE)),
    "laplace": (Laplace, (PLACE, POSITIVE)),
    "lognormal": (LogNormal, (st.floats(-5.0, 5.0), st.floats(0.01, 4.0))),
    "gamma": (Gamma, (st.one_of(POSITIVE, st.floats(1e3, 1e6)), POSITIVE)),
    "beta": (Beta, (POSITIVE, POSITIVE)),
    "logistic": (Logistic, (PLACE, POSITIVE)),
    "exponential": (Exponential, (POSITIVE,)),
    "weibull": (Weibull, (st.floats(0.05, 300.0), POSITIVE)),
    "pareto": (GeneralizedPareto, (st.floats(-20.0, 1.5), POSITIVE, PLACE)),
    "uniform": (lambda low, width: Uniform(low, low + width), (PLACE, POSITIVE)),
}

SHAPES = {
    "student": (3.0, 0.0, 1.0),
    "exponential": (1.5,),
    "pareto": (0.3, 2.0, 1.5),
}  # of one row


def make(name, *values):
    return FAMILIES[name][0](*(np.atleast_1d(np.asarray(value, float)) for value in values))


def by_quad(frozen, y):
    """Return the definition, by SciPy's adaptive integration over each side of y."""
    ends = [frozen.ppf(1e-14), *frozen.ppf([0.001, 0.1, 0.5, 0.9, 0.999]), frozen.isf(1e-14)]

    def over(function, low, high):
        cuts = [low, *(end for end in ends if low < end < high), high]
        return sum(
            integrate.quad(function, a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
            for a, b in itertools.pairwise(cuts)
        )

    below = over(lambda t: frozen.cdf(t) ** 2, min(y, ends[0]), y)
    return below + over(lambda t: frozen.sf(t) ** 2, y, max(y, ends[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=4)
@given(data=st.data(), level=st.floats(0.001, 0.999))
def test_closed_forms_are_the_integral(name, data, level):
    """Quadrature of the cdf shares no formula with them; outcomes lie within and far outside."""
    prediction = make(name, *(np.full(3, data.draw(value)) for value in FAMILIES[name][1]))
    middle, low, high = (prediction.quantile(q)[0] for q in (level, 0.1, 0.9))
    y = np.array([middle, low - 30 * (high - low), high + 1000 * (high - low)])
    np.testing.assert_allclose(prediction.crps(y), crps(prediction, y), rtol=2e-11)


@pytest.mark.parametrize("name", ["t", "gamma", "beta", "lognorm", "laplace", "uniform", "norm"])
def test_against_scipy_integration(name):
    frozen = {
        "t": stats.t(3.5, 1.0, 2.0),
        "gamma": stats.gamma(2.5, scale=0.5),
        "beta": stats.beta(2.0, 5.0),
        "lognorm": stats.lognorm(0.7, scale=np.exp(0.3)),
        "laplace": stats.laplace(1.0, 2.0),
        "uniform": stats.uniform(-1.0, 3.0),
        "norm": stats.norm(1.0, 2.0),
    }[name]
    prediction = as_predictive(frozen, 1)
    assert not isinstance(prediction, ScipyPredictive) or type(prediction) is not ScipyPredictive
    for y in (frozen.ppf(0.3), frozen.ppf(0.95), -2.0, 7.0):
        expected = by_quad(frozen, y)
        np.testing.assert_allclose(prediction.crps([y]), expected, rtol=1e-9)
        np.testing.assert_allclose(crps(prediction, [y]), expected, rtol=1e-9)


def mp_student(mp, df, z):
    df, z = mp.mpf(df), abs(mp.mpf(z))
    if df == 1:
        return (2 * z * mp.atan(z) - mp.log(1 + z * z) + 2 * mp.log(2)) / mp.pi
    density = mp.gamma((df + 1) / 2) / mp.gamma(df / 2) / mp.sqrt(mp.pi * df)
    density *= (1 + z * z / df) ** (-(df + 1) / 2)
    inside = 1 - mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + z * z), regularized=True)
    gini = mp.sqrt(df) * mp.beta(0.5, df - mp.mpf(1) / 2) / mp.beta(0.5, df / 2) ** 2
    return z * inside + 2 * (density * (df + z * z) - gini) / (df - 1)


def mp_lognormal(mp, mu, sigma, y):
    mu, sigma, y = (mp.mpf(value) for value in (mu, sigma, y))

    def phi(x):
        return mp.erfc(-x / mp.sqrt(2)) / 2

    w = (mp.log(y) - mu) / sigma
    mean = mp.exp(mu + sigma**2 / 2)
    return y * (2 * phi(w) - 1) - 2 * mean * (phi(w - sigma) + phi(sigma / mp.sqrt(2)) - 1)


def mp_gamma(mp, shape, rate, y):
    shape, rate, y = (mp.mpf(value) for value in (shape, rate, y))
    one, more = (mp.gammainc(a, 0, rate * y, regularized=True) for a in (shape, shape + 1))
    gini = mp.gamma(shape + mp.mpf(1) / 2) / mp.gamma(shape) / mp.sqrt(mp.pi) / rate
    return y * (2 * one - 1) - shape / rate * (2 * more - 1) - gini


def mp_beta(mp, a, b, y):
    a, b, y = (mp.mpf(value) for value in (a, b, y))
    one, more = (mp.betainc(p, b, 0, y, regularized=True) for p in (a, a + 1))
    ratio = 2 * mp.beta(2 * a, 2 * b) / a / mp.beta(a, b) ** 2
    return y * (2 * one - 1) - a / (a + b) * (2 * more - 1 + ratio)


@pytest.mark.slow
def test_against_high_precision():
    """The formulas as printed in Jordan et al. (2019), with 60 digits, where float64 would cancel."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(60):
        for df in (0.51, 0.6, 0.9, 0.9995, 1.0, 1.0004, 1.002, 1.5, 2.0, 7.7, 30.0, 1e4, 1e7):
            for z in (0.0, 0.3, 5.0):
                score = StudentT([df], 0.0, 1.0).crps([z])[0]
                cancels = 1e-12 if abs(df - 1) < 0.01 else 2e-14
                assert score == pytest.approx(float(mp_student(mp, df, z)), rel=cancels)
        for sigma in (1e-6, 1e-3, 0.05, 0.0999, 0.1, 0.5, 2.0, 6.0):
            for w in (-5.0, 0.0, 0.7, 6.0):
                y = float(np.exp(0.3 + sigma * w))
                score = LogNormal([0.3], sigma).crps([y])[0]
                tolerance = (
                    5e-14 + 2e-16 / sigma
                )  # log(y) is known to a rounding, and that over sigma
                assert score == pytest.approx(float(mp_lognormal(mp, 0.3, sigma, y)), rel=tolerance)
        for shape in (1e-3, 0.5, 1.0, 9.9, 10.1, 50.0, 1e3, 1e5):
            for w in (-0.9, 0.0, 0.5, 5.0):
                y = max(shape + w * shape**0.5, 0.01 * shape) / 2
                score = Gamma([shape], 2.0).crps([y])[0]
                assert score == pytest.approx(float(mp_gamma(mp, shape, 2, y)), rel=2e-13)
        for a, b in ((1e-3, 1e-3), (0.1, 3), (0.5, 0.5), (1, 1), (12, 0.3), (50, 80)):
            for y in (0.01, 0.3, 0.6, 0.999):
                score = Beta([a], float(b)).crps([y])[0]
                assert score == pytest.approx(float(mp_beta(mp, a, b, y)), rel=5e-13)


def test_gamma_functions():
    mp = pytest.importorskip("mpmath")
    x = np.concatenate([10.0 ** np.arange(-300, 6, 9), np.linspace(0.01, 30, 60)])
    with mp.workdps(40):
        ratio = [float(mp.gamma(mp.mpf(v) + 0.5) / mp.gamma(v)) for v in x]
        stirling = [
            float(mp.loggamma(v) - (mp.mpf(v) - 0.5) * mp.log(v) + v - mp.log(2 * mp.pi) / 2)
            for v in x
        ]
        centre = np.array([1e-9, 0.3, 7.0, 1e10])
        for u in (-0.999, -0.31, -0.29, -1e-3, -1e-9, 0.0, 1e-9, 0.02, 0.29, 0.31, 50.0):
            at = centre * (1 + u)
            deviance = [
                float(mp.mpf(a) - mp.mpf(c) - mp.mpf(c) * mp.log(mp.mpf(a) / mp.mpf(c)))
                for a, c in zip(at, centre, strict=True)
            ]
            np.testing.assert_allclose(scaled_deviance(at, centre), deviance, rtol=1e-13)
    np.testing.assert_allclose(half_ratio(x), ratio, rtol=2e-15)
    np.testing.assert_allclose(stirling_error(x), stirling, rtol=1e-14, atol=4e-15)
    np.testing.assert_allclose(half_ratio(np.array([1e150, 1e300])), [1e75, 1e150], rtol=2e-15)
    at_ten = 3.1230114333906128  # Gamma(21/2) / Gamma(10)
    ends = np.array([0.0, 1e-300, 9.999999999999998, 10.0, np.inf, np.nan])
    expected = [0.0, 1e-300 * np.sqrt(np.pi), at_ten, at_ten, np.inf, np.nan]
    np.testing.assert_allclose(half_ratio(ends), expected, rtol=1e-15)


def test_scoringrules_agrees(rng):
    sr = peers.imported("scoringrules")
    n = 300
    loc, scale, a, b = rng.normal(size=n), *rng.uniform(0.5, 3, size=(3, n))
    y = rng.normal(size=n)
    pairs = [
        (Gaussian(loc, scale), sr.crps_normal, (loc, scale), y),
        (StudentT(a + 1, loc, scale), sr.crps_t, (a + 1, loc, scale), y),
        (Laplace(loc, scale), sr.crps_laplace, (loc, scale), y),
        (Logistic(loc, scale), sr.crps_logistic, (loc, scale), y),
        (Exponential(a), sr.crps_exponential, (a,), np.exp(y)),
        (GeneralizedPareto(a / 4 - 0.3, b, loc), sr.crps_gpd, (a / 4 - 0.3, loc, b), y),
        (Binomial(9, a / 3), sr.crps_binomial, (np.full(n, 9), a / 3), np.floor(2 * b)),
        (LogNormal(loc, scale), sr.crps_lognormal, (loc, scale), np.exp(y)),
        (Gamma(a, b), sr.crps_gamma, (a, b), np.exp(y)),
        (Beta(a, b), sr.crps_beta, (a, b), rng.uniform(size=n)),
        (Uniform(loc, loc + scale), sr.crps_uniform, (loc, loc + scale), y),
    ]
    for prediction, peer, values, at in pairs:
        np.testing.assert_allclose(prediction.crps(at), peer(at, *values), rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_heavy_tails():
    """Cauchy: 2 log 2 / pi at the median; nothing finite for df of 1/2 or less."""
    cauchy = as_predictive(stats.cauchy([0.0, 3.0], [1.0, 2.0]), 2)
    exact = 2 * np.log(2) / np.pi * np.array([1.0, 2.0])
    np.testing.assert_allclose(cauchy.crps([0.0, 3.0]), exact, rtol=1e-15)
    np.testing.assert_allclose(crps(cauchy, [0.0, 3.0]), exact, rtol=1e-14)
    np.testing.assert_allclose(crps(cauchy, [40.0, 1e8]), cauchy.crps([40.0, 1e8]), rtol=1e-12)
    assert np.isinf(StudentT([0.5, 0.2], 0.0, 1.0).crps([0.0, 1.0])).all()
    assert np.isfinite(StudentT([0.51], 0.0, 1.0).crps([0.0])).all()

    class Slow(Uniform):  # P(Y > t) = 1 / sqrt(t)
        def _cdf(self, y, low, high):
            return 1 - self._sf(y, low, high)

        def _sf(self, y, low, high):
            return 1 / np.sqrt(np.maximum(y, 1.0))

        def _quantile(self, level, low, high):
            with np.errstate(divide="ignore"):
                return 1 / (1 - level) ** 2

    assert np.isinf(crps(Slow([0.0], 1.0), [2.0])).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FAMILIES)
def test_extreme_outcomes(name):
    prediction = make(name, *SHAPES.get(name, (1.5, 2.0)))
    prediction = prediction.take(np.zeros(5, dtype=np.intp))
    y = np.array([np.inf, -np.inf, np.nan, 1e300, -1e300])
    for scores in (prediction.crps(y), crps(prediction, y)):
        np.testing.assert_array_equal(scores[:3], [np.inf, np.inf, np.nan])
        np.testing.assert_allclose(scores[3:], 1e300, rtol=1e-12)


def test_narrow_distributions_keep_digits():
    """Far from the mean, the score is a distance; at the mean, it is proportional to the width."""
    std = 1e-5
    gaussian = Gaussian([1.0], std).crps([1.0 + std])[0]
    for prediction in (
        LogNormal([0.0], std),
        Gamma([std**-2], std**-2),
        StudentT([1e12], 1.0, std),
    ):
        assert prediction.crps([1.0 + std])[0] == pytest.approx(gaussian, rel=1e-4)
        assert prediction.crps([3.0])[0] == pytest.approx(2.0, rel=2e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_true_distribution_scores_best(name, rng):
    """Propriety: E CRPS(G, Y) - E CRPS(F, Y) is the squared distance of the cdfs, above its error."""
    true = make(name, *SHAPES.get(name, (1.5, 2.0)))
    rows = np.zeros(20_000, dtype=np.intp)
    y = true.sample(len(rows), rng)[0]
    best = true.take(rows).crps(y)
    for factor in (0.6, 1.6):
        values = {"student": (3.0, 0.0, factor), "exponential": (1.5 * factor,)}
        values = values.get(name, (*SHAPES.get(name, (1.5, 2.0))[:-1], 2.0 * factor))
        gain = make(name, *values).take(rows).crps(y) - best
        assert gain.mean() > 3 * gain.std() / np.sqrt(len(y))


def test_shift_and_scale(rng):
    y, loc, scale = rng.normal(size=(3, 50))
    scale = np.exp(scale)
    for family in (Gaussian, Laplace, lambda m, s: StudentT(2.5, m, s)):
        plain = family(np.zeros(50), 1.0).crps((y - loc) / scale)
        np.testing.assert_allclose(family(loc, scale).crps(y), scale * plain, rtol=1e-12)
    np.testing.assert_allclose(
        Beta(scale, 2.0).crps(np.abs(y)), Beta(2.0, scale).crps(1 - np.abs(y)), rtol=1e-10
    )


def test_vector_gaussians_score_components(rng):
    mean, std, y = rng.normal(size=(4, 3)), rng.uniform(1, 2, size=(4, 3)), rng.normal(size=(4, 3))
    scores = Gaussian(mean, std).crps(y)
    for k in range(3):
        np.testing.assert_array_equal(scores[:, k], Gaussian(mean[:, k], std[:, k]).crps(y[:, k]))
    with pytest.raises(ValueError, match="energy score"):
        crps(Gaussian(mean, std), y)


# --- the generic score ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "frozen",
    [
        stats.gamma(0.05),
        stats.beta(0.02, 0.03),
        stats.skewnorm(8.0),
        stats.pareto(0.8),
        stats.gumbel_r(3.0, 0.1),
        stats.triang(0.2),
        stats.rv_histogram(np.histogram([0.0, 1, 1, 2, 9], bins=[0, 1, 2, 3, 8, 10]), density=False)(),
    ],
    ids=lambda frozen: frozen.dist.name or "histogram",
)  # fmt: skip
def test_generic_score_by_quantiles(frozen):
    """Agree with the other form: twice the integral of the quantile score over levels."""
    prediction = as_predictive(frozen, 1)
    z, w = np.polynomial.legendre.leggauss(60)
    for y in (float(frozen.ppf(0.4)), float(frozen.ppf(0.97)), -1.0):
        turn = float(frozen.cdf(y))
        # Crowded at both ends; the others are the kinks of the histogram and the triangle.
        level_sets = [2.0 ** -np.arange(120), 1 - 2.0 ** -np.arange(40), [0.2, 0.4, 0.6, 0.8]]
        cuts, other = (np.unique(np.concatenate([*level_sets, [end]])) for end in (turn, 1 - turn))
        low, upper = cuts[cuts <= turn], other[other <= 1 - turn]
        total = 0.0
        for ends, quantile, sign in ((low, frozen.ppf, 1.0), (upper, frozen.isf, -1.0)):
            width = np.diff(ends)[:, None] / 2
            u = ends[:-1, None] + width * (z + 1)
            total += float((width * w * 2 * u * sign * (y - quantile(u))).sum())
        assert crps(prediction, [y])[0] == pytest.approx(total, rel=1e-10)


def test_many_modes_and_jumps():
    """The first panels miss parts of the cdf: narrow modes far apart, and steps."""

    class Modes(Uniform):
        def _cdf(self, y, low, high):
            steps = [stats.norm.cdf(y, m, 1e-2) for m in (0.0, 1.0, 50.0)]
            return sum(steps) / 6 + 0.25 * (y >= 7.0) + 0.25 * (y >= 8.0)

        def _sf(self, y, low, high):
            return 1 - self._cdf(y, low, high)

        def _quantile(self, level, low, high):
            points = least(lambda y: self._cdf(y, low, high) >= level, len(low))
            return np.where(level <= 0, -np.inf, np.where(level >= 1, np.inf, points))

    values = np.array([0.0, 1.0, 50.0, 7.0, 8.0])
    weights = np.array([1, 1, 1, 1.5, 1.5]) / 6
    score = crps(Modes([0.0], 1.0), [3.0])[0]
    half = np.abs(values[:, None] - values) @ weights @ weights / 2
    spread = 3 / 36 * 1e-2 / np.sqrt(np.pi)  # of two draws from the same narrow mode
    assert score == pytest.approx(weights @ np.abs(values - 3) - half - spread, rel=1e-10)


def test_a_noisy_cdf_is_integrated_to_its_noise(rng):
    """Single precision: the answer is right to its rounding, and halving ends."""

    class Single(Gaussian):
        def cdf(self, y):
            return super().cdf(y).astype(np.float32).astype(float)

        def sf(self, y):
            return super().sf(y).astype(np.float32).astype(float)

        def take(self, rows):
            return Single(self.mean[rows], self.std[rows])

    y = rng.normal(size=20)
    scores = crps(Single(np.zeros(20), 1.0), y)
    np.testing.assert_allclose(scores, Gaussian(np.zeros(20), 1.0).crps(y), rtol=1e-6)


def test_blocks_do_not_matter(rng):
    prediction = as_predictive(stats.gumbel_r(rng.normal(size=50), 0.5), 50)
    y = rng.normal(size=50)
    np.testing.assert_allclose(crps(prediction, y, step=7), crps(prediction, y), rtol=1e-14)
    order = rng.permutation(50)
    np.testing.assert_allclose(
        prediction.take(order).crps(y[order]), prediction.crps(y)[order], rtol=1e-14
    )


@pytest.mark.parametrize("y", [-3.0, 0.0, 2.0, 2.5, 11.0, 1e6])
def test_sums_over_supports(y):
    """By the definition, over one gap of the support after the other; the support may start anywhere."""
    for frozen in (stats.binom(10, 0.3), stats.poisson(3.0, loc=0.5), stats.skellam(4.0, 9.0)):
        prediction = ScipyPredictive(frozen, 1)
        start = float(frozen.ppf(0.5)) % 1.0
        values = start + np.arange(-80.0, 120.0)
        cuts = np.unique(np.append(values, y))
        heights = frozen.cdf(cuts[:-1] + 1e-9) - (cuts[:-1] >= y)
        expected = float((heights**2 * np.diff(cuts)).sum())
        np.testing.assert_allclose(Predictive.crps(prediction, [y]), expected, rtol=1e-11)


def test_scalars_and_columns_of_outcomes():
    prediction = fm.Gaussian([0.0, 1.0], 1.0)
    np.testing.assert_array_equal(prediction.crps(0.5), prediction.crps([0.5, 0.5]))
    np.testing.assert_array_equal(crps(prediction, [[0.5], [0.2]]), crps(prediction, [0.5, 0.2]))
    with pytest.raises(ValueError, match=r"y has shape \(3,\)"):
        prediction.crps([1.0, 2.0, 3.0])
