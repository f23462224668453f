"""Loops over ensembles agree with plain definitions, also where numbers are extreme or few."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import fastmcmd as fm
from fastmcmd.metrics.kernel_scores import _mean_distances
from fastmcmd.predictive.numerics.spread import central_sums

SHAPES = [(1, 1), (2, 1), (7, 3), (33, 2), (300, 1), (65, 20)]


def kernel_distance(one, other, bandwidth):
    with np.errstate(over="ignore"):
        return -np.expm1(-0.5 * np.square((one - other) / bandwidth).sum(axis=-1))


@pytest.mark.parametrize(("count", "columns"), SHAPES)
@pytest.mark.parametrize("bandwidth", [1e-300, 0.3, 1.0, 1e3, 1e300])
def test_kernel_distances_are_their_definition(rng, count, columns, bandwidth):
    values, y = rng.normal(size=(4, count, columns)), rng.normal(size=(4, columns))
    shares = rng.dirichlet(np.ones(count), size=4)
    shares[1, : count // 2] = 0.0
    shares[2] = 0.0
    apart, near = _mean_distances(values, shares, y, bandwidth)
    matrix = kernel_distance(values[:, :, None], values[:, None], bandwidth)
    np.testing.assert_allclose(apart, np.einsum("ni,nij,nj->n", shares, matrix, shares), atol=2e-16)
    of_outcome = kernel_distance(values, y[:, None], bandwidth)
    np.testing.assert_allclose(near, np.einsum("ni,ni->n", shares, of_outcome), atol=3e-16)


def test_kernel_distances_of_far_and_huge_numbers():
    values = np.array([[[1e300], [-1e300], [0.0]], [[5e-324], [0.0], [1e-310]]])
    shares = np.full((2, 3), 1 / 3)
    apart, near = _mean_distances(values, shares, np.array([1e300, 0.0]), 1.0)
    np.testing.assert_allclose(apart, [2 / 3, 0.0], atol=1e-16)
    np.testing.assert_allclose(near, [2 / 3, 0.0], atol=1e-16)


def exact_sums(row):
    """Return the mean and the sums of squares and cubes of the differences from it."""
    with mp.workdps(700):
        numbers = [mp.mpf(float(x)) for x in row]
        mean = mp.fsum(numbers) / len(numbers)
        gaps = [x - mean for x in numbers]
        return mean, mp.fsum(gap**2 for gap in gaps), mp.fsum(gap**3 for gap in gaps)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-100, 1.0, 1e100, 1e300])
@pytest.mark.parametrize("count", [1, 2, 8, 9, 50])
def test_central_sums_are_exact(rng, scale, count):
    draws = rng.normal(size=(5, count)).round(2) * 100 * scale
    unit, mean, square, cube = central_sums(draws)
    for row in range(5):
        exact = exact_sums(draws[row])
        with mp.workdps(50):
            u, size = mp.mpf(float(unit[row])), mp.mpf(float(max(abs(draws[row]))))
            assert abs(mean[row] * u - exact[0]) <= 4e-16 * size
            gaps = count * (size / u) ** 2
            assert abs(square[row] - exact[1] / u**2) <= 1e-14 * gaps
            assert abs(cube[row] - exact[2] / u**3) <= 1e-14 * gaps * (size / u)


def test_central_sums_of_equal_draws_are_zero():
    draws = np.array([[0.1] * 7, [0.0] * 7, [1e308] * 7, [5e-324] * 7])
    unit, mean, square, cube = central_sums(draws)
    assert not square.any()
    assert not cube.any()
    np.testing.assert_allclose(unit * mean, draws[:, 0], rtol=3e-16)
    float32 = central_sums(draws[:2].astype(np.float32))
    assert not float32[2].any()


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_scores_on_an_interval_are_those_of_weighted_draws(seed):
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(1, 6)), int(rng.integers(1, 40))
    draws = rng.normal(size=(n, count)).round(int(rng.integers(0, 3)))  # ties, also with the ends
    y = rng.normal(size=n).round(1)
    lower = rng.choice([-np.inf, -1.0, 0.0, 0.5])
    upper = rng.choice([np.inf, 1.0, 2.0])
    weights = fm.WeightedDraws(draws, np.ones(count))
    for weighting in ("threshold", "outcome", "vertical"):
        options = {"weighting": weighting, "lower": lower, "upper": upper}
        actual = fm.metrics.weighted_crps(y, draws, **options)
        expected = fm.metrics.weighted_crps(y, weights, **options)
        np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-15)


def test_an_interval_of_each_row_without_draws_in_some():
    draws = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    y, lower, upper = np.array([1.5, 5.5, 0.2]), [0.5, 5.0, -1.0], [9.0, 6.0, 0.1]
    scores = fm.metrics.weighted_crps(y, draws, weighting="outcome", lower=lower, upper=upper)
    # Draws 1 and 2 at 1.5: 0.25 below and above; none in (5, 6), which holds the outcome; the outcome
    # outside the interval.
    np.testing.assert_array_equal(scores, [0.25, np.nan, 0.0])
    vertical = fm.metrics.weighted_crps(y, draws, weighting="vertical", lower=lower, upper=upper)
    assert vertical[1] == pytest.approx(5.5)  # (0 - |y|) (0 - 1)


def dawid_sebastiani(y, draws, ddof):
    """Return the score of one row from its definition, in 60 digits."""
    with mp.workdps(60):
        count, columns = draws.shape
        rows = mp.matrix(draws.tolist())
        mean = [mp.fsum(rows[i, c] for i in range(count)) / count for c in range(columns)]
        gaps = mp.matrix(count, columns)
        for i in range(count):
            for c in range(columns):
                gaps[i, c] = rows[i, c] - mean[c]
        covariance = gaps.T * gaps / (count - ddof)
        error = mp.matrix([mp.mpf(float(y[c])) - mean[c] for c in range(columns)])
        square = (error.T * mp.lu_solve(covariance, error))[0]
        return float(mp.log(mp.det(covariance)) + square)


@pytest.mark.parametrize(("count", "columns"), [(3, 2), (9, 8), (12, 3), (40, 5)])
@pytest.mark.parametrize("correlation", [0.0, 0.999, 1 - 1e-12])
def test_dawid_sebastiani_of_vectors_in_sixty_digits(rng, count, columns, correlation):
    base = rng.normal(size=(4, count, 1))
    draws = correlation * base + (1 - correlation) * rng.normal(size=(4, count, columns))
    draws *= 10.0 ** rng.integers(-3, 4, size=columns)  # units of the components differ
    y = draws[:, 0] * 1.3
    gaps = draws - draws.mean(axis=1, keepdims=True)
    condition = np.linalg.cond(gaps / np.abs(gaps).max(axis=1, keepdims=True)).max()
    for ddof in (0, 1):
        actual = fm.metrics.dawid_sebastiani(y, draws, ddof=ddof)
        expected = [dawid_sebastiani(y[i], draws[i], ddof) for i in range(4)]
        np.testing.assert_allclose(actual, expected, rtol=2e-15 * condition * count)


@pytest.mark.parametrize("scale", [1e-290, 1e290])
def test_dawid_sebastiani_of_extreme_units(rng, scale):
    draws, y = rng.normal(size=(3, 20, 2)), rng.normal(size=(3, 2))
    plain = fm.metrics.dawid_sebastiani(y, draws)
    scaled = fm.metrics.dawid_sebastiani(y * scale, draws * scale)
    np.testing.assert_allclose(scaled, plain + 4 * np.log(scale), rtol=1e-12)
    numbers = fm.metrics.dawid_sebastiani(y[:, 0] * scale, draws[..., 0] * scale)
    plain = fm.metrics.dawid_sebastiani(y[:, 0], draws[..., 0])
    np.testing.assert_allclose(numbers, plain + 2 * np.log(scale), rtol=1e-12)


def test_one_singular_row_among_many_is_named(rng):
    draws, y = rng.normal(size=(50, 10, 3)), rng.normal(size=(50, 3))
    draws[37, :, 2] = 2 * draws[37, :, 0] - draws[37, :, 1]
    with pytest.raises(ValueError, match="row 37 that do not span its 3 components"):
        fm.metrics.dawid_sebastiani(y, draws)


def test_threads_do_not_change_a_bit(rng, monkeypatch):
    draws, y = rng.normal(size=(4000, 30, 2)), rng.normal(size=(4000, 2))
    numbers, outcome = draws[..., 0], y[:, 0]
    calls = (
        lambda: fm.metrics.dawid_sebastiani(y, draws),
        lambda: fm.metrics.gaussian_kernel_score(y, draws),
        lambda: fm.metrics.error_spread_score(outcome, numbers),
        lambda: fm.metrics.weighted_crps(outcome, numbers, lower=0.0, weighting="vertical"),
    )
    several = [call() for call in calls]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    fm.set_num_threads(1)
    try:
        for call, expected in zip(calls, several, strict=True):
            np.testing.assert_array_equal(call(), expected)
    finally:
        fm.set_num_threads(None)
