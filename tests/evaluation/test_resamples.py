"""Sums over rows with the weights of bootstrap samples are those of plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from fastmcmd import _core, metrics
from fastmcmd.evaluation.context import Context, Settings
from fastmcmd.metrics.inputs import read

SIZES = [1, 7, 511, 513, 3000]


def counts_and_factors(rng, n, weighted):
    counts = np.array([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(3)], float)
    return counts, rng.gamma(1.0, size=n) if weighted else np.empty(0)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_samples(rng, n, weighted):
    rows = rng.normal(size=(4, n))
    counts, factors = counts_and_factors(rng, n, weighted)
    actual = np.full((3, 3, 5), np.nan)
    _core.resampled_sums(rows, counts, factors, actual)
    with_one = np.vstack([rows, np.ones(n)])
    once = counts * factors if weighted else counts
    twice = once * factors if weighted else counts
    expected = np.stack([once @ with_one.T, twice @ with_one.T, twice @ (with_one**2).T], axis=1)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12 * n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("weighted", [False, True])
def test_squares_of_linear_forms(rng, n, weighted):
    rows, slopes, away = rng.normal(size=(2, n)), rng.normal(size=(3, 2)), rng.normal(size=3)
    counts, factors = counts_and_factors(rng, n, weighted)
    actual = np.full(3, np.nan)
    _core.linear_squares(rows, slopes, away, counts, factors, actual)
    weights = counts * factors**2 if weighted else counts
    expected = (weights * (slopes @ rows - away[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_cumulative_weights_in_an_order(rng, n):
    weights, order = rng.gamma(1.0, size=n), rng.permutation(n)
    cumulative = np.full(n + 1, np.nan)
    squares = _core.running_weights(weights, order, cumulative)
    np.testing.assert_array_equal(cumulative, np.append(0.0, np.cumsum(weights[order])))
    np.testing.assert_allclose(squares, weights @ weights, rtol=1e-13)


@pytest.mark.parametrize("n", SIZES)
def test_sums_over_pieces(rng, n):
    weights, order = rng.gamma(1.0, size=n), rng.permutation(n)
    variance, squares = rng.gamma(1.0, size=(2, n))
    ends = np.unique([0, n // 3, n // 3 + 1, n])
    actual = np.full((len(ends) - 1, 4), np.nan)
    _core.spread_pieces(weights, order, variance, squares, ends, actual)
    w = weights[order]
    columns = np.stack([w, w * variance, w * squares, (w * variance) ** 2])
    expected = np.add.reduceat(columns, ends[:-1], axis=1).T
    np.testing.assert_allclose(actual, expected, rtol=1e-13)


@pytest.mark.parametrize("n", [1, 3, 40, 2000])
@pytest.mark.parametrize("distinct", [1, 2, 17, None])
@pytest.mark.parametrize("integers", [True, False])
def test_presorted_measures_are_those_of_weighted_rows(rng, n, distinct, integers):
    std = rng.uniform(0.5, 2.0, n)
    if distinct is not None:
        std = rng.choice(std[:distinct], n)
    mean = rng.normal(size=n)
    y = mean + std * rng.normal(size=n)
    weights = rng.integers(0, 4, n).astype(float) if integers else rng.gamma(0.5, size=n)
    weights[0] = 1.0
    context = Context(read(y, (mean, std), None, "raise"), Settings(bins=7))
    context.presort()
    again = context.reweighted(weights)
    curve = again.variance_curve
    expected = metrics.ence_curve(y, (mean, std), bins=min(7, n), sample_weight=weights)
    for name in ("rmv", "rmse", "mass", "null_std"):
        actual_column, column = getattr(curve, name), getattr(expected, name)
        np.testing.assert_allclose(actual_column, column, rtol=1e-9, err_msg=name)
    median = metrics.median_absolute_error(y, mean, sample_weight=weights)
    assert again.median_error() == pytest.approx(median, rel=1e-15)
    pit = context.pit
    observed = [weights[pit <= level].sum() for level in (0.1, 0.5, 0.9)]
    np.testing.assert_allclose(again.sorted_pit.up_to(np.array([0.1, 0.5, 0.9])), observed)
    assert again.sorted_pit.squares == pytest.approx(float(weights @ weights))
