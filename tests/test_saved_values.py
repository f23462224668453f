"""Saved values of an estimator that no computation gives are refused, checksum or no."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.storage import read_arrays, write_arrays


@pytest.mark.parametrize("name", ["result_values", "result_error_bounds"])
@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_values_are_checked(tmp_path, name, value):
    x = np.random.default_rng(0).standard_normal((20, 2))
    path = tmp_path / "fitted.npz"
    fm.ConditionalCongruence().fit(x, x[:, 0], fm.Gaussian(x[:, 0], np.full(20, 0.2))).save(path)
    arrays, settings = read_arrays(path, "estimator")
    arrays[name] = np.where(np.arange(20) == 7, value, arrays[name])
    kept = {key: one for key, one in settings.items() if key not in ("format", "fastmcmd")}
    write_arrays(path, arrays, kept)
    with pytest.raises(ValueError, match="negative or NaN"):
        fm.load(path)
