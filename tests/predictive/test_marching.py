"""Quantiles at many levels by marching agree with mpmath, SciPy and the cdf."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd import _core
from fastmcmd.predictive import Beta, Gamma, LogNormal, StudentT, Truncated
from fastmcmd.predictive.family import Family
from fastmcmd.predictive.numerics.marching import FEW
from fastmcmd.predictive.pearson import PearsonFamily

LEVELS = np.linspace(0.01, 0.99, 99)


def exact(cdf, density, start, level):
    """Return the quantile near a start, by Newton's method in forty digits."""
    x = mp.mpf(float(start))
    for _ in range(8):
        x -= (cdf(x) - mp.mpf(float(level))) / density(x)
    return x


def gamma_exact(a, start, level):
    a = mp.mpf(float(a))
    return exact(
        lambda x: mp.gammainc(a, 0, x, regularized=True),
        lambda x: mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a)),
        start,
        level,
    )


def beta_exact(a, b, start, level):
    a, b = mp.mpf(float(a)), mp.mpf(float(b))
    return exact(
        lambda x: mp.betainc(a, b, 0, x, regularized=True),
        lambda x: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b),
        start,
        level,
    )


def student_exact(df, start, level):
    df = mp.mpf(float(df))

    def cdf(z):
        tail = mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + z * z), regularized=True) / 2
        return tail if z < 0 else 1 - tail

    scale = mp.gamma((df + 1) / 2) / mp.gamma(df / 2) / mp.sqrt(df * mp.pi)
    return exact(cdf, lambda z: scale * (1 + z * z / df) ** (-(df + 1) / 2), start, level)


@pytest.mark.parametrize(
    ("prediction", "oracle"),
    [
        (Gamma([0.31, 0.7, 1.0, 2.5, 40.0, 300.0], 1.0), gamma_exact),
        (Beta([0.31, 0.5, 1.0, 2.0, 60.0, 3.0], [0.4, 7.0, 1.0, 3.5, 4.0, 150.0]), beta_exact),
        (StudentT([0.8, 1.0, 2.2, 4.0, 30.0, 900.0], 0.0, 1.0), student_exact),
    ],
    ids=["gamma", "beta", "student"],
)
def test_quantiles_have_all_digits(prediction, oracle):
    quantiles = prediction.quantile(LEVELS)
    with mp.workdps(40):
        for row in range(len(prediction)):
            shapes = [getattr(prediction, name)[row] for name in prediction._names]
            shapes = shapes[: 2 if oracle is beta_exact else 1]
            for j in range(0, 99, 7):
                if LEVELS[j] == 0.5:
                    continue
                want = oracle(*shapes, quantiles[row, j], LEVELS[j])
                assert abs(mp.mpf(quantiles[row, j]) / want - 1) < 2e-14, (shapes, LEVELS[j])


def logs(low, high, n, seed):
    return np.exp(np.random.default_rng(seed).uniform(np.log(low), np.log(high), n))


ANY = {
    "gamma": lambda n, seed: Gamma(logs(1e-3, 1e12, n, seed), logs(1e-9, 1e9, n, seed + 1)),
    "beta": lambda n, seed: Beta(logs(1e-3, 1e8, n, seed), logs(1e-3, 1e8, n, seed + 1)),
    "student": lambda n, seed: StudentT(
        logs(0.05, 1e10, n, seed), np.arange(n) * 1.0, logs(1e-3, 1e3, n, seed + 1)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANY)
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.integers(1, 80))
def test_any_shapes_have_the_quantiles_of_single_levels(name, seed, n):
    """Agree with SciPy's quantiles one by one, which do not march, up to SciPy's errors.

    SciPy takes long for each: it computes every third level, and the last.
    """
    prediction = ANY[name](n, seed)
    some = np.r_[0:99:3, 98]
    quantiles, single = prediction.quantile(LEVELS), Family.quantile(prediction, LEVELS[some])
    # Where the cdf is steep or flat, rounding of a probability moves the quantile.
    slack = 1e-10 * np.abs(single) + 1e-11 * (single[:, 25:26] - single[:, 8:9])
    at = [prediction.cdf(quantiles[:, j]) for j in (0, 30, 98)]
    near = np.abs(quantiles[:, some] - single) <= slack
    near[:, [0, 10, 33]] |= np.abs(np.stack(at, axis=1) - LEVELS[[0, 30, 98]]) < 1e-11
    assert near.mean() > 0.999
    rises = (np.diff(single, axis=1) >= 0).all(axis=1)  # SciPy's own below 1e-300 do not
    assert (np.diff(quantiles[rises], axis=1) >= 0).all()


