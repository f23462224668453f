"""Where results go: an array of the caller, or a file that appears when it is finished."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd.rows.npy import bytes_of
from fastmcmd.rows.packages import package_of, told
from fastmcmd.rows.zarr import is_zarr


class Output:
    """Where results go, block by block; made by `open_out` and used as a context manager.

    A file appears at its path when the block ends without an error, and not before. What is written to
    an array of the caller is there at once.
    """

    def __init__(self, array: Any, shape: tuple[int, ...], name: str, path: Path | None) -> None:
        self.shape = shape
        self._array, self._path = array, path
        self._failed = (
            f"{name} cannot be written" if path is None else f"{name} ({path}) cannot be written"
        )
        self._file: Any = None
        if path is not None:
            self._part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
            with told(self._failed):
                self._file = open(self._part, "x+b", buffering=0)  # noqa: SIM115 (closed below)
            try:
                with told(self._failed):
                    self._begin()
            except BaseException:
                self.discard()
                raise

    def _begin(self) -> None:
        header = {"descr": "<f8", "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        self._offset = self._file.tell()
        total = self._offset + 8 * int(np.prod(self.shape, dtype=np.int64))
        if hasattr(os, "posix_fallocate"):  # a full disk is better met now than after the work
            try:
                os.posix_fallocate(self._file.fileno(), 0, total)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise  # those two: a file system that cannot reserve
        self._file.truncate(total)

    @property
    def array(self) -> Any:
        """What has been written: the caller's array, or a read-only map of the file."""
        if self._path is None:
            return self._array
        path = self._path if self._file is None else self._part
        return np.lib.format.open_memmap(path, mode="r")

    def write(self, rows: slice, values: Any) -> None:
        """Write ``values`` at consecutive ``rows``."""
        start, stop, _ = rows.indices(self.shape[0])
        values = np.asarray(values)
        needed = (stop - start, *self.shape[1:])
        if values.shape != needed:
            raise ValueError(f"values have shape {values.shape}; {needed} is needed")
        with told(self._failed):
            if self._path is None:
                self._array[start:stop] = values
                return
            row_bytes = 8 * int(np.prod(self.shape[1:], dtype=np.int64))
            self._file.seek(self._offset + start * row_bytes)
            view = bytes_of(np.ascontiguousarray(values, "<f8"))
            while len(view):
                view = view[self._file.write(view) :]

    def commit(self) -> None:
        """Move the finished file to its path."""
        if self._file is not None:
            try:
                with told(self._failed):
                    os.fsync(self._file.fileno())
                    self._file.close()
                    os.replace(self._part, self._path)  # type: ignore[arg-type]
            except BaseException:
                self.discard()
                raise
            self._file = None
        elif hasattr(self._array, "flush"):
            self._array.flush()

    def discard(self) -> None:
        """Remove the unfinished file; an earlier one at the path stays."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._part.unlink(missing_ok=True)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()


def open_out(out: Any, shape: tuple[int, ...], name: str = "out") -> Output:
    """Return the `Output` that writes to ``out``.

    Parameters
    ----------
    out : ndarray, np.memmap, zarr.Array, h5py.Dataset, str or Path
        A writable array of ``shape`` and of float32 or float64, or a path that ends in ``.npy``, where a
        file of float64 will be; its folder must exist.
    shape : tuple of int
        Shape of the results, (q,).
    name : str
        Name of the argument, for messages.

    Raises
    ------
    ValueError, TypeError
        Another shape or type, an array that cannot be written, an unknown end of the path.
    OSError
        The file cannot be made: no folder, no right, no space.

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
        if not path.parent.is_dir():
            raise FileNotFoundError(f"{name}: there is no folder {str(path.parent)!r}")
        return Output(None, shape, name, path)
    stored = package_of(out) == "h5py" or is_zarr(out)
    if not (isinstance(out, np.ndarray) or stored) or not hasattr(out, "dtype"):
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
    return Output(out, shape, name, None)
