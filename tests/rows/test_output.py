"""Destinations of results: a caller's arrays, and files that appear when they are finished."""

from __future__ import annotations

import errno
import os

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from stored import N, OldZarr, in_hdf5, in_npy, in_parquet, in_zarr

from fastmcmd.rows import Output, as_blocks, open_out, open_rows


def outputs(folder):
    file = h5py.File(folder / "out.h5", "w")
    return [
        np.zeros(N),
        np.zeros(N, "f4"),
        np.lib.format.open_memmap(folder / "mapped.npy", "w+", "f8", (N,)),
        file.create_dataset("out", (N,), "f8"),
        in_zarr(folder, np.zeros(N), 3, "out.zarr"),
        str(folder / "out.npy"),
        folder / "other.npy",
    ]


def test_results_are_written_and_read_back(tmp_path):
    values = np.random.default_rng(2).normal(size=N).astype("f4")
    for out in outputs(tmp_path):
        with open_out(out, (N,)) as target:
            for place, block in as_blocks(values, 10):
                target.write(place, block)
            np.testing.assert_array_equal(target.array[:], values)
        np.testing.assert_array_equal(target.array[:], values)
        np.testing.assert_array_equal(np.load(out) if isinstance(out, str) else values, values)
    assert np.load(tmp_path / "out.npy", allow_pickle=False).dtype == np.float64
    assert not list(tmp_path.glob("*.part"))


@given(st.permutations(range(0, 50, 7)))
def test_blocks_in_any_order(tmp_path_factory, starts):
    values = np.arange(100.0).reshape(50, 2)
    path = tmp_path_factory.mktemp("out") / "out.npy"
    with open_out(path, (50, 2)) as target:
        for start in starts:
            target.write(slice(start, start + 7), values[start : start + 7])
    np.testing.assert_array_equal(np.load(path), values)


def interrupted(target):
    with target:
        target.write(slice(0, 5), np.ones(5))
        raise KeyboardInterrupt


def test_an_error_leaves_no_half_file(tmp_path):
    path = tmp_path / "out.npy"
    with pytest.raises(KeyboardInterrupt):
        interrupted(open_out(path, (N,)))
    assert not list(tmp_path.iterdir())
    np.save(path, np.arange(3))
    with pytest.raises(KeyboardInterrupt):
        interrupted(open_out(path, (N,)))
    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(np.load(path), np.arange(3))


def test_nothing_is_at_the_path_before_the_end(tmp_path):
    target = open_out(tmp_path / "out.npy", (N,))
    target.write(slice(0, N), np.ones(N))
    assert not (tmp_path / "out.npy").exists()
    target.commit()
    assert np.load(tmp_path / "out.npy").sum() == N


class FullDisk:
    """File whose writes fail."""

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk(tmp_path, monkeypatch):
    def fill():
        with open_out(tmp_path / "out.npy", (N,), "result") as target:
            target.stream = FullDisk(target.stream)
            target.write(slice(0, 5), np.ones(5))

    with pytest.raises(
        OSError, match=r"result \(.*out.npy\) cannot be written: No space"
    ) as caught:
        fill()
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    with pytest.raises(OSError, match="cannot be written: No space"):
        open_out(tmp_path / "out.npy", (N,))
    assert not list(tmp_path.iterdir())


def test_an_array_of_the_caller_that_fails():
    class Full(OldZarr):
        def __setitem__(self, place, values):
            raise OSError(errno.ENOSPC, "No space left on device")

    source = Full(np.zeros((N, 1)))
    source.shape = (N,)
    with pytest.raises(OSError, match="result cannot be written: No space"):
        open_out(source, (N,), "result").write(slice(0, 1), [1.0])


def test_a_working_folder_that_changes(tmp_path, monkeypatch):
    plain = np.random.default_rng(1).normal(size=(N, 3))
    (tmp_path / "other").mkdir()
    in_npy(tmp_path, plain), in_hdf5(tmp_path, plain), in_parquet(tmp_path, plain)
    in_zarr(tmp_path, plain, 3)
    monkeypatch.chdir(tmp_path)
    sources = [open_rows(name, "x") for name in ("x.npy", "./x.h5::group/x", "x.parquet", "x.zarr")]
    target = open_out("out.npy", (N,))
    monkeypatch.chdir(tmp_path / "other")
    for x in sources:
        np.testing.assert_array_equal(x[:], plain)
        x.check_unchanged()
    target.commit()
    assert (tmp_path / "out.npy").exists()


def test_a_disk_that_fails_at_the_end(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    target = open_out(tmp_path / "out.npy", (N,))
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="cannot be written: Input/output error"):
        target.commit()
    assert not list(tmp_path.iterdir())


def test_a_file_system_that_cannot_reserve(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    with open_out(tmp_path / "out.npy", (4,)) as target:
        target.write(slice(2, 4), [1.0, 2.0])
    assert np.load(tmp_path / "out.npy").tolist() == [0, 0, 1, 2]


def test_places_that_cannot_be_written(tmp_path):
    in_hdf5(tmp_path, np.zeros(N))
    (tmp_path / "folder.npy").mkdir()
    locked = np.zeros(N)
    locked.flags.writeable = False
    np.save(tmp_path / "old.npy", locked)
    in_zarr(tmp_path, np.zeros(N), 3, "old.zarr")
    with h5py.File(tmp_path / "x.h5") as file:
        for out in (
            locked,
            np.load(tmp_path / "old.npy", mmap_mode="r"),
            file["group/x"],
            zarr.open_array(str(tmp_path / "old.zarr"), mode="r"),
        ):
            with pytest.raises(ValueError, match="out is read-only"):
                open_out(out, (N,))
    for out, error, message in (
        (np.zeros(N + 1), ValueError, r"out has shape \(98,\); \(97,\) is needed"),
        (np.zeros((N, 1)), ValueError, r"out has shape \(97, 1\)"),
        (np.zeros(N, int), TypeError, "out has dtype int64"),
        (np.zeros(N, complex), TypeError, "out has dtype complex128"),
        ([0.0] * N, TypeError, "out is a list; an array or a path is needed"),
        (h5py.File(tmp_path / "x.h5"), TypeError, "out is a File"),
        (tmp_path / "folder.npy", ValueError, "the path of a file that ends in .npy"),
        (tmp_path / "out.txt", ValueError, "path of a file that ends in .npy is needed"),
        (tmp_path / "no" / "out.npy", FileNotFoundError, "out: there is no folder '.*no'"),
    ):
        with pytest.raises(error, match=message):
            open_out(out, (N,))


def test_values_of_another_shape(tmp_path):
    for out in (np.zeros(N), tmp_path / "out.npy"):
        target = open_out(out, (N,))
        with pytest.raises(ValueError, match=r"values have shape \(1,\); \(5,\) is needed"):
            target.write(slice(0, 5), np.ones(1))
        assert isinstance(target, Output)
    target.discard()
