"""Energy and variogram scores agree with sums over pairs and scoringrules; the truth scores best."""

from __future__ import annotations

import numpy as np
import peers
import pytest
from builders import same_in_threads_and_blocks
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd.metrics import vector_scores
from fastmcmd.metrics.scores import crps
from fastmcmd.metrics.vector_scores import (
    energy_score,
    mean_energy_score,
    mean_variogram_score,
    variogram_score,
)

ESTIMATORS = pytest.mark.parametrize("estimator", ["nrg", "fair"])
BOTH = pytest.mark.parametrize(
    ("score", "mean_score"),
    [(energy_score, mean_energy_score), (variogram_score, mean_variogram_score)],
)


def energy(y, draws, beta=1.0, estimator="nrg"):
    """Return the definition: means of distances over draws and over pairs of draws."""
    m = draws.shape[1]
    near = (np.linalg.norm(draws - y[:, None], axis=2) ** beta).mean(axis=1)
    apart = np.linalg.norm(draws[:, :, None] - draws[:, None, :], axis=3) ** beta
    return near - apart.sum(axis=(1, 2)) / (m * (m - 1) if estimator == "fair" else m * m) / 2


def variogram(y, draws, p=0.5, weights=None, estimator="nrg"):
    """Return the definition; "fair": scores of each draw, minus half the scores between draws."""
    weights = np.ones((y.shape[1],) * 2) if weights is None else np.asarray(weights)
    between_draws = np.abs(draws[..., :, None] - draws[..., None, :]) ** p  # (n, m, k, k)
    between_outcomes = np.abs(y[:, :, None] - y[:, None, :]) ** p
    if estimator == "nrg":
        return (weights * (between_outcomes - between_draws.mean(axis=1)) ** 2).sum(axis=(1, 2))
    m = draws.shape[1]
    near = (
        (weights * (between_draws - between_outcomes[:, None]) ** 2).sum(axis=(2, 3)).mean(axis=1)
    )
    apart = (weights * (between_draws[:, :, None] - between_draws[:, None]) ** 2).sum(
        axis=(1, 2, 3, 4)
    )
    return near - apart / (m * (m - 1)) / 2


@ESTIMATORS
@given(
    st.integers(0, 10**6),
    st.integers(2, 9),
    st.integers(2, 4),
    st.sampled_from([0.3, 0.5, 1.0, 1.7]),
)
def test_definitions(estimator, seed, m, k, power):
    rng = np.random.default_rng(seed)
    y, draws = rng.normal(size=(5, k)), np.round(rng.normal(size=(5, m, k)), 1)
    draws[0] = draws[0, :1]  # equal draws
    y[1] = draws[1, 0]
    weights = rng.uniform(size=(k, k)) * rng.integers(0, 2, (k, k))
    np.testing.assert_allclose(
        energy_score(y, draws, beta=power, estimator=estimator),
        energy(y, draws, power, estimator),
        atol=1e-13,
    )
    np.testing.assert_allclose(
        variogram_score(y, draws, p=power, weights=weights, estimator=estimator),
        variogram(y, draws, power, weights, estimator),
        atol=1e-12,
    )


@ESTIMATORS
def test_scoringrules(rng, estimator):
    peer = peers.imported("scoringrules")
    y, draws = rng.normal(size=(30, 4)), rng.normal(size=(30, 11, 4))
    np.testing.assert_allclose(
        energy_score(y, draws, estimator=estimator),
        peer.es_ensemble(y, draws, estimator=estimator, backend="numpy"),
        rtol=1e-11,
    )
    weights = rng.uniform(size=(4, 4))
    for p in (0.5, 1.0, 2.0):
        np.testing.assert_allclose(
            variogram_score(y, draws, p=p, weights=weights, estimator=estimator),
            peer.vs_ensemble(y, draws, weights, p=p, estimator=estimator, backend="numpy"),
            rtol=1e-10,
        )


