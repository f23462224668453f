"""Near-isotonic regression and its ensemble (ENIR) agree with convex optimisation and netcal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

import fastmcmd as fm
from fastmcmd.recalibration import NearIsotonicEnsemble
from fastmcmd.recalibration.near_isotonic import NearIsotonicPath


def near_isotonic(values, weights, penalty):
    """Return the solution from its dual, bounded least squares: ``b = v - W^-1 D' u``, u in [0, lam]."""
    n = len(values)
    steps = np.eye(n)[:-1] - np.eye(n)[1:]
    root = np.sqrt(weights)
    if penalty == 0:
        return values
    dual = optimize.lsq_linear(
        (steps / root).T, root * values, (0, penalty), method="bvls", tol=1e-14
    )
    return values - steps.T @ dual.x / weights


def sample(rng, kind, n=24):
    if kind == "labels":
        return (rng.random(n) < np.linspace(0, 1, n)).astype(float), np.ones(n)
    if kind == "shares":
        weights = rng.integers(1, 4, n).astype(float)
        return rng.binomial(weights.astype(int), np.linspace(0.1, 0.9, n)) / weights, weights
    return rng.normal(size=n), rng.integers(1, 5, n).astype(float)


@pytest.mark.parametrize("kind", ["labels", "shares", "numbers"])
def test_every_solution_is_the_optimum(kind, rng):
    for _ in range(5):
        values, weights = sample(rng, kind)
        path = NearIsotonicPath.of(values, weights)
        assert (np.diff(path.penalties) > 0).all()
        for place, penalty in enumerate(path.penalties):
            expected = near_isotonic(values, weights, penalty)
            np.testing.assert_allclose(path.solution(place), expected, atol=1e-12)
            steps = 1 + np.count_nonzero(np.abs(np.diff(expected)) > 1e-9)
            assert len(path.alive(place)) == steps
        last = optimize.isotonic_regression(values, weights=weights).x
        np.testing.assert_allclose(path.solution(len(path.penalties) - 1), last, atol=1e-12)


def test_values_that_increase_are_their_own_path():
    path = NearIsotonicPath.of(np.array([0.0, 0.0, 1.0, 2.0]), np.ones(4))
    assert path.penalties.tolist() == [0.0]
    assert path.solution(0).tolist() == [0.0, 0.0, 1.0, 2.0]
    assert len(path.alive(0)) == 3


def ensemble_by_definition(p, y):
    """Return the average over all models after the first, weighted by ``exp(-BIC / 2)``."""
    places, inverse = np.unique(p, return_inverse=True)
    count, ones = np.bincount(inverse), np.bincount(inverse, weights=y)
    path = NearIsotonicPath.of(ones / count, count.astype(float))
    models = [near_isotonic(ones / count, count.astype(float), lam) for lam in path.penalties]
    criteria = []
    for model in models:
        model[:] = np.clip(model.round(12), 0, 1)
        fitted = model[inverse]
        with np.errstate(divide="ignore"):
            likelihood = np.log(np.where(y == 1, fitted, 1 - fitted)).sum()
        steps = 1 + np.count_nonzero(np.abs(np.diff(model)) > 1e-9)
        criteria.append(steps * np.log(len(y)) - 2 * likelihood)
    weights = np.exp(-(np.array(criteria) - min(criteria)) / 2)
    return places, weights @ np.array(models) / weights.sum()


@pytest.mark.parametrize("decimals", [1, 8])
def test_ensemble_is_the_published_average(decimals, rng):
    for _ in range(5):
        p = rng.uniform(size=40).round(decimals)
        y = (rng.random(40) < p).astype(int)
        places, expected = ensemble_by_definition(p, y)
        calibrator = NearIsotonicEnsemble().fit(p, y)
        np.testing.assert_allclose(calibrator.transform(places), expected, atol=1e-9)
        assert calibrator.weights_.sum() == pytest.approx(1)
        order = rng.permutation(40)
        again = NearIsotonicEnsemble().fit(p[order], y[order])
        np.testing.assert_array_equal(again.transform(places), calibrator.transform(places))


def test_ensemble_mends_probabilities(rng):
    p = rng.uniform(size=6000)
    y = (rng.random(6000) < p**2).astype(int)
    calibrator = NearIsotonicEnsemble().fit(p[:3000], y[:3000])
    after = fm.classification.ece(y[3000:], calibrator.transform(p[3000:]))
    assert after < 0.05 < fm.classification.ece(y[3000:], p[3000:])
    both = calibrator.transform(np.stack([1 - p, p], axis=1))
    np.testing.assert_array_equal(both[:, 1], calibrator.transform(p))
    np.testing.assert_allclose(both.sum(axis=1), 1)


def test_ensembles_of_few_rows():
    assert NearIsotonicEnsemble().fit([0.5], [1]).transform([0.2, 0.9]).tolist() == [1, 1]
    separate = NearIsotonicEnsemble().fit([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    assert separate.transform([0.0, 0.5, 0.51, 1.0]).tolist() == [0, 0, 1, 1]
    reversed_ = NearIsotonicEnsemble().fit([0.2, 0.8], [1, 0])
    np.testing.assert_allclose(reversed_.transform([0.1, 0.9]), 0.5)
    beside = np.array([0.5, np.nextafter(0.5, 1)])
    assert NearIsotonicEnsemble().fit(beside, [0, 1]).transform(beside).tolist() == [0, 1]


def test_least_penalised_model_is_that_of_netcal(rng):
    """If three steps merge at once, netcal 1.4 loses the rows of one: no group has them."""
    binning = pytest.importorskip("netcal.binning")
    for _ in range(5):
        p = np.sort(rng.uniform(size=60))
        y = (rng.random(60) < p).astype(int)
        path = NearIsotonicPath.of(y.astype(float), np.ones(60))
        model = binning.NearIsotonicRegression()
        model.fit(p, y)
        model = model.get_next_model()
        assert path.penalties[0] == pytest.approx(model._lambda)
        low, high = model._group_bounds.T
        in_a_bin = ((p[:, None] > low) & (p[:, None] <= high)).any(axis=1)
        assert in_a_bin.mean() > 0.8
        np.testing.assert_allclose(
            path.solution(0)[in_a_bin], model.transform(p)[in_a_bin], atol=1e-12
        )
