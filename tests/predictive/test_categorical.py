"""Categorical distributions agree with sums written out."""

from __future__ import annotations

import math

import numpy as np
import peers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.categorical import Categorical

VALUES = [-2.0, 0.5, 1.0, 7.0]


def plain(probs, values, y):
    """Return P(Y < y), P(Y <= y), P(Y > y), log p(y) and CRPS by Python's sums."""
    below = math.fsum(p for p, v in zip(probs, values, strict=True) if v < y)
    at = math.fsum(p for p, v in zip(probs, values, strict=True) if v == y)
    pairs = [(p, v) for p, v in zip(probs, values, strict=True)]
    score = math.fsum(p * abs(v - y) for p, v in pairs)
    score -= math.fsum(p * q * abs(v - w) for p, v in pairs for q, w in pairs) / 2
    return below, below + at, 1 - below - at, math.log(at) if at else -math.inf, score


@given(
    raw=st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda p: sum(p) > 1e-3),
    y=st.one_of(st.sampled_from(VALUES), st.floats(-5, 10)),
    level=st.floats(0, 1),
)
def test_against_plain_sums(raw, y, level):
    probs = np.array(raw) / sum(raw)
    prediction = Categorical([probs, np.full(4, 0.25)], VALUES)
    for row, one in enumerate((probs, np.full(4, 0.25))):
        below, at, above, log, score = plain(one, VALUES, y)
        assert prediction.cdf_below(y)[row] == pytest.approx(below, abs=1e-14)
        assert prediction.cdf(y)[row] == pytest.approx(at, abs=1e-14)
        assert prediction.sf(y)[row] == pytest.approx(above, abs=1e-14)
        assert prediction.log_prob(y)[row] == pytest.approx(log, rel=1e-12, abs=1e-12)
        assert prediction.crps(y)[row] == pytest.approx(score, abs=1e-12)
        assert prediction.mean[row] == pytest.approx(one @ VALUES, rel=1e-12, abs=1e-13)
        central = one @ (np.array(VALUES) - one @ VALUES) ** 2
        assert prediction.variance[row] == pytest.approx(central, rel=1e-10, abs=1e-13)
    quantiles = prediction.quantile(level)
    assert (prediction.cdf(quantiles) >= level).all()
    assert (prediction.cdf_below(quantiles) < level).all() or level == 0
    assert np.isfinite(prediction.log_prob(quantiles)).all()  # never a value of probability 0


