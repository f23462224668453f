"""A file of numbers that do not fit in memory: here the Cholesky factor.

A file without a name leaves nothing behind, however the process ends. A file with a name lets a run that
resumes from a checkpoint read what an earlier run wrote. The name is random, and the file is created
exclusively and readable by its owner only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmcmd._base.annotations import DType
from fastmcmd._base.memory import format_bytes
from fastmcmd.backends.base import Array
from fastmcmd.io.temporary import create_file, open_ours

__all__ = ["FileName", "ScratchFile"]

_RESERVED_AT_ONCE = 1 << 30


@dataclass(frozen=True)
class FileName:
    """A file that a later run can find.

    Attributes
    ----------
    tag, suffix : str
        Parts of the name of a new file; see `fastmcmd.io.temporary`.
    resumed_name : str or None
        Name of the file to resume. If it is missing, has another size, or is in use by another run, a new
        file is created.
    """

    tag: str
    suffix: str
    resumed_name: str | None = None


class ScratchFile:
    """Numbers in a file, accessed by position with plain reads and writes, which occupy no memory.

    Parameters
    ----------
    directory : str or os.PathLike
        Existing folder.
    count : int
        Count of numbers in the file; their space is reserved at once if the file system supports that.
    dtype : numpy.dtype
        Type of the numbers.
    file_name : FileName, optional
        Gives the file a name in the folder. Default: a file without a name.
    argument : str, optional
        The argument that requested the file, with its value, for messages; default ``cache_dir``.

    Attributes
    ----------
    reopened : bool
        Whether an existing file was opened.
    name : str or None
        Name of the file in the folder.

    Raises
    ------
    OSError
        The folder is missing or cannot be written, or has too little space; the message names the
        argument.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        count: int,
        dtype: DType,
        file_name: FileName | None = None,
        argument: str | None = None,
    ) -> None:
        self.nbytes = count * dtype.itemsize
        self._itemsize = dtype.itemsize
        self._directory = os.fspath(directory)
        self._argument = argument or f"cache_dir is {self._directory!r}"
        self._raw: Any = None
        self._path: str | None = None
        self.name: str | None = None
        handle = None if file_name is None else self._reopen(file_name)
        self.reopened = handle is not None
        if handle is not None:
            self._raw = os.fdopen(handle, "r+b", 0)
        if not os.path.isdir(self._directory):
            raise FileNotFoundError(errno.ENOENT, f"{self._argument}; an existing folder is needed")
        free = shutil.disk_usage(self._directory).free
        if free < self.nbytes and not self.reopened:
            raise OSError(
                errno.ENOSPC,
                f"{self._argument}; the Cholesky factor needs {format_bytes(self.nbytes)} there, and "
                f"{format_bytes(free)} are free; name a folder on a larger disk",
            )
        try:
            if file_name is None:
                self._raw = tempfile.TemporaryFile(  # noqa: SIM115 (open until `close`)
                    prefix="fastmcmd-", dir=directory, buffering=0
                )
            elif not self.reopened:
                handle, path = create_file(Path(self._directory), file_name.tag, file_name.suffix)
                self._raw, self._path = os.fdopen(handle, "r+b", 0), str(path)
                self.name = path.name
            if not self.reopened:
                self._reserve()
                self._raw.truncate(self.nbytes)
        except OSError as error:
            raise self._explained("creating", error) from error
        except BaseException:
            self.close()
            raise

    def _reopen(self, file_name: FileName) -> int | None:
        """Open the file to resume; return None if no file of this size is free to use."""
        if file_name.resumed_name is None:
            return None
        path = Path(self._directory) / file_name.resumed_name
        handle = open_ours(path, os.O_RDWR)
        if handle is not None and os.fstat(handle).st_size != self.nbytes:
            os.close(handle)
            handle = None
        if handle is not None:
            self._path, self.name = str(path), file_name.resumed_name
        return handle

    def _reserve(self) -> None:
        """Reserve the space now: a full disk or a quota then shows before hours of work."""
        if not hasattr(os, "posix_fallocate"):
            return
        unknown = (errno.EINVAL, errno.ENOSYS, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOTSUP)
        for start in range(0, self.nbytes, _RESERVED_AT_ONCE):
            try:
                size = min(_RESERVED_AT_ONCE, self.nbytes - start)
                os.posix_fallocate(self._raw.fileno(), start, size)
            except OSError as error:
                if error.errno in unknown:  # unsupported here; writing reports a full disk
                    return
                raise

    def _explained(self, action: str, error: OSError) -> OSError:
        self.close()
        reason = error.strerror or str(error)
        return OSError(
            error.errno or errno.EIO,
            f"{self._argument}; {action} the file of the Cholesky factor "
            f"({format_bytes(self.nbytes)}) failed: {reason}",
        )

    def write(self, offset: int, numbers: Array) -> None:
        """Write contiguous ``numbers`` at ``offset`` numbers from the start."""
        view = numbers.data.cast("B")
        try:
            self._raw.seek(offset * self._itemsize)
            while view.nbytes:
                view = view[self._raw.write(view) :]
        except OSError as error:
            raise self._explained("writing", error) from error

    def read(self, offset: int, out: Array) -> None:
        """Fill contiguous ``out`` from ``offset`` numbers from the start."""
        view = out.data.cast("B")
        try:
            self._raw.seek(offset * self._itemsize)
            while view.nbytes:
                byte_count = self._raw.readinto(view)
                if not byte_count:
                    raise OSError(errno.EIO, "the file is shorter than what was written")
                view = view[byte_count:]
        except OSError as error:
            raise self._explained("reading", error) from error

    def expect(self, offset: int, count: int) -> None:
        """Ask the system to read ahead while BLAS works."""
        if count and hasattr(os, "posix_fadvise"):
            start, size = offset * self._itemsize, count * self._itemsize
            os.posix_fadvise(self._raw.fileno(), start, size, os.POSIX_FADV_WILLNEED)

    def sync(self) -> None:
        """Wait until all writes are on the disk."""
        try:
            os.fsync(self._raw.fileno())
        except OSError as error:
            raise self._explained("writing", error) from error

    def close(self, *, leave: bool = False) -> None:
        """Close the file and remove it; with ``leave``, a file with a name stays."""
        if self._raw is not None:
            path = None if leave else self._path
            if path is not None and os.name != "nt":
                _remove(path)  # while the open file still holds the lock
            self._raw.close()
            if path is not None and os.name == "nt":  # Windows cannot remove an open file
                _remove(path)
            self._path = None


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
