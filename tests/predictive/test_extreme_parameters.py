"""Distributions and scores at extreme parameters: one test for each number that was wrong."""

import inspect

import numpy as np
import pytest
import scipy.special

import fastmcmd as fm
from fastmcmd.evaluation.context import Memo


@pytest.mark.parametrize(
    ("prediction", "y", "expected"),
    [
        (fm.Poisson([1e-4]), 100.0, 99.99980001),
        (fm.Poisson([1e-20]), 20.0, 20.0),
        (fm.Poisson([1e-300]), 1e6, 1e6),
        (fm.NegativeBinomial([1e-9], 0.5), 40.0, 40 - 2e-9),
        (fm.ZeroInflated(fm.Poisson([1e-4]), 0.5), 100.0, 99.9999000025),
        (fm.StudentT(1.0, [0.0], 1.0), 1e160, 1e160),
        (fm.StudentT(5.0, [0.0], 1e-200), 1e200, 1e200),
        (fm.Gaussian([0.0], 1e-300), 1e100, 1e100),
        (fm.Laplace([0.0], 1e-300), 1e100, 1e100),
        (fm.Uniform([0.0], 1e-300), 1e100, 1e100),
        (fm.Gamma([2.0], 1e200), -1e200, 1e200),
        (fm.Truncated(fm.Gaussian([0.0], 1e-200), 0.0, 1e-199), -1e200, 1e200),
    ],
)
def test_far_outliers_score_their_distance(prediction, y, expected):
    np.testing.assert_allclose(prediction.crps([y]), expected, rtol=1e-12)


