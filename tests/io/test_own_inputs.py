"""A fitted estimator refuses to overwrite the files that it was fitted on."""

import os

import numpy as np
import pytest

import fastmcmd as fm


@pytest.fixture
def problem(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 2))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x[:, 0])
    return tmp_path, x, fm.Gaussian(x[:, 0], np.full(30, 0.2))


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_inputs_on_disk_stay(problem, link):
    folder, _, prediction = problem
    before = (folder / "x.npy").read_bytes()
    target = folder / "x.npy"
    if link is not None:
        target = folder / "other.npz"
        link(folder / "x.npy", target)
    fitted = fm.ConditionalCongruence().fit(str(folder / "x.npy"), prediction.mean, prediction)
    estimators = fm.ConditionalCongruence().fit_each(
        folder / "x.npy", prediction.mean, {"one": prediction}
    )
    for one in (fitted, estimators["one"]):
        with pytest.raises(ValueError, match=r"path .* is x itself; name another file"):
            one.save(target)
    assert (folder / "x.npy").read_bytes() == before


def test_memory_maps_stay(problem):
    folder, x, prediction = problem
    y = np.load(folder / "y.npy", mmap_mode="r")
    fitted = fm.ConditionalCongruence().fit(x, y, prediction)
    with pytest.raises(ValueError, match="is y itself"):
        fitted.save(folder / "y.npy")


def test_own_earlier_file_is_replaced(problem):
    folder, x, prediction = problem
    path = folder / "fitted.npz"
    fitted = fm.ConditionalCongruence().fit(x, x[:, 0], prediction)
    fitted.save(path)
    loaded = fm.load(path)
    loaded.save(path)
    np.testing.assert_array_equal(fm.load(path).score_samples(x), fitted.score_samples(x))