@pytest.mark.parametrize("name", ANY)
def test_levels_in_any_order_with_ends_and_ties(name, rng):
    prediction = ANY[name](7, 5)
    levels = np.array([0.5, 1e-300, 0.2, 1.0, 0.2, 1e-12, 0.0, 1 - 1e-13, 0.97, 0.6, 0.1])
    quantiles, single = prediction.quantile(levels), Family.quantile(prediction, levels)
    np.testing.assert_allclose(quantiles, single, rtol=1e-9, atol=1e-12 * np.abs(single).min())
    np.testing.assert_array_equal(quantiles[:, 2], quantiles[:, 4])


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_levels_of_each_row(name, order, rng):
    prediction = ANY[name](9, 11).take(np.arange(3, 9))
    levels = np.sort(rng.random((6, 3 * FEW)), axis=1)
    levels = levels[:, ::-1] if order == "falling" else levels
    levels = rng.permuted(levels, axis=1) if order == "mixed" else levels
    low, high = prediction.quantiles_at(levels), prediction.upper_quantiles_at(levels)
    for row in range(6):
        one = prediction.take(np.array([row]))
        for quantiles, at in ((low, levels[row]), (high, 1 - levels[row])):
            want = Family.quantile(one, at)[0]
            np.testing.assert_allclose(quantiles[row], want, rtol=1e-8, atol=1e-300)


def test_rows_of_one_shape_are_those_of_many(rng):
    shape = np.full(100, 2.7)
    apart = np.append(shape, 2.8)
    one, many = Gamma(shape, 3.0).quantile(LEVELS), Gamma(apart, 3.0).quantile(LEVELS)
    np.testing.assert_allclose(one, many[:100], rtol=1e-14)


def test_far_upper_tails_keep_their_digits():
    tails = 10.0 ** -np.arange(1, 300, 25.0)
    for prediction in (Gamma([3.0], 1.0), StudentT([5.0], 0.0, 1.0), LogNormal([0.0], 1.0)):
        x = prediction.upper_quantiles_at(tails[None, :])[0]
        np.testing.assert_allclose(
            [prediction.sf(np.array([one]))[0] for one in x], tails, rtol=1e-10
        )
    beta = Beta([2.0], [30.0])
    x = beta.upper_quantiles_at(tails[None, :4])[0]
    np.testing.assert_allclose([beta.sf(np.array([v]))[0] for v in x], tails[:4], rtol=1e-9)


def test_far_tails_of_student(rng):
    """SciPy 1.17 gives +inf as the quantile at 1e-276 of 5 degrees of freedom, and a cdf of 0 at -1e250."""
    for df in (0.5, 1.0, 5.0, 50.0):
        z, p = StudentT([df], 0.0, 1.0), 10.0 ** -np.array([20.0, 100.0, 140.0, 276.0, 300.0])
        x = Family.quantile(z, p)[0]
        some = np.isfinite(x)
        assert some.sum() >= 3
        np.testing.assert_allclose(
            [z.cdf(np.array([one]))[0] for one in x[some]], p[some], rtol=1e-11
        )
        with mp.workdps(60):
            for one, level in zip(x[some], p[some], strict=True):
                at = mp.mpf(df) / (df + mp.mpf(one) ** 2)
                tail = mp.betainc(df / 2, 0.5, 0, at, regularized=True) / 2
                assert abs(tail / mp.mpf(level) - 1) < 1e-11


def test_a_march_that_ends_elsewhere_is_not_believed(monkeypatch):
    """SciPy answers for rows whose march ends at a wrong mass."""
    right = _core.march

    def wrong(x, density, masses, slope, out):
        right(x, density, masses, slope, out)
        out[::2] *= 1.001
        x[::2] *= 1.001

    prediction = Gamma([0.9, 2.0, 3.0, 4.0], 1.0)
    expected = prediction.quantile(LEVELS)
    monkeypatch.setattr(_core, "march", wrong)
    np.testing.assert_allclose(prediction.quantile(LEVELS), expected, rtol=1e-12)