FAR = {
    "poisson": fm.Poisson([3.0]),
    "double poisson": fm.DoublePoisson([3.0], 2.0),
    "negative binomial": fm.NegativeBinomial([3.0], 1.0),
    "zero-inflated": fm.ZeroInflated(fm.Poisson([3.0]), 0.2),
    "draws": fm.Draws([[0.0, 1.0, 3.0]]),
    "truncated": fm.Truncated(fm.Gaussian([0.0], 1.0), -1.0, 1.0),
    "mixture": fm.Mixture([fm.Gaussian([0.0], 1.0), fm.Gaussian([1.0], 1.0)]),
    "recalibrated": fm.recalibration.IsotonicCDF()
    .fit(fm.Gaussian(np.zeros(50), 1.0), np.linspace(-2, 2, 50))
    .transform(fm.Gaussian([0.0], 1.0)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("y", [1e308, -1e308, 1.79e308])
def test_outliers_at_the_end_of_doubles_have_a_score(name, y):
    np.testing.assert_allclose(FAR[name].crps([y]), abs(y), rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_recalibrated_and_rescaled_at_the_ends_of_doubles():
    knots = fm.recalibration.MonotoneMap(np.array([0.0, 0.3, 1.0]), np.array([0.0, 0.6, 1.0]))
    usual = fm.recalibration.RecalibratedCDF(fm.Gaussian([0.0], 1.0), knots)
    for scale in (1e-287, 1e170):
        recalibrated = fm.recalibration.RecalibratedCDF(fm.Gaussian([0.0], scale), knots)
        np.testing.assert_allclose(recalibrated.std, scale * usual.std, rtol=1e-12)
    tiny = fm.recalibration.RecalibratedCDF(fm.Gaussian([0.0], 1e-287), knots)
    np.testing.assert_allclose(tiny.crps([1e154]), 1e154, rtol=1e-12)
    levels = 1 - 2.0 ** -np.array([12, 30, 52])
    tails = [usual.sf(q)[0] for q in usual.quantile(levels).T]
    np.testing.assert_allclose(tails, 1 - levels, rtol=1e-11)
    assert usual.quantile(levels[-1]).shape == (1,)
    narrow = fm.recalibration.Rescaled(fm.Laplace([1.0], 1.0), 1e-170)
    np.testing.assert_allclose(narrow.crps([-1e250]), 1e250, rtol=1e-12)
    wide = fm.recalibration.Rescaled(fm.Laplace([0.0], 1e-170), 1e170)
    np.testing.assert_allclose(wide.variance, 2.0, rtol=1e-12)


def test_mixtures_of_means_at_both_ends_of_doubles():
    mixture = fm.Mixture([fm.Gaussian([1e308], 1.0), fm.Gaussian([-1e308], 1.0)])
    np.testing.assert_allclose(mixture.crps([1e308]), 5e307, rtol=1e-12)


@pytest.mark.parametrize(
    ("weight", "mean", "std", "y"),
    [
        (1e-16, 5.0, 1e284, 0.3),
        (1e-12, 1e9, 2.0, -0.5),
        (1e-9, 7.0, 1e40, 0.0),
        (1e-7, 0.0, 1e9, 2.0),
    ],
)
def test_a_component_of_almost_no_weight_far_out_scores_its_square(weight, mean, std, y):
    """``w A_1 - w (1 - w) A_1`` is ``w^2 A_1``: a difference of doubles loses it."""
    mp = pytest.importorskip("mpmath").mp

    def absolute(m, s):
        return s * mp.sqrt(2 / mp.pi) * mp.exp(-((m / s) ** 2) / 2) + m * mp.erf(m / s / mp.sqrt(2))

    with mp.workdps(80):
        w = mp.mpf(weight) / (mp.mpf(weight) + mp.mpf(1 - weight))
        parts = [(1 - w, mp.mpf(0), mp.mpf(1)), (w, mp.mpf(mean), mp.mpf(std))]
        expected = mp.fsum(v * absolute(y - m, s) for v, m, s in parts)
        for v, m, s in parts:
            for u, n, t in parts:
                expected -= v * u * absolute(m - n, mp.sqrt(s * s + t * t)) / 2
    mixture = fm.Mixture([fm.Gaussian([0.0], 1.0), fm.Gaussian([mean], std)], [1 - weight, weight])
    np.testing.assert_allclose(mixture.crps([y]), float(expected), rtol=1e-9)


def test_variance_of_a_mixture_whose_squares_overflow_without_their_weight():
    mixture = fm.Mixture([fm.Gaussian([-4e154], 1.0), fm.Gaussian([0.0], 1.0)], [0.05, 0.95])
    np.testing.assert_allclose(mixture.variance, 0.05 * 0.95 * 4e154 * 4e154, rtol=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "y"), [(1.8e10, 1.36e4, 0.999999), (3.0e5, 2.0e7, 0.0139), (2e8, 1e-8, 0.999997)]
)
def test_far_tails_of_beta_distributions_of_large_shapes(a, b, y):
    """The power series there needs as many terms as the larger shape: it was cut, and took a minute."""
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(40):
        a_, b_, y_ = mp.mpf(a), mp.mpf(b), mp.mpf(y)
        log_power = a_ * mp.log(y_) + b_ * mp.log1p(-y_)
        log_power -= mp.loggamma(a_) + mp.loggamma(b_) - mp.loggamma(a_ + b_)

        def integrand(t):  # of the density over that at y, from y downwards in t = log(y / x)
            x = y_ * mp.exp(-t)
            return mp.exp(-a_ * t + (b_ - 1) * (mp.log1p(-x) - mp.log1p(-y_)))

        step = 1 / (a_ - b_ * y_ / (1 - y_))
        ends = [step * k for k in (0, 2, 5, 10, 20, 40, 80, 160)]
        expected = mp.exp(log_power) / (1 - y_) * mp.quad(integrand, ends)
    beta = fm.Beta([a], b)
    assert 1e-307 < expected < 1e-20
    np.testing.assert_allclose(beta.cdf([y]), float(expected), rtol=1e-9)
    np.testing.assert_allclose(beta.quantile(float(expected)), y, rtol=1e-12)


def test_count_scores_of_far_outliers_by_plain_sums():
    """Return the integral of (F - 1{y <= t})^2 over the first 200 counts, from exact masses."""
    from math import exp, lgamma, log

    for mean in (1e-4, 0.01, 1.0):
        masses = [exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(200)]
        for y in (3, 25, 60, 150):
            below = np.cumsum(masses)
            above = np.cumsum(masses[::-1])[::-1]
            expected = (below[:y] ** 2).sum() + (above[y + 1 :] ** 2).sum()
            scores = fm.Poisson([mean]).crps([float(y)])[0]
            np.testing.assert_allclose(scores, expected, rtol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(2.0, 5.0), (3.758, 15.97), (6.93, 5e-6), (1e-3, 5.0)])
def test_beta_quantiles_at_tiny_levels_reach_them(a, b):
    beta = fm.Beta([a], b)
    for level in (1e-10, 1e-100, 1e-200, 1e-300):
        q = beta.quantile(level)[0]
        assert q >= 0
        before = np.nextafter(q, 0)
        close = 1 + 1e-9
        assert beta.cdf([q])[0] * close >= level
        assert q <= 5e-324 or beta.cdf([before])[0] <= level * close
    many = beta.quantile(np.linspace(0.001, 0.999, 50))  # these are marched
    assert (np.diff(many, axis=1) >= 0).all()


@pytest.mark.slow
def test_double_poisson_tails_just_inside_the_window_count_what_lies_outside():
    """Near the last count of the sums, the mass beyond was dropped: up to 38 % of the tail."""
    from math import lgamma, log

    for mu, phi in ((5.0, 0.05), (20.0, 0.3), (300.0, 1.0), (0.5, 2.0)):
        counts = range(0, 6000)
        logs = np.array([
            -lgamma(k + 1) - k + (k * log(k) if k else 0.0)
            - phi * ((k * log(k / mu) if k else 0.0) + mu - k)
            for k in counts
        ])  # fmt: skip
        masses = np.exp(logs - logs.max())
        masses /= masses.sum()
        above = np.cumsum(masses[::-1])[::-1] - masses
        below = np.cumsum(masses)
        tail_counts = np.flatnonzero((above > 1e-40) & (above < 1e-8))
        one = fm.DoublePoisson(np.full(len(tail_counts), mu), phi)
        np.testing.assert_allclose(one.sf(tail_counts), above[tail_counts], rtol=1e-9)
        tail_counts = np.flatnonzero((below > 1e-40) & (below < 1e-8))
        if len(tail_counts):  # below a small mean lies too much
            one = fm.DoublePoisson(np.full(len(tail_counts), mu), phi)
            np.testing.assert_allclose(one.cdf(tail_counts), below[tail_counts], rtol=1e-9)


def test_truncated_to_a_narrow_interval_keeps_its_digits():
    high = 1 + 1e-9
    width = high - 1.0
    narrow = fm.Truncated(fm.Gaussian([0.0], 1.0), 1.0, high)
    np.testing.assert_allclose(narrow.std, width / np.sqrt(12), rtol=1e-9)
    np.testing.assert_allclose(narrow.crps([1.0]), width / 3, rtol=1e-8)
    np.testing.assert_allclose(narrow.log_prob([1.0]), -np.log(width), rtol=1e-9)
    y = 1.0 + width / 4
    np.testing.assert_allclose(narrow.cdf([y]), (y - 1) / width, rtol=1e-8)
    np.testing.assert_allclose(narrow.sf([y]), 1 - (y - 1) / width, rtol=1e-8)
    at_zero = fm.Truncated(fm.Gaussian([0.0], 1.0), 0.0, 1e-12)  # doubles are fine there
    np.testing.assert_allclose(at_zero.quantile([0.25, 0.5]), [[0.25e-12, 0.5e-12]], rtol=1e-9)
    np.testing.assert_allclose(at_zero.mean, 0.5e-12, rtol=1e-9)


@pytest.mark.parametrize("gap", [1e-5, 1e-9, 1e-12, 1e-200])
def test_truncated_keeps_its_digits_beside_its_ends(gap):
    """Differences of two cdfs were rounding: off by 1e-4 at 1e-12 from the end, and 0 at 1e-16."""
    height = np.sqrt(2 / np.pi)
    half_line = fm.Truncated(fm.Gaussian([0.0], 1.0), 0.0)
    np.testing.assert_allclose(half_line.cdf([gap]), height * gap, rtol=1e-10)
    np.testing.assert_allclose(half_line.cdf_below([gap]), height * gap, rtol=1e-10)
    mirrored = fm.Truncated(fm.Gaussian([0.0], 1.0), -np.inf, 0.0)
    np.testing.assert_allclose(mirrored.cdf([-gap]), 1.0, rtol=height * gap + 1e-15)
    between = fm.Truncated(fm.Gaussian([0.0], 1.0), -1.0, 0.0)
    expected = gap / np.sqrt(2 * np.pi) / 0.341344746068542949
    np.testing.assert_allclose(between.sf([-gap]), expected, rtol=1e-10)
    far = fm.Truncated(
        fm.Mixture([fm.Gaussian([-20.0], 1.0), fm.Laplace([-20.0], 1.0)]), -20.0, 0.0
    )
    slope = (1 / np.sqrt(2 * np.pi) + 0.5) / (1 - np.exp(-20) / 2)
    np.testing.assert_allclose(far.cdf([-20.0 + 2**-30]), slope * 2**-30, rtol=1e-8)
    flat = fm.Truncated(fm.Uniform([-1.0], 2.0), 0.0, 2.0)
    np.testing.assert_allclose(flat.cdf([gap]), gap / 2, rtol=1e-12)
    np.testing.assert_allclose(half_line.quantile(height * gap), gap, rtol=1e-9)
    np.testing.assert_allclose(between.upper_quantiles_at(np.array([expected]))[0], -gap, rtol=1e-9)
    rows = half_line.take(np.zeros(3, np.intp)).quantile([0.5, height * gap, 0.9])
    np.testing.assert_allclose(rows[2], [0.674489750196082, gap, 1.64485362695147], rtol=1e-9)


@pytest.mark.parametrize("sigma", [1e-5, 1e-9])
@pytest.mark.parametrize("mu", [-300.0, 50.0, 650.0])
def test_log_normal_beside_a_median_far_from_one(mu, sigma):
    """The rounding of log y, 5e-14 at y = 1e282, was divided by sigma."""
    median = np.exp(mu)
    y = median * (1 + sigma * np.array([-2.0, -0.5, 0.0, 1.0]))
    z = np.log1p((y - median) / median) / sigma
    prediction = fm.LogNormal(np.full(4, mu), sigma)
    unit = 2.0**-51 / sigma
    np.testing.assert_allclose(prediction.cdf(y), scipy.special.ndtr(z), rtol=0, atol=0.4 * unit)
    np.testing.assert_allclose(prediction.sf(y), scipy.special.ndtr(-z), rtol=0, atol=0.4 * unit)
    expected = -z * z / 2 - np.log(y) - np.log(sigma * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(prediction.log_prob(y), expected, rtol=0, atol=2 * unit + 1e-12)


@pytest.mark.slow
def test_truncated_between_the_modes_of_a_mixture():
    both = fm.Mixture([fm.Gaussian([0.0], 0.1), fm.Gaussian([10.0], 0.1)])
    between = fm.Truncated(both, 1.0, 5.0)  # both cdfs are 1/2 to rounding
    tail = fm.Truncated(fm.Gaussian([0.0], 0.1), 1.0, 5.0)
    for y in (1.001, 1.01, 1.05):
        np.testing.assert_allclose(between.sf([y]), tail.sf([y]), rtol=1e-9)
    for level in (1e-9, 0.5):
        np.testing.assert_allclose(between.quantile(level), tail.quantile(level), rtol=1e-12)


def test_ends_that_differ_in_late_digits_stay_distinct():
    with pytest.raises(ValueError, match=r"in \[100000, 100000\.00001\] in row 0"):
        fm.Truncated(fm.Gaussian([0.0], 1.0), 100000.0, 100000.00001)
    with pytest.raises(ValueError, match=r"low is 100000\.00001 and high is 100000 in row 0"):
        fm.Truncated(fm.Gaussian([0.0], 1.0), 100000.00001, 100000.0)
    with pytest.raises(ValueError, match=r"low is 1 and high 0\.9999999 in row 0"):
        fm.Uniform([1.0], 0.9999999)


@pytest.mark.parametrize("scale", [1e-250, 1e-170, 1e170, 1e250])
def test_standard_deviations_whose_squares_leave_the_range(scale):
    draws = scale * np.array([[1.0, 2.0, 4.0, 9.0]])
    cases = [
        (fm.Laplace([0.0], scale), np.sqrt(2)),
        (fm.StudentT(4.0, [0.0], scale), np.sqrt(2)),
        (fm.Uniform([0.0], scale), 1 / np.sqrt(12)),
        (fm.Gamma([4.0], scale=scale), 2.0),
        (fm.LogNormal([np.log(scale)], 0.5), np.sqrt(np.exp(0.25) * np.expm1(0.25))),
        (fm.Draws(draws), np.std([1.0, 2.0, 4.0, 9.0])),
        (fm.Categorical([[0.5, 0.5]], [0.0, 2 * scale]), 1.0),
        (fm.Mixture([fm.Gaussian([0.0], scale), fm.Gaussian([2 * scale], scale)]), np.sqrt(2)),
        (fm.ZeroInflated(fm.Gaussian([scale], scale), 0.5), np.sqrt(0.75)),
        (fm.Quantiles([0.25, 0.75], [[0.0, scale]], tails="flat"), 1 / np.sqrt(6)),
        (fm.Truncated(fm.Gaussian([0.0], scale), 0.0), np.sqrt(1 - 2 / np.pi)),
    ]
    for prediction, expected in cases:
        np.testing.assert_allclose(
            prediction.std / scale, expected, rtol=1e-9, err_msg=repr(prediction)
        )
    y, p = scale * np.array([1.0, 2.0, 4.0, 3.0]), scale * np.array([1.1, 2.3, 3.5, 3.0])
    np.testing.assert_allclose(fm.metrics.rmse(y, p) / scale, 0.2958039891549808, rtol=1e-12)
    np.testing.assert_allclose(fm.metrics.r2(y, p), 0.93, rtol=1e-12)
    np.testing.assert_allclose(fm.metrics.pearson(y, p), 0.9802514955924523, rtol=1e-12)
    for stream, expected in ((fm.streaming.R2, 0.93), (fm.streaming.Pearson, 0.9802514955924523)):
        parts = stream().update(y[:2], p[:2]).update(y[2:], p[2:])
        np.testing.assert_allclose(parts.compute(), expected, rtol=1e-12)


def test_equal_draws_have_no_variance():
    """The mean of equal numbers rounds, so they had a variance."""
    assert fm.Draws([[0.1] * 6, [1e140] * 6]).variance.tolist() == [0.0, 0.0]
    levels = [0.1, 0.2, 0.4, 0.7]
    assert fm.Quantiles(levels, [[4.17e123] * 4]).std.tolist() == [0.0]


def test_student_tails_of_few_degrees_of_freedom():
    heavy = fm.StudentT(0.005, [0.0, 0.0], 1.0)
    upper = heavy.sf([1e170, 1e-200])
    np.testing.assert_allclose(heavy.cdf([1e170, 1e-200]), 1 - upper, rtol=1e-12)
    assert 0.05 < upper[0] < 0.15
    cauchy = fm.StudentT(1.0, [0.0], 1.0)
    for y in (1e-8, 7e-8, 1e-5, 1e-3):  # SciPy loses half of the digits there
        np.testing.assert_allclose(cauchy.cdf([y])[0] - 0.5, np.arctan(y) / np.pi, rtol=1e-7)
    q = fm.StudentT(0.02, [0.0], 1e-250).quantile(0.01)[0]
    np.testing.assert_allclose(fm.StudentT(0.02, [0.0], 1e-250).cdf([q]), 0.01, rtol=1e-9)


def test_gamma_where_rate_times_outcome_underflows():
    small = fm.Gamma([1e-4], 1e-200)
    np.testing.assert_allclose(small.cdf([1e-200]), 10.0 ** (-400e-4), rtol=1e-3)
    np.testing.assert_allclose(small.cdf([1e-200]) + small.sf([1e-200]), 1.0, rtol=1e-15)
    assert fm.Gamma([2e6], 0.28).cdf([1e219]).tolist() == [1.0]


def test_memo_keeps_the_small_tails_of_its_base():
    y = np.array([10.0])
    base = fm.Gaussian([0.0], 1.0)
    assert Memo(base, y).sf(y)[0] == base.sf(y)[0] > 0


BAD = {
    "NaN": [[np.nan, 0.5, 0.5], [0.2, 0.3, 0.5]],
    "negative": [[-5.0, 5.5, 0.5], [0.2, 0.3, 0.5]],
    "above one": [[7.0, -3.0, -3.0], [0.2, 0.3, 0.5]],
    "not summing to one": [[0.7, 0.7, 0.7], [0.2, 0.3, 0.5]],
    "NaN of class 1": [np.nan, 0.5],
    "class 1 above one": [7.0, 0.5],
}


@pytest.mark.parametrize("bad_value", BAD)
def test_streamed_classification_refuses_what_are_no_probabilities(bad_value):
    kinds_tried = 0
    for name in fm.streaming.__all__:
        kind = getattr(fm.streaming, name)
        if "classification" not in kind.__module__:
            continue
        for options in ({}, {"binning": "mass"}):
            if not set(options) <= set(inspect.signature(kind).parameters):
                continue
            first = BAD[bad_value] if name == "UncertaintyHistogram" else [0, 1]
            with pytest.raises(ValueError, match="p"):
                kind(**options).update(first, BAD[bad_value])
            kinds_tried += 1
    assert kinds_tried > 10


@pytest.mark.parametrize("method", ["cdf", "sf", "log_prob", "crps", "quantile", "cdf_below"])
@pytest.mark.parametrize(
    "value",
    [["0.5"], "0.5", np.array([0.5 + 2j]), np.ma.array([0.5], mask=[True]), None],
    ids=["strings", "string", "complex", "masked", "none"],
)
def test_predictive_methods_read_their_arguments_as_others_do(method, value):
    for prediction in (fm.Gaussian([0.0], 1.0), fm.Poisson([1.0]), fm.Categorical([[0.5, 0.5]])):
        with pytest.raises((ValueError, TypeError), match=r"^(y|level)"):
            getattr(prediction, method)(value)


def test_ranges_wider_than_the_largest_double_are_refused():
    with pytest.raises(ValueError, match=r"low is -1e\+308 and high 1e\+308 in row 0"):
        fm.Uniform([-1e308], 1e308)


def test_lower_tails_of_negative_binomials_of_small_dispersion():
    """They were differences from 1, so 0 or 1e-16; here they are sums of exact masses."""
    mpmath = pytest.importorskip("mpmath")
    mean, dispersion = 932.25, 1e-9
    with mpmath.workdps(40):
        size = 1 / mpmath.mpf(dispersion)
        odds = mpmath.mpf(dispersion) * mpmath.mpf(mean)
        for k in (250, 600, 690):
            mass = mpmath.exp(
                mpmath.loggamma(k + size) - mpmath.loggamma(size) - mpmath.loggamma(k + 1)
                - size * mpmath.log1p(odds) + k * mpmath.log(odds / (1 + odds))
            )  # fmt: skip
            total = mpmath.mpf(0)
            for j in range(k, 0, -1):
                total += mass
                mass *= j * (1 + odds) / (odds * (size + j - 1))
            actual = fm.NegativeBinomial([mean], dispersion).cdf([k])[0]
            assert abs(actual / total - 1) < 1e-11
    assert fm.NegativeBinomial([mean], dispersion).quantile(1e-155)[0] == 250


@pytest.mark.parametrize("mean", [1e6, 1e11])
def test_quantiles_of_poissons_that_all_have_large_means(mean):
    quantiles = fm.Poisson([mean]).quantile([1e-200, 0.3, 0.999])
    below = fm.Poisson([mean] * 3)
    assert (below.cdf(quantiles[0]) >= [1e-200, 0.3, 0.999]).all()
    assert (below.cdf(quantiles[0] - 1) < [1e-200, 0.3, 0.999]).all()


def test_log_normals_whose_exponential_of_the_variance_overflows():
    np.testing.assert_allclose(
        fm.LogNormal([-393.98945965683293], 27.172840837484028).std,
        3.6278517413303118e149,
        rtol=1e-11,
    )
    # On either side of the change of form.
    np.testing.assert_allclose(
        fm.LogNormal([0.0, 0.0], [1.0 - 1e-12, 1.0 + 1e-12]).std,
        np.sqrt(np.e**2 - np.e),
        rtol=1e-11,
    )


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e160, 1e300])
def test_metrics_of_any_unit(unit):
    """Lengths scale with the unit, and pure numbers stay; squares used to overflow."""
    rng = np.random.default_rng(0)
    y, w = rng.normal(size=50), rng.random(50)
    mean, std = y + 0.3 * rng.normal(size=50), np.exp(rng.normal(size=50))
    draws = rng.normal(size=(50, 6, 2))
    m = fm.metrics

    def numbers(unit):
        right = fm.Gaussian(mean * unit, std * unit)
        vectors = np.stack([y, mean], axis=1) * unit, fm.Draws(draws * unit)
        lengths = [
            m.sharpness(y * unit, right, sample_weight=w),
            m.rmse(y * unit, right, sample_weight=w),
            m.mean_check_score(y * unit, right),
            m.mean_interval_score(y * unit, right),
            m.mean_crps(y * unit, right),
            m.mean_energy_score(*vectors),
            m.mean_energy_score(*vectors, beta=0.5) ** 2,
        ]
        unitless = [
            m.r2(y * unit, right),
            m.pearson(y * unit, mean),
            m.pearson(y, mean * unit),
            m.mean_dawid_sebastiani(y * unit, right) - 2 * np.log(unit),
        ]
        return np.array([*(np.array(lengths) / unit), *unitless])

    np.testing.assert_allclose(numbers(unit), numbers(1.0), rtol=1e-12, atol=1e-12)


