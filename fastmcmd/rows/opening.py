"""Opening of arguments as tables of numbers, with checks."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd._base.checks import all_finite, as_array, as_rows, is_tensor, on_device
from fastmcmd.device import cuda
from fastmcmd.rows.arrow import ArrowTable, Parquet
from fastmcmd.rows.hdf5 import Hdf5
from fastmcmd.rows.npy import MemoryMapped, Npy, is_mapped
from fastmcmd.rows.source import Array, RowSource, package_of, prefix_errors, stamp_of
from fastmcmd.rows.table import Rows
from fastmcmd.rows.zarr import Zarr, is_zarr

__all__ = []


def open_rows(
    value: object,
    name: str,
    *,
    columns: int | None = None,
    stays: bool = False,
    is_finite: Callable[[Array], bool] = all_finite,
) -> Array | Rows:
    """Return tables on disk as `Rows`, and everything else as a finite (n, d) array.

    Parameters
    ----------
    value : array_like, np.memmap, h5py.Dataset, zarr.Array, pyarrow.Table, str or Path
        Paths: ``"x.npy"``, ``"x.zarr"`` or ``"x.zarr::group/array"``, ``"x.h5::/dataset"``,
        ``"x.parquet"`` or ``"x.parquet::a,b,c"`` (all columns, or these; all must be numbers without
        nulls; the index of a pandas frame does not count). (n,) is taken as (n, 1).
    name : str
        Name of the argument, for messages.
    columns : int, optional
        Required number of columns.
    stays : bool
        Whether what lies on a device is `Rows`, too, and stays there; else it is copied to the host.
    is_finite : callable
        Tells whether all numbers of an array are finite.

    Returns
    -------
    ndarray (n, d) or Rows
        float32 stays, float16 becomes float32, all else float64.

    Raises
    ------
    FileNotFoundError
        The path does not exist.
    ValueError, TypeError
        A damaged file, a wrong shape, values that are not real numbers, or an unknown file extension.
    MissingDependencyError
        The package that reads the format is not installed.

    Examples
    --------
    >>> open_rows([1, 2, 3], "x").shape
    (3, 1)
    """
    if type(value) is np.ndarray:
        return as_rows(value, name, columns=columns, is_finite=is_finite)
    if isinstance(value, Rows):
        _check_shape(value.shape, value._label, columns)
        return value
    if isinstance(value, str | os.PathLike):
        text = os.fsdecode(value)
        with prefix_errors(f"{name} ({text}) cannot be opened"):
            kind, path, inside = _split(text)
            stamp = stamp_of(path)  # before any of it is read
            source = kind.from_path(path, inside, text)
    elif stays and on_device(value) is not None:
        with prefix_errors(f"{name} cannot be read on its device"):
            source, stamp = DeviceArray(value), {}
    else:
        owner = next((kind for kind in FORMATS if kind.owns(value)), None)
        if owner is None:
            return as_rows(value, name, columns=columns)
        with prefix_errors(f"{name} cannot be opened"):
            source = owner.from_object(value)
            stamp = {} if source.path is None else stamp_of(source.path)
    label = f"{name} ({source.where})"
    _check_shape(source.shape, label, columns)
    if source.dtype.kind == "O":
        raise TypeError(f"{label} holds Python objects or texts; an array of numbers is needed")
    dtype = as_array(np.empty(0, source.dtype), label).dtype
    n, d = (*source.shape, 1)[:2]
    return Rows(name, (int(n), int(d)), dtype, source, stamp)


def _split(text: str) -> tuple[Format, Path, str]:
    before, _, inside = text.partition("::")
    path = Path(before).absolute()  # the working folder may change while rows are read
    kind = next((kind for kind in FORMATS if path.suffix.lower() in kind.suffixes), None)
    if kind is None:
        suffixes = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes)
        raise ValueError(f"the path ends in none of {suffixes}")
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, f"there is no file {before!r}")
    if not (path.is_file() or path.is_dir()):  # reading a FIFO could wait for ever
        raise ValueError("it is a FIFO, a socket or a device; a file is needed")
    return kind, path, inside.strip()


def _check_shape(shape: tuple[int, ...], label: str, columns: int | None) -> None:
    fits = len(shape) in (1, 2) and 0 not in shape
    if not fits or (columns is not None and (*shape, 1)[1] != columns):
        as_rows(np.broadcast_to(0.0, shape), label, columns=columns)  # raises; holds one number


@dataclass(frozen=True)
class Format:
    """A format: its file extensions, the objects of its package, and functions that open both."""

    suffixes: tuple[str, ...]
    from_path: Callable[
        [Path, str, str], RowSource
    ]  # path, the text after "::", the name in messages
    owns: Callable[[Any], bool]
    from_object: Callable[[Any], RowSource]


FORMATS = (
    Format((".npy",), Npy, is_mapped, MemoryMapped),
    Format((".h5", ".hdf5"), Hdf5.from_path, lambda v: package_of(v) == "h5py", Hdf5.from_object),
    Format((".zarr",), Zarr.from_path, is_zarr, Zarr.from_object),
    Format(
        (".parquet", ".pq"),
        Parquet,
        lambda v: package_of(v) == "pyarrow" and type(v).__name__ == "Table",
        ArrowTable,
    ),
)


class DeviceArray(RowSource):
    """An array on a device, whose blocks are downloaded when the host reads them.

    C-contiguous arrays of float32 or float64 are used as they are; others (float16, integers, columns
    first) are copied once, on their device.
    """

    def __init__(self, value: Any) -> None:
        cp, gpu = cuda.cupy(), on_device(value)
        self.path, self._device = None, cp.cuda.Device(gpu)
        self.where = f"{'a torch tensor' if is_tensor(value) else 'a CuPy array'} on cuda:{gpu}"
        with self._device:
            if is_tensor(value):
                value = cp.from_dlpack(_readable(value))
            self.shape, self.dtype = tuple(value.shape), np.dtype(value.dtype)
            if len(self.shape) in (1, 2) and self.dtype.kind in "fiub":
                small = self.dtype.kind == "f" and self.dtype.itemsize <= 4
                self.dtype = np.dtype(np.float32 if small else np.float64)
                rows = cp.ascontiguousarray(value, dtype=self.dtype)
                self.array = rows.reshape(len(rows), -1) if len(rows) else rows
            # Later work on the array uses separate streams.
            cp.cuda.get_current_stream().synchronize()
        self._plain()

    def read(self, start: int, stop: int) -> Array:
        """Return the rows, downloaded to the host."""
        with self._device:
            return np.asarray(self.array[start:stop].get())


def _readable(tensor: Any) -> Any:
    """Return a tensor without gradient, of a type that every version of CuPy supports."""
    tensor = tensor.detach()
    if tensor.dtype.is_complex:
        return tensor
    if not tensor.dtype.is_floating_point:
        return tensor.double()
    return tensor.float() if tensor.element_size() == 2 else tensor
