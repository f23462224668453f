"""Destinations of results: an array of the caller, or a file that appears when it is complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd._base.annotations import AnyArray
from fastmcmd.io import AtomicFile, same_file
from fastmcmd.rows.npy import bytes_of
from fastmcmd.rows.source import package_of, prefix_errors
from fastmcmd.rows.table import Rows
from fastmcmd.rows.zarr import is_zarr


class ArrayOutput:
    """An array of the caller to which results are written block by block.

    `open_out` creates it. Use it as a context manager, like `FileOutput`.
    """

    def __init__(self, array: Any, shape: tuple[int, ...], name: str) -> None:
        self.array, self.shape = array, shape
        self._failed = f"{name} cannot be written"

    def write(self, rows: slice, values: AnyArray) -> None:
        """Write ``values`` at consecutive ``rows``."""
        start, values = _block(rows, values, self.shape)
        with prefix_errors(self._failed):
            self.array[start : start + len(values)] = values

    def __enter__(self) -> ArrayOutput:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and hasattr(self.array, "flush"):
            self.array.flush()


class FileOutput(AtomicFile):
    """A float64 file to which results are written block by block; it appears at its path once committed."""

    def __init__(self, path: Path, shape: tuple[int, ...], name: str) -> None:
        super().__init__(path, name, buffering=0)
        self.shape = shape
        try:
            with self.naming_errors():
                self._begin()
        except BaseException:
            self.discard()
            raise

    def _begin(self) -> None:
        header = {"descr": "<f8", "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self.stream, header)
        self._offset = self.stream.tell()
        total = self._offset + 8 * int(np.prod(self.shape, dtype=np.int64))
        if hasattr(os, "posix_fallocate"):  # report a full disk before the work
            try:
                os.posix_fallocate(self.stream.fileno(), 0, total)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise  # with these two, the file system cannot reserve space
        self.stream.truncate(total)

    @property
    def array(self) -> Any:
        """A read-only map of what has been written."""
        path = self.path if self.stream.closed else self.part
        return np.lib.format.open_memmap(path, mode="r")

    def write(self, rows: slice, values: AnyArray) -> None:
        """Write ``values`` at consecutive ``rows``."""
        start, values = _block(rows, values, self.shape)
        with self.naming_errors():
            self.stream.seek(
                self._offset + start * 8 * int(np.prod(self.shape[1:], dtype=np.int64))
            )
            view = bytes_of(np.ascontiguousarray(values, "<f8"))
            while len(view):
                view = view[self.stream.write(view) :]

    def __enter__(self) -> FileOutput:
        return self


Output = ArrayOutput | FileOutput


def _block(rows: slice, values: Any, shape: tuple[int, ...]) -> tuple[int, Any]:
    """Return the start of a block of values, and the values as an array of the required shape."""
    start, stop, _ = rows.indices(shape[0])
    values = np.asarray(values)
    expected_shape = (stop - start, *shape[1:])
    if values.shape != expected_shape:
        raise ValueError(f"values have shape {values.shape}; {expected_shape} is needed")
    return start, values


def check_apart(out: object, name: str, other_files: Mapping[str, object]) -> None:
    """Raise an error if a target is one of the inputs, or shares memory with one.

    Parameters
    ----------
    out : array or path
        The target of results.
    name : str
        Name of the argument, for messages.
    other_files : dict
        Inputs that must not change, by argument name: arrays, rows on disk, paths of any kind.

    Raises
    ------
    ValueError
        The target is the same file (also through links), the same array of a file, or the same memory.
    """
    mine = _place_of(out)
    for other, value in other_files.items():
        theirs = _place_of(value)
        same = mine is not None and theirs is not None and same_file(mine[0], theirs[0])
        # A file of HDF5 may hold both, as different datasets.
        if same and (mine == theirs or "" in (mine[1], theirs[1])):  # type: ignore[index]
            raise ValueError(f"{name} ({mine[0]}) is {other} itself; name another file")  # type: ignore[index]
        if _share_memory(out, value):
            raise ValueError(f"{name} shares memory with {other}; another array is needed")


def files_of(**inputs: Any) -> dict[str, str]:
    """Return the files that hold arguments, by argument name, for `check_apart`."""
    places = {name: _place_of(value) for name, value in inputs.items()}
    return {name: place[0] for name, place in places.items() if place is not None}


def _place_of(value: Any) -> tuple[str, str] | None:
    """Return the file that holds a value, and its name in the file; None without a file."""
    if isinstance(value, str | os.PathLike):
        path, _, inside = os.fsdecode(value).partition("::")
        return path, inside.strip().strip("/")
    if isinstance(value, Rows):
        path_of_rows = value._source.path
        return None if path_of_rows is None else (str(path_of_rows), _inside(value._source.where))
    if isinstance(value, np.memmap):
        return None if value.filename is None else (str(value.filename), "")
    if package_of(value) == "h5py" and value:  # a closed dataset is false, and has no name
        return value.file.filename, str(value.name).strip("/")
    if is_zarr(value):
        store = getattr(value, "store", None)
        root = getattr(store, "root", getattr(store, "path", None))
        inside = str(getattr(value, "path", "")).strip("/")
        return None if root is None else (str(Path(root) / inside), "")
    return None


def _inside(where: str) -> str:
    return where.partition("::")[2].strip().strip("/")


def _share_memory(one: Any, other: Any) -> bool:
    both = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    return both and np.shares_memory(one, other)


def open_out(out: Any, shape: tuple[int, ...], name: str = "out") -> Output:
    """Return the `Output` that writes to ``out``.

    Parameters
    ----------
    out : ndarray, np.memmap, zarr.Array, h5py.Dataset, str or Path
        A writable float32 or float64 array of ``shape``, or a path that ends in ``.npy`` for a float64
        file, in an existing folder.
    shape : tuple of int
        Shape of the results, (q,).
    name : str
        Name of the argument, for messages.

    Raises
    ------
    ValueError, TypeError
        Another shape or type, a read-only array, or an unknown file extension.
    OSError
        The file cannot be created: missing folder, missing permission, or no space.

    Examples
    --------
    >>> result = np.zeros(4)
    >>> with open_out(result, (4,)) as target:
    ...     target.write(slice(1, 3), [5.0, 6.0])
    >>> result.tolist()
    [0.0, 5.0, 6.0, 0.0]
    """
    if isinstance(out, str | os.PathLike):
        path = Path(os.fsdecode(out)).absolute()
        if path.suffix.lower() != ".npy" or path.is_dir():
            raise ValueError(
                f"{name} is {str(out)!r}; the path of a file that ends in .npy is needed"
            )
        return FileOutput(path, shape, name)
    is_stored = package_of(out) == "h5py" or is_zarr(out)
    if not (isinstance(out, np.ndarray) or is_stored) or not hasattr(out, "dtype"):
        raise TypeError(f"{name} is a {type(out).__name__}; an array or a path is needed")
    if tuple(out.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(out.shape)}; {shape} is needed")
    if out.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} has dtype {out.dtype}; float64 or float32 is needed")
    if isinstance(out, np.ndarray):
        locked = not out.flags.writeable
    else:
        locked = getattr(out, "read_only", False) or (hasattr(out, "file") and out.file.mode == "r")
    if locked:
        raise ValueError(f"{name} is read-only; an array that can be written is needed")
    return ArrayOutput(out, shape, name)
