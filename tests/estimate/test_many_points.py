"""Many more points than rows: output columns that hardly matter there are left out of the products."""

from __future__ import annotations

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
