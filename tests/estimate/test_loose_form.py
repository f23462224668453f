"""Loose tolerances: landmarks whose equations are solved by iteration, and a sampled certificate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.solvers.landmark_iteration import LandmarkEquations, features_at

N = 5000


def gaussian(rng, n=N, d=3):
    x = rng.normal(size=(n, d))
    mean = np.sin(x[:, 0])
    return x, mean + 0.3 * rng.normal(size=n), mean + 0.4 * rng.normal(size=n)


def far_rows(rng):
    """Rows far from all others, and a cluster far away with outcomes of its own."""
    x, y, draws = gaussian(rng, d=2)
    x[:7] = 100 * rng.normal(size=(7, 2))
    x[7:100] = 20 + 0.05 * rng.normal(size=(93, 2))
    draws[7:100] += 3
    return x, y, draws


def clusters(rng):
    centres = 5 * rng.normal(size=(20, 3))
    cluster = rng.zipf(1.7, size=N) % 20
    x = centres[cluster] + 0.3 * rng.normal(size=(N, 3))
    mean = np.sin(cluster)
    return x, mean + 0.3 * rng.normal(size=N), mean + 0.1 + 0.4 * rng.normal(size=N)


def dense(x, y, draws, gamma, lam):
    """Return the CCE for RBF(gamma) on inputs and RBF(1) on outcomes, in float64, by its formula."""
    squares = scipy.spatial.distance.cdist(x, x, "sqeuclidean")
    k = np.exp(-gamma * squares)
    solved = scipy.linalg.solve(k + len(x) * lam * np.eye(len(x)), k, assume_a="pos")
    outputs = [
        np.exp(-((a[:, None] - b[None, :]) ** 2)) for a, b in ((y, y), (y, draws), (draws, draws))
    ]
    form = outputs[0] - outputs[1] - outputs[1].T + outputs[2]
    return np.sqrt(np.maximum(np.einsum("ij,ij->j", solved, form @ solved), 0.0))


@pytest.mark.parametrize("data", [gaussian, far_rows, clusters])
def test_bounds_hold_against_the_formula(data):
    for seed, lam in ((0, 0.1), (1, 0.02)):
        x, y, draws = data(np.random.default_rng(seed))
        expected = dense(x, y, draws, 0.3, lam)
        for tol in (2e-2, 5e-3, 1e-3):
            result = fm.cce(
                x, y, draws, x_kernel=fm.RBF(0.3), y_kernel=fm.RBF(1.0), lam=lam, tol=tol,
                backend="cpu",
            )  # fmt: skip
            assert result.error_bound <= tol
            assert np.all(np.abs(result.values - expected) <= result.error_bounds + 1e-9)
            if tol == 2e-2 and data is not clusters:
                assert result.info.solver == "lowrank"
                assert result.info.certificate == "sampled"


def test_result_does_not_depend_on_threads():
    x, y, draws = gaussian(np.random.default_rng(2))
    results = []
    for threads in (1, 2):
        fm.set_num_threads(threads)
        try:
            results.append(fm.cce(x, y, draws, x_kernel=fm.RBF(0.3), lam=0.1, tol=1e-2))
        finally:
            fm.set_num_threads(None)
    assert results[0].info.landmarks == results[1].info.landmarks > 0
    assert np.array_equal(results[0].values, results[1].values)
    assert np.array_equal(results[0].error_bounds, results[1].error_bounds)


@pytest.mark.parametrize(
    "options", [{"certificate": "rigorous"}, {"dtype": "float64"}, {"solver": "cg"}, {"tol": 1e-6}]
)
def test_it_gives_way_to_options(options):
    x, y, draws = gaussian(np.random.default_rng(3))
    result = fm.cce(
        x, y, draws, **{"x_kernel": fm.RBF(0.3), "lam": 0.1, "tol": 1e-2, **options}
    )  # fmt: skip
    assert result.info.certificate == "rigorous" or result.info.solver == "cg"


def test_other_points_and_weights_take_the_usual_way():
    x, y, draws = gaussian(np.random.default_rng(4))
    options = {"x_kernel": fm.RBF(0.3), "lam": 0.1, "tol": 1e-2}
    at = fm.cce(x, y, draws, at=x[:50], **options)
    weighted = fm.cce(x, y, draws, weights=np.ones(N), **options)
    rows = fm.cce(x, y, draws, **options)
    assert rows.info.solver == "lowrank"
    assert np.all(np.abs(at.values - rows.values[:50]) <= 2e-2)
    assert np.all(np.abs(weighted.values - rows.values) <= 2e-2)


def test_a_row_that_dominates_is_not_left_to_a_sample():
    """With a linear kernel on outcomes one of them may carry most of the answer."""
    x, y, draws = gaussian(np.random.default_rng(5))
    y[17] = 1e3
    result = fm.cce(
        x, y, draws, x_kernel=fm.RBF(0.3), y_kernel=fm.Linear(), lam=0.1, tol=1e-2,
    )  # fmt: skip
    assert result.info.solver != "lowrank" or result.info.landmarks == 0


def test_iteration_solves_the_normal_equations():
    rng = np.random.default_rng(6)
    n, lam, kernel = 3000, 0.05, fm.RBF(0.2)
    x, rhs = rng.normal(size=(n, 3)), rng.normal(size=(n, 4))
    backend = get_backend("cpu", kernel)
    features = features_at(kernel, backend, x[:200], None)
    assert features is not None
    gram = np.exp(-0.2 * scipy.spatial.distance.cdist(x, x[:200], "sqeuclidean"))
    f = scipy.linalg.solve_triangular(features.factor, gram.T, lower=True)
    sums = f @ rhs / (n * lam)
    expected = np.linalg.solve(np.eye(200) + f @ f.T / (n * lam), sums)
    points = backend.points(x, np.float32, None)
    equations = LandmarkEquations(features, points, x[1000:], lam)
    for enough in (1e-1, 1e-3):
        solved = equations.solve(sums, enough)
        assert solved is not None
        assert np.linalg.norm(solved.values - expected) <= 3 * enough
        assert np.abs(solved.image - f.T @ solved.values).max() <= 1e-4


def test_leading_features_are_those_at_the_first_landmarks():
    rng = np.random.default_rng(7)
    kernel, x = fm.RBF(0.5), rng.normal(size=(40, 2))
    features = features_at(kernel, get_backend("cpu", kernel), x, None)
    assert features is not None
    few = features.leading(15)
    assert few.rank == 15
    rows = rng.normal(size=(60, 2))
    assert np.allclose(few.transform(rows), features.transform(rows)[:, :15], rtol=0, atol=1e-12)
