"""Conditioning of tests: calibration given the forecast agrees with the unbiased SKCE; given kernels."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference.conditioning import inputs_of


def forecasts(rng, n=60):
    mean, std = rng.standard_normal(n), np.exp(0.3 * rng.standard_normal(n))
    y = mean + 0.4 + std * rng.standard_normal(n)
    return y, mean, std


def products(y, mean, std, gamma):
    """Return ``h_ij = <e_i, e_j>`` (n, n) of residuals of Gaussian forecasts under an RBF kernel."""

    def expected(a, b, variance):
        spread = 1 + 2 * gamma * variance
        return np.exp(-gamma * (a[:, None] - b) ** 2 / spread) / np.sqrt(spread)

    v = std**2
    cross = expected(mean, y, v[:, None])  # E k(Y_i, y_j)
    return expected(y, y, 0.0) - cross - cross.T + expected(mean, mean, v[:, None] + v)


def unbiased_skce(k, y, mean, std, gamma):
    """Return the mean of ``k_ij h_ij`` over i != j, by its definition (Widmann et al. 2021)."""
    h, n = products(y, mean, std, gamma), len(y)
    return ((k * h).sum() - np.trace(k * h)) / (n * (n - 1))


def test_excess_given_the_forecast_is_the_unbiased_skce(rng):
    """For a large regulariser S is K^2 / (n^3 lam^2): mean excess and SKCE under K^2 / n agree."""
    y, mean, std = forecasts(rng)
    n, lam, gamma, prediction = len(y), 1e4, 0.7, fm.Gaussian(mean, std)
    conditioned, name = inputs_of("forecast", np.zeros((n, 1)), y[:, None], prediction)
    assert name == "forecast"
    np.testing.assert_allclose(conditioned, np.stack([mean, np.log(std)], axis=1))
    kernel = fm.RBF(0.5)
    k = kernel(conditioned)
    skce = unbiased_skce(k @ k / n, y, mean, std, gamma)
    limit = skce * (n - 1) / n / lam**2
    options = {"x_kernel": kernel, "y_kernel": fm.RBF(gamma), "lam": lam}
    excess = fm.cce(conditioned, y, prediction, **options, tol=1e-10).excess.mean()
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


def naive_ckce(k, y, mean, std, gamma, lam):
    """Return ``|C_y - C_f|_HS`` from the two operators, with the feature map of k by its eigenvectors.

    An operator maps features of forecasts, ``U s^(1/2)``, to those of outcomes: ``E' (K + n lam)^-1 Phi``.
    """
    values, vectors = np.linalg.eigh(k)
    phi = vectors * np.sqrt(np.maximum(values, 0))
    operator = np.linalg.solve(
        k + len(y) * lam * np.eye(len(y)), phi
    )  # E' of it, E of any dimension
    h, directions = np.linalg.eigh(products(y, mean, std, gamma))
    e = directions * np.sqrt(np.maximum(h, 0))
    return np.linalg.norm(e.T @ operator)  # of a matrix: the Hilbert-Schmidt norm


@pytest.mark.slow
def test_forecast_gives_the_published_measures(rng):
    y, mean, std = forecasts(rng)
    lam, gamma, kernel = 0.01, 0.7, fm.RBF(0.5)
    options = {"y_kernel": fm.RBF(gamma), "lam": lam, "simulations": 3999, "random_state": 0}
    test = fm.congruence_test(
        np.zeros(len(y)), y, (mean, std), kernel, condition_on="forecast", **options
    )
    k = kernel(np.stack([mean, np.log(std)], axis=1))
    assert test.skce == pytest.approx(unbiased_skce(k, y, mean, std, gamma), rel=0.02)
    assert test.ckce == pytest.approx(naive_ckce(k, y, mean, std, gamma, lam), rel=0.005)
    right = [
        naive_ckce(k, mean + std * rng.standard_normal(len(y)), mean, std, gamma, lam) ** 2
        for _ in range(300)
    ]
    assert test.null_ckce == pytest.approx(np.sqrt(np.mean(right)), rel=0.03)
    assert test.to_dict()["ckce"] == test.ckce
    assert f"CKCE {test.ckce:.3g}" in repr(test)


@pytest.mark.slow
def test_published_measures_of_a_calibrated_model_are_chance(rng):
    """The unbiased SKCE has mean 0; the CKCE has the mean of simulated samples."""
    skce, ckce = [], []
    for run in range(60):
        _, mean, std = forecasts(rng)
        y = mean + std * rng.standard_normal(len(mean))
        test = fm.congruence_test(
            mean, y, (mean, std), condition_on="forecast", simulations=39, random_state=run
        )
        skce.append(test.skce)
        ckce.append((test.ckce / test.null_ckce) ** 2)
    assert abs(np.mean(skce)) < 4 * np.std(skce) / np.sqrt(60)
    assert abs(np.mean(ckce) - 1) < 4 * np.std(ckce) / np.sqrt(60)
    given_x = fm.congruence_test(mean, y, (mean, std), simulations=39)
    assert (given_x.skce, given_x.ckce) == (None, None)
    assert "CKCE" not in repr(given_x)


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


@pytest.mark.parametrize("columns", [1, 2])
def test_right_draws_are_calibrated_given_their_forecast(rng, columns):
    """Given the mean of the draws alone, their exchange with y rejected right predictions always."""
    rejected = 0
    for run in range(10):
        values = rng.standard_normal((200, 6, columns))
        test = fm.congruence_test(
            np.zeros(200),
            values[:, 0],
            values[:, 1:],
            condition_on="forecast",
            simulations=39,
            random_state=run,
        )
        rejected += test.p_value <= 0.1
    assert rejected <= 4  # a valid test exceeds 4 with probability 0.002
    test = fm.congruence_test(
        np.zeros(200), values[:, 0] + 0.5, values[:, 1:], condition_on="forecast", simulations=39
    )
    assert test.p_value == 0.025