def test_classes_are_numbered(rng):
    probs = rng.dirichlet(np.ones(5), 30)
    y = rng.integers(0, 5, 30)
    prediction = Categorical(probs)
    np.testing.assert_array_equal(prediction.values, np.arange(5))
    steps = np.cumsum(probs, axis=1)[:, :-1] - (y[:, None] <= np.arange(4))
    np.testing.assert_allclose(prediction.crps(y), (steps**2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(prediction.crps(y), Predictive.crps(prediction, y), rtol=1e-12)
    one_hot = np.zeros((30, 5))
    one_hot[np.arange(30), y] = 1
    np.testing.assert_array_equal(Categorical(one_hot).crps(y), 0)


def test_binomial_as_categorical(rng):
    one = stats.binom(12, 0.3)
    prediction = Categorical(np.tile(one.pmf(np.arange(13)), (40, 1)))
    y = one.rvs(40, random_state=rng).astype(float)
    np.testing.assert_allclose(prediction.cdf(y), one.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(prediction.log_prob(y), one.logpmf(y), rtol=1e-10)
    np.testing.assert_allclose(prediction.mean, one.mean(), rtol=1e-12)
    np.testing.assert_allclose(prediction.variance, one.var(), rtol=1e-12)
    levels = [0.01, 0.4, 0.99]
    np.testing.assert_array_equal(prediction.quantile(levels), np.tile(one.ppf(levels), (40, 1)))


def test_rank_probability_score_of_peers(rng):
    peer = peers.imported("scoringrules")
    if not hasattr(peer, "rps_score"):
        pytest.skip("this scoringrules has no rps_score")
    probs, y = rng.dirichlet(np.ones(4), 20), rng.integers(0, 4, 20)
    theirs = peer.rps_score(y + 1, probs)  # classes count from 1 there
    np.testing.assert_allclose(Categorical(probs).crps(y), theirs, rtol=1e-10)


def test_draws_follow_the_probabilities():
    probs = np.array([[0.1, 0.0, 0.6, 0.3], [1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]])
    draws = Categorical(probs, VALUES).sample(20_000, 5)
    shares = np.stack([(draws == value).mean(axis=1) for value in VALUES], axis=1)
    assert (np.abs(shares - probs) <= 5 * np.sqrt(probs * (1 - probs) / 20_000)).all()
    assert (shares[probs == 0] == 0).all()
    np.testing.assert_array_equal(draws, Categorical(probs, VALUES).sample(20_000, 5))


def test_kernel_expectations_are_sums(rng):
    probs = rng.dirichlet(np.ones(4), 6)
    prediction = Categorical(probs, VALUES)
    points = np.array([-2.0, 0.7, 3.0])
    for kernel in (fm.RBF(0.3), fm.Linear(), fm.Delta(), fm.Laplacian(1.0)):
        expected = probs @ kernel(np.array(VALUES), points)
        np.testing.assert_allclose(
            prediction.expected_kernel(kernel, points), expected, rtol=1e-13, atol=1e-15
        )
    values, weights = prediction.nodes()
    np.testing.assert_array_equal(values, np.tile(VALUES, (6, 1)))
    np.testing.assert_array_equal(weights, prediction.probs)
    assert prediction.node_count == 4
    part = prediction.take(np.array([3, 1]))
    np.testing.assert_allclose(part.probs, probs[[3, 1]], rtol=1e-15)


def test_ends_and_missing_outcomes():
    prediction = Categorical([[0.0, 0.5, 0.5, 0.0]] * 4, VALUES)
    np.testing.assert_array_equal(prediction.quantile([0.0, 1.0]), [[0.5, 1.0]] * 4)
    y = [np.nan, np.inf, -np.inf, 0.75]
    assert np.isnan([prediction.cdf(y)[0], prediction.log_prob(y)[0], prediction.crps(y)[0]]).all()
    np.testing.assert_array_equal(prediction.cdf(y)[1:], [1, 0, 0.5])
    np.testing.assert_array_equal(prediction.log_prob(y)[1:], -np.inf)
    assert np.isposinf(prediction.crps(y)[1:3]).all()
    np.testing.assert_allclose(prediction.crps(y)[3], 0.25 * 0.5)


def test_one_value():
    prediction = Categorical([[1.0], [1.0]], [3.0])
    np.testing.assert_array_equal(prediction.crps([3.0, 5.5]), [0, 2.5])
    np.testing.assert_array_equal(prediction.variance, 0)


def test_the_true_distribution_scores_best(rng):
    truth = rng.dirichlet(np.ones(5))
    wrong_models = rng.dirichlet(np.ones(5), 20)
    y = np.arange(5.0)
    for score in (lambda p: p.crps(y), lambda p: -p.log_prob(y)):
        best = truth @ score(Categorical(np.tile(truth, (5, 1))))
        for other in wrong_models:
            assert truth @ score(Categorical(np.tile(other, (5, 1)))) > best


def test_float32_probabilities_are_scaled(rng):
    logits = rng.normal(size=(50, 1000)).astype(np.float32)
    soft = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    prediction = Categorical(soft.astype(np.float32))
    np.testing.assert_allclose(prediction.probs.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize(
    ("probs", "values", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.6]], None, r"row 1 of probs sums to 1.1 \(1 such rows\)"),
        ([[0.5, 0.5], [1.5, -0.5], [2.0, 0.0]], None, r"row 1 of probs has -0.5 \(2 such rows\)"),
        ([0.5, 0.5], None, r"probs has shape \(2,\); \(n, K\) is needed"),
        ([[0.5, np.nan]], None, "probs holds NaN"),
        ([[0.5, 0.5]], [1.0], r"values has shape \(1,\); \(2,\) is needed"),
        ([[0.5, 0.5]], [1.0, 1.0], "values must increase"),
        ([[0.5, 0.5]], [1.0, np.inf], "values holds infinity"),
        (np.zeros((3, 0)), None, r"probs has shape \(3, 0\)"),
    ],
)
def test_bad_probabilities(probs, values, message):
    with pytest.raises(ValueError, match=message):
        Categorical(probs, values)


def test_numbers_that_name_columns_are_not_ignored():
    """Columns 1 and 2 of a frame were read as outputs 0 and 1, so an outcome of 2 was impossible."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({1: [0.9, 0.1], 2: [0.1, 0.9]})
    with pytest.raises(ValueError, match=r"columns of probs are '1', '2', .* pass values="):
        fm.Categorical(frame)
    by_number = fm.Categorical(frame, values=[1, 2])
    np.testing.assert_allclose(fm.nll([1, 2], by_number), -np.log(0.9))
    assert fm.Categorical(frame.to_numpy()).values.tolist() == [0, 1]
    assert fm.Categorical(frame.rename(columns={1: "rare", 2: "often"})).values.tolist() == [0, 1]


def test_two_classes_from_the_probability_of_the_second(rng):
    p = rng.uniform(size=40)
    y = np.where(rng.uniform(size=40) < p, "yes", "no")
    one, both = (fm.Categorical(q, classes=["no", "yes"]) for q in (p, np.c_[1 - p, p]))
    np.testing.assert_array_equal(one.probs, both.probs)
    np.testing.assert_allclose(
        fm.evaluate(y, one)["nll"], -np.log(np.where(y == "yes", p, 1 - p)).mean()
    )
    with pytest.raises(ValueError, match=r"probs\[1\] is 1.2 \(1 such rows\)"):
        fm.Categorical([0.5, 1.2], classes=["no", "yes"])
    with pytest.raises(ValueError, match=r"probs has shape \(2,\); \(n, K\) is needed"):
        fm.Categorical([0.5, 0.5], classes=["a", "b", "c"])
