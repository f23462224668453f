"""Many more points than rows: output columns that hardly matter there are left out of the products."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy

import fastmcmd as fm
from fastmcmd.estimate.primal import PrimalFit


def data(seed, n=700):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    mean = np.sin(x[:, 0])
    y, draws = mean + 0.3 * rng.normal(size=n), mean + 0.4 * rng.normal(size=n)
    # Far from all rows the CCE is 0, and what is left out counts most.
    at = np.concatenate([rng.normal(size=(4000, 2)), 8 + rng.normal(size=(300, 2))])
    return x, y, draws, at


def dense(x, y, draws, at, gamma, lam):
    """Return the CCE for RBF(gamma) on inputs and RBF(1) on outcomes, in float64, by its formula."""
    k = np.exp(-gamma * scipy.spatial.distance.cdist(x, x, "sqeuclidean"))
    cross = np.exp(-gamma * scipy.spatial.distance.cdist(x, at, "sqeuclidean"))
    solved = scipy.linalg.solve(k + len(x) * lam * np.eye(len(x)), cross, assume_a="pos")
    outputs = [
        np.exp(-((a[:, None] - b[None, :]) ** 2)) for a, b in ((y, y), (y, draws), (draws, draws))
    ]
    form = outputs[0] - outputs[1] - outputs[1].T + outputs[2]
    return np.sqrt(np.maximum(np.einsum("ij,ij->j", solved, form @ solved), 0.0))


@pytest.mark.parametrize("tol", [1e-3, 1e-5, 3e-6])
@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_values_agree_with_the_formula(tol, solver):
    x, y, draws, at = data(0)
    expected = dense(x, y, draws, at, 0.5, 0.05)
    result = fm.cce(
        x, y, draws, at=at, x_kernel=fm.RBF(0.5), y_kernel=fm.RBF(1.0), lam=0.05, tol=tol,
        solver=solver, backend="cpu",
    )  # fmt: skip
    assert result.error_bound <= tol
    assert np.all(np.abs(result.values - expected) <= result.error_bounds + 1e-8)


def test_columns_are_left_out_and_their_part_is_in_the_bound(monkeypatch):
    x, y, draws, at = data(1)
    options = {
        "x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1.0), "lam": 0.05, "backend": "cpu",
        "solver": "cg",
    }  # fmt: skip
    columns, narrowed = [], PrimalFit._narrowed

    def recorded(self, grid):
        form = narrowed(self, grid)
        columns.append((self.parts[0].value.shape[1], form and form.parts[0].value.shape[1]))
        return form

    monkeypatch.setattr(PrimalFit, "_narrowed", recorded)
    narrow = fm.cce(x, y, draws, at=at[:4000], tol=1e-5, **options)
    ((full, fewer),) = columns
    assert fewer is not None
    assert fewer < full
    monkeypatch.setattr(PrimalFit, "_narrowed", lambda self, grid: None)
    complete = fm.cce(x, y, draws, at=at[:4000], tol=1e-5, **options)
    # Only less than the full values, and by no more than the bound says.
    assert np.all(narrow.values <= complete.values + 1e-6)
    assert np.all(complete.values - narrow.values <= narrow.error_bounds)


def blocks_of(monkeypatch, points):
    monkeypatch.setattr("fastmcmd.estimate.budget._IMAGE_ELEMENTS", 0)
    monkeypatch.setattr("fastmcmd.estimate.budget._LEAST_POINTS", points)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("certificate", ["auto", "sampled"])
def test_blocks_of_points_give_the_bits_of_all_at_once(monkeypatch, dtype, certificate):
    monkeypatch.setattr("fastmcmd.estimate.images._AFFORDABLE", 0.0)
    monkeypatch.setattr("fastmcmd.estimate.images._CHEAP", 0.0)
    x, y, draws, at = data(2)
    results = []
    for points in (5000, 1000, 256, 37):
        blocks_of(monkeypatch, points)
        results.append(
            fm.cce(
                x, y, draws, at=at, x_kernel=fm.RBF(0.5), y_kernel=fm.RBF(1.0), lam=0.05, tol=1e-4,
                solver="cg", backend="cpu", dtype=dtype, certificate=certificate,
            )
        )  # fmt: skip
    for result in results[1:]:
        np.testing.assert_array_equal(result.values, results[0].values)
        np.testing.assert_array_equal(result.error_bounds, results[0].error_bounds)
    expected = dense(x, y, draws, at, 0.5, 0.05)
    assert np.all(np.abs(results[0].values - expected) <= results[0].error_bounds + 1e-8)


def test_two_sets_of_inputs_agree_with_the_formula_in_blocks(monkeypatch):
    monkeypatch.setattr("fastmcmd.estimate.images._AFFORDABLE", 0.0)
    monkeypatch.setattr("fastmcmd.estimate.images._CHEAP", 0.0)
    blocks_of(monkeypatch, 300)
    x, y, draws, at = data(3)
    other = x[::-1] + 0.1
    at = np.concatenate([at[:900], other[:50]])
    result = fm.mcmd(
        at, x, y, other, draws, x_kernel=fm.RBF(0.5), y_kernel=fm.RBF(1.0), lam=0.05, tol=1e-4,
        solver="cg", backend="cpu",
    )  # fmt: skip
    solved = []
    for rows in (x, other):
        k = np.exp(-0.5 * scipy.spatial.distance.cdist(rows, rows, "sqeuclidean"))
        cross = np.exp(-0.5 * scipy.spatial.distance.cdist(rows, at, "sqeuclidean"))
        shifted = k + len(x) * 0.05 * np.eye(len(x))
        solved.append(scipy.linalg.solve(shifted, cross, assume_a="pos"))
    both, signed = np.concatenate([y, draws]), np.concatenate([solved[0], -solved[1]])
    outputs = np.exp(-((both[:, None] - both[None, :]) ** 2))
    expected = np.sqrt(np.maximum(np.einsum("ij,ij->j", signed, outputs @ signed), 0.0))
    assert result.error_bound <= 1e-4
    assert np.all(np.abs(result.values - expected) <= result.error_bounds + 1e-8)


def test_points_at_the_inputs_take_the_rows_of_the_solution(monkeypatch):
    """Some inputs as points, more than a block of them, in another order."""
    blocks_of(monkeypatch, 100)
    x, y, draws, _ = data(4)
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1.0), "lam": 0.05, "solver": "cg"}
    order = np.random.default_rng(0).permutation(len(x))[:400]
    at_rows = fm.cce(x, y, draws, at=x[order], **options)
    np.testing.assert_array_equal(at_rows.values, fm.cce(x, y, draws, **options).values[order])


def test_images_of_all_points_are_never_in_memory():
    """Those of a million points were 240 MB."""
    x, y, draws, _ = data(5, 300)
    at = np.random.default_rng(0).normal(size=(600_000, 2))
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1.0), "lam": 0.05, "backend": "cpu"}
    fm.cce(x, y, draws, at=at[:5000], **options)
    tracemalloc.start()
    try:
        result = fm.cce(x, y, draws, at=at, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.info.form == "feature"
    images = 8 * len(at) * result.info.rank
    assert peak < 0.8 * images
    assert peak - 12_000_000 < result.info.peak_bytes < images
