"""Open what an argument names, and check that it is a table of numbers."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd._base.checks import as_array, as_rows, on_device
from fastmcmd.rows.device import DeviceArray
from fastmcmd.rows.formats import FORMATS, Format
from fastmcmd.rows.packages import prefix_errors
from fastmcmd.rows.source import Array
from fastmcmd.rows.stamps import stamp_of
from fastmcmd.rows.table import Rows


def open_rows(
    value: Any, name: str, *, columns: int | None = None, stays: bool = False
) -> Array | Rows:
    """Return what lies on disk as `Rows`, and everything else as a finite (n, d) array.

    Parameters
    ----------
    value : array_like, np.memmap, h5py.Dataset, zarr.Array, pyarrow.Table, str or Path
        Paths: ``"x.npy"``, ``"x.zarr"`` or ``"x.zarr::group/array"``, ``"x.h5::/dataset"``,
        ``"x.parquet"`` or ``"x.parquet::a,b,c"`` (all columns, or these; all must be numbers without
        nulls; the index of a pandas frame does not count). (n,) is taken as (n, 1).
    name : str
        Name of the argument, for messages.
    columns : int, optional
        Number of columns that is needed.
    stays : bool
        Whether what lies on a device is `Rows`, too, and stays there; else it is copied to the host.

    Returns
    -------
    ndarray (n, d) or Rows
        float32 stays, float16 becomes float32, all else float64.

    Raises
    ------
    FileNotFoundError
        There is nothing at the path.
    ValueError, TypeError
        A damaged file, a wrong shape, no real numbers, an unknown end of a path.
    MissingDependencyError
        The package that reads the format is not installed.

    Examples
    --------
    >>> open_rows([1, 2, 3], "x").shape
    (3, 1)
    """
    if isinstance(value, Rows):
        _check_shape(value.shape, value._label, columns)
        return value
    if isinstance(value, str | os.PathLike):
        text = os.fsdecode(value)
        with prefix_errors(f"{name} ({text}) cannot be opened"):
            kind, path, inside = _split(text)
            stamp = stamp_of(path)  # before anything is read of it
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
        known = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes)
        raise ValueError(f"the path ends in none of {known}")
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, f"there is no file {before!r}")
    if not (path.is_file() or path.is_dir()):  # reading a FIFO could wait for ever
        raise ValueError("it is a FIFO, a socket or a device; a file is needed")
    return kind, path, inside.strip()


def _check_shape(shape: tuple[int, ...], label: str, columns: int | None) -> None:
    fits = len(shape) in (1, 2) and 0 not in shape
    if not fits or (columns is not None and (*shape, 1)[1] != columns):
        as_rows(np.broadcast_to(0.0, shape), label, columns=columns)  # raises; holds one number
