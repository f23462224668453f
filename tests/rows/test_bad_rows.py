"""Errors of unreadable rows: wrong values, shapes and names, and files that change."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from stored import (
    WRITERS,
    ZARR,
    D,
    N,
    OldZarr,
    in_hdf5,
    in_npy,
    in_parquet,
    in_zarr,
    same,
)

from fastmcmd._base.checks import as_rows
from fastmcmd.errors import MissingDependencyError
from fastmcmd.rows import open_rows


@pytest.fixture(scope="module")
def plain():
    return np.random.default_rng(1).normal(size=(N, D))


@pytest.fixture(params=WRITERS)
def write(request, tmp_path):
    return lambda x: WRITERS[request.param](tmp_path, x)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(write, plain, bad):
    damaged = plain.copy()
    damaged[53, 1] = bad
    kind = "NaN" if np.isnan(bad) else "infinity"
    x = open_rows(write(damaged), "x")
    message = rf"^x .*holds {kind} \(first in row 53; 1 such value in rows 50 to 59\)"
    with pytest.raises(ValueError, match=message):
        list(x.blocks(10))
    with pytest.raises(ValueError, match=f"holds {kind} .first in row 53"):
        x[[90, 53, 2]]
    with pytest.raises(ValueError, match=f"holds {kind} .first in row 53"):
        x[40:60]
    same(x[[54, 52]], plain[[54, 52]])


@pytest.mark.parametrize(
    "shape", [(0, 3), (3, 0), (0,), (2, 3, 4), (), (5, 4)], ids=lambda shape: str(shape)
)
def test_shape_errors_are_those_of_arrays(tmp_path, shape):
    x = np.zeros(shape)
    with pytest.raises(ValueError, match="x has") as plain_error:
        as_rows(x, "x", columns=3)
    for source in (in_npy(tmp_path, x), in_hdf5(tmp_path, x)):
        with pytest.raises(ValueError, match=r"^x \(.*\) has") as error:
            open_rows(source, "x", columns=3)
        assert str(error.value).replace(f" ({source})", "") == str(plain_error.value)


def test_types_that_are_no_numbers(tmp_path):
    for values, message in (
        (np.ones((3, 2)) * 1j, r"x \(.*\) has dtype complex128; real numbers are needed"),
        (np.array([["a"], ["b"]]), r"x \(.*\) has dtype <U1"),
        (np.zeros(3, "i4,f8"), r"x \(.*\) has dtype \["),
    ):
        with pytest.raises(TypeError, match=message):
            open_rows(in_npy(tmp_path, values), "x")
    np.save(tmp_path / "object.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"^x \(.*object.npy\) cannot be opened: .*Python objects"):
        open_rows(tmp_path / "object.npy", "x")
    with h5py.File(tmp_path / "text.h5", "w") as file:
        file["x"] = ["a", "b"]
        file["compound"] = np.zeros(3, "i4,f8")
    with pytest.raises(TypeError, match=r"x \(.*text.h5::x\) holds Python objects or texts"):
        open_rows(f"{tmp_path}/text.h5::x", "x")
    with pytest.raises(TypeError, match=r"x \(.*\) has dtype \["):
        open_rows(f"{tmp_path}/text.h5::compound", "x")
    table = pa.table({"a": [1.0, 2.0], "b": ["u", "v"]})
    with pytest.raises(TypeError, match=r"^x cannot be opened: column 'b' has type string"):
        open_rows(table, "x")
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(TypeError, match=r"^x \(.*t.parquet\) cannot .* column 'b' has type string"):
        open_rows(tmp_path / "t.parquet", "x")
    assert open_rows(f"{tmp_path}/t.parquet::a", "x").shape == (2, 1)


def test_nulls(tmp_path):
    table = pa.table({"a": [1.0, 2.0, None, 4.0], "b": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    for source in (table, tmp_path / "t.parquet"):
        with pytest.raises(ValueError, match=r"^x \(.*column 'a' has a null in row 2"):
            list(open_rows(source, "x").blocks())


def test_missing_and_unknown_files(tmp_path):
    for name in ("a.npy", "a.zarr", "a.h5::x", "a.parquet::b"):
        with pytest.raises(FileNotFoundError, match=rf"x \(.*{name}\) cannot .* no file '.*a\."):
            open_rows(f"{tmp_path}/{name}", "x")
    (tmp_path / "a.txt").write_text("1 2 3")
    with pytest.raises(ValueError, match=r"^x \(.*a.txt\) cannot .* ends in none of .npy, .h5"):
        open_rows(tmp_path / "a.txt", "x")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(IsADirectoryError, match=r"x .*folder.npy"):
        open_rows(tmp_path / "folder.npy", "x")


def test_parts_that_are_not_there(tmp_path, plain):
    in_hdf5(tmp_path, plain)
    for inside, message in (
        ("", "no dataset is named; .*one of: group/x"),
        ("::y", "there is no dataset 'y'"),
        ("::group", "there is no dataset 'group'"),
    ):
        with pytest.raises(ValueError, match=rf"^x \(.*\) cannot be opened: {message}"):
            open_rows(f"{tmp_path}/x.h5{inside}", "x")
    with pytest.raises(ValueError, match="0 columns are named 'z'; has: c0, c1, c2"):
        open_rows(f"{in_parquet(tmp_path, plain)}::c0,z", "x")
    with pytest.raises(ValueError, match=r"2 columns are named 'a'"):
        open_rows(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]), "x")
    with pytest.raises(ValueError, match=r"a .npy file has no parts"):
        open_rows(f"{in_npy(tmp_path, plain)}::a", "x")
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    in_zarr(tmp_path, plain, 3, "g.zarr/inner")
    same(open_rows(f"{tmp_path}/g.zarr::inner", "x")[:], plain)
    same(open_rows(group["inner"], "x")[:], plain)
    open_rows(group["inner"], "x").check_unchanged()
    with pytest.raises(ValueError, match=r"it is a group; .* inner"):
        open_rows(f"{tmp_path}/g.zarr", "x")
    with pytest.raises(ValueError, match=r"^x \(.*g.zarr::outer\) cannot be opened"):
        open_rows(f"{tmp_path}/g.zarr::outer", "x")
    with pytest.raises(TypeError, match="an array of Zarr is needed, not a Group"):
        open_rows(group, "x")
    with h5py.File(tmp_path / "x.h5") as file:
        dataset = file["group/x"]
        with pytest.raises(TypeError, match="a dataset of h5py is needed, not a File"):
            open_rows(file, "x")
    with pytest.raises(ValueError, match=r"x cannot be opened: .* closed"):
        open_rows(dataset, "x")


@pytest.mark.parametrize("length", [0.0, 0.5, 0.97])
@pytest.mark.parametrize("name", ["npy", "hdf5-path", "parquet", "zarr-path"])
def test_truncated_files(tmp_path, plain, name, length):
    source = WRITERS[name](tmp_path, plain)
    file = Path(str(source).partition("::")[0])
    if name == "zarr-path":
        file = max((p for p in file.rglob("*") if p.is_file()), key=lambda p: len(p.parts))
    content = file.read_bytes()
    file.write_bytes(content[: int(length * len(content))])
    with pytest.raises(ValueError, match=r"^x \(.*x\.\w+(::/group/x)?\) cannot be (opened|read)"):
        open_rows(source, "x")[:]


@pytest.mark.skipif(ZARR < 3, reason="Blosc is what test_truncated_files meets there")
@pytest.mark.parametrize("length", [0.0, 0.5, 0.97])
@pytest.mark.parametrize("version", [2, 3])
def test_a_cut_blosc_chunk_is_not_read_as_noise(tmp_path, plain, version, length):
    import numcodecs

    blosc = {2: numcodecs.Blosc(), 3: zarr.codecs.BloscCodec()}[version]
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w", zarr_format=version)
    array = group.create_array("x", data=plain, chunks=(20, D), compressors=blosc)
    same(open_rows(array, "x")[:], plain)
    same(open_rows(f"{tmp_path}/g.zarr::x", "x")[:], plain)
    file = tmp_path / "g.zarr/x" / {2: "3.0", 3: "c/3/0"}[version]
    content = file.read_bytes()
    file.write_bytes(content[: int(length * len(content))])
    for source in (array, f"{tmp_path}/g.zarr::x"):
        with pytest.raises(ValueError, match=r"^x .*cannot be opened: chunk .*3.0 is cut short"):
            open_rows(source, "x")


@pytest.mark.parametrize("name", ["npy", "hdf5-path", "parquet", "zarr-path"])
def test_files_of_noise(tmp_path, plain, name):
    source = WRITERS[name](tmp_path, plain)
    file = Path(str(source).partition("::")[0])
    if name == "zarr-path":
        file = file / ("zarr.json" if ZARR >= 3 else ".zarray")
    file.write_bytes(np.random.default_rng(0).bytes(2000))
    with pytest.raises(ValueError, match=r"^x \(.*\) cannot be opened"):
        open_rows(source, "x")


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (3, TypeError, "x is indexed with int"),
        ([0.5], TypeError, "x is indexed with list .* float64"),
        (np.zeros((2, 2), int), TypeError, r"shape \(2, 2\)"),
        ([0, N], IndexError, f"row {N} is asked for; x has {N} rows"),
        ([-N - 1], IndexError, f"row {-N - 1} is asked for"),
        (np.ones(5, bool), IndexError, f"the mask has 5 entries; x has {N} rows"),
    ],
)
def test_wrong_indices(tmp_path, plain, index, error, message):
    with pytest.raises(error, match=message):
        open_rows(in_npy(tmp_path, plain), "x")[index]


def test_nothing_loads_it_whole_unasked(tmp_path, plain):
    x = open_rows(in_npy(tmp_path, plain), "x")
    with pytest.raises(TypeError, match=r"x\[:\] would load it whole"):
        np.asarray(x)
    with pytest.raises(TypeError, match="x is indexed with int"):
        next(iter(x))
    assert repr(x) == f"Rows(x ({tmp_path}/x.npy), 97 x 3, float64)"


@pytest.mark.parametrize("package", ["h5py", "zarr", "pyarrow"])
def test_missing_packages(tmp_path, plain, monkeypatch, package):
    in_hdf5(tmp_path, plain), in_zarr(tmp_path, plain, 3), in_parquet(tmp_path, plain)
    path = {"h5py": "x.h5::/group/x", "zarr": "x.zarr", "pyarrow": "x.parquet"}[package]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"{package}.*pip install 'fastmcmd\[disk\]'"):
        open_rows(f"{tmp_path}/{path}", "x")


def test_an_error_of_the_disk_keeps_its_kind(plain):
    class Unplugged(OldZarr):
        def __getitem__(self, place):
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match=r"x .* in rows 0 to 9: Input/output error") as caught:
        open_rows(Unplugged(plain), "x")[:10]
    assert caught.value.errno == errno.EIO


# ---------------------------------------------------------------- files that change


@pytest.mark.parametrize("name", ["npy", "memmap", "hdf5-path", "zarr-3", "zarr-path", "parquet"])
@pytest.mark.parametrize("how", ["touched", "grown", "replaced", "removed"])
def test_a_changed_file(tmp_path, plain, name, how):
    source = WRITERS[name](tmp_path, plain)
    x = open_rows(source, "x")
    x.check_unchanged()
    file = next(p for p in tmp_path.rglob("*") if p.is_file())
    before = file.stat()
    if how == "touched":
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    elif how == "grown":
        with open(file, "ab") as stream:
            stream.write(b"0")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif how == "replaced":
        other = tmp_path.parent / f"{tmp_path.name}.other"
        other.write_bytes(file.read_bytes())
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        os.replace(other, file)
    else:
        file.unlink()
    with pytest.raises(RuntimeError, match=r"^x changed on disk while it was being read: .*x"):
        x.check_unchanged()


def test_a_dataset_in_a_linked_file(tmp_path, plain):
    in_hdf5(tmp_path, plain)
    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["x"] = h5py.ExternalLink("x.h5", "/group/x")
    x = open_rows(f"{tmp_path}/links.h5::x", "x")
    same(x[:], plain)
    x.check_unchanged()


def test_a_file_cut_while_it_is_read(tmp_path, plain):
    path = in_npy(tmp_path, plain)
    blocks = open_rows(path, "x").blocks(10)
    next(blocks)
    os.truncate(path, 500)
    with pytest.raises(RuntimeError, match="x changed on disk"):
        list(blocks)