@ESTIMATORS
def test_energy_score_of_numbers_is_the_crps(rng, estimator):
    y, draws = rng.normal(size=20), rng.normal(size=(20, 7))
    scores = energy_score(y, draws, estimator=estimator)
    np.testing.assert_array_equal(scores, crps(y, draws, estimator=estimator))
    np.testing.assert_allclose(scores, energy(y[:, None], draws[:, :, None], 1.0, estimator))
    other = energy_score(y, draws, beta=0.5, estimator=estimator)
    np.testing.assert_allclose(other, energy(y[:, None], draws[:, :, None], 0.5, estimator))
    gaussian = fm.Gaussian(np.zeros(20), 1.0)
    np.testing.assert_array_equal(energy_score(y, gaussian), gaussian.crps(y))


def test_fair_estimators_are_unbiased(rng):
    """Two draws give on average the score of very many; the empirical distribution's score is higher."""
    n, y = 40_000, np.array([0.5, -1.0])
    many = rng.normal(size=(1, 1500, 2))
    few, at = rng.normal(size=(n, 2, 2)), np.broadcast_to(y, (n, 2))
    for score in (energy_score, variogram_score):
        exact = score(y[None], many, estimator="fair")[0]
        noise = 0.15  # of 1,500 draws
        fair, plain = score(at, few, estimator="fair"), score(at, few)
        assert abs(fair.mean() - exact) < noise
        assert plain.mean() > fair.mean() + 4 * (plain - fair).std() / np.sqrt(n)


def test_predictions_are_drawn_from_on_request(rng):
    mean, y = rng.normal(size=(60, 3)), rng.normal(size=(60, 3))
    gaussian = fm.Gaussian(mean, 1.0)
    for score in (energy_score, variogram_score):
        with pytest.raises(ValueError, match=r"prediction is a Gaussian.*give draws=m"):
            score(y, gaussian)
        scores = score(y, gaussian, draws=400, random_state=3, estimator="fair")
        np.testing.assert_array_equal(
            scores, score(y, gaussian, draws=400, random_state=3, estimator="fair")
        )
        again = score(y, gaussian, draws=400, random_state=4, estimator="fair")
        assert 0 < np.abs(scores - again).max() < 2
        assert abs((scores - again).mean()) < 0.1
        with pytest.raises(ValueError, match="prediction is draws already"):
            score(y, gaussian.sample(5, 0), draws=4)


def test_energy_score_of_drawn_numbers(rng):
    """Many draws of a Gaussian estimate its CRPS."""
    y = rng.normal(size=50)
    gaussian = fm.Gaussian(np.zeros(50), 1.0)
    scores = energy_score(y, gaussian, draws=2000, random_state=0, estimator="fair")
    np.testing.assert_allclose(scores, gaussian.crps(y), atol=0.12)


def correlated(rng, shape, correlation, scale=1.0):
    noise = rng.normal(size=(*shape, 2))
    noise[..., 1] = correlation * noise[..., 0] + np.sqrt(1 - correlation**2) * noise[..., 1]
    return scale * noise


@pytest.mark.parametrize("beta", [0.5, 1.0, 1.5])
def test_the_true_distribution_has_the_best_energy_score(rng, beta):
    """With few draws only the unbiased estimator prefers the truth: the other prefers too narrow ones."""
    n, m = 12_000, 16
    y = correlated(rng, (n,), 0.8)
    best = energy_score(y, correlated(rng, (n, m), 0.8), beta=beta, estimator="fair")
    for other in (
        correlated(rng, (n, m), 0.8) + 0.5,
        correlated(rng, (n, m), 0.8, 2.0),
        correlated(rng, (n, m), 0.8, 0.5),
        correlated(rng, (n, m), -0.8),  # dependence only
    ):
        excess = energy_score(y, other, beta=beta, estimator="fair") - best
        assert excess.mean() > 4 * excess.std() / np.sqrt(n)


@pytest.mark.parametrize("p", [0.5, 1.0])
def test_the_true_distribution_has_the_best_variogram_score(rng, p):
    n, m = 12_000, 16
    y = correlated(rng, (n,), 0.8)
    best = variogram_score(y, correlated(rng, (n, m), 0.8), p=p, estimator="fair")
    for other in (
        correlated(rng, (n, m), 0.0),
        correlated(rng, (n, m), 0.97),
        correlated(rng, (n, m), 0.8, 2.0),
    ):
        excess = variogram_score(y, other, p=p, estimator="fair") - best
        assert excess.mean() > 4 * excess.std() / np.sqrt(n)


