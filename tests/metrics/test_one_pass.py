"""One compiled pass over plain arrays gives the numbers and the errors of the general path."""

from __future__ import annotations

import fractions
import subprocess
import sys

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import _core, metrics
from fastmcmd.metrics import quantile_scores

POINTS = ("mae", "rmse", "bias", "marpd", "r2", "pearson")


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("n", [1, 7, 8, 513, 5000])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_points_are_those_of_the_general_path(rng, name, n, offset):
    y, point = offset + rng.normal(size=n), offset + rng.normal(size=n)
    actual = getattr(metrics, name)(y, point)
    general = getattr(metrics, name)(y[:, None], point[:, None])
    weighted = getattr(metrics, name)(y, point, sample_weight=np.ones(n))
    np.testing.assert_allclose([actual, actual], [general, weighted], rtol=1e-11, atol=1e-14)


def test_sums_are_those_of_exact_arithmetic(rng):
    y, point = 1e6 + rng.normal(size=3000), 1e6 + rng.normal(size=3000)
    sums, moments = np.empty(3), np.empty(10)
    _core.error_sums(y, point, sums)
    _core.comoments(y, point, moments)
    a, b = ([fractions.Fraction(one) for one in values.tolist()] for values in (y, point))
    gaps = [q - p for p, q in zip(a, b, strict=True)]
    mean = sum(a) / len(a), sum(b) / len(b)
    exact = [sum(gaps), sum(map(abs, gaps)), sum(gap * gap for gap in gaps)]
    np.testing.assert_allclose(sums, [float(one) for one in exact], rtol=1e-12)
    centred = [
        sum((p - mean[0]) ** 2 for p in a), sum((q - mean[1]) ** 2 for q in b),
        sum((p - mean[0]) * (q - mean[1]) for p, q in zip(a, b, strict=True)), exact[2],
    ]  # fmt: skip
    np.testing.assert_allclose(moments[2:6], [float(one) for one in centred], rtol=1e-11)
    assert moments[6:].tolist() == [y.min(), y.max(), point.min(), point.max()]


def test_relative_errors_at_the_ends_of_the_range():
    """Rows of zeros count as 0; denominators may overflow."""
    y, point = np.zeros(1300), np.zeros(1300)
    y[[3, 700]], point[[3, 1200]] = [1.0, 5e-324], [3.0, -2.0]
    assert metrics.marpd(y, point) == pytest.approx((100.0 + 200.0 + 200.0) / 1300, rel=1e-14)
    assert metrics.marpd(-np.zeros(9), np.zeros(9)) == 0.0
    y[:], point[:] = 1.7e308, -1.7e308
    y[0] = 1.7e308 / 3
    assert metrics.marpd(y, -point) == pytest.approx(100.0 / 1300)
    assert metrics.marpd(y, point) == pytest.approx(200.0)


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named(rng, name, bad):
    y, point = rng.normal(size=(2, 2000))
    with pytest.raises(ValueError, match="prediction holds"):
        getattr(metrics, name)(y, np.where(np.arange(2000) == 1500, bad, point))
    with pytest.raises(ValueError, match="y holds"):
        getattr(metrics, name)(np.where(np.arange(2000) == 1500, bad, y), point)
    with pytest.raises(ValueError, match="rows"):
        getattr(metrics, name)(y, point[:-1])


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_sums_out_of_range(rng, scale):
    y, point = rng.normal(size=(2, 500))
    for name in ("r2", "pearson"):
        assert getattr(metrics, name)(scale * y, scale * point) == pytest.approx(
            getattr(metrics, name)(y, point), rel=1e-12
        )
    assert metrics.rmse(scale * y, scale * point) == pytest.approx(scale * metrics.rmse(y, point))


@pytest.mark.parametrize("bins", [1, 3, 10])
@pytest.mark.parametrize("ties", [False, True])
def test_bins_of_equal_count_are_those_of_equal_weights(rng, bins, ties):
    """Without weights only variances are sorted; with weights of 1, rows are."""
    mean, std = rng.normal(size=2003), rng.lognormal(size=2003)
    std = np.round(std) + 1 if ties else std
    y = mean + std * rng.normal(size=2003)
    one = metrics.ence_curve(y, (mean, std), bins)
    other = metrics.ence_curve(y, (mean, std), bins, sample_weight=np.ones(2003))
    for name in ("rmv", "rmse", "mass", "edges", "null_std"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)


