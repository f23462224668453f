"""Conformal intervals: their guarantee, and the plain definition of their thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive
from fastmcmd.recalibration import ConformalIntervals, load

SCORES = ["absolute", "scaled", "cqr"]


def model(rng, n):
    """Return wrong predictions, with skewed outcomes of changing spread."""
    x = rng.uniform(-1, 1, n)
    y = np.sin(3 * x) + (0.2 + np.abs(x)) * (rng.exponential(size=n) - 1)
    return x, fm.Gaussian(x, 0.3 + np.abs(x) / 2), y


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_over_many_repetitions(score, level):
    rng = np.random.default_rng(1)
    n, new, repetitions = 39, 200, 600
    inside = np.empty(repetitions)
    for i in range(repetitions):
        _, prediction, y = model(rng, n + new)
        fitted = ConformalIntervals(level, score).fit(prediction.take(np.arange(n)), y[:n])
        ends = fitted.interval(prediction.take(np.arange(n, n + new)))
        inside[i] = np.mean((ends[:, 0] <= y[n:]) & (y[n:] <= ends[:, 1]))
    error = inside.std() / np.sqrt(repetitions)
    exact = math.ceil((n + 1) * level - 1e-9) / (n + 1)
    assert level <= exact
    assert abs(inside.mean() - exact) < 4 * error
    assert error < 0.005


def test_weights_keep_the_promise_under_covariate_shift():
    rng = np.random.default_rng(2)
    inside, plain = np.empty(400), np.empty(400)
    for i in range(400):
        x, prediction, y = model(rng, 1000)
        ratio = np.exp(2 * x)  # of the density of new inputs to that of calibration inputs
        old = np.arange(200)
        new = 200 + rng.choice(800, 200, p=ratio[200:] / ratio[200:].sum())
        weighted = ConformalIntervals(0.8).fit(
            prediction.take(old), y[old], sample_weight=ratio[old]
        )
        ends = weighted.interval(prediction.take(new), sample_weight=ratio[new])
        inside[i] = np.mean((ends[:, 0] <= y[new]) & (y[new] <= ends[:, 1]))
        ends = (
            ConformalIntervals(0.8).fit(prediction.take(old), y[old]).interval(prediction.take(new))
        )
        plain[i] = np.mean((ends[:, 0] <= y[new]) & (y[new] <= ends[:, 1]))
    error = inside.std() / 20
    assert inside.mean() > 0.8 - 4 * error
    assert inside.mean() < 0.82
    assert plain.mean() < 0.76


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=40),
    st.floats(0.01, 0.99),
)
def test_threshold_is_the_plain_quantile(y, level):
    y = np.array(y)
    intervals = ConformalIntervals(level).fit((np.zeros(len(y)), 1.0), y)
    low, high = intervals.interval((np.zeros(1), 1.0))[0]
    k = math.ceil((len(y) + 1) * level)
    expected = np.sort(np.abs(y))[k - 1] if k <= len(y) else np.inf
    assert (low, high) == (-expected, expected)


@given(st.integers(1, 30), st.integers(0, 10**6), st.floats(0.05, 0.95))
def test_weighted_threshold_is_the_plain_definition(n, seed, level):
    rng = np.random.default_rng(seed)
    y, weights, new_weights = rng.normal(size=n), rng.uniform(0.1, 3, n), rng.uniform(0.1, 3, 4)
    intervals = ConformalIntervals(level).fit((np.zeros(n), 1.0), y, sample_weight=weights)
    ends = intervals.interval((np.zeros(4), 1.0), sample_weight=new_weights)
    for i in range(4):
        scores = np.append(np.abs(y), np.inf)
        share = np.append(weights, new_weights[i]) / (weights.sum() + new_weights[i])
        order = np.argsort(scores)
        first = order[np.argmax(np.cumsum(share[order]) >= level - 1e-11)]
        assert ends[i, 1] == scores[first]


@pytest.mark.parametrize("level", [0.07, 0.1, 0.29, 0.57, 0.7, 0.9])
def test_rounding_of_the_level_costs_no_row(level):
    # 100 level is a whole number, though not in floating point.
    y = np.arange(1.0, 100.0)
    interval = ConformalIntervals(level).fit((np.zeros(99), 1.0), y).interval((np.zeros(1), 1.0))
    assert interval[0, 1] == round(100 * level)


def test_too_few_rows_promise_nothing_finite():
    y = np.array([1.0, -2.0, 0.5, 0.1])
    for score in SCORES:
        fitted = ConformalIntervals(0.9, score).fit((np.zeros(4), 1.0), y)
        assert fitted.interval((np.zeros(2), 1.0)).tolist() == [[-np.inf, np.inf]] * 2
    assert np.isfinite(
        ConformalIntervals(0.8).fit((np.zeros(4), 1.0), y).interval((np.zeros(2), 1.0))
    ).all()


def test_scores_are_those_of_the_papers():
    prediction = as_predictive(stats.laplace([0.0, 1.0, -1.0], [1.0, 2.0, 3.0]), 3)
    y = np.array([0.5, 4.0, -8.0])
    gap = np.abs(y - prediction.mean)
    low, high = stats.laplace.ppf([[0.1], [0.9]], [0.0, 1.0, -1.0], [1.0, 2.0, 3.0])
    scores_by_name = {
        "absolute": gap,
        "scaled": gap / prediction.std,
        "cqr": np.maximum(low - y, y - high),
    }
    for score in SCORES:
        fitted = ConformalIntervals(0.8, score).fit(prediction, y)
        np.testing.assert_allclose(fitted.scores_, np.sort(scores_by_name[score]))
    fitted = ConformalIntervals(0.75, "cqr").fit(prediction, y)
    ends = fitted.interval(prediction)
    inner = prediction.quantile([0.125, 0.875])
    np.testing.assert_allclose(ends[:, 0], inner[:, 0] - fitted.scores_[2])
    np.testing.assert_allclose(ends[:, 1], inner[:, 1] + fitted.scores_[2])


def test_intervals_narrowed_past_nothing_are_their_middle():
    fitted = ConformalIntervals(0.5, "cqr").fit((np.zeros(9), 100.0), np.zeros(9))
    ends = fitted.interval((np.array([3.0]), 0.1))
    assert ends[0, 0] == ends[0, 1] == pytest.approx(3.0)


def test_counts_and_draws_have_intervals():
    rng = np.random.default_rng(0)
    y = rng.poisson(4.0, 400).astype(float)
    for prediction in (fm.Poisson(np.full(400, 3.0)), fm.Draws(rng.poisson(3.0, (400, 50)))):
        for score in SCORES:
            ends = ConformalIntervals(0.8, score).fit(prediction, y).interval(prediction)
            assert np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) >= 0.8


def test_whole_weights_are_repeated_rows_and_files_hold_all(tmp_path):
    rng = np.random.default_rng(3)
    _, prediction, y = model(rng, 60)
    weights = rng.integers(0, 4, 60)
    again = np.repeat(np.arange(60), weights)
    one = ConformalIntervals(0.7, "scaled").fit(prediction, y, sample_weight=weights)
    two = ConformalIntervals(0.7, "scaled").fit(prediction.take(again), y[again])
    np.testing.assert_array_equal(one.interval(prediction), two.interval(prediction))
    one.save(tmp_path / "c.npz")
    loaded_intervals = load(tmp_path / "c.npz")
    assert repr(loaded_intervals) == repr(one)
    assert repr(loaded_intervals).startswith(
        "ConformalIntervals(level=0.7, score='scaled'), fitted: "
    )
    np.testing.assert_array_equal(loaded_intervals.interval(prediction), one.interval(prediction))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ConformalIntervals(1.0), ValueError, "level is 1.0"),
        (lambda: ConformalIntervals(float("nan")), ValueError, "level is nan"),
        (lambda: ConformalIntervals("0.9"), TypeError, "level is '0.9'"),
        (lambda: ConformalIntervals(score="aps"), ValueError, "score is 'aps'"),
        (lambda: ConformalIntervals().interval((np.zeros(1), 1.0)), ValueError, "not fitted"),
        (lambda: ConformalIntervals().fit((np.zeros(2), 1.0), [1.0]), ValueError, "y has 1"),
        (
            lambda: ConformalIntervals().fit((np.zeros(2), 1.0), [1.0, np.nan]),
            ValueError,
            "y holds NaN",
        ),
        (
            lambda: ConformalIntervals().fit(stats.cauchy([0.0, 1.0]), [1.0, 2.0]),
            ValueError,
            "not finite, which score='absolute' needs",
        ),
        (
            lambda: ConformalIntervals(score="scaled").fit(stats.t(2.0, [0.0, 1.0]), [1.0, 2.0]),
            ValueError,
            "std of inf",
        ),
        (
            lambda: (
                ConformalIntervals()
                .fit((np.zeros(2), 1.0), [1.0, 2.0])
                .interval((np.zeros(2), 1.0), sample_weight=[1.0])
            ),
            ValueError,
            "sample_weight has shape",
        ),
    ],
)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
