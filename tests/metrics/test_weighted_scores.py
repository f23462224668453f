"""Weighted scores agree with definitions and scoringrules; the truth scores best."""

from __future__ import annotations

import itertools

import numpy as np
import peers
import pytest
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd.metrics import (
    censored_likelihood_score,
    kernel_density,
    weighted_crps,
    weighted_energy_score,
    weighted_variogram_score,
)

N = 12
WEIGHTINGS = ("threshold", "outcome", "vertical")
INTERVALS = [(-0.3, 1.2), (-np.inf, 0.4), (0.7, np.inf), (3.0, 3.5)]


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def softplus(v):
    return np.logaddexp(0, v)


def kernel_score(values, p, y, w, weighting):
    """Return the definition for one row by double sums, with ``rho(x, z) = |x - z|``."""
    weights, outcome_weights = w(values), w(y)
    if weighting == "outcome":
        p = p * weights / (p @ weights)
        return outcome_weights * (p @ abs(values - y) - p @ abs(values[:, None] - values) @ p / 2)
    q = p * weights
    gap = q @ abs(values) - outcome_weights * abs(y)
    pairs = q @ abs(values[:, None] - values) @ q
    return outcome_weights * (q @ abs(values - y)) - pairs / 2 + gap * (q.sum() - outcome_weights)


@pytest.mark.parametrize("interval", INTERVALS)
def test_threshold_weighting_is_the_integral(rng, interval):
    low, high = interval
    y, mean, std = rng.normal(size=N), rng.normal(size=N), rng.uniform(0.5, 2, N)
    scores = weighted_crps(y, (mean, std), lower=low, upper=high)
    for i in range(N):
        ends = np.clip([low, y[i], high], -30, 30)

        def square(t, i=i):
            return (stats.norm.cdf(t, mean[i], std[i]) - (y[i] <= t)) ** 2

        clipped_outcome = np.clip(y[i], ends[0], ends[2])
        parts = [(ends[0], clipped_outcome), (clipped_outcome, ends[2])]
        expected = sum(integrate.quad(square, *part, epsabs=1e-13, limit=200)[0] for part in parts)
        assert scores[i] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("interval", INTERVALS[:3])
@pytest.mark.parametrize("weighting", ["outcome", "vertical"])
def test_intervals_of_densities_are_limits_of_counts(rng, interval, weighting):
    """A fine grid of quantiles represents the density."""
    low, high = interval
    y, mean = rng.normal(size=3), 0.2 * rng.normal(size=3)
    scores = weighted_crps(y, (mean, 1.0), lower=low, upper=high, weighting=weighting)
    grid = fm.Gaussian(mean, 1.0).quantile((np.arange(1500) + 0.5) / 1500)
    p = np.full(1500, 1 / 1500)
    for i in range(3):

        def inside(v):
            return ((v > low) & (v < high)) * 1.0

        expected = kernel_score(grid[i], p, y[i], inside, weighting)
        assert scores[i] == pytest.approx(expected, abs=4e-3)


