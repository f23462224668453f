"""Reliability by isotonic regression agrees with scikit-learn; simulation checks its band."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats
from simulations.picture_bands import isotonic_coverage

import fastmcmd as fm
from fastmcmd import _core
from fastmcmd.metrics import isotonic as isotonic_module

CLASSES = fm.classification


@pytest.mark.parametrize("weighted", [False, True])
def test_against_scikit_learn(rng, weighted):
    sklearn = pytest.importorskip("sklearn.isotonic")
    p = rng.beta(1, 2, 300).round(2)  # with ties
    y = rng.random(300) < p**1.5
    weights = rng.uniform(0.1, 2, 300) if weighted else None
    curve = CLASSES.isotonic_reliability(y, p, sample_weight=weights, resamples=20)
    fitted = sklearn.IsotonicRegression().fit(p, y, weights).predict(curve.probability)
    np.testing.assert_allclose(curve.frequency, fitted, atol=1e-12)
    mean = np.average((p - y) ** 2, weights=weights)
    assert curve.score == pytest.approx(mean)
    recalibrated = fitted[np.searchsorted(curve.probability, p)]
    best, overall = (
        np.average((recalibrated - y) ** 2, weights=weights),
        np.average(y, weights=weights),
    )
    assert curve.miscalibration == pytest.approx(mean - best)
    assert curve.uncertainty == pytest.approx(overall * (1 - overall))
    assert curve.score == pytest.approx(
        curve.miscalibration - curve.discrimination + curve.uncertainty
    )
    assert curve.weight.sum() == pytest.approx(300 if weights is None else weights.sum())


@pytest.mark.parametrize("k", [1, 2, 7, 300])
def test_the_loop_against_scipy(rng, k):
    """Return rows with ties, in any order, with weights of very different sizes."""
    values = rng.normal(size=(40, k)) + np.linspace(-2, 2, 40)[:, None] * np.linspace(0, 3, k)
    values[::3] = values[::3].round(1)
    values[1], values[2], values[4] = 0.25, np.arange(k), -np.arange(k)
    weights = 10.0 ** rng.uniform(-3, 3, k)
    fits = values.copy()
    _core.isotonic_rows(fits, weights, np.empty(k, np.int64), np.empty(k))
    for row, fit in zip(values, fits, strict=True):
        expected = optimize.isotonic_regression(row, weights=weights).x
        np.testing.assert_allclose(fit, expected, rtol=1e-12, atol=1e-12)
        assert (np.diff(fit) >= 0).all()


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 128, 1000])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_the_fit_of_events_against_scipy(rng, n, share):
    for _ in range(20):
        events = rng.random(n) < share * np.linspace(0.5, 1.0, n)
        bits = np.zeros(8 * -(-n // 64), np.uint8)
        bits[: -(-n // 8)] = np.packbits(events, bitorder="little")
        places = np.unique(rng.integers(0, n, 30))
        rows, sums = np.empty((2, n // 2 + 2), np.int64)
        fits = np.empty(len(places))
        _core.isotonic_bits(bits.view("<u8").astype(np.uint64), n, places, rows, sums, fits)
        expected = optimize.isotonic_regression(events.astype(float)).x[places]
        np.testing.assert_allclose(fits, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("decimals", [1, 2, 5])
def test_simulated_curves_against_their_definition(decimals):
    """Each event is a number of one byte and a rest below its probability; ties are pooled."""
    p = np.random.default_rng(1).beta(0.5, 1, 300).round(decimals)
    distinct, place, count = np.unique(p, return_inverse=True, return_counts=True)
    places = np.arange(len(distinct))
    rng, again = np.random.default_rng(2), np.random.default_rng(2)
    curves = isotonic_module._simulated_by_row(rng, distinct, count, places, 25)
    for curve in curves:
        leading = np.frombuffer(again.bytes(300), np.uint8).astype(float)
        number, ascending = leading / 256, np.sort(p)
        equal = leading == np.minimum(np.floor(ascending * 256), 255)
        number[equal] += again.random(equal.sum()) / 256
        event_counts = np.bincount(np.sort(place), number < ascending)
        expected = optimize.isotonic_regression(event_counts / count, weights=count).x
        np.testing.assert_allclose(curve, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.25, 0.3, 0.9985, 1.0])
def test_simulated_events_have_their_probability(rng, p):
    one = np.array([1])
    events = isotonic_module._simulated_by_row(rng, np.array([p]), one, one - 1, 10_000)
    assert np.isin(events, (0.0, 1.0)).all()
    assert abs(events.mean() - p) <= 5 * math.sqrt(p * (1 - p) / 10_000)


@pytest.mark.parametrize("decimals", [1, 2])
def test_the_band_does_not_depend_on_the_draws_at_a_time(rng, monkeypatch, decimals):
    p = rng.beta(1, 2, 150).round(decimals)
    y = rng.random(150) < p
    for weights in (None, rng.uniform(0.1, 1.0, 150)):
        one = CLASSES.isotonic_reliability(y, p, sample_weight=weights, resamples=60)
        with monkeypatch.context() as patch:
            patch.setattr("fastmcmd.metrics.isotonic._NUMBERS", 7 * 150)
            two = CLASSES.isotonic_reliability(y, p, sample_weight=weights, resamples=60)
        np.testing.assert_array_equal((one.low, one.high), (two.low, two.high))


def test_forms_of_probabilities_agree(rng):
    p = rng.uniform(size=200)
    y = (rng.random(200) < p).astype(int)
    one = CLASSES.isotonic_reliability(y, p, resamples=50)
    two = CLASSES.isotonic_reliability(y, np.stack([1 - p, p], axis=1), of="positive", resamples=50)
    np.testing.assert_allclose(one.low, two.low)
    assert one.to_dict() == pytest.approx(two.to_dict())
    many = rng.dirichlet(np.ones(3), 200)
    top = CLASSES.isotonic_reliability(rng.integers(0, 3, 200), many, resamples=0)
    assert top.event == "the most probable class is right"
    assert len(top.grid) == 0
    assert math.isnan(top.p_value)


def test_exceedance(rng):
    mean = rng.normal(size=400)
    y = mean + rng.normal(size=400)
    curve = fm.metrics.exceedance_reliability(y, fm.Gaussian(mean, 1.0), 0.7, resamples=100)
    p = stats.norm.sf(0.7, mean, 1.0)
    same = CLASSES.isotonic_reliability(y > 0.7, p, resamples=100)
    np.testing.assert_allclose(curve.frequency, same.frequency)
    assert curve.to_dict() == pytest.approx(same.to_dict())
    assert curve.event == "y > 0.7"
    assert "0.7" in repr(curve)
    assert curve.table().count("\n") == 13
    with pytest.raises(ValueError, match="threshold is nan"):
        fm.metrics.exceedance_reliability(y, fm.Gaussian(mean, 1.0), math.nan)


def test_rows_without_weight_do_not_count(rng):
    p = rng.uniform(size=100)
    y = rng.random(100) < p
    weights = (np.arange(100) < 60).astype(float)
    curve = CLASSES.isotonic_reliability(y, p, sample_weight=weights, resamples=0)
    alone = CLASSES.isotonic_reliability(y[:60], p[:60], resamples=0)
    np.testing.assert_allclose(curve.frequency, alone.frequency)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["even", "rare", "levels", "weights"])
def test_the_band_holds_the_whole_curve(kind):
    """With 100 resamples, the band and the p-value are as exact as with 1,000."""
    coverage, p_values = isotonic_coverage(kind, 200, 400, resamples=100, level=0.9)
    assert abs(coverage - 0.9) < 4 * math.sqrt(0.09 / 400)
    assert np.mean(p_values <= 0.1) < 0.1 + 4 * math.sqrt(0.09 / 400)


def test_a_wrong_model_leaves_the_band(rng):
    p = rng.uniform(size=1000)
    curve = CLASSES.isotonic_reliability(rng.random(1000) < p**2, p, resamples=200)
    at = curve.frequency[np.searchsorted(curve.probability, curve.grid)]
    assert ((at < curve.low) | (at > curve.high)).any()
    assert curve.p_value == pytest.approx(1 / 101)
