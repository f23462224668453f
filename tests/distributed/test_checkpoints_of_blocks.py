"""Checkpoints of collections in blocks resume only the same call."""

from __future__ import annotations

import numpy as np
import pytest
from in_blocks import interrupt_after, make_data

import fastmcmd as fm
from fastmcmd.distributed import BlockError, predicted, running, saving
from fastmcmd.distributed.saving import BlockCheckpoint

pytestmark = pytest.mark.slow

KERNELS = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.7), "lam": 0.02}
SIZES = (40,) * 12


def test_a_checkpoint_resumes_only_what_is_the_same(tmp_path, monkeypatch):
    """A call with another spread, function, grid or landmark resumed with the sums of the call before."""
    monkeypatch.setattr(running, "GROUP", 1)
    monkeypatch.setattr(BlockCheckpoint, "every", 0.0)
    data = make_data((30,) * 4)
    x, y, mean = (data.blocks(name) for name in ("x", "y", "mean"))
    path, landmarks = tmp_path / "run.ckpt", np.linspace(-1, 1, 1002).reshape(-1, 2)
    shifted = landmarks.copy()
    shifted[250] += 0.5

    def wide(m):
        return fm.Gaussian(m, 1.0)

    def narrow(m):
        return fm.Gaussian(m, 0.5)

    calls = [
        lambda std=0.5: fm.evaluate(y, fm.Gaussian(mean, std), checkpoint=path),
        lambda make=narrow: fm.evaluate(y, predicted(make, mean), checkpoint=path),
        lambda at=landmarks: fm.cce(
            x,
            y,
            fm.Gaussian(mean, 0.5),
            checkpoint=path,
            landmarks=at,
            certificate="rigorous",
            **KERNELS,
        ),
    ]
    for call, other in zip(calls, (1.0, wide, shifted), strict=True):
        interrupt_after(2, call)
        assert path.exists()
        with pytest.raises(ValueError, match=r"run\.ckpt"):
            call(other)
        call()  # resumes, and removes the file
        assert not path.exists()


def test_a_checkpoint_of_classes_and_groups_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "GROUP", 1)
    monkeypatch.setattr(BlockCheckpoint, "every", 0.0)
    import dask.array as da

    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 1], 120)
    y, groups = rng.integers(0, 3, 120).astype(float), np.repeat(["a", "b"], 60)
    y[5] = np.nan
    arguments = [da.from_array(y, chunks=30)]
    arguments.append(fm.Categorical(da.from_array(p, chunks=(30, 3)), classes=list("uvw")))
    options = {"by": da.from_array(groups, chunks=30), "nan_policy": "propagate"}
    path = tmp_path / "run.ckpt"

    interrupt_after(2, lambda: fm.evaluate(*arguments, checkpoint=path, **options))
    resumed = fm.evaluate(*arguments, checkpoint=path, **options)
    expected = fm.evaluate(*arguments, **options)
    assert str(resumed.table()) == str(expected.table())
    assert "nan" in expected.table().lower()


def test_another_call_does_not_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(BlockCheckpoint, "every", 0.0)
    data, path = make_data(SIZES), tmp_path / "run.ckpt"
    arguments = data.blocks("x"), data.blocks("y")

    def broken(mean):
        raise OSError("gone")

    with pytest.raises(BlockError, match="OSError: gone"):
        fm.cce(*arguments, predicted(broken, data.blocks("mean")), checkpoint=path, **KERNELS)
    first = fm.cce(*arguments, fm.Gaussian(data.blocks("mean"), 0.5), checkpoint=path, **KERNELS)
    assert first.mean > 0
    assert not path.exists()


def test_a_checkpoint_with_sums_of_an_earlier_format_is_named(tmp_path, monkeypatch):
    path, data = tmp_path / "run.ckpt", make_data(SIZES)
    models = {"a": fm.Gaussian(data.blocks("mean"), 0.5), "b": fm.Gaussian(data.blocks("mean"), 1)}
    with monkeypatch.context() as earlier:
        earlier.setattr(saving, "_FORMAT_OF_SUMS", "1")
        earlier.setattr(BlockCheckpoint, "finish", lambda self: None)
        fm.compare(models, data.blocks("y"), checkpoint=path)
    with pytest.raises(ValueError, match="format of sums was '1', is '2'"):
        fm.compare(models, data.blocks("y"), checkpoint=path)


class Misfit:
    """Sums of other shapes."""

    def __add__(self, other):
        raise IndexError("tuple index out of range")


def test_sums_that_do_not_fit_are_those_of_a_damaged_checkpoint(tmp_path, monkeypatch):
    """The error of their addition named no file."""
    monkeypatch.setattr(running, "GROUP", 1)
    monkeypatch.setattr(BlockCheckpoint, "every", 0.0)
    data = make_data((30,) * 4)
    y, mean = data.blocks("y"), data.blocks("mean")
    path = tmp_path / "run.ckpt"

    def evaluate():
        return fm.evaluate(y, fm.Gaussian(mean, 0.5), checkpoint=path)

    interrupt_after(2, evaluate)
    with monkeypatch.context() as patched:
        patched.setattr(saving, "unpacked", lambda state: Misfit())
        with pytest.raises(ValueError, match=r"run\.ckpt is damaged.*tuple index"):
            evaluate()
    assert evaluate()["mean_crps"] == pytest.approx(
        fm.evaluate(y, fm.Gaussian(mean, 0.5))["mean_crps"]
    )