@pytest.mark.parametrize("weighting", ["outcome", "vertical"])
def test_members_by_double_sums(rng, weighting):
    y, values = rng.normal(size=N), rng.normal(size=(N, 7))
    p = rng.dirichlet(np.ones(7), N)
    scores = weighted_crps(y, fm.WeightedDraws(values, p), weight=sigmoid, weighting=weighting)
    expected = [kernel_score(values[i], p[i], y[i], sigmoid, weighting) for i in range(N)]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    counts = rng.poisson(3.0, N)
    scores = weighted_crps(counts, fm.Poisson([3.0] * N), lower=2.5, weighting=weighting)
    k = np.arange(60.0)
    expected = [
        kernel_score(k, stats.poisson.pmf(k, 3.0), float(c), lambda v: (v > 2.5) * 1.0, weighting)
        for c in counts
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("interval", INTERVALS[:3])
def test_scoringrules_agrees_on_the_crps(rng, interval):
    sr = peers.imported("scoringrules")
    y, draws = rng.normal(size=N), rng.normal(size=(N, 15))
    ends, theirs = (
        dict(zip(("lower", "upper"), interval, strict=True)),
        dict(zip("ab", interval, strict=True)),
    )
    peer = {
        "threshold": sr.twcrps_ensemble(y, draws, **theirs, estimator="nrg"),
        "outcome": sr.owcrps_ensemble(y, draws, **theirs),
        "vertical": sr.vrcrps_ensemble(y, draws, **theirs),
    }
    for weighting, expected in peer.items():
        scores = weighted_crps(y, draws, weighting=weighting, **ends)
        np.testing.assert_allclose(scores, expected, rtol=1e-11, atol=1e-14)
    scores = weighted_crps(y, draws, chaining=softplus)
    np.testing.assert_allclose(
        scores, sr.twcrps_ensemble(y, draws, v_func=softplus, estimator="nrg")
    )


def test_scoringrules_agrees_on_vectors(rng):
    sr = peers.imported("scoringrules")
    y, draws = rng.normal(size=(N, 3)), rng.normal(size=(N, 9, 3))
    pairs = np.abs(rng.normal(size=(3, 3)))

    def chaining(v):
        return np.maximum(v, 0.2)

    def weight(v):
        return np.exp(v.sum(axis=-1))

    cases = [
        (weighted_energy_score, {}, sr.twes_ensemble, sr.owes_ensemble, sr.vres_ensemble),
        (weighted_variogram_score, {"weights": pairs},
         sr.twvs_ensemble, sr.owvs_ensemble, sr.vrvs_ensemble),
    ]  # fmt: skip
    for score, options, *theirs in cases:
        more = {"w": pairs} if options else {}
        for weighting, peer in zip(WEIGHTINGS, theirs, strict=True):
            our_options = {"chaining": chaining} if weighting == "threshold" else {"weight": weight}
            scores = score(y, draws, weighting=weighting, **our_options, **options)
            function = chaining if weighting == "threshold" else weight
            np.testing.assert_allclose(scores, peer(y, draws, function, **more), rtol=1e-10)


def test_without_a_weight_they_are_the_score_itself(rng):
    y, draws = rng.normal(size=(N, 3)), rng.normal(size=(N, 9, 3))
    for weighting in WEIGHTINGS:
        scores = weighted_energy_score(y, draws, weighting=weighting)
        np.testing.assert_allclose(scores, fm.metrics.energy_score(y, draws), rtol=1e-12)
        scores = weighted_variogram_score(y, draws, weighting=weighting)
        np.testing.assert_allclose(scores, fm.metrics.variogram_score(y, draws), rtol=1e-12)
        for prediction in (draws[:, :, 0], (draws[:, 0, 0], 1.0), fm.Poisson(np.ones(N))):
            scores = weighted_crps(y[:, 0], prediction, weighting=weighting)
            np.testing.assert_allclose(scores, fm.crps(y[:, 0], prediction), rtol=1e-12)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1e100, 1e200])
def test_scores_of_vectors_at_any_scale(rng, weighting, scale):
    """Energy scores are homogeneous of degree beta, variogram scores of degree 2 p."""
    y, draws = rng.normal(size=(N, 3)), rng.normal(size=(N, 6, 3))
    scaled = y * scale, draws * scale
    for degree, options in ((1.0, {}), (1.4, {"beta": 1.4})):
        scores = weighted_energy_score(*scaled, weighting=weighting, **options)
        expected = weighted_energy_score(y, draws, weighting=weighting, **options)
        np.testing.assert_allclose(scores, expected * scale**degree, rtol=1e-9)
    scores = weighted_variogram_score(*scaled, weighting=weighting, p=0.7)
    expected = weighted_variogram_score(y, draws, weighting=weighting, p=0.7)
    np.testing.assert_allclose(scores, expected * scale**1.4, rtol=1e-9)
    beyond = weighted_variogram_score(y * 1e250, draws * 1e250, weighting=weighting, p=1.0)
    assert (np.abs(beyond) == np.inf).all()