def test_means_whose_sums_overflow():
    large = np.full(24, 1.5e308)
    zero = np.zeros(24)
    assert fm.metrics.mae(large, zero) == 1.5e308
    assert fm.metrics.bias(zero, large, sample_weight=np.full(24, 1e90)) == pytest.approx(
        1.5e308, rel=1e-15
    )
    assert fm.metrics.median_absolute_error(large, zero) == 1.5e308
    assert fm.metrics.mean_crps(large, (zero, 1.0)) == 1.5e308
    assert fm.metrics.sharpness(zero, (zero, large)) == 1.5e308


def test_one_far_outcome_leaves_scores_that_are_doubles():
    y = np.array([0.0, 1e308, 0.5])
    prediction = fm.Gaussian([0.1, 0.2, 0.3], 0.25)
    np.testing.assert_allclose(fm.metrics.check_score(y, prediction)[1], 0.5e308, rtol=1e-12)
    assert fm.metrics.pearson(y, prediction) == pytest.approx(0.0, abs=1e-12)


def test_streamed_sums_of_unlike_units_are_joined():
    rng = np.random.default_rng(1)
    y, mean, std = rng.normal(size=50), rng.normal(size=50), np.ones(50)
    for name in ("MAE", "RMSE", "R2", "Pearson", "Sharpness"):
        stream = getattr(fm.streaming, name)()
        stream.update(y * 1e200, (mean, std)).update(y, (mean * 1e-200, std * 1e200))
        expected = getattr(fm.metrics, name.lower())(
            np.r_[y * 1e200, y], (np.r_[mean, mean * 1e-200], np.r_[std, std * 1e200])
        )
        assert stream.compute() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    "name", ["Gaussian", "Poisson", "NegativeBinomial", "DoublePoisson", "Mixture"]
)
def test_parts_without_rows(name):
    """The package splits blocks of rows by case, and a case may have no rows."""
    one = {
        "Gaussian": lambda: fm.Gaussian([0.0, 1.0], 1.0),
        "Poisson": lambda: fm.Poisson([1.0, 2.0]),
        "NegativeBinomial": lambda: fm.NegativeBinomial([1.0, 2.0], 0.5),
        "DoublePoisson": lambda: fm.DoublePoisson([1.0, 2.0], 0.5),
        "Mixture": lambda: fm.Mixture([fm.Gaussian([0.0, 1.0], 1.0), fm.Gaussian([0.0, 1.0], 2.0)]),
    }[name]()
    assert one.take(np.empty(0, dtype=np.intp)).shape == (0,)
    assert (one.crps([np.inf, np.inf]) == np.inf).all()
    assert fm.ZeroInflated(one, 0.5).take(np.empty(0, dtype=np.intp)).shape == (0,)


