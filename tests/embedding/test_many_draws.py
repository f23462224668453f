"""Many draws, taken in blocks, give the values of all their features at once, within the bounds."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.embedding import many_draws
from fastmcmd.embedding.sample import DrawnOutputs

N, L = 300, 240  # 72,000 draws


def problem(kind, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    if kind == "vectors":
        y = x + rng.normal(size=(N, 2))
        return x, y, x[:, None] + rng.normal(size=(N, L, 2))
    y = x[:, 0] + rng.normal(size=N)
    draws = x[:, :1] + rng.normal(size=(N, L))
    if kind == "tails":
        draws[3, :5] = [90.0, -500.0, 33.0, 34.5, 36.0]  # rare, between and beyond all others
        draws[200] = 60.0
    elif kind == "counts":
        y, draws = np.round(y), np.round(draws)
        draws[7, 0] = 25.0
    elif kind == "float32":
        return x.astype(np.float32), y.astype(np.float32), draws.astype(np.float32)
    return x, y, draws


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "kernel"),
    [
        *((kind, fm.RBF(0.5)) for kind in ("plain", "tails", "counts", "float32")),
        ("vectors", fm.RBF(0.01)),
        *((kind, None) for kind in ("plain", "tails", "counts")),
    ],
)
def test_values_are_those_of_all_features(kind, kernel, monkeypatch):
    x, y, draws = problem(kind)
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": kernel, "lam": 0.05}
    assert many_draws.are_many(DrawnOutputs(draws.reshape(N, L, -1)))
    ours = fm.cce(x, y, draws, **options)
    monkeypatch.setattr(many_draws, "_LEAST", 1 << 40)
    at_once = fm.cce(x, y, draws, **options, tol=1e-9)
    off = abs(ours.values - at_once.values)
    assert (off <= ours.error_bounds + at_once.error_bounds).all()
    assert ours.error_bound <= 1e-6


def test_values_are_those_of_the_definition(monkeypatch):
    monkeypatch.setattr(many_draws, "_LEAST", 0)
    n, draws = 60, 40
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 2))
    y, members = x[:, 0] + rng.normal(size=n), x[:, :1] + rng.normal(size=(n, draws))
    members[3, :2] = 90.0, 33.0
    kernel, lam = fm.RBF(0.5), 0.05
    ours = fm.cce(x, y, members, x_kernel=kernel, y_kernel=kernel, lam=lam)
    inverse = np.linalg.inv(kernel(x) + n * lam * np.eye(n)) @ kernel(x)
    flat = members.reshape(-1, 1)
    across = kernel(flat, y[:, None]).reshape(n, draws, n).mean(axis=1)
    within = kernel(flat).reshape(n, draws, n, draws).mean(axis=(1, 3))
    middle = kernel(y[:, None]) - across - across.T + within
    expected = np.sqrt(np.maximum(np.einsum("iq,ij,jq->q", inverse, middle, inverse), 0))
    assert (abs(ours.values - expected) <= ours.error_bounds + 1e-9).all()


def test_representatives_include_the_ends():
    draws = np.random.default_rng(1).normal(size=(2000, 1000, 1))
    draws[77, 3], draws[1234, 9] = 40.0, -41.0
    values = many_draws.representatives(DrawnOutputs(draws))
    assert values.min() == -41.0
    assert values.max() == 40.0
    assert len(values) <= many_draws.MOST_CANDIDATES
    assert np.isin(values, draws).all()


@pytest.mark.parametrize("draws", [2, 3, 5, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_draws_have_the_features_of_one(rng, draws, weighted):
    values = np.repeat(rng.normal(size=(300, 1, 2)), draws, axis=1)
    values[::3] = rng.normal(size=(100, draws, 2))
    weights = rng.dirichlet(np.ones(draws), 300) if weighted else None
    outputs, p = DrawnOutputs(values, weights), rng.normal(size=(300 * draws, 5))
    p.reshape(300, draws, 5)[:] = p.reshape(300, draws, 5)[:, :1]
    p.reshape(300, draws, 5)[::3] = rng.normal(size=(100, draws, 5))
    means = outputs.mean_features(p, slice(0, len(p)))
    share = np.full((300, draws), 1 / draws) if weights is None else weights
    plain = np.einsum("nl,nlr->nr", share, p.reshape(300, draws, 5))
    np.testing.assert_allclose(means, plain, rtol=0, atol=1e-15 * draws)
    equal = np.arange(300) % 3 > 0
    np.testing.assert_array_equal(means[equal], p.reshape(300, draws, 5)[equal, 0])


@pytest.mark.parametrize("draws", [3, 5, 7])
def test_draws_that_all_equal_the_outcome_leave_no_error(rng, draws):
    x, y = rng.normal(size=(500, 2)), rng.normal(size=500)
    result = fm.cce(x, y, fm.Draws(np.repeat(y[:, None], draws, axis=1)))
    assert not result.values.any()
    assert not result.error_bounds.any()


def test_representatives_of_vectors_fill_the_tails():
    """Rare draws far from the rest, of which even spacing would miss most, are among the candidates."""
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(1000, 300, 3))
    places = rng.choice(draws.size // 3, 40, replace=False)
    far = 6 + 3 * rng.uniform(size=(40, 3)) + 9 * np.arange(40)[:, None]
    draws.reshape(-1, 3)[places] = far
    values = many_draws.representatives(DrawnOutputs(draws))
    assert len(values) <= many_draws.MOST_CANDIDATES
    assert len(np.unique(values, axis=0)) == len(values)
    nearest = np.array([np.linalg.norm(values - one, axis=1).min() for one in far])
    assert (nearest == 0).all()


@pytest.mark.parametrize("columns", [2, 5, 60, 90])
@pytest.mark.parametrize("kind", ["equal", "two", "normal"])
def test_representatives_of_vectors_are_distinct_draws(kind, columns):
    rng = np.random.default_rng(columns)
    draws = np.full((400, 20, columns), 2.5)
    if kind == "two":
        draws[rng.uniform(size=400) < 0.3] += np.arange(columns)
    elif kind == "normal":
        draws = rng.normal(size=draws.shape).astype(np.float32)
    values = many_draws.representatives(DrawnOutputs(draws))
    assert 1 <= len(values) <= many_draws.MOST_CANDIDATES
    as_rows = {row.tobytes() for row in draws.reshape(-1, columns).astype(np.float64)}
    assert all(row.tobytes() in as_rows for row in values)
