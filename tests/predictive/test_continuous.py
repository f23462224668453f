"""Continuous families agree with scipy.stats, and their kernel expectations with quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import (
    Beta,
    Exponential,
    Gamma,
    Gaussian,
    GeneralizedPareto,
    Laplace,
    Logistic,
    LogNormal,
    ScipyPredictive,
    StudentT,
    Uniform,
    Weibull,
)
from fastmcmd.predictive.numerics.elementwise import by_rows

# Distributions of three inputs, and the same in scipy.stats.
PAIRS = {
    "student": (
        StudentT([0.7, 3.0, 50.0], [0.0, -2.0, 1e3], [1.0, 0.3, 20.0]),
        stats.t([0.7, 3, 50], [0, -2, 1e3], [1, 0.3, 20]),
    ),
    "laplace": (Laplace([0.0, -2.0, 1e3], [1.0, 0.3, 20.0]), stats.laplace([0, -2, 1e3], [1, 0.3, 20])),
    "lognormal": (
        LogNormal([0.0, -2.0, 5.0], [1.0, 0.03, 2.0]),
        stats.lognorm([1.0, 0.03, 2.0], scale=np.exp([0.0, -2.0, 5.0])),
    ),
    "gamma": (
        Gamma([0.2, 3.0, 1e4], [1.0, 0.3, 20.0]),
        stats.gamma([0.2, 3, 1e4], scale=1 / np.array([1, 0.3, 20])),
    ),
    "beta": (Beta([0.2, 3.0, 1e3], [0.5, 1.0, 4e3]), stats.beta([0.2, 3, 1e3], [0.5, 1, 4e3])),
    "logistic": (Logistic([0.0, -2.0, 1e3], [1.0, 0.3, 20.0]), stats.logistic([0, -2, 1e3], [1, 0.3, 20])),
    "exponential": (Exponential([0.1, 2.0, 1e3]), stats.expon(scale=1 / np.array([0.1, 2, 1e3]))),
    "weibull": (
        Weibull([0.4, 1.5, 30.0], [1.0, 0.3, 20.0]),
        stats.weibull_min([0.4, 1.5, 30], scale=[1, 0.3, 20]),
    ),
    "pareto": (
        GeneralizedPareto([-0.4, 0.0, 0.4], [1.0, 0.3, 20.0], [0.0, -2.0, 1e3]),
        stats.genpareto([-0.4, 0, 0.4], [0, -2, 1e3], [1, 0.3, 20]),
    ),
    "uniform": (Uniform([0.0, -2.0, 1e3], [1.0, 3.0, 1e4]), stats.uniform([0, -2, 1e3], [1, 5, 9e3])),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_methods_agree_with_scipy(name):
    ours, theirs = PAIRS[name]
    assert (len(ours), ours.shape, ours.discrete, ours.has_density) == (3, (3,), False, True)
    assert repr(ours) == f"{type(ours).__name__}(3,)"
    has = np.isfinite(theirs.var())
    np.testing.assert_allclose(ours.mean[has], theirs.mean()[has], rtol=1e-13)
    np.testing.assert_allclose(ours.variance[has], theirs.var()[has], rtol=1e-11)
    np.testing.assert_allclose(ours.std, np.sqrt(ours.variance), rtol=1e-15)
    levels = [0.0, 1e-12, 0.01, 0.3, 0.5, 0.99, 1.0]
    expected = np.stack([theirs.ppf(level) for level in levels], axis=1)
    np.testing.assert_allclose(ours.quantile(levels), expected, rtol=1e-10, atol=1e-300)
    np.testing.assert_array_equal(ours.quantile(0.5), ours.quantile(levels)[:, 4])
    upper = theirs.isf(1e-12)
    lost_digits = 1e-15 if name == "uniform" else 1e-300  # SciPy's sf is 1 - cdf there
    for y in [*expected.T[1:-1], upper, expected[:, 0] - 1, np.full(3, 0.0), np.full(3, -1.0)]:
        np.testing.assert_allclose(ours.cdf(y), theirs.cdf(y), rtol=1e-9, atol=lost_digits)
        np.testing.assert_allclose(ours.sf(y), theirs.sf(y), rtol=1e-9, atol=lost_digits)
        np.testing.assert_allclose(ours.log_prob(y), theirs.logpdf(y), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(ours.cdf_below(y), ours.cdf(y))
    part = ours.take(np.array([2, 0, 0]))
    assert type(part) is type(ours)
    np.testing.assert_array_equal(part.quantile(0.3), ours.quantile(0.3)[[2, 0, 0]])
    np.testing.assert_array_equal(part.crps(upper[[2, 0, 0]]), ours.crps(upper)[[2, 0, 0]])


@pytest.mark.parametrize("name", PAIRS)
def test_samples_follow_the_distribution(name):
    ours, theirs = PAIRS[name]
    draws = ours.sample(2000, 0)
    assert draws.shape == (3, 2000)
    np.testing.assert_array_equal(draws, ours.sample(2000, 0))
    for row in range(3):
        one = ours.take(np.array([row]))
        frozen = type(theirs)(theirs.dist, *one.frozen.args, **one.frozen.kwds)
        assert stats.kstest(draws[row], frozen.cdf).pvalue > 1e-4


@given(
    a=st.floats(0.5, 1e12),
    q=st.floats(-6, 6),
    rate=st.floats(1e-3, 1e3),
)
def test_gamma_density_at_large_shapes(a, q, rate):
    """Near the limit, differences of log gammas lose z^2/2 of the log density: 1e-3 at 1e12."""
    y = a * (1 - 1 / (9 * a) + q / (3 * np.sqrt(a))) ** 3 / rate  # Wilson & Hilferty's quantile
    if y <= 0:
        return
    log_probs = Gamma([a], rate).log_prob([y])[0]
    mp = pytest.importorskip("mpmath")
    with mp.workdps(50):
        x = mp.mpf(y) * mp.mpf(rate)
        expected = (mp.mpf(a) - 1) * mp.log(x) - x - mp.loggamma(mp.mpf(a)) + mp.log(mp.mpf(rate))
    # y rate is known to a rounding, which is a / sqrt(a) of them in standard deviations.
    assert log_probs == pytest.approx(
        float(expected), rel=1e-13, abs=1e-13 + 2e-15 * abs(q) * a**0.5
    )


def test_beta_density_at_large_shapes():
    mp = pytest.importorskip("mpmath")
    for a, b, y in ((1e8, 3e8, 0.25), (1e8, 3e8, 0.25001), (1e6, 2.0, 0.999999), (1e-3, 1e5, 1e-4)):
        with mp.workdps(50):
            at = mp.mpf(y)
            logs = (mp.mpf(a) - 1) * mp.log(at) + (mp.mpf(b) - 1) * mp.log(1 - at)
            expected = logs - mp.loggamma(a) - mp.loggamma(b) + mp.loggamma(mp.mpf(a) + mp.mpf(b))
        assert Beta([a], b).log_prob([y])[0] == pytest.approx(float(expected), rel=1e-11)


def test_edges_of_supports():
    inf = np.inf
    np.testing.assert_array_equal(
        Gamma([0.5, 1.0, 2.0], 2.0).log_prob([0.0, 0.0, 0.0]), [inf, np.log(2), -inf]
    )
    np.testing.assert_array_equal(
        Beta([0.5, 1.0, 2.0], 1.0).log_prob([0.0, 0.0, 0.0]), [inf, 0.0, -inf]
    )
    np.testing.assert_allclose(
        Beta(1.0, [0.5, 3.0, 2.0]).log_prob([1.0, 0.0, 1.0]), [inf, np.log(3), -inf]
    )
    for prediction in (
        LogNormal([0.0], 1.0),
        Gamma([2.0], 1.0),
        Beta([2.0], 2.0),
        Uniform([0.0], 1.0),
    ):
        assert prediction.log_prob([-1.0])[0] == prediction.log_prob([np.inf])[0] == -inf
        assert np.isnan(prediction.log_prob([np.nan])[0])
        np.testing.assert_array_equal(
            [prediction.cdf([-1.0])[0], prediction.sf([-1.0])[0], prediction.cdf([inf])[0]], [0, 1, 1]
        )  # fmt: skip
    assert (Uniform([0.0, 0.0], 2.0).log_prob([0.0, 2.0]) == -np.log(2)).all()


@pytest.mark.parametrize("n", [1, 19, 20, 21, 200])
def test_log_densities_of_small_gamma_shapes_are_exact(rng, n):
    mpmath = pytest.importorskip("mpmath")
    steps = np.array(
        [1.0, 2.0, 3.0, 4.0, 5.0, np.nextafter(1, 0), np.nextafter(2, 3), 5.9999, 0.0011]
    )
    shape = np.where(rng.random(n) < 0.4, rng.choice(steps, n), rng.uniform(0.002, 5.99, n))
    rate = np.exp(rng.uniform(-20, 20, n))
    y = rng.gamma(shape) / rate + 1e-200
    actual = Gamma(shape, rate).log_prob(y)
    with mpmath.workdps(40):
        for a, r, at, density in zip(shape, rate, y, actual, strict=True):
            a, r, at = map(mpmath.mpf, (float(a), float(r), float(at)))
            terms = a * mpmath.log(r), (a - 1) * mpmath.log(at), -r * at, -mpmath.loggamma(a)
            size = float(1 + abs((a - 1) * mpmath.log(r * at)) + r * at + abs(mpmath.log(r)))
            assert abs(float(sum(terms)) - density) < 8e-16 * size


def test_moments_that_do_not_exist():
    student = StudentT([0.5, 1.0, 1.5, 2.0, 3.0], 1.0, 2.0)
    np.testing.assert_array_equal(student.mean, [np.nan, np.nan, 1, 1, 1])
    np.testing.assert_allclose(student.variance, [np.nan, np.nan, np.inf, np.inf, 12.0])
    assert np.isinf(LogNormal([0.0], 40.0).mean).all()
    with pytest.raises(ValueError, match="no finite moment of order 1"):
        StudentT([1.0], 0.0, 1.0).expected_kernel(fm.Linear(), [1.0])


def test_gamma_parameters():
    y = np.array([0.3, 2.0])
    plain = Gamma([2.0, 3.0], [4.0, 5.0])
    for other in (
        Gamma([2.0, 3.0], scale=[0.25, 0.2]),
        Gamma.from_mean([0.5, 0.6], [0.5, 1 / 3]),
    ):
        np.testing.assert_allclose(other.cdf(y), plain.cdf(y), rtol=1e-14)
    with pytest.raises(TypeError, match="neither of rate and scale"):
        Gamma([2.0])
    with pytest.raises(TypeError, match="both of rate and scale"):
        Gamma([2.0], 1.0, scale=1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StudentT([0.0], 0.0, 1.0), "df has values down to 0; all must be > 0"),
        (lambda: StudentT(3.0, 0.0, 1.0), r"df and loc and scale are scalars; at least one must be \(n,\)"),
        (lambda: Laplace([0.0, np.nan], 1.0), "loc holds NaN"),
        (lambda: Laplace([0.0], [-1.0]), "scale has values down to -1"),
        (lambda: LogNormal([0.0, 1.0], [1.0, 1.0, 1.0]), "mu has 2, sigma has 3"),
        (lambda: Gamma([[1.0, 2.0]], 1.0), r"shape has shape \(1, 2\)"),
        (lambda: Gamma([np.inf], 1.0), "shape holds infinity"),
        (lambda: Beta([1.0], 0.0), "b has values down to 0"),
        (lambda: Uniform([0.0, 1.0], 1.0), r"low is 1 and high 1 in row 1 \(1 such rows\)"),
        (lambda: Beta([1.0], 1.0).cdf([0.1, 0.2]), r"y has shape \(2,\); \(1,\) is needed"),
        (lambda: Beta([1.0], 1.0).quantile(-0.1), "level is -0.1"),
        (lambda: Beta([1.0], 1.0).sample(0), "size is 0"),
    ],
)  # fmt: skip
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_parameters_are_copies():
    loc = np.zeros(3)
    prediction = Laplace(loc, 1.0)
    loc[:] = 5.0
    np.testing.assert_array_equal(prediction.mean, 0.0)
    assert Laplace(np.zeros((4, 1)), np.ones(4)).shape == (4,)


TAILS = np.array([1e-14, 1e-9, 1e-6, 1e-3, 0.1])
CUTS = np.concatenate([TAILS, [0.5], 1 - TAILS[:0:-1], 1 - TAILS[:1]])  # levels
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    "kernel", [fm.RBF(0.7), fm.Laplacian(1.3), fm.Polynomial(2, 0.5, 1.0)], ids=repr
)
def test_expectations(name, kernel):
    """Agree with Gauss-Legendre sums over SciPy's quantiles, in pieces that end at the kernel's kink."""
    prediction = PAIRS[name][0].take(np.array([1]))
    if name == "student":
        prediction = StudentT([5.0], -2.0, 0.3)
    frozen, points = prediction.frozen, np.array([-2.5, 0.0, 0.4, 3.0])
    expectations = prediction.expected_kernel(kernel, points)[0]
    tolerance = 1e-9 if name in ("laplace", "uniform") else 3e-5  # in closed form; with a kink
    for value, z in zip(expectations, points, strict=True):
        turn = np.clip(frozen.cdf(z), CUTS[0], CUTS[-1])
        cuts = np.unique(np.append(CUTS, turn))
        half = 0.5 * np.diff(cuts)[:, None]
        outcomes = frozen.ppf((cuts[:-1, None] + half * (1 + NODES)).ravel())
        masses = (half * WEIGHTS).ravel()
        expected = masses @ kernel(outcomes, [z])[:, 0]
        assert value == pytest.approx(expected, rel=tolerance, abs=tolerance)


@given(loc=st.floats(-3, 3), scale=st.floats(1e-6, 1e6), gamma=st.floats(1e-3, 1e3))
def test_laplacian_kernels_are_stable(loc, scale, gamma):
    """For any widths: in (0, 1], and at most the kernel's distance from its narrow limit."""
    kernel = fm.Laplacian(gamma)
    for prediction in (Laplace([loc], scale), Uniform([loc - scale], loc + scale)):
        expectations = prediction.expected_kernel(kernel, [0.5])[0, 0]
        assert 0 <= expectations <= 1 + 1e-15
        assert abs(expectations - kernel([loc], [0.5])[0, 0]) <= gamma * scale + 1e-14
    equal = Laplace([loc], 1 / gamma).expected_kernel(kernel, [0.5])[0, 0]
    gap = gamma * abs(loc - 0.5)
    assert equal == pytest.approx((1 + gap) * np.exp(-gap) / 2, rel=1e-12)


