"""Monitors from altered files with a valid checksum are refused, or go on with sensible numbers."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.storage import read_file, write_file


def batch(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 2))
    return x, x[:, 0] + rng.normal(size=60), fm.Gaussian(x[:, 0], 1.0)


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Return the arrays and the document of a monitor after two batches."""
    monitor, path = (
        fm.Monitor(*batch(0), simulations=19, window=2),
        tmp_path_factory.mktemp("m") / "m.npz",
    )
    for seed in (1, 2):
        monitor.update(*batch(seed))
    monitor.save(path)
    arrays, settings, _ = read_file(path, "monitor")
    return arrays, settings["state"]


ARRAYS = [
    "x_reference", "x_aside", "y_aside", "score_aside", "x", "y", "score", "error.total.features.pivots",
    "error.total.features.factor", "error.total.sums.gram", "error.total.sums.models.0.cross",
    "error.total.sums.models.0.null", "error.parts.1.sums.models.0.noise",
]  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_other_shapes_and_types_are_refused(name, contents, tmp_path):
    arrays, state = contents
    array, path = arrays[name], tmp_path / "forged.npz"
    odd = [
        np.zeros(0),
        np.array(1.5),
        array.astype(complex),
        np.full(array.shape, "a"),
        np.full(array.shape, np.nan),
        np.zeros((*array.shape, 2)),
    ]
    for other in odd:
        write_file(path, {**arrays, name: other}, {"kind": "Monitor", "state": state})
        with pytest.raises(ValueError, match=r"forged\.npz is damaged"):
            fm.load(path)
    write_file(path, arrays, {"kind": "Monitor", "state": state})
    assert len(fm.load(path).update(*batch(3)).p_values) == 3


def changed(state, keys, value):
    out = copy.deepcopy(state)
    holder = out
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    return out


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("alpha",), 0.0),
        (("alpha",), float("nan")),
        (("simulations",), -1),
        (("simulations",), 10**30),
        (("most_rows",), -1),
        (("entropy", 0), -1),
        (("evidence",), []),
        (("evidence", 0, "running"), -1.0),
        (("evidence", 1, "running"), float("nan")),
        (("evidence", 2, "batches"), -1),
        (("history",), []),
        (("history", 0, "batch"), 7),
        (("history", 1, "p_values"), {"P(x)": 0.5}),
        (("history", 1, "alarms"), {}),
        (("error", "batches"), -1),
        (("error", "batches"), 1),
        (("error", "parts", 0, "lam"), 0.5),
        (("error", "parts"), []),
    ],
)
def test_values_that_no_monitor_has_are_refused(keys, value, contents, tmp_path):
    arrays, state = contents
    path = tmp_path / "forged.npz"
    write_file(path, arrays, {"kind": "Monitor", "state": changed(state, keys, value)})
    with pytest.raises(ValueError, match=r"forged\.npz is damaged"):
        fm.load(path)


def test_rows_without_their_scores_are_refused(contents, tmp_path):
    arrays, state = contents
    path = tmp_path / "forged.npz"
    for name in ("score", "score_aside"):
        fewer = {other: array for other, array in arrays.items() if other != name}
        write_file(path, fewer, {"kind": "Monitor", "state": state})
        with pytest.raises(ValueError, match=r"forged\.npz is damaged"):
            fm.load(path)
    write_file(path, {**arrays, "y": arrays["y"][:-1]}, {"kind": "Monitor", "state": state})
    with pytest.raises(ValueError, match="different numbers of rows"):
        fm.load(path)
