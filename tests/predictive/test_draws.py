"""Draws: their empirical distribution and its CRPS agree with plain definitions and peers."""

from __future__ import annotations

import numpy as np
import peers
import pytest
from builders import same_in_threads_and_blocks
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fastmcmd as fm
from fastmcmd.predictive import draws as module

VALUES = st.floats(-1e6, 1e6, allow_subnormal=False)
SMALL = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 9)),
    elements=VALUES | st.sampled_from([0.0, 1.0, -1.0]),  # ties
)


def by_pairs(y, draws, unbiased=False):
    """Return the score by its definition over all pairs of draws."""
    draws = np.asarray(draws, dtype=np.float64)
    count = draws.shape[1]
    apart = np.abs(draws[:, :, None] - draws[:, None, :]).sum(axis=(1, 2))
    pairs = count * (count - 1) if unbiased else count**2
    return np.abs(draws - np.asarray(y)[:, None]).mean(axis=1) - apart / pairs / 2


def by_steps(y, draws):
    """Return the integral of (F - 1{y <= t})^2 over the steps of the empirical distribution."""
    out = []
    for at, row in zip(y, draws, strict=True):
        knots = np.unique(np.append(row, at))
        lower = knots[:-1]
        share = (row[None, :] <= lower[:, None]).mean(axis=1)
        out.append(((share - (lower >= at)) ** 2 * np.diff(knots)).sum())
    return np.array(out)


@given(SMALL, st.data())
def test_crps_is_that_of_the_empirical_distribution(draws, data):
    y = data.draw(hnp.arrays(np.float64, len(draws), elements=VALUES | st.just(draws[0, 0])))
    scale = 1 + np.abs(draws).max() + np.abs(y).max()
    prediction = fm.Draws(draws)
    for estimator in ("qd", "nrg"):
        scores = prediction.crps(y, estimator)
        np.testing.assert_allclose(scores, by_pairs(y, draws), atol=1e-14 * scale)
        np.testing.assert_allclose(scores, by_steps(y, draws), atol=1e-14 * scale)
    if draws.shape[1] > 1:
        for estimator in ("pwm", "fair"):
            scores = prediction.crps(y, estimator)
            np.testing.assert_allclose(scores, by_pairs(y, draws, True), atol=1e-14 * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 100])
def test_crps_agrees_with_peers(rng, dtype, count):
    scoringrules = peers.imported("scoringrules")
    properscoring = peers.imported("properscoring")
    draws, y = rng.normal(size=(40, count)).astype(dtype), rng.normal(size=40)
    exact = draws.astype(np.float64)
    prediction = fm.Draws(draws)
    np.testing.assert_allclose(
        prediction.crps(y), properscoring.crps_ensemble(y, exact), atol=1e-13
    )
    for estimator in module.ESTIMATORS:
        peer = scoringrules.crps_ensemble(y, exact, estimator=estimator, backend="numpy")
        np.testing.assert_allclose(prediction.crps(y, estimator), peer, atol=1e-13)


def test_fair_estimator_is_unbiased_and_the_empirical_score_is_not(rng):
    """Three draws of a standard normal: the normal's score at 0, plus 1/m times half E|X - X'|."""
    n = 200_000
    draws = fm.Draws(rng.normal(size=(n, 3)))
    truth = (np.sqrt(2) - 1) / np.sqrt(np.pi)
    for estimator, excess in (("fair", 0.0), ("qd", 1 / np.sqrt(np.pi) / 3)):
        scores = draws.crps(np.zeros(n), estimator)
        error = scores.std() / np.sqrt(n)
        assert abs(scores.mean() - truth - excess) < 4 * error


def test_crps_of_one_draw_is_the_absolute_error(rng):
    y, point = rng.normal(size=(2, 9))
    np.testing.assert_allclose(fm.Draws(point).crps(y), np.abs(y - point), rtol=1e-15)
    for estimator in ("pwm", "fair"):
        with pytest.raises(ValueError, match="needs at least two draws per input"):
            fm.Draws(point).crps(y, estimator)


def test_crps_keeps_its_digits_far_from_zero(rng):
    """Whole numbers shift without rounding, and so must the score."""
    draws, y = rng.integers(-50, 50, (30, 17)), rng.integers(-60, 60, 30)
    shift = 2.0**50
    np.testing.assert_array_equal(
        fm.Draws(draws + shift).crps(y + shift), fm.Draws(draws + 0.0).crps(y)
    )


def test_crps_of_scaled_and_permuted_draws(rng):
    draws, y = rng.normal(size=(20, 11)), rng.normal(size=20)
    score = fm.Draws(draws).crps(y)
    np.testing.assert_allclose(fm.Draws(-8 * draws).crps(-8 * y), 8 * score, rtol=1e-13)
    shuffled = rng.permuted(draws, axis=1)
    np.testing.assert_array_equal(fm.Draws(shuffled).crps(y), score)
    rows = rng.permutation(20)
    np.testing.assert_array_equal(fm.Draws(draws[rows]).crps(y[rows]), score[rows])


def test_outcomes_that_are_not_finite():
    scores = fm.Draws([[0.0, 1.0]] * 3).crps([np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(scores, [np.nan, np.inf, np.inf])
    prediction = fm.Draws([[0.0, 1.0] * 200] * 3)
    for _ in range(2):  # unsorted, then sorted
        np.testing.assert_array_equal(prediction.cdf([np.nan, np.inf, -np.inf]), [np.nan, 1, 0])
        prediction.quantile(0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 6), (7, 6, 3)])
