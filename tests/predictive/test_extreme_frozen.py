"""Distributions of scipy.stats at extreme numbers and between the values of discrete ones."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

from fastmcmd.predictive import ScipyPredictive
from fastmcmd.predictive.log_symmetric import LogLaplace, LogLogistic

COUNTS = {
    "hypergeom": (np.arange(100, 106), 10, 10),
    "yulesimon": (np.arange(1.5, 7.0),),
    "skellam": (np.arange(1.5, 7.0), 2.0),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("loc", [0.0, 0.3, -7.0, 1e6 + 0.3])
def test_cdfs_and_quantiles_of_counts_do_not_depend_on_numbers_between_them(name, loc):
    shapes = COUNTS[name]
    plain = getattr(stats, name)(*shapes)
    prediction = ScipyPredictive(getattr(stats, name)(*shapes, loc=loc), 6)
    for count in (1.0, 2.0, 5.0):
        y = loc + count
        np.testing.assert_allclose(prediction.cdf(y), plain.cdf(count), rtol=1e-13)
        np.testing.assert_allclose(prediction.cdf(y + 0.5), plain.cdf(count), rtol=1e-13)
        np.testing.assert_allclose(prediction.sf(y + 0.5), plain.sf(count), rtol=1e-13)
        np.testing.assert_allclose(prediction.cdf_below(y), plain.cdf(count - 1), rtol=1e-13)
    levels = np.array([0.01, 0.3, 0.5, 0.77, 0.9, 0.99])
    values = np.arange(-30.0, 2000.0)
    below = np.stack([plain.cdf(value) for value in values])
    least = values[np.argmax(below[None] >= levels[:, None, None], axis=1)].T
    np.testing.assert_array_equal(prediction.quantile(levels), loc + least)


@pytest.mark.parametrize("family", [LogLaplace, LogLogistic])
def test_log_densities_where_ratios_leave_the_range_of_doubles(family):
    y = np.array([5e-324, 1e-300, 1e-100, 1e300, 3e-310])
    scale = np.array([1e5, 1e300, 1e300, 1e-300, 7.0])
    computed = family(scale, 1.5).log_prob(y)
    for one, unit, value in zip(y.tolist(), scale.tolist(), computed.tolist(), strict=True):
        x = 1.5 * abs(mpmath.log(mpmath.mpf(one) / mpmath.mpf(unit)))
        divisor = mpmath.log(2) if family is LogLaplace else 2 * mpmath.log1p(mpmath.exp(-x))
        expected = mpmath.log(1.5) - mpmath.log(mpmath.mpf(one)) - x - divisor
        assert value == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize("family", [LogLaplace, LogLogistic])
def test_scores_of_outcomes_far_out_are_distances(family):
    prediction = family([1.0, 1e-300, 1e5, 1.0, 1.0], 3.0)
    y = np.array([1e308, 2.0, 1e308, np.inf, -np.inf])
    np.testing.assert_allclose(prediction.crps(y), np.abs(y), rtol=1e-13)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_log_laplace_scores_near_the_median_keep_digits_for_large_shapes(side):
    shapes = np.array([1e3, 1e6, 1e9])
    y = 1 + side * 0.7 / shapes
    computed = LogLaplace(1.0, shapes).crps(y)
    with mpmath.workdps(40):
        for one, shape, value in zip(y.tolist(), shapes.tolist(), computed.tolist(), strict=True):
            z, c = mpmath.mpf(one), mpmath.mpf(shape)
            low, high = min(z, mpmath.mpf(1)), max(z, mpmath.mpf(1))
            # Integrals of F^2 below y and of (1 - F)^2 above; F = t^c / 2 below 1, 1 - t^-c / 2 above.
            expected = 1 / (4 * (2 * c + 1)) + 1 / (4 * (2 * c - 1))
            expected += (1 - low) - (1 - low ** (c + 1)) / (c + 1)
            expected += (high - 1) - (1 - high ** (1 - c)) / (c - 1)
            assert value == pytest.approx(float(expected), rel=1e-13)


def test_moments_are_those_of_scipy_where_a_row_has_no_nodes():
    shapes = np.array([0.01, 0.5, 5.0, 1e4])
    mean = ScipyPredictive(stats.powernorm(shapes), 4).mean
    np.testing.assert_allclose(mean[1:], stats.powernorm(shapes[1:]).mean(), rtol=1e-7)


@pytest.mark.parametrize("name", ["gumbel_r", "moyal", "norm", "landau", "laplace", "skellam"])
def test_no_density_at_infinity(name):
    shapes = (2.0, 1.0) if name == "skellam" else ()
    prediction = ScipyPredictive(getattr(stats, name)(*shapes, loc=np.zeros(3)), 3)
    logs = prediction.log_prob([-np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(logs, [-np.inf, -np.inf, np.nan])


def test_rows_by_a_mask_are_those_by_indices():
    prediction = ScipyPredictive(stats.vonmises(np.arange(1.0, 5.0)), 4)
    mask = np.array([True, False, False, True])
    part = prediction.take(mask)
    assert len(part) == 2
    np.testing.assert_array_equal(part.cdf(0.5), prediction.cdf(0.5)[mask])
