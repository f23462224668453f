"""Weighted draws sorted in blocks, against plain sums over pairs."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm


def plain_crps(y, draws, weights):
    """Return the score of one row by its definition."""
    weights = weights / weights.sum()
    spread = np.abs(draws[:, None] - draws)
    return weights @ np.abs(draws - y) - weights @ spread @ weights / 2


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 5), (700, 30), (5, 20_000)])
def test_scores_of_all_blocks(rng, n, m):
    draws = np.round(rng.normal(size=(n, m)), 1 if m < 100 else 8)  # ties
    weights = rng.integers(0, 3, (n, m)) * 1.0
    weights[:, 0] = 1.0
    y = rng.normal(size=n)
    prediction = fm.WeightedDraws(draws, weights)
    actual = prediction.crps(y)
    for row in {0, n // 2, n - 1} if m < 1000 else ():
        expected = plain_crps(y[row], draws[row], weights[row])
        assert actual[row] == pytest.approx(expected, rel=1e-11, abs=1e-14)
    back, masses = prediction.members("this test")
    np.testing.assert_array_equal(back, draws)
    np.testing.assert_allclose(masses, weights / weights.sum(axis=1, keepdims=True), rtol=1e-14)
    one_by_one = np.concatenate(
        [
            fm.WeightedDraws(d[None], w[None]).crps(v)
            for d, w, v in zip(draws, weights, y, strict=True)
        ]
    )
    np.testing.assert_array_equal(actual, one_by_one)


def test_missing_members_and_outcomes(rng):
    draws, weights = rng.normal(size=(400, 60)), rng.random((400, 60))
    draws[::3, 5] = np.nan
    weights[::3, 5] = np.nan  # of a missing member, so that it does not count
    y = rng.normal(size=400)
    y[7] = np.nan
    y[8] = np.inf
    actual = fm.WeightedDraws(draws, weights).crps(y)
    assert np.isnan(actual[7])
    assert actual[8] == np.inf
    for row in (0, 1, 3, 399):
        present = ~np.isnan(draws[row])
        expected = plain_crps(y[row], draws[row, present], weights[row, present])
        assert actual[row] == pytest.approx(expected, rel=1e-11)


def test_weights_in_single_precision_and_threads(rng):
    draws, weights = rng.normal(size=(900, 40)), rng.random((900, 40)).astype(np.float32)
    y, before = rng.normal(size=900), fm.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            fm.set_num_threads(threads)
            results.append(fm.WeightedDraws(draws, weights).crps(y))
    finally:
        fm.set_num_threads(before)
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(
        results[0], fm.WeightedDraws(draws, weights.astype(np.float64)).crps(y)
    )
