"""Importance sampling of rows: sums are unbiased, and the largest rows are always included."""

from __future__ import annotations

import numpy as np
import pytest

from fastmcmd.solvers.row_sample import RowGuess, RowSample


def sample_of(n, sizes, seed=0, certain=8, random_rows=64):
    return RowSample(n, sizes, certain, random_rows, np.random.default_rng(seed))


def test_estimates_are_unbiased(rng):
    """The mean of many estimates is the sum, within its standard error, for good and bad guesses."""
    n = 5000
    values = rng.gamma(0.3, size=n)
    for guess in (values, values**2, rng.random(n)):
        estimates = []
        for seed in range(400):
            sample = sample_of(n, [guess, np.ones(n)], seed)
            estimates.append(sample.estimate(values[sample.rows])[0])
        error = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
        assert abs(np.mean(estimates) - values.sum()) <= 5 * error


def test_the_standard_error_is_that_of_the_estimates(rng):
    n = 5000
    values = rng.gamma(1.0, size=n)
    stated_errors, estimates = [], []
    for seed in range(300):
        order = np.random.default_rng(seed).permutation(
            n
        )  # systematic draws are of rows in random order
        sample = sample_of(n, [np.ones(n)], seed)
        total, error = sample.estimate(values[order][sample.rows])
        stated_errors.append(error)
        estimates.append(total)
    assert np.mean(stated_errors) == pytest.approx(np.std(estimates), rel=0.2)


def test_the_largest_rows_by_each_guess_are_always_taken(rng):
    n = 20000
    one, other = rng.random(n), rng.random(n)
    one[[17, 4000]], other[19999] = 1e9, 1e30
    for seed in range(20):
        sample = sample_of(n, [one, other], seed)
        assert {17, 4000, 19999} <= set(sample.rows[sample.certain])


def test_a_row_that_is_the_whole_sum_is_exact(rng):
    n, values = 3000, np.zeros(3000)
    values[1234] = 1e12
    sample = sample_of(n, [values + 1e-9])
    assert sample.estimate(values[sample.rows]) == (1e12, 0.0)


def test_few_rows_are_all_taken():
    values = np.arange(50.0)
    sample = sample_of(50, [np.ones(50)])
    assert list(sample.rows) == list(range(50))
    assert sample.upper(values[sample.rows]) == values.sum()


@pytest.mark.parametrize("size", [np.zeros(100), np.full(100, np.inf), np.full(100, 5e-324)])
def test_guesses_without_meaning_leave_a_uniform_draw(size):
    sample = sample_of(100, [size], random_rows=20)
    total, error = sample.estimate(np.ones(len(sample)))
    assert total == pytest.approx(100.0)
    assert error == pytest.approx(0.0, abs=1e-9)


def test_guesses_of_some_rows_equal_guesses_of_all(rng):
    n = 3000
    rows = np.sort(rng.choice(n, 200, replace=False))
    sizes, everywhere = rng.gamma(0.3, size=200), np.zeros(n)
    everywhere[rows] = sizes
    other = rng.random(n)
    some, dense = sample_of(n, [other, RowGuess(rows, sizes)]), sample_of(n, [other, everywhere])
    np.testing.assert_array_equal(some.rows, dense.rows)
    np.testing.assert_array_equal(some.certain, dense.certain)
    values = other * (1 + everywhere)
    np.testing.assert_allclose(
        some.estimate(values[some.rows]), dense.estimate(values[dense.rows]), rtol=1e-12
    )
