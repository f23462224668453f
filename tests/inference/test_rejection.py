"""Rejection curves agree with a plain loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fastmcmd as fm


def naive(score, loss, weights=None):
    """Return the mean loss of the k rows of lowest score, k = 1..n, over all orders of tied rows."""
    w = np.ones(len(loss)) if weights is None else weights
    curves = []
    for order in itertools.permutations(range(len(loss))):
        if all(score[a] <= score[b] for a, b in itertools.pairwise(order)):
            order = list(order)
            curves.append([w[order[:k]] @ loss[order[:k]] / w[order[:k]].sum()
                           for k in range(1, len(order) + 1)])  # fmt: skip
    return np.mean(curves, axis=0)


@pytest.mark.parametrize("tied", [False, True])
def test_against_a_loop(tied):
    rng = np.random.default_rng(0)
    score = rng.integers(0, 3, 6).astype(float) if tied else rng.normal(size=6)
    loss, std = rng.exponential(size=6), rng.exponential(size=6)
    curve = fm.rejection_curve(score, loss, std)
    expected = naive(score, loss)
    np.testing.assert_allclose(curve.loss, expected[::-1])
    np.testing.assert_allclose(curve.std_loss, naive(std, loss)[::-1])
    np.testing.assert_allclose(curve.rejected, np.arange(6) / 6)
    assert curve.area == pytest.approx(expected.mean())
    assert curve.best_area == pytest.approx(naive(loss, loss).mean())
    assert curve.random_area == pytest.approx(loss.mean())


def test_weights_count_as_rows_repeat():
    rng = np.random.default_rng(0)
    score, loss = rng.normal(size=6), rng.exponential(size=6)
    weights = np.array([1.0, 2.0, 0.0, 3.0, 0.5, 1.0])
    curve = fm.rejection_curve(score, loss, weights=weights)
    has_weight = weights > 0
    np.testing.assert_allclose(
        curve.loss, naive(score[has_weight], loss[has_weight], weights[has_weight])[::-1]
    )


def test_scores_that_know_and_scores_that_do_not():
    rng = np.random.default_rng(1)
    std = rng.uniform(0.1, 2, 400)
    loss = np.abs(std * rng.normal(size=400))
    informed = fm.rejection_curve(std, loss, np.abs(rng.normal(size=400)))
    assert informed.p_value == 1 / 200
    assert 0.2 < informed.gain < 1
    assert informed.std_p_value > 0.01
    assert abs(informed.std_gain) < 0.3
    assert informed.loss[50] < informed.random_band[50, 0]
    assert fm.rejection_curve(-std, loss).p_value > 0.99
    assert fm.rejection_curve(loss, loss).gain == pytest.approx(1.0)
    again = fm.rejection_curve(std, loss, np.abs(rng.normal(size=400)), random_state=0)
    np.testing.assert_array_equal(again.random_band, informed.random_band)


def test_the_band_holds_random_scores_and_p_is_uniform():
    rng = np.random.default_rng(2)
    loss = rng.exponential(size=80)
    curves = [fm.rejection_curve(rng.normal(size=80), loss, simulations=99) for _ in range(100)]
    inside = [(r.loss >= r.random_band[:, 0]) & (r.loss <= r.random_band[:, 1]) for r in curves]
    assert 0.9 < np.mean(inside) <= 1
    assert 35 < sum(r.p_value <= 0.5 for r in curves) < 65


def test_edges():
    one = fm.rejection_curve([1.0], [2.0])
    assert (one.loss.tolist(), one.area, one.gain) == ([2.0], 2.0, 0.0)
    constant = fm.rejection_curve([1.0, 2.0, 3.0], [4.0, 4.0, 4.0])
    assert constant.gain == 0.0
    assert constant.p_value == 1.0
    infinite = fm.rejection_curve([1.0, 2.0, 3.0], [1.0, 2.0, np.inf])
    assert infinite.loss.tolist() == [np.inf, 1.5, 1.0]
    assert "inf" in repr(infinite)
    with pytest.raises(ValueError, match="loss holds NaN"):
        fm.rejection_curve([1.0], [np.nan])
    with pytest.raises(ValueError, match="rows must match"):
        fm.rejection_curve([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="level"):
        fm.rejection_curve([1.0], [1.0], level=1.5)


def test_results_are_shown():
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(1)
    curve = fm.rejection_curve(
        rng.normal(size=50), rng.exponential(size=50), rng.exponential(size=50)
    )
    frame = curve.to_frame()
    assert list(frame) == ["rejected", "loss", "std_loss", "random_low", "random_high", "best_loss"]
    assert "Rejection by the predicted std" in repr(curve)
    assert len(curve.to_dict()["loss"]) == len(frame)
    assert len(curve.plot().lines) == 3


def test_sums_of_losses_beyond_float64_and_infinities_of_both_signs():
    curve = fm.rejection_curve([1.0, 2.0, 3.0], [0.5e308, 1e308, 1.5e308])
    np.testing.assert_allclose(curve.loss, [1e308, 0.75e308, 0.5e308], rtol=1e-12)
    with pytest.raises(ValueError, match="loss holds infinity of both signs"):
        fm.rejection_curve([1.0, 2.0], [np.inf, -np.inf])


@pytest.mark.slow
def test_p_values_with_equal_scores_are_uniform():
    """Random orders had no equal scores, and areas that scatter more."""
    p = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        score, loss = rng.integers(0, 3, 40).astype(float), rng.exponential(size=40)
        p.append(fm.rejection_curve(score, loss, simulations=39, random_state=seed).p_value)
    assert np.mean(p) == pytest.approx(0.5, abs=0.07)
    assert np.var(p) == pytest.approx(1 / 12, abs=0.02)


def test_simulations_that_allow_no_p_value_are_refused():
    with pytest.raises(ValueError, match="simulations is 18; an integer >= 19"):
        fm.rejection_curve([1.0, 2.0], [1.0, 2.0], simulations=18)


@pytest.mark.parametrize("tied", [False, True])
def test_scores_without_information_are_seldom_called_good(tied):
    """Run a fixed-seed excerpt of tests/simulations/rejection.py."""
    p_values, inside = [], []
    for run in range(100):
        rng = np.random.default_rng([7, run])
        score = rng.integers(0, 4, 40).astype(float) if tied else rng.normal(size=40)
        curve = fm.rejection_curve(score, rng.pareto(2.5, 40), simulations=39, random_state=run)
        p_values.append(curve.p_value)
        low, high = curve.random_band.T
        inside.append(((low <= curve.loss) & (curve.loss <= high))[1:].mean())
    assert np.mean(np.array(p_values) <= 0.1) <= 0.18
    assert np.mean(inside) >= 0.92


def test_a_constant_score_has_p_value_1_despite_rounding(rng):
    """All orders have the same area, but each sums the losses in another order."""
    losses = rng.exponential(size=50)
    for seed in range(5):
        curve = fm.rejection_curve(np.zeros(50), losses, np.ones(50), random_state=seed)
        assert (curve.p_value, curve.std_p_value) == (1.0, 1.0)