def test_thresholds_add_up(rng):
    y, prediction = rng.normal(size=N), (np.zeros(N), 1.0)
    cuts = [-np.inf, -1.0, 0.3, np.inf]
    parts = [
        weighted_crps(y, prediction, lower=low, upper=high)
        for low, high in itertools.pairwise(cuts)
    ]
    np.testing.assert_allclose(sum(parts), fm.crps(y, prediction), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_truth_scores_best(rng, weighting):
    """The scores are proper, beyond simulation error; the CRPS restricted to high outcomes is not."""
    n = 6000
    y = rng.normal(size=n)
    options = {"weighting": weighting, "lower": 1.0}
    best = weighted_crps(y, (np.zeros(n), 1.0), **options)
    for other in ((np.full(n, 0.4), 1.0), (np.zeros(n), 1.5), (np.zeros(n), 0.7)):
        gain = weighted_crps(y, other, **options) - best
        assert gain.mean() > 3 * gain.std() / np.sqrt(n)
    high = y > 1.0
    naive = fm.crps(y[high], (np.full(high.sum(), 1.0), 1.0)) - fm.crps(
        y[high], (np.zeros(high.sum()), 1.0)
    )
    assert naive.mean() < 0  # a wrong model wins


@pytest.mark.parametrize("conditional", [False, True])
def test_likelihood_scores(rng, conditional):
    sr = peers.imported("scoringrules")
    y, draws = rng.normal(size=N), rng.normal(size=(N, 8))
    scores = censored_likelihood_score(
        y, kernel_density(draws, 0.3), lower=-0.4, upper=0.9, conditional=conditional
    )
    np.testing.assert_allclose(
        scores,
        sr.clogs_ensemble(y, draws, -0.4, 0.9, cens=not conditional, bw=np.full(N, 0.3)),
        rtol=1e-10,
    )
    n = 20_000
    y = rng.normal(size=n)
    options = {"lower": 0.5, "conditional": conditional}
    best = censored_likelihood_score(y, (np.zeros(n), 1.0), **options)
    gain = censored_likelihood_score(y, (np.zeros(n), 1.4), **options) - best
    assert gain.mean() > 3 * gain.std() / np.sqrt(n)
    counts = censored_likelihood_score([0, 5], fm.Poisson([2.0, 2.0]), lower=1, upper=4)
    outside = 1 - stats.poisson.pmf([2, 3], 2.0).sum()
    np.testing.assert_allclose(counts, -np.log(outside))


def test_sums_of_batches(rng):
    y, mean = rng.normal(size=N), np.zeros(N)
    for score, options in (
        (weighted_crps, {"lower": 0.5}),
        (censored_likelihood_score, {"upper": 0.1}),
    ):
        sums = fm.streaming.MeanOf(score, **options)
        for rows in (slice(0, 5), slice(5, N)):
            sums.update(y[rows], (mean[rows], 1.0))
        expected = score(y, (mean, 1.0), **options).mean()
        assert sums.compute() == pytest.approx(expected, rel=1e-14)


def test_no_mass_in_the_region_of_interest():
    draws = [[0.0, 1.0]]
    options = {"lower": 3.0, "weighting": "outcome"}
    assert np.isnan(weighted_crps([4.0], draws, **options)).all()
    assert weighted_crps([2.0], draws, **options).tolist() == [0.0]
    assert weighted_crps([2.0], draws, lower=3.0, weighting="vertical").tolist() == [0.0]


def test_rows_with_nan_are_left_out():
    draws = np.array([[0.0, 2.0], [np.nan, 1.0]])
    scores = weighted_crps([1.0, 1.0], draws, lower=0.5, nan_policy="omit")
    assert np.isfinite(scores[0])
    assert np.isnan(scores[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weighting": "tail"}, "weighting"),
        ({"lower": 2.0, "upper": 1.0}, "lower is not below upper"),
        ({"lower": np.nan}, "lower holds NaN"),
        ({"lower": [0.0, 1.0]}, r"lower has shape \(2,\)"),
        ({"weight": sigmoid}, "weighting='threshold' needs chaining"),
        ({"chaining": sigmoid, "weighting": "outcome"}, "needs weight"),
        ({"chaining": softplus, "lower": 1.0}, "lower or upper and chaining are given"),
        ({"chaining": softplus}, "give draws=m"),
        (
            {"weight": lambda v: v - 99, "weighting": "outcome", "draws": 5},
            "weight returned values",
        ),
        ({"weight": lambda v: 1.0, "weighting": "outcome", "draws": 5}, "weight returned shape"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        weighted_crps([0.0, 1.0, 2.0], (np.zeros(3), 1.0), **options)
