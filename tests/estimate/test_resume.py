"""Killed computations that start again give the same bits; checkpoints of others are rejected."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from builders import noisy_sine
from killing import Stopped, killed_until_done, stopping

import fastmcmd as fm
from fastmcmd.estimate import resume

N = 900
CASES = {
    "cg float32": {"solver": "cg", "dtype": "float32", "tol": 1e-4},
    "cg float64": {"solver": "cg", "dtype": "float64", "lam": 1e-3},
    "two systems": {"solver": "cg", "dtype": "float64", "lam": 1e-2, "lam_prime": 1e-3},
    "preconditioned": {"solver": "cg", "lam": 5e-5},
    "preconditioned at start": {"solver": "cg", "lam": 1e-3},
    "lowrank": {"solver": "lowrank", "x_kernel": fm.RBF(0.3), "tol": 1e-5},
    "residuals": {
        "solver": "lowrank", "x_kernel": fm.RBF(0.3), "tol": 1e-4, "certificate": "sampled",
    },
    "two low-rank fits": {
        "solver": "lowrank", "x_kernel": fm.RBF(0.3), "tol": 1e-4, "other": True,
    },
    "dense": {"solver": "cg", "y_kernel": fm.Laplacian(1.0), "tol": 1e-4},
}  # fmt: skip


def data(other=False):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    y = noisy_sine(rng, x)
    return x, y, (rng.normal(size=(N, 2)) if other else x), y + 0.2 * rng.normal(size=N)


def run(case, checkpoint=None, **changed):
    options = {"x_kernel": fm.RBF(0.5), **CASES[case], **changed}
    x, y, x_prime, y_prime = data(options.pop("other", False))
    grid = x[:300]
    return fm.mcmd(grid, x, y, x_prime, y_prime, checkpoint=checkpoint, **options)


@pytest.fixture(autouse=True)
def saved_each_time(monkeypatch):
    monkeypatch.setattr(resume, "_EVERY", 0.0)
    # lets small problems be preconditioned, too
    monkeypatch.setattr("fastmcmd.solvers.costs._LANDMARK", 0.0)
    monkeypatch.setattr("fastmcmd.solvers.costs._APPLIED", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_stopped_again_and_again(case, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    monkeypatch.setattr("fastmcmd.estimate.part_problem._LEAST_ROWS", 64)
    monkeypatch.setattr("fastmcmd.estimate.part_problem._MOST_ROWS", 300)
    if case == "preconditioned at start":
        monkeypatch.setattr("fastmcmd.solvers.switch_policy._MANY", 1)
    expected = run(case)
    stops, stages = 0, set()
    for _ in range(200):
        with monkeypatch.context() as patch:
            stopping(patch, 1, stages)
            try:
                result = run(case, path)
            except Stopped:
                stops += 1
                assert path.exists()
                continue
        break
    assert stops >= 2
    np.testing.assert_array_equal(result.values, expected.values)
    np.testing.assert_array_equal(result.error_bounds, expected.error_bounds)
    assert result.info.notes == expected.info.notes
    assert result.info.iterations == expected.info.iterations
    assert os.listdir(tmp_path) == []
    if case == "residuals":
        assert any("residuals" in stage for stage in stages)
        assert result.info.certificate == "sampled"
    if case.startswith("preconditioned"):
        assert any("preconditioned with" in note for note in result.info.notes)
        assert ("both float32 plain" in stages) == (case == "preconditioned")


IMPORTS = """
import sys
import numpy as np
sys.path[:0] = [sys.argv[1], sys.argv[1] + '/..']
import test_resume as t
t.resume._EVERY = 0.0
"""
WORK = """
result = t.run(sys.argv[2], sys.argv[3])
np.savez(sys.argv[4], values=result.values, bounds=result.error_bounds)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("case", ["cg float32", "cg float64", "lowrank"])
def test_killed_at_random_moments(case, tmp_path):
    path, results = tmp_path / "run.ckpt", tmp_path / "results.npz"
    arguments = [os.path.dirname(__file__), case, path, results]
    assert killed_until_done(IMPORTS, WORK, arguments, 0.3, first=0.02) >= 1
    assert not path.exists()
    expected = run(case)
    with np.load(results, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["values"], expected.values)
        np.testing.assert_array_equal(archive["bounds"], expected.error_bounds)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lam": 0.2}, "lam was 0.001, is 0.2"),
        ({"tol": 1e-5}, "tol was 1e-06, is 1e-05"),
        ({"weights": np.arange(1.0, N + 1)}, "weights was"),
        ({"x_kernel": fm.RBF(2.0)}, "x_kernel was"),
    ],
)
def test_other_computations_are_refused(changed, message, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    with monkeypatch.context() as patch:
        stopping(patch, 2)
        with pytest.raises(Stopped):
            run("cg float64", path)
    with pytest.raises(ValueError, match=f"checkpoint .*belongs to another computation: {message}"):
        run("cg float64", path, **changed)
    assert path.exists()


@pytest.mark.parametrize("changed_input", ["x", "y", "grid"])
def test_other_data_are_refused(changed_input, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    x, y, _, y_prime = data()
    arrays = {"grid": x[:50].copy(), "x": x, "y": y}
    options = {"solver": "cg", "checkpoint": path}
    with monkeypatch.context() as patch:
        stopping(patch, 2)
        with pytest.raises(Stopped):
            fm.mcmd(arrays["grid"], arrays["x"], arrays["y"], x, y_prime, **options)
    arrays[changed_input] = arrays[changed_input].copy()
    arrays[changed_input][7] += 1e-9
    with pytest.raises(
        ValueError, match=f"checkpoint .*another computation: .*{changed_input} was"
    ):
        fm.mcmd(arrays["grid"], arrays["x"], arrays["y"], x, y_prime, **options)


def test_what_comes_several_times_is_hashed_once(tmp_path, monkeypatch):
    """Grid, x and x_prime are the same inputs, possibly long files."""
    x, y, _, y_prime = data()
    weights = np.ones(len(x))
    hashed = []
    fingerprint = resume.fingerprint_of
    monkeypatch.setattr(
        resume, "fingerprint_of", lambda *parts: hashed.append(parts) or fingerprint(*parts)
    )
    path = tmp_path / "run.ckpt"
    fm.mcmd(x, x, y, x, y_prime, weights=weights, solver="cg", checkpoint=path)
    arrays = [parts[0] for parts in hashed if len(parts) == 1 and isinstance(parts[0], np.ndarray)]
    assert len(arrays) == len({id(array) for array in arrays})
    assert sum(np.shares_memory(array, x) for array in arrays) == 1


def test_another_function_is_refused(tmp_path, monkeypatch):
    def plain(x, z):
        return np.exp(-((x - z) ** 2).sum())

    def other(x, z):
        return np.exp(-2 * ((x - z) ** 2).sum())

    other.__name__ = other.__qualname__ = "plain"
    path = tmp_path / "run.ckpt"
    x, y, _, y_prime = data()
    x, y, y_prime = x[:60], y[:60], y_prime[:60]
    options = {"solver": "cg", "checkpoint": path, "backend": "numpy"}
    with monkeypatch.context() as patch:
        stopping(patch, 2)
        with pytest.raises(Stopped):
            fm.cce(x, y, y_prime, x_kernel=fm.CustomKernel(plain), **options)
    with pytest.raises(ValueError, match=r"belongs to another computation: .*x_kernel"):
        fm.cce(x, y, y_prime, x_kernel=fm.CustomKernel(other), **options)


def test_progress_and_memory_may_differ(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run.ckpt"
    with monkeypatch.context() as patch:
        stopping(patch, 3)
        with pytest.raises(Stopped):
            run("cg float64", path, memory_limit="1GB")
    result = run("cg float64", path, memory_limit="900MB", progress=True)
    assert "resumed from a checkpoint after" in capsys.readouterr().err
    np.testing.assert_array_equal(result.values, run("cg float64").values)


def test_the_estimator_goes_on_too(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    x, y, _, y_prime = data()
    cc = fm.ConditionalCongruence(solver="cg", checkpoint=path)
    with monkeypatch.context() as patch:
        stopping(patch, 2)
        with pytest.raises(Stopped):
            cc.fit(x, y, y_prime)
    assert path.exists()
    cc.fit(x, y, y_prime)
    assert not path.exists()
    expected = fm.cce(x, y, y_prime, solver="cg")
    np.testing.assert_array_equal(cc.result_.values, expected.values)
    cc.score_samples(x[:5])
    assert not path.exists()


def test_ctrl_c_keeps_the_file(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    monkeypatch.setattr(resume, "_EVERY", 3600.0)
    matmul, products_left = fm.gram.GramOperator.matmul, [5]

    def interrupted(self, v):
        products_left[0] -= 1
        if products_left[0] < 0:
            raise KeyboardInterrupt
        return matmul(self, v)

    with monkeypatch.context() as patch:
        patch.setattr(fm.gram.GramOperator, "matmul", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("cg float64", path)
    assert path.exists()
    actual, expected = run("cg float64", path), run("cg float64")
    np.testing.assert_array_equal(actual.values, expected.values)
    assert actual.info.passes == expected.info.passes


def test_a_result_that_cannot_be_written_keeps_the_file(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    out = tmp_path / "out.npy"
    from fastmcmd.rows.output import FileOutput

    def broken(self, rows, values):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(FileOutput, "write", broken)
        with pytest.raises(OSError, match="No space"):
            run("cg float64", path, out=out)
    assert path.exists()
    run("cg float64", path, out=out)
    assert not path.exists()
    np.testing.assert_array_equal(np.load(out), run("cg float64").values)


@pytest.mark.parametrize("name", ["cache_dir", "checkpoint"])
@pytest.mark.parametrize("value", [3, True, b"run"])
def test_paths_of_another_type(name, value):
    with pytest.raises(TypeError, match=f"{name} is .*; None or the path of a"):
        run("cg float64", **{name: value})


def test_folders_that_are_missing(tmp_path):
    missing = tmp_path / "none"
    with pytest.raises(FileNotFoundError, match=r"cache_dir is .*; an existing folder is needed"):
        run("cg float64", cache_dir=missing)
    with pytest.raises(FileNotFoundError, match=r"checkpoint is .* in an existing folder"):
        run("cg float64", checkpoint=missing / "run.ckpt")
    with pytest.raises(IsADirectoryError, match=r"checkpoint is .*, a folder; a file name"):
        run("cg float64", checkpoint=tmp_path)


@pytest.mark.parametrize("name", ["cache_dir", "checkpoint"])
def test_folders_that_cannot_be_written(name, tmp_path, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fastmcmd.options.tempfile.TemporaryFile", refused)
    value = tmp_path if name == "cache_dir" else tmp_path / "run.ckpt"
    with pytest.raises(PermissionError, match=rf"{name} is .* \(Permission denied\)"):
        run("cg float64", **{name: value})