@pytest.mark.parametrize("search_from", [1, 100])
def test_shares_and_quantiles(rng, monkeypatch, dtype, shape, search_from):
    """Unsorted draws, sorted ones, and rows of either agree; by search and by counting."""
    monkeypatch.setattr(module, "_SEARCH_FROM", search_from)
    array = rng.integers(-3, 4, shape).astype(dtype)
    plain = array.astype(np.float64).reshape(7, -1, *shape[2:])
    y = rng.integers(-4, 5, (7, *shape[2:])).astype(np.float64)
    rows = np.array([5, 0, 0])
    levels = np.array([0.0, 0.05, 0.5, 2 / 3, 1.0])
    quantiles = np.moveaxis(np.quantile(plain, levels, axis=1), 0, -1)
    prediction = fm.Draws(array)
    for _ in range(2):
        np.testing.assert_allclose(
            prediction.cdf(y), (plain <= y[:, None]).mean(axis=1), rtol=1e-15
        )
        np.testing.assert_allclose(prediction.cdf_below(y), (plain < y[:, None]).mean(axis=1))
        np.testing.assert_allclose(prediction.sf(y), (plain > y[:, None]).mean(axis=1))
        np.testing.assert_array_equal(prediction.cdf(0.0), prediction.cdf(np.zeros_like(y)))
        part = prediction.take(rows)
        np.testing.assert_array_equal(part.cdf(y[rows]), prediction.cdf(y)[rows])
        np.testing.assert_array_equal(part.crps(y[rows]), prediction.crps(y)[rows])
        np.testing.assert_allclose(part.quantile(levels), quantiles[rows], atol=1e-15)
        np.testing.assert_allclose(prediction.quantile(levels), quantiles, atol=1e-15)
        np.testing.assert_allclose(prediction.quantile(0.3), np.quantile(plain, 0.3, axis=1))
    np.testing.assert_allclose(prediction.mean, plain.mean(axis=1), atol=1e-15)
    np.testing.assert_allclose(prediction.variance, plain.var(axis=1), atol=1e-14)
    np.testing.assert_allclose(prediction.std, plain.std(axis=1), atol=1e-14)
    assert prediction.array.dtype == np.float64
    assert not prediction.has_density


def test_crps_of_vectors_is_by_component(rng):
    draws, y = rng.normal(size=(9, 8, 3)), rng.normal(size=(9, 3))
    prediction = fm.Draws(draws)
    for _ in range(2):
        for k in range(3):
            np.testing.assert_allclose(
                prediction.crps(y)[:, k], by_pairs(y[:, k], draws[:, :, k]), atol=1e-14
            )
        prediction.quantile(0.5)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("writeable", [True, False])
def test_input_is_held_and_never_changed(rng, order, writeable):
    array = np.array(rng.normal(size=(50, 8)), order=order)
    before = array.copy()
    array.flags.writeable = writeable
    prediction = fm.Draws(array)
    assert np.shares_memory(prediction.array, array)
    y = rng.normal(size=50)
    score = prediction.crps(y)
    prediction.quantile([0.1, 0.9])
    np.testing.assert_allclose(prediction.crps(y), score, rtol=1e-15)
    np.testing.assert_array_equal(array, before)


def test_sorted_draws_are_not_copied(rng):
    array = np.sort(rng.normal(size=(50, 8)), axis=1)
    prediction = fm.Draws(array)
    prediction.quantile(0.5)
    assert prediction._sorted_draws is array
    descending = fm.Draws(array[:, ::-1])
    descending.quantile(0.5)
    assert not np.shares_memory(descending._sorted_draws, array)
    np.testing.assert_array_equal(descending._sorted_draws, array)


def test_threads_and_blocks_do_not_matter(rng, monkeypatch):
    draws, y = rng.normal(size=(500, 21)), rng.normal(size=500)

    def all_results():
        prediction = fm.Draws(draws)
        return [
            prediction.crps(y),
            prediction.cdf(y),
            prediction.variance,
            prediction.quantile([0.2, 0.5]),
            prediction.cdf(y),
        ]

    same_in_threads_and_blocks(all_results, module, 300, monkeypatch)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fm.Draws(np.zeros((2, 0))), r"array of draws has shape \(2, 0\)"),
        (lambda: fm.Draws(1.0), r"array of draws has shape \(\)"),
        (lambda: fm.Draws([[0.0, 1.0], [np.nan, 0.0]]), r"draws holds NaN \(first in row 1\)"),
        (lambda: fm.Draws([0.0, np.inf]), "draws holds infinity"),
        (lambda: fm.Draws([0.0]).crps([0.0], "akr"), "estimator is 'akr'"),
        (lambda: fm.Draws([0.0]).crps([0.0, 1.0]), r"y has shape \(2,\)"),
        (lambda: fm.Draws([0.0]).quantile(1.5), "level is 1.5"),
        (lambda: fm.Draws([0.0]).log_prob([0.0]), "draws have no density"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(40, 7), (40, 700), (40, 7, 3), (1, 1)])
def test_bounds_of_the_cdf_count_ties(rng, dtype, shape):
    draws = np.round(rng.standard_normal(shape), 1).astype(dtype)
    y = draws[:, 0].astype(float)
    y[0] = np.nan
    below, up_to = fm.Draws(draws).cdf_bounds(y)
    np.testing.assert_array_equal(below[1:], (draws < y[:, None]).mean(axis=1)[1:])
    np.testing.assert_array_equal(up_to[1:], (draws <= y[:, None]).mean(axis=1)[1:])
    assert np.isnan(below[0]).all()
    assert np.isnan(up_to[0]).all()