def test_beta_far_tails_and_quantiles_there():
    """SciPy's function underflows from 1e-276 on, and its inverse stops before it has converged."""
    mpmath = pytest.importorskip("mpmath")
    a, b = 643.8923397395371, 31.15113693910901
    for y in (0.29, 0.3098, 0.3147, 0.32):
        with mpmath.workdps(40):
            right = float(mpmath.betainc(a, b, 0, y, regularized=True))
        np.testing.assert_allclose(fm.Beta([a], b).cdf([y]), right, rtol=1e-10)
        np.testing.assert_allclose(fm.Beta([b], a).sf([1 - y]), right, rtol=1e-9)
    for shape, other, level in (
        (a, b, 5.886055862820192e-289),
        (4.387962711202568, 0.2476674038446018, 1e-75),
        (3.1966027830294417, 0.02874975350680117, 1e-55),
    ):
        at = fm.Beta([shape], other).quantile(level)
        np.testing.assert_allclose(fm.Beta([shape], other).cdf(at), level, rtol=1e-8)


def test_zero_inflated_variance_of_a_huge_mean():
    prediction = fm.ZeroInflated(fm.Gaussian([-6e218], 0.25), 0.0)
    np.testing.assert_allclose(prediction.variance, 0.0625, rtol=1e-12)