def test_invariances(rng):
    y, draws = rng.normal(size=(10, 3)), rng.normal(size=(10, 6, 3))
    expected = energy_score(y, draws), variogram_score(y, draws)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    rotated = energy_score(y @ turn + 5, draws @ turn + 5)
    np.testing.assert_allclose(rotated, expected[0], rtol=1e-12)
    np.testing.assert_allclose(
        energy_score(3 * y, 3 * draws, beta=0.5), 3**0.5 * energy(y, draws, 0.5)
    )
    # A common shift of all components has no effect.
    shifted = variogram_score(y + 2, draws - 1)
    np.testing.assert_allclose(shifted, expected[1], rtol=1e-12)
    np.testing.assert_allclose(variogram_score(3 * y, 3 * draws), 3 * expected[1])
    order = rng.permutation(6)
    np.testing.assert_allclose(energy_score(y, draws[:, order]), expected[0], rtol=1e-12)
    np.testing.assert_allclose(
        variogram_score(y[:, [2, 0, 1]], draws[:, :, [2, 0, 1]]), expected[1], rtol=1e-12
    )


@BOTH
def test_means_weights_and_nan(rng, score, mean_score):
    y, draws = rng.normal(size=(9, 2)), rng.normal(size=(9, 5, 2))
    values = score(y, draws)
    weight = rng.integers(0, 3, 9)
    mean_value = mean_score(y, draws, sample_weight=weight)
    assert mean_value == pytest.approx(np.average(values, weights=weight))
    rows = np.repeat(np.arange(9), weight)
    assert mean_value == pytest.approx(mean_score(y[rows], draws[rows]))
    assert mean_score(y, draws) == pytest.approx(values.mean())
    bad = y.copy()
    bad[4, 1] = np.nan
    with pytest.raises(ValueError, match="y holds NaN"):
        score(bad, draws)
    valid = np.arange(9) != 4
    mean_value = score(bad, draws, nan_policy="omit")
    np.testing.assert_array_equal(mean_value[valid], values[valid])
    assert np.isnan(mean_value[4])
    assert mean_score(bad, draws, nan_policy="omit") == pytest.approx(values[valid].mean())
    assert np.isnan(mean_score(bad, draws, nan_policy="propagate"))


def test_threads_and_blocks_do_not_matter(rng, monkeypatch):
    y, draws = rng.normal(size=(200, 2)), rng.normal(size=(200, 9, 2)).astype(np.float32)
    gaussian = fm.Gaussian(y + 1, 1.0)

    def all_scores():
        return [
            energy_score(y, draws),
            variogram_score(y, draws),
            energy_score(y, gaussian, draws=5, random_state=1),
        ]

    same_in_threads_and_blocks(all_scores, vector_scores, 100, monkeypatch)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, d: energy_score(y, d, beta=2.0), r"beta is 2; a number in \(0, 2\)"),
        (lambda y, d: energy_score(y, d, beta=0.0), "beta is 0"),
        (lambda y, d: energy_score(y, d, estimator="qd"), "estimator is 'qd'"),
        (lambda y, d: energy_score(y, d[:, :1], estimator="fair"), "at least two draws per input"),
        (lambda y, d: energy_score(y[:, :1], d), "prediction has 2 components and y has 1"),
        (lambda y, d: variogram_score(y, d, p=-1.0), "p is -1"),
        (lambda y, d: variogram_score(y, d, weights=[1.0, 2.0]), r"weights have shape \(2, 1\)"),
        (lambda y, d: variogram_score(y, d, weights=-np.ones((2, 2))), "weights have values down"),
        (lambda y, d: variogram_score(y[:, 0], d[:, :, 0]), "y has one component"),
        (
            lambda y, d: variogram_score(y, d[:, :1], estimator="fair"),
            "at least two draws per input",
        ),
        (lambda y, d: energy_score(y, fm.Gaussian(y, 1.0), draws=0), "draws is 0"),
    ],
)
def test_bad_input(rng, call, message):
    with pytest.raises(ValueError, match=message):
        call(rng.normal(size=(4, 2)), rng.normal(size=(4, 3, 2)))