@pytest.mark.parametrize("shape", [0.5, 1.0, 5.9, 6.1])
def test_log_densities_of_usual_shapes(rng, shape):
    """Short sums for usual shapes, and sums without cancellation for others, agree with mpmath."""
    import mpmath as mp

    y = rng.gamma(shape, size=50) + 1e-12
    log_probs = fm.predictive.Gamma(np.full(50, shape), 1.7).log_prob(y)
    part = rng.beta(shape, 2.0, 50)
    beta = fm.predictive.Beta(np.full(50, shape), 2.0).log_prob(part)
    with mp.workdps(40):
        a, rate = mp.mpf(shape), mp.mpf(1.7)
        right = [
            a * mp.log(rate) + (a - 1) * mp.log(mp.mpf(one)) - rate * mp.mpf(one) - mp.loggamma(a)
            for one in y.tolist()
        ]
        norm = mp.log(mp.beta(a, 2))
        of_beta = [
            (a - 1) * mp.log(mp.mpf(one)) + mp.log(1 - mp.mpf(one)) - norm for one in part.tolist()
        ]
    np.testing.assert_allclose(log_probs, np.array(right, dtype=float), rtol=2e-14, atol=2e-14)
    np.testing.assert_allclose(beta, np.array(of_beta, dtype=float), rtol=2e-14, atol=2e-14)


@pytest.mark.slow
def test_nothing_is_compiled_at_first_use():
    """Evaluations of usual predictions do not load Numba."""
    code = """
        import sys
        import numpy as np
        import fastmcmd as fm
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=60), rng.normal(size=60)
        k, p = rng.poisson(3, 60), rng.dirichlet(np.ones(3), 60)
        zero = np.zeros(60)
        for prediction in (
            fm.Gaussian(zero, 1.0), fm.StudentT(3 + zero, zero, 1.0), rng.normal(size=(60, 9)),
            fm.Mixture([fm.Gaussian(zero, 1.0), fm.Gaussian(zero, 2.0)]),
            fm.predictive.Gamma(2 + zero, 1.0),
        ):
            fm.evaluate(np.abs(y), prediction, n_boot=2)
        for prediction in (
            fm.Poisson(3 + zero), fm.NegativeBinomial(3 + zero, 0.5), fm.DoublePoisson(3 + zero, 2.0)
        ):
            fm.evaluate(k, prediction)
        fm.evaluate(y, fm.Gaussian(zero, 1.0), x)
        fm.classification.evaluate(rng.integers(0, 3, 60), p)
        fm.diagnose(x, y, fm.Gaussian(zero, 1.0))
        fm.metrics.energy_score(rng.normal(size=(60, 2)), rng.normal(size=(60, 9, 2)))
        assert "numba" not in sys.modules
    """
    import textwrap

    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=300)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", [None, "qd", "fair"])
def test_crps_of_plain_draws_is_that_of_the_general_path(rng, dtype, estimator):
    y, draws = rng.normal(size=700).astype(dtype), rng.normal(size=(700, 33)).astype(dtype)
    actual = metrics.crps(y, draws, estimator=estimator)
    general = metrics.crps(y.tolist(), fm.Draws(draws), estimator=estimator)
    np.testing.assert_array_equal(actual, general)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_draws_that_are_not_finite_are_named(rng, bad):
    y, draws = rng.normal(size=700), rng.normal(size=(700, 33))
    with pytest.raises(ValueError, match="y holds"):
        metrics.crps(np.where(np.arange(700) == 500, bad, y), draws)
    draws[500, 7] = bad
    with pytest.raises(ValueError, match="prediction holds"):
        metrics.crps(y, draws)


def test_class_probabilities_are_not_read_as_plain_draws(rng):
    with pytest.raises(ValueError, match="probabilities"):
        metrics.crps(rng.integers(0, 4, 700).astype(float), rng.dirichlet(np.ones(4), 700))


def test_few_knots_are_those_of_a_search(rng):
    values = np.concatenate([rng.normal(size=100), [np.inf, -np.inf, 0.5, -1.0]])
    for count in (1, 2, 4, 5):
        knots = np.sort(np.append(rng.normal(size=count - 1), 0.5))
        pieces = quantile_scores._pieces(knots, values)
        np.testing.assert_array_equal(pieces, np.searchsorted(knots, values))


@pytest.mark.parametrize("n", [1, 7, 8, 9, 40_000])
def test_interval_scores_of_given_ends_are_those_of_the_formula(rng, n):
    y, low = rng.normal(size=(2, n))
    high = low + rng.exponential(size=n) * (rng.random(n) < 0.8)
    expected = (high - low) + 4 * (np.maximum(low - y, 0) + np.maximum(y - high, 0))
    np.testing.assert_array_equal(metrics.interval_score_from(y, low, high, level=0.5), expected)
    columns = np.stack([low, low], axis=1), np.stack([high, high], axis=1)
    levels = [0.5, 0.5]
    np.testing.assert_array_equal(metrics.interval_score_from(y, *columns, level=levels), expected)


def test_intervals_that_end_before_they_begin_are_counted_once(rng):
    low = np.zeros((40_000, 2))
    high = np.ones((40_000, 2))
    high[[3, 39_999]] = -1.0
    high[17, 1] = -1.0
    with pytest.raises(ValueError, match="lower is above upper in 3 of 40000 rows"):
        metrics.interval_score_from(low[:, 0], low, high, level=[0.5, 0.9])