@pytest.mark.parametrize("std", [1e-6, 3e-3, 0.2, 3.0, 1e3])
@pytest.mark.parametrize("gap", [0.0, 0.7, 2.0, 4.0, 5.5, 9.0])
def test_distributions_narrow_or_wide_against_the_kernel(std, gap):
    """Next to a narrow distribution, the integral around the point lost its mass: 3e-14 for 8e-3."""
    prediction = fm.Truncated(Gaussian([0.0, 1.0], [std, 1.0]), -1e6, 1e6)  # no closed form
    expectations = prediction.expected_kernel(fm.RBF(0.7), [gap])[0, 0]
    spread = 1 + 1.4 * std**2
    assert expectations == pytest.approx(
        np.exp(-0.7 * gap**2 / spread) / np.sqrt(spread), rel=1e-7, abs=1e-12
    )


def test_gaussians_keep_small_tails(rng):
    mean, std = rng.normal(size=5), rng.uniform(1, 2, size=5)
    prediction = Gaussian(mean, std)
    for z in (-30.0, 0.5, 30.0):
        y = mean + z * std
        np.testing.assert_allclose(prediction.sf(y), stats.norm.sf(z), rtol=1e-12)
        np.testing.assert_allclose(prediction.cdf(y), stats.norm.cdf(z), rtol=1e-12)
    vectors = Gaussian(rng.normal(size=(4, 3)), 1.0)
    y = rng.normal(size=(4, 3))
    np.testing.assert_allclose(vectors.sf(y), 1 - vectors.cdf(y), rtol=1e-12)
    assert vectors.log_prob(y).shape == (4,)


def test_blocks_of_rows(rng, monkeypatch):
    from fastmcmd.predictive.numerics import elementwise

    mean, y = rng.normal(size=(2, 101))
    expected = Gaussian(mean, 2.0).crps(y), StudentT(3.0, mean, 2.0).crps(y)
    monkeypatch.setattr(elementwise, "_STEP", 7)
    np.testing.assert_array_equal(Gaussian(mean, 2.0).crps(y), expected[0])
    np.testing.assert_array_equal(StudentT(3.0, mean, 2.0).crps(y), expected[1])
    assert by_rows(np.add, np.zeros(0), np.zeros(0)).shape == (0,)


def test_user_families_of_scipy_stay_theirs():
    """A user's own family may have a name of SciPy's."""

    class UserFamily(stats.rv_continuous):
        def _cdf(self, x):
            return stats.norm.cdf(x)

    prediction = fm.predictive.as_predictive(UserFamily(name="laplace")(), 2)
    assert type(prediction) is ScipyPredictive
    assert prediction.cdf([0.0, 1.0])[1] == pytest.approx(stats.norm.cdf(1.0))
