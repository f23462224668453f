"""Arrays in files of every format, for tests of readers and writers."""

from __future__ import annotations

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

ZARR = int(zarr.__version__.partition(".")[0])
N, D = 97, 3  # a prime: no chunk size divides it


def table_of(x):
    return pa.table({f"c{j}": x[:, j] for j in range(x.shape[1])})


def in_hdf5(folder, x, **how):
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("group/x", data=x, **how)
    return f"{folder}/x.h5::/group/x"


def in_zarr(folder, x, version, name="x.zarr"):
    how = {"zarr_format": version} if ZARR >= 3 else {}
    array = zarr.open_array(
        str(folder / name), mode="w", shape=x.shape, chunks=(10, 2)[: x.ndim], dtype=x.dtype, **how
    )
    array[:] = x
    return array


def in_parquet(folder, x, **how):
    pq.write_table(table_of(x), folder / "x.parquet", **how)
    return folder / "x.parquet"


def in_npy(folder, x):
    np.save(folder / "x.npy", x)
    return folder / "x.npy"


def map_of(folder, x, **how):
    return np.load(in_npy(folder, x), mmap_mode=how.get("mode", "r"))


class OldZarr:
    """The used part of a version 2 array."""

    def __init__(self, x):
        self._x, self.shape, self.dtype, self.chunks = x, x.shape, x.dtype, (7, x.shape[1])
        self.reads = []

    oindex = None

    def __getitem__(self, place):
        self.reads.append(place)
        return self._x[place]


WRITERS = {
    "npy": in_npy,
    "npy-fortran": lambda folder, x: in_npy(folder, np.asfortranarray(x)),
    "npy-big-endian": lambda folder, x: str(in_npy(folder, x.astype(x.dtype.newbyteorder(">")))),
    "memmap": map_of,
    "memmap-copy-on-write": lambda folder, x: map_of(folder, x, mode="c"),
    "memmap-fortran": lambda folder, x: map_of(folder, np.asfortranarray(x)),
    "memmap-part": lambda folder, x: map_of(folder, np.repeat(np.c_[x, x], 2, axis=0))[::2, D:],
    "hdf5-path": lambda folder, x: in_hdf5(folder, x),
    "hdf5-chunked": lambda folder, x: in_hdf5(folder, x, chunks=(10, 2), compression="gzip"),
    "hdf5-big-endian": lambda folder, x: in_hdf5(folder, x.astype(x.dtype.newbyteorder(">"))),
    "hdf5-object": lambda folder, x: h5py.File(in_hdf5(folder, x)[:-10])["group/x"],
    "zarr-2": lambda folder, x: in_zarr(folder, x, 2),
    "zarr-3": lambda folder, x: in_zarr(folder, x, 3),
    "zarr-path": lambda folder, x: (in_zarr(folder, x, 3), folder / "x.zarr")[1],
    "zarr-duck": lambda folder, x: OldZarr(x),
    "arrow": lambda folder, x: table_of(x),
    "arrow-chunks": lambda folder, x: pa.concat_tables([table_of(x[:40]), table_of(x[40:])]),
    "parquet": lambda folder, x: in_parquet(folder, x),
    "parquet-groups": lambda folder, x: str(in_parquet(folder, x, row_group_size=10)),
}


def same(actual, expected):
    assert type(actual) is np.ndarray
    assert actual.flags.c_contiguous
    assert actual.dtype.isnative
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
