"""Every solver takes inputs on disk, and gives the result of the array."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from builders import noisy_sine

import fastmcmd as fm

N = 1500
KERNELS = {"x_kernel": fm.RBF(0.3), "y_kernel": fm.RBF(0.5)}


@pytest.fixture
def never_loaded(monkeypatch):
    """Inputs on disk stay there, however small they are."""
    monkeypatch.setattr(sys.modules["fastmcmd.estimate.arguments"], "_SMALL", 10**12)


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (N, 3)).astype(np.float32)
    y = noisy_sine(rng, x)
    p = np.sin(x[:, 0]) + 0.4 * rng.normal(size=N)
    np.save(tmp_path / "x.npy", x)
    return x, y, p, tmp_path / "x.npy"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "lowrank"},
        {"solver": "nystrom", "rank": 200, "tol": 1e-2},
        {"solver": "cg"},
        {"solver": "cg", "dtype": np.float64},
        {"solver": "cholesky"},
        {"y_kernel": fm.Laplacian(20.0)},
        {"solver": "cg", "x_kernel": fm.RBF("variance")},
        {"solver": "cg", "x_kernel": fm.RBF("median")},
    ],
)
def test_same_as_the_array(data, never_loaded, options):
    x, y, p, path = data
    options = {**KERNELS, **options}
    on_disk, in_memory = fm.cce(path, y, p, **options), fm.cce(x, y, p, **options)
    off = np.abs(on_disk.values - in_memory.values)
    assert (off <= on_disk.error_bounds + in_memory.error_bounds).all()
    assert on_disk.error_bound < 10 * max(in_memory.error_bound, 1e-9)


def test_rows_that_do_not_fit_are_read_in_every_product(data, never_loaded):
    from fastmcmd.backends import get_backend
    from fastmcmd.gram import GramOperator
    from fastmcmd.rows import open_rows

    x, _, _, path = data
    v = np.random.default_rng(1).normal(size=(N, 3))
    kernel = fm.RBF(0.3)
    operator = GramOperator(
        get_backend("cpu", kernel), kernel, open_rows(path, "x"), np.dtype(np.float64), 1000
    )
    assert not operator.holds_rows
    expected = kernel(x.astype(float)) @ v
    np.testing.assert_allclose(operator.matmul(v), expected, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["lowrank", "cg"])
def test_other_points_on_disk(data, never_loaded, solver):
    x, y, p, path = data
    on_disk = fm.cce(x, y, p, at=path, solver=solver, **KERNELS)
    in_memory = fm.cce(x, y, p, solver=solver, **KERNELS)
    assert (
        np.abs(on_disk.values - in_memory.values) <= on_disk.error_bounds + in_memory.error_bounds
    ).all()


def test_two_samples_and_weights(data, never_loaded):
    x, y, p, path = data
    weights = np.random.default_rng(2).integers(0, 3, N).astype(float)
    options = {"weights": weights, "lam_prime": 0.3, "solver": "cg", **KERNELS}
    on_disk = fm.mcmd(x[:50], path, y, x[::-1].copy(), p, **options)
    in_memory = fm.mcmd(x[:50], x, y, x[::-1].copy(), p, **options)
    assert (
        np.abs(on_disk.values - in_memory.values) <= on_disk.error_bounds + in_memory.error_bounds
    ).all()


def test_values_go_to_a_file(data, tmp_path):
    x, y, p, _ = data
    result = fm.cce(x, y, p, out=tmp_path / "cce.npy", **KERNELS)
    plain = fm.cce(x, y, p, **KERNELS)
    np.testing.assert_array_equal(np.load(tmp_path / "cce.npy"), plain.values)
    np.testing.assert_array_equal(result.values, plain.values)
    target = np.empty(N)
    fm.cce(x, y, p, out=target, **KERNELS)
    np.testing.assert_array_equal(target, plain.values)


def test_nothing_is_left_after_an_error(data, tmp_path):
    x, y, p, _ = data
    with pytest.raises(fm.MemoryLimitError):
        fm.cce(x, y, p, out=tmp_path / "cce.npy", memory_limit=1000, **KERNELS)
    assert not list(tmp_path.glob("cce*"))


def test_a_file_that_changes_is_an_error(data, never_loaded, monkeypatch):
    _, y, p, path = data
    changed = np.load(path)[::-1]
    from fastmcmd.estimate.row_stream import RowStream

    begin = RowStream.begin

    def begin_then_change(self):
        begin(self)
        np.save(path, np.vstack([changed, changed]))

    monkeypatch.setattr(RowStream, "begin", begin_then_change)
    with pytest.raises(RuntimeError, match="changed"):
        fm.cce(path, y, p, solver="lowrank", **KERNELS)


def test_reading_refuses_nan(data, never_loaded, tmp_path):
    x, y, p, _ = data
    x = x.copy()
    x[777, 1] = np.nan
    np.save(tmp_path / "bad.npy", x)
    with pytest.raises(ValueError, match="row 777"):
        fm.cce(tmp_path / "bad.npy", y, p, **KERNELS)


def test_fitted_on_disk_and_saved(data, never_loaded, tmp_path):
    x, y, p, path = data
    for solver in ("cg", "lowrank"):
        cc = fm.ConditionalCongruence(solver=solver, **KERNELS).fit(path, y, p)
        cc.save(tmp_path / "cc.npz")
        loaded = fm.load(tmp_path / "cc.npz")
        np.testing.assert_allclose(
            loaded.score_samples(x[:20]), cc.score_samples(x[:20]), atol=2e-6
        )