def test_negative_binomials_of_huge_dispersion():
    """Nearly all outcomes are 0: the score of 3 is 3."""
    for dispersion in (1e19, 1e21, 1e150, 1e250, 1e300):
        prediction = fm.NegativeBinomial([1.0], dispersion)
        np.testing.assert_allclose(prediction.crps([3.0]), 3.0, rtol=1e-12)
    with pytest.raises(ValueError, match="dispersion has values up to"):
        fm.NegativeBinomial([1.0], 1e308)


@pytest.mark.parametrize(
    ("a", "b", "level"),
    [
        (284557291956.5, 7273305389.9, 0.89),
        (3e6, 4e6, 1 - 1e-9),
        (1e10, 1e10, 1e-5),
        (7e9, 3e11, 0.5),
    ],
)
def test_beta_quantiles_of_large_shapes_are_right_to_rounding(a, b, level):
    """SciPy's quantiles were off by 10,000 units of rounding, which is 1e-5 of the level."""
    beta = fm.Beta([a], b)
    q = beta.quantile(level)
    apart = 8 * np.spacing(q)
    if level < 0.9:
        assert beta.cdf(q - apart)[0] < level < beta.cdf(q + apart)[0]
    else:
        assert beta.sf(q - apart)[0] > 1 - level > beta.sf(q + apart)[0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_an_evaluation_of_standard_deviations_whose_squares_leave_the_range(scale):
    rng = np.random.default_rng(0)
    std = 0.5 + rng.random(50)
    y = std * rng.normal(size=50)
    usual = fm.evaluate(y, fm.Gaussian(np.zeros(50), std))
    evaluation = fm.evaluate(y * scale, fm.Gaussian(np.zeros(50), std * scale))
    assert {"ence", "null_ence", "uce"} == set(evaluation.skipped) - set(usual.skipped)
    assert "another unit" in evaluation.skipped["ence"]
    for name in ("sharpness", "rmse", "mean_crps"):
        np.testing.assert_allclose(evaluation[name] / scale, usual[name], rtol=1e-9)
    np.testing.assert_allclose(
        evaluation["variance_variation"], usual["variance_variation"], rtol=1e-9
    )
    shifted_score = usual["mean_dawid_sebastiani"] + 2 * np.log(scale)
    np.testing.assert_allclose(evaluation["mean_dawid_sebastiani"], shifted_score, rtol=1e-9)
    ence = fm.metrics.ence(y * scale, (np.zeros(50), std * scale))  # a ratio: right in any unit
    assert ence == pytest.approx(usual["ence"], rel=1e-9)
    with pytest.raises(ValueError, match="unit"):
        fm.metrics.uce(y * scale, (np.zeros(50), std * scale))


def test_draws_of_a_gamma_whose_unit_draws_underflow():
    """A third of the draws, from 1e-31 to 1e-16, were 0."""
    prediction = fm.Gamma([0.0006949011487007275], 4.8818830243205364e-294)
    draws = prediction.sample(4000, 0)[0]
    for y in (1e-300, 1e-100, 1e-28, 1e100, 1e290):
        assert np.mean(draws <= y) == pytest.approx(prediction.cdf([y])[0], abs=0.03)


def test_a_rare_narrow_component_far_from_a_wide_one():
    """The score of a right component, 10^400 standard deviations from the other one, was NaN."""
    parts = [fm.Gaussian([1e135], 3.0), fm.Gaussian([0.0], 1e-283)]
    weight = 2.0**-53
    score = fm.Mixture(parts, [1 - weight, weight]).crps([1e135])
    np.testing.assert_allclose(score, weight**2 * 1e135, rtol=1e-9)


def test_large_counts_of_little_dispersion_have_tails():
    """SciPy's incomplete beta function is off by per cents there: a cdf of 0.16 beside an sf of 1."""
    mean = 1e22
    for dispersion in (1e-30, 1e-22, 1e-10, 0.01):
        prediction = fm.NegativeBinomial([mean], dispersion)
        z = np.array([-3.0, -1.0, 0.5, 2.0])
        y = np.floor(mean + z * prediction.std[0])
        cdf, sf = (np.array([f([one])[0] for one in y]) for f in (prediction.cdf, prediction.sf))
        np.testing.assert_allclose(cdf + sf, 1, rtol=1e-12)
        if dispersion < 1e-9:  # nearly Gaussian
            np.testing.assert_allclose(cdf, scipy.special.ndtr(z), rtol=1e-4)
        else:  # nearly gamma
            expected = scipy.special.gammainc(1 / dispersion, y / (mean * dispersion))
            np.testing.assert_allclose(cdf, expected, rtol=1e-9)


@pytest.mark.parametrize("df", [1e-3, 0.5, 1.0])
def test_moments_of_a_truncated_tail_without_moments(df):
    """They were 1.7e17, or an error because quantiles overflow."""
    base = fm.StudentT(df, [0.0] * 4, 1.0)
    part = fm.Truncated(base, [-1.0, -np.inf, -np.inf, -1.0], [np.inf, 2.0, np.inf, 2.0])
    np.testing.assert_array_equal(part.mean[:3], [np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(part.std[:3], [np.inf, np.inf, np.nan])
    assert -1 < part.mean[3] < 2
    assert 0 < part.std[3] < 3
    light = fm.Truncated(fm.StudentT(1.5, [0.0], 1.0), -1.0, np.inf)
    assert np.isfinite(light.mean[0])
    assert light.std[0] == np.inf


def test_expectations_of_beta_distributions_whose_densities_overflow():
    """SciPy's density raised an OverflowError at shapes below 0.045."""
    a = np.geomspace(1e-4, 1.0, 9)
    for prediction in (fm.Beta(a, 2.0), fm.Beta(2.0, a)):
        values, weights = prediction.nodes()
        np.testing.assert_allclose((weights * values).sum(axis=1), prediction.mean, rtol=1e-6)
        second = prediction.variance + prediction.mean**2
        np.testing.assert_allclose((weights * values**2).sum(axis=1), second, rtol=1e-6)
