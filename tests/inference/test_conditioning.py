"""What tests condition on: calibration given the forecast beside the unbiased SKCE; given kernels."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference.conditioning import inputs_of


def forecasts(rng, n=60):
    mean, std = rng.standard_normal(n), np.exp(0.3 * rng.standard_normal(n))
    y = mean + 0.4 + std * rng.standard_normal(n)
    return y, mean, std


def unbiased_skce(k, y, mean, std, gamma):
    """Return the mean of ``h_ij`` over i != j, k on forecasts, by its definition (Widmann et al. 2021)."""

    def expected(a, b, variance):
        spread = 1 + 2 * gamma * variance
        return np.exp(-gamma * (a[:, None] - b) ** 2 / spread) / np.sqrt(spread)

    v = std**2
    cross = expected(mean, y, v[:, None])  # E k(Y_i, y_j)
    h = expected(y, y, 0.0) - cross - cross.T + expected(mean, mean, v[:, None] + v)
    n = len(y)
    return ((k * h).sum() - np.trace(k * h)) / (n * (n - 1))


def test_excess_given_the_forecast_is_the_unbiased_skce(rng):
    """For a large regulariser S is K^2 / (n^3 lam^2): mean excess and SKCE under K^2 / n agree."""
    y, mean, std = forecasts(rng)
    n, lam, gamma, prediction = len(y), 1e4, 0.7, fm.Gaussian(mean, std)
    given, name = inputs_of("forecast", np.zeros((n, 1)), prediction)
    assert name == "forecast"
    np.testing.assert_allclose(given, np.stack([mean, np.log(std)], axis=1))
    kernel = fm.RBF(0.5)
    k = kernel(given)
    skce = unbiased_skce(k @ k / n, y, mean, std, gamma)
    limit = skce * (n - 1) / n / lam**2
    options = {"x_kernel": kernel, "y_kernel": fm.RBF(gamma), "lam": lam}
    excess = fm.cce(given, y, prediction, **options, tol=1e-10).excess.mean()
    assert excess == pytest.approx(limit, rel=1e-3)
    test = fm.congruence_test(
        np.zeros(n),
        y,
        prediction,
        condition_on="forecast",
        simulations=3999,
        random_state=0,
        **options,
    )
    assert test.excess == pytest.approx(limit, rel=0.02)


def test_given_kernels_are_used_whatever_is_conditioned_on(rng):
    y, mean, std = forecasts(rng)
    column = rng.standard_normal(len(y))
    narrow = fm.RBF(50.0)
    options = {"y_kernel": fm.RBF(1.0), "lam": 0.01, "simulations": 19, "random_state": 0}
    test = fm.congruence_test(mean, y, (mean, std), narrow, condition_on=column, **options)
    same = fm.congruence_test(column, y, (mean, std), narrow, **options)
    assert test.statistic == pytest.approx(same.statistic)
    default = fm.congruence_test(mean, y, (mean, std), condition_on=column, **options)
    assert default.statistic != pytest.approx(test.statistic, rel=0.01)