def test_parameters_are_not_changed():
    a, rate = np.array([1.5, 2.5]), np.array([1.0, 2.0])
    before = a.copy(), rate.copy()
    prediction = Gamma(a, rate)
    levels = LEVELS[::-1].copy()
    levels.setflags(write=False)
    prediction.quantile(levels)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(rate, before[1])


# Truncated bases whose quantiles come from marching, and the score of truncated Gaussians


@pytest.mark.parametrize(
    "base",
    [Gamma([0.8, 2.0, 9.0], 1.0), StudentT([3.0, 5.0, 9.0], 1.0, 2.0), Beta([2.0, 1.0, 4.0], 3.0)],
    ids=lambda base: type(base).__name__,
)
@pytest.mark.parametrize("ends", [(0.2, 0.7), (0.4, np.inf), (-np.inf, 0.3), (0.01, 0.9)])
def test_truncated_quantiles_invert_the_cdf(base, ends):
    prediction = Truncated(base, *ends)
    assert isinstance(base, PearsonFamily)
    quantiles = prediction.quantile(LEVELS)
    back = np.stack([prediction.cdf(column) for column in quantiles.T], axis=1)
    np.testing.assert_allclose(back, np.broadcast_to(LEVELS, back.shape), rtol=1e-11)


@pytest.mark.slow
@settings(max_examples=3)  # of many rows: a call of the integral takes as long for few
@given(st.integers(0, 2**32 - 1))
def test_score_of_truncated_gaussians_is_the_integral(seed):
    rng = np.random.default_rng(seed)
    n = 250
    mean, std = rng.normal(size=n) * 3, np.exp(rng.normal(size=n))
    low = mean + 2 * std * rng.normal(size=n)
    high = low + std * np.exp(1.5 * rng.normal(size=n))
    low[:25], high[25:50] = -np.inf, np.inf
    prediction = Truncated(fm.Gaussian(mean, std), low, high)
    y = prediction.sample(1, random_state=seed)[:, 0]
    y[::3] += std[::3] * rng.normal(size=len(y[::3]))
    integral = fm.predictive.base.Predictive.crps(prediction, y)
    np.testing.assert_allclose(prediction.crps(y), integral, rtol=2e-13)
    some = prediction.crps(np.where(np.arange(n) == 4, np.nan, y))
    assert np.isnan(some[4])
    assert np.isfinite(np.delete(some, 4)).all()
    assert np.isinf(prediction.crps(np.full(n, np.inf))).all()


# Gamma distributions of huge shapes


@pytest.mark.parametrize("shape", [3e5, 1e7, 1e12])
@pytest.mark.parametrize("z", [-7.5, -5.0, -2.0, 0.0, 2.0, 5.0, 7.5])
def test_tails_of_gamma_at_huge_shapes(shape, z):
    """SciPy 1.17 loses all digits of the lower tail at -5 standard deviations and a shape of 1e9."""
    prediction = Gamma([shape], 1.0)
    x = shape + z * np.sqrt(shape)
    with mp.workdps(30):
        a, s, at = mp.mpf(shape), mp.sqrt(mp.mpf(shape)), mp.mpf(float(x))

        def density(t):
            return mp.exp((a - 1) * mp.log(t / a) - (t - a))

        scale = mp.exp((a - 1) * mp.log(a) - a - mp.loggamma(a))
        below = scale * mp.quad(density, [at - s * k / 2 for k in range(24, -1, -1)])
        above = scale * mp.quad(density, [at + s * k / 2 for k in range(25)])
    if z <= 0:
        assert prediction.cdf([x])[0] == pytest.approx(float(below), rel=1e-12)
        level, quantile = float(below), prediction.quantile(float(below))[0]
        np.testing.assert_allclose(prediction.quantile([level] * FEW)[0], quantile, rtol=1e-15)
    if z >= 0:
        assert prediction.sf([x])[0] == pytest.approx(float(above), rel=1e-12)
        quantile = prediction.upper_quantiles_at(np.array([[float(above)]]))[0, 0]
    assert (quantile - x) / np.sqrt(shape) == pytest.approx(0.0, abs=1e-12 + 4e-16 * np.sqrt(shape))
