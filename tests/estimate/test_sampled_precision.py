"""Features in float32 where landmarks are nearly dependent: the bound holds, and hardly grows."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.estimate.part_problem import PartProblem
from fastmcmd.gram.precision import FLOAT32


def exact_values(x, y, draws, x_kernel, y_kernel, lam):
    """Return the CCE at all rows by its definition, in float64."""
    n = len(x)
    solved = np.linalg.solve(x_kernel(x, x) + n * lam * np.eye(n), x_kernel(x, x))
    y, draws = y[:, None], draws[:, None]
    crossed = y_kernel(y, draws)
    products = y_kernel(y, y) - crossed - crossed.T + y_kernel(draws, draws)
    squares = np.einsum("ij,ij->j", solved, products @ solved)
    return np.sqrt(np.maximum(squares, 0.0))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lam", [0.003, 0.1, 3.0])
def test_bounds_of_nearly_dependent_landmarks(seed, lam, monkeypatch):
    rng = np.random.default_rng(seed)
    n, d = 1000, 3
    x = rng.normal(size=(n, d))
    x[rng.choice(n, 20, replace=False)] = 6.0 + 0.02 * rng.normal(
        size=(20, d)
    )  # a tight cluster far away
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=n)
    draws = np.sin(x[:, 0]) + 0.1 * x[:, -1] + 0.4 * rng.normal(size=n)
    x_kernel, y_kernel = fm.RBF(1 / 6), fm.RBF(1.0)
    precisions, original = [], PartProblem.sampled_precision

    def recorded(problem, features, *expected):
        dtype = original(problem, features, *expected)
        precisions.append((features.inverse_norm, dtype))
        return dtype

    monkeypatch.setattr(PartProblem, "sampled_precision", recorded)
    options = {
        "x_kernel": x_kernel, "y_kernel": y_kernel, "lam": lam, "tol": 1e-3, "solver": "lowrank",
        "rank": 180, "certificate": "sampled",
    }  # fmt: skip
    result = fm.cce(x, y, draws, **options)
    inverse_norm, dtype = precisions[-1]
    assert 200 < inverse_norm < 3500
    assert (dtype == FLOAT32) == (lam >= 0.1)
    off = np.abs(result.values - exact_values(x, y, draws, x_kernel, y_kernel, lam))
    assert (off <= result.error_bounds).all()
    doubles = fm.cce(x, y, draws, **options, dtype=np.float64)
    assert result.error_bound <= doubles.error_bound + 1e-4


@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
@pytest.mark.parametrize(
    ("d", "rank", "in_float32"), [(6, 60, True), (4, 120, True), (3, 250, False), (1, 40, False)]
)
def test_precision_follows_what_a_fixed_rank_leaves(d, rank, in_float32):
    """Rounding to float32 is far below what few landmarks leave, whatever the tolerance."""
    rng = np.random.default_rng(d)
    n = 1200
    x = rng.normal(size=(n, d))
    x[rng.choice(n, 3, replace=False)] *= 8.0  # rare rows far away
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=n)
    draws = np.sin(x[:, 0]) + 0.1 * x[:, -1] + 0.4 * rng.normal(size=n)
    x_kernel, y_kernel = fm.RBF(1 / (2 * d)), fm.RBF(1.0)
    options = {
        "x_kernel": x_kernel, "y_kernel": y_kernel, "lam": 0.01, "tol": 1e-9, "solver": "lowrank",
        "rank": rank, "certificate": "sampled",
    }  # fmt: skip
    result, doubles = (fm.cce(x, y, draws, **options, dtype=dtype) for dtype in (None, np.float64))
    assert (result.info.dtype == "float32") == in_float32
    off = np.abs(result.values - exact_values(x, y, draws, x_kernel, y_kernel, 0.01))
    assert (off <= result.error_bounds).all()
    assert result.error_bound <= 1.01 * doubles.error_bound
    assert np.abs(result.values - doubles.values).max() <= 0.01 * off.max()
